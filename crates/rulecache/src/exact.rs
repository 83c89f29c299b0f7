//! Exact match: rules by addresses, ports and protocol, segment and shape.
//!
//! Open addressing, one cache line per place, at most half of them taken: a hit usually reads one
//! line and nothing else. Removing shifts back what follows, so that no traces are left.

use crate::key::{Lanes, MatchKey};
use crate::message::RuleId;
use twinpath_core::hash::hash_lanes;
use twinpath_core::memory::{CacheLine, ZeroedArray, prefetch};

/// The lane of a place that holds the rule's number plus one; 0 if the place is free.
const RULE: usize = 5;

/// The lanes of a key that are compared.
type Compared = [u64; 5];

/// A fixed number of rules.
pub(crate) struct ExactTable {
    places: ZeroedArray<CacheLine>,
    limit: usize,
    len: usize,
    seed: u64,
}

/// There are as many rules as there may be.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Full;

#[inline(always)]
const fn compared(key: &Lanes) -> Compared {
    let [a, b, c, d, last, _] = *key;
    [a, b, c, d, last & MatchKey::EXACT.0[4]]
}

impl ExactTable {
    pub fn new(limit: usize, seed: u64) -> Self {
        Self {
            places: ZeroedArray::new(2 * limit + 1),
            limit,
            len: 0,
            seed,
        }
    }

    pub const fn len(&self) -> usize {
        self.len
    }

    pub fn memory_bytes(&self) -> usize {
        self.places.len() * size_of::<CacheLine>()
    }

    /// Where the search for a key begins.
    #[inline(always)]
    fn home(&self, key: Compared) -> usize {
        let hash = hash_lanes(key, self.seed) >> 32;
        ((hash * self.places.len() as u64) >> 32) as usize
    }

    /// Where the search for a key begins; what lies there is on its way.
    #[inline(always)]
    pub fn prefetch(&self, key: &Lanes) -> usize {
        let home = self.home(compared(key));
        prefetch(&self.places[home]);
        home
    }

    #[inline(always)]
    fn next(&self, place: usize, count: usize) -> usize {
        if place + 1 < count { place + 1 } else { 0 }
    }

    /// The place of a key, or the free one where the search for it ends. There is always one.
    #[inline(always)]
    fn search(&self, key: Compared, home: usize) -> usize {
        let mut place = home;
        loop {
            let lanes = &self.places[place].0;
            let different = (0..5).fold(0, |bits, lane| bits | (lanes[lane] ^ key[lane]));
            if different == 0 || lanes[RULE] == 0 {
                return place;
            }
            place = self.next(place, self.places.len());
        }
    }

    /// The rule of a key, whose search begins where [`Self::prefetch`] said.
    #[inline(always)]
    pub fn find_from(&self, home: usize, key: &Lanes) -> Option<RuleId> {
        let place = self.search(compared(key), home);
        let rule = self.places[place].0[RULE];
        (rule > 0).then(|| (rule - 1) as RuleId)
    }

    #[inline]
    pub fn find(&self, key: &Lanes) -> Option<RuleId> {
        self.find_from(self.home(compared(key)), key)
    }

    /// Adds a rule; returns the one that the key had.
    pub fn insert(&mut self, key: &Lanes, id: RuleId) -> Result<Option<RuleId>, Full> {
        let key = compared(key);
        let place = self.search(key, self.home(key));
        let before = self.places[place].0[RULE];
        if before == 0 && self.len >= self.limit {
            return Err(Full);
        }
        self.len += usize::from(before == 0);
        let lanes = &mut self.places[place].0;
        lanes[..5].copy_from_slice(&key);
        lanes[RULE] = u64::from(id) + 1;
        Ok((before > 0).then(|| (before - 1) as RuleId))
    }

    /// Removes a key's rule.
    pub fn remove(&mut self, key: &Lanes) {
        let key = compared(key);
        let place = self.search(key, self.home(key));
        if self.places[place].0[RULE] > 0 {
            self.len -= 1;
            self.close_gap(place);
        }
    }

    /// Moves back whatever would not be found behind a free place.
    fn close_gap(&mut self, mut gap: usize) {
        let count = self.places.len();
        let distance = |from: usize, to: usize| (to + count - from) % count;
        let mut place = gap;
        loop {
            place = self.next(place, count);
            let lanes = self.places[place].0;
            if lanes[RULE] == 0 {
                break;
            }
            let home = self.home([lanes[0], lanes[1], lanes[2], lanes[3], lanes[4]]);
            if distance(home, place) >= distance(gap, place) {
                self.places[gap].0 = lanes;
                gap = place;
            }
        }
        self.places[gap].0 = [0; 8];
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    proptest! {
        #[test]
        fn behaves_like_a_map(seed: u64, limit in 1usize..40, steps in prop::collection::vec((0u64..50, any::<bool>()), 1..400)) {
            let mut table = ExactTable::new(limit, seed);
            let mut reference = HashMap::new();
            // The lanes that are not compared must not matter.
            let key = |number: u64, rest: u64| [number, 1, 2, 3, 4 << 32 | rest << 16, rest];
            for (step, (number, add)) in (0u32..).zip(steps) {
                let key = key(number, u64::from(step) & 0xff);
                if add && (reference.len() < limit || reference.contains_key(&number)) {
                    prop_assert_eq!(table.insert(&key, step), Ok(reference.insert(number, step)));
                } else if add {
                    prop_assert_eq!(table.insert(&key, step), Err(Full));
                } else {
                    table.remove(&key);
                    reference.remove(&number);
                }
                prop_assert_eq!(table.len(), reference.len());
            }
            for number in 0..50 {
                let key = key(number, 0);
                prop_assert_eq!(table.find(&key), reference.get(&number).copied());
                prop_assert_eq!(table.find_from(table.prefetch(&key), &key), table.find(&key));
            }
        }
    }
}
