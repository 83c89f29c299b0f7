//! Values that many entries share, each kept once under a number.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hash, Hasher};

use twinpath_core::hash::HashKey;

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
#[derive(Clone, Debug)]
pub(crate) struct Interned<T> {
    values: Vec<Option<(T, u32)>>,
    numbers: HashMap<T, u32, Keyed>,
    free: Vec<u32>,
}

impl<T: Clone + Eq + Hash> Interned<T> {
    /// No values. What hashes are keyed with follows from the seed.
    pub fn new(seed: u64) -> Self {
        let key = HashKey::new(seed);
        let secrets = [key.hash([0]), key.hash([1]) | 1];
        Self {
            values: Vec::new(),
            numbers: HashMap::with_hasher(Keyed { secrets }),
            free: Vec::new(),
        }
    }

    /// The number of a value, in one more use.
    pub fn take(&mut self, value: &T) -> u32 {
        if let Some(&number) = self.numbers.get(value) {
            if let Some(Some((_, uses))) = self.values.get_mut(number as usize) {
                *uses += 1;
            }
            return number;
        }
        let number = self.free.pop().unwrap_or(self.values.len() as u32);
        let place = Some((value.clone(), 1));
        match self.values.get_mut(number as usize) {
            Some(free) => *free = place,
            None => self.values.push(place),
        }
        self.numbers.insert(value.clone(), number);
        number
    }

    /// One use less of a number.
    pub fn give(&mut self, number: u32) {
        let Some(place) = self.values.get_mut(number as usize) else {
            return;
        };
        let Some((value, uses)) = place else {
            return;
        };
        *uses -= 1;
        if *uses == 0 {
            self.numbers.remove(value);
            *place = None;
            self.free.push(number);
        }
    }

    /// The value under a number.
    #[inline]
    pub fn get(&self, number: u32) -> Option<&T> {
        Some(&self.values.get(number as usize)?.as_ref()?.0)
    }

    /// How many values there are.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.numbers.len()
    }

    /// Memory taken, in bytes, about: a map has a byte beside each entry and is two thirds full.
    pub fn memory_bytes(&self) -> usize {
        self.values.capacity() * size_of::<Option<(T, u32)>>()
            + self.numbers.capacity() * (size_of::<(T, u32)>() + 1)
    }
}

#[cfg(test)]
mod tests {
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
}
