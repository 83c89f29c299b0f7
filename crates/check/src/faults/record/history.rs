//! What an observer who sees everything knows: of every flow, and of every packet.

use super::flow::{FlowHistory, Imported, Truth};
use super::packet::{PacketHistory, PacketState};
use super::step::{Application, Departure, Import, Step};
use crate::faults::functions::Account;
use crate::faults::invariant::Invariant;
use crate::faults::scenario::Kind;
use crate::faults::world::FlowName;
use std::collections::HashMap;
use twinpath_core::{FlowKey, Instant};

/// Everything.
#[derive(Default)]
pub struct History {
    pub flows: Vec<FlowHistory>,
    index: HashMap<(u8, FlowKey), usize>,
    packets: Vec<PacketHistory>,
    /// After how many ticks a ledger's flow expires.
    pub expiry_ticks: u32,
    /// Several functions work on each packet: what one of them lets go of together has another
    /// way to go towards each end, and only packets from one end leave in order.
    pub orders_each_end: bool,
}

impl History {
    /// The flow with this key at this element.
    pub fn flow_of(&self, element: u8, key: &FlowKey) -> Option<usize> {
        self.index.get(&(element, *key)).copied()
    }

    /// The flow of this name, made if need be.
    pub fn admit(&mut self, (element, key, hash): FlowName<'_>, worker: usize) -> usize {
        let flows = &mut self.flows;
        *self.index.entry((element, *key)).or_insert_with(|| {
            flows.push(FlowHistory {
                element,
                key: *key,
                hash,
                worker,
                slot: None,
                behind: 0,
                truth: Truth::default(),
                last_applied: 0,
                last_left: [0; 2],
                installed: 0,
                imported: Imported::No,
                frozen: Vec::new(),
                at_worker: None,
                has_followed: true,
            });
            flows.len() - 1
        })
    }

    /// A packet arrives; they are numbered from 1.
    pub fn arrive(&mut self, packet: PacketHistory) -> u32 {
        self.packets.push(packet);
        self.packets.len() as u32
    }

    /// How many packets arrived.
    pub fn arrived(&self) -> u32 {
        self.packets.len() as u32
    }

    /// All packets, the first one's number being 1.
    pub fn packets(&self) -> &[PacketHistory] {
        &self.packets
    }

    /// The packet of this number.
    pub fn packet(&self, number: u32) -> Option<&PacketHistory> {
        self.packets.get((number as usize).checked_sub(1)?)
    }

    /// The same, to be changed.
    pub fn packet_mut(&mut self, number: u32) -> Option<&mut PacketHistory> {
        self.packets.get_mut((number as usize).checked_sub(1)?)
    }

    /// The first packet, in the order of arrival at the machine, that is on the link.
    pub fn oldest_on_the_link(&self) -> Option<u64> {
        let is_there = |packet: &&PacketHistory| {
            matches!(packet.state, PacketState::ToWorker | PacketState::Back) && !packet.was_held
        };
        let packets = self.packets.iter().filter(is_there);
        packets.map(|packet| packet.ordinal).min()
    }

    /// The packets that a worker has are lost.
    pub fn lose_at(&mut self, worker: usize) {
        let flows = &self.flows;
        let is_here = |packet: &&mut PacketHistory| {
            let flow = packet.flow.map(|flow| &flows[flow]);
            packet.state == PacketState::AtWorker && flow.is_some_and(|flow| flow.worker == worker)
        };
        let packets = self.packets.iter_mut().filter(is_here);
        packets.for_each(|packet| packet.state = PacketState::Lost);
    }

    /// A packet is applied to its flow on the fast path.
    pub fn applies_fast(&mut self, number: u32, flow: usize, step: &mut Step) {
        self.take(flow, number, step);
    }

    /// The workers hold a packet of a flow back; `found` and `now` as for [`Self::applies`].
    pub fn holds(
        &mut self,
        (number, flow): (u32, usize),
        (found, now): (Account, Instant),
        step: &mut Step,
    ) {
        self.expire(number, flow);
        self.follow_ageing(flow, found, now);
        self.finds(flow, number, found, step);
        if let Some(packet) = self.packets.get_mut(number as usize - 1) {
            self.flows[flow].truth.hold(number, packet);
            packet.was_held = true;
        }
    }

