//! Hash maps over small fixed keys: the flow hash under a seed in place of the standard library's
//! slower one.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher};
use twinpath_core::HashKey;

/// A map from keys made of 64-bit words.
pub(crate) type SeededMap<K, V> = HashMap<K, V, Seed>;

/// Keeps outsiders from choosing keys that collide.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Seed(HashKey);

impl Seed {
    pub const fn new(seed: u64) -> Self {
        Self(HashKey::new(seed))
    }
}

impl BuildHasher for Seed {
    type Hasher = WordHasher;

    fn build_hasher(&self) -> WordHasher {
        WordHasher {
            words: [0; WORDS],
            count: 0,
            before: 0,
            hash_key: self.0,
        }
    }
}

/// As many as a flow's key has, and its length.
const WORDS: usize = 6;

/// Collects so many words at a time.
#[derive(Debug)]
pub(crate) struct WordHasher {
    words: [u64; WORDS],
    count: usize,
    /// The hash of the words before these.
    before: u64,
    hash_key: HashKey,
}

impl Hasher for WordHasher {
    #[inline]
    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks();
        words
            .iter()
            .for_each(|word| self.write_u64(u64::from_le_bytes(*word)));
        if !rest.is_empty() {
            let mut word = [0; 8];
            word[..rest.len()].copy_from_slice(rest);
            self.write_u64(u64::from_le_bytes(word));
        }
    }

    #[inline]
    fn write_u64(&mut self, word: u64) {
        if self.count == self.words.len() {
            self.before = self.finish();
            (self.words, self.count) = ([0; WORDS], 0);
        }
        self.words[self.count] = word;
        self.count += 1;
    }

    #[inline]
    fn write_u128(&mut self, number: u128) {
        self.write_u64((number >> 64) as u64);
        self.write_u64(number as u64);
    }

    #[inline]
    fn write_u32(&mut self, number: u32) {
        self.write_u64(number.into());
    }

    #[inline]
    fn write_u16(&mut self, number: u16) {
        self.write_u64(number.into());
    }

    #[inline]
    fn write_u8(&mut self, number: u8) {
        self.write_u64(number.into());
    }

    #[inline]
    fn finish(&self) -> u64 {
        let rest = self.before.wrapping_add(self.count as u64);
        self.hash_key.hash_with(&self.words, rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Keys of a host whose interface id made a factor zero under any seed, once.
    #[test]
    fn chosen_keys_are_told_apart() {
        let interface = 0x243f_6a88_85a3_08d3;
        let of_napt = |number| (0u8, 0x2001_0db8u128 << 96 | interface, number as u16);
        let of_monitor = |number: u64| [0x2001_0db8 << 32, interface as u64, 1, number, 6];
        for seed in [0, 1, 42].map(Seed::new) {
            let napt: std::collections::HashSet<_> = (0..60_000)
                .map(|number: u32| seed.hash_one(of_napt(number)) as u32)
                .collect();
            let monitor: std::collections::HashSet<_> = (0..60_000)
                .map(|number| seed.hash_one(of_monitor(number)) as u32)
                .collect();
            assert!(napt.len().min(monitor.len()) > 59_990);
        }
    }

    #[test]
    fn keys_of_any_length_are_told_apart() {
        let seed = Seed::new(7);
        let hashes = [
            seed.hash_one(1u64),
            seed.hash_one(2u64),
            seed.hash_one([1u64, 0]),
            seed.hash_one((1u128, 2u128, 3u128, 4u16)),
            seed.hash_one((1u128, 2u128, 3u128, 5u16)),
            seed.hash_one((1u128, 2u128, 4u128, 4u16)),
            seed.hash_one((0u128, 2u128, 4u128, 4u16)),
            Seed::new(8).hash_one(1u64),
        ];
        let different: std::collections::HashSet<u64> = hashes.into_iter().collect();
        assert_eq!(different.len(), hashes.len());
    }
}
