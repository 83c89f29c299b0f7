//! The flow hash.

/// Constants with well-mixed bits (digits of pi and of the golden ratio). Every factor of a product
/// is xored with one, so that small seeds and sparse keys never make a small factor.
const MIX: [u64; 5] = [
    0x9e37_79b9_7f4a_7c15,
    0x243f_6a88_85a3_08d3,
    0x1319_8a2e_0370_7345,
    0xa409_3822_299f_31d0,
    0x082e_fa98_ec4e_6c89,
];

/// Multiplies to 128 bits and folds the halves: every input bit reaches every output bit.
#[inline(always)]
const fn fold(a: u64, b: u64) -> u64 {
    let product = (a as u128).wrapping_mul(b as u128);
    (product as u64) ^ ((product >> 64) as u64)
}

/// Hashes the five lanes of a flow key under a seed.
///
/// The seed keeps an outsider from choosing packets that collide. Three independent multiplies
/// and one dependent: about five nanoseconds.
#[inline(always)]
pub const fn hash_lanes(lanes: [u64; 5], seed: u64) -> u64 {
    let first = fold(lanes[0] ^ MIX[0], lanes[1] ^ seed ^ MIX[3]);
    let second = fold(lanes[2] ^ MIX[1], lanes[3] ^ seed.rotate_left(32) ^ MIX[4]);
    let third = lanes[4] ^ seed ^ MIX[2];
    fold(first ^ third, second ^ third.rotate_left(29) ^ MIX[0])
}

/// [`hash_lanes`] of 0, `mapped ^ low`, 0, `mapped ^ high` and `last`: what is the same for all
/// keys is worked out once for many.
#[inline(always)]
pub(crate) const fn hash_mapped([low, high, last]: [u64; 3], mapped: u64, seed: u64) -> u64 {
    let first = fold(MIX[0], low ^ (mapped ^ seed ^ MIX[3]));
    let second = fold(MIX[1], high ^ (mapped ^ seed.rotate_left(32) ^ MIX[4]));
    let third = last ^ (seed ^ MIX[2]);
    fold(first ^ third, second ^ third.rotate_left(29) ^ MIX[0])
}

#[cfg(test)]
mod tests {
    use super::*;

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
