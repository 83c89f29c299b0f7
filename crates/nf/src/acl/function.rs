//! The access control list at work.

use super::list::{Classifiers, Prepared};
use crate::firewall::rule::{Action, Rule};
use crate::records::EntryHits;
use twinpath_classify::acl::Examined;
use twinpath_core::wire::Fragment;
use twinpath_core::{DropReason, Instant};
use twinpath_rulecache::{Answers, EntryText, Hits, Recorded, RuleFunction, Verdict};

/// The entry of the default; those of rules come after it.
pub(super) const DEFAULT: u32 = 0;

/// Bits of addresses and of ports are examined in steps of so many, so that cached rules share
/// few masks.
const STEP_BITS: u32 = 8;

/// A stateless access control list; see the [module](super).
#[derive(Debug)]
pub struct AccessList {
    pub(super) list: Prepared,
    /// The entries of the rules, in order. A rule has the same one for as long as it is there.
    pub(super) entries: Vec<u32>,
    /// What entries decide, and how often they did.
    pub(super) decided: Vec<Decided>,
    /// Entries of rules that are gone.
    pub(super) free: Vec<u32>,
    allowed: u64,
    denied: u64,
}

/// What an entry decides, and for how many packets it did.
#[derive(Copy, Clone, Debug)]
pub(super) struct Decided {
    pub action: Action,
    pub packets: u64,
}

impl Decided {
    pub const fn first(action: Action) -> Self {
        Self { action, packets: 0 }
    }
}

impl AccessList {
    /// A function with this list.
    pub fn new(list: Prepared) -> Self {
        let actions = list.rules.iter().map(|rule| rule.action);
        let actions = std::iter::once(list.default).chain(actions);
        Self {
            decided: actions.map(Decided::first).collect(),
            entries: (DEFAULT + 1..).take(list.rules.len()).collect(),
            free: Vec::new(),
            list,
            allowed: 0,
            denied: 0,
        }
    }

    /// The rules in order, with the packets that each has decided.
    pub fn rules(&self) -> impl Iterator<Item = (&Rule, u64)> {
        let packets = |&entry: &u32| self.decided[entry as usize].packets;
        self.list.rules.iter().zip(self.entries.iter().map(packets))
    }

    /// How many rules there are.
    pub fn rule_count(&self) -> usize {
        self.entries.len()
    }

    /// How often a rule decided, counted from 0; the number behind the last rule is the default's.
    pub fn hits(&self, place: usize) -> Option<EntryHits> {
        let (rule, text, entry) = match self.entries.get(place) {
            Some(&entry) => (
                Some(place + 1),
                self.list.rules.get(place)?.to_string(),
                entry,
            ),
            None => (None, format!("the default: {}", self.list.default), DEFAULT),
        };
        Some(EntryHits {
            rule,
            text,
            packets: self.decided.get(entry as usize)?.packets,
            bytes: None,
        })
    }

    /// Packets that the default has decided.
    pub fn default_hits(&self) -> u64 {
        self.decided[DEFAULT as usize].packets
    }

    /// The entry of what decides the packet.
    fn entry(&mut self, packet: &mut Recorded<'_>) -> u32 {
        // The port counts as examined only if it may matter.
        let ingress = if self.list.has_ingress() {
            packet.ingress()
        } else {
            0
        };
        let rules = self.list.at(ingress);
        let rule = if packet.is_plain() {
            let mut examined = Examined::default();
            let rule = rules.rule(&packet.headers(), &mut examined);
            packet.examined(&examined.rounded(STEP_BITS, STEP_BITS));
            rule
        } else {
            rule_of_odd(rules, packet)
        };
        let entry = rule.and_then(|rule| self.entries.get(rule as usize));
        entry.copied().unwrap_or(DEFAULT)
    }

    fn count(&mut self, entry: u32, packets: u64) -> Action {
        let Some(decided) = self.decided.get_mut(entry as usize) else {
            return self.list.default;
        };
        decided.packets += packets;
        match decided.action {
            Action::Allow => self.allowed += packets,
            Action::Deny => self.denied += packets,
        }
        decided.action
    }
}

/// The rule for a packet that has no key.
fn rule_of_odd(rules: &Classifiers, packet: &mut Recorded<'_>) -> Option<u32> {
    let headers = packet.headers();
    match packet.quote().layout.fragment {
        Fragment::Whole => rules.rule(&headers, &mut Examined::default()),
        part => rules.rule_of_fragment(&headers, part == Fragment::First),
    }
}

impl RuleFunction for AccessList {
    fn name(&self) -> &'static str {
        super::NAME
    }

    fn handle(&mut self, packet: &mut Recorded<'_>, _: Instant, _: &mut Answers<'_>) -> Verdict {
        let entry = self.entry(packet);
        packet.depends_on(entry, None);
        match self.count(entry, 1) {
            Action::Allow => Verdict::Forward,
            Action::Deny => Verdict::Drop(DropReason::Denied),
        }
    }

    fn credit(&mut self, entry: u32, hits: &Hits) {
        self.count(entry, hits.packets);
    }

    fn entry(&self, entry: u32) -> Option<EntryText> {
        if entry == DEFAULT {
            let default = self.list.default;
            return Some(EntryText::other(format!("the default: {default}")));
        }
        let place = self.entries.iter().position(|other| *other == entry)?;
        let rule = Some(place + 1);
        let text = self.list.rules.get(place)?.to_string();
        Some(EntryText { rule, text })
    }

    fn counters(&self, each: &mut dyn FnMut(&'static str, u64)) {
        each("allowed", self.allowed);
        each("denied", self.denied);
        each("default_hits", self.default_hits());
    }
}
