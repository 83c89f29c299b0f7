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
            self.count_hits(keys, hits);
        }
    }

    fn find_batch(&self, keys: &[MatchKey<N>], hits: &mut [Option<Hit>]) {
        let mut waiting = Waiting {
            indices: [0; BATCH],
            count: 0,
        };
        for (index, (key, hit)) in keys.iter().zip(&mut *hits).enumerate() {
            *hit = self.find_hot(key);
            if hit.is_none() {
                waiting.indices[waiting.count] = index as u8;
                waiting.count += 1;
            }
        }
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
    fn count_hits(&mut self, keys: &[MatchKey<N>], hits: &[Option<Hit>]) {
        let searched = || {
            let hits = keys
                .iter()
                .zip(hits)
                .filter_map(|(key, hit)| Some((key, (*hit)?)));
            hits.filter_map(|(key, hit)| {
                let place = hit.masks_tried.checked_sub(1)? as usize;
                Some((key, place, hit.id))
            })
        };
        let mut count = 0;
        for (key, place, id) in searched() {
            let subtable = &mut self.subtables[place];
            subtable.hits += 1;
            self.hot.found(key, &subtable.mask, id);
            count += 1;
        }
        if count > 0 {
            for (_, place, _) in searched() {
                self.move_forward(place);
            }
            self.age(count);
        }
    }
}
