//! What functions take that count, limit and hold packets, over a million flows.
//!
//! `cargo bench -p twinpath-benches --bench functions`

use std::time::{Duration, Instant as WallClock};
use twinpath_benches::bench_node::BenchNode;
use twinpath_benches::packets::{Plan, Spread, Trace};
use twinpath_benches::table::{ns_each, row};
use twinpath_control::service::Paths;
use twinpath_core::Frame;

/// Packets that arrive in a window of the reframer: some 40 million a second.
const TOGETHER: usize = 2048;
const WINDOW: Duration = Duration::from_micros(50);

const ROUNDS: usize = 5;

fn main() {
    let is_test = std::env::args().any(|argument| argument == "--test");
    let (packets, flows) = match is_test {
        true => (4_000, 1_000),
        false => (2_000_000, 1_000_000),
    };
    let spreads = [Spread::Uniform, Spread::Zipf(0.99)];
    for spread in spreads {
        let plan = Plan::new(packets, flows, spread, 0.0, 1);
        for paths in [Paths::Both, Paths::Slow] {
            let of = |what: &str, chain: &str, table: &str| {
                let what = format!("{what}, {}, {flows} flows {spread}", named(paths));
                measure(&what, chain, table, &plan, flows, paths);
            };
            of(
                "rate limiter, within the rate",
                "rate_limiter",
                "rate_bps = 10_000_000_000\nburst_bytes = 1_000_000\n",
            );
            of(
                "rate limiter, excess dropped",
                "rate_limiter",
                "rate_pps = 1\nburst_packets = 1\n",
            );
            of("telemetry", "telemetry", "");
        }
        let what = format!("reframer, {flows} flows {spread}");
        let table = "window = \"50us\"\n";
        measure(&what, "reframer", table, &plan, flows, Paths::Slow);
    }
}

const fn named(paths: Paths) -> &'static str {
    match paths {
        Paths::Both => "both paths",
        Paths::Slow => "slow path alone",
    }
}

/// Packets of flows that are known.
fn measure(what: &str, function: &str, table: &str, plan: &Plan, flows: u64, paths: Paths) {
    let text = format!(
        "[service]\nname = \"bench\"\nchain = [\"{function}\"]\n\
         [fast_path]\nslots = {}\nhot_packets = 1\ntime_to_live = \"1h\"\n\
         [slow_path]\nflows = {}\n[{function}]\n{table}",
        2 * flows,
        2 * flows
    );
    let mut node = BenchNode::new(&text, paths);
    for _ in 0..2 {
        let mut trace = Trace::new(flows as usize);
        trace.fill(&Plan::each_flow(flows));
        pass(&mut node, &mut trace);
    }
    let mut times: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let mut trace = Trace::new(plan.len());
            trace.fill(plan);
            ns_each(pass(&mut node, &mut trace), plan.len())
        })
        .collect();
    times.sort_by(f64::total_cmp);
    row(what, times[ROUNDS / 2], None);
}

/// Sends all packets, some at a time; between them time passes, and what is held leaves.
fn pass(node: &mut BenchNode, trace: &mut Trace) -> Duration {
    let mut waiting = std::mem::take(trace.frames()).into_iter();
    let mut taken = Duration::ZERO;
    loop {
        let now = node.pass_time(WINDOW);
        let mut burst: Vec<Frame> = waiting.by_ref().take(TOGETHER).collect();
        if burst.is_empty() {
            break;
        }
        let frames = burst.iter_mut();
        frames.for_each(|frame| frame.set_timestamp(now));
        let began = WallClock::now();
        node.send(&mut burst);
        taken += began.elapsed();
    }
    let began = WallClock::now();
    node.pass_time(WINDOW);
    node.send(&mut Vec::new());
    taken + began.elapsed()
}
