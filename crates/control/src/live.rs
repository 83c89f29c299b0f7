//! What a run shows while it runs: on a terminal a small table, refreshed five
//! times a second, with a progress bar when the end is known; elsewhere one
//! plain line every few seconds.
//!
//! The owner of the run fills a [`Snapshot`] and hands it over with its own
//! clock (ns since the start, by the wall). [`Live::due`] says when that is
//! worth the trouble.

mod view;

use std::collections::BTreeMap;
use std::io::Write;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::report::summary::plain;
use crate::report::{
    KernelFigures, PortLosses, RuleTableCounters, Sample, SlotCounters, SplitCounts, SplitFigures,
    total_drops, units,
};
use view::{Rates, View};

/// Steps of the bar.
const BAR_LENGTH: u64 = 1000;

const TABLE_INTERVAL_NS: u64 = 200_000_000;
const LINE_INTERVAL_NS: u64 = 5_000_000_000;

/// Counters of a run at one moment, as totals since its start; slots and rules
/// as they stand.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// Packets that arrived.
    pub packets_in: u64,
    /// Bytes that arrived.
    pub bytes_in: u64,
    /// Packets that left.
    pub packets_out: u64,
    /// Of them, those that had not been on the slow path.
    pub packets_out_fast: u64,
    /// Bytes that left.
    pub bytes_out: u64,
    /// Packets the fast path settled.
    pub packets_fast: u64,
    /// Packets sent to the slow path.
    pub packets_slow: u64,
    /// Slots by state.
    pub slots: SlotCounters,
    /// Cached rules on the fast path.
    pub rules: RuleTableCounters,
    /// How often each worker crashed and began anew.
    pub worker_restarts: Vec<u64>,
    /// Dropped packets by reason.
    pub drops: BTreeMap<String, u64>,
    /// Packets lost at the node's ports.
    pub port_losses: PortLosses,
    /// What is followed of the kernel's routes, if they are wanted.
    pub kernel: Option<KernelFigures>,
    /// Packets whose payloads wait in remote memory, if they may.
    pub split: Option<SplitSnapshot>,
    /// A DPU whose flows the fast path has.
    pub dash: Option<DashSnapshot>,
}

/// A DPU at one moment.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct DashSnapshot {
    /// Its ENIs.
    pub enis: u64,
    /// Their flows.
    pub flows: u64,
}

/// Packets that were split, at one moment.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct SplitSnapshot {
    /// What became of packets.
    pub counts: SplitCounts,
    /// Servers, and those of them that take payloads.
    pub servers: [usize; 2],
}

impl SplitSnapshot {
    /// Of what a report would say.
    pub fn of(split: &SplitFigures) -> Self {
        Self {
            counts: split.counts,
            servers: [split.servers.len(), split.servers_up()],
        }
    }

    fn add(&mut self, other: &Self) {
        self.counts.add(&other.counts);
        // The same servers serve all shards.
        let (own, others) = (&mut self.servers, other.servers);
        own.iter_mut()
            .zip(others)
            .for_each(|(own, other)| *own = (*own).max(other));
    }
}

impl Snapshot {
    /// Adds what was counted elsewhere; workers there come behind those here.
    pub fn add(&mut self, other: &Self) {
        self.packets_in += other.packets_in;
        self.bytes_in += other.bytes_in;
        self.packets_out += other.packets_out;
        self.packets_out_fast += other.packets_out_fast;
        self.bytes_out += other.bytes_out;
        self.packets_fast += other.packets_fast;
        self.packets_slow += other.packets_slow;
        self.slots.add(&other.slots);
        self.rules.add(&other.rules);
        self.worker_restarts.extend(&other.worker_restarts);
        for (reason, count) in &other.drops {
            *self.drops.entry(reason.clone()).or_default() += count;
        }
        self.port_losses.add(&other.port_losses);
        match (&mut self.split, &other.split) {
            (Some(own), Some(more)) => own.add(more),
            (own @ None, more) => *own = *more,
            (Some(_), None) => {}
        }
        // ENIs are known to all shards, flows to one each.
        if let Some(more) = other.dash {
            let own = self.dash.get_or_insert_default();
            (own.enis, own.flows) = (more.enis, own.flows + more.flows);
        }
    }

