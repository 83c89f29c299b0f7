//! Latencies recorded while the packets run, summed up when they have.

use hdrhistogram::Histogram;

use super::{Bar, Percentiles};

/// Longest latency told apart (one hour); anything longer is recorded as this.
pub const MAX_LATENCY_NS: u64 = 3_600_000_000_000;
/// Two significant digits: every recorded value is within 1 % of the true one.
const SIGNIFICANT_DIGITS: u8 = 2;
/// Upper bounds of the bars within one decade, in tenths: ten bars a decade,
/// evenly wide on a logarithmic axis.
const DECADE_TENTHS: [u64; 10] = [10, 13, 16, 20, 25, 32, 40, 50, 63, 79];

/// Latencies of one path. One recorder per thread, merged at the end: recording
/// neither allocates nor locks, and memory is fixed (some 35 kB).
#[derive(Clone, Debug)]
pub struct LatencyRecorder {
    histogram: Histogram<u64>,
}

impl LatencyRecorder {
    /// A recorder that has seen nothing.
    pub fn new() -> Self {
        let histogram = Histogram::new_with_bounds(1, MAX_LATENCY_NS, SIGNIFICANT_DIGITS)
            .expect("the bounds are constants that the histogram accepts");
        Self { histogram }
    }

    /// Records one packet; longer than [`MAX_LATENCY_NS`] counts as that.
    pub fn record(&mut self, latency_ns: u64) {
        self.histogram.saturating_record(latency_ns);
    }

    /// Records `packets` packets of the same latency.
    #[cfg(test)]
    pub(crate) fn record_n(&mut self, latency_ns: u64, packets: u64) {
        self.histogram.saturating_record_n(latency_ns, packets);
    }

    /// Adds what another recorder has seen.
    pub fn merge(&mut self, other: &Self) {
        self.histogram
            .add(&other.histogram)
            .expect("all recorders have the same bounds");
    }

    /// Packets recorded.
    pub fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// The summary that goes into a report, bars included. All zero when
    /// nothing was recorded.
    pub fn percentiles(&self) -> Percentiles {
        if self.histogram.is_empty() {
            return Percentiles::default();
        }
        let quantile = |q| self.histogram.value_at_quantile(q);
        Percentiles {
            count: self.histogram.len(),
            min_ns: self.histogram.min(),
            p50_ns: quantile(0.5),
            p90_ns: quantile(0.9),
            p99_ns: quantile(0.99),
            p999_ns: quantile(0.999),
            max_ns: self.histogram.max(),
            mean_ns: self.histogram.mean().round() as u64,
            histogram: self.bars(),
        }
    }

    /// The distribution as at most some 130 bars, ten a decade, from the first
    /// that holds a packet to the last. A bar holds what is above the bound of
    /// the bar before it and not above its own.
    pub fn bars(&self) -> Vec<Bar> {
        let mut bars: Vec<Bar> = bounds_ns().map(empty_bar).collect();
        for step in self.histogram.iter_recorded() {
            // The histogram knows a value to 1 %: its lower edge decides, so
            // that a value equal to a bound stays below it.
            let value_ns = self.histogram.lowest_equivalent(step.value_iterated_to());
            let index = bars.partition_point(|bar| bar.upper_bound_ns < value_ns);
            if let Some(bar) = bars.get_mut(index) {
                bar.count = bar.count.saturating_add(step.count_since_last_iteration());
            }
        }
        trim_empty(bars)
    }
}

impl Default for LatencyRecorder {
    fn default() -> Self {
        Self::new()
    }
}

/// Every bound from 1 ns to beyond [`MAX_LATENCY_NS`], ascending.
fn bounds_ns() -> impl Iterator<Item = u64> {
    let decades = 0..=MAX_LATENCY_NS.ilog10() + 1;
    let all = decades.flat_map(|decade| {
        DECADE_TENTHS
            .into_iter()
            .map(move |tenths| tenths * 10u64.pow(decade) / 10)
    });
    // Below 10 ns a tenth of a decade is less than a nanosecond.
    let mut last_ns = 0;
    all.filter(move |&bound_ns| bound_ns > std::mem::replace(&mut last_ns, bound_ns))
}

fn empty_bar(upper_bound_ns: u64) -> Bar {
    Bar {
        upper_bound_ns,
        count: 0,
    }
}

fn trim_empty(mut bars: Vec<Bar>) -> Vec<Bar> {
    let used = |bar: &Bar| bar.count > 0;
    bars.truncate(bars.iter().rposition(used).map_or(0, |last| last + 1));
    let first = bars.iter().position(used).unwrap_or(0);
    bars.split_off(first)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn recorded(values_ns: &[u64]) -> LatencyRecorder {
        let mut recorder = LatencyRecorder::new();
        values_ns.iter().for_each(|&value| recorder.record(value));
        recorder
    }

    #[test]
    fn nothing_recorded_is_all_zero() {
        assert_eq!(LatencyRecorder::new().percentiles(), Percentiles::default());
        assert!(LatencyRecorder::new().bars().is_empty());
    }

    #[test]
    fn percentiles_of_one_to_a_thousand() {
        let percentiles = recorded(&(1..=1000).collect::<Vec<_>>()).percentiles();
        assert_eq!(percentiles.count, 1000);
        for (found, truth) in [
            (percentiles.min_ns, 1),
            (percentiles.p50_ns, 500),
            (percentiles.p90_ns, 900),
            (percentiles.p99_ns, 990),
            (percentiles.p999_ns, 999),
            (percentiles.max_ns, 1000),
            (percentiles.mean_ns, 500),
        ] {
            assert!(found.abs_diff(truth) * 100 <= truth, "{found} for {truth}");
        }
    }

    #[test]
    fn too_long_saturates_and_is_still_counted() {
        let recorder = recorded(&[u64::MAX, 0]);
        assert_eq!(recorder.count(), 2);
        assert!(recorder.percentiles().max_ns >= MAX_LATENCY_NS);
        assert_eq!(recorder.bars().iter().map(|bar| bar.count).sum::<u64>(), 2);
    }

    #[test]
    fn bounds_ascend() {
        let bounds: Vec<_> = bounds_ns().collect();
        assert!(bounds.windows(2).all(|pair| pair[0] < pair[1]));
        assert!(bounds.len() < 150 && *bounds.last().unwrap() > MAX_LATENCY_NS);
    }

    proptest! {
        #[test]
        fn bars_agree_with_counting(values in prop::collection::vec(0u64..5_000_000, 0..200)) {
            let bars = recorded(&values).bars();
            prop_assert_eq!(bars.iter().map(|bar| bar.count).sum::<u64>(), values.len() as u64);
            // The running total up to each bound, give or take the 1 % a value may move.
            let mut total = 0;
            for bar in bars {
                total += bar.count;
                let low = bar.upper_bound_ns - bar.upper_bound_ns / 100;
                let high = bar.upper_bound_ns + bar.upper_bound_ns / 100;
                let at_most = |bound| values.iter().filter(|&&v| v <= bound).count() as u64;
                prop_assert!(at_most(low) <= total && total <= at_most(high));
            }
        }

        #[test]
        fn merging_is_recording_both(
            left in prop::collection::vec(0u64..1_000_000, 0..50),
            right in prop::collection::vec(0u64..1_000_000, 0..50),
        ) {
            let mut merged = recorded(&left);
            merged.merge(&recorded(&right));
            let both: Vec<_> = left.iter().chain(&right).copied().collect();
            prop_assert_eq!(merged.percentiles(), recorded(&both).percentiles());
        }
    }
}
