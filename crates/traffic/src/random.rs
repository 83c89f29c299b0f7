//! Seeded randomness whose sequence can never drift.
//!
//! Only two published algorithms are used, xoshiro256++ and SplitMix64, and
//! only their raw 64-bit output: every distribution on top is in this crate.
//! So a seed means the same packets on every platform and with every release
//! of the random number libraries.

use rand_xoshiro::rand_core::{Rng, SeedableRng};
use rand_xoshiro::{SplitMix64, Xoshiro256PlusPlus};

/// A source of random 64-bit words, and the simple draws made from one word.
pub trait RandomSource {
    /// The next 64 random bits.
    fn bits(&mut self) -> u64;

    /// A number in `0..bound` (0 if `bound` is 0). The bias is below `bound / 2^64`.
    fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(bound)) >> 64) as u64
    }

    /// A number in `(0, 1]`, so that its logarithm is finite.
    fn unit(&mut self) -> f64 {
        const STEP: f64 = 1.0 / (1u64 << 53) as f64;
        ((self.bits() >> 11) + 1) as f64 * STEP
    }

    /// An exponentially distributed number with this mean.
    fn exponential(&mut self, mean: f64) -> f64 {
        -libm::log(self.unit()) * mean
    }

    /// A number whose logarithm is normally distributed, with this deviation around that of
    /// `median` (Box and Muller's transform).
    fn log_normal(&mut self, median: f64, deviation: f64) -> f64 {
        let radius = libm::sqrt(-2.0 * libm::log(self.unit()));
        let angle = std::f64::consts::TAU * self.unit();
        median * libm::exp(deviation * radius * libm::cos(angle))
    }
}

/// A long-period generator for one purpose of a run (arrivals, selection, ...).
#[derive(Debug, Clone)]
pub struct Random(Xoshiro256PlusPlus);

impl Random {
    /// The generator for purpose `stream` of a run with this seed. Streams are
    /// independent, so that switching one feature on does not shift another.
    pub fn stream(seed: u64, stream: u64) -> Self {
        let mut words = FlowRandom::new(seed, stream);
        let mut state = [0; 32];
        for word in state.chunks_exact_mut(8) {
            word.copy_from_slice(&words.bits().to_le_bytes());
        }
        Self(Xoshiro256PlusPlus::from_seed(state))
    }
}

impl RandomSource for Random {
    fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }
}

/// An eight-byte generator: each flow has its own, so that what a flow sends
/// depends on the seed and the flow's number and on nothing else.
#[derive(Debug, Clone)]
pub struct FlowRandom(SplitMix64);

impl FlowRandom {
    /// The generator of the flow with this number in a run with this seed.
    pub fn new(seed: u64, flow: u64) -> Self {
        let start = mix(seed ^ mix(flow));
        Self(SplitMix64::from_seed(start.to_le_bytes()))
    }
}

impl RandomSource for FlowRandom {
    fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }
}

/// The purposes of [`Random::stream`] in a generator.
pub(crate) mod streams {
    pub(crate) const ARRIVALS: u64 = 0;
    pub(crate) const SELECTION: u64 = 1;
    pub(crate) const LATENESS: u64 = 2;
    pub(crate) const FRAGMENTS: u64 = 3;
    pub(crate) const ERRORS: u64 = 4;
    pub(crate) const PAYLOAD: u64 = 5;
    pub(crate) const KEY_VALUE: u64 = 6;
    pub(crate) const OPEN_FLOWS: u64 = 7;
    pub(crate) const OPEN_MEAN: u64 = 8;
}

/// Scrambles a word: a bijection in which each input bit moves half the output bits.
pub(crate) fn mix(word: u64) -> u64 {
    SplitMix64::from_seed(word.to_le_bytes()).next_u64()
}

/// A probability, ready to be drawn against.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chance(u64);

impl Chance {
    /// One in 2^53 steps: all that a uniform `f64` can tell apart.
    const WHOLE: f64 = (1u64 << 53) as f64;

    /// The chance `probability`, clamped to `0..=1`.
    pub fn new(probability: f64) -> Self {
        Self((probability.clamp(0.0, 1.0) * Self::WHOLE) as u64)
    }

    /// Whether the event can happen at all.
    pub fn is_possible(self) -> bool {
        self.0 > 0
    }

    /// Whether the event happens this time. An impossible event takes no draw.
    pub fn draw(self, random: &mut impl RandomSource) -> bool {
        self.is_possible() && (random.bits() >> 11) < self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Computed with another implementation of the published algorithms.
    #[test]
    fn raw_sequences_are_pinned() {
        let mut random = Random::stream(1, 0);
        assert_eq!(random.bits(), 13_546_732_021_235_704_531);
        assert_eq!(random.bits(), 17_282_229_282_151_576_254);
        let mut flow = FlowRandom::new(1, 0);
        assert_eq!(flow.bits(), 4_964_578_127_960_768_432);
        assert_eq!(flow.bits(), 12_049_418_925_942_065_841);
    }

    #[test]
    fn streams_of_one_seed_differ() {
        let mut first = Random::stream(7, 0);
        let mut second = Random::stream(7, 1);
        assert!((0..64).all(|_| first.bits() != second.bits()));
    }

    #[test]
    fn below_covers_its_range_evenly() {
        let mut random = Random::stream(3, 0);
        let mut counts = [0u32; 10];
        for _ in 0..100_000 {
            counts[random.below(10) as usize] += 1;
        }
        assert!(
            counts.iter().all(|&n| (9_600..10_400).contains(&n)),
            "{counts:?}"
        );
        assert_eq!(random.below(0), 0);
        assert_eq!(random.below(1), 0);
    }

    #[test]
    fn unit_is_positive_and_exponential_has_its_mean() {
        let mut random = Random::stream(4, 0);
        assert!(
            (0..10_000)
                .map(|_| random.unit())
                .all(|u| u > 0.0 && u <= 1.0)
        );
        let sum: f64 = (0..100_000).map(|_| random.exponential(50.0)).sum();
        assert!((49.0..51.0).contains(&(sum / 100_000.0)));
    }

    #[test]
    fn logarithms_of_log_normal_numbers_are_normal() {
        let mut random = Random::stream(6, 0);
        let logs: Vec<f64> = (0..100_000)
            .map(|_| random.log_normal(1000.0, 1.5).ln())
            .collect();
        let mean = logs.iter().sum::<f64>() / 1e5;
        let square = logs.iter().map(|log| (log - mean).powi(2)).sum::<f64>() / 1e5;
        assert!((mean - 1000f64.ln()).abs() < 0.02 && (square.sqrt() - 1.5).abs() < 0.02);
        let beyond = logs.iter().filter(|log| **log > mean + 3.0).count() as f64 / 1e5;
        assert!((beyond - 0.02275).abs() < 0.002, "{beyond}");
    }

    #[test]
    fn chance_happens_as_often_as_it_says() {
        let mut random = Random::stream(5, 0);
        let hits = |chance: Chance, random: &mut Random| {
            (0..100_000).filter(|_| chance.draw(random)).count()
        };
        assert_eq!(hits(Chance::new(0.0), &mut random), 0);
        assert_eq!(hits(Chance::new(1.0), &mut random), 100_000);
        let tenth = hits(Chance::new(0.1), &mut random);
        assert!((9_600..10_400).contains(&tenth), "{tenth}");
    }
}
