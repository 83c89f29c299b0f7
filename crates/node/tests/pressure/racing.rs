//! Packets that race: nobody waits for what caused them, on threads, with several workers, rings
//! and pools of any size, while the processor is taken away. What leaves is what the functions of
//! each element alone make of the packets in the order in which that element took them.

use crate::common::acting::{assert_all_acted, assert_share};
use crate::common::burners::Burners;
use crate::common::chains;
use crate::common::derived::{Capture, profiled};
use crate::common::headers_only::payloads_elsewhere;
use crate::common::racing::{Scarcity, race};
use crate::common::rows::tell;
use crate::common::trial::Tally;
use crate::common::{generate, service, traffic};
use std::cell::Cell;
use std::sync::LazyLock;
use std::time::Duration;
use twinpath_control::service::Service;
use twinpath_io::Trace;

/// Of each capture so many packets race.
const MANY: usize = 700;

/// The same where there is hardly any room.
const FEW: usize = 120;

/// The first packets of every capture, and of generated traffic of both IP versions.
fn shortened(packets: usize) -> Vec<Capture> {
    let captures = profiled()
        .iter()
        .map(|capture| (capture.name.as_str(), &capture.trace));
    let generated = generated();
    let all = captures.chain([("generated", &generated)]);
    all.map(|(name, trace)| Capture::of(name, &hurried(trace, packets)))
        .collect()
}

fn many() -> &'static [Capture] {
    static CAPTURES: LazyLock<Vec<Capture>> = LazyLock::new(|| shortened(MANY));
    &CAPTURES
}

fn few() -> &'static [Capture] {
    static CAPTURES: LazyLock<Vec<Capture>> = LazyLock::new(|| shortened(FEW));
    &CAPTURES
}

/// The first packets of a trace, one every microsecond: nothing times out while they race.
fn hurried(trace: &Trace, packets: usize) -> Trace {
    let mut hurried = Trace::new();
    for (number, frame) in (0..).zip(trace.iter().take(packets)) {
        hurried.push(1_000_000_000 + number * 1000, frame.frame);
    }
    hurried
}

fn generated() -> Trace {
    let text = "packets = 3000\nflows = 60\nchurn_per_minute = 30000.0\ntcp_share = 0.7\nreply_share = 0.5\n\
         arrivals = { process = \"poisson\", rate_pps = 20000.0 }\nfragment_share = 0.01\nicmp_error_share = 0.01\n\
         tcp = { out_of_order_share = 0.02, reset_share = 0.2 }\nhosts = { servers = 6, ipv6_share = 0.3 }\n";
    generate(&traffic(text), 9)
}

/// Chains, each with the function whose answers its packets are. A translation is in the last
/// element: what is in front of it knows the hosts inside.
const CHAINS: [(&[&str], Option<&str>); 6] = [
    (&["firewall", "reassembler"], None),
    (&["acl", "firewall", "monitor"], None),
    (&["acl", "napt", "monitor"], Some("napt")),
    (&["firewall", "napt"], Some("napt")),
    (&["load_balancer", "monitor"], Some("load_balancer")),
    (&["inspector", "acl"], None),
];

/// What came of all captures that raced through a chain.
#[derive(Copy, Clone, Debug, Default)]
struct Raced {
    /// Packets that left and that the slow path alone would not have put out for packets in the order of
    /// arrival.
    differing: usize,
    /// How often packets passed an element in the loop that serves nearly all of them.
    in_loop: usize,
    /// Payloads that waited elsewhere.
    payloads_elsewhere: u64,
    left: u64,
    lost: u64,
    on_fast_path: u64,
}

/// Lets all captures race through a chain. Where packets are lost, whether those that a function
/// would act on are among them is chance.
fn over(
    captures: &'static [Capture],
    chain: (&[&str], Option<&str>),
    workers: usize,
    scarcity: Scarcity,
    least_share: f64,
) -> Raced {
    over_varied(captures, chain, workers, scarcity, least_share, |_| ())
}

/// The same of a variant of each service.
fn over_varied(
    captures: &'static [Capture],
    (chain, answers): (&[&str], Option<&str>),
    workers: usize,
    scarcity: Scarcity,
    least_share: f64,
    vary: impl Fn(&mut Service),
) -> Raced {
    let raced = Cell::new(Raced::default());
    let tally = Tally::over(captures.iter(), (chain, answers), |trial| {
        let patient = "gap_timeout = \"1h\"\nidle_timeout = \"2h\"\n";
        let trial = trial.saying("reassembler", patient);
        let mut service = trial.service();
        if service.chain.iter().all(|function| !function.makes_rules()) {
            service.slow_path.workers = workers;
        }
        vary(&mut service);
        let reorders = chain.contains(&"reassembler");
        let (verdict, race) = trial.verdict_of_race(&service, scarcity, reorders);
        let (before, report) = (raced.get(), &race.report);
        raced.set(Raced {
            differing: before.differing + race.differs_from(&trial.slow(&service)),
            in_loop: before.in_loop + race.passed_in_loop(),
            payloads_elsewhere: before.payloads_elsewhere + payloads_elsewhere(report),
            left: before.left + report.totals.packets_out,
            lost: before.lost + report.lost(),
            on_fast_path: before.on_fast_path + report.fast.packets,
        });
        verdict
    });
    if scarcity.is_lossless {
        tally.assert_acted(chain, least_share);
    }
    raced.get()
}

