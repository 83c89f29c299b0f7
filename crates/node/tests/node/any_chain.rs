//! Server-only is the oracle for any chain of production's functions, with any configuration of each,
//! whatever packets come: the slow path alone against both paths, with caches of every size and none, a
//! ring of every size, and bursts of every size.

mod packets;
mod services;

use crate::common::Outcome;
use crate::common::rows::tell;
use crate::common::sharded::{run_shards, spread};
use crate::common::trial::assert_equal;
use crate::common::world::causal::CausalRun;
use crate::common::world::{Mishaps, World};
use packets::{Event, Wire, any_events};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use services::{AnyService, Choices, any_service};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;
use twinpath_control::service::{Execution, Paths, Service};
use twinpath_core::Instant;
use twinpath_core::wire::{Endpoint, PacketBuilder};
use twinpath_io::{CaptureWriter, Trace};
use twinpath_node::source::{Read, Source};
use twinpath_node::watch::TraceStep;
use twinpath_node::wiring::causality;

/// How a run is driven.
#[derive(Copy, Clone, Debug)]
struct Drive {
    burst_size: usize,
    under_way: usize,
}

fn any_drive() -> impl Strategy<Value = Drive> {
    let burst_size = prop_oneof![Just(1), 1..100usize];
    (burst_size, 0..8usize).prop_map(|(burst_size, under_way)| Drive {
        burst_size,
        under_way,
    })
}

/// For how long nobody sends, at most.
fn longest_gap(any: &AnyService) -> Duration {
    match any.names_must_last() {
        true => Duration::from_millis(1),
        false => Duration::MAX,
    }
}

/// For how long functions may hold a packet, one after the other. What is held crosses with what the
/// other end sends meanwhile, and between these no order is owed: so here the one leaves before the
/// other comes.
fn longest_hold(any: &AnyService) -> Duration {
    let by_limiter = 1_001_000 * any.text.matches("excess = \"delay\"").count();
    let window = match any.names_must_last() {
        true => 400,
        false => 11_000,
    };
    let reframers = any.chain.iter().filter(|name| **name == "reframer").count();
    Duration::from_micros((by_limiter + window * reframers) as u64)
}

/// A packet as it came: when, by which port, and what it is.
type Sent = (Instant, u16, Vec<u8>);

fn run(
    any: &AnyService,
    service: &Service,
    events: &[Event],
    paths: Paths,
    drive: Drive,
    mut send: impl FnMut(Sent),
) -> (Outcome, BTreeSet<u64>) {
    let world = World::new(service, paths, Mishaps::default());
    let causality = causality(service).expect("a good service");
    let Drive {
        burst_size,
        under_way,
    } = drive;
    let mut run = CausalRun::new(world, causality, any.ring_frames, burst_size, under_way);
    let (mut wire, mut at) = (Wire::before(&any.chain), Instant(1_000_000_000));
    let hold = longest_hold(any);
    for (number, event) in (0..).zip(events) {
        at = at + event.gap.min(longest_gap(any));
        if !hold.is_zero() && wire.turns(event) {
            at = at + hold;
            run.let_go_until(at);
        }
        if let Some(seen) = wire.seen(event) {
            run.wait_for(seen + 1);
            if !run.world.left.contains_key(&seen) {
                // A function has dropped it, or keeps it until some other packet comes.
                run.settle();
            }
        }
        // ICMP errors and fragments race with the flow that they belong to, as on a wire: here they
        // come alone.
        if event.races_with_flow() {
            run.settle();
        }
        let packet = wire.packet(number, event, &run.world.left);
        run.packet(number, at, event.port(), &packet);
        send((at, event.port(), packet));
        if event.races_with_flow() {
            run.settle();
        }
    }
    run.finish()
}

/// What the fast path did in runs of any chains.
#[derive(Default)]
struct Cached {
    packets: u64,
    on_fast_path: u64,
    /// Packets that met a rule, once for each element.
    hits: u64,
    /// State of flows that it was granted.
    granted: u64,
}

impl Cached {
    fn add(&mut self, both: &Outcome) {
        let report = &both.report;
        self.packets += report.totals.packets_in;
        self.on_fast_path += report.fast.packets;
        self.hits += report.rules.total.table.hits;
        self.granted += report.coherence.pulls_granted;
    }

