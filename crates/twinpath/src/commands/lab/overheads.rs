//! What caching costs on the slow path (SFCache §V-A, Fig. 7 and 8), measured on the code that runs here.
//!
//! A chain of three functions on one core, packets of 64 bytes. What is measured with something and
//! without it alternates in short pieces, so that the machine is the same for both, and of the pieces the
//! median counts. Throughput is packets handled one after the other. The 99th percentile is of single
//! packets, which come at a given rate: from when a packet is due to when it is handled.

use crate::error::CommandError;
use std::fmt::Write;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant as Clock, SystemTime};
use twinpath_control::service::Service;
use twinpath_core::wire::{Endpoint, PacketBuilder, dissect};
use twinpath_core::{Direction, Frame, Instant, Packet, Pools};
use twinpath_lab::ExperimentError;
use twinpath_node::wiring;
use twinpath_rulecache::{
    CacheMessage, Gone, ManagerConfig, Output, RuleFunction, SelectionConfig, Sides, SlowRules,
    SlowRulesConfig, Uses,
};

/// The three functions of the chain.
const SERVICE: &str = "[service]\nname = \"overheads\"\nchain = [\"acl\", \"napt\", \"monitor\"]\n\
    [acl]\ndefault = \"allow\"\nrules = [{ action = \"deny\", protocol = \"tcp\", to_port = 25 }]\n\
    [napt]\ninside = [\"10.0.0.0/8\"]\nexternal = [\"198.51.100.1\", \"198.51.100.2\", \"198.51.100.3\", \"198.51.100.4\"]\n\
    [monitor]\nby = \"source\"\n";
/// Flows of Fig. 7.
const FLOWS: u32 = 10_000;
/// Flows of Fig. 8, each of which asks once in a window.
const ASKING_FLOWS: u32 = 500;
/// Rates of requests (Fig. 8).
const REQUESTS_PER_S: [u32; 5] = [10_000, 20_000, 30_000, 40_000, 50_000];
/// Rates of packets, in percent of what the chain handles without caching.
const LOADS: [u32; 4] = [20, 40, 60, 80];
/// The one of Fig. 8.
const REQUESTS_LOAD: u32 = 80;
/// Packets of a piece, and pieces of each kind: so short that other programs disturb few of them.
const PIECE: u32 = 500;
const PIECES: u32 = 801;
/// Packets before anything counts: every flow is known then.
const WARM_UP: u32 = 4 * FLOWS;
/// Rules that there may be.
const RULES: usize = 1 << 16;

/// How much is measured.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scale {
    pub(super) piece: u32,
    pub(super) pieces: u32,
}

impl Scale {
    pub(super) const FULL: Self = Self {
        piece: PIECE,
        pieces: PIECES,
    };
}

/// Measures, and writes the table and what machine it was; nothing if it is to stop.
pub(super) fn write(table: &Path, scale: Scale, stop: &AtomicBool) -> Result<bool, CommandError> {
    let Some(text) = measured(scale, stop)? else {
        return Ok(false);
    };
    let machine = table.with_extension("machine.txt");
    for (path, text) in [(table, text), (machine.as_path(), machine_text())] {
        std::fs::write(path, text).map_err(|source| ExperimentError::File {
            path: path.into(),
            source,
        })?;
    }
    Ok(true)
}

const HEADER: &str = "what,throughput_change_percent,p99_change_percent,packet_ns_without,packet_ns_with,\
    p99_ns_without,p99_ns_with,requests_per_s\n";

