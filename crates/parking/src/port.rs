//! The port whose queue payloads are parked in, in time: it sends what is at the head, at its rate,
//! and what must go round is at the tail when it has been sent.

use crate::buffer::{Dequeued, Load, PayloadBuffer};
use std::time::Duration;
use twinpath_core::Instant;

/// What an operator chooses of the port.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct PortConfig {
    /// Its rate, in bits a second.
    pub rate_bps: u64,
    /// How often the multicast controller reads the queue.
    pub reading_interval: Duration,
    /// Whether a packet whose payload finds no room is dropped; if not, it goes to the slow path whole.
    pub drops_overflow: bool,
}

/// Drives a buffer.
#[derive(Debug)]
pub(crate) struct Port {
    config: PortConfig,
    /// When the port can send what is at the head, in picoseconds.
    free_at_ps: u128,
    /// Nothing before this happens any more.
    now: Instant,
    read_at: Instant,
    /// Passes in a row in which nothing left.
    idle_passes: usize,
}

const PS_PER_NS: u128 = 1000;

impl Port {
    pub(crate) fn new(config: PortConfig) -> Self {
        Self {
            config,
            free_at_ps: 0,
            now: Instant::ZERO,
            read_at: Instant::ZERO,
            idle_passes: 0,
        }
    }

    pub(crate) fn config(&self) -> &PortConfig {
        &self.config
    }

    /// Something may join the queue now. A port that has nothing to send can send it at once.
    pub(crate) fn begins<P: Load, H>(&mut self, buffer: &mut PayloadBuffer<P, H>, now: Instant) {
        self.now = self.now.max(now);
        self.idle_passes = 0;
        if buffer.head_bytes().is_none() {
            self.free_at_ps = self.free_at_ps.max(picoseconds(self.now));
        }
        self.read(buffer, self.now);
    }

    /// Goes on to the next thing that leaves or ends, or to `until`.
    pub(crate) fn pass<P: Load, H>(
        &mut self,
        buffer: &mut PayloadBuffer<P, H>,
        until: Instant,
    ) -> Option<(Instant, Dequeued<P, H>)> {
        // An answer may have come since.
        self.idle_passes = 0;
        while let Some(bytes) = buffer.head_bytes()
            && self.free_at_ps <= picoseconds(until)
        {
            if self.idle_passes > buffer.queue_packets() {
                self.skip_rounds(buffer, until);
                continue;
            }
            let at = instant(self.free_at_ps);
            self.now = self.now.max(at);
            self.read(buffer, at);
            self.free_at_ps += self.sending_ps(bytes.into());
            match buffer.dequeue(at)? {
                Dequeued::Copy => self.idle_passes = 0,
                Dequeued::Again(parked_payload) => {
                    self.idle_passes = match parked_payload.is_joined() {
                        // It leaves when it has gone round.
                        true => 0,
                        false => self.idle_passes + 1,
                    };
                    buffer.recirculated(parked_payload);
                }
                leaving => return Some((at, leaving)),
            }
        }
        None
    }

    /// When all have gone round and none has left, all will go round until an answer comes or a
    /// header timeout ends: these rounds need not be made.
    fn skip_rounds<P: Load, H>(&mut self, buffer: &mut PayloadBuffer<P, H>, until: Instant) {
        self.idle_passes = 0;
        let expiry = buffer.next_expiry().unwrap_or(until);
        let free_ps = picoseconds(expiry.min(until)).saturating_sub(self.free_at_ps);
        let round_ps = self.sending_ps(buffer.queue_bytes()).max(1);
        let rounds = free_ps / round_ps;
        self.free_at_ps += rounds * round_ps;
        buffer.went_round(u64::try_from(rounds).unwrap_or(u64::MAX));
    }

    /// The controller hears of the queue now and then.
    fn read<P: Load, H>(&mut self, buffer: &mut PayloadBuffer<P, H>, at: Instant) {
        if at.since(self.read_at) >= self.config.reading_interval {
            self.read_at = at;
            buffer.learn(buffer.reading(at));
        }
    }

    fn sending_ps(&self, bytes: u64) -> u128 {
        u128::from(bytes) * 8_000_000_000_000 / u128::from(self.config.rate_bps.max(1))
    }
}

fn picoseconds(at: Instant) -> u128 {
    u128::from(at.0) * PS_PER_NS
}

fn instant(ps: u128) -> Instant {
    Instant(u64::try_from(ps / PS_PER_NS).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buffer::{Answer, End};
    use crate::config::Config;

    /// A byte takes a nanosecond, and payloads wait for a hundred microseconds.
    fn port_and_buffer(slow_path_chooses_port: bool) -> (Port, PayloadBuffer<u32, &'static str>) {
        let port = Port::new(PortConfig {
            rate_bps: 8_000_000_000,
            reading_interval: Duration::from_micros(1),
            drops_overflow: false,
        });
        let config = Config {
            slow_path_chooses_port,
            header_timeout: Duration::from_micros(100),
            ..Config::default()
        };
        (
            port,
            PayloadBuffer::new(config).expect("a sound configuration"),
        )
    }

    /// Rounds are skipped only when a whole one has changed nothing: a packet that is whole, and
    /// takes its last pass, leaves in the next round, not when another's header timeout ends.
    #[test]
    fn the_last_pass_is_not_skipped() {
        let (mut port, mut buffer) = port_and_buffer(true);
        port.begins(&mut buffer, Instant::ZERO);
        for _ in 0..3 {
            buffer.park(1000, 0, Instant::ZERO).unwrap();
        }
        let ticket = buffer.park(1000, 0, Instant::ZERO).unwrap();
        buffer.answered(ticket, Answer::Header("whole"), Instant::ZERO);
        let (at, first) = port.pass(&mut buffer, Instant(1_000_000)).unwrap();
        assert!(matches!(first, Dequeued::Depart { .. }), "{first:?}");
        assert_eq!(at, Instant(7000), "the eighth of 1000 ns each");
    }

    /// Nothing leaves while all headers are between two visits to the slow path; then all that do not
    /// come back are given up when their header timeout ends.
    #[test]
    fn rounds_are_skipped_until_a_header_times_out() {
        let (mut port, mut buffer) = port_and_buffer(false);
        port.begins(&mut buffer, Instant::ZERO);
        let ticket = buffer.park(1000, 0, Instant::ZERO).unwrap();
        buffer.came_back(ticket);
        assert!(port.pass(&mut buffer, Instant(500_000)).is_none());
        buffer.goes_again(ticket, Instant(500_000));
        let (at, end) = port.pass(&mut buffer, Instant(1_000_000)).unwrap();
        let Dequeued::Ended { end, .. } = end else {
            panic!("{end:?}");
        };
        assert_eq!(end, End::Expired);
        assert!((600_000..602_000).contains(&at.0), "{at:?}");
        assert!(
            buffer.counters().recirculations > 500,
            "skipped rounds count"
        );
    }
}