    /// Much of what it settles of any packets it drops in front of all functions: so rules must have been
    /// met and state granted, too, for so many of a hundred packets.
    fn assert_did(&self, least_hits: f64, least_granted: f64) {
        println!("{self}");
        let hits = percent(self.hits, self.packets);
        assert!(hits >= least_hits, "rules: {hits}, least {least_hits}");
        let granted = percent(self.granted, self.packets);
        assert!(
            granted >= least_granted,
            "state: {granted}, least {least_granted}"
        );
    }
}

impl fmt::Display for Cached {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "{:>7} packets, {:>5.1} % on the fast path; in a hundred {:>5.1} rules met and {:>4.1} times state granted",
            self.packets,
            percent(self.on_fast_path, self.packets),
            percent(self.hits, self.packets),
            percent(self.granted, self.packets)
        )
    }
}

/// What the whole test has seen.
#[derive(Default)]
struct Totals {
    chains: u64,
    cached: Cached,
    /// By function: what was seen of chains that have it.
    functions: BTreeMap<&'static str, Function>,
}

#[derive(Default)]
struct Function {
    chains: u64,
    cached: Cached,
    counters: BTreeMap<String, u64>,
}

impl Totals {
    fn add(&mut self, any: &AnyService, slow: &Outcome, both: &Outcome) {
        self.chains += 1;
        self.cached.add(both);
        for (function, counted) in any.chain.iter().zip(&slow.report.functions) {
            let own = self.functions.entry(function).or_default();
            own.chains += 1;
            own.cached.add(both);
            for (name, count) in &counted.counters {
                *own.counters.entry(name.clone()).or_default() += count;
            }
        }
    }

    fn all_acted(&self) {
        for (name, counters, least) in ACTS {
            let function = self
                .functions
                .get(name)
                .unwrap_or_else(|| panic!("no chain has {name}"));
            for counter in counters {
                let count = function.counters.get(*counter).copied();
                assert!(count > Some(0), "{name} did nothing of {counter}");
            }
            match (services::makes_rules(name), least) {
                (_, None) => {}
                (true, Some(least)) => function.cached.assert_did(least, 0.0),
                (false, Some(least)) => function.cached.assert_did(0.0, least),
            }
        }
    }

    fn print(&self) {
        println!("{} chains, {}", self.chains, self.cached);
        for (name, function) in &self.functions {
            let counted = function.counters.iter().filter(|(name, count)| {
                **count > 0
                    && !name.contains("bytes")
                    && !name.contains(|c: char| c.is_ascii_digit())
            });
            let counted: Vec<_> = counted
                .map(|(name, count)| format!("{name} {count}"))
                .collect();
            println!(
                "{name:<14} {:>4} times, {} | {}",
                function.chains,
                function.cached,
                counted.join(", ")
            );
        }
    }
}

/// What tells that a function has acted, and of a hundred packets of chains with it, how often one met a rule
/// or the fast path was granted a flow's state, whichever is its way, at least: half of the least that was
/// seen for fourteen seeds. Tables of one rule and none at all are among them. All packets wait in a reframer
/// on the slow path.
const ACTS: [(&str, &[&str], Option<f64>); 14] = [
    ("acl", &["allowed", "denied"], Some(5.5)),
    (
        "firewall",
        &[
            "connections_opened",
            "packets_denied",
            "icmp_errors_related",
        ],
        Some(10.0),
    ),
    ("inspector", &["alerts", "bans"], Some(8.0)),
    ("kv_store", &["gets", "puts", "deletes"], Some(0.3)),
    (
        "load_balancer",
        &["new_connections", "errors_translated"],
        Some(8.5),
    ),
    ("monitor", &["packets", "flows_ended"], Some(3.5)),
    (
        "napt",
        &[
            "bindings_created",
            "errors_translated",
            "fragments_translated",
            "unsolicited",
        ],
        Some(5.5),
    ),
    ("nat64", &["translated_out"], Some(3.0)),
    ("nptv6", &["translated_out"], Some(4.0)),
    (
        "rate_limiter",
        &["conforming", "delayed", "released", "dropped"],
        Some(11.5),
    ),
    ("reframer", &["packets", "full_runs"], None),
    (
        "telemetry",
        &["records_started", "records_ended"],
        Some(7.0),
    ),
    (
        "reassembler",
        &["held", "gaps_closed", "gaps_timed_out", "retransmissions"],
        Some(5.0),
    ),
    (
        "router",
        &["forwarded", "no_route", "expired", "errors_sent"],
        Some(4.0),
    ),
];

