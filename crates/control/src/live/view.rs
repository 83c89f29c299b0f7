//! A snapshot in words: rates, shares, and the lines they are shown in.

use super::{Expected, Snapshot, SplitSnapshot};
use crate::report::summary::most_frequent;
use crate::report::{losses, restarts_in_words, total_drops, units};

/// Rates are averages over about this long.
const SMOOTHING_NS: f64 = 1e9;
/// Drop reasons named; the rest is counted.
const MAX_REASONS: usize = 3;
/// Columns of a line of the table, so that none wraps.
const MAX_COLUMNS: usize = 78;
const GAUGE_COLUMNS: usize = 24;
/// What a terminal shows red begins with the one, and ends with the other.
const RED: [&str; 2] = ["\u{1b}[1;31m", "\u{1b}[0m"];

/// Rates that follow changes within about a second.
#[derive(Debug, Default)]
pub struct Rates {
    last: Last,
    /// Arrived.
    packets_in_per_second: f64,
    /// Left.
    packets_per_second: f64,
    bytes_per_second: f64,
    fast_per_second: f64,
    slow_per_second: f64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Last {
    now_ns: u64,
    packets_in: u64,
    packets: u64,
    bytes: u64,
    fast: u64,
    slow: u64,
}

impl Rates {
    /// Takes in the counters at another moment; none if no time has passed.
    pub fn observe(&mut self, now_ns: u64, snapshot: &Snapshot) {
        let last = self.last;
        let elapsed_ns = now_ns.saturating_sub(last.now_ns) as f64;
        if elapsed_ns == 0.0 {
            return;
        }
        // Divided by the weight of all that was seen, so that the first moments,
        // however short, do not linger.
        let decayed = |ns: f64| 1.0 - (-ns / SMOOTHING_NS).exp();
        let weight = decayed(elapsed_ns) / decayed(now_ns as f64);
        let follow = |rate: &mut f64, now: u64, before: u64| {
            let latest = now.saturating_sub(before) as f64 * 1e9 / elapsed_ns;
            *rate += weight * (latest - *rate);
        };
        follow(
            &mut self.packets_in_per_second,
            snapshot.packets_in,
            last.packets_in,
        );
        follow(
            &mut self.packets_per_second,
            snapshot.packets_out,
            last.packets,
        );
        follow(&mut self.bytes_per_second, snapshot.bytes_out, last.bytes);
        follow(&mut self.fast_per_second, snapshot.packets_fast, last.fast);
        follow(&mut self.slow_per_second, snapshot.packets_slow, last.slow);
        self.last = Last {
            now_ns,
            packets_in: snapshot.packets_in,
            packets: snapshot.packets_out,
            bytes: snapshot.bytes_out,
            fast: snapshot.packets_fast,
            slow: snapshot.packets_slow,
        };
    }

    /// The fast path's share of late.
    fn fast_share(&self) -> f64 {
        let both = self.fast_per_second + self.slow_per_second;
        if both > 0.0 {
            self.fast_per_second / both
        } else {
            0.0
        }
    }
}

/// A snapshot and what is needed to put it in words.
pub struct View<'a> {
    pub now_ns: u64,
    pub snapshot: &'a Snapshot,
    pub rates: &'a Rates,
    pub expected: Expected,
}

