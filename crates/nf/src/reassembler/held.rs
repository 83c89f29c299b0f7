//! Segments that wait for the bytes before them.

use super::cut::{cut_back, cut_front, duplicate};
use super::segment::ahead;
use crate::memory::slab_bytes;
use std::collections::VecDeque;
use std::time::Duration;
use twinpath_core::pool::SMALL_PACKET_BYTES;
use twinpath_core::wire::tcp::flags::FIN;
use twinpath_core::{Direction, Instant, Packet, Pools};

/// A held segment: the frame itself, and the sequence numbers it takes.
#[derive(Debug)]
pub(super) struct Held {
    pub packet: Packet,
    pub start: u32,
    /// The sequence number after it. A FIN takes one.
    pub end: u32,
    /// Since when these bytes wait, in this copy or one that it replaced.
    pub since: Instant,
    /// It came in a buffer for long frames, and stays in it when it is cut.
    is_long: bool,
}

/// What is held, by the measures that have limits.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Load {
    pub segments: usize,
    /// Sequence numbers: bytes of data, and FINs.
    pub bytes: usize,
    /// Segments in buffers for long frames.
    pub long_segments: usize,
}

impl Load {
    pub fn add(&mut self, more: Self) {
        self.segments += more.segments;
        self.bytes += more.bytes;
        self.long_segments += more.long_segments;
    }

    pub fn remove(&mut self, less: Self) {
        self.segments -= less.segments;
        self.bytes -= less.bytes;
        self.long_segments -= less.long_segments;
    }
}

impl Held {
    /// A segment that begins to wait.
    pub fn new(packet: Packet, start: u32, end: u32, since: Instant) -> Self {
        let is_long = packet.bytes().len() > SMALL_PACKET_BYTES;
        Self {
            packet,
            start,
            end,
            since,
            is_long,
        }
    }

    /// The number of its FIN, if it has one.
    pub fn fin(&self) -> Option<u32> {
        (self.packet.tcp_flags() & FIN != 0).then(|| self.end.wrapping_sub(1))
    }

    /// Whether a byte of its data has this number.
    pub fn has_data_at(&self, number: u32) -> bool {
        let end = self.fin().unwrap_or(self.end);
        ahead(self.start, number) <= 0 && ahead(end, number) > 0
    }

    /// Lets go of everything before `start`.
    pub fn cut_front_to(&mut self, start: u32) {
        cut_front(&mut self.packet, start.wrapping_sub(self.start));
        self.start = start;
    }

    /// Lets go of everything from `end` on.
    pub fn cut_back_to(&mut self, end: u32) {
        cut_back(&mut self.packet, self.end.wrapping_sub(end));
        self.end = end;
    }

    /// A copy of the part from `start` on; `None` if no buffer is free.
    pub fn copy_from(&self, start: u32, pools: &mut Pools) -> Option<Self> {
        let packet = duplicate(&self.packet, pools)?;
        let mut copy = Self { packet, ..*self };
        copy.cut_front_to(start);
        Some(copy)
    }

    pub fn load(&self) -> Load {
        let bytes = self.end.wrapping_sub(self.start) as usize;
        Load {
            segments: 1,
            bytes,
            long_segments: usize::from(self.is_long),
        }
    }
}

/// The held segments of one direction, by sequence number and without overlaps.
#[derive(Debug)]
pub(super) struct Buffer {
    segments: VecDeque<Held>,
    load: Load,
    /// Nothing here waits since before this.
    earliest: Instant,
}

impl Default for Buffer {
    fn default() -> Self {
        Self {
            segments: VecDeque::new(),
            load: Load::default(),
            earliest: Instant::NEVER,
        }
    }
}

impl Buffer {
    pub fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    pub fn load(&self) -> Load {
        self.load
    }

    /// First sequence number held.
    pub fn first_start(&self) -> Option<u32> {
        self.segments.front().map(|held| held.start)
    }

    /// Start and end of a segment.
    pub fn span(&self, index: usize) -> Option<(u32, u32)> {
        self.segments.get(index).map(|held| (held.start, held.end))
    }

    /// A segment.
    pub fn at(&self, index: usize) -> Option<&Held> {
        self.segments.get(index)
    }

    /// Index of the first segment that reaches beyond a sequence number.
    pub fn first_beyond(&self, sequence: u32) -> usize {
        self.segments
            .partition_point(|held| ahead(held.end, sequence) <= 0)
    }

    /// Puts a segment, which must not overlap any other, in its place.
    pub fn insert(&mut self, held: Held) {
        self.load.add(held.load());
        self.earliest = self.earliest.min(held.since);
        let index = self.first_beyond(held.start);
        self.segments.insert(index, held);
    }

    pub fn remove(&mut self, index: usize) -> Option<Held> {
        let held = self.segments.remove(index)?;
        self.load.remove(held.load());
        if self.segments.is_empty() {
            self.earliest = Instant::NEVER;
        }
        Some(held)
    }

    /// Takes the first segment if it starts at `next`.
    pub fn pop_at(&mut self, next: u32) -> Option<Held> {
        if self.first_start() == Some(next) {
            self.remove(0)
        } else {
            None
        }
    }

    /// When the first of these segments will have waited for `gap_timeout`, or a little before.
    pub fn deadline(&self, gap_timeout: Duration) -> Instant {
        self.earliest + gap_timeout
    }

    /// Whether a segment has waited for `gap_timeout`.
    pub fn is_overdue(&mut self, now: Instant, gap_timeout: Duration) -> bool {
        if self.deadline(gap_timeout) > now {
            return false;
        }
        let earliest = self.segments.iter().map(|held| held.since).min();
        self.earliest = earliest.unwrap_or(Instant::NEVER);
        self.deadline(gap_timeout) <= now
    }
}

/// What is held of one connection.
#[derive(Debug, Default)]
pub(super) struct HeldFlow {
    ways: [Buffer; 2],
}

impl HeldFlow {
    /// What so many held segments take, each of another connection, without their frames.
    pub const fn bytes(segments: usize) -> u64 {
        slab_bytes::<Self>(segments) + (segments * size_of::<Held>()) as u64
    }

    pub fn way(&self, way: Direction) -> &Buffer {
        &self.ways[way.index()]
    }

    pub fn way_mut(&mut self, way: Direction) -> &mut Buffer {
        &mut self.ways[way.index()]
    }

    pub fn load(&self) -> Load {
        let mut load = self.ways[0].load;
        load.add(self.ways[1].load);
        load
    }

    /// When the first segment will have waited for `gap_timeout`, or a little before.
    pub fn deadline(&self, gap_timeout: Duration) -> Instant {
        let [one, other] = &self.ways;
        one.deadline(gap_timeout).min(other.deadline(gap_timeout))
    }
}
