//! How fast flows are made, and what one takes.
//!
//! `cargo bench -p twinpath-benches --bench flows`

use twinpath_benches::bench_node::BenchNode;
use twinpath_benches::packets::{Plan, Trace};
use twinpath_benches::table::ns_each;
use twinpath_control::service::Paths;
use twinpath_core::wire::Endpoint;
use twinpath_core::{FlowKey, HashKey};
use twinpath_slowpath::FlowStore;

fn main() {
    let is_test = std::env::args().any(|argument| argument == "--test");
    let flows: usize = if is_test { 1_000 } else { 1_000_000 };
    let (slots, room) = (2 * flows, flows + 1024);
    let node = |paths| BenchNode::load_balancer(slots, room, paths);
    creation(flows, node(Paths::Slow), "made on the slow path");
    creation(
        flows,
        node(Paths::Both),
        "made on the slow path and granted to the fast path",
    );
    creation(
        flows,
        BenchNode::half_open(slots, room, room / 4, Paths::Slow),
        "made on the slow path, most of them forgotten for others",
    );
    chosen(if is_test { 1_000 } else { 60_000 });
}

/// What finding a flow takes among such as were chosen to collide. The chosen ones did under the hash
/// before this one: key-value entries under any seed, connections under seed 0.
fn chosen(flows: usize) {
    let server = Endpoint::v4([0x6c, 0x95, 0xe2, 0x4b], 0xa98f);
    let connection = |address: u32, port| {
        let client = Endpoint::v4(address.to_be_bytes(), port);
        FlowKey::connection(server, client, 6).0
    };
    let rows: [(&str, &dyn Fn(u32) -> FlowKey); 3] = [
        ("others", &|flow| {
            connection(0xe000_0000 + flow / 16, flow as u16)
        }),
        ("chosen connections", &|flow| {
            connection(0xe000_0000 + flow, 0x0be8)
        }),
        ("chosen entries", &|flow| {
            FlowKey([0x9e37_79b9_7f4a_7c15, flow.into(), 0, 0, 2 << 16])
        }),
    ];
    for (what, key) in rows {
        let (under, mut store) = (HashKey::new(0), FlowStore::<()>::new(flows, 1, 0));
        let keys: Vec<_> = (0..flows as u32).map(key).collect();
        let started = std::time::Instant::now();
        let made = keys
            .iter()
            .filter(|key| store.find_or_insert(key, key.hash(&under)).is_some());
        let made = made.count();
        let found = keys
            .iter()
            .filter(|key| store.find(key, key.hash(&under)).is_some());
        assert_eq!((made, found.count()), (flows, flows));
        let ns = ns_each(started.elapsed(), 2 * flows);
        println!("{flows} flows, {what}: {ns:.0} ns to make or find one");
    }
}

fn creation(flows: usize, mut node: BenchNode, what: &str) {
    let mut trace = Trace::new(flows);
    trace.fill(&Plan::each_flow(flows as u64));
    let before = resident_bytes();
    let started = std::time::Instant::now();
    node.send(trace.frames());
    let ns = ns_each(started.elapsed(), flows);
    let grown = resident_bytes().saturating_sub(before);
    let on_slow_path = node.node.workers[0].flows().next();
    let on_slow_path = on_slow_path.expect("the chain shares flow state");
    let counters = on_slow_path.counters();
    println!(
        "{} flows {what}: {ns:.0} ns each, {:.2} million per second and core, {} bytes each (resident)",
        counters.flows_created,
        1000.0 / ns,
        grown / flows
    );
    println!(
        "    {} of them half-open and forgotten for others; a flow on the slow path {} bytes; a slot {} bytes",
        counters.half_open_forgotten,
        on_slow_path.store().bytes_per_flow(),
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
