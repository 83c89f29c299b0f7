//! The hash table that holds the rules of all subtables.

use twinpath_core::memory::{ZeroedArray, prefetch};

use super::MatchKey;

/// Entries of a bucket; the lane after them counts entries that went past.
const WAYS: usize = 7;
const PASSED: usize = 7;
/// Slots per hundred rules: fuller tables search longer.
const SLOTS_PER_100: usize = 125;
/// A bucket's tags, and the count of entries that belong to this bucket or one before it but found
/// it full. A tag of 0 marks a free slot.
type Bucket = [u16; 8];

/// A fixed number of slots in buckets. An entry lies in its bucket or the next one with room.
pub(super) struct Store<const N: usize> {
    buckets: ZeroedArray<Bucket>,
    /// Each slot: N lanes of value, and a lane of subtable (high half) and id; then padding, so
    /// that no slot of a power of two or of whole cache lines straddles lines.
    lanes: ZeroedArray<u64>,
    stride: usize,
    rules: usize,
}

impl<const N: usize> Store<N> {
    /// A store with ample room for so many rules.
    pub fn new(rules: usize) -> Self {
        let buckets = (rules * SLOTS_PER_100 / 100).div_ceil(WAYS) + 1;
        let stride = match N + 1 {
            small @ ..=8 => small.next_power_of_two(),
            large => large.next_multiple_of(8),
        };
        Self {
            buckets: ZeroedArray::new(buckets),
            lanes: ZeroedArray::new(buckets * WAYS * stride),
            stride,
            rules: 0,
        }
    }

    pub const fn len(&self) -> usize {
        self.rules
    }

    pub fn memory_bytes(&self) -> usize {
        self.buckets.len() * size_of::<Bucket>() + self.lanes.len() * 8
    }

    #[inline(always)]
    fn bucket(&self, hash: u64) -> usize {
        ((u64::from(hash as u32) * self.buckets.len() as u64) >> 32) as usize
    }

    /// Never zero.
    #[inline(always)]
    const fn tag(hash: u64) -> u16 {
        (hash >> 48) as u16 | 1
    }

    fn following(&self, bucket: usize) -> usize {
        match bucket + 1 < self.buckets.len() {
            true => bucket + 1,
            false => 0,
        }
    }

    #[inline(always)]
    pub fn prefetch(&self, hash: u64) {
        prefetch(&self.buckets[self.bucket(hash)]);
    }

    /// The slot with this hash whose value and subtable are those wanted.
    #[inline(always)]
    pub fn find(&self, hash: u64, is_wanted: impl Fn(&MatchKey<N>, u32) -> bool) -> Option<usize> {
        let (mut bucket, tag) = (self.bucket(hash), Self::tag(hash));
        for _ in 0..self.buckets.len() {
            let tags = &self.buckets[bucket];
            let mut ways = equal_ways(tags, tag);
            while ways != 0 {
                let slot = bucket * WAYS + ways.trailing_zeros() as usize;
                if self.is_wanted(slot, &is_wanted) {
                    return Some(slot);
                }
                ways &= ways - 1;
            }
            if tags[PASSED] == 0 {
                return None;
            }
            bucket = self.following(bucket);
        }
        None
    }

    #[inline(always)]
    fn is_wanted(&self, slot: usize, is_wanted: impl Fn(&MatchKey<N>, u32) -> bool) -> bool {
        let lanes = &self.lanes[slot * self.stride..][..self.stride];
        lanes
            .split_first_chunk::<N>()
            .is_some_and(|(value, rest)| is_wanted(value, (rest[0] >> 32) as u32))
    }

    #[inline(always)]
    pub fn id(&self, slot: usize) -> u32 {
        self.lanes[slot * self.stride + N] as u32
    }

    /// Returns the id it had.
    pub fn set_id(&mut self, slot: usize, id: u32) -> u32 {
        let lane = &mut self.lanes[slot * self.stride + N];
        let before = *lane as u32;
        *lane = *lane >> 32 << 32 | u64::from(id);
        before
    }

    /// Adds an entry. The owner sees to it that there are no more entries than it asked room for.
    pub fn insert(&mut self, hash: u64, value: &MatchKey<N>, number: u32, id: u32) {
        let mut bucket = self.bucket(hash);
        for _ in 0..self.buckets.len() {
            let tags = &mut self.buckets[bucket];
            if let Some(way) = tags[..WAYS].iter().position(|&tag| tag == 0) {
                tags[way] = Self::tag(hash);
                let lanes = &mut self.lanes[(bucket * WAYS + way) * self.stride..][..=N];
                lanes[..N].copy_from_slice(value);
                lanes[N] = u64::from(number) << 32 | u64::from(id);
                self.rules += 1;
                return;
            }
            // A count that is full stays so: searches go on in vain then, but find all.
            tags[PASSED] = tags[PASSED].saturating_add(1);
            bucket = self.following(bucket);
        }
    }

    /// Frees a slot that this hash led to; returns its id.
    pub fn remove(&mut self, hash: u64, slot: usize) -> u32 {
        let mut bucket = self.bucket(hash);
        while bucket != slot / WAYS {
            let passed = &mut self.buckets[bucket][PASSED];
            if *passed != u16::MAX {
                *passed -= 1;
            }
            bucket = self.following(bucket);
        }
        self.buckets[bucket][slot % WAYS] = 0;
        self.rules -= 1;
        self.id(slot)
    }
}

/// A bit for each way that has this tag.
#[inline(always)]
fn equal_ways(tags: &Bucket, tag: u16) -> u32 {
    let mut ways = 0;
    for (way, &other) in tags.iter().enumerate() {
        ways |= u32::from(other == tag) << way;
    }
    ways & ((1 << WAYS) - 1)
}