/// What left one of two runs only, for the message of a failure; answers of functions may have other
/// numbers and be the same.
fn told<'a>(events: &[Event], numbers: impl Iterator<Item = &'a u64>) -> String {
    let numbers = numbers.take(3);
    let packets: Vec<_> = numbers
        .map(|&number| format!("packet {number} ({:?})", events[number as usize]))
        .collect();
    format!("any chain, in one run alone {packets:?}")
}

fn percent(part: u64, of: u64) -> f64 {
    100.0 * part as f64 / of.max(1) as f64
}

/// So many cases, unless the environment asks for more, as who searches does.
fn cases(usual: u32) -> u32 {
    let asked = std::env::var("PROPTEST_CASES").ok();
    asked.and_then(|cases| cases.parse().ok()).unwrap_or(usual)
}

#[test]
fn both_paths_give_what_the_slow_path_alone_give() {
    let seen = RefCell::new(Totals::default());
    let config = ProptestConfig {
        cases: cases(200),
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    let cases = (any_service(any::<bool>()), any_events(), any_drive());
    let outcome = TestRunner::new(config).run(&cases, |(any, events, drive)| {
        let service = any.parsed();
        let (slow, left_slow) = run(&any, &service, &events, Paths::Slow, drive, |_| ());
        let (both, left_both) = run(&any, &service, &events, Paths::Both, drive, |_| ());
        let what = told(&events, left_slow.symmetric_difference(&left_both));
        let drops = [&slow, &both].map(|run| &run.report.drops);
        let what = format!("{what}, drops {drops:?}");
        let external = (any.has("napt") || any.has("nat64")).then_some(services::EXTERNAL);
        assert_equal(&service, &slow, &both, external, &what);
        tell("generated", &both.report);
        seen.borrow_mut().add(&any, &slow, &both);
        Ok(())
    });
    let seen = seen.into_inner();
    seen.print();
    if let Err(error) = outcome {
        panic!("{error}");
    }
    seen.all_acted();
}

/// Chains in which there is room for all, and the least share of packets that the fast path settles in
/// each, in percent: two thirds of the least that it did for fourteen seeds. A store's requests are too few
/// here; `oracle_derived.rs` has its share. All packets wait in a reframer, on the slow path.
const SHARES: [(&[&str], f64); 20] = [
    (&["acl"], 38.0),
    (&["monitor"], 28.0),
    (&["napt"], 38.0),
    (&["nptv6"], 38.0),
    (&["nat64"], 28.0),
    (&["router"], 36.0),
    (&["firewall"], 29.0),
    (&["reassembler"], 33.0),
    (&["inspector"], 36.0),
    (&["load_balancer"], 42.0),
    (&["rate_limiter"], 45.0),
    (&["telemetry"], 54.0),
    (&["acl", "monitor", "acl"], 28.0),
    (&["acl", "firewall", "monitor"], 19.0),
    (&["firewall", "napt", "router"], 20.0),
    (&["firewall", "napt", "load_balancer"], 20.0),
    (&["firewall", "reassembler", "inspector"], 22.0),
    (&["acl", "nptv6", "monitor", "router"], 30.0),
    (&["firewall", "rate_limiter", "napt"], 20.0),
    (&["acl", "telemetry", "monitor"], 28.0),
];

/// Event lists for each chain.
const FOR_EACH_CHAIN: u32 = 12;

/// Packets follow each other within this time there: state and rules of flows that are silent for longer
/// than they live are not on the fast path.
const LONGEST_SILENCE: Duration = Duration::from_micros(200);

#[test]
fn each_chain_has_its_share_of_the_fast_path() {
    let mut below = Vec::new();
    for (chain, least) in SHARES {
        let any = services::roomy(chain);
        let service = any.parsed();
        let sums = Cell::new((0, 0));
        let config = ProptestConfig {
            cases: FOR_EACH_CHAIN,
            failure_persistence: None,
            ..ProptestConfig::default()
        };
        let outcome =
            TestRunner::new(config).run(&(any_events(), any_drive()), |(mut events, drive)| {
                events.retain(|event| event.is_usual());
                for event in &mut events {
                    event.gap = event.gap.min(LONGEST_SILENCE);
                }
                let (slow, _) = run(&any, &service, &events, Paths::Slow, drive, |_| ());
                let (both, _) = run(&any, &service, &events, Paths::Both, drive, |_| ());
                let external = (any.has("napt") || any.has("nat64")).then_some(services::EXTERNAL);
                assert_equal(&service, &slow, &both, external, &format!("{chain:?}"));
                tell("generated", &both.report);
                let (packets, fast) = sums.get();
                // Of those that entered the chain.
                let settled = both.report.fast.packets;
                let more = (settled + both.report.slow.packets, settled);
                sums.set((packets + more.0, fast + more.1));
                Ok(())
            });
        if let Err(error) = outcome {
            panic!("{chain:?}: {error}");
        }
        let (packets, fast) = sums.get();
        let share = percent(fast, packets);
        println!("{chain:?}: {share:.1} % of {packets} on the fast path, at least {least} %");
        if share < least {
            below.push((chain, share, least));
        }
    }
    assert!(below.is_empty(), "{below:?}");
}

/// Any service over several shards: what leaves is what the slow path of one node puts out.
/// Translations that give out ports are compared in `shards.rs`.
#[test]
fn shards_give_what_one_node_gives() {
    let config = ProptestConfig {
        cases: cases(60),
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    let shards = prop::sample::select(vec![2, 4]);
    let cases = (any_service(Just(false)), any_events(), shards);
    let (spread_over, cached) = (Cell::new(0), RefCell::new(Cached::default()));
    let outcome = TestRunner::new(config).run(&cases, |(any, mut events, shards)| {
        if any.has("napt") || any.has("nat64") {
            return Ok(());
        }
        events.retain(|event| !event.races_with_flow());
        let any = any.without_limits();
        let service = any.parsed();
        let trace = capture(&any, &service, &events);
        let _failure = Failure(any.text.clone(), &trace);
        let slow = crate::common::run(&service, &trace, Paths::Slow, Execution::Virtual);
        let found = run_shards(&spread(&service, shards, Execution::Virtual), &trace);
        let what = format!("{shards} shards, {events:?}");
        assert_equal(&service, &slow, &found.outcome, None, &what);
        let busy = found.arrived.iter().filter(|arrived| **arrived > 0).count();
        spread_over.set(spread_over.get() + usize::from(busy > 1));
        tell("generated", &found.outcome.report);
        cached.borrow_mut().add(&found.outcome);
        Ok(())
    });
    if let Err(error) = outcome {
        panic!("{error}");
    }
    println!("{} runs over several shards", spread_over.get());
    assert!(spread_over.get() > 0);
    cached.borrow().assert_did(1.0, 6.5);
}

/// Packets as a capture has them: those that a run of the slow path alone was sent. Of a translation
/// nobody knows which ports it gives out next time: behind it answers are to nobody that it knows.
fn capture(any: &AnyService, service: &Service, events: &[Event]) -> Trace {
    let mut trace = Trace::new();
    let mut keep = |(at, _, bytes): Sent| trace.push(at.0, &bytes);
    if any.has("napt") {
        let (mut wire, mut at) = (Wire::before(&any.chain), Instant(1_000_000_000));
        for (number, event) in (0..).zip(events) {
            at = at + event.gap;
            keep((at, 0, wire.packet(number, event, &BTreeMap::new())));
        }
    } else {
        let (burst_size, under_way) = (1, 0);
        let drive = Drive {
            burst_size,
            under_way,
        };
        run(any, service, events, Paths::Slow, drive, keep);
    }
    trace
}

/// What is left of a failure: its service and its capture, which can be traced.
struct Failure<'a>(String, &'a Trace);

impl Drop for Failure<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let folder = services::folder();
            std::fs::write(folder.join("failure.toml"), &self.0).expect("a file for tests");
            let mut writer = CaptureWriter::create(folder.join("failure.pcap")).expect("a capture");
            for frame in self.1.iter() {
                let written = writer.write(frame.timestamp_ns, frame.frame);
                written.expect("a packet is written");
            }
            writer.finish().expect("a capture ends");
        }
    }
}

