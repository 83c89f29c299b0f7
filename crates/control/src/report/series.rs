//! Samples over time in bounded memory, however long the run.

use super::Sample;

/// Most samples a series keeps.
pub const MAX_SAMPLES: usize = 600;

/// Samples at a regular interval. When [`MAX_SAMPLES`] are held, every second
/// one is dropped and the interval doubles: a run of any length fits, and
/// because counters in a [`Sample`] are totals, nothing is lost but resolution.
///
/// The owner asks [`due`](Self::due) with its clock and, when told so, fills a
/// sample and gives it to [`push`](Self::push).
#[derive(Clone, Debug)]
pub struct Series {
    samples: Vec<Sample>,
    interval_ns: u64,
    next_ns: u64,
}

impl Series {
    /// A series that starts with one sample every `interval_ns` (at least 1).
    pub fn new(interval_ns: u64) -> Self {
        Self {
            samples: Vec::with_capacity(MAX_SAMPLES),
            interval_ns: interval_ns.max(1),
            next_ns: 0,
        }
    }

    /// Whether a sample taken now would be kept.
    pub fn due(&self, now_ns: u64) -> bool {
        now_ns >= self.next_ns
    }

    /// Keeps the sample if it is due. Returns whether it was kept.
    pub fn push(&mut self, sample: Sample) -> bool {
        if !self.due(sample.time_ns) {
            return false;
        }
        if self.samples.len() >= MAX_SAMPLES {
            self.halve();
        }
        self.next_ns = sample.time_ns.saturating_add(self.interval_ns);
        self.samples.push(sample);
        true
    }

    /// The interval in force.
    pub fn interval_ns(&self) -> u64 {
        self.interval_ns
    }

    /// The samples, closed by `last`, the state at the end of the run, which is
    /// kept whether or not it is due.
    pub fn finish(mut self, last: Sample) -> Vec<Sample> {
        if self
            .samples
            .last()
            .is_some_and(|kept| kept.time_ns >= last.time_ns)
        {
            self.samples.pop();
        }
        if self.samples.len() >= MAX_SAMPLES {
            self.halve();
        }
        self.samples.push(last);
        self.samples
    }

    fn halve(&mut self) {
        let mut keep = false;
        self.samples.retain(|_| {
            keep = !keep;
            keep
        });
        self.interval_ns = self.interval_ns.saturating_mul(2);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sample(time_ns: u64) -> Sample {
        Sample {
            time_ns,
            packets_in: time_ns * 3,
            ..Sample::default()
        }
    }

    fn run(interval_ns: u64, times_ns: impl Iterator<Item = u64>) -> Series {
        let mut series = Series::new(interval_ns);
        times_ns.for_each(|time| {
            series.push(sample(time));
        });
        series
    }

    #[test]
    fn a_short_run_keeps_every_sample() {
        let samples = run(10, (0..100).map(|step| step * 10)).finish(sample(995));
        assert_eq!(samples.len(), 101);
        assert_eq!(samples.last(), Some(&sample(995)));
    }

    #[test]
    fn samples_between_intervals_are_refused() {
        let mut series = Series::new(10);
        assert!(series.push(sample(3)));
        assert!(!series.due(12) && !series.push(sample(12)));
        assert!(series.push(sample(13)));
    }

    #[test]
    fn a_full_series_halves_its_resolution() {
        let series = run(10, (0..=600).map(|step| step * 10));
        assert_eq!(series.interval_ns(), 20);
        let times: Vec<_> = series
            .finish(sample(6001))
            .iter()
            .map(|s| s.time_ns)
            .collect();
        assert_eq!(times.len(), 302);
        assert_eq!(&times[..3], [0, 20, 40]);
        assert_eq!(&times[299..], [5980, 6000, 6001]);
    }

    #[test]
    fn the_last_sample_replaces_one_of_the_same_time() {
        let mut last = sample(20);
        last.drops = 9;
        let samples = run(10, [0, 10, 20].into_iter()).finish(last);
        assert_eq!(samples.len(), 3);
        assert_eq!(samples[2].drops, 9);
    }

    proptest! {
        #[test]
        fn bounded_ascending_and_from_start_to_end(
            steps in prop::collection::vec(0u64..50, 1..5000),
            interval_ns in 0u64..20,
        ) {
            let times: Vec<u64> = steps.iter().scan(0, |now, step| { *now += step; Some(*now) }).collect();
            let end = times[times.len() - 1];
            let samples = run(interval_ns, times.iter().copied()).finish(sample(end));
            prop_assert!(samples.len() <= MAX_SAMPLES);
            prop_assert!(samples.windows(2).all(|pair| pair[0].time_ns < pair[1].time_ns));
            prop_assert!(samples.len() == 1 || samples[0].time_ns == times[0]);
            prop_assert_eq!(samples[samples.len() - 1].time_ns, end);
        }
    }
}
