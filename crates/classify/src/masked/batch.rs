//! Looking up several keys side by side.

use super::hash::hash_masked;
use super::{Hit, MaskedTable, MatchKey, Subtable, equal_masked};

/// Keys that are looked up side by side.
pub const BATCH: usize = 32;

/// The keys of a batch that have not matched yet.
struct Waiting {
    indices: [u8; BATCH],
    count: usize,
}

impl<const N: usize> MaskedTable<N> {
    /// Looks up several keys, as many as the shorter of the two slices holds: mask by mask for
    /// [`BATCH`] keys at a time, so that their reads of memory overlap. Hits are counted as by
    /// [`MaskedTable::lookup`].
    pub fn lookup_batch(&mut self, keys: &[MatchKey<N>], hits: &mut [Option<Hit>]) {
        for (keys, hits) in keys.chunks(BATCH).zip(hits.chunks_mut(BATCH)) {
            self.find_batch(keys, hits);
            self.count_hits(hits);
        }
    }

    fn find_batch(&self, keys: &[MatchKey<N>], hits: &mut [Option<Hit>]) {
        hits.fill(None);
        let mut waiting = Waiting {
            indices: std::array::from_fn(|index| index as u8),
            count: keys.len().min(hits.len()),
        };
        for (place, subtable) in self.subtables.iter().enumerate() {
            if waiting.count == 0 {
                return;
            }
            self.try_mask(place, subtable, keys, hits, &mut waiting);
        }
    }

    /// Tags of all keys first, then the slots that they point at, then the comparisons.
    fn try_mask(
        &self,
        place: usize,
        subtable: &Subtable<N>,
        keys: &[MatchKey<N>],
        hits: &mut [Option<Hit>],
        waiting: &mut Waiting,
    ) {
        let mut hashes = [0; BATCH];
        let indices = waiting.indices;
        let tried = &indices[..waiting.count];
        for (hash, &index) in hashes.iter_mut().zip(tried) {
            let key = &keys[usize::from(index)];
            *hash = hash_masked(key, &subtable.mask, subtable.number, self.seed);
            self.store.prefetch(*hash);
        }
        for &hash in &hashes[..tried.len()] {
            self.store.prefetch_slot(hash);
        }
        waiting.count = 0;
        for (&hash, &index) in hashes.iter().zip(tried) {
            let key = &keys[usize::from(index)];
            let found = self.store.find(hash, |value, number| {
                number == subtable.number && equal_masked(key, &subtable.mask, value)
            });
            match found {
                Some(slot) => {
                    hits[usize::from(index)] = Some(Hit {
                        id: self.store.id(slot),
                        masks_tried: place as u32 + 1,
                    });
                }
                None => {
                    waiting.indices[waiting.count] = index;
                    waiting.count += 1;
                }
            }
        }
    }

    /// All hits are counted before any mask changes its place.
    fn count_hits(&mut self, hits: &[Option<Hit>]) {
        let places = || {
            hits.iter()
                .flatten()
                .map(|hit| hit.masks_tried as usize - 1)
        };
        for place in places() {
            self.subtables[place].hits += 1;
        }
        for place in places() {
            self.move_forward(place);
        }
        self.age(places().count() as u32);
    }
}
