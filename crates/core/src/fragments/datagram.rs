//! What is known of a datagram whose fragments come.

use crate::fragment_place::FragmentPlace;
use crate::time::Instant;
use crate::wire::fragment::{Part, part};
use crate::wire::layout::{Layout, Network, Transport};
use crate::wire::tcp::flags::{FIN, SYN};
use crate::wire::{Address, fields};

/// Most stretches of a datagram with gaps between them.
const MAX_STRETCHES: usize = 16;

/// What the fragments of one datagram have in common (RFC 791 §3.2, RFC 8200 §4.5).
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct Name {
    pub source: Address,
    destination: Address,
    /// Of IPv4 alone: IPv6 tells datagrams apart without it.
    protocol: u8,
    identification: u32,
}

impl Name {
    /// What a fragment is a part of, and which; `None` if it cannot be one.
    pub fn of(frame: &[u8], layout: &Layout) -> Option<(Self, Part)> {
        let part = part(frame, layout)?;
        let is_whole_units = part.is_last || part.bytes.is_multiple_of(8);
        let name = Self {
            source: fields::source_address(frame, layout),
            destination: fields::destination_address(frame, layout),
            protocol: match layout.network {
                Network::V4 => layout.protocol,
                _ => 0,
            },
            identification: part.identification,
        };
        (part.bytes > 0 && is_whole_units).then_some((name, part))
    }

    /// All of it, to be hashed.
    pub const fn words(&self) -> [u64; 5] {
        let [from, to] = [self.source.0, self.destination.0];
        let rest = (self.identification as u64) << 8 | self.protocol as u64;
        [
            (from >> 64) as u64,
            from as u64,
            (to >> 64) as u64,
            to as u64,
            rest,
        ]
    }
}

/// A datagram of which some fragments have come.
#[derive(Copy, Clone, Debug)]
pub(super) struct Datagram {
    pub name: Name,
    pub since: Instant,
    /// Of the first fragment, if it has come.
    pub ports: Option<[u16; 2]>,
    pub protocol: u8,
    pub place: FragmentPlace,
    /// What has come, in order and apart from each other: first byte, and the one behind the last.
    stretches: [(u32, u32); MAX_STRETCHES],
    count: usize,
    /// The length of the whole, if the last fragment has come.
    length: Option<u32>,
}

impl Datagram {
    pub const fn new(name: Name, protocol: u8, since: Instant) -> Self {
        Self {
            name,
            since,
            ports: None,
            protocol,
            place: FragmentPlace {
                sequence: 0,
                acknowledgement: 0,
            },
            stretches: [(0, 0); MAX_STRETCHES],
            count: 0,
            length: None,
        }
    }

    /// Takes a part, if it fits what has come. Returns whether it does.
    pub fn take(&mut self, part: &Part) -> bool {
        let (first, end) = (part.offset, part.end());
        let known = &self.stretches[..self.count];
        let reached = known.last().map_or(0, |&(_, end)| end);
        let has_room = match (self.length, part.is_last) {
            (Some(length), false) => end < length,
            (None, true) => reached < end || self.count == 0,
            (Some(_), true) => false,
            (None, false) => true,
        };
        let at = known.partition_point(|&(_, behind)| behind <= first);
        let overlaps = known.get(at).is_some_and(|&(next, _)| next < end);
        if !has_room || overlaps || !self.insert(at, first, end) {
            return false;
        }
        if part.is_last {
            self.length = Some(end);
        }
        true
    }

    /// Adds a stretch in front of the one at `at`, joined with what it touches; false if there are
    /// too many.
    fn insert(&mut self, at: usize, first: u32, end: u32) -> bool {
        let touches_before = at > 0 && self.stretches[at - 1].1 == first;
        let touches_next = at < self.count && self.stretches[at].0 == end;
        match (touches_before, touches_next) {
            (true, true) => {
                self.stretches[at - 1].1 = self.stretches[at].1;
                self.stretches.copy_within(at + 1..self.count, at);
                self.count -= 1;
            }
            (true, false) => self.stretches[at - 1].1 = end,
            (false, true) => self.stretches[at].0 = first,
            (false, false) if self.count < MAX_STRETCHES => {
                self.stretches.copy_within(at..self.count, at + 1);
                self.stretches[at] = (first, end);
                self.count += 1;
            }
            (false, false) => return false,
        }
        true
    }

    /// The first fragment tells ports and numbers.
    pub fn learn(&mut self, frame: &[u8], layout: &Layout, part: &Part) {
        self.ports = Some([
            fields::source_port(frame, layout),
            fields::destination_port(frame, layout),
        ]);
        self.protocol = layout.protocol;
        if layout.transport != Transport::Tcp {
            return;
        }
        let flags = fields::tcp_flags(frame, layout);
        let in_front = usize::from(layout.payload).saturating_sub(part.data_at) as u32;
        let of_flags = u32::from(flags & SYN != 0) + u32::from(flags & FIN != 0);
        let sequence = fields::tcp_seq(frame, layout).wrapping_add(of_flags);
        self.place = FragmentPlace {
            sequence: sequence.wrapping_sub(in_front),
            acknowledgement: fields::tcp_ack(frame, layout),
        };
    }

    /// Whether all of it has come.
    pub fn is_complete(&self) -> bool {
        self.count == 1 && self.length == Some(self.stretches[0].1) && self.stretches[0].0 == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn name() -> Name {
        Name {
            source: Address(1),
            destination: Address(2),
            protocol: 17,
            identification: 3,
        }
    }

    fn part_of(offset: u32, bytes: u32, is_last: bool) -> Part {
        Part {
            identification: 3,
            offset,
            bytes,
            is_last,
            data_at: 0,
        }
    }

    proptest! {
        /// Against a map of every byte: no byte comes twice, none behind the end, and it is complete
        /// when all are there.
        #[test]
        fn takes_what_fits(parts in prop::collection::vec((0..40u32, 1..6u32, 0..8u8), 1..60)) {
            let mut datagram = Datagram::new(name(), 17, Instant::ZERO);
            let (mut bytes, mut length) = ([false; 400], None);
            for (offset, units, last) in parts {
                let part = part_of(8 * offset, 8 * units, last == 0);
                let range = part.offset as usize..part.end() as usize;
                let is_free = !bytes[range.clone()].iter().any(|&is_there| is_there);
                let ends_right = match (length, part.is_last) {
                    (Some(length), false) => part.end() < length,
                    (Some(_), true) => false,
                    (None, true) => !bytes[range.end..].iter().any(|&is_there| is_there),
                    (None, false) => true,
                };
                let mut after = bytes;
                after[range.clone()].fill(true);
                let stretches = after.windows(2).filter(|pair| pair[0] && !pair[1]).count();
                let taken = datagram.take(&part);
                prop_assert_eq!(taken, is_free && ends_right && stretches <= MAX_STRETCHES);
                if taken {
                    bytes = after;
                    length = length.or(part.is_last.then_some(part.end()));
                }
                let whole = length.is_some_and(|length| bytes[..length as usize].iter().all(|&is_there| is_there));
                prop_assert_eq!(datagram.is_complete(), whole);
            }
        }
    }
}
