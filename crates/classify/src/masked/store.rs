//! The hash table that holds the rules of all subtables.

use twinpath_core::memory::{ZeroedArray, prefetch};

use super::MatchKey;

/// Entries of a bucket; the place after them counts entries that went past.
const WAYS: usize = 7;
const PASSED: usize = 7;
/// Sixteen-bit numbers in a word.
const IN_WORD: usize = 4;
/// Buckets that an entry may lie from its own. By chance none lies more than a few away.
const FARTHEST: usize = 32;
/// Slots per hundred rules: fuller tables search longer.
const SLOTS_PER_100: usize = 150;
/// A bucket's tags, and the count of entries that belong to this bucket or one before it but found
/// it full: eight numbers of 16 bits in two words. A tag of 0 marks a free slot.
type Bucket = [u64; 2];

/// One of the numbers of a bucket.
#[inline(always)]
const fn number(bucket: &Bucket, place: usize) -> u16 {
    (bucket[place / IN_WORD] >> (16 * (place % IN_WORD))) as u16
}

const fn set_number(bucket: &mut Bucket, place: usize, number: u16) {
    let shift = 16 * (place % IN_WORD);
    let word = &mut bucket[place / IN_WORD];
    *word = *word & !(0xffff << shift) | (number as u64) << shift;
}

/// A fixed number of slots in buckets. An entry lies in its bucket or the next one with room.
pub(super) struct Store<const N: usize> {
    buckets: ZeroedArray<Bucket>,
    /// Each slot: N words of value, and a word of subtable (high half) and id; then padding, so
    /// that no slot of a power of two or of whole cache lines straddles lines.
    words: ZeroedArray<u64>,
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
            words: ZeroedArray::new(buckets * WAYS * stride),
            stride,
            rules: 0,
        }
    }

    pub const fn len(&self) -> usize {
        self.rules
    }

    pub fn memory_bytes(&self) -> usize {
        self.buckets.len() * size_of::<Bucket>() + self.words.len() * 8
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
        for _ in 0..FARTHEST {
            let tags = &self.buckets[bucket];
            let mut ways = equal_ways(tags, tag);
            while ways != 0 {
                let slot = bucket * WAYS + first_way(ways);
                if self.is_wanted(slot, &is_wanted) {
                    return Some(slot);
                }
                ways &= ways - 1;
            }
            if number(tags, PASSED) == 0 {
                return None;
            }
            bucket = self.following(bucket);
        }
        None
    }

    #[inline(always)]
    fn is_wanted(&self, slot: usize, is_wanted: impl Fn(&MatchKey<N>, u32) -> bool) -> bool {
        let words = &self.words[slot * self.stride..][..self.stride];
        words
            .split_first_chunk::<N>()
            .is_some_and(|(value, rest)| is_wanted(value, (rest[0] >> 32) as u32))
    }

    #[inline(always)]
    pub fn id(&self, slot: usize) -> u32 {
        self.words[slot * self.stride + N] as u32
    }

    /// Returns the id it had.
    pub fn set_id(&mut self, slot: usize, id: u32) -> u32 {
        let word = &mut self.words[slot * self.stride + N];
        let before = *word as u32;
        *word = *word >> 32 << 32 | u64::from(id);
        before
    }

    /// Adds an entry, if there is room near its bucket. The owner sees to it that there are no more
    /// entries than it asked room for.
    pub fn insert(&mut self, hash: u64, value: &MatchKey<N>, number: u32, id: u32) -> bool {
        let Some((bucket, way)) = self.vacant(hash) else {
            return false;
        };
        let mut passed = self.bucket(hash);
        while passed != bucket {
            let tags = &mut self.buckets[passed];
            // A count that is full stays so: searches go on in vain then, but find all.
            set_number(tags, PASSED, self::number(tags, PASSED).saturating_add(1));
            passed = self.following(passed);
        }
        set_number(&mut self.buckets[bucket], way, Self::tag(hash));
        let words = &mut self.words[(bucket * WAYS + way) * self.stride..][..=N];
        words[..N].copy_from_slice(value);
        words[N] = u64::from(number) << 32 | u64::from(id);
        self.rules += 1;
        true
    }

    /// The free slot nearest to a hash's bucket.
    fn vacant(&self, hash: u64) -> Option<(usize, usize)> {
        let first = Some(self.bucket(hash));
        std::iter::successors(first, |&bucket| Some(self.following(bucket)))
            .take(FARTHEST)
            .find_map(|bucket| {
                let tags = &self.buckets[bucket];
                let way = (0..WAYS).find(|&way| self::number(tags, way) == 0)?;
                Some((bucket, way))
            })
    }

    /// Frees a slot that this hash led to; returns its id.
    pub fn remove(&mut self, hash: u64, slot: usize) -> u32 {
        let mut bucket = self.bucket(hash);
        while bucket != slot / WAYS {
            let tags = &mut self.buckets[bucket];
            match number(tags, PASSED) {
                u16::MAX => {}
                passed => set_number(tags, PASSED, passed - 1),
            }
            bucket = self.following(bucket);
        }
        set_number(&mut self.buckets[bucket], slot % WAYS, 0);
        self.rules -= 1;
        self.id(slot)
    }
}

