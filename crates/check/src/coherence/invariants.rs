//! The invariants of the protocol, and what is noted of a step that breaks one.

use super::rules::Rules;
use super::state::{Flow, State};
use std::fmt;

/// An invariant of the protocol, in the numbering of its design.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Invariant {
    /// ACTIVE: no unprocessed PLAIN or PULL of that flow is in flight, none waits at the slow path.
    /// Packets wait at the fast path only for the answer to a pull.
    NothingBehind = 1,
    /// Exactly one place may write, and its value is the whole truth: what was applied, in order.
    OneTruth = 2,
    /// The workers import a generation's value at most once (in one life).
    OneImport = 3,
    /// A FROZEN slot is freed only after its value was imported.
    FreedAfterImport = 4,
    /// Packets of a flow are applied at most once, and applied and put out in order of arrival.
    OnceInOrder = 5,
    /// What is written back for a generation is what the slot holds frozen.
    FrozenStays = 6,
    /// A message of one flow or generation never touches another.
    NoCrossTalk = 7,
    /// Once frames are no longer lost, INCOMPLETE and FROZEN are left.
    Progress = 8,
}

impl Invariant {
    /// All of them, in order.
    pub const ALL: [Self; 8] = [
        Self::NothingBehind,
        Self::OneTruth,
        Self::OneImport,
        Self::FreedAfterImport,
        Self::OnceInOrder,
        Self::FrozenStays,
        Self::NoCrossTalk,
        Self::Progress,
    ];

    /// From the most telling to the least, for runs that break several at once.
    pub(super) const BY_CLARITY: [Self; 8] = [
        Self::OneTruth,
        Self::NothingBehind,
        Self::FrozenStays,
        Self::FreedAfterImport,
        Self::OneImport,
        Self::NoCrossTalk,
        Self::Progress,
        Self::OnceInOrder,
    ];

    /// What the invariant says, with its number.
    pub const fn prose(self) -> &'static str {
        match self {
            Self::NothingBehind => {
                "1: while a slot is ACTIVE, no PLAIN or PULL of its flow waits to be processed"
            }
            Self::OneTruth => {
                "2: exactly one place may write a flow's value, and it holds everything applied so far"
            }
            Self::OneImport => "3: the value of a generation is imported at most once",
            Self::FreedAfterImport => "4: a FROZEN slot is freed only after its value was imported",
            Self::OnceInOrder => {
                "5: packets are applied once, in order of arrival, and leave in that order"
            }
            Self::FrozenStays => "6: a frozen value never changes",
            Self::NoCrossTalk => "7: a message of one flow or generation never touches another",
            Self::Progress => "8: INCOMPLETE and FROZEN are left once frames are no longer lost",
        }
    }

    pub(super) const fn bit(self) -> u16 {
        1 << self as u8
    }

    /// How telling the invariant is: the lower, the more.
    pub(super) fn clarity(self) -> usize {
        let is_this = |other: &Self| *other == self;
        Self::BY_CLARITY
            .iter()
            .position(is_this)
            .unwrap_or(usize::MAX)
    }
}

impl fmt::Display for Invariant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.prose())
    }
}

impl State {
    /// Remembers that this step broke an invariant.
    pub fn require(&mut self, kept: bool, invariant: Invariant) {
        if !kept {
            self.faults |= invariant.bit();
        }
    }

    /// A packet was applied, here or there.
    pub fn applied(&mut self, rules: &Rules, flow: Flow, packet: u8) {
        let truth = self.truth(flow);
        truth.history.push(rules.digit(packet));
        let in_order = packet > truth.applied;
        truth.applied = packet;
        self.require(in_order, Invariant::OnceInOrder);
    }

    /// A packet leaves.
    pub fn leaves(&mut self, flow: Flow, packet: u8) {
        let truth = self.truth(flow);
        let in_order = packet > truth.left && packet <= truth.applied;
        truth.left = packet;
        self.require(in_order, Invariant::OnceInOrder);
    }
}
