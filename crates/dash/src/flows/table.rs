//! The table of flows: an entry for each direction, both made and gone together.
//!
//! An entry is one cache line: the key, what is done, when a packet last came, and where the other
//! direction's entry lies. Entries stand in buckets of eight, with a tag of 16 bits each beside them;
//! a key has two buckets and goes to the first of them that has room; if both are full, one of the
//! entries there makes room by going to its other bucket. So a hit reads a line of tags, the entry, and
//! an action that many flows share, and no search looks at more than two buckets.

use twinpath_core::hash::HashKey;
use twinpath_core::memory::{CacheLine, ZeroedArray, bring, equal_tags, prefetch};

use super::key::EntryKey;
use crate::cost::Cost;

/// Entries of a bucket.
const WAYS: usize = 8;

/// Where an entry lies.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EntryNumber(u32);

impl EntryNumber {
    #[cfg(test)]
    pub(super) const fn from_bits(bits: u32) -> Self {
        Self(bits)
    }
}

/// What an entry holds beside its key.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The number of what is done.
    pub action: u32,
    /// What policies were when it was decided.
    pub stamp: u32,
    /// When a packet last came, in ticks.
    pub last_seen: u32,
    /// The other direction's entry.
    pub peer: EntryNumber,
    /// Where bytes are counted.
    pub bucket: u16,
    /// The epoch of the mapping that the decision came from.
    pub mapping_epoch: u16,
    /// Whose flow it is.
    pub eni: u16,
    /// How far a connection has come; see [`State`](super::State).
    pub state: u8,
    /// Whether packets of this direction opened the flow.
    pub is_forward: bool,
}

impl Entry {
    #[inline]
    const fn write(&self) -> [u64; 3] {
        [
            (self.action as u64) << 32 | self.stamp as u64,
            (self.last_seen as u64) << 32 | self.peer.0 as u64,
            (self.bucket as u64) << 48
                | (self.mapping_epoch as u64) << 32
                | (self.eni as u64) << 16
                | (self.state as u64) << 8
                | self.is_forward as u64,
        ]
    }

    #[inline]
    const fn read([first, second, third]: [u64; 3]) -> Self {
        Self {
            action: (first >> 32) as u32,
            stamp: first as u32,
            last_seen: (second >> 32) as u32,
            peer: EntryNumber(second as u32),
            bucket: (third >> 48) as u16,
            mapping_epoch: (third >> 32) as u16,
            eni: (third >> 16) as u16,
            state: (third >> 8) as u8,
            is_forward: third as u8 != 0,
        }
    }
}

/// Entries by key.
pub struct FlowTable {
    lines: ZeroedArray<CacheLine>,
    /// Of each bucket; 0 is a free place.
    tags: ZeroedArray<u128>,
    hash_key: HashKey,
    taken: usize,
    hand: usize,
    /// Where entries are now that have made room for others, until somebody asks.
    moved: Vec<EntryNumber>,
}

impl FlowTable {
    /// A table for so many flows, each of two entries: two thirds of all places.
    #[must_use]
    pub fn new(flows: usize, seed: u64) -> Self {
        let buckets = Self::buckets_for(flows);
        Self {
            lines: ZeroedArray::new(buckets * WAYS),
            tags: ZeroedArray::new(buckets),
            hash_key: HashKey::new(seed),
            taken: 0,
            hand: 0,
            moved: Vec::new(),
        }
    }

    fn buckets_for(flows: usize) -> usize {
        let places = (flows.saturating_mul(3)).min(u32::MAX as usize);
        places.div_ceil(WAYS).max(1)
    }

    /// What a table for so many flows takes, as it is made: most of what flows cost. What is done to
    /// packets comes on top, which many flows share, and for flows of an ENI with a limit when each may
    /// be over.
    #[must_use]
    pub fn cost(flows: usize) -> Cost {
        let bucket_bytes = WAYS * size_of::<CacheLine>() + size_of::<u128>();
        Cost {
            number: flows,
            bytes: Self::buckets_for(flows) * bucket_bytes,
        }
    }

    /// Takes the table's memory now, before packets could wait for it.
    pub fn touch(&mut self) {
        self.lines.touch();
        self.tags.touch();
    }

