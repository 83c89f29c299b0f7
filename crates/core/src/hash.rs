//! The keyed hash of every table.
//!
//! Whoever sends packets chooses keys. So that they cannot choose such as collide, every factor of
//! a product hides behind a secret number that is drawn from the seed: nobody outside knows which
//! word would make it zero, or what a difference of words becomes.
//!
//! The sum of products is NH (Black, Halevi, Krawczyk, Krovetz and Rogaway, *UMAC*, CRYPTO 1999,
//! §4): any two keys, chosen without knowing the seed, have the same sum of 128 bits with a chance
//! of at most 2^-64. The last product scatters what is left.

/// Words that there are secret numbers for.
const MOST_WORDS: usize = 8;

/// The secret numbers of a hash.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct HashKey {
    secrets: [u64; MOST_WORDS],
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
        let mut drawn = [0; MOST_WORDS + 2];
        let mut place = 0;
        while place < drawn.len() {
            state = scatter(state);
            // Twice, so that none is the state that the next one follows from.
            drawn[place] = scatter(!state);
            place += 1;
        }
        let [secrets @ .., one, other] = drawn;
        let last = [one, other];
        Self { secrets, last }
    }

    /// Hashes words, at most eight.
    #[inline(always)]
    #[must_use]
    pub const fn hash<const N: usize>(&self, words: [u64; N]) -> u64 {
        self.scattered(self.sum(&words))
    }

    /// The same for at most six words and one more.
    #[inline(always)]
    #[must_use]
    pub const fn hash_with<const N: usize>(&self, words: &[u64; N], more: u64) -> u64 {
        const { assert!(N + 2 <= MOST_WORDS) };
        let [.., one, other] = self.secrets;
        let more = more.wrapping_add(one) as u128 * other as u128;
        self.scattered(self.sum(words).wrapping_add(more))
    }

    #[inline(always)]
    const fn sum<const N: usize>(&self, words: &[u64; N]) -> u128 {
        const { assert!(N <= MOST_WORDS) };
        let (mut sum, mut word) = (0u128, 0);
        while word < N {
            let one = words[word].wrapping_add(self.secrets[word]);
            let other = match word + 1 < N {
                true => words[word + 1].wrapping_add(self.secrets[word + 1]),
                false => self.secrets[word + 1],
            };
            sum = sum.wrapping_add(one as u128 * other as u128);
            word += 2;
        }
        sum
    }

    /// [`Self::hash`] of 0, `mapped | low`, 0, `mapped | high` and `last`, in fewer steps.
    #[inline(always)]
    pub(crate) const fn hash_mapped(&self, [low, high, last]: [u64; 3], mapped: u64) -> u64 {
        let [a, b, c, d, e, f, ..] = self.secrets;
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
