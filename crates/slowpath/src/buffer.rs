//! The programmable buffer: packets that functions hold (Ribosome §4), release, reorder and drop by
//! handle.
//!
//! A function that holds packets has one [`PacketBuffer`], which keeps those of all its flows. Of each
//! flow there is a line for each direction; a flow's lines are found by the handle that the
//! [chain](crate::Chain) keeps for the function, so that a flow without packets here costs nothing. Each packet is held until a
//! time that the function says. The earliest of them is the flow's
//! [deadline](crate::NetworkFunction::deadline): the worker's [timers](crate::timers) wake the function
//! for it, in virtual time and in real time alike, at the time that was said and no other.
//!
//! What is held is a frame, whole or a header whose payload waits in remote memory: the buffer looks at
//! neither. It holds no more than its [`Limits`] say, of one flow and of all.

use crate::slab::Slab;
use std::collections::VecDeque;
use twinpath_core::pool::SMALL_PACKET_BYTES;
use twinpath_core::{Direction, Instant, Packet};

/// What is held, by the measures that have limits.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Packets.
    pub packets: usize,
    /// Bytes of their frames, with payloads that wait elsewhere.
    pub bytes: usize,
    /// Of the packets, those too long for an [ordinary buffer](SMALL_PACKET_BYTES).
    pub long_packets: usize,
}

impl Load {
    /// What one packet is.
    fn of(packet: &Packet) -> Self {
        let bytes = packet.bytes().len();
        Self {
            packets: 1,
            bytes,
            long_packets: usize::from(bytes > SMALL_PACKET_BYTES),
        }
    }

    const fn plus(self, more: Self) -> Self {
        Self {
            packets: self.packets + more.packets,
            bytes: self.bytes + more.bytes,
            long_packets: self.long_packets + more.long_packets,
        }
    }

    const fn minus(self, less: Self) -> Self {
        Self {
            packets: self.packets - less.packets,
            bytes: self.bytes - less.bytes,
            long_packets: self.long_packets - less.long_packets,
        }
    }

    /// Whether it is within a limit.
    const fn is_within(self, limit: Self) -> bool {
        self.packets <= limit.packets
            && self.bytes <= limit.bytes
            && self.long_packets <= limit.long_packets
    }
}

/// How much may be held.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Of one flow, both directions together.
    pub flow: Load,
    /// Of all flows of a worker together.
    pub all: Load,
}

/// Which limit leaves no room for a packet.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Full {
    /// That of its flow.
    Flow,
    /// That of all flows.
    All,
}

/// A packet that is held, by name. One that has left means no other.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct HeldPacket {
    way: Direction,
    number: u64,
}

#[derive(Debug)]
struct Held {
    packet: Packet,
    until: Instant,
    load: Load,
    number: u64,
}

/// What is held of one flow.
#[derive(Debug, Default)]
struct Lines {
    ways: [VecDeque<Held>; 2],
    load: Load,
}

/// Lines without packets that are kept for the next flow that has to wait.
const SPARE_LINES: usize = 256;

/// The packets that a function holds; see the [module](self).
#[derive(Debug)]
pub struct PacketBuffer {
    flows: Slab<Lines>,
    spare: Vec<Lines>,
    load: Load,
    limits: Limits,
    /// Packets held so far.
    numbers: u64,
}

impl PacketBuffer {
    /// An empty buffer.
    pub fn new(limits: Limits) -> Self {
        Self {
            flows: Slab::new(limits.all.packets),
            spare: Vec::new(),
            load: Load::default(),
            limits,
            numbers: 0,
        }
    }

    /// What it takes besides frames when it is full, in bytes.
    pub const fn bytes(limits: &Limits) -> u64 {
        let packets = limits.all.packets as u64;
        packets * (size_of::<Held>() + size_of::<Option<Lines>>()) as u64
    }

    /// Other limits, from the next packet on: what is held stays.
    pub fn set_limits(&mut self, limits: Limits) {
        self.flows.set_limit(limits.all.packets);
        self.limits = limits;
    }

    /// What is held of all flows.
    pub fn load(&self) -> Load {
        self.load
    }

    /// What is held of the flow with this handle.
    pub fn load_of(&self, flow: u32) -> Load {
        self.flows
            .at(flow)
            .map_or(Load::default(), |lines| lines.load)
    }

    /// Most frames that it holds.
    pub const fn most_frames(&self) -> usize {
        self.limits.all.packets
    }

    /// Which limit leaves no room for a packet of the flow with this handle, if one does.
    pub fn full_for(&self, flow: u32, packet: &Packet) -> Option<Full> {
        let more = Load::of(packet);
        if !self.load_of(flow).plus(more).is_within(self.limits.flow) {
            return Some(Full::Flow);
        }
        (!self.load.plus(more).is_within(self.limits.all)).then_some(Full::All)
    }