fn measured(scale: Scale, stop: &AtomicBool) -> Result<Option<String>, CommandError> {
    let mut text = HEADER.to_owned();
    for load in LOADS {
        let pair = [
            Core::new(Caching::Off, FLOWS)?,
            Core::new(Caching::NeverHot, FLOWS)?,
        ];
        add_row(&mut text, &format!("recording-{load}"), pair, (load, scale));
        if stop.load(Ordering::Relaxed) {
            return Ok(None);
        }
    }
    for rate in REQUESTS_PER_S {
        let window_ns = 1_000_000_000 * u64::from(ASKING_FLOWS) / u64::from(rate);
        let window = Duration::from_nanos(window_ns);
        let pair = [
            Core::new(Caching::Silent(window), ASKING_FLOWS)?,
            Core::new(Caching::Asking(window), ASKING_FLOWS)?,
        ];
        add_row(
            &mut text,
            &format!("requests-{rate}"),
            pair,
            (REQUESTS_LOAD, scale),
        );
        if stop.load(Ordering::Relaxed) {
            return Ok(None);
        }
    }
    Ok(Some(text))
}

/// Measures a pair, without something and with it, and adds what came of it.
fn add_row(text: &mut String, what: &str, mut pair: [Core; 2], (load, scale): (u32, Scale)) {
    pair.iter_mut().for_each(|core| core.warm_up());
    let means = in_turns(&mut pair, scale, |core| core.packet_ns(scale.piece));
    let gap = Duration::from_nanos((means[0] * 100.0 / f64::from(load)) as u64);
    let tails = in_turns(&mut pair, scale, |core| core.tail_ns(scale.piece, gap));
    let throughput = 100.0 * (means[0] / means[1] - 1.0);
    let tail = 100.0 * (tails[1] / tails[0] - 1.0);
    // Writing to a string cannot fail.
    let _ = writeln!(
        text,
        "{what},{throughput:.2},{tail:.2},{:.1},{:.1},{:.0},{:.0},{:.0}",
        means[0],
        means[1],
        tails[0],
        tails[1],
        pair[1].requests_per_s()
    );
}

/// Measures both again and again, now the one first and now the other; the median of each.
fn in_turns(pair: &mut [Core; 2], scale: Scale, measure: impl Fn(&mut Core) -> f64) -> [f64; 2] {
    let mut found = [Vec::new(), Vec::new()];
    for piece in 0..scale.pieces as usize {
        for turn in 0..2 {
            let which = (piece + turn) % 2;
            found[which].push(measure(&mut pair[which]));
        }
    }
    found.map(|mut all| quantile(&mut all, 0.5))
}

fn quantile(all: &mut [f64], quantile: f64) -> f64 {
    all.sort_by(f64::total_cmp);
    let place = (all.len() as f64 * quantile) as usize;
    all.get(place.min(all.len().saturating_sub(1)))
        .copied()
        .unwrap_or_default()
}

/// What the chain does besides handling packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Caching {
    /// Nothing.
    Off,
    /// It records and counts, and no rule is ever hot.
    NeverHot,
    /// The same, with windows of this length.
    Silent(Duration),
    /// It asks for the rule of each flow in each window of this length, and never gets one.
    Asking(Duration),
}

impl Caching {
    fn config(self) -> SlowRulesConfig {
        let threshold = match self {
            Self::Asking(_) => 0,
            _ => u32::MAX,
        };
        let mut selection = SelectionConfig {
            threshold,
            ..SelectionConfig::for_rules(RULES)
        };
        if let Self::Silent(window) | Self::Asking(window) = self {
            selection.window = window;
        }
        let manager = ManagerConfig {
            exact: RULES,
            window: selection.window,
            ..ManagerConfig::default()
        };
        SlowRulesConfig {
            caching: self != Self::Off,
            selection,
            manager,
            ..SlowRulesConfig::default()
        }
    }
}

/// A core with the chain, and packets for it.
struct Core {
    slow: SlowRules,
    pools: Pools,
    outputs: Vec<Output>,
    /// A packet of each flow.
    packets: Vec<Vec<u8>>,
    next: usize,
    /// How long it has run, and since when it runs again. While the other core is measured its time
    /// stands still.
    ran: Duration,
    since: Clock,
    ticked: Instant,
    requests: u64,
    /// When requests began to count.
    counted_from: Duration,
}

