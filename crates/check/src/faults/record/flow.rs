//! What is known of a flow.

use super::packet::PacketHistory;
use crate::faults::functions::Account;
use crate::faults::scenario::Kind;
use crate::faults::world::{Contents, FlowName};
use std::collections::VecDeque;
use twinpath_coherence::Grant;
use twinpath_core::{Direction, FlowKey, Instant, Side};

/// What became of the value of the generation last installed.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub enum Imported {
    /// Nothing yet.
    #[default]
    No,
    /// These workers have it.
    Now,
    /// Workers that have crashed since had it.
    Formerly,
}

/// The truth about a ledger's flow.
#[derive(Clone, Debug, Default)]
pub struct Truth {
    /// What the flow's words must be.
    pub account: Account,
    pub initiator: Side,
    /// The workers crashed while the value was theirs. Whether it is lost, or goes on from a copy
    /// that is still on the link or frozen in the slot, the first frame of the flow decides.
    pub is_open: bool,
    /// Packets that the workers hold, not applied yet, and which way each goes.
    pub held: VecDeque<(u32, Direction)>,
}

impl Truth {
    /// Does what the fast path does to a flow's account with a packet.
    pub fn take(&mut self, number: u32, packet: &PacketHistory, expiry_ticks: u32) {
        self.expire(packet.at, expiry_ticks);
        let way = self.direction(packet.side);
        self.enter(number, way, packet.kind);
        self.account.touch_unless_nothing(packet.at);
    }

    /// The workers hold a packet back.
    pub fn hold(&mut self, number: u32, packet: &PacketHistory) {
        let way = self.direction(packet.side);
        self.held.push_back((number, way));
        self.account.touch(packet.at);
    }

    /// Closes the account if the flow has been silent for too long.
    pub fn expire(&mut self, at: Instant, expiry_ticks: u32) {
        if self.account.is_expired(at, expiry_ticks) {
            self.account.close();
        }
    }

    /// Which way a packet from this side goes; the first one opens the flow.
    fn direction(&mut self, side: Side) -> Direction {
        if self.account.is_nothing() && self.held.is_empty() {
            self.initiator = side;
        }
        Direction::between(side, self.initiator)
    }

    /// Enters a packet that goes this way.
    pub fn enter(&mut self, number: u32, way: Direction, kind: Kind) {
        match kind.closes() {
            true => self.account.close(),
            false => self.account.enter(number, way),
        }
    }
}

/// What is known of one flow.
pub struct FlowHistory {
    /// The element at which packets are of it.
    pub element: u8,
    pub key: FlowKey,
    pub hash: u64,
    pub worker: usize,
    /// The slot that holds its key.
    pub slot: Option<usize>,
    /// PLAIN and PULL under way that may still be received.
    pub behind: usize,
    pub truth: Truth,
    pub last_applied: u32,
    /// The last packet that left, from either end.
    pub last_left: [u32; 2],
    /// The generation last installed.
    pub installed: u32,
    pub imported: Imported,
    /// What the slot held when it was frozen last.
    pub frozen: Vec<u32>,
    /// What the workers had of it after the last step.
    pub at_worker: Option<(Grant, Vec<u32>)>,
    /// Whether what they had was in the present chain's places.
    pub has_followed: bool,
}

impl FlowHistory {
    /// What the workers find it by.
    pub fn name(&self) -> FlowName<'_> {
        (self.element, &self.key, self.hash)
    }

    /// The words that the workers have of it: none if they do not know it.
    pub fn known_words(&self) -> &[u32] {
        self.at_worker.as_ref().map_or(&[], |(_, words)| words)
    }

    /// Whether these workers have the value of this generation: done(g).
    pub fn is_done(&self, generation: u32) -> bool {
        self.installed == generation && self.imported == Imported::Now
    }

    /// Whether any workers ever had it.
    pub fn was_ever_done(&self, generation: u32) -> bool {
        self.installed == generation && self.imported != Imported::No
    }

    /// The slot has become ACTIVE. What was granted before a crash has arrived after all.
    pub fn install(&mut self, generation: u32) {
        (self.installed, self.imported) = (generation, Imported::No);
        self.truth.is_open = false;
    }

    /// The workers crash; `keeps_value` if the value is the fast path's.
    pub fn crash(&mut self, keeps_value: bool) {
        self.truth.is_open |= !keeps_value;
        self.truth.held.clear();
        if self.imported == Imported::Now {
            self.imported = Imported::Formerly;
        }
    }

    /// The first frame after a crash: a frozen value goes on, anything else begins anew.
    pub fn decide(&mut self, first: &Contents) {
        if !std::mem::take(&mut self.truth.is_open) {
            return;
        }
        self.truth.account.close();
        if first.message == twinpath_link::Message::WriteBack {
            self.truth.initiator = first.initiator;
            if let Some(account) = Account::among(&first.words) {
                self.truth.account = account;
            }
        }
    }
}
