//! Access control: an ordered list of rules, of which the first that matches a packet wins.
//!
//! Rules of IPv4 and IPv6 stand in one list; inside there is a decision tree for each version. A
//! node of a tree looks at up to eight consecutive bits of one field and goes on to one of up to
//! 256 children (as the cutting trees HiCuts, HyperCuts and EffiCuts do). Two things differ from
//! those:
//!
//! * A node has a *rest* besides its children, for rules that are too wide to be told apart by
//!   its bits. Without it such rules are copied into every child, which is what makes cutting
//!   trees grow out of bounds. Rules are still copied where that is cheap, within a budget of
//!   eight entries per rule.
//! * A node checks the bits before those it looks at, so that a packet from another network
//!   leaves at once, having shown only the bits in which it differs.
//!
//! Every pointer carries the smallest position below it, and what cannot win is not visited. A
//! tuple space would be as easy to change, but can say only "no entry under this mask", which
//! examines the whole mask; a path through a tree examines about as many bits as it takes to tell
//! the rules apart.
//!
//! # Examined bits
//! [`Acl::lookup_examined`] says which bits of the headers decide the answer, including those
//! that show that earlier rules do *not* match: any headers that agree on them get the same
//! answer. The IP version counts as examined always.
//!
//! # Packets without ports
//! The classifier compares ports of any protocol. A list in which rules with ports do not speak
//! of, say, ICMP gives such rules a protocol (one rule per protocol that has ports). Fragments,
//! whose ports are unknown, need a list of their own in which each rule with ports is left out or
//! opened, whichever is safe.
//!
//! # Cost of a change
//! Inserting or removing one of 10,000 rules rewrites the leaves that hold it and moves the
//! numbers of later rules: less than ten microseconds. Subtrees of up to some hundred rules are
//! rebuilt by themselves when half of them has changed, which takes up to a few milliseconds. The
//! whole tree (a tenth of a second) is rebuilt in [`Acl::rebuild`], for which the owner finds a
//! quiet moment when [`Acl::changes`] has become a good part of [`Acl::len`]; by itself only if
//! wide rules inserted later have been copied more than thirty times on average. When about
//! eighteen rules (in a list of 10,000) have been inserted at the same place, all are numbered
//! anew, which takes about a millisecond.

mod build;
mod entry;
mod examine;
pub mod linear;
mod rule;
#[cfg(test)]
mod tests;
mod tree;
mod update;

use thiserror::Error;
use twinpath_core::wire::Address;

pub use self::rule::{Examined, Headers, PortRange, Rule};

use self::entry::{
    DESTINATION, DESTINATION_PORT, Entry, FIELDS, PROTOCOL, Point, SOURCE, SOURCE_PORT,
};
use self::examine::{Known, examine_match};
use self::tree::{NO_LABEL, Tree, Winner};
use crate::prefix::MAPPED_BITS;
use crate::word::Word;

/// Bytes that a rule takes in a list: what is measured for lists of three styles, of 1,000 to 100,000
/// rules, is half of that to a tenth more (a test holds it to that).
pub const RULE_BYTES: usize = 512;

/// Most rules in one list.
pub const MAX_RULES: usize = 1 << 20;

/// Why a list was not changed.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Error)]
pub enum AclError {
    /// It holds as many rules as it may.
    #[error("a list of {0} rules is full")]
    Full(usize),
    /// A position beyond its end.
    #[error("there is no position {index} in a list of {len} rules")]
    Position {
        /// The position.
        index: usize,
        /// Rules in the list.
        len: usize,
    },
}

/// An ordered list of rules, compiled for matching.
#[derive(Clone, Debug)]
pub struct Acl {
    rules: Vec<Slot>,
    free: Vec<u32>,
    /// Slots in the order of their rules.
    order: Vec<u32>,
    /// Where a slot stands in the order.
    positions: Vec<u32>,
    v4: Tree<u32>,
    v6: Tree<u128>,
    limit: usize,
    changes: usize,
}

#[derive(Copy, Clone, Debug)]
struct Slot {
    rule: Rule,
    /// Smaller labels stand earlier; there are gaps for rules to come.
    label: u32,
}