/// A bit for each way that has this tag: the first four ways have bit 15 of their 16, the others
/// bit 14.
#[inline(always)]
const fn equal_ways(tags: &Bucket, tag: u16) -> u64 {
    const OTHERS: u64 = 0x0000_8000_8000_8000;
    equal_numbers(tags[0], tag) | (equal_numbers(tags[1], tag) & OTHERS) >> 1
}

/// The highest bit of each of the four numbers in a word that equal this one.
#[inline(always)]
const fn equal_numbers(word: u64, wanted: u16) -> u64 {
    const LOW: u64 = 0x7fff_7fff_7fff_7fff;
    let differing = word ^ (wanted as u64 * 0x0001_0001_0001_0001);
    // The sum carries into the highest bit unless the lower ones are zero.
    !(((differing & LOW) + LOW) | differing) & !LOW
}

/// The way that the lowest bit stands for.
#[inline(always)]
const fn first_way(ways: u64) -> usize {
    let bit = ways.trailing_zeros() as usize;
    bit / 16 + IN_WORD * (1 - bit % 2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Entries of one hash lie in so many buckets; those that find no room leave no trace.
    #[test]
    fn entries_of_one_hash_are_bounded() {
        let mut store = Store::<1>::new(1000);
        let put = |store: &mut Store<1>, value| store.insert(7, &[value], 0, value as u32);
        let put: Vec<u64> = (0..1000).filter(|&value| put(&mut store, value)).collect();
        assert_eq!(put.len(), FARTHEST * WAYS);
        let find = |store: &Store<1>, wanted| store.find(7, |value, _| value[0] == wanted);
        assert_eq!(find(&store, 999), None);
        for value in put {
            let slot = find(&store, value).expect("put");
            assert_eq!(store.remove(7, slot), value as u32);
        }
        assert_eq!(store.len(), 0);
        assert!(store.buckets.iter().all(|bucket| *bucket == [0; 2]));
    }

    proptest! {
        #[test]
        fn equal_ways_are_those_with_the_tag(numbers in prop::array::uniform8(prop_oneof![Just(1u16), Just(0x8001), Just(0), any::<u16>()]), tag in prop_oneof![Just(1u16), Just(0x8001), any::<u16>()]) {
            let mut bucket = [0; 2];
            for (place, &number) in numbers.iter().enumerate() {
                set_number(&mut bucket, place, number);
            }
            prop_assert!((0..8).all(|place| number(&bucket, place) == numbers[place]));
            let mut found = Vec::new();
            let mut ways = equal_ways(&bucket, tag);
            while ways != 0 {
                found.push(first_way(ways));
                ways &= ways - 1;
            }
            found.sort_unstable();
            let expected: Vec<usize> = (0..WAYS).filter(|&way| numbers[way] == tag).collect();
            prop_assert_eq!(found, expected);
        }
    }
}
