//! What a bystander who sees everything knows: of every flow, and of every packet.

use super::functions::account::Account;
use super::invariants::Rule;
use super::line::Cargo;
use super::scenario::kind::Kind;
use super::step::{Application, Departure, Import, Step};
use std::collections::{HashMap, VecDeque};
use twinpath_coherence::Grant;
use twinpath_core::wire::Endpoint;
use twinpath_core::{Direction, FlowKey, Instant, Side};

/// What became of the value of the generation last installed.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Imported {
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
pub(super) struct Truth {
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

    /// Closes the account if the flow has been silent for too long.
    fn expire(&mut self, at: Instant, expiry_ticks: u32) {
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

    fn enter(&mut self, number: u32, way: Direction, kind: Kind) {
        match kind.closes() {
            true => self.account.close(),
            false => self.account.enter(number, way),
        }
    }
}

/// What is known of one flow.
pub(super) struct FlowHistory {
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
    pub fn decide(&mut self, first: &Cargo) {
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

/// Where a packet is.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Place {
    FastPath,
    ToWorker,
    AtWorker,
    Back,
    Left,
    Dropped,
    Lost,
}

/// What is known of one packet.
pub(super) struct PacketHistory {
    pub flow: Option<usize>,
    pub kind: Kind,
    pub side: Side,
    pub at: Instant,
    pub bytes: Vec<u8>,
    /// What the functions with rules that it had passed when it was last seen make of it, as they
    /// were configured then.
    pub made: Vec<u8>,
    pub place: Place,
    /// Frames under way that carry it and may still be received.
    pub copies: usize,
    pub is_applied: bool,
    /// Which way it goes through a chain with rules.
    pub direction: Direction,
    /// How many elements it had passed when it was last seen.
    pub passed: usize,
    /// The client's end as it was last seen: with another one outside it is of another flow there.
    pub client: Option<Endpoint>,
    /// Its payload was parked when it was last seen.
    pub is_parked: bool,
    /// A function kept it for a while.
    pub was_held: bool,
    /// Its place in the order of arrival at the machine.
    pub ordinal: u64,
    /// The turn in which it was last seen.
    pub seen: u64,
}

/// Everything.
#[derive(Default)]
pub(super) struct History {
    pub flows: Vec<FlowHistory>,
    index: HashMap<FlowKey, usize>,
    packets: Vec<PacketHistory>,
    /// After how many ticks a ledger's flow expires.
    pub expiry_ticks: u32,
    /// Several functions work on each packet: what one of them lets go of together has another
    /// way to go towards each end, and only packets from one end leave in order.
    pub orders_each_end: bool,
}

impl History {
    /// The flow with this key.
    pub fn flow_of(&self, key: &FlowKey) -> Option<usize> {
        self.index.get(key).copied()
    }

