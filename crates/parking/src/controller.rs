//! The proportional controller of the multicast variant: how many copies go in front of a packet.
//!
//! A switch learns the length of a queue late. A [`Reading`] says how long the queue was and when;
//! the controller corrects it by what has happened since (TurboSwitch §III-B), or not.

use crate::config::{Correction, Multicast, Target};
use crate::latency::{Fit, Latencies};
use std::time::Duration;
use twinpath_core::Instant;

/// How long the queue was at some time.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// When.
    pub at: Instant,
    /// Bytes in the queue.
    pub bytes: u64,
    /// All bytes that had ever joined it.
    pub enqueued_bytes: u64,
}

/// Decides on copies.
#[derive(Debug)]
pub(crate) struct Controller {
    config: Multicast,
    most_bytes: u64,
    reading: Reading,
    latencies: Latencies,
    fit: Fit,
}

impl Controller {
    /// A controller that holds a queue at `most_bytes` at most.
    pub(crate) fn new(config: Multicast, most_bytes: u64) -> Self {
        let first_bytes = match config.target {
            Target::Fixed { bytes } => bytes,
            Target::Follow { first_bytes, .. } => first_bytes,
        };
        Self {
            config,
            most_bytes,
            reading: Reading::default(),
            latencies: Latencies::default(),
            fit: Fit::of(first_bytes, most_bytes),
        }
    }

    pub(crate) fn config(&self) -> &Multicast {
        &self.config
    }

    pub(crate) fn fit(&self) -> Fit {
        self.fit
    }

    /// A newer reading of the queue. Older ones are ignored.
    pub(crate) fn learn(&mut self, reading: Reading) {
        if reading.at >= self.reading.at {
            self.reading = reading;
        }
    }

    /// A header took this long, in time or not.
    pub(crate) fn header_took(&mut self, latency: Duration) {
        let Target::Follow {
            quantile,
            margin_bytes,
            ..
        } = self.config.target
        else {
            return;
        };
        self.latencies.record(latency);
        let needed_ns = self.latencies.quantile_ns(quantile).unwrap_or(0);
        let needed_bytes = self.sent_in(needed_ns).saturating_add(margin_bytes);
        self.fit = Fit::of(needed_bytes, self.most_bytes);
    }

    /// How many copies of a packet of `bytes` the queue is short of its target now, when
    /// `enqueued_bytes` have ever joined it.
    pub(crate) fn copies(&self, bytes: u32, enqueued_bytes: u64, now: Instant) -> u64 {
        let estimate = self.estimate(enqueued_bytes, now);
        let short = self.fit.target_bytes().saturating_sub(estimate);
        let wanted = self.config.gain * short as f64 / f64::from(bytes.max(1));
        wanted.ceil() as u64
    }

    fn estimate(&self, enqueued_bytes: u64, now: Instant) -> u64 {
        let Reading {
            at,
            bytes,
            enqueued_bytes: enqueued_then,
        } = self.reading;
        match self.config.correction {
            Correction::None => bytes,
            Correction::Exact => {
                let joined = enqueued_bytes.saturating_sub(enqueued_then);
                // Both times were rounded down: a nanosecond more may have passed.
                let sent = self.sent_in(now.since(at).as_nanos() as u64 + 1);
                (bytes + joined).saturating_sub(sent)
            }
        }
    }

    /// Bytes that the port sends in this time.
    fn sent_in(&self, ns: u64) -> u64 {
        let bits_ns = u128::from(ns) * u128::from(self.config.drain_bps);
        u64::try_from(bits_ns / 8_000_000_000).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Late;

    fn controller(target: Target, correction: Correction) -> Controller {
        let config = Multicast {
            target,
            gain: 1.0,
            correction,
            drain_bps: 100_000_000_000,
            most_copies: 1000,
            late: Late::Discard,
        };
        Controller::new(config, 800_000)
    }

    const FIXED: Target = Target::Fixed { bytes: 250_000 };

    #[test]
    fn copies_make_up_for_the_whole_distance() {
        let controller = controller(FIXED, Correction::Exact);
        assert_eq!(controller.copies(1000, 0, Instant::ZERO), 250);
        assert_eq!(controller.copies(64, 0, Instant::ZERO), 3907);
        assert_eq!(controller.copies(1000, 250_013, Instant::ZERO), 0);
    }

    #[test]
    fn an_old_reading_is_corrected_by_what_came_and_went() {
        let mut controller = controller(FIXED, Correction::Exact);
        controller.learn(Reading {
            at: Instant(1000),
            bytes: 240_000,
            enqueued_bytes: 9_000_000,
        });
        // 1 us later: 5 kB came, 12.5 kB went, so 232.5 kB are left and 17.5 kB missing.
        assert_eq!(controller.copies(1000, 9_005_000, Instant(2000)), 18);
        controller.config.correction = Correction::None;
        assert_eq!(controller.copies(1000, 9_005_000, Instant(2000)), 10);
    }

    #[test]
    fn readings_that_overtook_others_do_not_turn_time_back() {
        let mut controller = controller(FIXED, Correction::None);
        let reading = |at, bytes| Reading {
            at: Instant(at),
            bytes,
            enqueued_bytes: 0,
        };
        controller.learn(reading(2000, 240_000));
        controller.learn(reading(1000, 0));
        assert_eq!(controller.copies(1000, 0, Instant(3000)), 10);
    }

    #[test]
    fn the_target_follows_the_slow_path_until_the_buffer_ends() {
        let target = Target::Follow {
            quantile: 0.99,
            margin_bytes: 1000,
            first_bytes: 250_000,
        };
        let mut controller = controller(target, Correction::Exact);
        for _ in 0..100 {
            controller.header_took(Duration::from_micros(40));
        }
        let Fit::Fits { target_bytes } = controller.fit() else {
            panic!("500 kB fit into 800 kB");
        };
        assert!((501_000..565_000).contains(&target_bytes), "{target_bytes}");
        for _ in 0..100 {
            controller.header_took(Duration::from_micros(80));
        }
        assert!(matches!(
            controller.fit(),
            Fit::TooSmall { needed_bytes, target_bytes: 800_000 } if needed_bytes > 1_000_000
        ));
    }
}