impl Acl {
    /// A list of rules that may grow to `limit` (at most [`MAX_RULES`]).
    ///
    /// # Errors
    /// If there are more rules than the limit.
    pub fn new(rules: &[Rule], limit: usize) -> Result<Self, AclError> {
        let limit = limit.min(MAX_RULES);
        if rules.len() > limit {
            return Err(AclError::Full(limit));
        }
        let slots: Vec<Slot> = rules
            .iter()
            .zip(labels(rules.len()))
            .map(|(&rule, label)| Slot { rule, label })
            .collect();
        Ok(Self {
            free: Vec::new(),
            order: (0..slots.len() as u32).collect(),
            positions: (0..slots.len() as u32).collect(),
            v4: Tree::new(entries(&slots, 0..slots.len() as u32, true)),
            v6: Tree::new(entries(&slots, 0..slots.len() as u32, false)),
            rules: slots,
            limit,
            changes: 0,
        })
    }

    /// The index of the first rule that matches.
    #[must_use]
    pub fn lookup(&self, headers: &Headers) -> Option<usize> {
        self.index(self.winner(headers))
    }

    fn winner(&self, headers: &Headers) -> Winner {
        match (headers.source.is_v4(), headers.destination.is_v4()) {
            (true, true) => self.v4.find(&Point::new(headers)),
            (false, false) => self.v6.find(&Point::new(headers)),
            _ => Winner::NONE,
        }
    }

    fn index(&self, winner: Winner) -> Option<usize> {
        let position = self.positions.get(winner.slot as usize)?;
        Some(*position as usize)
    }

    /// The index of the first rule that matches; adds to `examined` the bits that decide this.
    ///
    /// Any headers that agree with these on the bits examined (and on those that were set before)
    /// get the same answer. Bits that were set before count as known: where several would do,
    /// they are preferred. So they must be bits of the same headers.
    pub fn lookup_examined(&self, headers: &Headers, examined: &mut Examined) -> Option<usize> {
        examined.source |= version_bits(headers.source);
        examined.destination |= version_bits(headers.destination);
        let winner = self.winner(headers);
        match (headers.source.is_v4(), headers.destination.is_v4()) {
            (true, true) => self.examine(&self.v4, headers, winner, examined),
            (false, false) => self.examine(&self.v6, headers, winner, examined),
            _ => {}
        }
        self.index(winner)
    }

    fn examine<A: Word>(
        &self,
        tree: &Tree<A>,
        headers: &Headers,
        winner: Winner,
        examined: &mut Examined,
    ) {
        let before = 128 - A::BITS;
        let mut known = known(examined, before);
        let point = Point::new(headers);
        if let Some(slot) = self.rules.get(winner.slot as usize) {
            let entry = Entry::new(&slot.rule, slot.label, winner.slot);
            examine_match(&entry, &point, &mut known);
        }
        tree.examine_losers(&point, winner.label, &mut known);
        add_known(examined, &known, before);
    }

    /// Puts a rule before the one at `index`, or last if there is none there but one before.
    ///
    /// # Errors
    /// If the list is full or shorter than `index`.
    pub fn insert(&mut self, index: usize, rule: Rule) -> Result<(), AclError> {
        let len = self.len();
        if len >= self.limit {
            return Err(AclError::Full(self.limit));
        }
        if index > len {
            return Err(AclError::Position { index, len });
        }
        let label = match self.label_before(index) {
            Some(label) => label,
            None => {
                self.relabel();
                self.label_before(index)
                    .expect("new labels have gaps: they are thousands of times more than rules")
            }
        };
        let slot = self.occupy(Slot { rule, label });
        self.order.insert(index, slot);
        self.number_from(index);
        self.for_trees(&rule, label, slot, Tree::insert, Tree::insert);
        Ok(())
    }

    /// Takes out the rule at `index`.
    pub fn remove(&mut self, index: usize) -> Option<Rule> {
        if index >= self.len() {
            return None;
        }
        let slot = self.order.remove(index);
        let Slot { rule, label } = self.rules[slot as usize];
        self.free.push(slot);
        self.number_from(index);
        self.for_trees(
            &rule,
            label,
            slot,
            |tree, entry| tree.remove(&entry),
            |tree, entry| tree.remove(&entry),
        );
        Some(rule)
    }

    fn for_trees(
        &mut self,
        rule: &Rule,
        label: u32,
        slot: u32,
        on_v4: impl FnOnce(&mut Tree<u32>, Entry<u32>),
        on_v6: impl FnOnce(&mut Tree<u128>, Entry<u128>),
    ) {
        self.changes += 1;
        if rule.speaks_of(true) {
            on_v4(&mut self.v4, Entry::new(rule, label, slot));
        }
        if rule.speaks_of(false) {
            on_v6(&mut self.v6, Entry::new(rule, label, slot));
        }
        let most = self.len() * 32 + 1024;
        if self.v4.entries.taken().max(self.v6.entries.taken()) > most {
            self.rebuild();
        }
    }