    /// The flow with this key, made if need be.
    pub fn admit(&mut self, key: FlowKey, hash: u64, worker: usize) -> usize {
        let flows = &mut self.flows;
        *self.index.entry(key).or_insert_with(|| {
            flows.push(FlowHistory {
                key,
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

    pub fn packets(&self) -> &[PacketHistory] {
        &self.packets
    }

    pub fn packet(&self, number: u32) -> Option<&PacketHistory> {
        self.packets.get((number as usize).checked_sub(1)?)
    }

    pub fn packet_mut(&mut self, number: u32) -> Option<&mut PacketHistory> {
        self.packets.get_mut((number as usize).checked_sub(1)?)
    }

    /// The first packet, in the order of arrival at the machine, that is on the link.
    pub fn oldest_on_the_link(&self) -> Option<u64> {
        let is_there = |packet: &&PacketHistory| {
            matches!(packet.place, Place::ToWorker | Place::Back) && !packet.was_held
        };
        let packets = self.packets.iter().filter(is_there);
        packets.map(|packet| packet.ordinal).min()
    }

    /// Moves a packet on; it must be at one of the places `from`.
    pub fn moves(&mut self, number: u32, from: &[Place], to: Place, step: &mut Step) {
        let Some(packet) = self.packet_mut(number) else {
            return step.fault(Rule::Conserved, format!("packet {number} never arrived"));
        };
        if !from.contains(&packet.place) {
            let what = format!("packet {number} goes from {:?} to {to:?}", packet.place);
            step.fault(Rule::Conserved, what);
        }
        packet.place = to;
    }

    /// A packet is applied on the fast path.
    pub fn applies_fast(&mut self, number: u32, step: &mut Step) {
        let Some((flow, at)) = self.expire(number) else {
            return;
        };
        let way = self.direction(number, flow);
        self.enter(flow, number, way, step);
        self.flows[flow].truth.account.touch_unless_nothing(at);
    }

    /// The workers hold a packet back; `found` and `now` as for [`Self::applies`].
    pub fn holds(&mut self, number: u32, found: Account, now: Instant, step: &mut Step) {
        let Some((flow, at)) = self.expire(number) else {
            return;
        };
        self.follow_ageing(flow, found, now);
        self.finds(flow, number, found, step);
        let way = self.direction(number, flow);
        let truth = &mut self.flows[flow].truth;
        truth.held.push_back((number, way));
        truth.account.touch(at);
        if let Some(packet) = self.packet_mut(number) {
            packet.was_held = true;
        }
    }

    /// The workers apply a packet; `found` is what they had of the flow before. They may have found
    /// the flow expired by `now`, which is as far as their clock can be.
    pub fn applies(&mut self, number: u32, found: Account, now: Instant, step: &mut Step) {
        let Some(flow) = self.packet(number).and_then(|packet| packet.flow) else {
            return;
        };
        let first_held = self.flows[flow].truth.held.front().copied();
        if let Some((_, way)) = first_held.filter(|&(held, _)| held == number) {
            self.flows[flow].truth.held.pop_front();
            self.finds(flow, number, found, step);
            return self.enter(flow, number, way, step);
        }
        let Some((flow, at)) = self.expire(number) else {
            return;
        };
        self.follow_ageing(flow, found, now);
        self.finds(flow, number, found, step);
        let way = self.direction(number, flow);
        self.enter(flow, number, way, step);
        self.flows[flow].truth.account.touch_unless_nothing(at);
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
            step.fault(Rule::OneTruth, what);
        }
    }

    /// Closes the account of a packet's flow if that has been silent for too long before it.
    fn expire(&mut self, number: u32) -> Option<(usize, Instant)> {
        let packet = self.packet(number)?;
        let (flow, at) = (packet.flow?, packet.at);
        self.flows[flow].truth.expire(at, self.expiry_ticks);
        Some((flow, at))
    }

    /// Which way a packet goes; the first one opens the flow.
    fn direction(&mut self, number: u32, flow: usize) -> Direction {
        let side = self.packet(number).map_or(Side::Low, |packet| packet.side);
        self.flows[flow].truth.direction(side)
    }

    fn enter(&mut self, flow: usize, number: u32, way: Direction, step: &mut Step) {
        let Some(packet) = self.packet_mut(number) else {
            return;
        };
        let (is_double, kind) = (packet.is_applied, packet.kind);
        packet.is_applied = true;
        let history = &mut self.flows[flow];
        step.applied.push(Application {
            flow,
            packet: number,
            previous: history.last_applied,
            is_double,
        });
        history.last_applied = number;
        history.truth.enter(number, way, kind);
    }

    /// A packet leaves; `as_it_came` tells whether its bytes are those that arrived.
    pub fn leaves(&mut self, number: u32, as_it_came: bool, step: &mut Step) {
        let Some(packet) = self.packet(number) else {
            return;
        };
        let (Some(flow), is_applied) = (packet.flow, packet.is_applied) else {
            return;
        };
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
