//! The table of flow state: registers that packets insert into, update and delete from, without
//! a control plane (SwitchNIC §5.1).
//!
//! A slot has three parts, each in its own array so that a lookup touches as few cache lines as
//! it can: a 16-bit tag (a bucket's tags are compared at once), a head of one line (the full key
//! and the mechanism's control lanes), and the state words. Tags only save look-ups: a hit is
//! always decided by the full key.
//!
//! One way per bucket is what a switch ASIC has. Several ways make collisions rare in software,
//! and a flow that finds its bucket full goes to a second choice: a table that is half full would
//! otherwise turn away one flow in 140, each of whose packets costs as much as ten hits.

use twinpath_core::FlowKey;
use twinpath_core::memory::{CacheLine, ZeroedArray, equal_lanes, prefetch};

/// Most ways that a bucket may have.
pub const MAX_WAYS: usize = 8;

/// A slot's number.
pub type SlotId = u32;

/// Control lanes of a slot that belong to the mechanism which uses the table.
pub type Control = [u64; 3];

/// No slot: what [`StateTable::prefetch_slot`] suspects when no tag fits.
pub const NO_SLOT: SlotId = SlotId::MAX;

/// A fixed number of slots in set-associative buckets.
pub struct StateTable {
    /// Of each bucket the tags of all ways, the first in the lowest bits.
    tags: ZeroedArray<u128>,
    heads: ZeroedArray<CacheLine>,
    words: ZeroedArray<u32>,
    buckets: u64,
    ways: usize,
    stride: usize,
    word_count: usize,
}

impl StateTable {
    /// A table of at least `slots` slots in buckets of `ways` (1 to [`MAX_WAYS`], a power of
    /// two), with `words` state words each. All slots start zeroed.
    pub fn new(slots: usize, ways: usize, words: usize) -> Self {
        let ways = ways.clamp(1, MAX_WAYS).next_power_of_two();
        let buckets = slots.div_ceil(ways).max(1);
        let slots = buckets * ways;
        // A stride that divides the cache line, or is a multiple of it, never straddles lines.
        let stride = if words <= 16 {
            words.next_power_of_two()
        } else {
            words.next_multiple_of(16)
        };
        Self {
            tags: ZeroedArray::new(buckets),
            heads: ZeroedArray::new(slots),
            words: ZeroedArray::new(slots * stride),
            buckets: buckets as u64,
            ways,
            stride,
            word_count: words,
        }
    }

    /// Number of slots.
    pub fn slots(&self) -> usize {
        self.heads.len()
    }

    /// Slots per bucket.
    pub fn ways(&self) -> usize {
        self.ways
    }

    /// State words per slot.
    pub fn word_count(&self) -> usize {
        self.word_count
    }

