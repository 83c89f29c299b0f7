//! Packets that wait on the slow path for cached rules to go, and what waits behind them.
//!
//! A packet waits for an entry of a function's table; packets of its own flow and direction wait
//! behind it, in order. All others pass. A mark waits until all that came before it has gone out.

use crate::followers::Follower;
use crate::recording::{EntryId, Recording};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use twinpath_core::{FlowKey, Instant, Packet, Side};

/// A flow and the way that its packets go.
pub(crate) type Flow = (FlowKey, Side);

/// A packet's place in the order of coming.
pub(crate) type Ticket = u64;

/// A packet half way through the chain.
pub(crate) struct Progress {
    pub packet: Packet,
    pub recording: Recording,
    pub step: usize,
    /// What goes on behind it.
    pub followers: Vec<Follower>,
    /// How often it has waited.
    pub waits: u32,
}

/// A packet that waits for an entry.
pub(crate) struct Suspended {
    pub progress: Progress,
    pub entry: EntryId,
    /// The rules are being taken out; before that, the fast path is asked about them.
    pub is_closing: bool,
}

/// Everything that waits.
#[derive(Default)]
pub(crate) struct Pending {
    next: Ticket,
    /// The first of each flow.
    suspended: BTreeMap<Ticket, (Flow, Box<Suspended>)>,
    by_entry: BTreeSet<(EntryId, Ticket)>,
    /// Those behind the first of their flow.
    behind: BTreeMap<Flow, VecDeque<(Ticket, Packet)>>,
    /// All of them, with their numbers in the order of arrival and their times.
    tickets: BTreeMap<Ticket, (u64, Instant)>,
    ordinals: BTreeSet<(u64, Ticket)>,
    times: BTreeSet<(Instant, Ticket)>,
    marks: VecDeque<(Ticket, u32)>,
}

impl Pending {
    pub fn is_empty(&self) -> bool {
        self.tickets.is_empty()
    }

    /// Packets that wait.
    pub fn len(&self) -> usize {
        self.tickets.len()
    }

    /// The smallest number, in the order of arrival, of those that wait, and the earliest time.
    pub fn oldest(&self) -> Option<(u64, Instant)> {
        let (ordinal, _) = self.ordinals.first()?;
        let (at, _) = self.times.first()?;
        Some((*ordinal, *at))
    }

    /// Whether a packet of this flow has to wait behind another.
    #[inline]
    pub fn concerns(&self, flow: &Flow) -> bool {
        !self.is_empty() && self.behind.contains_key(flow)
    }

    fn ticket(&mut self, packet: &Packet) -> Ticket {
        let (ticket, ordinal) = (self.next, packet.frame.ordinal());
        self.next += 1;
        let at = packet.timestamp();
        self.tickets.insert(ticket, (ordinal, at));
        self.ordinals.insert((ordinal, ticket));
        self.times.insert((at, ticket));
        ticket
    }

    /// A packet waits behind others of its flow.
    pub fn wait_behind(&mut self, flow: Flow, packet: Packet) {
        let ticket = self.ticket(&packet);
        let behind = self.behind.entry(flow).or_default();
        behind.push_back((ticket, packet));
    }

    /// A packet waits for an entry, the first of its flow. One that has waited before keeps its
    /// ticket.
    pub fn suspend(&mut self, flow: Flow, ticket: Option<Ticket>, suspended: Box<Suspended>) {
        let ticket = ticket.unwrap_or_else(|| self.ticket(&suspended.progress.packet));
        self.by_entry.insert((suspended.entry, ticket));
        self.behind.entry(flow).or_default();
        self.suspended.insert(ticket, (flow, suspended));
    }

    /// The packets that wait for an entry, in order.
    pub fn waiting_for(&self, entry: EntryId) -> Vec<Ticket> {
        let all = (entry, Ticket::MIN)..=(entry, Ticket::MAX);
        self.by_entry
            .range(all)
            .map(|&(_, ticket)| ticket)
            .collect()
    }

    /// Whether a packet waits for an entry whose rules are being taken out.
    pub fn is_closing(&self, entry: EntryId) -> bool {
        let closing = |ticket: &Ticket| {
            let waiting = self.suspended.get(ticket);
            waiting.is_some_and(|(_, suspended)| suspended.is_closing)
        };
        self.waiting_for(entry).iter().any(closing)
    }

    /// Takes a packet that waits for an entry, to let it try again. It keeps its ticket, and those
    /// behind it still wait.
    pub fn take(&mut self, ticket: Ticket) -> Option<(Flow, Box<Suspended>)> {
        let (flow, suspended) = self.suspended.remove(&ticket)?;
        self.by_entry.remove(&(suspended.entry, ticket));
        Some((flow, suspended))
    }

    /// A packet has gone. Returns the next of its flow, which is to go now.
    pub fn gone(&mut self, flow: &Flow, ticket: Ticket) -> Option<(Ticket, Packet)> {
        if let Some((ordinal, at)) = self.tickets.remove(&ticket) {
            self.ordinals.remove(&(ordinal, ticket));
            self.times.remove(&(at, ticket));
        }
        let next = self.behind.get_mut(flow)?.pop_front();
        if next.is_none() {
            self.behind.remove(flow);
        }
        next
    }

    /// A mark waits.
    pub fn mark(&mut self, mark: u32) {
        self.marks.push_back((self.next, mark));
    }

    /// Marks that wait.
    pub fn marks(&self) -> usize {
        self.marks.len()
    }

    /// The next mark before which nothing waits.
    pub fn next_mark(&mut self) -> Option<u32> {
        let oldest = self.tickets.first_key_value().map(|(&ticket, _)| ticket);
        let is_free = |&&(at, _): &&(Ticket, u32)| oldest.is_none_or(|oldest| at <= oldest);
        self.marks.front().filter(is_free)?;
        self.marks.pop_front().map(|(_, mark)| mark)
    }
}