impl Core {
    fn new(caching: Caching, flows: u32) -> Result<Self, CommandError> {
        let service = Service::parse(SERVICE, Path::new("overheads.toml"))?;
        let named = wiring::rule_functions(&service, &service.chain)?;
        let functions: Vec<Box<dyn RuleFunction>> =
            named.into_iter().map(|named| named.function).collect();
        Ok(Self {
            slow: SlowRules::new(caching.config(), Sides::ONE_WAY, functions),
            pools: Pools::new(64, 1),
            outputs: Vec::new(),
            packets: (0..flows).filter_map(packet).collect(),
            next: 0,
            ran: Duration::ZERO,
            since: Clock::now(),
            ticked: Instant::ZERO,
            requests: 0,
            counted_from: Duration::ZERO,
        })
    }

    /// Every flow is known then.
    fn warm_up(&mut self) {
        self.packet_ns(WARM_UP);
        self.requests = 0;
        self.counted_from = self.ran;
    }

    /// Runs for a while.
    fn run<T>(&mut self, act: impl FnOnce(&mut Self) -> T) -> T {
        self.since = Clock::now();
        let found = act(self);
        self.ran += self.since.elapsed();
        found
    }

    /// Mean time of so many packets, one after the other, in ns.
    fn packet_ns(&mut self, packets: u32) -> f64 {
        let taken = self.run(|core| {
            let mut taken = Duration::ZERO;
            for _ in 0..packets {
                let frame = core.take();
                let begin = Clock::now();
                core.handle(frame);
                taken += begin.elapsed();
            }
            taken
        });
        taken.as_nanos() as f64 / f64::from(packets.max(1))
    }

    /// 99th percentile of the time from when a packet is due to when it is handled, in ns.
    fn tail_ns(&mut self, packets: u32, gap: Duration) -> f64 {
        let mut times = Vec::with_capacity(packets as usize);
        self.run(|core| {
            let begin = Clock::now();
            for number in 0..packets {
                let due = begin + gap * number;
                let frame = core.take();
                while Clock::now() < due {
                    std::hint::spin_loop();
                }
                core.handle(frame);
                times.push(due.elapsed().as_nanos() as f64);
            }
        });
        quantile(&mut times, 0.99)
    }

    fn requests_per_s(&self) -> f64 {
        let counted = self.ran.saturating_sub(self.counted_from);
        self.requests as f64 / counted.as_secs_f64().max(1e-9)
    }

    /// The next packet, in a buffer.
    fn take(&mut self) -> Option<Frame> {
        let packet = self.packets.get(self.next)?;
        self.next = (self.next + 1) % self.packets.len();
        let mut frame = self.pools.take_filled(packet)?;
        frame.set_timestamp(self.now());
        Some(frame)
    }

    fn now(&self) -> Instant {
        const START_NS: u64 = 1_000_000_000;
        let ran = self.ran + self.since.elapsed();
        Instant(START_NS + ran.as_nanos() as u64)
    }

    fn handle(&mut self, frame: Option<Frame>) {
        let Some(frame) = frame else { return };
        let now = frame.timestamp();
        let Ok(layout) = dissect(frame.bytes()) else {
            return self.pools.give(frame);
        };
        let packet = Packet {
            frame,
            layout,
            direction: Direction::Original,
            role: Default::default(),
            alias_row: 0,
        };
        self.slow.packet(packet, &mut self.pools, &mut self.outputs);
        if now.since(self.ticked) >= Duration::from_millis(1) {
            self.ticked = now;
            self.slow.tick(now, &mut self.pools, &mut self.outputs);
        }
        self.put_out(now);
    }

