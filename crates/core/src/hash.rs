//! The keyed hash of every table.
//!
//! Whoever sends packets chooses keys. So that they cannot choose such as collide, every factor of
//! a product hides behind a secret number that is drawn from the seed: nobody outside knows which
//! lane would make it zero, or what a difference of lanes becomes.
//!
//! The sum of products is NH (Black, Halevi, Krawczyk, Krovetz and Rogaway, *UMAC*, CRYPTO 1999,
//! §4): any two keys, chosen without knowing the seed, have the same sum of 128 bits with a chance
//! of at most 2^-64. The last product scatters what is left.

/// Lanes that there are secret numbers for.
const MOST_LANES: usize = 8;

/// The secret numbers of a hash.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct HashKey {
    lanes: [u64; MOST_LANES],
    last: [u64; 2],
}

/// Multiplies to 128 bits and folds the halves.
#[inline(always)]
const fn fold(one: u64, other: u64) -> u64 {
    let product = one as u128 * other as u128;
    product as u64 ^ (product >> 64) as u64
}

/// Every bit of a number reaches every bit of the result, and no two have the same (the steps are
/// those of SplitMix64).
const fn scatter(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// A seed that follows from another, for what is known by a name: what is seen of one use tells
/// nothing of another.
#[must_use]
pub fn seed_for(seed: u64, name: &str) -> u64 {
    let bytes = name.bytes();
    bytes.fold(scatter(seed), |mixed, byte| {
        scatter(mixed.rotate_left(8) ^ u64::from(byte))
    })
}

impl HashKey {
    /// The secret numbers of a seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        let mut state = seed;
        let mut drawn = [0; MOST_LANES + 2];
        let mut place = 0;
        while place < drawn.len() {
            state = scatter(state);
            // Twice, so that none is the state that the next one follows from.
            drawn[place] = scatter(!state);
            place += 1;
        }
        let [lanes @ .., one, other] = drawn;
        let last = [one, other];
        Self { lanes, last }
    }

    /// Hashes lanes, at most eight.
    #[inline(always)]
    #[must_use]
    pub const fn hash<const N: usize>(&self, lanes: [u64; N]) -> u64 {
        self.scattered(self.sum(&lanes))
    }

    /// The same for at most six lanes and one more.
    #[inline(always)]
    #[must_use]
    pub const fn hash_with<const N: usize>(&self, lanes: &[u64; N], more: u64) -> u64 {
        const { assert!(N + 2 <= MOST_LANES) };
        let [.., one, other] = self.lanes;
        let more = more.wrapping_add(one) as u128 * other as u128;
        self.scattered(self.sum(lanes).wrapping_add(more))
    }

    #[inline(always)]
    const fn sum<const N: usize>(&self, lanes: &[u64; N]) -> u128 {
        const { assert!(N <= MOST_LANES) };
        let (mut sum, mut lane) = (0u128, 0);
        while lane < N {
            let one = lanes[lane].wrapping_add(self.lanes[lane]);
            let other = match lane + 1 < N {
                true => lanes[lane + 1].wrapping_add(self.lanes[lane + 1]),
                false => self.lanes[lane + 1],
            };
            sum = sum.wrapping_add(one as u128 * other as u128);
            lane += 2;
        }
        sum
    }

    /// [`Self::hash`] of 0, `mapped | low`, 0, `mapped | high` and `last`, in fewer steps.
    #[inline(always)]
    pub(crate) const fn hash_mapped(&self, [low, high, last]: [u64; 3], mapped: u64) -> u64 {
        let [a, b, c, d, e, f, ..] = self.lanes;
        let one = a as u128 * low.wrapping_add(mapped.wrapping_add(b)) as u128;
        let other = c as u128 * high.wrapping_add(mapped.wrapping_add(d)) as u128;
        let third = f as u128 * last.wrapping_add(e) as u128;
        self.scattered(one.wrapping_add(other).wrapping_add(third))
    }

    #[inline(always)]
    const fn scattered(&self, sum: u128) -> u64 {
        let [one, other] = self.last;
        fold(
            (sum as u64).wrapping_add(one),
            ((sum >> 64) as u64).wrapping_add(other),
        )
    }
}

impl Default for HashKey {
    fn default() -> Self {
        Self::new(0)
    }
}

#[cfg(test)]
mod tests;
