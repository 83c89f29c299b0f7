//! The neighbours that are known, and the frames that pass.

mod announcing;
mod doubts;
mod entry;
mod messages;
mod unresolved;

use crate::config::{Limits, PortAddresses, Resolver, everybody};
use crate::state::{Action, Event, QUESTIONS, State};
use announcing::Announcing;
use doubts::Doubts;
use entry::Entry;
use messages::is_host;
use std::collections::{BTreeMap, BTreeSet};
use twinpath_core::wire::arp::Arp;
use twinpath_core::wire::neighbor::{self, Kind, NeighborMessage};
use twinpath_core::wire::vlan;
use twinpath_core::wire::{Address, MacAddress};
use twinpath_core::{Frame, Instant, Pools};
use unresolved::Unresolved;

/// Frames with the ports that they leave by: the caller's buffer.
pub type Leaving = Vec<(u16, Frame)>;

/// What is counted.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Questions that the node asked.
    pub questions: u64,
    /// Questions of others that it answered.
    pub answers: u64,
    /// Neighbours that did not answer, or not any more.
    pub unanswered: u64,
    /// Packets that waited for a neighbour which did not answer.
    pub unanswered_drops: u64,
    /// Packets that were pushed out of a neighbour's queue by later ones.
    pub backlog_drops: u64,
    /// Packets for neighbours that could not be asked for, or not for longer: too many were.
    pub unresolved_drops: u64,
    /// Packets to where the port has no address to ask from.
    pub no_address_drops: u64,
    /// Messages of others that claim one of the node's own addresses.
    pub conflicts: u64,
    /// Neighbours that had to make room for others, known or not yet.
    pub evictions: u64,
    /// Packets that had to wait for a neighbour's answer, whatever became of them.
    pub waited: u64,
    /// Times that one of the addresses that the node answers for was announced.
    pub announcements: u64,
}

/// A neighbour, as it is listed.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Neighbor {
    /// The port that it is at.
    pub port: u16,
    /// Its address.
    pub address: Address,
    /// Its MAC address, if it is known.
    pub mac: Option<MacAddress>,
    /// How sure that is.
    pub state: State,
    /// Packets that wait for it.
    pub waiting: usize,
}

/// How many neighbours are looked at for one that can be forgotten.
const EVICTION_STEPS: usize = 64;

/// Neighbours at all ports.
pub struct Neighbors {
    ports: Vec<PortAddresses>,
    limits: Limits,
    entries: Vec<Option<Entry>>,
    free: Vec<u32>,
    by_address: BTreeMap<(u16, Address), u32>,
    timers: BTreeSet<(Instant, u32)>,
    unresolved: Unresolved,
    /// By port.
    announcing: BTreeMap<u16, Announcing>,
    doubts: Doubts,
    hand: usize,
    /// For the kernel, at most as many as there are neighbours.
    questions: Vec<(u16, Address)>,
    /// Packets for neighbours that did not answer.
    undelivered: Vec<Frame>,
    /// Somebody else answers for the same addresses.
    only_listens: bool,
    /// How often neighbours with MAC addresses came, went or got others.
    version: u64,
    counters: Counters,
}

impl Neighbors {
    /// None is known. A port without addresses takes no part: frames about neighbours are like any
    /// others there.
    pub fn new(ports: Vec<PortAddresses>, limits: Limits) -> Self {
        Self {
            ports,
            limits,
            entries: Vec::new(),
            free: Vec::new(),
            by_address: BTreeMap::new(),
            timers: BTreeSet::new(),
            unresolved: Unresolved::default(),
            announcing: BTreeMap::new(),
            doubts: Doubts::default(),
            hand: 0,
            questions: Vec::new(),
            undelivered: Vec::new(),
            only_listens: false,
            version: 0,
            counters: Counters::default(),
        }
    }

    /// The same, while another table answers and speaks up for the same addresses: neighbours are asked
    /// for and learnt of as ever.
    #[must_use]
    pub fn only_listening(self) -> Self {
        Self {
            only_listens: true,
            ..self
        }
    }

    /// What was counted.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// What the ports are called.
    pub fn ports(&self) -> &[PortAddresses] {
        &self.ports
    }

    /// A number that changes whenever neighbours whose MAC addresses are known do, or these.
    pub const fn version(&self) -> u64 {
        self.version
    }

    /// A port has this MAC address now.
    pub fn set_mac(&mut self, port: u16, mac: MacAddress) {
        if let Some(place) = self.ports.get_mut(usize::from(port)) {
            place.mac = mac;
        }
    }