    /// A label between those of the rules before and at `index`, if there is one.
    fn label_before(&self, index: usize) -> Option<u32> {
        let label = |index: usize| {
            let slot = *self.order.get(index)?;
            self.rules.get(slot as usize).map(|slot| slot.label)
        };
        let low = index.checked_sub(1).and_then(label).unwrap_or(0);
        let high = label(index).unwrap_or(NO_LABEL);
        // At the end a fixed step leaves room for many more.
        let step = if index == self.len() {
            (high - low) / 256
        } else {
            (high - low) / 2
        };
        (step > 0).then_some(low + step)
    }

    fn relabel(&mut self) {
        for (&slot, label) in self.order.iter().zip(labels(self.order.len())) {
            self.rules[slot as usize].label = label;
        }
        let rules = &self.rules;
        let label = |slot: u32| rules.get(slot as usize).map(|slot| slot.label);
        self.v4.relabel(label);
        self.v6.relabel(label);
    }

    fn occupy(&mut self, slot: Slot) -> u32 {
        if let Some(free) = self.free.pop() {
            self.rules[free as usize] = slot;
            return free;
        }
        self.rules.push(slot);
        self.positions.push(0);
        self.rules.len() as u32 - 1
    }

    fn number_from(&mut self, index: usize) {
        for (position, &slot) in self.order.iter().enumerate().skip(index) {
            self.positions[slot as usize] = position as u32;
        }
    }

    /// Builds both trees anew, as if the list had been given at once.
    pub fn rebuild(&mut self) {
        let slots = || self.order.iter().copied();
        self.v4 = Tree::new(entries(&self.rules, slots(), true));
        self.v6 = Tree::new(entries(&self.rules, slots(), false));
        self.changes = 0;
    }

    /// Insertions and removals since the trees were built.
    #[must_use]
    pub const fn changes(&self) -> usize {
        self.changes
    }

    /// The rule at `index`.
    #[must_use]
    pub fn rule(&self, index: usize) -> Option<&Rule> {
        let slot = *self.order.get(index)?;
        self.rules.get(slot as usize).map(|slot| &slot.rule)
    }

    /// How many rules there are.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.order.len()
    }

    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// Memory taken, in bytes.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        let list = self.rules.len() * (size_of::<Slot>() + 2 * size_of::<u32>());
        list + self.v4.memory_bytes() + self.v6.memory_bytes()
    }
}

/// Evenly spaced labels for so many rules, none of them the first or the last number.
fn labels(count: usize) -> impl Iterator<Item = u32> {
    let step = NO_LABEL / (count as u32 + 2);
    (1..=count as u32).map(move |index| index * step)
}

fn entries<A: Word>(slots: &[Slot], order: impl Iterator<Item = u32>, v4: bool) -> Vec<Entry<A>> {
    order
        .filter_map(|slot| Some((slot, slots.get(slot as usize)?)))
        .filter(|(_, Slot { rule, .. })| rule.speaks_of(v4))
        .map(|(slot, Slot { rule, label })| Entry::new(rule, *label, slot))
        .collect()
}

/// The bits of an address that show its IP version.
fn version_bits(address: Address) -> u128 {
    let shared = address.0.common(Address::UNSPECIFIED_V4.0);
    u128::leading((shared + 1).min(u32::from(MAPPED_BITS)))
}

fn known(examined: &Examined, before: u32) -> Known {
    let mut known = [0; FIELDS];
    known[SOURCE] = examined.source.leading_ones().saturating_sub(before);
    known[DESTINATION] = examined.destination.leading_ones().saturating_sub(before);
    known[SOURCE_PORT] = examined.source_port.leading_ones();
    known[DESTINATION_PORT] = examined.destination_port.leading_ones();
    known[PROTOCOL] = examined.protocol.leading_ones();
    known
}

fn add_known(examined: &mut Examined, known: &Known, before: u32) {
    let ports = |bits| u32::leading(bits) >> 16;
    examined.source |= u128::leading(before + known[SOURCE]);
    examined.destination |= u128::leading(before + known[DESTINATION]);
    examined.source_port |= ports(known[SOURCE_PORT]) as u16;
    examined.destination_port |= ports(known[DESTINATION_PORT]) as u16;
    if known[PROTOCOL] > 0 {
        examined.protocol = u8::MAX;
    }
}
