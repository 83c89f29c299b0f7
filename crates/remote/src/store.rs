//! A place for payloads in this process: the frames themselves wait, nothing is copied.

use crate::counters::counters;
use crate::handle::{Handle, Sequence};
use crate::payloads::{Output, PayloadMemory, Refusal, Returned};
use std::time::Duration;
use twinpath_core::{Frame, Instant, Pools, Ticket};

struct Entry {
    sequence: Sequence,
    payload: Frame,
    taken_at: Instant,
}

counters! {
    /// What a store has counted.
    =>
    /// Payloads taken.
    writes,
    /// Payloads given back.
    reads,
    /// Payloads that lost their place to others.
    overtaken,
    /// Payloads that nobody needed any more.
    discarded,
    /// Payloads that were not taken: none of the others may lose its place yet.
    refused_memory,
    /// Handles of no payload.
    unknown,
}

/// Payloads of this process, each under the number of its place; a new one takes the place of the
/// oldest. It has one queue pair, in which all stay in order.
pub struct Store {
    server: u16,
    places: Box<[Option<Entry>]>,
    next: Sequence,
    counters: Counters,
    protection: Duration,
    /// Frames of payloads that lost their place, until a pool takes them.
    freed: Vec<Frame>,
}

impl Store {
    /// Places for `payloads`, rounded up to a power of two of at most 2^16, under a server's number.
    #[must_use]
    pub fn new(server: u16, payloads: usize) -> Self {
        let places = payloads
            .clamp(1, crate::ring::MAX_RECORDS)
            .next_power_of_two();
        Self {
            server,
            places: std::iter::repeat_with(|| None).take(places).collect(),
            next: Sequence::default(),
            counters: Counters::default(),
            protection: Duration::ZERO,
            freed: Vec::new(),
        }
    }

    /// What was counted.
    #[must_use]
    pub const fn counters(&self) -> &Counters {
        &self.counters
    }

    fn index(&self, sequence: Sequence) -> usize {
        sequence.number() as usize & (self.places.len() - 1)
    }

    fn take(&mut self, handle: &Handle) -> Option<Frame> {
        let index = self.index(handle.sequence);
        let is_same = |entry: &Entry| {
            entry.sequence == handle.sequence && entry.payload.len() == usize::from(handle.bytes)
        };
        let is_there = self.places[index].as_ref().is_some_and(is_same);
        let is_here = handle.server == self.server && handle.address == index as u64;
        if !is_there || !is_here {
            self.counters.unknown += 1;
            return None;
        }
        self.places[index].take().map(|entry| entry.payload)
    }
}

impl PayloadMemory for Store {
    fn queue_pairs(&self) -> u16 {
        1
    }

    fn is_ready(&self, queue_pair: u16) -> bool {
        queue_pair == 0
    }

    fn write(
        &mut self,
        queue_pair: u16,
        payload: Frame,
        now: Instant,
        _output: &mut Output,
    ) -> Result<Handle, (Frame, Refusal)> {
        if queue_pair != 0 {
            return Err((payload, Refusal::QueuePair));
        }
        let Ok(bytes) = u16::try_from(payload.len()) else {
            return Err((payload, Refusal::TooLong));
        };
        let sequence = self.next;
        let index = self.index(sequence);
        let is_protected = |entry: &Entry| now.since(entry.taken_at) < self.protection;
        if self.places[index].as_ref().is_some_and(is_protected) {
            self.counters.refused_memory += 1;
            return Err((payload, Refusal::Memory));
        }
        self.next = sequence.next();
        let entry = Entry {
            sequence,
            payload,
            taken_at: now,
        };
        if let Some(old) = self.places[index].replace(entry) {
            self.counters.overtaken += 1;
            self.freed.push(old.payload);
        }
        self.counters.writes += 1;
        Ok(Handle {
            address: index as u64,
            bytes,
            queue_pair,
            server: self.server,
            sequence,
        })
    }

    fn read(
        &mut self,
        handle: &Handle,
        header: Ticket,
        _now: Instant,
        _pools: &mut Pools,
        output: &mut Output,
    ) -> Result<(), Refusal> {
        let payload = self.take(handle).ok_or(Refusal::Unknown)?;
        self.counters.reads += 1;
        output.payloads.push(Returned {
            header,
            payload: Ok(payload),
        });
        Ok(())
    }

    fn discard(&mut self, handle: &Handle) {
        if let Some(payload) = self.take(handle) {
            self.counters.discarded += 1;
            self.freed.push(payload);
        }
    }

    fn receive(
        &mut self,
        frame: Frame,
        _now: Instant,
        _pools: &mut Pools,
        _output: &mut Output,
    ) -> Option<Frame> {
        Some(frame)
    }

    fn poll(&mut self, _now: Instant, pools: &mut Pools, _output: &mut Output) {
        self.freed.drain(..).for_each(|frame| pools.give(frame));
    }

    fn deadline(&self) -> Instant {
        Instant::NEVER
    }

    fn protect(&mut self, protection: Duration) {
        self.protection = protection;
    }

    fn named_counters(&self) -> Vec<(&'static str, u64)> {
        self.counters.named().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Instant = Instant::ZERO;

    #[test]
    fn payloads_are_the_frames_that_were_given() {
        let (mut store, mut pools) = (Store::new(3, 4), Pools::new(8, 1));
        let mut output = Output::default();
        let payload = pools.take_filled(b"payload").unwrap();
        let buffer = payload.buffer();
        let handle = store.write(0, payload, NOW, &mut output).unwrap();
        let header = Ticket::default();
        let mut read = |handle: &Handle, output: &mut Output| {
            store.read(handle, header, NOW, &mut pools, output)
        };
        for forged in [
            Handle { bytes: 6, ..handle },
            Handle {
                server: 0,
                ..handle
            },
            Handle {
                address: 1,
                ..handle
            },
            Handle {
                sequence: Sequence::new(4),
                ..handle
            },
        ] {
            assert_eq!(read(&forged, &mut output), Err(Refusal::Unknown));
        }
        read(&handle, &mut output).unwrap();
        let back = output.payloads.pop().unwrap().payload.unwrap();
        assert_eq!((back.buffer(), back.bytes()), (buffer, &b"payload"[..]));
        assert_eq!(read(&handle, &mut output), Err(Refusal::Unknown));
    }

    #[test]
    fn the_oldest_is_overtaken_and_its_buffer_comes_home() {
        let (mut store, mut pools) = (Store::new(0, 2), Pools::new(3, 1));
        let mut output = Output::default();
        let mut handles = Vec::new();
        for text in [b"a", b"b", b"c"] {
            let payload = pools.take_filled(text).unwrap();
            handles.push(store.write(0, payload, NOW, &mut output).unwrap());
        }
        let header = Ticket::default();
        let refused = store.read(&handles[0], header, NOW, &mut pools, &mut output);
        assert_eq!(refused, Err(Refusal::Unknown));
        store.discard(&handles[1]);
        store.poll(NOW, &mut pools, &mut output);
        assert_eq!(pools.small().available(), 2);
        let counters = store.counters();
        assert_eq!((counters.overtaken, counters.discarded), (1, 1));
        let refused = store.write(1, pools.take_filled(b"d").unwrap(), NOW, &mut output);
        assert!(matches!(refused, Err((_, Refusal::QueuePair))));
    }
}
