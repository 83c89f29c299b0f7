//! Numbers, found by the hash of what they stand for.
//!
//! Values lie elsewhere, in places that have numbers; this finds the number of the one with a key, and
//! whoever asks compares the keys. Entries that come and go leave no traces. An index has few places at first
//! and is copied as it fills up, unless it [takes all of its memory](NumberIndex::touch) before: then no packet
//! waits for that.

use crate::memory::ZeroedArray;
use crate::probing::{Places, next};

/// An index of at most so many numbers, of which none is zero.
pub struct NumberIndex {
    /// The upper half of a hash above a number; zero where nothing lies.
    entries: ZeroedArray<u64>,
    taken: usize,
    most: usize,
    /// Whether it has all of its places, and is to have them.
    is_whole: bool,
}

/// Numbers for which there is room at first.
const FEW: usize = 512;

impl NumberIndex {
    /// An index for at most `most` numbers.
    pub fn new(most: usize) -> Self {
        Self {
            entries: ZeroedArray::new(Self::places_for(most.min(FEW))),
            taken: 0,
            most,
            is_whole: false,
        }
    }

    /// No more than two thirds of the places are ever taken.
    const fn places_for(most: usize) -> usize {
        (most * 3 / 2 + 1).next_power_of_two()
    }

    /// What an index for so many numbers takes when it is full.
    #[must_use]
    pub const fn bytes(most: usize) -> u64 {
        (Self::places_for(most) * size_of::<u64>()) as u64
    }

    /// Takes all of its memory now, before packets could wait for it (see [`ZeroedArray::touch`]).
    pub fn touch(&mut self) {
        self.is_whole = true;
        self.grow_to(Self::places_for(self.most));
        self.entries.touch();
    }

    /// Room for at most `most` numbers; those that are there stay, and there is never less room than before.
    pub fn make_room(&mut self, most: usize) {
        self.most = self.most.max(most);
        if self.is_whole {
            self.grow_to(Self::places_for(self.most));
        }
    }

    fn grow_to(&mut self, places: usize) {
        if places <= self.entries.len() {
            return;
        }
        let before = std::mem::replace(&mut self.entries, ZeroedArray::new(places));
        for entry in before.iter().filter(|&&entry| entry != 0) {
            let place = self.end_of_search(*entry);
            self.entries[place] = *entry;
        }
    }

    #[inline]
    fn home(&self, entry: u64) -> usize {
        (entry >> 32) as usize & (self.entries.len() - 1)
    }

    fn end_of_search(&self, entry: u64) -> usize {
        let mut place = self.home(entry);
        while self.is_taken(place) {
            place = next(place, self.entries.len());
        }
        place
    }

    /// The number under a hash for which `is_it` holds.
    #[inline]
    pub fn find(&self, hash: u64, is_it: impl Fn(u32) -> bool) -> Option<u32> {
        let mut place = self.home(hash);
        loop {
            let entry = self.entries[place];
            if entry == 0 {
                return None;
            }
            if entry >> 32 == hash >> 32 && is_it(entry as u32) {
                return Some(entry as u32);
            }
            place = next(place, self.entries.len());
        }
    }

    /// Puts a number under a hash, where it is not yet. Returns false, with nothing changed, if too many
    /// others lie where it would: somebody has chosen their keys.
    #[must_use]
    pub fn insert(&mut self, hash: u64, number: u32) -> bool {
        if Self::places_for(self.taken + 1) > self.entries.len() {
            self.grow_to(2 * self.entries.len());
        }
        let entry = hash >> 32 << 32 | u64::from(number);
        let place = self.end_of_search(entry);
        let may = self.may_take(place);
        if may {
            self.entries[place] = entry;
            self.taken += 1;
        }
        may
    }

    /// Takes a number out that was put under this hash.
    pub fn remove(&mut self, hash: u64, number: u32) {
        let entry = hash >> 32 << 32 | u64::from(number);
        let mut place = self.home(entry);
        while self.entries[place] != entry {
            if !self.is_taken(place) {
                return;
            }
            place = next(place, self.entries.len());
        }
        let gap = self.close_gap(place);
        self.entries[gap] = 0;
        self.taken -= 1;
    }
}

impl Places for NumberIndex {
    #[inline]
    fn places(&self) -> usize {
        self.entries.len()
    }

    #[inline]
    fn is_taken(&self, place: usize) -> bool {
        self.entries[place] != 0
    }

    #[inline]
    fn home_of(&self, place: usize) -> usize {
        self.home(self.entries[place])
    }

    #[inline]
    fn move_to(&mut self, from: usize, to: usize) {
        self.entries[to] = self.entries[from];
    }
}

impl std::fmt::Debug for NumberIndex {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NumberIndex")
            .field("places", &self.entries.len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probing::LONGEST_RUN;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    #[derive(Clone, Debug)]
    enum Step {
        Insert(u64),
        Remove(u64),
        MakeRoom(usize),
        Touch,
    }

    /// Few hashes, of which ten have one home, and each two the same half that is kept.
    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let hash = (0u64..40).prop_map(|hash| (((hash / 2) << 16) | (hash / 2 % 4)) << 32 | hash);
        let step = prop_oneof![
            4 => hash.clone().prop_map(Step::Insert),
            2 => hash.prop_map(Step::Remove),
            1 => (1usize..200).prop_map(Step::MakeRoom),
            1 => Just(Step::Touch),
        ];
        prop::collection::vec(step, 1..200)
    }

    proptest! {
        #[test]
        fn it_is_a_map(steps in steps()) {
            let mut index = NumberIndex { entries: ZeroedArray::new(2), ..NumberIndex::new(40) };
            let (mut reference, mut number) = (BTreeMap::new(), 0);
            for step in steps {
                match step {
                    Step::Insert(hash) if !reference.contains_key(&hash) => {
                        number += 1;
                        prop_assert!(index.insert(hash, number));
                        reference.insert(hash, number);
                    }
                    Step::Insert(_) => {}
                    Step::Remove(hash) => {
                        index.remove(hash, reference.remove(&hash).unwrap_or(u32::MAX));
                    }
                    Step::MakeRoom(most) => index.make_room(most),
                    Step::Touch => index.touch(),
                }
                let taken = index.entries.iter().filter(|&&entry| entry != 0);
                prop_assert_eq!(taken.count(), reference.len());
                prop_assert_eq!(index.taken, reference.len());
                for (&hash, &number) in &reference {
                    prop_assert_eq!(index.find(hash, |found| found == number), Some(number));
                }
            }
        }
    }

    /// Entries that come and go for ever leave no traces: a search ends as soon as before.
    #[test]
    fn nothing_is_left_of_what_went() {
        let mut index = NumberIndex::new(1000);
        let hash = |number: u32| u64::from(number).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        for number in 1..=100_000 {
            assert!(index.insert(hash(number), number));
            if let Some(old) = number.checked_sub(1000) {
                index.remove(hash(old), old);
            }
        }
        assert_eq!(index.entries.len(), NumberIndex::places_for(1000));
        assert_eq!(
            index.entries.iter().filter(|&&entry| entry != 0).count(),
            1000
        );
    }

    #[test]
    fn keys_that_somebody_chose_are_refused_in_the_end() {
        let mut index = NumberIndex::new(4 * LONGEST_RUN);
        index.touch();
        let taken = (1..)
            .take_while(|&number| index.insert(7 << 32, number))
            .count();
        assert_eq!(taken, LONGEST_RUN);
        assert_eq!(index.find(7 << 32, |number| number == 5), Some(5));
    }
}
