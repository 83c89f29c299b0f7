//! Values that many entries share, each kept once under a number.

use std::hash::{BuildHasher, Hash, Hasher};

use twinpath_core::hash::HashKey;
use twinpath_core::probing::Places;

/// Words folded into a state that begins with a secret, and are multiplied by another: whoever does
/// not know them cannot choose values that collide.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Keyed {
    secrets: [u64; 2],
}

impl BuildHasher for Keyed {
    type Hasher = Folding;

    fn build_hasher(&self) -> Folding {
        let [state, factor] = self.secrets;
        Folding { state, factor }
    }
}

/// See [`Keyed`].
#[derive(Copy, Clone, Debug)]
pub(crate) struct Folding {
    state: u64,
    factor: u64,
}

impl Hasher for Folding {
    fn finish(&self) -> u64 {
        self.state
    }

    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.write_u64(u64::from_le_bytes(word));
        }
    }

    #[inline]
    fn write_u64(&mut self, word: u64) {
        let product = u128::from(self.state ^ word) * u128::from(self.factor);
        self.state = (product as u64 ^ (product >> 64) as u64).wrapping_add(self.factor);
    }

    #[inline]
    fn write_u8(&mut self, number: u8) {
        self.write_u64(number.into());
    }

    #[inline]
    fn write_u16(&mut self, number: u16) {
        self.write_u64(number.into());
    }

    #[inline]
    fn write_u32(&mut self, number: u32) {
        self.write_u64(number.into());
    }

    #[inline]
    fn write_u128(&mut self, number: u128) {
        self.write_u64(number as u64);
        self.write_u64((number >> 64) as u64);
    }

    #[inline]
    fn write_usize(&mut self, number: usize) {
        self.write_u64(number as u64);
    }

    #[inline]
    fn write_isize(&mut self, number: isize) {
        self.write_u64(number as u64);
    }
}

/// Values under numbers that entries hold instead of them. A value is forgotten with its last use.
///
/// Beside the values stands a table of their numbers, each with half of the value's hash, so that
/// finding one reads a line of the table and the value.
#[derive(Clone)]
pub(crate) struct Interned<T> {
    values: Vec<Option<(T, u32)>>,
    /// Half a hash, and the number plus one; zero is free. A power of two.
    slots: Vec<u64>,
    keyed: Keyed,
    free: Vec<u32>,
    taken: usize,
}

impl<T: Clone + Eq + Hash> Interned<T> {
    /// No values. What hashes are keyed with follows from the seed.
    pub fn new(seed: u64) -> Self {
        let key = HashKey::new(seed);
        Self {
            values: Vec::new(),
            slots: vec![0; 64],
            keyed: Keyed {
                secrets: [key.hash([0]), key.hash([1]) | 1],
            },
            free: Vec::new(),
            taken: 0,
        }
    }

    /// The number of a value, in one more use.
    pub fn take(&mut self, value: &T) -> u32 {
        self.take_or_add(value).0
    }

    /// The same, and whether the value is new.
    pub fn take_or_add(&mut self, value: &T) -> (u32, bool) {
        let hash = self.keyed.hash_one(value);
        let (slot, found) = self.probe(value, hash);
        if let Some(number) = found {
            if let Some(Some((_, uses))) = self.values.get_mut(number as usize) {
                *uses += 1;
            }
            return (number, false);
        }
        let number = self.free.pop().unwrap_or(self.values.len() as u32);
        let place = Some((value.clone(), 1));
        match self.values.get_mut(number as usize) {
            Some(free) => *free = place,
            None => self.values.push(place),
        }
        self.slots[slot] = (hash >> 32 << 32) | (u64::from(number) + 1);
        self.taken += 1;
        if self.taken * 2 > self.slots.len() {
            self.grow();
        }
        (number, true)
    }

