//! The flow hash: keyed, so that who chooses packets cannot choose which of them collide.

/// Constants with well-mixed bits (digits of pi and of the golden ratio).
const MIX: [u64; 5] = [
    0x9e37_79b9_7f4a_7c15,
    0x243f_6a88_85a3_08d3,
    0x1319_8a2e_0370_7345,
    0xa409_3822_299f_31d0,
    0x082e_fa98_ec4e_6c89,
];

/// Odd factors, another for each lane (prime numbers near powers of the golden ratio).
const SPREAD: [u64; 5] = [
    0xa076_1d64_78bd_642f,
    0xe703_7ed1_a0b4_28db,
    0x8ebc_6af0_9c88_c6e3,
    0x5899_65cc_7537_4cc3,
    0x1d8e_4e27_c47d_124f,
];

/// What a lane is xored with before it becomes a factor: another secret for each. A lane that
/// equals it makes the product zero, and whatever else was in it is lost; so it must not be known.
#[inline(always)]
const fn secret(seed: u64, lane: usize) -> u64 {
    seed.wrapping_mul(SPREAD[lane]) ^ MIX[lane]
}

/// Multiplies to 128 bits and folds the halves: every input bit reaches every output bit.
#[inline(always)]
const fn fold(a: u64, b: u64) -> u64 {
    let product = (a as u128).wrapping_mul(b as u128);
    (product as u64) ^ ((product >> 64) as u64)
}

/// Hashes the five lanes of a flow key under a seed.
///
/// Three independent multiplies and one dependent: about five nanoseconds.
#[inline(always)]
pub const fn hash_lanes(lanes: [u64; 5], seed: u64) -> u64 {
    let first = fold(lanes[0] ^ secret(seed, 0), lanes[1] ^ secret(seed, 1));
    let second = fold(lanes[2] ^ secret(seed, 2), lanes[3] ^ secret(seed, 3));
    last_fold(first, second, lanes[4] ^ secret(seed, 4), seed)
}

/// [`hash_lanes`] of 0, `mapped ^ low`, 0, `mapped ^ high` and `last`: what is the same for all
/// keys is worked out once for many.
#[inline(always)]
pub(crate) const fn hash_mapped([low, high, last]: [u64; 3], mapped: u64, seed: u64) -> u64 {
    let first = fold(secret(seed, 0), low ^ (mapped ^ secret(seed, 1)));
    let second = fold(secret(seed, 2), high ^ (mapped ^ secret(seed, 3)));
    last_fold(first, second, last ^ secret(seed, 4), seed)
}

#[inline(always)]
const fn last_fold(first: u64, second: u64, third: u64, seed: u64) -> u64 {
    fold(first ^ third, second ^ third.rotate_left(29) ^ secret(seed, 0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    /// Sequential keys, the worst realistic case, must fill buckets as randomly as chance.
    #[test]
    fn sequential_keys_spread_over_buckets() {
        let (buckets, keys) = (4096u64, 65536u64);
        let mut load = vec![0u32; buckets as usize];
        for key in 0..keys {
            load[(hash_lanes([0, key, 0, 7, 17], 42) % buckets) as usize] += 1;
        }
        let mean = (keys / buckets) as f64;
        let variance = load
            .iter()
            .map(|&l| (f64::from(l) - mean).powi(2))
            .sum::<f64>()
            / buckets as f64;
        assert!(
            (0.85..1.15).contains(&(variance / mean)),
            "variance over mean {}",
            variance / mean
        );
    }

    /// Whoever knows the constants but not the seed finds no lane that hides the others: those that
    /// made a product zero whatever the seed do not.
    #[test]
    fn no_lane_that_is_known_hides_another() {
        for seed in [1, 7, 0x9e37_79b9_7f4a_7c15] {
            for known in MIX {
                for at in 0..4 {
                    let hash = |beside: u64| {
                        let mut lanes = [0; 5];
                        (lanes[at], lanes[at ^ 1]) = (known, beside);
                        hash_lanes(lanes, seed)
                    };
                    let hashes: HashSet<_> = (0..1000).map(hash).collect();
                    assert_eq!(hashes.len(), 1000, "{known:#x} in lane {at}, seed {seed}");
                }
            }
        }
    }

    /// Keys that collide under one seed do not under another, as if drawn by lot.
    #[test]
    fn what_collides_under_one_seed_does_not_under_another() {
        let bucket = |key: u64, seed| hash_lanes([0, key, 0, 7, 17], seed) % 4096;
        let alike: Vec<u64> = (0..4_000_000).filter(|&key| bucket(key, 0) == 0).collect();
        let still = alike.iter().filter(|&&key| bucket(key, 0x1234_5678) == 0);
        assert!(alike.len() > 800 && still.count() < 10);
    }

    /// Changing one input bit changes each output bit about half of the time.
    #[test]
    fn avalanche() {
        let base = [1u64, 2, 3, 4, 5];
        let reference = hash_lanes(base, 9);
        let mut flipped = 0u32;
        for bit in 0..320 {
            let mut lanes = base;
            lanes[bit / 64] ^= 1 << (bit % 64);
            flipped += (hash_lanes(lanes, 9) ^ reference).count_ones();
        }
        let share = f64::from(flipped) / (320.0 * 64.0);
        assert!((0.45..0.55).contains(&share), "{share}");
    }
}