    /// Holds a packet behind those of its flow and direction. `flow` is the flow's handle, which is
    /// made with the first packet.
    ///
    /// # Errors
    /// There is no room: the packet comes back.
    pub fn hold(
        &mut self,
        flow: &mut u32,
        packet: Packet,
        until: Instant,
    ) -> Result<HeldPacket, (Packet, Full)> {
        if let Some(full) = self.full_for(*flow, &packet) {
            return Err((packet, full));
        }
        if self.flows.at(*flow).is_none() {
            let lines = self.spare.pop().unwrap_or_default();
            let Ok(handle) = self.flows.insert(lines) else {
                return Err((packet, Full::All));
            };
            *flow = handle;
        }
        let (load, way, number) = (Load::of(&packet), packet.direction, self.numbers);
        if let Some(lines) = self.flows.at_mut(*flow) {
            lines.load = lines.load.plus(load);
            lines.ways[way.index()].push_back(Held {
                packet,
                until,
                load,
                number,
            });
        }
        self.load = self.load.plus(load);
        self.numbers += 1;
        Ok(HeldPacket { way, number })
    }

    /// When the first packet of either direction is to leave; [`Instant::NEVER`] if none is held. A
    /// packet behind it waits for it, whatever its own time is.
    pub fn deadline(&self, flow: u32) -> Instant {
        let Some(lines) = self.flows.at(flow) else {
            return Instant::NEVER;
        };
        let firsts = lines.ways.iter().filter_map(VecDeque::front);
        let times = firsts.map(|held| held.until);
        times.min().unwrap_or(Instant::NEVER)
    }

    /// The packets of a flow and direction, in the order in which they are to leave, each with the time
    /// up to which it is held.
    pub fn line(
        &self,
        flow: u32,
        way: Direction,
    ) -> impl DoubleEndedIterator<Item = (HeldPacket, Instant)> {
        let lines = self.flows.at(flow).into_iter();
        lines.flat_map(move |lines| {
            let line = lines.ways[way.index()].iter();
            line.map(move |held| {
                let number = held.number;
                (HeldPacket { way, number }, held.until)
            })
        })
    }

    /// Whether nothing of a flow and direction is held.
    pub fn is_empty(&self, flow: u32, way: Direction) -> bool {
        let lines = self.flows.at(flow);
        lines.is_none_or(|lines| lines.ways[way.index()].is_empty())
    }

    /// How many packets of a flow and direction are held.
    pub fn length(&self, flow: u32, way: Direction) -> usize {
        let lines = self.flows.at(flow);
        lines.map_or(0, |lines| lines.ways[way.index()].len())
    }

    /// Takes the first packet of either direction whose time has come.
    pub fn take_due(&mut self, flow: &mut u32, now: Instant) -> Option<Packet> {
        let lines = self.flows.at(*flow)?;
        let first = |way: &Direction| lines.ways[way.index()].front();
        let is_due = |way: &Direction| first(way).is_some_and(|held| held.until <= now);
        let due = Direction::BOTH.into_iter().filter(is_due);
        let way = due.min_by_key(|way| first(way).map(|held| held.until))?;
        self.take_at(flow, way, 0)
    }

    /// Takes the first packet of a direction, whatever its time is.
    pub fn take_first(&mut self, flow: &mut u32, way: Direction) -> Option<Packet> {
        self.take_at(flow, way, 0)
    }

    /// Takes this packet, out of its turn; `None` if it is held no more.
    pub fn take(&mut self, flow: &mut u32, packet: HeldPacket) -> Option<Packet> {
        let place = self.place(*flow, packet)?;
        self.take_at(flow, packet.way, place)
    }

    /// Lets go of all that is held of a flow that is forgotten: the frames go home by themselves.
    /// Returns how many packets that were.
    pub fn forget(&mut self, flow: u32) -> usize {
        let Some(lines) = self.flows.remove(flow) else {
            return 0;
        };
        self.load = self.load.minus(lines.load);
        lines.load.packets
    }

    fn place(&self, flow: u32, packet: HeldPacket) -> Option<usize> {
        let line = &self.flows.at(flow)?.ways[packet.way.index()];
        line.iter().position(|held| held.number == packet.number)
    }

    fn take_at(&mut self, flow: &mut u32, way: Direction, place: usize) -> Option<Packet> {
        let lines = self.flows.at_mut(*flow)?;
        let held = lines.ways[way.index()].remove(place)?;
        lines.load = lines.load.minus(held.load);
        self.load = self.load.minus(held.load);
        if lines.load.packets == 0 {
            let lines = self.flows.remove(std::mem::take(flow));
            if self.spare.len() < SPARE_LINES {
                self.spare.extend(lines);
            }
        }
        Some(held.packet)
    }
}

#[cfg(test)]
mod tests;
