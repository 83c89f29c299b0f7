//! Changes of functions: the rules that they concern are taken out, and none like them admitted
//! until the change is made.

use super::{Manager, Successor};
use crate::message::{CacheMessage, RuleId};
use crate::reconfigure::{Affected, Concern, may_meet};
use crate::recording::EntryId;
use crate::synthesis::Rule;
use twinpath_core::Instant;

impl Manager {
    /// Begins to change what the function at a place has: takes out the rules that this concerns,
    /// and admits no others like them. Wait until [`Self::may_change`]. Returns how many rules go.
    pub fn begin_change(
        &mut self,
        place: u8,
        affected: Affected,
        now: Instant,
        out: &mut Vec<CacheMessage>,
    ) -> usize {
        let stays = |successor: &Successor| !affected.concerns(place, &successor.rule);
        self.successors.retain(stays);
        let mut going = self.concerned(place, &affected);
        going.sort_unstable();
        going.dedup();
        going.iter().for_each(|&id| self.invalidate(id, now, out));
        self.changing.push((place, affected));
        going.len()
    }

    /// Whether all rules are gone that the changes concern.
    pub fn may_change(&self) -> bool {
        self.changing
            .iter()
            .all(|(place, affected)| self.concerned(*place, affected).is_empty())
    }

    /// The changes have been made, or will not be: rules are admitted again.
    pub fn end_change(&mut self) {
        self.changing.clear();
    }

    /// Whether something is about to change that concerns a rule.
    pub(super) fn is_changing(&self, rule: &Rule) -> bool {
        self.changing
            .iter()
            .any(|(place, affected)| affected.concerns(*place, rule))
    }

    /// The places of the rules that a change concerns, some perhaps twice.
    fn concerned(&self, function: u8, affected: &Affected) -> Vec<RuleId> {
        let all = 0..self.slots.len() as u32;
        let is_there = |id: &RuleId| self.slots[*id as usize].rule.is_some();
        let Affected::Rules(concerns) = affected else {
            return all.filter(is_there).collect();
        };
        let mut found = Vec::new();
        for Concern { entries, packets } in concerns {
            let meet = |id: &RuleId| {
                let place = &self.slots[*id as usize];
                let rule = place.rule.as_ref();
                rule.is_some_and(|rule| may_meet(packets, rule, place.hides_ends))
            };
            match entries {
                None => found.extend(all.clone().filter(meet)),
                Some(entries) => entries.iter().for_each(|&entry| {
                    let rules = self.index.rules(EntryId { function, entry });
                    found.extend(rules.filter(meet));
                }),
            }
        }
        found
    }
}
