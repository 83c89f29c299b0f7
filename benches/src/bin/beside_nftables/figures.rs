//! What is measured of a system.

use super::Wanted;
use super::bed::{self, TRAFFIC_CORE};
use super::probe::{percentile, round_trips};
use super::sender::Sender;
use super::systems::System;
use std::process::Stdio;
use std::time::{Duration, Instant};
use twinpath_netns::Network;

/// Frames by their lengths with the frame check sequence: the shortest that there is, and the longest
/// that Ethernet carries without tags, with an IP packet of 1500 bytes.
pub const SHORT: usize = 64;
pub const LONG: usize = 1518;

/// Packets a second beside the probes.
pub const MODERATE: u64 = 50_000;

/// Figures of a system, of one round or in the middle of several.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Figures {
    /// Packets of 64 bytes a second when more are offered.
    pub short_pps: f64,
    /// The same of 1500 bytes.
    pub long_pps: f64,
    /// What was offered, at least, when short packets were counted.
    pub offered_pps: f64,
    /// Times there and back in microseconds.
    pub p50_us: f64,
    pub p99_us: f64,
    /// Bits a second of a TCP connection over IPv4 and IPv6.
    pub tcp4_bps: f64,
    pub tcp6_bps: f64,
}

/// A figure's name and how to read it, for medians and tables.
type Column = (fn(&Figures) -> f64, fn(&mut Figures, f64));

const COLUMNS: [Column; 7] = [
    (|f| f.short_pps, |f, v| f.short_pps = v),
    (|f| f.long_pps, |f, v| f.long_pps = v),
    (|f| f.offered_pps, |f, v| f.offered_pps = v),
    (|f| f.p50_us, |f, v| f.p50_us = v),
    (|f| f.p99_us, |f, v| f.p99_us = v),
    (|f| f.tcp4_bps, |f, v| f.tcp4_bps = v),
    (|f| f.tcp6_bps, |f, v| f.tcp6_bps = v),
];

impl Figures {
    /// Measures a system once, from its start to its end.
    pub fn measure(system: &System, wanted: &Wanted) -> Result<Self, String> {
        let network = bed::make();
        let _running = system.start(&network, &wanted.program)?;
        // Flows begin, and are cached.
        flood(&network, SHORT, None, Duration::from_millis(500));
        let short = flood(&network, SHORT, None, wanted.time);
        let long = flood(&network, LONG, None, wanted.time);
        let beside = Sender::start(&network, SHORT, Some(MODERATE));
        let times = round_trips(&network, wanted.time);
        beside.stop();
        let microseconds = |share| {
            let time = percentile(&times, share);
            time.map_or(f64::NAN, |time| time.as_secs_f64() * 1e6)
        };
        Ok(Self {
            short_pps: short.arrived_pps,
            long_pps: long.arrived_pps,
            offered_pps: short.sent_pps,
            p50_us: microseconds(0.5),
            p99_us: microseconds(0.99),
            tcp4_bps: tcp(&network, "10.2.0.2", wanted.time)?,
            tcp6_bps: tcp(&network, "fd02::2", wanted.time)?,
        })
    }

    /// Each figure's median over several rounds: of an even number the mean of the two in the middle.
    pub fn median(rounds: &[Self]) -> Self {
        let mut found = Self::default();
        for (read, write) in COLUMNS {
            let mut values: Vec<f64> = rounds.iter().map(read).collect();
            values.sort_by(f64::total_cmp);
            let middle = |place: usize| values.get(place).copied();
            let (lower, upper) = (
                middle(values.len().saturating_sub(1) / 2),
                middle(values.len() / 2),
            );
            if let Some((lower, upper)) = lower.zip(upper) {
                write(&mut found, (lower + upper) / 2.0);
            }
        }
        found
    }

    /// On one line.
    pub fn in_words(&self) -> String {
        format!(
            "64 B {:.2} Mpps of {:.2}, 1500 B {:.2} Mpps, p50 {:.0} us, p99 {:.0} us, TCP {:.1} and {:.1} Gbit/s",
            self.short_pps / 1e6,
            self.offered_pps / 1e6,
            self.long_pps / 1e6,
            self.p50_us,
            self.p99_us,
            self.tcp4_bps / 1e9,
            self.tcp6_bps / 1e9,
        )
    }
}

/// What came of a flood, in packets a second.
struct Flood {
    sent_pps: f64,
    arrived_pps: f64,
}

/// Sends for a time, and counts what arrives.
fn flood(network: &Network, frame_bytes: usize, rate: Option<u64>, time: Duration) -> Flood {
    let sender = Sender::start(network, frame_bytes, rate);
    // The sender makes its frames first.
    std::thread::sleep(Duration::from_millis(100));
    let (first, began) = (bed::received(network), Instant::now());
    std::thread::sleep(time);
    let (last, elapsed) = (bed::received(network), began.elapsed().as_secs_f64());
    let sent = sender.stop();
    // What is still inside comes out.
    std::thread::sleep(Duration::from_millis(50));
    Flood {
        sent_pps: sent as f64 / (elapsed + 0.1),
        arrived_pps: (last - first) as f64 / elapsed,
    }
}

/// Bits a second of a TCP connection.
fn tcp(network: &Network, address: &str, time: Duration) -> Result<f64, String> {
    let core = TRAFFIC_CORE.to_string();
    let mut server = network.command("receiver", "taskset");
    server.args(["-c", &core, "iperf3", "-s", "-1"]);
    server
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let mut server = server.spawn().map_err(|error| error.to_string())?;
    let seconds = time.as_secs().max(1).to_string();
    let client = [
        "-c", &core, "iperf3", "-c", address, "-t", &seconds, "-f", "m", "--json",
    ];
    let mut found = Err("iperf3 does not get through".to_owned());
    for _ in 0..50 {
        let output = network.run("sender", "taskset", &client);
        // It ends well although nobody listens yet.
        if let Some(rate) = received_rate(&String::from_utf8_lossy(&output.stdout)) {
            found = Ok(rate);
            break;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    let _ = server.kill();
    let _ = server.wait();
    found
}

/// The receiver's rate in what iperf3 tells.
fn received_rate(text: &str) -> Option<f64> {
    let (_, sum) = text.split_once("\"sum_received\"")?;
    let (_, rate) = sum.split_once("\"bits_per_second\":")?;
    let end = rate.find([',', '}', '\n'])?;
    rate[..end].trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_are_of_each_figure() {
        let round = |short_pps, p50_us| Figures {
            short_pps,
            p50_us,
            ..Figures::default()
        };
        let rounds = [round(3.0, 10.0), round(1.0, 30.0), round(2.0, 20.0)];
        assert_eq!(Figures::median(&rounds), round(2.0, 20.0));
    }

    #[test]
    fn the_receivers_rate_is_read() {
        let text = "\"sum_sent\": {\"bits_per_second\": 1.0},\n \"sum_received\":\t{\n\"bytes\":5,\n\"bits_per_second\":\t9.5e9,\n";
        assert_eq!(received_rate(text), Some(9.5e9));
        assert_eq!(received_rate("nothing"), None);
    }
}
