//! The access control list at work.

use super::list::{ListError, Prepared};
use crate::firewall::rule::{Action, Rule};
use twinpath_classify::acl::Examined;
use twinpath_core::wire::{Fragment, Network};
use twinpath_core::{DropReason, Instant};
use twinpath_rulecache::{Answers, Hits, Recorded, RuleFunction, Verdict};

/// The entry that every decision depends on: the list as a whole.
pub const LIST: u32 = 0;
/// The entry of the default; those of rules come after it.
const DEFAULT: u32 = 1;

/// Bits of addresses and of ports are examined in steps of so many, so that cached rules share
/// few masks.
const STEP_BITS: u32 = 8;

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

    /// Another list takes effect, with its hits at zero. [`LIST`] must be free.
    pub fn replace(&mut self, list: Prepared) {
        self.hits = vec![0; list.rules.len() + 1];
        self.list = list;
    }

    /// Puts a rule before the one at `index`, or last. [`LIST`] must be free.
    ///
    /// # Errors
    /// If the list is full, or shorter than `index`; then nothing has changed.
    pub fn insert(&mut self, index: usize, rule: Rule) -> Result<(), ListError> {
        self.list.insert(index, rule)?;
        self.hits.insert(index + 1, 0);
        Ok(())
    }

    /// Takes out the rule at `index`, if there is one. [`LIST`] must be free.
    pub fn remove(&mut self, index: usize) -> Option<Rule> {
        let rule = self.list.remove(index)?;
        self.hits.remove(index + 1);
        Some(rule)
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
        packet.depends_on(LIST, None);
        packet.depends_on(entry, None);
        self.count(entry, 1);
        match self.action(entry) {
            Action::Allow => Verdict::Forward,
            Action::Deny => Verdict::Drop(DropReason::Denied),
        }
    }

    fn credit(&mut self, entry: u32, hits: &Hits) {
        if entry != LIST {
            self.count(entry, hits.packets);
        }
    }

    fn counters(&self, each: &mut dyn FnMut(&'static str, u64)) {
        each("allowed", self.allowed);
        each("denied", self.denied);
        each("default_hits", self.default_hits());
        each("not_ip", self.not_ip);
    }
}