impl View<'_> {
    /// The rest of the bar's line, then the table.
    pub fn table(&self) -> String {
        let mut rows = vec![
            ("packets", self.packets()),
            ("rate out", self.rate()),
            ("paths", self.paths()),
        ];
        if self.has_rules() {
            rows.push(("rules", self.rules()));
        }
        if self.has_slots() {
            rows.push(("slots", self.slots()));
        }
        rows.extend(self.dash().map(|dash| ("DPU", dash)));
        let restarts = restarts_in_words(&self.snapshot.worker_restarts);
        if !restarts.is_empty() {
            rows.push(("restarted", restarts));
        }
        rows.extend(self.split().map(|split| ("split", split)));
        rows.extend(self.kernel().map(|kernel| ("kernel", kernel)));
        rows.push(("drops", self.drops()));
        let row = |(name, text)| clipped(&format!("  {name:<9}{text}"));
        let rows = rows.into_iter().map(row);
        let lost = self.lost().map(|lost| red(&row(("LOST", lost))));
        let lines = std::iter::once(self.progress()).chain(rows).chain(lost);
        lines.collect::<Vec<_>>().join("\n")
    }

    /// The same in one line.
    pub fn line(&self) -> String {
        let (snapshot, rates) = (self.snapshot, self.rates);
        let [fast, slow] = self.shares();
        let mut parts = vec![
            self.progress(),
            format!("{} packets in", units::count(snapshot.packets_in)),
            format!("{} out", units::packet_rate(rates.packets_per_second)),
            format!("fast {fast}, slow {slow}"),
        ];
        if self.has_rules() {
            let active = units::count(snapshot.rules.active);
            let ratio = units::percent(snapshot.rules.hit_ratio());
            parts.push(format!("rules {active} active, hits {ratio}"));
        }
        if self.has_slots() {
            let slots = &snapshot.slots;
            let [active, incomplete, frozen] =
                [slots.active, slots.incomplete, slots.frozen].map(units::count);
            parts.push(format!(
                "slots {active} active {incomplete} incomplete {frozen} frozen"
            ));
        }
        parts.extend(self.dash().map(|dash| format!("DPU {dash}")));
        let restarts = restarts_in_words(&self.snapshot.worker_restarts);
        if !restarts.is_empty() {
            parts.push(format!("restarted: {restarts}"));
        }
        parts.extend(self.kernel().map(|kernel| format!("kernel: {kernel}")));
        parts.push(format!("drops {}", self.drops()));
        parts.extend(self.lost().map(|lost| format!("LOST {lost}")));
        parts.join(", ")
    }

    /// What is followed of the kernel, if it is.
    fn kernel(&self) -> Option<String> {
        let kernel = self.snapshot.kernel?;
        let last = match kernel.last_change_ns {
            0 => "none".to_owned(),
            last_ns => {
                let ago = units::duration(self.now_ns.saturating_sub(last_ns));
                format!("{}, the last {ago} ago", units::count(kernel.changes))
            }
        };
        Some(format!(
            "{} routes   {} neighbours   changes {last}   asked again {}",
            units::count(kernel.routes),
            units::count(kernel.neighbors),
            units::count(kernel.resyncs)
        ))
    }

    /// What a DPU knows.
    fn dash(&self) -> Option<String> {
        let dash = self.snapshot.dash?;
        let [enis, flows] = [dash.enis, dash.flows].map(units::count);
        Some(format!("{enis} ENIs {flows} flows"))
    }

    /// Packets whose payloads wait in remote memory.
    fn split(&self) -> Option<String> {
        let SplitSnapshot { counts, servers } = self.snapshot.split.as_ref()?;
        let [servers, up] = servers;
        Some(format!(
            "{} of {}   whole {}   lost {}   servers {up} of {servers} up",
            units::count(counts.packets),
            units::count(counts.packets + counts.whole()),
            units::count(counts.whole()),
            units::count(counts.lost()),
        ))
    }

    fn has_rules(&self) -> bool {
        self.snapshot.rules.capacity > 0
    }

    /// Slots are shown where functions share flow state.
    fn has_slots(&self) -> bool {
        self.snapshot.slots.capacity > 0
    }

    fn rules(&self) -> String {
        let rules = &self.snapshot.rules;
        format!(
            "active {} of {}   hits {}   held {}",
            units::count(rules.active),
            units::count(rules.capacity),
            units::percent(rules.hit_ratio()),
            units::count(rules.held)
        )
    }

    fn progress(&self) -> String {
        let elapsed = units::duration(self.now_ns);
        let packets = self.snapshot.packets_in;
        let Some(done) = self.expected.done(packets, self.now_ns) else {
            return format!("after {elapsed}");
        };
        let (done, rate) = (units::percent(done), self.rates.packets_in_per_second);
        match self.expected.left_ns(packets, self.now_ns, rate) {
            Some(left_ns) => format!("{done} after {elapsed}, {} left", units::duration(left_ns)),
            None => format!("{done} after {elapsed}"),
        }
    }

    fn packets(&self) -> String {
        let dropped = total_drops(&self.snapshot.drops);
        format!(
            "{} in   {} out   {} dropped",
            units::count(self.snapshot.packets_in),
            units::count(self.snapshot.packets_out),
            units::count(dropped)
        )
    }

    fn rate(&self) -> String {
        let rates = self.rates;
        let packets = units::packet_rate(rates.packets_per_second);
        format!(
            "{packets}   {}",
            units::bit_rate(rates.bytes_per_second * 8.0)
        )
    }

    fn shares(&self) -> [String; 2] {
        let (fast, slow) = (self.snapshot.packets_fast, self.snapshot.packets_slow);
        let both = fast.saturating_add(slow);
        [fast, slow].map(|part| units::percent(units::fraction(part, both)))
    }

    fn paths(&self) -> String {
        let [fast, slow] = self.shares();
        let share = self.rates.fast_share();
        format!(
            "fast {fast} {} slow {slow}   now fast {}",
            gauge(share),
            units::percent(share)
        )
    }

    fn slots(&self) -> String {
        let slots = &self.snapshot.slots;
        format!(
            "active {}   incomplete {}   frozen {}   of {}",
            units::count(slots.active),
            units::count(slots.incomplete),
            units::count(slots.frozen),
            units::count(slots.capacity)
        )
    }

    fn drops(&self) -> String {
        most_frequent(&self.snapshot.drops, MAX_REASONS)
    }

    /// Drops that are losses, and what ports lost, if there is any.
    fn lost(&self) -> Option<String> {
        let losses = losses(&self.snapshot.drops, &self.snapshot.port_losses);
        let lost = total_drops(&losses);
        (lost > 0).then(|| {
            let (lost, reasons) = (units::count(lost), most_frequent(&losses, MAX_REASONS));
            format!("{lost}: {reasons}")
        })
    }
}

fn red(line: &str) -> String {
    let [begin, end] = RED;
    format!("{begin}{line}{end}")
}

