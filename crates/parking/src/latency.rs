//! How long the workers take, and how long the queue must be for that.
//!
//! The paper holds the queue at a length worked out for a latency known beforehand. Here the
//! latency of every header that comes back is put into a small histogram whose counts are halved
//! now and then, and the queue is held at what the port sends in a high quantile of it. It rises
//! with the first slow headers and falls when the slow ones are forgotten.

use std::time::Duration;

/// Buckets to each doubling of the latency: a bucket's upper edge is at most 1/8 above its lower.
const STEPS: u32 = 8;
/// Latencies from this many doublings of a nanosecond on are one bucket: 8.6 s.
const DOUBLINGS: u32 = 33;
const BUCKETS: usize = (STEPS * DOUBLINGS) as usize;
/// Counts are halved when there are this many.
const MEMORY: u32 = 4096;

/// Whether the buffer is large enough for the latency that the workers show.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Fit {
    /// It is.
    Fits {
        /// Where the queue is held, in bytes.
        target_bytes: u64,
    },
    /// It is not: some payloads come out before their headers are back, whatever the controller does.
    TooSmall {
        /// Where the queue would have to be held, in bytes.
        needed_bytes: u64,
        /// Where it is held instead.
        target_bytes: u64,
    },
}

impl Fit {
    /// Where the queue is held, in bytes.
    pub fn target_bytes(self) -> u64 {
        match self {
            Self::Fits { target_bytes } | Self::TooSmall { target_bytes, .. } => target_bytes,
        }
    }

    /// The fit of a queue that needs `needed_bytes` and may be held at `most_bytes`.
    pub(crate) fn of(needed_bytes: u64, most_bytes: u64) -> Self {
        if needed_bytes <= most_bytes {
            let target_bytes = needed_bytes;
            return Self::Fits { target_bytes };
        }
        Self::TooSmall {
            needed_bytes,
            target_bytes: most_bytes,
        }
    }
}

/// A histogram of latencies that forgets.
#[derive(Clone, Debug)]
pub struct Latencies {
    counts: [u32; BUCKETS],
    total: u32,
}

impl Default for Latencies {
    fn default() -> Self {
        Self {
            counts: [0; BUCKETS],
            total: 0,
        }
    }
}

impl Latencies {
    /// Takes note of one header's latency.
    pub fn record(&mut self, latency: Duration) {
        let ns = u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX);
        if let Some(count) = self.counts.get_mut(bucket(ns)) {
            *count += 1;
            self.total += 1;
        }
        if self.total >= MEMORY {
            self.halve();
        }
    }

    /// A latency, in nanoseconds, that this share of the headers did not exceed; `None` before
    /// the first. At most an eighth above the truth.
    pub fn quantile_ns(&self, share: f64) -> Option<u64> {
        let rank = (f64::from(self.total) * share).ceil().max(1.0) as u32;
        let mut seen = 0;
        let found = self.counts.iter().position(|count| {
            seen += count;
            seen >= rank
        });
        found.map(upper_edge_ns)
    }

    fn halve(&mut self) {
        // Rounded down: a single slow header among thousands is forgotten at once.
        self.counts.iter_mut().for_each(|count| *count /= 2);
        self.total = self.counts.iter().sum();
    }
}

fn bucket(ns: u64) -> usize {
    let ns = ns.max(STEPS.into());
    let doublings = ns.ilog2();
    let step = (ns >> (doublings - STEPS.ilog2())) as u32 - STEPS;
    (((doublings - STEPS.ilog2()) * STEPS + step) as usize).min(BUCKETS - 1)
}

fn upper_edge_ns(bucket: usize) -> u64 {
    let (doublings, step) = (
        bucket as u64 / u64::from(STEPS),
        bucket as u64 % u64::from(STEPS),
    );
    ((u64::from(STEPS) + step + 1) << doublings) - 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn filled(latencies_ns: impl IntoIterator<Item = u64>) -> Latencies {
        let mut latencies = Latencies::default();
        for ns in latencies_ns {
            latencies.record(Duration::from_nanos(ns));
        }
        latencies
    }

    #[test]
    fn nothing_is_known_before_the_first() {
        assert_eq!(Latencies::default().quantile_ns(0.5), None);
    }

    #[test]
    fn the_quantile_rises_at_once_and_falls_when_the_slow_are_forgotten() {
        let high = |latencies: &Latencies| latencies.quantile_ns(0.999).unwrap();
        let mut latencies = filled(std::iter::repeat_n(20_000, 3000));
        assert!((20_000..22_500).contains(&high(&latencies)));
        for _ in 0..10 {
            latencies.record(Duration::from_micros(40));
        }
        assert!((40_000..45_000).contains(&high(&latencies)));
        for _ in 0..20_000 {
            latencies.record(Duration::from_micros(20));
        }
        assert!((20_000..22_500).contains(&high(&latencies)));
    }

    #[test]
    fn a_fit_is_told_from_a_misfit() {
        assert_eq!(Fit::of(5, 5), Fit::Fits { target_bytes: 5 });
        assert_eq!(Fit::of(6, 5).target_bytes(), 5);
        assert!(matches!(
            Fit::of(6, 5),
            Fit::TooSmall {
                needed_bytes: 6,
                ..
            }
        ));
    }

    proptest! {
        /// Against sorting, within a bucket.
        #[test]
        fn quantiles_are_an_eighth_above_the_truth_at_most(
            mut all in prop::collection::vec(8u64..1_000_000_000, 1..500),
            share in 0.01f64..0.999,
        ) {
            let found = filled(all.iter().copied()).quantile_ns(share).unwrap();
            all.sort_unstable();
            let rank = (all.len() as f64 * share).ceil().max(1.0) as usize;
            let truth = all[rank - 1];
            prop_assert!(found >= truth && found <= truth + truth / 8, "{} for {}", found, truth);
        }
    }
}