    /// The same as a sample for the report's series, at a time on that series'
    /// clock.
    pub fn sample(&self, time_ns: u64) -> Sample {
        Sample {
            time_ns,
            packets_in: self.packets_in,
            packets_fast: self.packets_fast,
            packets_slow: self.packets_slow,
            packets_out_fast: self.packets_out_fast,
            packets_out_slow: self.packets_out.saturating_sub(self.packets_out_fast),
            drops: total_drops(&self.drops),
            slots_incomplete: self.slots.incomplete,
            slots_active: self.slots.active,
            slots_frozen: self.slots.frozen,
            rules_active: self.rules.active,
        }
    }
}

/// When a run will end, as far as that is known: at whatever comes first.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Expected {
    /// When so many packets have arrived.
    pub packets: Option<u64>,
    /// After this time.
    pub time: Option<Duration>,
}

impl Expected {
    /// How far the run is after so many packets and nanoseconds, from 0 to 1.
    fn done(self, packets: u64, now_ns: u64) -> Option<f64> {
        let time = self.time.map(|time| time.as_nanos() as u64);
        let parts = [(packets, self.packets), (now_ns, time)].map(|(done, all)| {
            let all = all?;
            Some(units::fraction(done, all.max(1)).min(1.0))
        });
        parts.into_iter().flatten().reduce(f64::max)
    }

    /// How much longer the run takes while so many packets arrive in a second.
    fn left_ns(self, packets: u64, now_ns: u64, packets_per_second: f64) -> Option<u64> {
        let left = self.packets.map(|all| all.saturating_sub(packets) as f64);
        let by_packets = left.filter(|_| packets_per_second > 0.0);
        let by_packets = by_packets.map(|left| (left * 1e9 / packets_per_second) as u64);
        let by_time = self
            .time
            .map(|time| (time.as_nanos() as u64).saturating_sub(now_ns));
        [by_packets, by_time]
            .into_iter()
            .flatten()
            .min()
            .filter(|left| *left > 0)
    }
}

/// The display of a run in progress. It never fails: what cannot be shown is
/// not shown.
pub struct Live {
    surface: Surface,
    title: String,
    expected: Expected,
    next_ns: u64,
    rates: Rates,
}

enum Surface {
    Table(ProgressBar),
    Lines(Box<dyn Write + Send>),
    Hidden,
}

impl Live {
    /// A table on standard error if that is a terminal, otherwise lines to this writer.
    pub fn on_stderr(title: &str, expected: Expected, lines: Box<dyn Write + Send>) -> Self {
        let target = ProgressDrawTarget::stderr();
        if target.is_hidden() {
            return Self::lines(title, expected, lines);
        }
        Self::table(title, expected, target)
    }

    /// Plain lines to any writer.
    pub fn lines(title: &str, expected: Expected, out: Box<dyn Write + Send>) -> Self {
        Self::new(title, expected, Surface::Lines(out), LINE_INTERVAL_NS)
    }

    /// Shows nothing.
    pub fn hidden() -> Self {
        Self::new("", Expected::default(), Surface::Hidden, u64::MAX)
    }

    /// Whether it is time for another snapshot.
    pub fn due(&self, now_ns: u64) -> bool {
        now_ns >= self.next_ns
    }

    /// Shows a snapshot if one is due.
    pub fn update(&mut self, now_ns: u64, snapshot: &Snapshot) {
        if self.due(now_ns) {
            self.next_ns = now_ns.saturating_add(self.surface.interval_ns());
            self.show(now_ns, snapshot);
        }
    }

    /// Ends the display: the table is removed, to make room for the summary;
    /// the lines get a last one.
    pub fn finish(mut self, now_ns: u64, snapshot: &Snapshot) {
        match &self.surface {
            Surface::Table(bar) => bar.finish_and_clear(),
            Surface::Lines(_) => self.show(now_ns, snapshot),
            Surface::Hidden => {}
        }
    }

