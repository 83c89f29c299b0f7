//! Packets that wait on the slow path for cached rules to go, and what waits behind them.
//!
//! A packet waits for an entry of a function's table; packets of its own flow and direction wait
//! behind it, in order. All others pass. A mark waits for packets of one flow that came before it, and for no
//! others: one of a rule for many flows never waits here.

use crate::followers::Follower;
use crate::key::MatchKey;
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

/// A packet that waits.
struct Waiting {
    /// Its number in the order of arrival.
    ordinal: u64,
    at: Instant,
}

/// A flow of which packets wait.
#[derive(Default)]
struct Queue {
    /// Those behind the first.
    behind: VecDeque<(Ticket, Packet)>,
    /// Of all, the one that came last.
    last: Ticket,
}

/// Everything that waits.
#[derive(Default)]
pub(crate) struct Pending {
    next: Ticket,
    /// The first of each flow.
    suspended: BTreeMap<Ticket, (Flow, Box<Suspended>)>,
    by_entry: BTreeSet<(EntryId, Ticket)>,
    queues: BTreeMap<Flow, Queue>,
    /// All packets.
    tickets: BTreeMap<Ticket, Waiting>,
    ordinals: BTreeSet<(u64, Ticket)>,
    times: BTreeSet<(Instant, Ticket)>,
    /// Marks, by the packet that they wait for.
    marks: BTreeSet<(Ticket, u32)>,
    /// Marks that wait for nothing.
    free_marks: Vec<u32>,
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
        !self.is_empty() && self.queues.contains_key(flow)
    }

    fn ticket(&mut self, flow: Flow, packet: &Packet) -> Ticket {
        let (ticket, ordinal) = (self.next, packet.frame.ordinal());
        self.next += 1;
        let at = packet.timestamp();
        self.tickets.insert(ticket, Waiting { ordinal, at });
        self.ordinals.insert((ordinal, ticket));
        self.times.insert((at, ticket));
        self.queues.entry(flow).or_default().last = ticket;
        ticket
    }

    /// A packet waits behind others of its flow.
    pub fn wait_behind(&mut self, flow: Flow, packet: Packet) {
        let ticket = self.ticket(flow, &packet);
        let queue = self.queues.entry(flow).or_default();
        queue.behind.push_back((ticket, packet));
    }

    /// A packet waits for an entry, the first of its flow. One that has waited before keeps its
    /// ticket.
    pub fn suspend(&mut self, flow: Flow, ticket: Option<Ticket>, suspended: Box<Suspended>) {
        let packet = &suspended.progress.packet;
        let ticket = ticket.unwrap_or_else(|| self.ticket(flow, packet));
        self.by_entry.insert((suspended.entry, ticket));
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
        if let Some(Waiting { ordinal, at }) = self.tickets.remove(&ticket) {
            self.ordinals.remove(&(ordinal, ticket));
            self.times.remove(&(at, ticket));
        }
        self.let_marks_go_on(ticket);
        let next = self.queues.get_mut(flow)?.behind.pop_front();
        if next.is_none() {
            self.queues.remove(flow);
        }
        next
    }

    /// Whether packets wait that meet a rule with this mask and value, as far as their flow's ends tell.
    pub fn has_of_rule(&self, mask: &MatchKey, value: &MatchKey) -> bool {
        let (mask, value) = (mask.and(&MatchKey::ENDS), value.and(&MatchKey::ENDS));
        let mut flows = self.queues.keys();
        flows.any(|flow| MatchKey::of_flow_key(*flow).matches(&mask, &value))
    }

    /// A mark of a flow comes. If there are too many it is forgotten: it is sent again.
    pub fn mark(&mut self, mark: u32, flow: &Flow) {
        let Some(queue) = self.queues.get(flow) else {
            return self.free_marks.push(mark);
        };
        let is_known = self.marks.iter().any(|&(_, known)| known == mark);
        if !is_known && self.marks.len() < MOST_MARKS {
            self.marks.insert((queue.last, mark));
        }
    }

    /// Marks that wait for a packet need it no longer.
    fn let_marks_go_on(&mut self, ticket: Ticket) {
        while let Some(&(of, mark)) = self.marks.range((ticket, 0)..).next()
            && of == ticket
        {
            self.marks.remove(&(of, mark));
            self.free_marks.push(mark);
        }
    }

    /// Takes a mark that waits for nothing.
    pub fn free_mark(&mut self) -> Option<u32> {
        self.free_marks.pop()
    }
}

