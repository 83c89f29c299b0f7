//! How long packets are.

use super::parameters::{Parameters, SizesName};
use twinpath_traffic::random::{Random, RandomSource};

/// Draws lengths.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sizes {
    least: f64,
    most: f64,
    /// Of the distribution before it is clipped; `None` if all packets are `least` long.
    mean: Option<f64>,
}

impl Sizes {
    pub(crate) fn new(parameters: &Parameters) -> Self {
        let (least, most) = (parameters.least_bytes.into(), parameters.most_bytes.into());
        match parameters.sizes {
            SizesName::Fixed => Self {
                least: parameters.mean_bytes,
                most: parameters.mean_bytes,
                mean: None,
            },
            SizesName::Exponential => Self {
                least,
                most,
                mean: Some(mean_before_clipping(parameters.mean_bytes, least, most)),
            },
        }
    }

    pub(crate) fn draw(&self, random: &mut Random) -> u32 {
        let bytes = self
            .mean
            .map_or(self.least, |mean| random.exponential(mean));
        bytes.clamp(self.least, self.most).round() as u32
    }
}

/// The mean of an exponential distribution that has `mean` after it was clipped; by bisection.
fn mean_before_clipping(mean: f64, least: f64, most: f64) -> f64 {
    let (mut low, mut high) = (1e-3, 1e9);
    for _ in 0..200 {
        let middle = (low + high) / 2.0;
        match clipped_mean(middle, least, most) < mean {
            true => low = middle,
            false => high = middle,
        }
    }
    (low + high) / 2.0
}

/// The integral of the survival function between the limits, above the lower one.
fn clipped_mean(mean: f64, least: f64, most: f64) -> f64 {
    least + mean * (libm::exp(-least / mean) - libm::exp(-most / mean))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clipped_sizes_have_the_mean_of_the_paper() {
        let sizes = Sizes::new(&Parameters::default());
        let mut random = Random::stream(1, 0);
        let drawn: Vec<u32> = (0..200_000).map(|_| sizes.draw(&mut random)).collect();
        let mean = drawn.iter().map(|&b| f64::from(b)).sum::<f64>() / drawn.len() as f64;
        assert!((995.0..1005.0).contains(&mean), "{mean}");
        assert_eq!(drawn.iter().min(), Some(&64));
        assert_eq!(drawn.iter().max(), Some(&1500));
    }
}
