//! Remote memory as a ring (Ribosome §3.1): payloads lie behind one another in the order in which they
//! were written, and each new one takes the place of the oldest.
//!
//! The paper makes the ring so large that no payload is overwritten before it was read. Here a record
//! of each says whether it was, so that an overtaken one is noticed and counted. A payload that is being
//! read is never overtaken: then there is no room, for as long as a READ may take at most.

use crate::handle::{Handle, Sequence, stored_bytes};
use std::time::Duration;
use twinpath_core::Instant;

/// Payloads begin at multiples of it: no two share a line of the server's cache.
const ALIGNMENT: u64 = 64;
/// The most records of a ring, so that sequence numbers tell them apart.
pub const MAX_RECORDS: usize = 1 << 16;

/// What became of a payload.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum State {
    /// Nobody needs its place.
    Free,
    /// It is on its way to the server.
    Writing,
    /// The server has it.
    Written,
}

#[derive(Copy, Clone, Debug)]
struct Record {
    /// Where it begins, from the start of the ring.
    at: u64,
    /// What it takes of the ring, with what was left out before it.
    taken: u64,
    bytes: u16,
    state: State,
    is_read: bool,
    taken_at: Instant,
    tag: u64,
}

const NO_RECORD: Record = Record {
    at: 0,
    taken: 0,
    bytes: 0,
    state: State::Free,
    is_read: false,
    taken_at: Instant::ZERO,
    tag: 0,
};

/// One queue pair's share of a server's memory, as the requester keeps account of it.
#[derive(Debug)]
pub struct Ring {
    /// Where it begins in the server's memory.
    address: u64,
    bytes: u64,
    records: Box<[Record]>,
    /// The oldest that may be there.
    first: Sequence,
    /// The next one's number.
    next: Sequence,
    /// Where the next one goes, from the start.
    end: u64,
    /// How much is taken.
    taken: u64,
    overtaken: u64,
    /// How long a payload does not lose its place.
    protection: Duration,
}

/// What a payload that is there is to a reader.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct StoredPayload {
    /// Where its Header Info begins in the server's memory.
    pub address: u64,
    /// The payload in bytes.
    pub bytes: u16,
    /// Whether the server is known to have it.
    pub is_written: bool,
    /// Whether it is being read.
    pub is_read: bool,
    /// What its [tag](Ring::mark) is.
    pub tag: u64,
}

impl Ring {
    /// An empty ring of `bytes` of the server's memory from `address` on, for up to `records` payloads:
    /// rounded up to a power of two, at most [`MAX_RECORDS`]. The first one's number is `first`: rings
    /// that begin at numbers without a pattern do not take each other's payloads for their own.
    #[must_use]
    pub fn new(address: u64, bytes: u64, records: usize, first: Sequence) -> Self {
        let records = records.clamp(1, MAX_RECORDS).next_power_of_two();
        Self {
            address,
            bytes: bytes / ALIGNMENT * ALIGNMENT,
            records: vec![NO_RECORD; records].into(),
            first,
            next: first,
            end: 0,
            taken: 0,
            overtaken: 0,
            protection: Duration::ZERO,
        }
    }

    /// For how long a payload does not lose its place to others.
    pub fn protect(&mut self, protection: Duration) {
        self.protection = protection;
    }

    /// Takes a place for a payload. `None` if there is none: it is too long, or the oldest payload is
    /// being read or protected.
    pub fn take(&mut self, bytes: u16, now: Instant) -> Option<(Sequence, u64)> {
        let needed = (stored_bytes(bytes.into()) as u64).next_multiple_of(ALIGNMENT);
        if needed > self.bytes {
            return None;
        }
        // A payload does not go around the ring's end: what is left there is left out.
        let left = self.bytes - self.end;
        let (at, taken) = match needed <= left {
            true => (self.end, needed),
            false => (0, needed + left),
        };
        self.make_room(taken, now)?;
        // When all is free again there is nothing to go around.
        let (at, taken) = match self.taken {
            0 => (0, needed),
            _ => (at, taken),
        };
        let sequence = self.next;
        *self.record_mut(sequence) = Record {
            at,
            taken,
            bytes,
            state: State::Writing,
            is_read: false,
            taken_at: now,
            tag: 0,
        };
        self.next = sequence.next();
        self.taken += taken;
        self.end = at + needed;
        Some((sequence, self.address + at))
    }

