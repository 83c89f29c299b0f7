//! Segments that wait for the bytes before them.

use super::cut::{cut_back, cut_front, duplicate};
use super::segment::ahead;
use std::collections::VecDeque;
use std::time::Duration;
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
}

impl Held {
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

    fn len(&self) -> usize {
        self.end.wrapping_sub(self.start) as usize
    }
}

/// The held segments of one direction, by sequence number and without overlaps.
#[derive(Debug)]
pub(super) struct Buffer {
    segments: VecDeque<Held>,
    bytes: usize,
    /// Nothing here waits since before this.
    earliest: Instant,
}

impl Default for Buffer {
    fn default() -> Self {
        Self { segments: VecDeque::new(), bytes: 0, earliest: Instant::NEVER }
    }
}

impl Buffer {
    pub fn len(&self) -> usize {
        self.segments.len()
    }

    pub fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    /// Sequence numbers held.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// First sequence number held.
    pub fn first_start(&self) -> Option<u32> {
        self.segments.front().map(|held| held.start)
    }

    /// Start and end of a segment.
    pub fn span(&self, index: usize) -> Option<(u32, u32)> {
        self.segments.get(index).map(|held| (held.start, held.end))
    }

    /// Index of the first segment that reaches beyond a sequence number.
    pub fn first_beyond(&self, sequence: u32) -> usize {
        self.segments.partition_point(|held| ahead(held.end, sequence) <= 0)
    }

    /// Puts a segment, which must not overlap any other, in its place.
    pub fn insert(&mut self, held: Held) {
        self.bytes += held.len();
        self.earliest = self.earliest.min(held.since);
        let index = self.first_beyond(held.start);
        self.segments.insert(index, held);
    }

    pub fn remove(&mut self, index: usize) -> Option<Held> {
        let held = self.segments.remove(index)?;
        self.bytes -= held.len();
        if self.segments.is_empty() {
            self.earliest = Instant::NEVER;
        }
        Some(held)
    }

    /// Takes the first segment if it starts at `next`.
    pub fn pop_at(&mut self, next: u32) -> Option<Held> {
        if self.first_start() == Some(next) { self.remove(0) } else { None }
    }

    /// When the first of these segments will have waited for `patience`, or a little before.
    pub fn deadline(&self, patience: Duration) -> Instant {
        self.earliest + patience
    }

    /// Whether a segment has waited for `patience`.
    pub fn is_overdue(&mut self, now: Instant, patience: Duration) -> bool {
        if self.deadline(patience) > now {
            return false;
        }
        let earliest = self.segments.iter().map(|held| held.since).min();
        self.earliest = earliest.unwrap_or(Instant::NEVER);
        self.deadline(patience) <= now
    }
}

/// What is held of one connection.
#[derive(Debug, Default)]
pub(super) struct HeldFlow {
    ways: [Buffer; 2],
}

impl HeldFlow {
    pub fn way(&self, way: Direction) -> &Buffer {
        &self.ways[way.index()]
    }

    pub fn way_mut(&mut self, way: Direction) -> &mut Buffer {
        &mut self.ways[way.index()]
    }

    pub fn len(&self) -> usize {
        self.ways.iter().map(Buffer::len).sum()
    }

    pub fn bytes(&self) -> usize {
        self.ways.iter().map(Buffer::bytes).sum()
    }

    pub fn deadline(&self, patience: Duration) -> Instant {
        self.ways[0].deadline(patience).min(self.ways[1].deadline(patience))
    }

    /// Lets every frame go home.
    pub fn clear(&mut self) {
        self.ways.iter_mut().for_each(|way| while way.remove(0).is_some() {});
    }
}
