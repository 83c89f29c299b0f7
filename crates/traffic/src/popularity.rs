//! How often each of N things (flows, keys) is chosen: evenly, or by Zipf's law.

use crate::config::Popularity;
use crate::random::RandomSource;

/// Chooses an index in `0..count` in constant time and without a table.
#[derive(Debug, Clone)]
pub enum Chooser {
    /// All alike.
    Uniform {
        /// How many there are.
        count: u64,
    },
    /// Index 0 most often.
    Zipf(Zipf),
}

impl Chooser {
    /// A chooser among `count` things (at least one) of this popularity.
    pub fn new(popularity: &Popularity, count: u64) -> Self {
        match *popularity {
            Popularity::Uniform {} => Self::Uniform { count },
            Popularity::Zipf { exponent } => Self::Zipf(Zipf::new(count, exponent)),
        }
    }

    /// Draws an index below the count.
    pub fn choose(&self, random: &mut impl RandomSource) -> u64 {
        match self {
            Self::Uniform { count } => random.below(*count),
            Self::Zipf(zipf) => zipf.sample(random),
        }
    }
}

/// Zipf's law over `0..count`: index `i` has a weight of `1 / (i + 1)^exponent`.
///
/// Sampled by rejection-inversion (Hörmann and Derflinger, "Rejection-inversion
/// to generate variates from monotone discrete distributions", 1996): the
/// discrete weights lie under the integral of `x^-exponent`, which can be
/// inverted in closed form, and nearly every draw is accepted.
#[derive(Debug, Clone)]
pub struct Zipf {
    count: f64,
    exponent: f64,
    integral_first: f64,
    integral_last: f64,
    accept_within: f64,
}

impl Zipf {
    /// Nearly every draw is accepted; after this many refusals in a row, which
    /// no run will see, the last one counts.
    const TRIES: usize = 64;

    /// Zipf's law over `count` (at least one) things with a positive exponent.
    pub fn new(count: u64, exponent: f64) -> Self {
        let count = count.max(1) as f64;
        let mut zipf = Self {
            count,
            exponent,
            integral_first: 0.0,
            integral_last: 0.0,
            accept_within: 0.0,
        };
        zipf.integral_first = zipf.integral(1.5) - 1.0;
        zipf.integral_last = zipf.integral(count + 0.5);
        zipf.accept_within = 2.0 - zipf.integral_inverse(zipf.integral(2.5) - zipf.weight(2.0));
        zipf
    }

    /// Draws an index below the count.
    pub fn sample(&self, random: &mut impl RandomSource) -> u64 {
        let mut rank = 1.0;
        for _ in 0..Self::TRIES {
            let area =
                self.integral_last + random.unit() * (self.integral_first - self.integral_last);
            let position = self.integral_inverse(area);
            rank = libm::floor(position + 0.5).clamp(1.0, self.count);
            let near = rank - position <= self.accept_within;
            if near || area >= self.integral(rank + 0.5) - self.weight(rank) {
                break;
            }
        }
        rank as u64 - 1
    }

    fn weight(&self, rank: f64) -> f64 {
        libm::exp(-self.exponent * libm::log(rank))
    }

    /// The integral of the weight from 1 to `x`; its limit `ln x` where the exponent is 1.
    fn integral(&self, x: f64) -> f64 {
        let log = libm::log(x);
        let power = (1.0 - self.exponent) * log;
        ratio_or_one(libm::expm1(power), power) * log
    }

    fn integral_inverse(&self, area: f64) -> f64 {
        // Rounding can push the argument out of the logarithm's domain.
        let power = (area * (1.0 - self.exponent)).max(-1.0);
        libm::exp(ratio_or_one(libm::log1p(power), power) * area)
    }
}

/// `f(x) / x` for the functions above, whose limit at 0 is 1.
fn ratio_or_one(numerator: f64, denominator: f64) -> f64 {
    if denominator.abs() > 1e-12 {
        numerator / denominator
    } else {
        1.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;
    use proptest::prelude::*;

    const DRAWS: usize = 400_000;

    /// Expected counts of each index, computed the slow and obvious way.
    fn expected(weights: impl Fn(usize) -> f64, count: usize) -> Vec<f64> {
        let sum: f64 = (0..count).map(&weights).sum();
        (0..count)
            .map(|i| weights(i) / sum * DRAWS as f64)
            .collect()
    }

    fn drawn(chooser: &Chooser, count: usize) -> Vec<f64> {
        let mut random = Random::stream(11, 0);
        let mut counts = vec![0.0; count];
        for _ in 0..DRAWS {
            counts[chooser.choose(&mut random) as usize] += 1.0;
        }
        counts
    }

    /// Pearson's statistic stays within five standard deviations of its mean.
    fn assert_chi_square(counts: &[f64], expected: &[f64]) {
        let degrees = (counts.len() - 1) as f64;
        let statistic: f64 = counts
            .iter()
            .zip(expected)
            .map(|(n, e)| (n - e) * (n - e) / e)
            .sum();
        let bound = degrees + 5.0 * (2.0 * degrees).sqrt();
        assert!(statistic < bound, "chi-square {statistic} above {bound}");
    }

    #[test]
    fn zipf_matches_theory_at_several_exponents() {
        for exponent in [0.2, 0.5, 0.99, 1.0, 1.01, 1.5] {
            let chooser = Chooser::new(&Popularity::Zipf { exponent }, 1000);
            let theory = expected(|i| 1.0 / ((i + 1) as f64).powf(exponent), 1000);
            assert_chi_square(&drawn(&chooser, 1000), &theory);
        }
    }

    #[test]
    fn a_wrong_exponent_fails_the_same_test() {
        let chooser = Chooser::new(&Popularity::Zipf { exponent: 0.99 }, 1000);
        let theory = expected(|i| 1.0 / ((i + 1) as f64).powf(0.95), 1000);
        let counts = drawn(&chooser, 1000);
        assert!(std::panic::catch_unwind(|| assert_chi_square(&counts, &theory)).is_err());
    }

    #[test]
    fn uniform_matches_theory() {
        let chooser = Chooser::new(&Popularity::Uniform {}, 1000);
        assert_chi_square(&drawn(&chooser, 1000), &expected(|_| 1.0, 1000));
    }

    #[test]
    fn zipf_over_millions_has_the_right_head() {
        let zipf = Zipf::new(4_000_000, 0.99);
        let mut random = Random::stream(12, 0);
        let hits = (0..DRAWS).filter(|_| zipf.sample(&mut random) == 0).count() as f64;
        let sum: f64 = (1..=4_000_000)
            .map(|rank| f64::from(rank).powf(-0.99))
            .sum();
        let theory = DRAWS as f64 / sum;
        assert!(
            (hits - theory).abs() < 5.0 * theory.sqrt(),
            "{hits} for {theory}"
        );
    }

    proptest! {
        #[test]
        fn every_draw_is_below_the_count(
            count in 1u64..10_000_000, exponent in 0.01f64..8.0, seed: u64,
        ) {
            let zipf = Zipf::new(count, exponent);
            let mut random = Random::stream(seed, 0);
            for _ in 0..100 {
                prop_assert!(zipf.sample(&mut random) < count);
            }
        }
    }
}
