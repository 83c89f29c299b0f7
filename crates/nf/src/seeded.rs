//! Hash maps over small fixed keys: the flow hash under a seed in place of the standard library's
//! slower one.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher};
use twinpath_core::hash::hash_lanes;

/// A map from keys made of 64-bit lanes.
pub(crate) type SeededMap<K, V> = HashMap<K, V, Seed>;

/// Keeps outsiders from choosing keys that collide.
#[derive(Copy, Clone, Debug, Default)]
pub(crate) struct Seed(pub u64);

impl BuildHasher for Seed {
    type Hasher = LaneHasher;

    fn build_hasher(&self) -> LaneHasher {
        LaneHasher {
            lanes: [0; 5],
            count: 0,
            seed: self.0,
        }
    }
}

/// Collects up to five lanes at a time.
#[derive(Debug)]
pub(crate) struct LaneHasher {
    lanes: [u64; 5],
    count: usize,
    seed: u64,
}

impl Hasher for LaneHasher {
    #[inline]
    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut lane = [0; 8];
            lane[..chunk.len()].copy_from_slice(chunk);
            self.write_u64(u64::from_le_bytes(lane));
        }
    }

    #[inline]
    fn write_u64(&mut self, lane: u64) {
        if self.count == self.lanes.len() {
            self.seed = hash_lanes(self.lanes, self.seed);
            (self.lanes, self.count) = ([0; 5], 0);
        }
        self.lanes[self.count] = lane;
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
        hash_lanes(self.lanes, self.seed ^ self.count as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_any_length_are_told_apart() {
        let seed = Seed(7);
        let hashes = [
            seed.hash_one(1u64),
            seed.hash_one(2u64),
            seed.hash_one([1u64, 0]),
            seed.hash_one((1u128, 2u128, 3u128, 4u16)),
            seed.hash_one((1u128, 2u128, 3u128, 5u16)),
            seed.hash_one((1u128, 2u128, 4u128, 4u16)),
            Seed(8).hash_one(1u64),
        ];
        let different: std::collections::HashSet<u64> = hashes.into_iter().collect();
        assert_eq!(different.len(), hashes.len());
    }
}
