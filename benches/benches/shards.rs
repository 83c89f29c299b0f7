//! What it costs to spread packets over shards, in nanoseconds a packet.
//!
//! `cargo bench -p twinpath-benches --bench shards`. To find a packet's shard; to hand it over and take
//! it, both on one core, which is what all cores spend on it together; and what one shard hands to
//! another on a core of its own.

use std::hint::black_box;
use std::path::Path;
use twinpath_benches::packets::{Plan, Spread, Trace};
use twinpath_benches::table::{median, ns_each, row};
use twinpath_control::service::Service;
use twinpath_core::{Frame, Pools};
use twinpath_node::shards::{CurrentPartition, Handoff};

const ROUNDS: usize = 5;
const SHARDS: u16 = 64;
const BURST: usize = 64;
const RING: usize = 4096;

const FIREWALL: &str = "[service]\nchain = [\"firewall\"]\n[firewall]\ndefault = \"allow\"\n";
const GATEWAY: &str = "[service]\nchain = [\"firewall\", \"napt\", \"load_balancer\"]\ninside = [\"11.0.0.0/8\"]\n\
    [firewall]\ndefault = \"allow\"\n\
    [napt]\ninside = [\"11.0.0.0/8\"]\nexternal = [\"192.0.2.1\"]\n\
    [load_balancer]\nservices = [{ vip = \"10.255.0.1:80\", protocol = \"tcp\", backends = [{ endpoint = \"10.254.0.1:8080\" }] }]\n";

fn main() {
    // `cargo bench -- --test` only wants to know that it runs.
    let is_test = std::env::args().any(|argument| argument == "--test");
    let packets = if is_test { 2_000 } else { 1_000_000 };
    let plan = Plan::new(packets, 32_000.min(packets as u64), Spread::Uniform, 0.0, 1);
    println!("spreading over {SHARDS} shards, {packets} packets of 32000 flows\n");
    for (what, text) in [("a firewall", FIREWALL), ("a gateway", GATEWAY)] {
        let ns = assigning(&mut partition(text, SHARDS), &plan);
        row(&format!("to find the shard of a packet, {what}"), ns, None);
    }
    for bytes in [60, 1514] {
        let ns = handing_over(&plan, bytes);
        let what = format!("to find it, hand over and take, {bytes} bytes, one core");
        row(&what, ns, None);
    }
}

fn partition(text: &str, shards: u16) -> CurrentPartition {
    let service = Service::parse(text, Path::new("bench.toml")).expect("sound");
    CurrentPartition::of(&service, shards).expect("no files")
}

fn assigning(partition: &mut CurrentPartition, plan: &Plan) -> f64 {
    let mut trace = Trace::new(plan.len());
    let time = median(
        ROUNDS,
        &mut trace,
        |trace| trace.fill(plan),
        |trace| {
            for frame in trace.frames().iter() {
                black_box(partition.get().shard(frame.bytes()));
            }
        },
    );
    ns_each(time, plan.len())
}

/// The first of two shards receives, and the second takes what is its own.
struct Pair {
    ends: [Handoff; 2],
    pools: [Pools; 2],
    taken: Vec<Frame>,
}

fn handing_over(plan: &Plan, bytes: usize) -> f64 {
    let partition = partition(FIREWALL, 2);
    let ends = Handoff::all(&partition, 2, RING).expect("sockets");
    let Ok(ends) = <[Handoff; 2]>::try_from(ends) else {
        unreachable!("two were asked for");
    };
    let mut pair = Pair {
        ends,
        pools: [Pools::new(2 * RING, 1), Pools::new(2 * RING, 1)],
        taken: Vec::new(),
    };
    let mut trace = Trace::with_payload(&vec![0; bytes - 54], BURST.min(plan.len()));
    let mut chooses = partition.clone();
    // Of the flows, those of the other shard.
    trace.fill(&Plan::each_flow(BURST as u64));
    let packets: Vec<Vec<u8>> = trace
        .frames()
        .iter()
        .map(|frame| frame.bytes().to_vec())
        .collect();
    let others = packets
        .into_iter()
        .filter(|packet| chooses.get().shard(packet) == 1);
    let others: Vec<_> = others.collect();
    let rounds = plan.len() / others.len();
    let time = median(
        ROUNDS,
        &mut pair,
        |_| (),
        |pair| (0..rounds).for_each(|_| pair.hand_over(&others)),
    );
    ns_each(time, rounds * others.len())
}

impl Pair {
    fn hand_over(&mut self, packets: &[Vec<u8>]) {
        let Self { ends, pools, taken } = self;
        let [one, two] = ends;
        let [pools_of_one, pools_of_two] = pools;
        taken.extend(
            packets
                .iter()
                .filter_map(|packet| pools_of_one.take_filled(packet)),
        );
        one.divide(0, taken, pools_of_one);
        two.take_arrived(usize::MAX, pools_of_two, taken);
        assert_eq!(taken.len(), packets.len(), "all are handed over");
        taken.drain(..).for_each(|frame| pools_of_two.give(frame));
    }
}