    fn table(title: &str, expected: Expected, target: ProgressDrawTarget) -> Self {
        let is_known = expected.done(0, 0).is_some();
        let template = match is_known {
            true => "{prefix} {bar:40.cyan/dim} {msg}",
            false => "{prefix} {msg}",
        };
        let style = ProgressStyle::with_template(template)
            .unwrap_or_else(|_| ProgressStyle::default_bar())
            .progress_chars("█▉▊▋▌▍▎▏░");
        let bar = ProgressBar::with_draw_target(is_known.then_some(BAR_LENGTH), target)
            .with_style(style)
            .with_prefix(plain(title));
        Self::new(title, expected, Surface::Table(bar), 0)
    }

    fn new(title: &str, expected: Expected, surface: Surface, next_ns: u64) -> Self {
        Self {
            surface,
            title: plain(title),
            expected,
            next_ns,
            rates: Rates::default(),
        }
    }

    fn show(&mut self, now_ns: u64, snapshot: &Snapshot) {
        self.rates.observe(now_ns, snapshot);
        let view = View {
            now_ns,
            snapshot,
            rates: &self.rates,
            expected: self.expected,
        };
        match &mut self.surface {
            Surface::Table(bar) => {
                let done = self.expected.done(snapshot.packets_in, now_ns);
                bar.set_position((done.unwrap_or_default() * BAR_LENGTH as f64) as u64);
                bar.set_message(view.table());
            }
            Surface::Lines(out) => {
                // A reader that has gone away is no reason to stop a run. Others may write lines between.
                let line = format!("{}: {}\n", self.title, view.line());
                let _ = out.write_all(line.as_bytes());
                let _ = out.flush();
            }
            Surface::Hidden => {}
        }
    }
}