    /// How many entries there are, two for each flow.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.taken
    }

    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.taken == 0
    }

    /// How many places there are.
    #[must_use]
    pub fn places(&self) -> usize {
        self.lines.len()
    }

    /// Memory of the whole table, in bytes.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.lines.len() * size_of::<CacheLine>() + self.tags.len() * size_of::<u128>()
    }

    /// The hash of a key.
    #[must_use]
    #[inline]
    pub fn hash(&self, key: &EntryKey) -> u64 {
        self.hash_key.hash(key.0)
    }

    #[inline]
    fn buckets(&self, hash: u64) -> [usize; 2] {
        let count = self.tags.len() as u64;
        let scaled = |number: u64| (((number & 0xffff_ffff) * count) >> 32) as usize;
        // The second is scattered anew, as both come from the same bits that make the tag.
        let other = hash.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23);
        [scaled(hash), scaled(other)]
    }

    #[inline]
    const fn tag(hash: u64) -> u16 {
        (hash >> 48) as u16 | 1
    }

    /// Asks the processor to fetch what a look-up of this hash reads first: the tags of its first
    /// bucket. A read would hold up whoever has much to do until the next one.
    #[inline]
    pub fn fetch(&self, hash: u64) {
        let [first, _] = self.buckets(hash);
        prefetch(&self.tags[first]);
    }

    /// Brings what it reads next, once that is there: the entry that it will probably find, or the tags
    /// of the other bucket. Returns whether it was an entry.
    #[inline]
    pub fn fetch_on(&self, hash: u64) -> bool {
        let [first, second] = self.buckets(hash);
        match self.probable_in(first, hash) {
            Some(place) => {
                bring(&self.lines[place]);
                true
            }
            None => {
                bring(&self.tags[second]);
                false
            }
        }
    }

    /// Brings the entry that it will probably find in the other bucket. Returns whether there is one.
    #[inline]
    pub fn fetch_other(&self, hash: u64) -> bool {
        let [_, second] = self.buckets(hash);
        let place = self.probable_in(second, hash);
        place.inspect(|&place| bring(&self.lines[place])).is_some()
    }

    /// The entry that it will probably find, which should be there; that of another flow once in
    /// thousands of times.
    #[inline]
    pub fn probable_entry(&self, hash: u64) -> Option<Entry> {
        let [first, second] = self.buckets(hash);
        let place = self.probable_in(first, hash);
        let place = place.or_else(|| self.probable_in(second, hash))?;
        Some(self.get(EntryNumber(place as u32)))
    }

    #[inline]
    fn probable_in(&self, bucket: usize, hash: u64) -> Option<usize> {
        let equal = equal_tags(self.tags[bucket], Self::tag(hash));
        (equal != 0).then(|| bucket * WAYS + equal.trailing_zeros() as usize / 2)
    }

    /// Where the entry of a key lies.
    #[must_use]
    #[inline]
    pub fn find(&self, key: &EntryKey, hash: u64) -> Option<EntryNumber> {
        let [first, second] = self.buckets(hash);
        self.find_in(first, key, hash)
            .or_else(|| self.find_in(second, key, hash))
    }

    #[inline]
    fn find_in(&self, bucket: usize, key: &EntryKey, hash: u64) -> Option<EntryNumber> {
        let mut equal = equal_tags(self.tags[bucket], Self::tag(hash));
        while equal != 0 {
            let way = equal.trailing_zeros() as usize / 2;
            let place = bucket * WAYS + way;
            if self.has_key(place, key) {
                return Some(EntryNumber(place as u32));
            }
            equal &= !(3 << (2 * way));
        }
        None
    }

    #[inline]
    fn has_key(&self, place: usize, key: &EntryKey) -> bool {
        let line = &self.lines[place].0;
        let differing = key.0.iter().zip(line).map(|(one, other)| one ^ other);
        differing.fold(0, |all, bits| all | bits) == 0
    }

    /// What lies at a place.
    #[must_use]
    #[inline(always)]
    pub fn get(&self, place: EntryNumber) -> Entry {
        let [.., a, b, c] = self.lines[place.0 as usize].0;
        Entry::read([a, b, c])
    }

    /// The key of what lies at a place.
    #[must_use]
    pub fn key(&self, place: EntryNumber) -> EntryKey {
        let [a, b, c, d, e, ..] = self.lines[place.0 as usize].0;
        EntryKey([a, b, c, d, e])
    }

    /// Changes what lies at a place.
    #[inline]
    pub fn set(&mut self, place: EntryNumber, entry: &Entry) {
        self.lines[place.0 as usize].0[5..].copy_from_slice(&entry.write());
    }

    /// A packet came.
    #[inline]
    pub fn touch_entry(&mut self, place: EntryNumber, now: u32) {
        let word = &mut self.lines[place.0 as usize].0[6];
        *word = *word & 0xffff_ffff | u64::from(now) << 32;
    }

    /// Asks the processor to fetch the tags that a look-up of this hash reads.
    #[inline]
    pub fn prefetch_tags(&self, hash: u64) {
        for bucket in self.buckets(hash) {
            prefetch(&self.tags[bucket]);
        }
    }

    /// Asks the processor to fetch where an entry of this hash would go.
    #[inline]
    pub fn prefetch_room(&self, hash: u64) {
        if let Some(EntryNumber(place)) = self.free_place(self.buckets(hash)) {
            prefetch(&self.lines[place as usize]);
        }
    }

    /// Makes the entries of a flow, none of whose keys, which have these hashes, may have one. `None`
    /// if there is no room for both.
    pub fn insert(
        &mut self,
        keys: [EntryKey; 2],
        hashes: [u64; 2],
        mut entries: [Entry; 2],
    ) -> Option<[EntryNumber; 2]> {
        let first = self.take(&keys[0], hashes[0], None)?;
        let Some(second) = self.take(&keys[1], hashes[1], Some(first)) else {
            self.free(first);
            return None;
        };
        entries[0].peer = second;
        entries[1].peer = first;
        self.set(first, &entries[0]);
        self.set(second, &entries[1]);
        Some([first, second])
    }

    /// Takes a place for a key; the entry at `fixed` stays where it is.
    fn take(
        &mut self,
        key: &EntryKey,
        hash: u64,
        fixed: Option<EntryNumber>,
    ) -> Option<EntryNumber> {
        let buckets = self.buckets(hash);
        let place = self
            .free_place(buckets)
            .or_else(|| self.make_room(buckets, fixed))?;
        self.put(place, key, hash);
        self.taken += 1;
        Some(place)
    }

    /// A free place, in the first of two buckets if there is one: so nearly all look-ups end there.
    fn free_place(&self, buckets: [usize; 2]) -> Option<EntryNumber> {
        buckets.into_iter().find_map(|bucket| {
            let free = equal_tags(self.tags[bucket], 0);
            let way = free.trailing_zeros() as usize / 2;
            (free != 0).then_some(EntryNumber((bucket * WAYS + way) as u32))
        })
    }

    fn put(&mut self, EntryNumber(place): EntryNumber, key: &EntryKey, hash: u64) {
        let place = place as usize;
        let (bucket, way) = (place / WAYS, place % WAYS);
        self.tags[bucket] |= u128::from(Self::tag(hash)) << (16 * way);
        self.lines[place].0[..5].copy_from_slice(&key.0);
    }

    /// Lets an entry of two full buckets go to its other one. Returns the place that it leaves.
    fn make_room(
        &mut self,
        buckets: [usize; 2],
        fixed: Option<EntryNumber>,
    ) -> Option<EntryNumber> {
        let ways =
            |bucket: usize| (bucket * WAYS..(bucket + 1) * WAYS).map(|at| EntryNumber(at as u32));
        let leaving = buckets.into_iter().flat_map(ways);
        let (from, to) = leaving
            .filter(|place| Some(*place) != fixed)
            .find_map(|place| {
                let hash = self.hash(&self.key(place));
                Some((place, self.free_place(self.buckets(hash))?))
            })?;
        let (key, entry) = (self.key(from), self.get(from));
        self.put(to, &key, self.hash(&key));
        self.set(to, &entry);
        let mut peer = self.get(entry.peer);
        peer.peer = to;
        self.set(entry.peer, &peer);
        self.clear(from);
        self.moved.push(to);
        Some(from)
    }

    /// An entry that has made room for one that was inserted, and lies here now. Whoever inserts asks
    /// until there is none.
    #[inline]
    pub fn next_moved(&mut self) -> Option<EntryNumber> {
        self.moved.pop()
    }

    /// The entry at a place, if there is one of packets that opened their flow.
    #[must_use]
    pub fn forward_at(&self, place: EntryNumber) -> Option<Entry> {
        let is_taken = self.is_taken(place.0 as usize);
        let entry = is_taken.then(|| self.get(place))?;
        entry.is_forward.then_some(entry)
    }

    fn free(&mut self, place: EntryNumber) {
        self.clear(place);
        self.taken -= 1;
    }

    fn clear(&mut self, EntryNumber(place): EntryNumber) {
        let place = place as usize;
        let (bucket, way) = (place / WAYS, place % WAYS);
        self.tags[bucket] &= !(0xffff << (16 * way));
        self.lines[place] = CacheLine::default();
    }

    /// Removes a flow, both of whose entries are gone then.
    pub fn remove(&mut self, place: EntryNumber) {
        let peer = self.get(place).peer;
        self.free(place);
        self.free(peer);
    }

    fn is_taken(&self, place: usize) -> bool {
        self.tags[place / WAYS] >> (16 * (place % WAYS)) & 0xffff != 0
    }

    /// The next places, at most `count`, that the hand comes to; entries of the forward direction
    /// that lie there are told.
    pub fn under_the_hand(&mut self, count: usize, into: &mut Vec<EntryNumber>) {
        let places = self.places();
        for _ in 0..count.min(places) {
            let place = self.hand;
            self.hand = if place + 1 < places { place + 1 } else { 0 };
            if self.is_taken(place) && self.get(EntryNumber(place as u32)).is_forward {
                into.push(EntryNumber(place as u32));
            }
        }
    }

    /// All flows, by their forward entries.
    pub fn iter(&self) -> impl Iterator<Item = EntryNumber> + '_ {
        self.iter_from(0, self.places())
    }

    /// The same of so many places from one on.
    pub fn iter_from(&self, from: usize, count: usize) -> impl Iterator<Item = EntryNumber> + '_ {
        let end = from.saturating_add(count).min(self.places());
        (from..end)
            .filter(move |&place| self.is_taken(place))
            .map(|place| EntryNumber(place as u32))
            .filter(move |&place| self.get(place).is_forward)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;
    use twinpath_core::wire::Address;

    use super::*;
    use crate::headers::{Direction, Headers};

    fn key(number: u32) -> EntryKey {
        let headers = Headers {
            source: Address(u128::from(number)),
            destination: Address(5),
            ports: None,
            protocol: 17,
        };
        EntryKey::new(
            1 + number % 3,
            Direction::Inbound,
            &headers,
            [number as u16, 2],
        )
    }

    fn entry(action: u32, is_forward: bool) -> Entry {
        Entry {
            action,
            stamp: 0x8000_0001,
            last_seen: 0xffff_fff0,
            peer: EntryNumber(0),
            bucket: 0xfffe,
            mapping_epoch: 0x1234,
            eni: 0xabcd,
            state: 7,
            is_forward,
        }
    }

    proptest! {
        #[test]
        fn flows_are_found_by_either_key(steps in prop::collection::vec((any::<bool>(), 0u32..40), 0..300)) {
            // So small that entries make room for each other.
            let mut table = FlowTable::new(11, 5);
            let mut model: HashMap<u32, u32> = HashMap::new();
            for (step, (inserts, number)) in (0u32..).zip(steps) {
                let keys = [key(2 * number), key(2 * number + 1)];
                match (inserts, model.get(&number)) {
                    (true, None) => {
                        let entries = [entry(step, true), entry(step, false)];
                        if table.insert(keys, keys.map(|key| table.hash(&key)), entries).is_some() {
                            model.insert(number, step);
                        }
                    }
                    (false, Some(_)) => {
                        let place = table.find(&keys[0], table.hash(&keys[0]));
                        table.remove(place.expect("there"));
                        model.remove(&number);
                    }
                    _ => {}
                }
                prop_assert_eq!(table.len(), 2 * model.len());
                for number in 0..40 {
                    let keys = [key(2 * number), key(2 * number + 1)];
                    let found = keys.map(|key| table.find(&key, table.hash(&key)));
                    let action = found[0].map(|place| table.get(place).action);
                    prop_assert_eq!(action, model.get(&number).copied());
                    prop_assert_eq!(found[1].is_some(), found[0].is_some());
                    if let [Some(one), Some(other)] = found {
                        prop_assert_eq!((table.get(one).peer, table.get(other).peer), (other, one));
                        prop_assert_eq!(table.key(other), keys[1]);
                    }
                }
            }
            prop_assert_eq!(table.iter().count(), model.len());
        }
    }

    #[test]
    fn a_table_holds_what_it_is_for() {
        let mut table = FlowTable::new(100_000, 9);
        let refused = (0..100_000u32)
            .filter(|number| {
                let keys = [key(2 * number), key(2 * number + 1)];
                let hashes = keys.map(|key| table.hash(&key));
                let entries = [entry(1, true), entry(2, false)];
                table.insert(keys, hashes, entries).is_none()
            })
            .count();
        assert_eq!(refused, 0);
        let cost = FlowTable::cost(100_000);
        assert_eq!(cost.bytes, table.memory_bytes());
        let each = cost.bytes_each().expect("flows");
        assert!(each <= 200.0, "{each} bytes a flow");
    }

    #[test]
    fn entries_read_as_written() {
        let written = entry(0xffff_ffff, true);
        assert_eq!(Entry::read(written.write()), written);
    }

    #[test]
    fn the_hand_comes_to_all() {
        let mut table = FlowTable::new(64, 5);
        for number in 0..64 {
            let keys = [key(2 * number), key(2 * number + 1)];
            let hashes = keys.map(|key| table.hash(&key));
            let entries = [entry(1, true), entry(2, false)];
            table.insert(keys, hashes, entries).expect("room");
        }
        let mut seen = Vec::new();
        for _ in 0..table.places().div_ceil(10) {
            table.under_the_hand(10, &mut seen);
        }
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), 64);
    }
}