    /// Memory that the table takes when full, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.tags.len() * 16 + self.heads.len() * 64 + self.words.len() * 4
    }

    /// The bucket that a hash falls into first.
    #[inline(always)]
    fn bucket(&self, hash: u64) -> usize {
        ((u64::from(hash as u32) * self.buckets) >> 32) as usize
    }

    /// The buckets that may hold a flow with this hash, the one of first choice first. With one
    /// way there is no other.
    #[inline]
    fn choices(&self, hash: u64) -> impl Iterator<Item = usize> + use<> {
        let others = usize::from(self.ways > 1);
        let second = self.bucket(hash >> 16);
        std::iter::once(self.bucket(hash)).chain(std::iter::repeat_n(second, others))
    }

    /// Never zero, so that a slot that was never used matches nothing.
    #[inline(always)]
    const fn tag(hash: u64) -> u16 {
        (hash >> 48) as u16 | 1
    }

    /// Phase one of a batch: fetch the tags.
    #[inline(always)]
    pub fn prefetch_tags(&self, hash: u64) {
        prefetch(&self.tags[self.bucket(hash)]);
    }

    /// Phase two: compare tags; fetch head and words of the slot that probably holds the flow,
    /// and return it, for [`Self::find_near`].
    #[inline(always)]
    pub fn prefetch_slot(&self, hash: u64) -> SlotId {
        let Some(slot) = self.first_suspect(hash) else {
            return NO_SLOT;
        };
        if let (Some(head), Some(word)) = (self.heads.get(slot), self.words.get(slot * self.stride))
        {
            prefetch(head);
            prefetch(word);
        }
        slot as SlotId
    }

    /// The first of the suspects in the bucket of first choice.
    #[inline(always)]
    fn first_suspect(&self, hash: u64) -> Option<usize> {
        let bucket = self.bucket(hash);
        let way = Ways::with_tag(*self.tags.get(bucket)?, Self::tag(hash)).next()?;
        Some(bucket * self.ways + way)
    }

    /// Slots of a bucket whose tag fits, and perhaps others: the key decides.
    #[inline(always)]
    fn suspects(&self, bucket: usize, hash: u64) -> impl Iterator<Item = usize> + '_ {
        let ways = Ways::with_tag(self.tags[bucket], Self::tag(hash));
        ways.map(move |way| bucket * self.ways + way)
    }

    /// The slot that holds this key, or held it last.
    #[inline]
    pub fn find(&self, key: &FlowKey, hash: u64) -> Option<SlotId> {
        self.choices(hash)
            .flat_map(|bucket| self.suspects(bucket, hash))
            .find(|&slot| self.holds(slot, key))
            .map(|slot| slot as SlotId)
    }

    /// [`Self::find`], quicker where `suspect` is the slot.
    #[inline(always)]
    pub fn find_near(&self, suspect: SlotId, key: &FlowKey, hash: u64) -> Option<SlotId> {
        if self.contains(suspect) && self.holds(suspect as usize, key) {
            return Some(suspect);
        }
        self.find(key, hash)
    }

    #[inline(always)]
    fn holds(&self, slot: usize, key: &FlowKey) -> bool {
        !differ(&self.heads[slot].0, key)
    }

    /// The first slot of the hash's buckets for which `is_free` holds.
    pub fn vacant(&self, hash: u64, mut is_free: impl FnMut(&Control) -> bool) -> Option<SlotId> {
        self.choices(hash)
            .flat_map(|bucket| bucket * self.ways..(bucket + 1) * self.ways)
            .find(|&slot| is_free(&self.control(slot as SlotId)))
            .map(|slot| slot as SlotId)
    }

    /// Makes a slot hold a key. What it held before is gone.
    pub fn assign(&mut self, slot: SlotId, key: &FlowKey, hash: u64) {
        let (bucket, way) = (slot as usize / self.ways, slot as usize % self.ways);
        let tags = &mut self.tags[bucket];
        *tags = *tags & !(0xffff << (16 * way)) | u128::from(Self::tag(hash)) << (16 * way);
        self.heads[slot as usize].0[..5].copy_from_slice(&key.0);
    }

    /// The key that a slot holds, or held last.
    #[inline]
    pub fn key(&self, slot: SlotId) -> FlowKey {
        let lanes = &self.heads[slot as usize].0;
        FlowKey([lanes[0], lanes[1], lanes[2], lanes[3], lanes[4]])
    }

    /// The mechanism's lanes.
    #[inline(always)]
    pub fn control(&self, slot: SlotId) -> Control {
        let lanes = &self.heads[slot as usize].0;
        [lanes[5], lanes[6], lanes[7]]
    }

    /// Sets the mechanism's lanes.
    #[inline(always)]
    pub fn set_control(&mut self, slot: SlotId, control: Control) {
        self.heads[slot as usize].0[5..].copy_from_slice(&control);
    }

    /// The mechanism's lanes and the flow's state words, to change.
    #[inline(always)]
    pub fn parts_mut(&mut self, slot: SlotId) -> (&mut Control, &mut [u32]) {
        let start = slot as usize * self.stride;
        let [_, _, _, _, _, control @ ..] = &mut self.heads[slot as usize].0;
        (control, &mut self.words[start..start + self.word_count])
    }

    /// [`Self::parts_mut`] of a slot that is there and holds this key.
    #[inline(always)]
    pub fn held(&mut self, slot: SlotId, key: &FlowKey) -> Option<(&mut Control, &mut [u32])> {
        let lanes = &mut self.heads.get_mut(slot as usize)?.0;
        if differ(lanes, key) {
            return None;
        }
        let [_, _, _, _, _, control @ ..] = lanes;
        let start = slot as usize * self.stride;
        let words = self.words.get_mut(start..start + self.word_count)?;
        Some((control, words))
    }

    /// The flow's state words.
    #[inline(always)]
    pub fn words(&self, slot: SlotId) -> &[u32] {
        let start = slot as usize * self.stride;
        &self.words[start..start + self.word_count]
    }

    /// The flow's state words, to change.
    #[inline(always)]
    pub fn words_mut(&mut self, slot: SlotId) -> &mut [u32] {
        let start = slot as usize * self.stride;
        &mut self.words[start..start + self.word_count]
    }

    /// Whether a slot number from outside (the link) is one of ours.
    pub fn contains(&self, slot: SlotId) -> bool {
        (slot as usize) < self.slots()
    }
}

