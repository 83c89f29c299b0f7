//! Elements whose decisions are cached as rules.

use super::lane::{InFront, Passed, set_egress};
use crate::position::Position;
use twinpath_core::adjacency::shard_of;
use twinpath_core::fragments::DatagramFlows;
use twinpath_core::wire::layout::{Fragment, Layout};
use twinpath_core::{Decision, Direction, Frame, HashKey};
use twinpath_rulecache::{Effect, Found, MatchKey, RuleTable};

/// The rules of one element of the chain, on the fast path.
pub struct RuleStage {
    /// The rules.
    pub table: RuleTable,
    /// The ports of datagrams whose first fragments have come.
    datagrams: DatagramFlows,
    /// What the table wants done; empty between calls.
    pub(super) effects: Vec<Effect>,
}

/// All rules are made by the worker of this hash.
pub(super) const RULES_HASH: u64 = 0;

impl RuleStage {
    /// An element with this table.
    pub fn new(table: RuleTable) -> Self {
        Self {
            datagrams: DatagramFlows::new(HashKey::new(table.seed())),
            table,
            effects: Vec::new(),
        }
    }

    /// What a packet shows to the rules; `None` if it never meets any.
    #[inline]
    pub fn key(&self, frame: &Frame, layout: &Layout, direction: Direction) -> Option<MatchKey> {
        MatchKey::of(frame.bytes(), layout, frame.port(), direction)
    }

    /// What a packet is held for: a fragment waits for packets of its flow.
    pub(super) fn held_key(
        &mut self,
        frame: &Frame,
        layout: &Layout,
        direction: Direction,
    ) -> Option<MatchKey> {
        let key = self.key(frame, layout, direction);
        key.or_else(|| self.fragment_key(frame, layout, direction))
    }

    /// The flow of a fragment, if its datagram's first has come.
    #[cold]
    fn fragment_key(
        &mut self,
        frame: &Frame,
        layout: &Layout,
        direction: Direction,
    ) -> Option<MatchKey> {
        if layout.fragment == Fragment::Whole {
            return None;
        }
        let (bytes, now) = (frame.bytes(), frame.timestamp());
        let datagram = self.datagrams.ports(bytes, layout, now)?;
        MatchKey::of_fragment(bytes, layout, datagram, frame.port(), direction)
    }

    /// Where the own rule of a flow is whose packet is not plain, probably; what lies there is on its way.
    pub fn fetch_other(
        &self,
        frame: &Frame,
        layout: &Layout,
        direction: Direction,
    ) -> Option<Found> {
        self.table.fetch_other(&self.key(frame, layout, direction)?)
    }

    /// Packets meet the rules of their flows, until one does not go on, or does not find its rule
    /// where an earlier one has found it. At the first element they are as they arrived.
    #[inline(never)]
    pub(super) fn pass_along<'a>(
        &mut self,
        packets: impl Iterator<Item = InFront<'a>>,
        position: Position,
        is_first: bool,
    ) -> Passed {
        let mut passed = 0;
        for (frame, known, other) in packets {
            let earlier = Found::from_bits(known.hints.at(position.element));
            let (now, shown) = (frame.timestamp(), (frame.port(), position.direction));
            let bytes = frame.bytes_mut();
            let table = &mut self.table;
            let decision = match known.is_plain {
                true => {
                    let ends = match is_first {
                        true => known.ends,
                        false => known.plain.ends(bytes),
                    };
                    table.plain_packet(earlier, bytes, (known.plain, ends), shown, now)
                }
                false => table.other_packet(earlier, bytes, &other.layout, shown, now),
            };
            match decision {
                Some(Decision::Forward { egress }) if shard_of(egress).is_none() => {
                    set_egress(frame, egress);
                }
                decision => return (passed, decision),
            }
            passed += 1;
        }
        (passed, None)
    }

    /// A packet meets the rules. Returns also where it has found one.
    pub(super) fn meet(
        &mut self,
        frame: &mut Frame,
        layout: &Layout,
        position: Position,
        hint: u32,
    ) -> (Decision, u32) {
        let Some(key) = self.held_key(frame, layout, position.direction) else {
            return (Decision::Punt, hint);
        };
        let found = self.table.find_again(Found::from_bits(hint), &key);
        let now = frame.timestamp();
        let bytes = frame.bytes_mut();
        let decision = self.table.packet(&key, found, bytes, layout, now);
        (decision, found.map_or(hint, Found::bits))
    }
}