    /// The workers apply a packet to a flow; `found` is what they had of it before. They may have
    /// found the flow expired by `now`, which is as far as their clock can be.
    pub fn applies(
        &mut self,
        (number, flow): (u32, usize),
        (found, now): (Account, Instant),
        step: &mut Step,
    ) {
        let first_held = self.flows[flow].truth.held.front().copied();
        if let Some((_, way)) = first_held.filter(|&(held, _)| held == number) {
            self.flows[flow].truth.held.pop_front();
            self.finds(flow, number, found, step);
            let kind = self.note_applied(flow, number, step);
            return self.flows[flow].truth.enter(number, way, kind);
        }
        self.expire(number, flow);
        self.follow_ageing(flow, found, now);
        self.finds(flow, number, found, step);
        self.take(flow, number, step);
    }

    /// Ageing at the slow path goes by their clock, which may be ahead of a packet under way.
    fn follow_ageing(&mut self, flow: usize, found: Account, now: Instant) {
        let truth = &mut self.flows[flow].truth;
        if found.is_nothing() && truth.account.is_expired(now, self.expiry_ticks) {
            truth.account.close();
        }
    }

    fn finds(&self, flow: usize, number: u32, found: Account, step: &mut Step) {
        let expected = self.flows[flow].truth.account;
        if found != expected {
            let what = format!(
                "packet {number} of flow {flow} is applied to {:?}, the truth is {:?}",
                found.0, expected.0
            );
            step.fault(Invariant::OneTruth, what);
        }
    }

    /// Closes the account of a packet's flow if that has been silent for too long before it.
    fn expire(&mut self, number: u32, flow: usize) {
        if let Some(at) = self.packet(number).map(|packet| packet.at) {
            self.flows[flow].truth.expire(at, self.expiry_ticks);
        }
    }

    fn take(&mut self, flow: usize, number: u32, step: &mut Step) {
        self.note_applied(flow, number, step);
        let packet = &self.packets[number as usize - 1];
        let truth = &mut self.flows[flow].truth;
        truth.take(number, packet, self.expiry_ticks);
    }

    fn note_applied(&mut self, flow: usize, number: u32, step: &mut Step) -> Kind {
        let packet = &mut self.packets[number as usize - 1];
        let history = &mut self.flows[flow];
        step.applied.push(Application {
            flow,
            packet: number,
            previous: std::mem::replace(&mut history.last_applied, number),
            is_double: packet.apply(history.element),
        });
        packet.kind
    }

    /// Accounts expire after another time from now on. What the workers have forgotten already does
    /// not come back.
    pub fn expire_after(&mut self, ticks: u32, now: Instant) {
        for flow in &mut self.flows {
            let is_forgotten = flow.known_words().iter().all(|&word| word == 0);
            if is_forgotten {
                flow.truth.expire(now, self.expiry_ticks);
            }
        }
        self.expiry_ticks = ticks;
    }

    /// A packet leaves; `as_it_came` tells whether its bytes are those that arrived.
    pub fn leaves(&mut self, number: u32, as_it_came: bool, step: &mut Step) {
        let Some(packet) = self.packet(number) else {
            return;
        };
        let Some(flow) = packet.flow else {
            return;
        };
        let mut flows = packet.flows.iter().map(|&flow| self.flows[flow].element);
        let is_applied = flows.all(|element| packet.is_applied(element));
        let (end, client) = (packet.side as usize, packet.client);
        let is_alike = |number: u32| {
            let other = self.packet(number);
            other.is_some_and(|other| other.client == client)
        };
        let last = self.flows[flow].last_left;
        let [low, high] = last.map(|last| if is_alike(last) { last } else { 0 });
        let history = &mut self.flows[flow];
        let previous = match self.orders_each_end {
            true => [low, high][end],
            false => low.max(high),
        };
        step.left.push(Departure {
            flow,
            packet: number,
            previous,
            is_applied,
            as_it_came,
        });
        history.last_left[end] = number;
    }

    /// The workers import the value that a frame brings.
    pub fn imports(&mut self, flow: usize, generation: u32, step: &mut Step) {
        let history = &mut self.flows[flow];
        step.imports.push(Import {
            flow,
            generation,
            installed: history.installed,
            is_second: history.is_done(generation),
        });
        history.imported = Imported::Now;
    }
}
