//! A small random sequence.

/// SplitMix64: the same numbers on every platform.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The sequence of a seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits.
    pub const fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`; 0 if the bound is 0.
    pub const fn below(&mut self, bound: u64) -> u64 {
        ((self.bits() as u128 * bound as u128) >> 64) as u64
    }

    /// One of a list, each as likely as its weight says; the last if all weights are zero.
    pub fn weighted<T: Copy>(&mut self, choices: &[(T, u32)]) -> Option<T> {
        let total = choices.iter().map(|choice| u64::from(choice.1)).sum();
        let mut left = self.below(total);
        for &(choice, weight) in choices {
            match left.checked_sub(u64::from(weight)) {
                None => return Some(choice),
                Some(rest) => left = rest,
            }
        }
        choices.last().map(|choice| choice.0)
    }
}
