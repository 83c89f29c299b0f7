//! What the length of the selection's windows does (SFCache §V-E, Table IV).
//!
//! `cargo run --release -p twinpath-benches --example evaluation_windows [FILE.csv] [SECONDS]`
//! writes comma-separated values, to standard output if no file is named. All is virtual time and
//! seeded: the same numbers on every machine.
//!
//! The paper replays a backbone trace at 40 Gbps through two functions that match flows. Here the
//! trace is made up from published statistics, a fortieth of that rate with as many flows less:
//! - packets per flow as in 30 days of a university's Internet link (four billion flows; the
//!   cumulative shares below), between the points as if their logarithm were uniform;
//! - flows begin at random, so many that packets of 870 bytes fill 1 Gbps;
//! - a flow's packets come at random at a rate of its own, which is log-normal with a median of
//!   1000 packets per second. This last point is an assumption: no source gives it.
//!
//! The functions are an address translation and a load balancer. A rule is selected with more than
//! 1000 packets per second in the window before, and taken out after a window without a hit, as in
//! the paper.

use rand::{Rng, SeedableRng};
use rand_distr::{Distribution, Exp, LogNormal};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashSet};
use std::io::Write;
use std::time::Duration;
use twinpath_benches::chains::{Kind, build};
use twinpath_benches::packets::{Plan, Trace, client};
use twinpath_benches::rule_bench::{Caching, RuleBench};
use twinpath_core::Instant;
use twinpath_core::wire::{dissect, rewrite};
use twinpath_rulecache::SelectionConfig;

/// Share of flows, in percent, with at most so many packets.
const SIZES: [(f64, f64); 10] = [
    (47.8326, 1.0),
    (65.3421, 2.0),
    (74.8933, 4.0),
    (84.1319, 8.0),
    (86.5086, 10.0),
    (97.3478, 100.0),
    (99.4544, 1000.0),
    (99.8922, 10_000.0),
    (99.9896, 100_000.0),
    (100.0, 1_000_000.0),
];

/// Packets of 870 bytes in 1 Gbps, and flows of 78.6 packets.
const FLOWS_PER_SECOND: f64 = 143_678.0 / 78.6;
/// The paper's rate, in that of this trace.
const SCALE: f64 = 40.0;
/// Table entries that a rule takes in the paper.
const ENTRIES_PER_RULE: f64 = 3.0;
/// How long before the start flows may have begun.
const BEFORE_SECONDS: f64 = 300.0;

/// Window in ms, and the paper's efficiency, selected share and insertions per second.
const PAPER: [(u64, f64, f64, u32); 5] = [
    (200, 88.52, 1.00, 1854),
    (400, 95.86, 0.68, 1083),
    (600, 98.78, 0.54, 785),
    (800, 99.35, 0.46, 634),
    (1000, 99.82, 0.36, 532),
];

fn main() -> std::io::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let mut out: Box<dyn Write> = match arguments.next().filter(|name| name != "-") {
        Some(name) => Box::new(std::fs::File::create(name)?),
        None => Box::new(std::io::stdout()),
    };
    let seconds = arguments.next().and_then(|text| text.parse().ok());
    writeln!(
        out,
        "window_ms,packets,flows,rules_selected,efficiency_percent,selected_percent,entries_per_second_at_40_gbps,mean_rules_at_40_gbps,fast_percent,paper_efficiency_percent,paper_selected_percent,paper_entries_per_second"
    )?;
    for (window_ms, efficiency, selected, entries) in PAPER {
        let result = run(Duration::from_millis(window_ms), seconds.unwrap_or(10.0));
        writeln!(
            out,
            "{window_ms},{result},{efficiency},{selected},{entries}"
        )?;
    }
    Ok(())
}

/// One run's numbers as the middle of a line.
fn run(window: Duration, seconds: f64) -> String {
    let caching = Caching {
        rules: [150_000, 1024],
        selection: SelectionConfig {
            window,
            threshold: window.as_millis() as u32,
            ..SelectionConfig::for_rules(150_000)
        },
        idle_windows: 1,
        ..Caching::of(1)
    };
    let mut bench = RuleBench::new(build(&[Kind::Napt, Kind::LoadBalancer]), caching);
    let mut counts = Counts::default();
    let mut next_tick = bench.now;
    for (at, flow) in Packets::new(1, seconds) {
        bench.now = Instant(1_000_000_000) + Duration::from_secs_f64(at);
        counts.packet(&mut bench, flow);
        if bench.now >= next_tick {
            next_tick = bench.now + Duration::from_millis(1);
            bench.tick();
            counts.rules += bench.table.active() as u64;
            counts.ticks += 1;
        }
    }
    counts.line(&bench, seconds)
}

