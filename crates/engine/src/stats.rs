//! What a run is measured with.

use crate::time::Time;
use hdrhistogram::Histogram;

/// The mean and the extremes of something that holds its value for a while, as the length of a queue.
#[derive(Clone, Debug, Default)]
pub struct OverTime {
    value: u64,
    since: Time,
    begin: Time,
    /// Value times picoseconds.
    area: u128,
    max: u64,
}

impl OverTime {
    /// The value from `now` on.
    pub fn set(&mut self, value: u64, now: Time) {
        self.area += u128::from(self.value) * u128::from(now.since(self.since).0);
        (self.value, self.since) = (value, now);
        self.max = self.max.max(value);
    }

    /// Forgets what was, but not the value: the measurement begins now.
    pub fn begin(&mut self, now: Time) {
        *self = Self {
            value: self.value,
            since: now,
            begin: now,
            area: 0,
            max: self.value,
        };
    }

    /// The mean up to `now`.
    pub fn mean(&self, now: Time) -> f64 {
        let area = self.area + u128::from(self.value) * u128::from(now.since(self.since).0);
        match now.since(self.begin).0 {
            0 => self.value as f64,
            duration => area as f64 / duration as f64,
        }
    }

    /// The highest value.
    pub fn max(&self) -> u64 {
        self.max
    }
}

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
    fn a_mean_over_time_weighs_by_time() {
        let mut queue = OverTime::default();
        queue.set(10, Time(100));
        queue.set(0, Time(200));
        assert_eq!((queue.mean(Time(400)), queue.max()), (2.5, 10));
        queue.set(4, Time(400));
        queue.begin(Time(400));
        queue.set(8, Time(500));
        assert_eq!((queue.mean(Time(600)), queue.max()), (6.0, 8));
    }

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
