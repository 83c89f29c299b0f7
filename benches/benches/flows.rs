//! How fast flows are made, and what one takes.
//!
//! `cargo bench -p twinpath-benches --bench flows`

use twinpath_benches::bench_node::BenchNode;
use twinpath_benches::packets::{Plan, Trace};
use twinpath_benches::table::ns_each;
use twinpath_control::service::Paths;

fn main() {
    let is_test = std::env::args().any(|argument| argument == "--test");
    let flows: usize = if is_test { 1_000 } else { 1_000_000 };
    creation(flows, Paths::Slow, "made on the slow path");
    creation(
        flows,
        Paths::Both,
        "made on the slow path and granted to the fast path",
    );
}

fn creation(flows: usize, paths: Paths, what: &str) {
    let slots = 2 * flows;
    let mut node = BenchNode::load_balancer(slots, flows + 1024, paths);
    let mut trace = Trace::new(flows);
    trace.fill(&Plan::each_flow(flows as u64));
    let before = resident_bytes();
    let started = std::time::Instant::now();
    node.send(trace.frames());
    let ns = ns_each(started.elapsed(), flows);
    let grown = resident_bytes().saturating_sub(before);
    let made = node.node.workers[0]
        .flows()
        .next()
        .expect("the chain shares flow state")
        .counters()
        .flows_created;
    println!(
        "{made} flows {what}: {ns:.0} ns each, {:.2} million per second and core, {} bytes each (resident)",
        1000.0 / ns,
        grown / flows
    );
    println!(
        "    a flow on the slow path {} bytes; a slot {} bytes",
        node.node.workers[0]
            .flows()
            .next()
            .expect("the chain shares flow state")
            .store()
            .bytes_per_flow(),
        slot_bytes(&node)
    );
}

fn slot_bytes(node: &BenchNode) -> usize {
    node.node
        .machine
        .path()
        .stage()
        .map_or(0, |stage| stage.memory_bytes() / stage.slots())
}

/// What the process has in memory, as the system counts it; 0 where it does not say.
fn resident_bytes() -> usize {
    let pages = std::fs::read_to_string("/proc/self/statm")
        .ok()
        .and_then(|text| text.split_whitespace().nth(1)?.parse::<usize>().ok());
    pages.unwrap_or(0) * 4096
}