impl Surface {
    fn interval_ns(&self) -> u64 {
        match self {
            Self::Table(_) => TABLE_INTERVAL_NS,
            Self::Lines(_) => LINE_INTERVAL_NS,
            Self::Hidden => u64::MAX,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use indicatif::InMemoryTerm;

    use super::*;

    pub const SECOND_NS: u64 = 1_000_000_000;

    fn packets(packets: u64) -> Expected {
        Expected {
            packets: Some(packets),
            time: None,
        }
    }

    #[test]
    fn a_run_ends_at_whatever_comes_first() {
        let expected = Expected {
            packets: Some(1000),
            time: Some(Duration::from_secs(2)),
        };
        assert_eq!(expected.done(100, SECOND_NS), Some(0.5));
        assert_eq!(expected.left_ns(100, SECOND_NS, 100.0), Some(SECOND_NS));
        assert_eq!(expected.done(900, SECOND_NS), Some(0.9));
        assert_eq!(expected.left_ns(900, SECOND_NS, 900.0), Some(SECOND_NS / 9));
        assert_eq!(expected.done(900, 3 * SECOND_NS), Some(1.0));
        assert_eq!(expected.left_ns(900, 3 * SECOND_NS, 900.0), None);
        assert_eq!(Expected::default().done(900, SECOND_NS), None);
    }

    pub fn snapshot(packets_in: u64, packets_fast: u64) -> Snapshot {
        let drops = [
            ("checksum", 9_871),
            ("firewall_denied", 31_204),
            ("ring_full", 82),
            ("truncated", 1_100),
        ];
        Snapshot {
            port_losses: PortLosses::default(),
            kernel: None,
            split: None,
            dash: None,
            packets_in,
            bytes_in: packets_in * 800,
            bytes_out: packets_in * 800,
            packets_out: packets_in - 45_000,
            packets_out_fast: packets_fast,
            packets_fast,
            packets_slow: packets_in - packets_fast,
            slots: SlotCounters {
                capacity: 65_536,
                initial: 20_010,
                incomplete: 85,
                active: 45_001,
                frozen: 440,
            },
            worker_restarts: Vec::new(),
            rules: RuleTableCounters::default(),
            drops: drops
                .into_iter()
                .map(|(name, n)| (name.to_owned(), n))
                .collect(),
        }
    }

    /// A writer whose text can be read while it is written.
    #[derive(Clone, Default)]
    struct Shared(Arc<Mutex<Vec<u8>>>);

    impl Write for Shared {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    impl Shared {
        fn text(&self) -> String {
            String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
        }
    }

    #[test]
    fn lines_come_every_few_seconds_and_at_the_end() {
        let out = Shared::default();
        let mut live = Live::lines("edge", packets(20_000_000), Box::new(out.clone()));
        for tenth in 0..=120u64 {
            live.update(
                tenth * SECOND_NS / 10,
                &snapshot(1_000_000 + tenth * 100_000, 900_000),
            );
        }
        live.finish(13 * SECOND_NS, &snapshot(14_000_000, 900_000));
        insta::assert_snapshot!(out.text());
    }

    #[test]
    fn the_table_shows_the_run_and_is_removed_at_the_end() {
        let terminal = InMemoryTerm::new(12, 100);
        let target = ProgressDrawTarget::term_like(Box::new(terminal.clone()));
        let mut live = Live::table("edge", packets(20_000_000), target);
        live.update(SECOND_NS, &snapshot(8_000_000, 5_000_000));
        live.update(2 * SECOND_NS, &snapshot(12_345_678, 9_300_000));
        insta::assert_snapshot!(terminal.contents());
        live.finish(3 * SECOND_NS, &snapshot(20_000_000, 16_000_000));
        assert_eq!(terminal.contents(), "");
    }

    #[test]
    fn without_a_known_end_there_is_no_bar() {
        let terminal = InMemoryTerm::new(12, 100);
        let target = ProgressDrawTarget::term_like(Box::new(terminal.clone()));
        let mut live = Live::table("edge", Expected::default(), target);
        live.update(SECOND_NS, &Snapshot::default());
        insta::assert_snapshot!(terminal.contents());
    }

    #[test]
    fn rules_are_shown_in_place_of_slots_that_there_are_not() {
        let terminal = InMemoryTerm::new(12, 100);
        let target = ProgressDrawTarget::term_like(Box::new(terminal.clone()));
        let mut live = Live::table("edge", Expected::default(), target);
        let mut with_rules = snapshot(12_345_678, 9_300_000);
        with_rules.slots = SlotCounters::default();
        with_rules.rules = RuleTableCounters {
            capacity: 40_960,
            active: 3_100,
            hits: 9_000_000,
            misses: 1_000_000,
            ..RuleTableCounters::default()
        };
        live.update(SECOND_NS, &with_rules);
        let contents = terminal.contents();
        assert!(contents.contains("  rules    active 3,100 of 40,960   hits 90.0 %"));
        assert!(!contents.contains("slots"));
    }

    #[test]
    fn the_table_is_refreshed_five_times_a_second() {
        let target = ProgressDrawTarget::hidden();
        let mut live = Live::table("edge", Expected::default(), target);
        let shown = (0..1000u64).filter(|milli| {
            let now_ns = milli * 1_000_000;
            let due = live.due(now_ns);
            live.update(now_ns, &Snapshot::default());
            due
        });
        assert_eq!(shown.count(), 5);
    }

    #[test]
    fn shards_have_the_same_memory_servers() {
        let one = SplitSnapshot {
            servers: [2, 1],
            ..SplitSnapshot::default()
        };
        let mut both = one;
        both.add(&SplitSnapshot {
            servers: [2, 2],
            ..one
        });
        assert_eq!(both.servers, [2, 2]);
    }

    #[test]
    fn hidden_is_never_due() {
        let live = Live::hidden();
        assert!(!live.due(3600 * SECOND_NS));
        live.finish(0, &Snapshot::default());
    }

    #[test]
    fn a_sample_has_the_snapshots_numbers() {
        let sample = snapshot(1_000_000, 900_000).sample(77);
        assert_eq!(
            (sample.time_ns, sample.packets_fast, sample.packets_slow),
            (77, 900_000, 100_000)
        );
        assert_eq!((sample.drops, sample.slots_active), (42_257, 45_001));
    }
}