    /// Lets go of the oldest until there is a record and `taken` bytes.
    fn make_room(&mut self, taken: u64, now: Instant) -> Option<()> {
        while self.len() == self.records.len() || self.taken + taken > self.bytes {
            if self.is_empty() {
                return Some(());
            }
            let oldest = self.first;
            let record = self.record(oldest);
            if record.is_read || now.since(record.taken_at) < self.protection {
                return None;
            }
            self.overtaken += 1;
            self.free(oldest);
        }
        Some(())
    }

    /// How many records there are, from the oldest that is there to the newest.
    #[must_use]
    pub fn len(&self) -> usize {
        self.next.since(self.first) as usize
    }

    /// Whether no payload is there.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many payloads lost their place to others.
    #[must_use]
    pub const fn overtaken(&self) -> u64 {
        self.overtaken
    }

    /// Where a payload is, unless its place was given up.
    #[must_use]
    pub fn place(&self, sequence: Sequence) -> Option<StoredPayload> {
        let is_inside = sequence.since(self.first) < self.next.since(self.first);
        let record = self.record(sequence);
        let is_there = is_inside && record.state != State::Free;
        is_there.then_some(StoredPayload {
            address: self.address + record.at,
            bytes: record.bytes,
            is_written: record.state == State::Written,
            is_read: record.is_read,
            tag: record.tag,
        })
    }

    /// Keeps what tells a payload from others, until it is freed.
    pub fn mark(&mut self, sequence: Sequence, tag: u64) {
        self.record_mut(sequence).tag = tag;
    }

    /// The same for a handle that came from outside: all that it says must be as it was given out.
    #[must_use]
    pub fn place_of(&self, handle: &Handle) -> Option<StoredPayload> {
        let is_same =
            |place: &StoredPayload| place.address == handle.address && place.bytes == handle.bytes;
        self.place(handle.sequence).filter(is_same)
    }

    /// The server has a payload.
    pub fn written(&mut self, sequence: Sequence) {
        if self.place(sequence).is_some() {
            self.record_mut(sequence).state = State::Written;
        }
    }

    /// A payload is to be read, and stays until it is [freed](Self::free).
    pub fn reading(&mut self, sequence: Sequence) {
        if self.place(sequence).is_some() {
            self.record_mut(sequence).is_read = true;
        }
    }

    /// Nobody needs a payload any more.
    pub fn free(&mut self, sequence: Sequence) {
        if self.place(sequence).is_none() {
            return;
        }
        self.record_mut(sequence).state = State::Free;
        while !self.is_empty() && self.record(self.first).state == State::Free {
            self.taken -= self.record(self.first).taken;
            self.first = self.first.next();
        }
    }

    /// The ring is elsewhere from now on, and nothing that was written is there any more. Sequence
    /// numbers go on, so that former handles name nothing.
    pub fn move_to(&mut self, address: u64, bytes: u64) {
        (self.address, self.bytes) = (address, bytes / ALIGNMENT * ALIGNMENT);
        (self.first, self.end, self.taken) = (self.next, 0, 0);
    }

    fn record(&self, sequence: Sequence) -> &Record {
        &self.records[sequence.number() as usize & (self.records.len() - 1)]
    }