/// Whether a slot's lanes hold another key. (Comparing arrays would be a call.)
#[inline(always)]
fn differ(lanes: &[u64; 8], key: &FlowKey) -> bool {
    let differences = (0..5).fold(0, |found, lane| found | (lanes[lane] ^ key.0[lane]));
    differences != 0
}

/// Ways of a bucket, two bits each, of which the lower counts.
struct Ways(u32);

impl Ways {
    /// Those with this tag.
    #[inline(always)]
    fn with_tag(tags: u128, tag: u16) -> Self {
        Self(equal_lanes(tags, tag))
    }
}

impl Iterator for Ways {
    type Item = usize;

    #[inline(always)]
    fn next(&mut self) -> Option<usize> {
        if self.0 == 0 {
            return None;
        }
        let way = self.0.trailing_zeros() / 2;
        self.0 &= !(3 << (2 * way));
        Some(way as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    fn key(number: u64) -> FlowKey {
        FlowKey([number, 1, 2, 3, 4])
    }

    proptest! {
        /// Random insertions and updates, mirrored in a map of what fits in each bucket.
        #[test]
        fn behaves_like_a_map(ways in prop::sample::select(vec![1usize, 2, 4, 8]), operations in prop::collection::vec((0u64..300, any::<u32>()), 1..500)) {
            let mut table = StateTable::new(64, ways, 3);
            let mut reference: HashMap<u64, u32> = HashMap::new();
            for (number, value) in operations {
                let (key, hash) = (key(number), key(number).hash(7));
                let slot = table.find(&key, hash).or_else(|| {
                    let slot = table.vacant(hash, |control| control[0] == 0)?;
                    table.assign(slot, &key, hash);
                    table.set_control(slot, [1, 0, 0]);
                    Some(slot)
                });
                if let Some(slot) = slot {
                    table.words_mut(slot).copy_from_slice(&[value, 0, value]);
                    reference.insert(number, value);
                } else {
                    prop_assert!(!reference.contains_key(&number));
                }
            }
            prop_assert!(reference.len() <= table.slots());
            for (number, value) in reference {
                let slot = table.find(&key(number), key(number).hash(7)).expect("was inserted");
                let hash = key(number).hash(7);
                prop_assert_eq!(table.find_near(table.prefetch_slot(hash), &key(number), hash), Some(slot));
                prop_assert_eq!(table.find_near(NO_SLOT, &key(number), hash), Some(slot));
                let held = table.held(slot, &key(number)).map(|(control, words)| (*control, words.to_vec()));
                prop_assert_eq!(held, Some(([1, 0, 0], vec![value, 0, value])));
                prop_assert!(table.held(slot, &key(number + 300)).is_none());
                prop_assert!(table.held(NO_SLOT, &key(number)).is_none());
                prop_assert_eq!(table.words(slot), &[value, 0, value][..]);
                prop_assert_eq!(table.key(slot), key(number));
            }
        }
    }

    /// The share of uniform flows that find a slot with one way per bucket is (1 - e^-x) / x.
    #[test]
    fn half_full_with_eight_ways_it_turns_hardly_any_flow_away() {
        let mut table = StateTable::new(65_536, 8, 1);
        let turned_away = (0..32_768)
            .filter(|&number| {
                let hash = key(number).hash(3);
                let slot = table.vacant(hash, |control| control[0] == 0);
                if let Some(slot) = slot {
                    table.assign(slot, &key(number), hash);
                    table.set_control(slot, [1, 0, 0]);
                }
                slot.is_none()
            })
            .count();
        assert!(turned_away < 10, "{turned_away} flows turned away");
    }

    #[test]
    fn one_way_keeps_as_many_flows_as_theory_says() {
        for (slots, flows) in [
            (32_768usize, 10_000u64),
            (32_768, 32_768),
            (32_768, 100_000),
        ] {
            let mut table = StateTable::new(slots, 1, 1);
            let mut resident = 0u64;
            for number in 0..flows {
                let hash = key(number).hash(3);
                if let Some(slot) = table.vacant(hash, |control| control[0] == 0) {
                    table.assign(slot, &key(number), hash);
                    table.set_control(slot, [1, 0, 0]);
                    resident += 1;
                }
            }
            let load = flows as f64 / slots as f64;
            let expected = (1.0 - (-load).exp()) / load;
            let share = resident as f64 / flows as f64;
            assert!(
                (share - expected).abs() < 0.01,
                "{share} instead of {expected}"
            );
        }
    }
}