#[derive(Default)]
struct Counts {
    packets: u64,
    flows: HashSet<u32>,
    by_rules: HashSet<u32>,
    rules: u64,
    ticks: u64,
    template: Vec<u8>,
}

impl Counts {
    fn packet(&mut self, bench: &mut RuleBench, flow: u32) {
        if self.template.is_empty() {
            let mut trace = Trace::new(1);
            trace.fill(&Plan::each_flow(1));
            self.template = trace.frames()[0].bytes().to_vec();
        }
        let mut frame = bench.frame(&self.template).expect("frames come back");
        let layout = dissect(&self.template).expect("well formed");
        rewrite::set_source(frame.bytes_mut(), &layout, client(u64::from(flow)))
            .expect("both are IPv4");
        let before = bench.table.counters().hits;
        bench.send_one(frame);
        self.packets += 1;
        self.flows.insert(flow);
        if bench.table.counters().hits > before {
            self.by_rules.insert(flow);
        }
    }

    fn line(&self, bench: &RuleBench, seconds: f64) -> String {
        let selected = bench.cores.manager().counters().added as f64;
        let percent = |part: f64, whole: f64| 100.0 * part / whole.max(1.0);
        format!(
            "{},{},{selected},{:.2},{:.2},{:.0},{:.0},{:.1}",
            self.packets,
            self.flows.len(),
            percent(self.by_rules.len() as f64, selected),
            percent(selected, self.flows.len() as f64),
            selected / seconds * SCALE * ENTRIES_PER_RULE,
            self.rules as f64 / self.ticks.max(1) as f64 * SCALE,
            percent(bench.table.counters().hits as f64, self.packets as f64),
        )
    }
}

/// The packets of all flows in the order of their time, in seconds, with the flows' numbers.
struct Packets {
    random: Xoshiro256PlusPlus,
    /// Time of the next packet (in ns, so that it has an order), flow, packets left, rate.
    waiting: BinaryHeap<Reverse<(u64, u32, u32)>>,
    rates: Vec<f64>,
    next_flow: f64,
    end: f64,
}

impl Packets {
    fn new(seed: u64, seconds: f64) -> Self {
        let mut packets = Self {
            random: Xoshiro256PlusPlus::seed_from_u64(seed),
            waiting: BinaryHeap::new(),
            rates: Vec::new(),
            next_flow: -BEFORE_SECONDS,
            end: seconds,
        };
        while packets.next_flow < 0.0 {
            packets.begin_flow();
        }
        packets
    }

    /// Of a flow that began before the start only what is left after it.
    fn begin_flow(&mut self) {
        let (begin, size) = (self.next_flow, self.size());
        let rates = LogNormal::new(1000f64.ln(), 1.5).expect("a valid distribution");
        let rate = rates.sample(&mut self.random);
        self.next_flow += self.gap(FLOWS_PER_SECOND);
        let gone = (-begin).max(0.0) * rate;
        if gone < size {
            let flow = self.rates.len() as u32;
            self.rates.push(rate);
            let left = (size - gone).ceil() as u32;
            self.waiting
                .push(Reverse((nanoseconds(begin.max(0.0)), flow, left)));
        }
    }

    fn gap(&mut self, rate: f64) -> f64 {
        Exp::new(rate).map_or(0.0, |gaps| gaps.sample(&mut self.random))
    }

    fn size(&mut self) -> f64 {
        let share = 100.0 * (self.random.next_u64() as f64 / u64::MAX as f64);
        let above = SIZES.partition_point(|&(upto, _)| upto < share);
        let (upto, size) = SIZES[above.min(SIZES.len() - 1)];
        let Some(&(from, smaller)) = above.checked_sub(1).and_then(|below| SIZES.get(below)) else {
            return size;
        };
        let within = (share - from) / (upto - from);
        (smaller.ln() + within * (size.ln() - smaller.ln()))
            .exp()
            .ceil()
    }
}

fn nanoseconds(seconds: f64) -> u64 {
    (seconds * 1e9) as u64
}

impl Iterator for Packets {
    type Item = (f64, u32);

    fn next(&mut self) -> Option<(f64, u32)> {
        loop {
            let first = self.waiting.peek().map(|Reverse((at, ..))| *at);
            if first.is_none_or(|at| nanoseconds(self.next_flow) <= at) {
                self.begin_flow();
                continue;
            }
            let Reverse((at, flow, left)) = self.waiting.pop()?;
            if left > 1 {
                let gap = self.gap(self.rates[flow as usize]);
                let next = at + nanoseconds(gap).max(1);
                self.waiting.push(Reverse((next, flow, left - 1)));
            }
            let at = at as f64 / 1e9;
            return (at < self.end).then_some((at, flow));
        }
    }
}