    /// Where a value's number is, or would be.
    fn probe(&self, value: &T, hash: u64) -> (usize, Option<u32>) {
        let last = self.slots.len() - 1;
        let mut slot = home(hash >> 32, last);
        loop {
            let entry = self.slots[slot];
            if entry == 0 {
                return (slot, None);
            }
            let number = entry as u32 - 1;
            if entry >> 32 == hash >> 32 && self.get(number) == Some(value) {
                return (slot, Some(number));
            }
            slot = (slot + 1) & last;
        }
    }

    fn grow(&mut self) {
        let old = std::mem::take(&mut self.slots);
        self.slots = vec![0; old.len() * 2];
        let last = self.slots.len() - 1;
        for entry in old.into_iter().filter(|entry| *entry != 0) {
            let mut slot = home(entry >> 32, last);
            while self.slots[slot] != 0 {
                slot = (slot + 1) & last;
            }
            self.slots[slot] = entry;
        }
    }

    /// One use less of a number.
    pub fn give(&mut self, number: u32) {
        let Some(Some((value, uses))) = self.values.get_mut(number as usize) else {
            return;
        };
        *uses -= 1;
        if *uses > 0 {
            return;
        }
        let value = value.clone();
        let (slot, _) = self.probe(&value, self.keyed.hash_one(&value));
        let gap = self.close_gap(slot);
        self.slots[gap] = 0;
        self.values[number as usize] = None;
        self.free.push(number);
        self.taken -= 1;
    }

    /// The value under a number.
    #[inline]
    pub fn get(&self, number: u32) -> Option<&T> {
        Some(&self.values.get(number as usize)?.as_ref()?.0)
    }

    /// All values.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.values.iter().flatten().map(|(value, _)| value)
    }

    /// How many values there are.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.taken
    }

    /// Memory taken, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.values.capacity() * size_of::<Option<(T, u32)>>()
            + self.slots.len() * size_of::<u64>()
            + self.free.capacity() * size_of::<u32>()
    }
}

const fn home(half_hash: u64, last: usize) -> usize {
    half_hash as usize & last
}

impl<T> Places for Interned<T> {
    fn places(&self) -> usize {
        self.slots.len()
    }

    fn is_taken(&self, place: usize) -> bool {
        self.slots[place] != 0
    }

    fn home_of(&self, place: usize) -> usize {
        home(self.slots[place] >> 32, self.slots.len() - 1)
    }

    fn move_to(&mut self, from: usize, to: usize) {
        self.slots[to] = self.slots[from];
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_value_lives_as_long_as_its_uses() {
        let mut words = Interned::new(1);
        let (one, again, other) = (words.take(&"one"), words.take(&"one"), words.take(&"two"));
        assert_eq!(one, again);
        assert_ne!(one, other);
        words.give(one);
        assert_eq!(words.get(one), Some(&"one"));
        words.give(one);
        assert_eq!((words.get(one), words.len()), (None, 1));
        assert_eq!(words.take(&"three"), one, "its number is used again");
        words.give(77);
        assert_eq!(words.len(), 2);
    }

    proptest! {
        #[test]
        fn numbers_are_those_of_their_values(steps in prop::collection::vec((any::<bool>(), 0u16..200), 0..800)) {
            let mut interned = Interned::new(3);
            let mut model: HashMap<u16, (u32, u32)> = HashMap::new();
            for (takes, value) in steps {
                match (takes, model.get_mut(&value)) {
                    (true, Some((number, uses))) => {
                        prop_assert_eq!(interned.take(&value), *number);
                        *uses += 1;
                    }
                    (true, None) => {
                        let number = interned.take(&value);
                        model.insert(value, (number, 1));
                    }
                    (false, Some((number, uses))) => {
                        interned.give(*number);
                        *uses -= 1;
                        if *uses == 0 {
                            model.remove(&value);
                        }
                    }
                    (false, None) => {}
                }
                prop_assert_eq!(interned.len(), model.len());
            }
            for (value, (number, _)) in &model {
                prop_assert_eq!(interned.get(*number), Some(value));
            }
        }
    }
}