    fn record_mut(&mut self, sequence: Sequence) -> &mut Record {
        &mut self.records[sequence.number() as usize & (self.records.len() - 1)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const NOW: Instant = Instant(1_000_000);

    #[test]
    fn the_oldest_is_overtaken_and_known_to_be() {
        let mut ring = Ring::new(0x1000, 256, 16, Sequence::new(u32::MAX));
        let (first, address) = ring.take(100, NOW).unwrap();
        assert_eq!(address, 0x1000);
        let (second, address) = ring.take(100, NOW).unwrap();
        assert_eq!(address, 0x1080);
        let (third, address) = ring.take(100, NOW).unwrap();
        assert_eq!((address, ring.overtaken()), (0x1000, 1));
        assert!(ring.place(first).is_none() && ring.place(second).is_some());
        assert!(ring.place(third).is_some());
    }

    #[test]
    fn what_is_being_read_is_not_overtaken() {
        let mut ring = Ring::new(0, 128, 16, Sequence::new(u32::MAX));
        let (first, _) = ring.take(100, NOW).unwrap();
        ring.reading(first);
        assert!(ring.take(1, NOW).is_none());
        ring.free(first);
        assert!(ring.take(1, NOW).is_some() && ring.overtaken() == 0);
    }

    #[test]
    fn what_is_protected_is_not_overtaken() {
        let mut ring = Ring::new(0, 128, 16, Sequence::new(0));
        ring.protect(Duration::from_micros(10));
        let (first, _) = ring.take(100, NOW).unwrap();
        let later = |ns: u64| Instant(NOW.0 + ns);
        assert!(ring.take(1, later(9_999)).is_none() && ring.place(first).is_some());
        assert!(ring.take(1, later(10_000)).is_some() && ring.overtaken() == 1);
        ring.protect(Duration::MAX);
        assert!(ring.take(100, Instant::NEVER).is_none());
    }

    #[test]
    fn too_long_a_payload_has_no_place() {
        let mut ring = Ring::new(0, 128, 16, Sequence::new(u32::MAX));
        assert!(ring.take(125, NOW).is_none());
        assert!(ring.take(124, NOW).is_some());
    }

    #[test]
    fn a_handle_must_be_as_it_was_given_out() {
        let mut ring = Ring::new(0, 1024, 4, Sequence::new(u32::MAX));
        let (sequence, address) = ring.take(10, NOW).unwrap();
        let handle = Handle {
            address,
            bytes: 10,
            queue_pair: 0,
            server: 0,
            sequence,
        };
        assert!(ring.place_of(&handle).is_some());
        let longer = Handle {
            bytes: 11,
            ..handle
        };
        let elsewhere = Handle {
            address: 64,
            ..handle
        };
        let other = Handle {
            sequence: sequence.next(),
            ..handle
        };
        for forged in [longer, elsewhere, other] {
            assert!(ring.place_of(&forged).is_none(), "{forged:?}");
        }
    }

    #[test]
    fn a_ring_that_moved_has_none_of_what_it_had() {
        let mut ring = Ring::new(0, 1024, 4, Sequence::new(u32::MAX));
        let (before, _) = ring.take(10, NOW).unwrap();
        ring.move_to(4096, 1024);
        let (after, address) = ring.take(10, NOW).unwrap();
        assert!(ring.place(before).is_none() && ring.place(after).is_some());
        assert_eq!(address, 4096);
    }

    #[derive(Clone, Debug)]
    enum Step {
        Take(u16),
        Read(usize),
        Free(usize),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            4 => (0u16..700).prop_map(Step::Take),
            1 => (0usize..8).prop_map(Step::Read),
            2 => (0usize..8).prop_map(Step::Free),
        ]
    }

    proptest! {
        /// No two payloads that are there overlap, and all lie in the ring.
        #[test]
        fn payloads_never_overlap(steps in prop::collection::vec(step(), 1..200), bytes in 64u64..4096, records in 1usize..16) {
            let mut ring = Ring::new(0x10_0000, bytes, records, Sequence::new(u32::MAX));
            let mut known: Vec<Sequence> = Vec::new();
            for step in steps {
                match step {
                    Step::Take(bytes) => known.extend(ring.take(bytes, NOW).map(|(sequence, _)| sequence)),
                    Step::Read(at) => known.get(at).into_iter().for_each(|&one| ring.reading(one)),
                    Step::Free(at) => known.get(at).into_iter().for_each(|&one| ring.free(one)),
                }
                known.retain(|&one| ring.place(one).is_some());
                prop_assert!(known.len() <= ring.len());
                let range = |one: &Sequence| {
                    let place = ring.place(*one).unwrap();
                    (place.address, place.address + stored_bytes(place.bytes.into()) as u64)
                };
                let mut ranges: Vec<_> = known.iter().map(range).collect();
                ranges.sort_unstable();
                prop_assert!(ranges.windows(2).all(|pair| pair[0].1 <= pair[1].0), "{ranges:x?}");
                let end = 0x10_0000 + bytes;
                prop_assert!(ranges.iter().all(|&(from, to)| from >= 0x10_0000 && to <= end));
            }
        }
    }
}