    fn put_out(&mut self, now: Instant) {
        while let Some(output) = self.outputs.pop() {
            match output {
                Output::Depart(packet, _) | Output::Drop(packet, _) => {
                    self.pools.give(packet.frame)
                }
                Output::Reply(frame) => self.pools.give(frame),
                Output::Send(CacheMessage::Add(name, _)) => {
                    self.requests += 1;
                    let gone = CacheMessage::Gone(name, Uses::default(), Gone::NoRoom);
                    self.slow
                        .message(&gone, now, &mut self.pools, &mut self.outputs);
                }
                // Nobody else is there.
                Output::Send(_) => {}
            }
        }
    }
}

/// A packet of 64 bytes, its checksum included.
fn packet(flow: u32) -> Option<Vec<u8>> {
    let [_, a, b, c] = flow.to_be_bytes();
    let from = Endpoint::v4([10, a, b, c], 1024);
    let to = Endpoint::v4([192, 0, 2, 10], 53);
    PacketBuilder::udp(from, to).payload(&[0; 18]).to_vec().ok()
}

/// What machine this is, and what day, in a line.
fn machine_text() -> String {
    let since_1970 = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
    let (year, month, day) = date(since_1970.as_secs() / 86_400);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let told = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = told
        .lines()
        .find_map(|line| line.strip_prefix("model name"))
        .map_or("an unknown processor", |rest| {
            rest.trim_start_matches([' ', '\t', ':'])
        });
    let is_guest = told
        .lines()
        .any(|line| line.starts_with("flags") && line.contains(" hypervisor"));
    let kind = if is_guest {
        "a virtual machine with"
    } else {
        "a machine with"
    };
    format!("{kind} {cores} cores of {model}, on {year}-{month:02}-{day:02}\n")
}

/// Year, month and day, so many days after 1970-01-01.
fn date(days: u64) -> (u64, u64, u64) {
    // Years begin in March here, so that a leap day is a year's last.
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let year = era * 400 + year + u64::from(month >= 10);
    (year, (month + 2) % 12 + 1, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_dates() {
        for (days, told) in [
            (0, (1970, 1, 1)),
            (11_016, (2000, 2, 29)),
            (20_058, (2024, 12, 1)),
            (20_512, (2026, 2, 28)),
        ] {
            assert_eq!(date(days), told);
        }
    }

    #[test]
    fn what_is_measured_is_what_is_said() {
        let scale = Scale {
            piece: 200,
            pieces: 2,
        };
        let text = measured(scale, &AtomicBool::new(false))
            .expect("a service")
            .expect("a table");
        let rows: Vec<&str> = text.lines().skip(1).collect();
        assert_eq!(rows.len(), LOADS.len() + REQUESTS_PER_S.len());
        for row in rows {
            let cells: Vec<&str> = row.split(',').collect();
            assert_eq!(cells.len(), HEADER.split(',').count(), "{row}");
            assert!(
                cells[1..].iter().all(|cell| cell.parse::<f64>().is_ok()),
                "{row}"
            );
        }
        let stopped = measured(scale, &AtomicBool::new(true)).expect("a service");
        assert_eq!(stopped, None);
    }

    /// Each flow asks once in a window, and never when it is not to.
    #[test]
    fn flows_ask_as_often_as_they_are_to() {
        let window = Duration::from_millis(20);
        for (caching, asks) in [
            (Caching::Silent(window), false),
            (Caching::Asking(window), true),
        ] {
            let mut core = Core::new(caching, 50).expect("a service");
            while core.ran < 6 * window {
                core.packet_ns(100);
            }
            assert_eq!(core.requests >= 50, asks, "{caching:?}: {}", core.requests);
            let windows = core.ran.as_nanos() / window.as_nanos() + 1;
            assert!(
                u128::from(core.requests) <= 50 * windows,
                "{}",
                core.requests
            );
        }
    }

    #[test]
    fn the_middle_and_the_tail() {
        let mut all: Vec<f64> = (0..100).rev().map(f64::from).collect();
        assert_eq!(
            (quantile(&mut all, 0.5), quantile(&mut all, 0.99)),
            (50.0, 99.0)
        );
        assert_eq!(quantile(&mut [], 0.5), 0.0);
    }
}