/// A bar of text that is full at a share of 1.
fn gauge(share: f64) -> String {
    let full = (share.clamp(0.0, 1.0) * GAUGE_COLUMNS as f64).round() as usize;
    "█".repeat(full) + &"░".repeat(GAUGE_COLUMNS - full)
}

fn clipped(line: &str) -> String {
    if line.chars().count() <= MAX_COLUMNS {
        return line.to_owned();
    }
    line.chars().take(MAX_COLUMNS - 1).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::{SECOND_NS, snapshot};
    use super::*;
    use crate::report::PortLosses;

    #[test]
    fn a_rate_follows_within_seconds() {
        let mut rates = Rates::default();
        let mut packets = 0;
        for tick in 1..=100u64 {
            packets += if tick <= 50 { 100 } else { 1000 };
            rates.observe(
                tick * SECOND_NS / 10,
                &Snapshot {
                    packets_out: packets,
                    ..Snapshot::default()
                },
            );
            if tick == 50 {
                assert!((rates.packets_per_second - 1_000.0).abs() < 1.0);
            }
        }
        assert!((rates.packets_per_second - 10_000.0).abs() < 100.0);
    }

    #[test]
    fn a_burst_in_the_first_microsecond_does_not_linger() {
        let mut rates = Rates::default();
        for (now_ns, packets_out) in [(1_000, 1_000), (SECOND_NS / 5, 2_000), (SECOND_NS, 10_000)] {
            rates.observe(
                now_ns,
                &Snapshot {
                    packets_out,
                    ..Snapshot::default()
                },
            );
        }
        assert!((9_000.0..11_500.0).contains(&rates.packets_per_second));
    }

    /// A DPU has flows of its own, and no slots.
    #[test]
    fn a_dpu_is_told_by_its_enis_and_flows() {
        let snapshot = Snapshot {
            dash: Some(super::super::DashSnapshot {
                enis: 6,
                flows: 12_345,
            }),
            ..Snapshot::default()
        };
        let view = View {
            now_ns: SECOND_NS,
            snapshot: &snapshot,
            rates: &Rates::default(),
            expected: Expected::default(),
        };
        for text in [view.line(), view.table()] {
            assert!(text.contains("6 ENIs 12,345 flows"), "{text}");
            assert!(!text.contains("slots"), "{text}");
        }
    }

    #[test]
    fn a_time_that_stands_still_changes_nothing() {
        let mut rates = Rates::default();
        rates.observe(0, &snapshot(100_000, 0));
        assert_eq!(rates.packets_per_second, 0.0);
    }

    fn shown(drops: &[(&str, u64)], port_losses: PortLosses) -> [String; 2] {
        let mut snapshot = snapshot(1_000_000, 0);
        snapshot.port_losses = port_losses;
        let drops = drops.iter();
        snapshot.drops = drops
            .map(|&(reason, count)| (reason.to_owned(), count))
            .collect();
        let view = View {
            now_ns: 1,
            snapshot: &snapshot,
            rates: &Rates::default(),
            expected: Expected::default(),
        };
        [view.table(), view.line()]
    }

    /// Ports that lose packets are as loud.
    #[test]
    fn loss_at_ports_is_red_too() {
        let lost = PortLosses {
            receive_missed: 1_000,
            ..PortLosses::default()
        };
        let [table, line] = shown(&[("punt_ring_full", 300), ("denied", 9)], lost);
        let loss = "1,300: receive_missed 1,000, punt_ring_full 300";
        assert!(
            table.ends_with(&red(&format!("  LOST     {loss}"))),
            "{table}"
        );
        assert!(line.ends_with(&format!("LOST {loss}")), "{line}");
    }

    #[test]
    fn loss_is_red_and_decisions_are_not() {
        let none = PortLosses::default();
        let drops = [("punt_ring_full", 1_200), ("no_buffer", 34), ("denied", 9)];
        let [table, line] = shown(&drops, none);
        let loss = "LOST     1,234: punt_ring_full 1,200, no_buffer 34";
        assert!(table.ends_with(&red(&format!("  {loss}"))), "{table}");
        assert!(line.ends_with("LOST 1,234: punt_ring_full 1,200, no_buffer 34"));
        let [table, line] = shown(&[("denied", 1_234), ("punt_ring_full", 0)], none);
        assert!(table.contains("denied 1,234") && !table.contains(RED[0]));
        assert!(!table.contains("LOST") && !line.contains("LOST"));
    }

    #[test]
    fn no_line_of_the_table_wraps() {
        let mut wide = snapshot(1_000_000, 0);
        (wide.packets_in, wide.packets_out, wide.packets_fast) = (u64::MAX, u64::MAX, u64::MAX);
        wide.drops = (0..5)
            .map(|n| (format!("{n}").repeat(60), u64::MAX))
            .collect();
        let rates = Rates::default();
        let view = View {
            now_ns: 1,
            snapshot: &wide,
            rates: &rates,
            expected: Expected::default(),
        };
        assert!(
            view.table()
                .lines()
                .all(|line| line.chars().count() <= MAX_COLUMNS)
        );
    }
}
