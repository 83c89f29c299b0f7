//! When packets come: the arrival process as a clock that ticks once a packet.

use crate::config::Arrivals;
use crate::random::{Random, RandomSource};

const NS_PER_S: f64 = 1e9;

/// Yields the arrival time of one packet after the other, never going back.
#[derive(Debug, Clone)]
pub struct ArrivalClock {
    start_ns: u64,
    random: Random,
    process: Process,
}

#[derive(Debug, Clone)]
enum Process {
    Constant { gap_ns: f64, count: u64 },
    Poisson { mean_gap_ns: f64, elapsed_ns: f64 },
    OnOff(OnOff),
}

impl ArrivalClock {
    /// A clock for these (validated) arrivals that starts at `start_ns`.
    pub fn new(arrivals: &Arrivals, start_ns: u64, random: Random) -> Self {
        let process = match *arrivals {
            Arrivals::Constant { rate_pps } => Process::Constant {
                gap_ns: NS_PER_S / rate_pps,
                count: 0,
            },
            Arrivals::Poisson { rate_pps } => Process::Poisson {
                mean_gap_ns: NS_PER_S / rate_pps,
                elapsed_ns: 0.0,
            },
            Arrivals::OnOff {
                rate_pps,
                on_ns,
                off_ns,
            } => Process::OnOff(OnOff::new(rate_pps, on_ns, off_ns)),
        };
        Self {
            start_ns,
            random,
            process,
        }
    }

    /// The time of the next packet, in nanoseconds.
    pub fn tick(&mut self) -> u64 {
        let elapsed_ns = match &mut self.process {
            Process::Constant { gap_ns, count } => {
                // A product instead of a sum, so that no rounding adds up.
                let elapsed_ns = *gap_ns * *count as f64;
                *count += 1;
                elapsed_ns
            }
            Process::Poisson {
                mean_gap_ns,
                elapsed_ns,
            } => {
                *elapsed_ns += self.random.exponential(*mean_gap_ns);
                *elapsed_ns
            }
            Process::OnOff(bursts) => bursts.tick(&mut self.random),
        };
        self.start_ns.saturating_add(elapsed_ns as u64)
    }
}

/// Counts the time in bursts and the time in silences apart.
#[derive(Debug, Clone)]
struct OnOff {
    gap_ns: f64,
    on_ns: f64,
    off_ns: f64,
    in_bursts_ns: f64,
    burst_end_ns: f64,
    in_silences_ns: f64,
}

impl OnOff {
    /// Bursts shorter than a gap can follow each other without a packet; more
    /// than this many in a row are not waited for.
    const EMPTY_BURSTS: usize = 64;

    fn new(rate_pps: f64, on_ns: f64, off_ns: f64) -> Self {
        let peak_pps = rate_pps * (on_ns + off_ns) / on_ns;
        Self {
            gap_ns: NS_PER_S / peak_pps,
            on_ns,
            off_ns,
            in_bursts_ns: 0.0,
            burst_end_ns: 0.0,
            in_silences_ns: 0.0,
        }
    }

    fn tick(&mut self, random: &mut Random) -> f64 {
        self.in_bursts_ns += self.gap_ns;
        for _ in 0..Self::EMPTY_BURSTS {
            if self.in_bursts_ns < self.burst_end_ns {
                break;
            }
            self.in_silences_ns += random.exponential(self.off_ns);
            self.burst_end_ns += random.exponential(self.on_ns);
        }
        self.in_bursts_ns + self.in_silences_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE_PPS: f64 = 250_000.0;
    const BURSTS: Arrivals = Arrivals::OnOff {
        rate_pps: RATE_PPS,
        on_ns: 1e5,
        off_ns: 3e5,
    };

    fn times(arrivals: &Arrivals, count: usize) -> Vec<u64> {
        let mut clock = ArrivalClock::new(arrivals, 1_000, Random::stream(31, 0));
        (0..count).map(|_| clock.tick()).collect()
    }

    fn rate_pps(times: &[u64]) -> f64 {
        (times.len() - 1) as f64 * 1e9 / (times[times.len() - 1] - times[0]) as f64
    }

    fn gaps(times: &[u64]) -> Vec<f64> {
        times
            .windows(2)
            .map(|pair| (pair[1] - pair[0]) as f64)
            .collect()
    }

    /// Standard deviation of the gaps over their mean.
    fn variation(times: &[u64]) -> f64 {
        let gaps = gaps(times);
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let square = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        square.sqrt() / mean
    }

    #[test]
    fn times_never_go_back_and_start_at_the_start() {
        let constant = Arrivals::Constant { rate_pps: 3.3e9 };
        for arrivals in [
            &constant,
            &Arrivals::Poisson { rate_pps: RATE_PPS },
            &BURSTS,
        ] {
            let times = times(arrivals, 10_000);
            assert!(times.is_sorted() && times[0] >= 1_000);
        }
    }

    #[test]
    fn constant_arrivals_do_not_drift() {
        let times = times(&Arrivals::Constant { rate_pps: 3.0 }, 3_000_001);
        assert_eq!(times[0], 1_000);
        assert_eq!(times[3_000_000], 1_000 + 1_000_000 * 1_000_000_000);
    }

    #[test]
    fn every_process_has_its_mean_rate() {
        let constant = Arrivals::Constant { rate_pps: RATE_PPS };
        for (arrivals, tolerance) in [
            (constant, 1e-6),
            (Arrivals::Poisson { rate_pps: RATE_PPS }, 0.01),
            (BURSTS, 0.05),
        ] {
            let found = rate_pps(&times(&arrivals, 400_000));
            assert!(
                (found / RATE_PPS - 1.0).abs() < tolerance,
                "{arrivals:?}: {found}"
            );
        }
    }

    #[test]
    fn processes_differ_in_burstiness() {
        let constant = variation(&times(&Arrivals::Constant { rate_pps: RATE_PPS }, 100_000));
        let poisson = variation(&times(&Arrivals::Poisson { rate_pps: RATE_PPS }, 100_000));
        let bursts = variation(&times(&BURSTS, 100_000));
        assert!(constant < 0.01 && (0.97..1.03).contains(&poisson) && bursts > 3.0);
    }

    #[test]
    fn bursts_have_their_peak_rate() {
        let gaps = gaps(&times(&BURSTS, 100_000));
        let at_peak = gaps
            .iter()
            .filter(|gap| (**gap - 1e9 / (4.0 * RATE_PPS)).abs() < 2.0);
        assert!(at_peak.count() > 98_000);
    }
}
