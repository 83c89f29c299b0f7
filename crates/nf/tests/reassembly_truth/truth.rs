//! The independent reassembly.

use crate::driver::Segment;
use std::collections::HashMap;
use twinpath_core::wire::tcp::flags::{ACK, RST, SYN};
use twinpath_core::{FlowKey, Side};

/// One direction of one connection: where it begins and which packets belong to it.
#[derive(Default)]
pub struct Stream {
    origin: Option<u32>,
    syn: Option<u32>,
    latest: u32,
    pub ordinals: Vec<usize>,
}

/// Which stream each packet belongs to.
pub struct Streams {
    pub streams: Vec<Stream>,
    pub of_packet: Vec<usize>,
}

impl Streams {
    pub fn sort_out(input: &[Segment]) -> Self {
        let mut sorted = Self {
            streams: Vec::new(),
            of_packet: Vec::new(),
        };
        let mut current: HashMap<(FlowKey, Side), usize> = HashMap::new();
        for segment in input {
            let other = (segment.stream.0, segment.stream.1.other());
            let known = current.get(&segment.stream).copied();
            if known.is_some_and(|known| sorted.streams[known].is_over(segment)) {
                current.remove(&segment.stream);
                if segment.has(SYN) && !segment.has(ACK) {
                    current.remove(&other);
                }
            }
            let index = *current.entry(segment.stream).or_insert_with(|| {
                sorted.streams.push(Stream::default());
                sorted.streams.len() - 1
            });
            sorted.streams[index].take(segment);
            sorted.of_packet.push(index);
            if segment.has(RST) {
                current.remove(&segment.stream);
                current.remove(&other);
            }
        }
        sorted
    }
}

impl Stream {
    /// Whether a packet belongs to another connection than those before.
    fn is_over(&self, segment: &Segment) -> bool {
        let jumps = self.origin.is_some()
            && (segment.sequence.wrapping_sub(self.latest) as i32).unsigned_abs() > 1 << 30;
        let other_syn = segment.has(SYN) && self.syn.is_some_and(|syn| syn != segment.sequence);
        !segment.has(RST) && (jumps || other_syn)
    }

    fn take(&mut self, segment: &Segment) {
        if segment.has(SYN) && !segment.has(RST) {
            self.syn = Some(segment.sequence);
        }
        if segment.has_data() || self.syn.is_some() {
            self.origin.get_or_insert(segment.first());
        }
        self.latest = segment.end();
        self.ordinals.push(segment.ordinal);
    }

    /// Place of a byte in the stream.
    pub fn offset(&self, sequence: u32) -> i64 {
        i64::from(sequence.wrapping_sub(self.origin.unwrap_or(sequence)) as i32)
    }

    /// The stream's contiguous pieces, with their offsets.
    pub fn pieces(&self, input: &[Segment]) -> Vec<(i64, Vec<u8>)> {
        let mut segments: Vec<_> = self
            .ordinals
            .iter()
            .map(|&ordinal| &input[ordinal])
            .filter(|segment| segment.has_data())
            .collect();
        segments.sort_by_key(|segment| self.offset(segment.first()));
        let mut islands: Vec<Island> = Vec::new();
        for segment in segments {
            let start = self.offset(segment.first());
            match islands.last_mut() {
                Some(island) if start <= island.end() => island.lay(start, segment),
                _ => islands.push(Island::new(start, segment)),
            }
        }
        islands
            .into_iter()
            .filter_map(Island::after_origin)
            .collect()
    }
}

/// Segments that touch, byte by byte: each with the packet that it came in.
struct Island {
    start: i64,
    bytes: Vec<(usize, u8)>,
}

impl Island {
    fn new(start: i64, segment: &Segment) -> Self {
        let mut island = Self {
            start,
            bytes: Vec::new(),
        };
        island.lay(start, segment);
        island
    }

    fn end(&self) -> i64 {
        self.start + self.bytes.len() as i64
    }

    fn lay(&mut self, start: i64, segment: &Segment) {
        let from = (start - self.start) as usize;
        for (index, &byte) in (from..).zip(&segment.payload) {
            match self.bytes.get_mut(index) {
                Some(place) if place.0 > segment.ordinal => *place = (segment.ordinal, byte),
                Some(_) => {}
                None => self.bytes.push((segment.ordinal, byte)),
            }
        }
    }

    /// What lies at or after the stream's first byte.
    fn after_origin(self) -> Option<(i64, Vec<u8>)> {
        let before = usize::try_from(-self.start).unwrap_or(0);
        let bytes: Vec<u8> = self
            .bytes
            .iter()
            .skip(before)
            .map(|&(_, byte)| byte)
            .collect();
        (!bytes.is_empty()).then_some((self.start.max(0), bytes))
    }
}