/// The packets of a run of a DPU's connections, some of them broken.
fn to_a_dpu(service: &Service, seed: u64) -> Vec<Sent> {
    let traffic = service.traffic.as_ref().expect("it has traffic");
    let mut source = Source::generator(traffic, service).expect("traffic");
    let (mut packets, mut draws) = (Vec::new(), Choices(seed));
    while let Read::Packet(at) = source.read().expect("traffic") {
        let mut packet = source.bytes().to_vec();
        if draws.below(40) == 0 {
            let place = draws.below(packet.len() as u64) as usize;
            packet[place] ^= 1 << draws.below(8);
        }
        packets.push((at, 0, packet));
    }
    packets
}

/// A DPU with any settings, and any connections of its ENIs in tunnels, of both IP versions, with
/// fragments, segments in any order, resets and broken packets.
#[test]
fn a_dpu_gives_what_the_slow_path_alone_gives() {
    let config = ProptestConfig {
        cases: cases(60),
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    let cases = (any::<u64>(), any::<u64>(), any_drive());
    let (fast, all, dropped) = (Cell::new(0), Cell::new(0), Cell::new(0));
    let outcome = TestRunner::new(config).run(&cases, |(seed, settings, drive)| {
        let (text, service) = services::any_dpu(settings, seed);
        let packets = to_a_dpu(&service, seed);
        let outcome = |paths| {
            let world = World::new(&service, paths, Mishaps::default());
            let causality = causality(&service).expect("a good service");
            let (ring, burst) = (service.link.ring_frames, drive.burst_size);
            let mut run = CausalRun::new(world, causality, ring, burst, drive.under_way);
            for (number, (at, port, packet)) in (0..).zip(&packets) {
                run.packet(number, *at, *port, packet);
            }
            run.finish().0
        };
        let (slow, both) = (outcome(Paths::Slow), outcome(Paths::Both));
        let drops = [&slow, &both].map(|run| &run.report.drops);
        let what = format!("a DPU, drops {drops:?}: {text}");
        assert_equal(&service, &slow, &both, None, &what);
        tell("generated", &both.report);
        let totals = &both.report.totals;
        fast.set(fast.get() + both.report.fast.packets);
        all.set(all.get() + totals.packets_in);
        dropped.set(dropped.get() + totals.packets_in - totals.packets_out);
        Ok(())
    });
    if let Err(error) = outcome {
        panic!("{error}");
    }
    let share = percent(fast.get(), all.get());
    println!(
        "{share:.1} % of {} on the fast path, {} dropped",
        all.get(),
        dropped.get()
    );
    assert!(share > 10.0 && dropped.get() > 0);
}

/// A fragment finds its flow in front of each element, on the fast path, also where everything else is on
/// the slow one. Whole packets of its flow that come behind it do not overtake it meanwhile; when it has left
/// they walk on at the worker.
#[test]
fn whole_packets_do_not_overtake_fragments_between_elements() {
    let chain = ["acl", "firewall", "monitor"];
    let service = services::roomy(&chain).parsed();
    let from = Endpoint::v4([10, 0, 0, 1], 1000);
    let to = Endpoint::v4([192, 0, 2, 1], 53);
    let datagram = || PacketBuilder::udp(from, to).payload_len(96);
    let first = datagram().identification(7).fragment(0, true);
    let later = datagram().identification(7).fragment(800, false);
    let (whole, mut trace) = (datagram().to_vec().expect("short"), Trace::new());
    for packet in [first, later] {
        trace.push(1_000_000_000, &packet.to_vec().expect("short"));
    }
    for _ in 2..6 {
        trace.push(1_000_000_000, &whole);
    }
    let mut whole_alone = Trace::new();
    (0..6).for_each(|_| whole_alone.push(1_000_000_000, &whole));
    for paths in [Paths::Slow, Paths::Both] {
        let (order, met) = order_and_meetings(&service, paths, &trace);
        assert_eq!(order, [0, 1, 2, 3, 4, 5], "{paths:?}");
        assert_eq!(
            met,
            [chain.len(); 6],
            "{paths:?}: fragments, and who waits for them"
        );
    }
    let (_, met) = order_and_meetings(&service, Paths::Slow, &whole_alone);
    assert_eq!(met, [1; 6], "without fragments they walk on at the worker");
}

/// In which order packets that come together leave, and how often each met an element on the fast path.
fn order_and_meetings(service: &Service, paths: Paths, trace: &Trace) -> (Vec<u64>, Vec<usize>) {
    let mut world = World::new(service, paths, Mishaps::default());
    let watch = world.node.watch(0..u64::MAX);
    world.run_in_bursts(trace, trace.len());
    let order = world.order.iter().map(|(number, _)| *number);
    let mut met = vec![0; trace.len()];
    for (number, step) in watch.take() {
        met[number as usize] += usize::from(matches!(step, TraceStep::Meet(_)));
    }
    (order.collect(), met)
}

/// Nor do they where the rules of their flow are cached, which no fragment meets: they wait for it there.
#[test]
fn whole_packets_that_meet_rules_do_not_overtake_fragments() {
    const AT_ONCE: usize = 6;
    let service = services::roomy(&["acl", "firewall", "monitor"]).parsed();
    let from = Endpoint::v4([10, 0, 0, 1], 1000);
    let to = Endpoint::v4([192, 0, 2, 1], 53);
    let datagram = || PacketBuilder::udp(from, to).payload_len(96);
    let whole = datagram().to_vec().expect("short");
    let mut trace = Trace::new();
    for burst in 0..200u32 {
        let mut packets = vec![whole.clone(); AT_ONCE];
        // Before that rules are made.
        if burst >= 100 {
            let place = burst as usize % (AT_ONCE - 2);
            for (number, (offset, more)) in [(0, true), (800, false)].into_iter().enumerate() {
                let part = datagram().identification(burst).fragment(offset, more);
                packets[place + number] = part.to_vec().expect("short");
            }
        }
        let at = 1_000_000_000 + u64::from(burst) * 5_000_000;
        packets.iter().for_each(|packet| trace.push(at, packet));
    }
    let mut world = World::new(&service, Paths::Both, Mishaps::default());
    world.run_in_bursts(&trace, AT_ONCE);
    let order: Vec<_> = world.order.iter().map(|(number, _)| *number).collect();
    assert_eq!(order.len(), trace.len());
    let overtaken = order.windows(2).find(|pair| pair[0] > pair[1]);
    assert_eq!(overtaken, None);
    let fast = world.node.machine.path().counters().fast_packets;
    assert!(fast > order.len() as u64 / 4, "{fast} on the fast path");
}

/// In virtual time a link's round trip is as long as time-outs, or longer, and timers of functions
/// and the ends of runs find packets anywhere.
#[test]
fn both_paths_give_the_same_in_virtual_time() {
    let config = ProptestConfig {
        cases: cases(100),
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    let round_trip = prop::sample::select(vec!["4us", "100us", "5ms", "120ms", "1s"]);
    let cases = (any_service(Just(false)), any_events(), round_trip);
    let (timed_out, cached) = (Cell::new(0), RefCell::new(Cached::default()));
    let outcome = TestRunner::new(config).run(&cases, |(any, mut events, round_trip)| {
        // These race with their flows.
        events.retain(|event| !event.races_with_flow());
        // What is forgotten of whom makes room for others, and when it is follows from what is under way.
        let any = any.without_limits().over_link(round_trip);
        let service = any.parsed();
        let trace = capture(&any, &service, &events);
        let _failure = Failure(any.text.clone(), &trace);
        let outcome = |paths| {
            let mut outcome = crate::common::run(&service, &trace, paths, Execution::Virtual);
            outcome.packets.sort_by_key(|(at, _)| *at);
            outcome
        };
        let (slow, both) = (outcome(Paths::Slow), outcome(Paths::Both));
        let drops = [&slow, &both].map(|run| &run.report.drops);
        let what = format!("any chain over {round_trip} {events:?}, drops {drops:?}");
        let external = any.has("napt").then_some(services::EXTERNAL);
        assert_equal(&service, &slow, &both, external, &what);
        tell("generated", &both.report);
        cached.borrow_mut().add(&both);
        for function in &slow.report.functions {
            let count = function.counters.get("gaps_timed_out");
            timed_out.set(timed_out.get() + count.copied().unwrap_or(0));
        }
        Ok(())
    });
    if let Err(error) = outcome {
        panic!("{error}");
    }
    assert!(timed_out.get() > 0, "no gap was given up");
    cached.borrow().assert_did(2.5, 6.0);
}
