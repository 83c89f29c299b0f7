//! What it costs to spread packets over shards, in nanoseconds a packet.
//!
//! `cargo bench -p twinpath-benches --bench shards`; with `costs` it measures what the lab takes as times for
//! up to 64 shards, and writes `plans/measured/shards-costs.csv`. To find a packet's shard; to hand it over and take
//! it, both on one core, which is what all cores spend on it together; and what one shard hands to
//! another on a core of its own.

use std::hint::black_box;
use std::path::Path;
use std::time::{Duration, Instant};
use twinpath_benches::measured::Measured;
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
    if std::env::args().any(|argument| argument == "costs") {
        costs();
        return;
    }
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

/// What it costs one of so many shards to find a packet's shard, to give a burst to all others, and to take
/// one from all others. What the others do is not in it: they have cores of their own.
fn costs() {
    let mut measured = Measured::default();
    for shards in [2, 4, 8, 16, 32, 64] {
        for bytes in [60, 1514] {
            let [assign, give, take] = Group::new(shards, bytes).ns_each();
            if bytes == 60 {
                measured.add(format!("assign-{shards}"), assign);
            }
            // To give is to find, too.
            let give = (give - assign).max(0.1);
            measured.add(format!("give-{bytes}-{shards}"), give);
            measured.add(format!("take-{bytes}-{shards}"), take);
        }
    }
    measured
        .write("shards-costs")
        .expect("the table can be written");
}

/// Frames of a ring where there are many rings.
const SMALL_RING: usize = 128;
/// Bursts, of which the median counts.
const GROUP_ROUNDS: usize = 4001;

/// The first of several shards gives a burst to the others, and takes one from them.
struct Group {
    ends: Vec<Handoff>,
    pools: Vec<Pools>,
    partition: CurrentPartition,
    /// By number of the other, what the first has for it and it has for the first.
    given: Vec<Vec<Vec<u8>>>,
    taken: Vec<Vec<Vec<u8>>>,
}

impl Group {
    fn new(shards: u16, bytes: usize) -> Self {
        let mut partition = partition(FIREWALL, shards);
        let ends = Handoff::all(&partition, shards, SMALL_RING).expect("sockets");
        let count = usize::from(shards);
        let (mut given, mut taken) = (vec![Vec::new(); count], vec![Vec::new(); count]);
        // Enough that every shard has as many as are asked for.
        let flows = 8 * (BURST * count) as u64;
        let mut trace = Trace::with_payload(&vec![0; bytes - 54], flows as usize);
        trace.fill(&Plan::each_flow(flows));
        let others = count - 1;
        let share = |other: usize| BURST / others + usize::from(other <= BURST % others);
        let mut next = 1;
        for frame in trace.frames().iter() {
            let packet = frame.bytes().to_vec();
            match usize::from(partition.get().shard(&packet)) {
                0 if next < count => {
                    taken[next].push(packet);
                    next += usize::from(taken[next].len() == share(next));
                }
                0 => (),
                other if given[other].len() < share(other) => given[other].push(packet),
                _ => (),
            }
        }
        let whole = |of: &[Vec<Vec<u8>>]| of.iter().map(Vec::len).sum::<usize>();
        assert_eq!((whole(&given), whole(&taken)), (BURST, BURST));
        Self {
            ends,
            pools: (0..count).map(|_| Pools::new(4 * BURST, 1)).collect(),
            partition,
            given,
            taken,
        }
    }

    fn ns_each(&mut self) -> [f64; 3] {
        let rounds: Vec<[Duration; 3]> = (0..GROUP_ROUNDS).map(|_| self.round()).collect();
        [0, 1, 2].map(|what| {
            let mut times: Vec<Duration> = rounds.iter().map(|round| round[what]).collect();
            times.sort();
            ns_each(times[GROUP_ROUNDS / 2], BURST)
        })
    }

    fn round(&mut self) -> [Duration; 3] {
        let Self {
            ends,
            pools,
            partition,
            given,
            taken,
        } = self;
        let mut burst = Vec::with_capacity(BURST);
        for other in 1..ends.len() {
            burst.extend(fill(&taken[other], &mut pools[other]));
            ends[other].divide(0, &mut burst, &mut pools[other]);
        }
        for packets in given.iter() {
            burst.extend(fill(packets, &mut pools[0]));
        }
        let started = Instant::now();
        for frame in &burst {
            black_box(partition.get().shard(frame.bytes()));
        }
        let assigned = started.elapsed();
        let started = Instant::now();
        ends[0].divide(0, &mut burst, &mut pools[0]);
        let gave = started.elapsed();
        let started = Instant::now();
        ends[0].take_arrived(usize::MAX, &mut pools[0], &mut burst);
        let took = started.elapsed();
        assert_eq!(burst.len(), BURST, "all are handed over");
        burst.drain(..).for_each(|frame| pools[0].give(frame));
        for (end, pools) in ends.iter_mut().zip(pools.iter_mut()).skip(1) {
            end.take_arrived(usize::MAX, pools, &mut burst);
            burst.drain(..).for_each(|frame| pools.give(frame));
        }
        [assigned, gave, took]
    }
}

/// Packets in frames of a pool.
fn fill(packets: &[Vec<u8>], pools: &mut Pools) -> Vec<Frame> {
    let frames = packets.iter().map(|packet| pools.take_filled(packet));
    frames
        .map(|frame| frame.expect("there is a buffer"))
        .collect()
}