    /// How many neighbours are known, or asked for.
    pub fn count(&self) -> usize {
        self.by_address.len()
    }

    /// The neighbours, by port and address.
    pub fn list(&self) -> impl Iterator<Item = Neighbor> {
        self.by_address
            .iter()
            .filter_map(|(&(port, address), &number)| {
                let entry = self.entries[number as usize].as_ref()?;
                Some(Neighbor {
                    port,
                    address,
                    mac: entry.mac,
                    state: entry.state,
                    waiting: entry.waiting.len(),
                })
            })
    }

    /// Somebody else knows a neighbour: it is taken for what it says until packets are for it, and asked
    /// then whether it is still there, while these go. What is known already stays.
    pub fn learn(&mut self, port: u16, address: Address, mac: MacAddress) {
        let known = self.by_address.contains_key(&(port, address));
        let own = self.ports.get(usize::from(port));
        let is_possible =
            |own: &PortAddresses| own.can_ask(address) && !own.answers_for(address) && is_host(mac);
        if known || self.by_address.len() >= self.limits.neighbors || !own.is_some_and(is_possible)
        {
            return;
        }
        let Some(number) = self.insert(port, address, Instant::ZERO) else {
            return;
        };
        if let Some(entry) = self.entries[number as usize].as_mut() {
            (entry.mac, entry.state, entry.was_used) = (Some(mac), State::Stale, false);
            self.version += 1;
        }
    }

    /// Looks at a frame that came in. Returns whether it was about neighbours, and is done with.
    pub fn arrived(
        &mut self,
        port: u16,
        frame: &[u8],
        now: Instant,
        pools: &mut Pools,
        out: &mut Leaving,
    ) -> bool {
        const ARP: [u8; 2] = [0x08, 0x06];
        const IPV6: [u8; 2] = [0x86, 0xdd];
        let addresses = self.ports.get(usize::from(port));
        if !addresses.is_some_and(PortAddresses::takes_part) {
            return false;
        }
        let carried_at = vlan::carried_at(frame);
        match frame.get(carried_at - 2..carried_at) {
            Some(kind) if *kind == ARP => match Arp::of(frame) {
                Some(message) if self.is_kernels(port, message.target) => false,
                Some(message) => {
                    self.take_arp(port, &message, now, pools, out);
                    true
                }
                None => true,
            },
            Some(kind) if *kind == IPV6 => match NeighborMessage::of(frame) {
                Some(message) if self.is_kernels(port, message.target) => false,
                Some(message) => {
                    self.take_discovery(port, &message, now, pools, out);
                    true
                }
                None => false,
            },
            _ => false,
        }
    }

    /// Whether a message about an address concerns the kernel alone.
    fn is_kernels(&self, port: u16, target: Address) -> bool {
        let addresses = &self.ports[usize::from(port)];
        addresses.resolver == Resolver::Kernel && !addresses.answers_for(target)
    }

    /// A packet leaves by a port for a neighbour there: at once, or when its MAC address is known.
    pub fn leaves(
        &mut self,
        port: u16,
        next: Address,
        mut frame: Frame,
        now: Instant,
        pools: &mut Pools,
        out: &mut Leaving,
    ) {
        let Some(number) = self.entry_for(port, next, now, pools, out) else {
            return pools.give(frame);
        };
        let event = match self.is_to_be_asked_anew(number, now) {
            true => Event::Doubted,
            false => Event::Used,
        };
        self.happens(number, event, None, now, pools, out);
        let own = self.ports[usize::from(port)].mac;
        let Some(entry) = self.entries[number as usize].as_mut() else {
            return pools.give(frame);
        };
        entry.was_used = true;
        match entry.mac {
            Some(mac) => {
                address(&mut frame, own, mac);
                out.push((port, frame));
            }
            None => {
                if entry.waiting.len() >= self.limits.waiting_each
                    && let Some(oldest) = entry.waiting.pop_front()
                {
                    self.counters.backlog_drops += 1;
                    pools.give(oldest);
                }
                self.counters.waited += 1;
                entry.waiting.push_back(frame);
            }
        }
    }