/// Nothing is lost; without causality many packets differ from what the order of arrival gives.
#[test]
fn each_element_is_linearizable() {
    let (mut differing, mut in_loop) = (0, 0);
    for chain in CHAINS {
        let raced = over(many(), chain, 3, Scarcity::NONE, 0.05);
        assert!(raced.in_loop > 0, "{chain:?}: the loop is not raced");
        (differing, in_loop) = (differing + raced.differing, in_loop + raced.in_loop);
    }
    println!(
        "{differing} packets would differ in the order of arrival, {in_loop} passed in the loop"
    );
    assert!(differing > 0, "no race, no test");
}

/// The same of translations of prefixes and of IP versions, and of routers, behind and in front of
/// others.
#[test]
fn translations_and_routers_are_linearizable() {
    for chain in chains::all(3000) {
        let trace = hurried(&chain.trace, chain.trace.len());
        for (ring_frames, buffers) in [(1024, 1 << 14), (3, 40)] {
            let scarcity = Scarcity::of(ring_frames, buffers);
            let what = format!("{:?} {scarcity}", chain.functions);
            let race = race(&chain.service, &trace, scarcity);
            let logged = race.assert_linearizable(&chain.service, false, &what);
            race.assert_in_order(&what);
            println!("{what}: {} in the loop | {logged}", race.passed_in_loop());
            tell("generated", &race.report);
            assert!(race.passed_in_loop() > 0, "{what}: the loop is not raced");
            let outcome = race.outcome();
            assert_all_acted(&chain.service, &outcome, &what);
            // No rule makes a packet of one IP version one of the other.
            let is_crossed = chain.functions.contains(&"nat64");
            assert_share(&outcome, if is_crossed { 0.0 } else { 0.06 }, &what);
        }
    }
}

/// Chains that do without payloads, each with the function whose answers its packets are.
const WITHOUT_PAYLOADS: [(&[&str], Option<&str>); 3] = [
    (&["acl", "firewall", "monitor"], None),
    (&["acl", "napt", "monitor"], Some("napt")),
    (&["load_balancer", "monitor"], Some("load_balancer")),
];

/// The same while payloads wait elsewhere, and workers have headers alone.
#[test]
fn with_payloads_elsewhere() {
    let tables = ["[parking]\n", "[split]\nthreshold_bytes = 60\n"];
    for (chain, table) in WITHOUT_PAYLOADS
        .iter()
        .flat_map(|chain| tables.map(|table| (chain, table)))
    {
        let text = format!("[service]\nchain = [\"firewall\"]\n[firewall]\n{table}");
        let with = service(&text);
        let raced = over_varied(many(), *chain, 3, Scarcity::NONE, 0.05, |service| {
            (service.parking, service.split) = (with.parking.clone(), with.split.clone());
        });
        let waited = raced.payloads_elsewhere;
        assert!(waited > 100, "{chain:?} {table}: {waited} payloads waited");
    }
}

/// The same, however few may be under way to a worker, and the processor is taken away. One buffer
/// would not do: a packet may wait for what a message says.
#[test]
fn with_rings_and_pools_of_any_size() {
    let _burner = Burners::start(1);
    let sizes = [(1, 2), (2, 3), (3, 40), (1, 64), (7, 9)];
    for ((ring_frames, buffers), chain) in sizes.into_iter().zip(&CHAINS[1..]) {
        let scarcity = Scarcity::of(ring_frames, buffers);
        over(few(), *chain, 2, scarcity, 0.05);
    }
}

/// The same of all that is not lost where packets do not wait for room.
#[test]
fn what_is_not_lost() {
    let sizes = [
        (8, 128),
        (64, 256),
        (16, 96),
        (8, 1024),
        (16, 64),
        (64, 256),
    ];
    let (mut lost, mut told) = (0, Vec::new());
    for ((ring_frames, buffers), chain) in sizes.into_iter().zip(CHAINS) {
        let scarcity = Scarcity {
            is_lossless: false,
            // More than there is room for, and not all at once.
            ahead: Some(Duration::from_micros(100)),
            ..Scarcity::of(ring_frames, buffers)
        };
        let raced = over(many(), chain, 2, scarcity, 0.0);
        println!("{chain:?} {scarcity}: {raced:?}");
        told.push(raced);
        lost += raced.lost;
    }
    for raced in told {
        assert!(raced.left > 200 && raced.on_fast_path > 100, "{raced:?}");
    }
    assert!(lost > 100, "{lost} packets lost, no test");
}
