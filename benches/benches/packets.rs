//! Nanoseconds per packet on one core, beside what the machine allows.
//!
//! `cargo bench -p twinpath-benches --bench packets`. Every figure is the median of several passes
//! over a trace of 64-byte packets that no cache holds; a load balancer rewrites each packet and
//! mends its checksums. Words behind `--` (`hits`, `mixed`, `slow`) run those parts alone.

use twinpath_benches::bench_node::BenchNode;
use twinpath_benches::limit::Lines;
use twinpath_benches::packets::{ARRIVAL, Plan, SERVICE, Spread, Trace, client};
use twinpath_benches::table::{median, ns_each, row};
use twinpath_control::service::Paths;
use twinpath_core::wire::tcp::flags;
use twinpath_core::wire::{Endpoint, PacketBuilder, dissect, fields};
use twinpath_core::{Frame, Pool};
use twinpath_node::BATCH;

const ROUNDS: usize = 5;

struct Bench {
    node: BenchNode,
    trace: Trace,
}

fn main() {
    // `cargo bench -- --test` only wants to know that it runs.
    let is_test = std::env::args().any(|argument| argument == "--test");
    let packets = if is_test { 20_000 } else { 2_000_000 };
    let few = |flows: u64| if is_test { flows.min(1_000) } else { flows };
    println!("load balancer, {packets} packets of 64 bytes per pass, median of {ROUNDS} passes\n");
    if wanted("hits") {
        for (flows, slots) in [(1_000, 4_096), (32_000, 65_536), (1_000_000, 2_097_152)] {
            for spread in [Spread::Uniform, Spread::Zipf(0.99)] {
                fast_path_hits(packets, few(flows), slots, spread);
            }
        }
    }
    if wanted("mixed") {
        [0.01, 0.1]
            .into_iter()
            .for_each(|share| mixed(packets, share));
    }
    if wanted("slow") {
        [32_000, 1_000_000]
            .into_iter()
            .for_each(|flows| slow_path_alone(packets, few(flows)));
    }
}

/// Whether a part was asked for: by name, or by naming none.
fn wanted(part: &str) -> bool {
    let mut named = std::env::args()
        .skip(1)
        .filter(|word| !word.starts_with("--"))
        .peekable();
    named.peek().is_none() || named.any(|name| name == part)
}

fn fast_path_hits(packets: usize, flows: u64, slots: usize, spread: Spread) {
    let plan = Plan::new(packets, flows, spread, 0.0, 1);
    let mut bench = prepared(packets, flows, slots, Paths::Both);
    let limit = limit(&mut bench.trace, &plan, slots);
    let before = bench.node.fast_packets();
    let ns = pass(&mut bench, &plan);
    let share = (bench.node.fast_packets() - before) as f64 / (ROUNDS * packets) as f64;
    row(
        &format!(
            "fast path, {flows} flows {spread}, {:.2} % hits",
            100.0 * share
        ),
        ns,
        Some(limit),
    );
}

fn mixed(packets: usize, complex_share: f64) {
    let (flows, slots) = (packets.min(32_000) as u64, 65_536);
    let plan = Plan::new(packets, flows, Spread::Zipf(0.99), complex_share, 2);
    let mut bench = prepared(packets, flows, slots, Paths::Both);
    bench.node.burst = BATCH;
    let before = bench.node.fast_packets();
    let ns = pass(&mut bench, &plan);
    let share = (bench.node.fast_packets() - before) as f64 / (ROUNDS * packets) as f64;
    row(
        &format!(
            "both paths on one core, {} % complex, {:.2} % on the fast path",
            100.0 * complex_share,
            100.0 * share
        ),
        ns,
        None,
    );
}

fn slow_path_alone(packets: usize, flows: u64) {
    let plan = Plan::new(packets, flows, Spread::Uniform, 0.0, 3);
    let mut bench = prepared(packets, flows, 4_096, Paths::Slow);
    let ns = pass(&mut bench, &plan);
    row(
        &format!("slow path alone (steering, link, worker, link), {flows} flows"),
        ns,
        None,
    );
}

/// A node whose flows all exist, and are on the fast path if there is one.
fn prepared(packets: usize, flows: u64, slots: usize, paths: Paths) -> Bench {
    let mut bench = Bench {
        node: BenchNode::load_balancer(slots, 2 * flows as usize + 1024, paths),
        trace: Trace::new(packets.max(flows as usize)),
    };
    open_connections(&mut bench.node, flows);
    for _ in 0..2 {
        bench.trace.fill(&Plan::each_flow(flows));
        let rest = bench.trace.frames().split_off(flows as usize);
        bench.node.send(bench.trace.frames());
        bench.trace.frames().extend(rest);
    }
    bench
}

/// Connections that are opened together.
const TOGETHER: u64 = 1024;

/// Every client opens a connection, and its server answers: of one that is half open a balancer
/// remembers little, and not for long.
fn open_connections(node: &mut BenchNode, flows: u64) {
    let mut pool = Pool::new(TOGETHER as usize, 128);
    let mut frame = |packet: &PacketBuilder| {
        let bytes = packet.to_vec().expect("a valid packet");
        let mut frame = pool.take_filled(&bytes).expect("one for each");
        frame.set_timestamp(ARRIVAL);
        frame
    };
    for first in (0..flows).step_by(TOGETHER as usize) {
        let clients = (first..flows.min(first + TOGETHER)).map(client);
        let syn = |client| PacketBuilder::tcp(client, SERVICE).flags(flags::SYN);
        let mut frames: Vec<_> = clients.map(|client| frame(&syn(client))).collect();
        node.send(&mut frames);
        let opened: Vec<_> = frames.drain(..).map(|frame| ends(&frame)).collect();
        for (flags, payload) in [(flags::SYN | flags::ACK, &[][..]), (flags::ACK, b"hello")] {
            let answer = |(client, server)| {
                let answer = PacketBuilder::tcp(server, client).flags(flags);
                frame(&answer.payload(payload))
            };
            let mut answers: Vec<_> = opened.iter().copied().map(answer).collect();
            node.send(&mut answers);
        }
    }
}

/// Where a packet comes from and is for.
fn ends(frame: &Frame) -> (Endpoint, Endpoint) {
    let layout = dissect(frame.bytes()).expect("a valid packet");
    let bytes = frame.bytes();
    (
        fields::source(bytes, &layout),
        fields::destination(bytes, &layout),
    )
}

fn pass(bench: &mut Bench, plan: &Plan) -> f64 {
    let time = median(
        ROUNDS,
        bench,
        |bench| {
            bench.trace.fill(plan);
        },
        |bench| bench.node.send(bench.trace.frames()),
    );
    ns_each(time, plan.len())
}

fn limit(trace: &mut Trace, plan: &Plan, slots: usize) -> f64 {
    let lines = Lines::new(slots);
    let time = median(
        ROUNDS,
        trace,
        |trace| trace.fill(plan),
        |trace| _ = lines.touch(trace.frames()),
    );
    ns_each(time, plan.len())
}
