//! What a run is measured with.

use hdrhistogram::Histogram;

/// Values, one after the other: mean, deviation, extremes and percentiles.
#[derive(Clone, Debug)]
pub struct Samples {
    histogram: Histogram<u64>,
    sum: u128,
    squares: f64,
    min: u64,
    max: u64,
}

/// Three significant digits: percentiles are at most 0.1 % off.
const DIGITS: u8 = 3;

impl Default for Samples {
    fn default() -> Self {
        Self {
            histogram: Histogram::new(DIGITS).expect("three digits are allowed"),
            sum: 0,
            squares: 0.0,
            min: u64::MAX,
            max: 0,
        }
    }
}

impl Samples {
    /// One more.
    pub fn record(&mut self, value: u64) {
        // It resizes as needed, so this does not fail.
        let _ = self.histogram.record(value);
        self.sum += u128::from(value);
        self.squares += value as f64 * value as f64;
        self.min = self.min.min(value);
        self.max = self.max.max(value);
    }

    /// How many.
    pub fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// Their mean; 0 if there are none.
    pub fn mean(&self) -> f64 {
        match self.count() {
            0 => 0.0,
            count => self.sum as f64 / count as f64,
        }
    }

    /// Their standard deviation.
    pub fn deviation(&self) -> f64 {
        match self.count() {
            0 => 0.0,
            count => (self.squares / count as f64 - self.mean().powi(2))
                .max(0.0)
                .sqrt(),
        }
    }

    /// The smallest; 0 if there are none.
    pub fn min(&self) -> u64 {
        if self.count() == 0 { 0 } else { self.min }
    }

    /// The largest.
    pub fn max(&self) -> u64 {
        self.max
    }

    /// What this share of them does not exceed.
    pub fn quantile(&self, share: f64) -> u64 {
        self.histogram.value_at_quantile(share).min(self.max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_tell_their_moments_and_percentiles() {
        let mut samples = Samples::default();
        assert_eq!(
            (samples.min(), samples.mean(), samples.quantile(0.5)),
            (0, 0.0, 0)
        );
        (1..=1000).for_each(|value| samples.record(value));
        assert_eq!(
            (samples.min(), samples.max(), samples.mean()),
            (1, 1000, 500.5)
        );
        assert!((samples.deviation() - 288.675).abs() < 0.01);
        assert_eq!((samples.quantile(0.5), samples.quantile(0.99)), (500, 990));
    }
}
