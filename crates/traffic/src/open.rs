//! Flows as on a link of the Internet: each begins at random, with a size and a rate of its own.
//!
//! A [`Generator`](crate::Generator) keeps a number of flows alive and draws whose packet comes next.
//! Here nobody is drawn: a flow's packets come at random at the flow's own rate, so its life is as long
//! as its size and rate make it, and how many flows live at a time follows. That is the traffic in which
//! a rule cache must tell flows that are worth a rule from the many that are over before it is made.

use crate::cdf::Cdf;
use crate::random::{Random, RandomSource, streams};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Flows that may live at the same time.
pub const MAX_LIVE: usize = 1 << 24;

/// What the flows are like.
#[derive(Debug, Clone, PartialEq)]
pub struct OpenConfig {
    /// Packets a second of all flows together, at the start.
    pub packets_per_s: f64,
    /// Packets of a flow.
    pub sizes: Cdf,
    /// The median of the flows' rates, in packets a second.
    pub flow_pps: f64,
    /// The deviation of the rates' logarithms; 0 for flows that are all as fast.
    pub spread: f64,
    /// How long before the start flows may have begun, in seconds. Of those only what is left after the
    /// start is sent.
    pub history_s: f64,
    /// Silences between a flow's packets, besides what its rate makes.
    pub pauses: Pauses,
}

/// Silences within flows.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Pauses {
    /// The share of a flow's packets that a pause follows.
    pub share: f64,
    /// The mean length of a pause, in seconds; lengths are exponentially distributed.
    pub mean_s: f64,
}

impl Pauses {
    /// What is left of a flow's rate, in packets a second.
    fn slowed(&self, rate: f64) -> f64 {
        1.0 / (1.0 / rate + self.share * self.mean_s)
    }
}

/// Flows drawn to estimate a mean.
const DRAWN: u32 = 200_000;

impl OpenConfig {
    /// The packets that a flow sends within the time of [`Self::history_s`] in the mean: what is longer than
    /// that has not begun early enough to be there at the start. Without a history, all of its packets.
    fn packets_each(&self, seed: u64) -> f64 {
        if self.history_s <= 0.0 {
            return self.sizes.mean();
        }
        let mut random = Random::stream(seed, streams::OPEN_MEAN);
        let mut sent = || {
            let size = self.sizes.sample(&mut random) as f64;
            let rate = random.log_normal(self.flow_pps, self.spread);
            size.min(self.pauses.slowed(rate) * self.history_s)
        };
        (0..DRAWN).map(|_| sent()).sum::<f64>() / f64::from(DRAWN)
    }
}

/// A packet of one of the flows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenPacket {
    /// When it comes, in nanoseconds since the start.
    pub at_ns: u64,
    /// The flow's number, from 0, in the order of their beginnings.
    pub flow: u64,
}

/// A flow's next packet, in the order of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Next {
    at_ns: u64,
    flow: u64,
    left: u64,
    /// Mean time between its packets, in picoseconds.
    gap_ps: u64,
}

/// Makes one packet after the other, for ever.
#[derive(Debug, Clone)]
pub struct OpenFlows {
    config: OpenConfig,
    random: Random,
    flows_gap_ns: f64,
    waiting: BinaryHeap<Reverse<Next>>,
    next_flow_ns: f64,
    flows: u64,
    refused: u64,
}

impl OpenFlows {
    /// The flows of this seed, those included that began before the start.
    pub fn new(config: OpenConfig, seed: u64) -> Self {
        let flows_per_s = config.packets_per_s / config.packets_each(seed).max(1.0);
        let mut flows = Self {
            random: Random::stream(seed, streams::OPEN_FLOWS),
            flows_gap_ns: 1e9 / flows_per_s.max(1e-6),
            waiting: BinaryHeap::new(),
            next_flow_ns: -config.history_s * 1e9,
            flows: 0,
            refused: 0,
            config,
        };
        while flows.next_flow_ns < 0.0 {
            flows.begin();
        }
        flows
    }

    /// Flows that have begun and have something to send.
    pub fn live(&self) -> usize {
        self.waiting.len()
    }

    /// Flows that did not begin because [`MAX_LIVE`] others lived.
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// The next packet.
    pub fn next_packet(&mut self) -> OpenPacket {
        loop {
            let first = self.waiting.peek().map(|Reverse(next)| next.at_ns);
            if first.is_none_or(|at_ns| self.next_flow_ns <= at_ns as f64) {
                self.begin();
                continue;
            }
            if let Some(Reverse(next)) = self.waiting.pop() {
                self.go_on(next);
                let Next { at_ns, flow, .. } = next;
                return OpenPacket { at_ns, flow };
            }
        }
    }

    fn go_on(&mut self, sent: Next) {
        if sent.left > 1 {
            let gap_ns = self.random.exponential(sent.gap_ps as f64 / 1e3) + self.pause_ns();
            self.waiting.push(Reverse(Next {
                at_ns: sent.at_ns + (gap_ns as u64).max(1),
                left: sent.left - 1,
                ..sent
            }));
        }
    }

