//! The access control list at work.

use super::list::{ListError, Prepared};
use crate::firewall::rule::{Action, Rule};
use std::error::Error;
use twinpath_classify::acl::Examined;
use twinpath_core::wire::{Fragment, Network};
use twinpath_core::{DropReason, Instant};
use twinpath_rulecache::{Affected, Answers, Hits, Reconfigure, Recorded, RuleFunction, Verdict};

/// The entry of the default; those of rules come after it. They are only counted: a rule that
/// changes concerns packets that met others, so that any change concerns everything.
const DEFAULT: u32 = 0;

/// Bits of addresses and of ports are examined in steps of so many, so that cached rules share
/// few masks.
const STEP_BITS: u32 = 8;

/// What becomes of a list while packets flow.
#[derive(Debug)]
pub enum NewList {
    /// Another list takes its place, with its hits at zero.
    Whole(Box<Prepared>),
    /// A rule is put before the one at `index`, or last.
    Insert {
        /// The place, from 0.
        index: usize,
        /// The rule.
        rule: Rule,
    },
    /// The rule at `index` is taken out.
    Remove {
        /// The place, from 0.
        index: usize,
    },
}

/// A stateless access control list; see the [module](super).
#[derive(Debug)]
pub struct AccessList {
    list: Prepared,
    /// Hits of the default, and of each rule.
    hits: Vec<u64>,
    allowed: u64,
    denied: u64,
    not_ip: u64,
}

impl AccessList {
    /// A function with this list.
    pub fn new(list: Prepared) -> Self {
        Self {
            hits: vec![0; list.rules.len() + 1],
            list,
            allowed: 0,
            denied: 0,
            not_ip: 0,
        }
    }

    /// The rules in order, with the packets that each has decided.
    pub fn rules(&self) -> impl Iterator<Item = (&Rule, u64)> {
        self.list.rules.iter().zip(self.hits[1..].iter().copied())
    }

    /// Packets that the default has decided.
    pub fn default_hits(&self) -> u64 {
        self.hits[0]
    }

    fn insert(&mut self, index: usize, rule: Rule) -> Result<(), ListError> {
        self.list.insert(index, rule)?;
        self.hits.insert(index + 1, 0);
        Ok(())
    }

    fn remove(&mut self, index: usize) -> Result<(), ListError> {
        let len = self.list.rules.len();
        let removed = self.list.remove(index);
        removed.ok_or(ListError::Position { index, len })?;
        self.hits.remove(index + 1);
        Ok(())
    }

    /// The entry of what decides the packet.
    fn entry(&mut self, packet: &mut Recorded<'_>) -> u32 {
        let rule = if packet.is_plain() {
            let mut examined = Examined::default();
            let rule = self.list.rule(&packet.headers(), &mut examined);
            packet.examined(&examined.rounded(STEP_BITS, STEP_BITS));
            rule
        } else {
            self.rule_of_odd(packet)
        };
        rule.map_or(DEFAULT, |rule| DEFAULT + 1 + rule)
    }

    /// Of a packet that has no key.
    fn rule_of_odd(&mut self, packet: &mut Recorded<'_>) -> Option<u32> {
        let (headers, layout) = (packet.headers(), packet.quote().layout);
        if layout.network == Network::None {
            self.not_ip += 1;
            return None;
        }
        match layout.fragment {
            Fragment::Whole => self.list.rule(&headers, &mut Examined::default()),
            part => self
                .list
                .rule_of_fragment(&headers, part == Fragment::First),
        }
    }

    fn action(&self, entry: u32) -> Action {
        let rule = (entry as usize).checked_sub(DEFAULT as usize + 1);
        let rule = rule.and_then(|rule| self.list.rules.get(rule));
        rule.map_or(self.list.default, |rule| rule.action)
    }

    fn count(&mut self, entry: u32, packets: u64) {
        let place = (entry as usize).checked_sub(DEFAULT as usize);
        if let Some(hits) = place.and_then(|place| self.hits.get_mut(place)) {
            *hits += packets;
            match self.action(entry) {
                Action::Allow => self.allowed += packets,
                Action::Deny => self.denied += packets,
            }
        }
    }
}

impl RuleFunction for AccessList {
    fn name(&self) -> &'static str {
        super::NAME
    }

    fn handle(&mut self, packet: &mut Recorded<'_>, _: Instant, _: &mut Answers<'_>) -> Verdict {
        let entry = self.entry(packet);
        packet.depends_on(entry, None);
        self.count(entry, 1);
        match self.action(entry) {
            Action::Allow => Verdict::Forward,
            Action::Deny => Verdict::Drop(DropReason::Denied),
        }
    }

    fn credit(&mut self, entry: u32, hits: &Hits) {
        self.count(entry, hits.packets);
    }

    fn reads_payload(&self) -> bool {
        false
    }

    fn counters(&self, each: &mut dyn FnMut(&'static str, u64)) {
        each("allowed", self.allowed);
        each("denied", self.denied);
        each("default_hits", self.default_hits());
        each("not_ip", self.not_ip);
    }
}

impl Reconfigure for AccessList {
    type New = NewList;

    fn affected_by(&self, _: &NewList) -> Affected {
        Affected::Everything
    }

    fn apply(&mut self, new: &mut NewList) -> Result<(), Box<dyn Error + Send + Sync>> {
        match new {
            NewList::Whole(list) => {
                self.hits = vec![0; list.rules.len() + 1];
                std::mem::swap(&mut self.list, list.as_mut());
            }
            NewList::Insert { index, rule } => self.insert(*index, rule.clone())?,
            NewList::Remove { index } => self.remove(*index)?,
        }
        Ok(())
    }
}