    /// The neighbours that the kernel is to find out about: new ones, and such as it should ask
    /// whether they are still there.
    pub fn take_questions(&mut self) -> impl Iterator<Item = (u16, Address)> + '_ {
        self.questions.drain(..)
    }

    /// Packets whose neighbours did not answer, each with the port that it was to leave by: their senders
    /// may be told.
    pub fn take_undelivered(&mut self) -> impl Iterator<Item = Frame> + '_ {
        self.undelivered.drain(..)
    }

    /// The kernel says what MAC address a neighbour has, or that there is none (any more). One that
    /// nobody has sent packets to is not kept.
    pub fn kernel_says(
        &mut self,
        port: u16,
        address: Address,
        mac: Option<MacAddress>,
        now: Instant,
        pools: &mut Pools,
        out: &mut Leaving,
    ) {
        let Some(&number) = self.by_address.get(&(port, address)) else {
            return;
        };
        match mac {
            Some(_) => self.happens(number, Event::Answered, mac, now, pools, out),
            None => self.forget(number),
        }
    }

    /// When time should be told next.
    pub fn next_deadline(&self) -> Option<Instant> {
        let timer = self.timers.first().map(|&(at, _)| at);
        timer.into_iter().chain(self.next_announcement()).min()
    }

    /// It is that late: who did not answer is asked again, or given up, and announcements go on.
    pub fn advance(&mut self, now: Instant, pools: &mut Pools, out: &mut Leaving) {
        while let Some(&(at, number)) = self.timers.first()
            && at <= now
        {
            let Some(entry) = &self.entries[number as usize] else {
                self.timers.pop_first();
                continue;
            };
            let event = match entry.asked >= QUESTIONS {
                true => Event::Unanswered,
                false => Event::TimeOver,
            };
            self.happens(number, event, None, now, pools, out);
        }
        self.go_on_announcing(now, pools, out);
    }

    fn entry_for(
        &mut self,
        port: u16,
        address: Address,
        now: Instant,
        pools: &mut Pools,
        out: &mut Leaving,
    ) -> Option<u32> {
        if let Some(&number) = self.by_address.get(&(port, address)) {
            return Some(number);
        }
        if !self.ports.get(usize::from(port))?.can_ask(address) {
            self.counters.no_address_drops += 1;
            return None;
        }
        let Some(number) = self.insert_unresolved(port, address, now, pools) else {
            self.counters.unresolved_drops += 1;
            return None;
        };
        self.happens(number, Event::TimeOver, None, now, pools, out);
        Some(number)
    }

    /// A place for a neighbour that is to be asked for. If its cable has as many of its version as it may
    /// have, or there is no place at all, the oldest of those gives way (RFC 6583 §7.1).
    fn insert_unresolved(
        &mut self,
        port: u16,
        address: Address,
        now: Instant,
        pools: &mut Pools,
    ) -> Option<u32> {
        let has_room = self.unresolved.count_beside(port, address) < self.limits.unresolved;
        let number = match has_room.then(|| self.insert(port, address, now)).flatten() {
            Some(number) => number,
            None => {
                let oldest = self.unresolved.first_to_go(port, address, now)?;
                self.gives_way(oldest, pools);
                self.insert(port, address, now)?
            }
        };
        self.unresolved.add(port, address, now, number);
        Some(number)
    }

    /// A neighbour that is asked for is not waited for any longer.
    fn gives_way(&mut self, number: u32, pools: &mut Pools) {
        let Some(entry) = self.remove(number) else {
            return;
        };
        self.counters.evictions += 1;
        self.counters.unresolved_drops += entry.waiting.len() as u64;
        entry
            .waiting
            .into_iter()
            .for_each(|frame| pools.give(frame));
    }

    /// A place for a neighbour, made by forgetting one that nobody uses if there is none.
    fn insert(&mut self, port: u16, address: Address, now: Instant) -> Option<u32> {
        if self.by_address.len() >= self.limits.neighbors && !self.evict() {
            return None;
        }
        let number = self.free.pop().unwrap_or_else(|| {
            self.entries.push(None);
            self.entries.len() as u32 - 1
        });
        self.entries[number as usize] = Some(Entry::new(port, address, now));
        self.by_address.insert((port, address), number);
        Some(number)
    }

    fn evict(&mut self) -> bool {
        for _ in 0..EVICTION_STEPS.min(2 * self.entries.len()) {
            let number = self.hand;
            self.hand = (number + 1) % self.entries.len();
            let Some(entry) = self.entries[number].as_mut() else {
                continue;
            };
            let is_idle = !std::mem::take(&mut entry.was_used);
            if is_idle && entry.mac.is_some() {
                self.remove(number as u32);
                self.counters.evictions += 1;
                return true;
            }
        }
        false
    }

    fn remove(&mut self, number: u32) -> Option<Entry> {
        let entry = self.entries[number as usize].take()?;
        self.version += u64::from(entry.mac.is_some());
        self.by_address.remove(&(entry.port, entry.address));
        self.timers.remove(&(entry.deadline, number));
        let Entry { port, address, .. } = entry;
        self.unresolved.remove(port, address, entry.since, number);
        self.free.push(number);
        Some(entry)
    }

    /// An event meets a neighbour's state machine; `mac` is what the neighbour has told.
    fn happens(
        &mut self,
        number: u32,
        event: Event,
        mac: Option<MacAddress>,
        now: Instant,
        pools: &mut Pools,
        out: &mut Leaving,
    ) {
        let Some(entry) = self.entries[number as usize].as_mut() else {
            return;
        };
        let (next, action) = entry.state.next(event);
        if let Some(mac) = mac {
            let Entry { port, address, .. } = *entry;
            self.unresolved.remove(port, address, entry.since, number);
            self.version += u64::from(entry.mac != Some(mac));
            entry.mac = Some(mac);
            entry.is_doubtful = false;
        }
        let goes_on = matches!(
            event,
            Event::Used | Event::Announced | Event::AnnouncedOtherwise
        );
        let begins = next != entry.state || !goes_on;
        if begins {
            self.timers.remove(&(entry.deadline, number));
            if next != entry.state || event == Event::Doubted {
                entry.asked = 0;
            }
            entry.state = next;
            entry.deadline = next.time().map_or(Instant::NEVER, |time| now + time);
            if next.time().is_some() {
                self.timers.insert((entry.deadline, number));
            }
        }
        match action {
            Action::None => {}
            Action::AskAll | Action::Ask => self.ask(number, action == Action::AskAll, pools, out),
            Action::Release => self.release(number, out),
            Action::Forget => self.forget(number),
        }
    }

    fn release(&mut self, number: u32, out: &mut Leaving) {
        let Some(entry) = self.entries[number as usize].as_mut() else {
            return;
        };
        let own = self.ports[usize::from(entry.port)].mac;
        if let Some(mac) = entry.mac {
            for mut frame in entry.waiting.drain(..) {
                address(&mut frame, own, mac);
                out.push((entry.port, frame));
            }
        }
    }

    fn forget(&mut self, number: u32) {
        if let Some(Entry { port, waiting, .. }) = self.remove(number) {
            self.counters.unanswered += 1;
            self.counters.unanswered_drops += waiting.len() as u64;
            let first = self.undelivered.len();
            self.undelivered.extend(waiting);
            let new = &mut self.undelivered[first..];
            new.iter_mut().for_each(|frame| frame.set_port(port));
        }
    }

    fn ask(&mut self, number: u32, asks_all: bool, pools: &mut Pools, out: &mut Leaving) {
        let Some(entry) = self.entries[number as usize].as_mut() else {
            return;
        };
        entry.asked += 1;
        let (port, target) = (entry.port, entry.address);
        let known = entry.mac.filter(|_| !asks_all);
        let addresses = &self.ports[usize::from(port)];
        if addresses.resolver == Resolver::Kernel {
            self.counters.questions += 1;
            return self.questions.push((port, target));
        }
        let Some(source) = addresses.asks_from(target) else {
            return;
        };
        self.counters.questions += 1;
        let to = known.unwrap_or(everybody(target));
        if target.is_v4() {
            let question = Arp {
                is_reply: false,
                sender_mac: addresses.mac,
                sender: source,
                target_mac: known.unwrap_or(MacAddress([0; 6])),
                target,
            };
            return send(port, &question.to_frame(to), pools, out);
        }
        let question = NeighborMessage {
            kind: Kind::Solicitation,
            source,
            destination: known.map_or(neighbor::solicited_node(target), |_| target),
            target,
            link_address: Some(addresses.mac),
        };
        let (frame, len) = question.to_frame(addresses.mac, to);
        send(port, &frame[..len], pools, out);
    }
}

fn send(port: u16, bytes: &[u8], pools: &mut Pools, out: &mut Leaving) {
    // Without a buffer nothing is said; whoever asked asks again.
    out.extend(pools.take_filled(bytes).map(|frame| (port, frame)));
}

/// Writes both MAC addresses.
fn address(frame: &mut Frame, from: MacAddress, to: MacAddress) {
    if let Some(place) = frame.bytes_mut().first_chunk_mut::<12>() {
        place[..6].copy_from_slice(&to.0);
        place[6..].copy_from_slice(&from.0);
    }
}

#[cfg(test)]
mod tests;