/// Marks that may wait. The fast path has fewer under way.
const MOST_MARKS: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field::Field;
    use twinpath_core::wire::{Endpoint, PacketBuilder, dissect, protocol};
    use twinpath_core::{Direction, Pool};

    const SERVER: [u8; 4] = [192, 0, 2, 1];

    fn flow(port: u16) -> Flow {
        let client = Endpoint::v4([10, 0, 0, 1], port);
        FlowKey::connection(client, Endpoint::v4(SERVER, 53), protocol::UDP)
    }

    fn packet(port: u16) -> Packet {
        let (from, to) = (Endpoint::v4([10, 0, 0, 1], port), Endpoint::v4(SERVER, 53));
        let bytes = PacketBuilder::udp(from, to).to_vec().expect("short");
        let layout = dissect(&bytes).expect("a packet");
        Packet {
            frame: Pool::new(1, 1500).take_filled(&bytes).expect("room"),
            layout,
            direction: Direction::Original,
            role: Default::default(),
            alias_row: 0,
        }
    }

    /// The first packet of a flow waits.
    fn suspend(pending: &mut Pending, port: u16) -> Ticket {
        let ticket = pending.next;
        let progress = Progress {
            packet: packet(port),
            recording: Recording::new(None),
            step: 0,
            followers: Vec::new(),
            waits: 0,
        };
        let suspended = Suspended {
            progress,
            entry: EntryId {
                function: 0,
                entry: 0,
            },
            is_closing: false,
        };
        pending.suspend(flow(port), None, Box::new(suspended));
        ticket
    }

    fn free(pending: &mut Pending) -> Vec<u32> {
        let mut free: Vec<u32> = std::iter::from_fn(|| pending.free_mark()).collect();
        free.sort_unstable();
        free
    }

    /// A mark of one flow waits for what came of that flow before it, and for nothing else.
    #[test]
    fn a_mark_waits_for_its_own_flow_alone() {
        let mut pending = Pending::default();
        let first = suspend(&mut pending, 1000);
        pending.wait_behind(flow(1000), packet(1000));
        pending.mark(1, &flow(1000));
        pending.mark(2, &flow(2000));
        assert_eq!(free(&mut pending), [2]);
        pending.wait_behind(flow(1000), packet(1000));
        pending.mark(1, &flow(1000));
        let (second, _) = pending.gone(&flow(1000), first).expect("one is behind");
        assert!(free(&mut pending).is_empty());
        let (third, _) = pending.gone(&flow(1000), second).expect("one is behind");
        assert_eq!(free(&mut pending), [1], "the third came after the mark");
        assert!(pending.gone(&flow(1000), third).is_none());
        assert!(pending.is_empty() && free(&mut pending).is_empty());
    }

    /// Who meets a rule for many flows is told by the ends of flows.
    #[test]
    fn packets_that_wait_and_meet_a_rule_are_found() {
        let to_port = |port: u16| {
            let mask = Field::DestinationPort.mask().or(&MatchKey::ALWAYS);
            (mask, Field::DestinationPort.place(port.into()))
        };
        let mut pending = Pending::default();
        let ticket = suspend(&mut pending, 1000);
        let has = |pending: &Pending, port| {
            let (mask, value) = to_port(port);
            pending.has_of_rule(&mask, &value)
        };
        assert!(has(&pending, 53) && !has(&pending, 80));
        assert!(pending.gone(&flow(1000), ticket).is_none());
        assert!(!has(&pending, 53));
    }

    /// Marks that come again take no more room, and no more are kept than may be.
    #[test]
    fn marks_are_bounded() {
        let mut pending = Pending::default();
        let ticket = suspend(&mut pending, 1000);
        for mark in (0..2 * MOST_MARKS as u32).chain(0..10) {
            pending.mark(mark, &flow(1000));
        }
        assert_eq!(pending.marks.len(), MOST_MARKS);
        assert!(pending.gone(&flow(1000), ticket).is_none());
        assert_eq!(free(&mut pending).len(), MOST_MARKS);
    }
}
