//! Hashing a key under a mask.

use super::MatchKey;

/// The key's bits within the mask.
#[inline(always)]
pub(super) fn masked<const N: usize>(key: &MatchKey<N>, mask: &MatchKey<N>) -> MatchKey<N> {
    std::array::from_fn(|lane| key[lane] & mask[lane])
}

/// Multiplies to 128 bits and folds the halves.
#[inline(always)]
const fn fold(a: u64, b: u64) -> u64 {
    let product = a as u128 * b as u128;
    product as u64 ^ (product >> 64) as u64
}

/// An odd-looking constant for each lane (SplitMix64's steps).
const fn constant(lane: usize) -> u64 {
    let mut mixed = (lane as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// The hash of a key's bits within a mask, different for each subtable and seed. Lanes are
/// multiplied in pairs that do not wait for one another.
#[inline(always)]
pub(super) fn hash_masked<const N: usize>(
    key: &MatchKey<N>,
    mask: &MatchKey<N>,
    number: u32,
    seed: u64,
) -> u64 {
    let mut sum = u64::from(number).wrapping_mul(constant(0)) ^ seed.rotate_left(23);
    let mut lane = 0;
    while lane < N {
        let one = key[lane] & mask[lane] ^ seed ^ constant(lane);
        let other = match lane + 1 < N {
            true => key[lane + 1] & mask[lane + 1],
            false => 0,
        };
        let product = fold(one, other ^ seed.rotate_left(32) ^ constant(lane + 1));
        // Rotated, so that equal pairs in different lanes do not cancel out.
        sum = sum.rotate_left(19).wrapping_add(product);
        lane += 2;
    }
    fold(sum ^ constant(1), seed ^ constant(2))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Changing one bit within the mask changes each bit of the hash half of the time; changing
    /// one outside changes none.
    #[test]
    fn avalanche_within_the_mask() {
        let (key, mask) = (
            [1u64, 2, 3, 4, 5, 6, 7],
            [u64::MAX, 0xff00, 0, 1, u64::MAX, 0, 0xf0],
        );
        let reference = hash_masked(&key, &mask, 3, 9);
        let (mut flipped, mut bits) = (0, 0);
        for bit in 0..7 * 64 {
            let mut other = key;
            other[bit / 64] ^= 1 << (bit % 64);
            let change = hash_masked(&other, &mask, 3, 9) ^ reference;
            if mask[bit / 64] >> (bit % 64) & 1 == 0 {
                assert_eq!(change, 0);
            } else {
                flipped += change.count_ones();
                bits += 64;
            }
        }
        let share = f64::from(flipped) / f64::from(bits);
        assert!((0.45..0.55).contains(&share), "{share}");
        assert_ne!(hash_masked(&key, &mask, 4, 9), reference);
        assert_ne!(hash_masked(&key, &mask, 3, 8), reference);
    }
}
