//! The tables of both IP versions as one: their lines are numbered one after the other.

use super::line::FlowOfLine;
use super::v4::LineKey;
use super::v6::LineKeyV6;
use super::{FlowTable, Look};
use crate::action::ActionWords;
use crate::key::MatchKey;
use crate::message::{RuleId, Uses};
use twinpath_core::Instant;

/// Rules of one TCP or UDP flow.
pub(crate) struct FlowTables {
    pub v4: FlowTable<LineKey>,
    pub v6: FlowTable<LineKeyV6>,
}

/// A line of one of the tables.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    V4(u32),
    V6(u32),
}

/// What a packet's key is to the tables.
enum Flow {
    V4(LineKey),
    V6(LineKeyV6),
}

impl Flow {
    #[inline(always)]
    fn of(key: &MatchKey) -> Option<Self> {
        match LineKey::of(&key.0) {
            Some(flow) => Some(Self::V4(flow)),
            None => LineKeyV6::of(&key.0).map(Self::V6),
        }
    }
}

impl FlowTables {
    /// Tables for so many rules each, whose numbers are below `ids`.
    pub fn new(limit: usize, ids: usize, seed: u64) -> Self {
        Self {
            v4: FlowTable::new(limit, ids, seed),
            v6: FlowTable::new(limit, ids, seed),
        }
    }

    /// Takes the memory now.
    pub fn touch(&mut self) {
        self.v4.touch();
        self.v6.touch();
    }

    pub const fn len(&self) -> usize {
        self.v4.len() + self.v6.len()
    }

    /// Whether any rule has a guard.
    #[inline(always)]
    pub const fn has_guards(&self) -> bool {
        self.v4.has_guards() || self.v6.has_guards()
    }

    pub fn memory_bytes(&self) -> usize {
        self.v4.memory_bytes() + self.v6.memory_bytes()
    }

    /// Which table's line one is.
    #[inline(always)]
    pub fn at(&self, line: u32) -> Place {
        match line.checked_sub(self.v4.lines()) {
            None => Place::V4(line),
            Some(line) => Place::V6(line),
        }
    }

    /// The number of a line of the second table.
    #[inline(always)]
    fn behind_v4(&self, line: u32) -> u32 {
        self.v4.lines() + line
    }

    /// Where the search for a key begins; what lies there is on its way. `None` for what has no line.
    #[inline(always)]
    pub fn fetch(&self, key: &MatchKey) -> Option<u32> {
        Some(match Flow::of(key)? {
            Flow::V4(flow) => self.v4.prefetch(flow),
            Flow::V6(flow) => self.behind_v4(self.v6.prefetch(flow)),
        })
    }

    /// What is read of a line is on its way.
    #[inline(always)]
    pub fn prefetch_line(&self, line: u32) {
        match self.at(line) {
            Place::V4(line) => self.v4.prefetch_line(line),
            Place::V6(line) => self.v6.prefetch_line(line),
        }
    }

    /// What will be read of a rule is on its way.
    pub fn prefetch_rule(&self, id: RuleId) {
        self.v4.prefetch_rule(id);
        self.v6.prefetch_rule(id);
    }

    /// The line whose rule a packet meets.
    #[inline]
    pub fn find(&self, key: &MatchKey) -> Option<u32> {
        match Flow::of(key)? {
            Flow::V4(flow) => self.v4.find(flow),
            Flow::V6(flow) => self.v6.find(flow).map(|line| self.behind_v4(line)),
        }
    }

    /// The line whose rule a packet that arrived at `now` may use, searched from where [`Self::fetch`]
    /// said, or from where it was before.
    #[inline]
    pub fn usable_from(&self, near: u32, key: &MatchKey, now: Instant) -> Option<Place> {
        match (self.at(near), Flow::of(key)?) {
            (Place::V4(near), Flow::V4(flow)) => {
                self.v4.usable_from(near, flow, now).map(Place::V4)
            }
            (Place::V6(near), Flow::V6(flow)) => {
                self.v6.usable_from(near, flow, now).map(Place::V6)
            }
            _ => None,
        }
    }

    /// Whether a line holds the rule that packets with this key meet.
    pub fn is_met(&self, line: u32, key: &MatchKey) -> bool {
        match (self.at(line), Flow::of(key)) {
            (Place::V4(line), Some(Flow::V4(flow))) => self.v4.is_met(line, flow),
            (Place::V6(line), Some(Flow::V6(flow))) => self.v6.is_met(line, flow),
            _ => false,
        }
    }

    /// Whether a packet that arrived at `now` meets the rule of a line.
    #[inline]
    pub fn look(&self, line: u32, key: &MatchKey, now: Instant) -> Look {
        match (self.at(line), Flow::of(key)) {
            (Place::V4(line), Some(Flow::V4(flow))) => self.v4.look(line, flow, now),
            (Place::V6(line), Some(Flow::V6(flow))) => self.v6.look(line, flow, now),
            _ => Look::Another,
        }
    }

    /// The rule of a flow, whatever its guard.
    pub fn rule_of(&self, key: &MatchKey) -> Option<RuleId> {
        match Flow::of(key)? {
            Flow::V4(flow) => self.v4.rule_of(flow),
            Flow::V6(flow) => self.v6.rule_of(flow),
        }
    }

    /// The rule of a line that was found.
    pub fn rule_at(&self, line: u32) -> RuleId {
        match self.at(line) {
            Place::V4(line) => self.v4.rule_at(line),
            Place::V6(line) => self.v6.rule_at(line),
        }
    }

    /// How a rule was used since its uses were last taken; `None` if it is not here.
    pub fn uses(&self, id: RuleId) -> Option<Uses> {
        self.v4.uses(id).or_else(|| self.v6.uses(id))
    }

    /// Takes the counts of a rule's uses out, to be added up elsewhere; `None` if it is not here, or was
    /// not used since.
    pub fn take_uses(&mut self, id: RuleId) -> Option<Uses> {
        self.v4.take_uses(id).or_else(|| self.v6.take_uses(id))
    }

    /// Adds a rule for a flow that has none, if it is one for these tables. Returns whether it was
    /// added.
    pub fn insert(
        &mut self,
        id: RuleId,
        rule: (&MatchKey, &MatchKey),
        action: &ActionWords,
        last: Instant,
    ) -> bool {
        match Flow::of(rule.1) {
            Some(Flow::V4(_)) => self.v4.insert(id, rule, action, last),
            Some(Flow::V6(_)) => self.v6.insert(id, rule, action, last),
            None => false,
        }
    }

    /// Removes a rule; returns its uses since they were last taken, or `None` if it is not here.
    pub fn remove(&mut self, id: RuleId) -> Option<Uses> {
        self.v4.remove(id).or_else(|| self.v6.remove(id))
    }
}