    /// How long a flow is silent before its next packet. Without pauses no random number is drawn.
    fn pause_ns(&mut self) -> f64 {
        let pauses = self.config.pauses;
        match pauses.share > 0.0 && self.random.unit() < pauses.share {
            true => self.random.exponential(pauses.mean_s * 1e9),
            false => 0.0,
        }
    }

    fn begin(&mut self) {
        let begin_ns = self.next_flow_ns;
        self.next_flow_ns += self.random.exponential(self.flows_gap_ns);
        let size = self.config.sizes.sample(&mut self.random);
        let rate = self
            .random
            .log_normal(self.config.flow_pps, self.config.spread);
        let gone = (-begin_ns).max(0.0) / 1e9 * self.config.pauses.slowed(rate);
        if gone >= size as f64 {
            return;
        }
        if self.waiting.len() >= MAX_LIVE {
            self.refused += 1;
            return;
        }
        let mut next = Next {
            at_ns: begin_ns.max(0.0) as u64,
            flow: self.flows,
            left: size - gone as u64,
            gap_ps: (1e12 / rate) as u64,
        };
        if begin_ns < 0.0 {
            next.at_ns = self.random.exponential(next.gap_ps as f64 / 1e3) as u64;
        }
        self.flows += 1;
        self.waiting.push(Reverse(next));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Between, SizeUnit};
    use std::collections::BTreeMap;

    fn config(packets_per_s: f64) -> OpenConfig {
        let sizes =
            Cdf::parse("1 0.5\n10 0.9\n1000 1\n", SizeUnit::Packets, false).expect("points");
        OpenConfig {
            packets_per_s,
            sizes: sizes.with(Between::Logarithms),
            flow_pps: 500.0,
            spread: 1.0,
            history_s: 30.0,
            pauses: Pauses::default(),
        }
    }

    fn packets(seed: u64, count: usize) -> Vec<OpenPacket> {
        let mut flows = OpenFlows::new(config(100_000.0), seed);
        (0..count).map(|_| flows.next_packet()).collect()
    }

    #[test]
    fn a_seed_gives_the_same_packets_in_order_of_time() {
        let first = packets(3, 20_000);
        assert_eq!(first, packets(3, 20_000));
        assert_ne!(first, packets(4, 20_000));
        assert!(first.is_sorted_by_key(|packet| packet.at_ns));
    }

    /// Size and rate of flows bring the rate that was asked for, also right after the start.
    #[test]
    fn the_rate_is_the_one_asked_for() {
        let packets = packets(5, 400_000);
        for part in packets.chunks(100_000) {
            let ns = part[part.len() - 1].at_ns - part[0].at_ns;
            let found = part.len() as f64 * 1e9 / ns as f64;
            assert!((found / 100_000.0 - 1.0).abs() < 0.1, "{found}");
        }
    }

    #[test]
    fn flows_have_their_sizes() {
        let mut flows = OpenFlows::new(
            OpenConfig {
                history_s: 0.0,
                ..config(100_000.0)
            },
            6,
        );
        let mut sizes: BTreeMap<u64, u64> = BTreeMap::new();
        for _ in 0..1_000_000 {
            *sizes.entry(flows.next_packet().flow).or_default() += 1;
        }
        // The early ones are over.
        let early: Vec<u64> = sizes
            .into_iter()
            .filter(|(flow, _)| *flow < 5000)
            .map(|(_, size)| size)
            .collect();
        let share = |most: u64| {
            early.iter().filter(|size| **size <= most).count() as f64 / early.len() as f64
        };
        assert!(
            (share(1) - 0.5).abs() < 0.03 && (share(10) - 0.9).abs() < 0.02,
            "{} {}",
            share(1),
            share(10)
        );
        assert!(early.iter().all(|size| *size <= 1000));
    }

    /// Pauses make flows slower, not the link: more of them live.
    #[test]
    fn flows_pause_and_the_rate_is_still_the_one_asked_for() {
        let pauses = Pauses {
            share: 0.05,
            mean_s: 0.2,
        };
        let gaps = |pauses| {
            let mut flows = OpenFlows::new(
                OpenConfig {
                    pauses,
                    ..config(100_000.0)
                },
                7,
            );
            let mut last: BTreeMap<u64, u64> = BTreeMap::new();
            let (mut long, mut count, mut end_ns) = (0, 0, 0);
            for _ in 0..300_000 {
                let packet = flows.next_packet();
                end_ns = packet.at_ns;
                if let Some(before) = last.insert(packet.flow, packet.at_ns) {
                    count += 1;
                    long += u32::from(packet.at_ns - before > 200_000_000);
                }
            }
            let rate = 300_000.0 * 1e9 / end_ns as f64;
            (f64::from(long) / f64::from(count), rate)
        };
        let (without, _) = gaps(Pauses::default());
        let (with, rate) = gaps(pauses);
        // Of pauses of 200 ms in the mean, a share of 1/e is longer.
        let expected = 0.05 * (-1.0f64).exp();
        assert!(
            (with - without) > 0.7 * expected && with < 1.5 * expected,
            "{without} {with}"
        );
        assert!((rate / 100_000.0 - 1.0).abs() < 0.1, "{rate}");
    }
}
