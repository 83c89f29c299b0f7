//! The table of flows.

use crate::memory::slab_bytes;
use crate::records::{Count, FlowRecord};
use std::time::Duration;
use twinpath_core::{FlowKey, HashKey, Instant, NumberIndex, Side};
use twinpath_slowpath::Slab;

/// A flow, and whose rules it may still have.
#[derive(Debug)]
struct Known {
    record: FlowRecord,
    /// No rule counts what this end sends.
    is_released: [bool; 2],
}

/// All flows, found by key and by number.
#[derive(Debug)]
pub(super) struct Flows {
    by_key: NumberIndex,
    hash_key: HashKey,
    records: Slab<Known>,
    /// Highest number ever given.
    highest: u32,
    /// Where the search for idle flows goes on.
    hand: u32,
}

impl Flows {
    pub fn new(limit: usize, seed: u64) -> Self {
        Self {
            by_key: NumberIndex::new(limit),
            hash_key: HashKey::new(seed),
            records: Slab::new(limit),
            highest: 0,
            hand: 0,
        }
    }

    /// What so many flows take.
    pub const fn bytes(flows: usize) -> u64 {
        NumberIndex::bytes(flows) + slab_bytes::<Known>(flows)
    }

    /// Another limit. If there are more flows already, they stay.
    pub fn set_limit(&mut self, limit: usize) {
        self.records.set_limit(limit);
        self.by_key.make_room(limit);
    }

    /// Takes the memory of the index now, before packets could wait for it.
    pub fn take_memory(&mut self) {
        self.by_key.touch();
    }

    pub fn len(&self) -> usize {
        self.records.len()
    }

    pub fn find(&self, key: &FlowKey) -> Option<u32> {
        let hash = key.hash(&self.hash_key);
        self.by_key.find(hash, |number| {
            let known = self.records.at(number);
            known.is_some_and(|known| known.record.key == *key)
        })
    }

    /// A new flow's number, if there is room.
    pub fn add(&mut self, key: FlowKey, now: Instant) -> Option<u32> {
        let record = FlowRecord {
            key,
            first: now,
            last: now,
            sent: [Count::default(); 2],
            tcp_flags: [0; 2],
        };
        let is_released = [false; 2];
        let known = Known {
            record,
            is_released,
        };
        let number = self.records.insert(known).ok()?;
        if !self.by_key.insert(key.hash(&self.hash_key), number) {
            self.records.remove(number);
            return None;
        }
        self.highest = self.highest.max(number);
        Some(number)
    }

    pub fn count(&mut self, number: u32, sender: Side, count: Count, last: Instant) {
        if let Some(Known { record, .. }) = self.records.at_mut(number) {
            record.sent[sender as usize].add(count.packets, count.bytes);
            record.last = record.last.max(last);
        }
    }

    /// Rules may count for the flow again.
    pub fn hold(&mut self, number: u32) {
        if let Some(known) = self.records.at_mut(number) {
            known.is_released = [false; 2];
        }
    }

    /// No rule counts what an end of an idle flow sends. When neither end's is counted the flow
    /// ends.
    pub fn release(
        &mut self,
        number: u32,
        sender: Side,
        idle: Duration,
        now: Instant,
    ) -> Option<FlowRecord> {
        let known = self.records.at_mut(number)?;
        known.is_released[sender as usize] = true;
        if known.is_released != [true; 2] || now.since(known.record.last) <= idle {
            return None;
        }
        let Known { record, .. } = self.records.remove(number)?;
        self.by_key.remove(record.key.hash(&self.hash_key), number);
        Some(record)
    }

    /// Looks at the next `steps` numbers, and calls `each` with those of idle flows.
    pub fn each_idle(
        &mut self,
        steps: u32,
        idle: Duration,
        now: Instant,
        each: &mut dyn FnMut(u32),
    ) {
        for _ in 0..steps.min(self.highest) {
            self.hand = self.hand % self.highest + 1;
            let known = self.records.at(self.hand);
            if known.is_some_and(|known| now.since(known.record.last) > idle) {
                each(self.hand);
            }
        }
    }

    /// No flow's number is this large, or larger.
    pub fn bound(&self) -> usize {
        self.highest as usize + 1
    }

    pub fn at(&self, number: u32) -> Option<FlowRecord> {
        Some(self.records.at(number)?.record)
    }

    pub fn iter(&self) -> impl Iterator<Item = &FlowRecord> {
        (1..=self.highest).filter_map(|number| Some(&self.records.at(number)?.record))
    }
}
