//! Whoever follows packets changes nothing: the walk that is told is the one that all packets take.

use crate::common::{balanced_traffic_of, generate, inspected_traffic, service, traffic};
use std::collections::{BTreeMap, BTreeSet};
use twinpath_control::live::Live;
use twinpath_control::report::Report;
use twinpath_control::service::{Paths, Service};
use twinpath_core::wire::{Endpoint, PacketBuilder};
use twinpath_io::Trace;
use twinpath_node::observe::Observer;
use twinpath_node::sink::Sink;
use twinpath_node::source::Source;
use twinpath_node::trace::trace_packet;
use twinpath_node::virtual_time::VirtualRun;
use twinpath_node::watch::{SlowLook, TableLookup, TraceStep, Watch};
use twinpath_node::{Departure, Node, build, wiring};

const BALANCED: &str = "[load_balancer]\nservices = [{ vip = \"10.255.0.1:80\", protocol = \"tcp\", backends = [\
    { endpoint = \"10.254.0.1:8080\" }, { endpoint = \"10.254.0.2:8080\", weight = 3 }] }]\n";

const RULES: &str = r#"
[acl]
default = "allow"
rules = [
    { action = "deny", protocol = "udp", to_port = "137-139" },
    { action = "deny", from = "10.0.0.0/29", protocol = "udp" },
]
[napt]
inside = ["10.0.0.0/8", "192.168.0.0/16"]
external = ["198.51.100.1", "198.51.100.2"]
[router]
address = "192.0.2.254"
address6 = "2001:db8::254"
next_hops = [{ name = "uplink", mac = "02:00:00:00:01:01", source_mac = "02:00:00:00:00:01", port = 1 }]
routes = [{ to = "0.0.0.0/0", via = "uplink" }, { to = "::/0", via = "uplink" }]
[firewall]
default = "allow"
rules = [{ action = "deny", protocol = "udp", to_port = "53" }]
[rule_cache]
window = "10ms"
threshold = 0
"#;

/// What a run came to.
struct Ran {
    left: Vec<(u64, Option<u16>, Vec<u8>)>,
    report: Report,
    steps: Vec<(u64, TraceStep)>,
}

#[derive(Default)]
struct Leaving(Vec<(u64, Option<u16>, Vec<u8>)>);

impl Sink for Leaving {
    fn packet(&mut self, departure: &Departure) -> Result<(), twinpath_io::CaptureError> {
        let frame = &departure.frame;
        let (at, egress) = (frame.timestamp().0, frame.metadata().egress);
        self.0.push((at, egress, frame.bytes().to_vec()));
        Ok(())
    }
}

fn ran(service: &Service, trace: &Trace, watch: impl FnOnce(&mut Node) -> Option<Watch>) -> Ran {
    let mut node = build(service, service.run.paths).expect("a sound service");
    let watch = watch(&mut node);
    let (mut sink, mut observer) = (Leaving::default(), Observer::new(Live::hidden()));
    let round_trip = service.link.round_trip.duration();
    let causality = wiring::causality(service).expect("a sound service");
    let packet_time = VirtualRun::new(&mut node, &mut sink, &mut observer, round_trip)
        .run(&mut Source::trace(crate::common::copy(trace)), causality)
        .expect("memory never fails");
    let mut report = Report::default();
    let (machine, workers) = (&node.machine, &node.workers);
    observer.finish(
        packet_time.as_nanos() as u64,
        0,
        machine,
        workers,
        &mut report,
    );
    Ran {
        left: sink.0,
        report,
        steps: watch.map_or_else(Vec::new, |watch| watch.take()),
    }
}

/// The names of a packet's steps, in order.
fn names(steps: &[TraceStep]) -> Vec<&'static str> {
    steps.iter().map(TraceStep::name).collect()
}

/// What may follow a step, as `fast_path/walk.rs`, `fast_path/fragments.rs` and `worker/mod.rs` have it.
fn may_follow(step: &'static str) -> &'static [&'static str] {
    match step {
        "look_ahead" => &["meet", "hold", "gather", "drop", "put_out"],
        "meet" => &[
            "meet",
            "hold",
            "gather",
            "punt",
            "drop",
            "put_out",
            "hold_back",
            "merge",
        ],
        // A fragment that waited for the first of its datagram meets the element behind that, or is given up.
        "hold" => &["go_on", "meet", "gather", "punt", "drop"],
        "punt" => &["park", "split", "receive", "drop"],
        "park" | "split" => &["receive", "drop"],
        "receive" => &["receive", "resume", "release", "returned", "drop"],
        "resume" => &["receive", "returned", "drop"],
        "gather" | "release" => &["drop"],
        "returned" => &["go_on", "put_out", "drop"],
        "go_on" => &[
            "meet",
            "hold",
            "gather",
            "put_out",
            "hold_back",
            "merge",
            "drop",
        ],
        "hold_back" => &["pass_parking", "merge", "drop"],
        "pass_parking" | "merge" => &["put_out"],
        _ => &[],
    }
}

/// The same where the loop that serves a lane is followed: it tells that packets passed an element, and nothing of
/// those that it leaves to others.
fn may_follow_in_loop(step: &'static str, next: &'static str) -> bool {
    let before = if step == "pass" { "meet" } else { step };
    let follows = may_follow(before);
    let meets = follows.contains(&"meet");
    follows.contains(&next) || meets && (next == "pass" || may_follow("meet").contains(&next))
}

/// By packet, all of its steps; each must follow the one before in the walk.
fn walks(
    steps: Vec<(u64, TraceStep)>,
    follows: impl Fn(&'static str, &'static str) -> bool,
    what: &str,
) -> BTreeMap<u64, Vec<TraceStep>> {
    let mut walks = BTreeMap::<u64, Vec<TraceStep>>::new();
    for (ordinal, step) in steps {
        let walk = walks.entry(ordinal).or_default();
        match walk.last() {
            None => assert_eq!(step.name(), "look_ahead", "{what}: packet {ordinal}"),
            Some(before) => assert!(
                follows(before.name(), step.name()),
                "{what}: packet {ordinal}: {:?}, {}",
                names(walk),
                step.name()
            ),
        }
        walk.push(step);
    }
    walks
}

/// Runs a service with and without somebody who follows all packets: what leaves, when, by which
/// port, what is dropped, and every counter is the same, and every packet's steps are told to its
/// end. Returns the walks.
fn compare(text: &str, trace: &Trace) -> BTreeMap<u64, Vec<TraceStep>> {
    let follows = |step, next| may_follow(step).contains(&next);
    compare_watched(text, trace, |node| node.watch(0..u64::MAX), follows)
}

/// The same of whoever follows the loop that serves a lane.
fn compare_in_loop(text: &str, trace: &Trace) -> BTreeMap<u64, Vec<TraceStep>> {
    let watch = |node: &mut Node| node.watch_loop(0..u64::MAX);
    compare_watched(text, trace, watch, may_follow_in_loop)
}

fn compare_watched(
    text: &str,
    trace: &Trace,
    watch: impl FnOnce(&mut Node) -> Watch,
    follows: impl Fn(&'static str, &'static str) -> bool,
) -> BTreeMap<u64, Vec<TraceStep>> {
    let service = service(text);
    let plain = ran(&service, trace, |_| None);
    let watched = ran(&service, trace, |node| Some(watch(node)));
    assert!(plain.left == watched.left, "{text}: what leaves");
    assert_eq!(
        format!("{:#?}", plain.report),
        format!("{:#?}", watched.report),
        "{text}"
    );
    let walks = walks(watched.steps, follows, text);
    assert_eq!(
        walks.len(),
        trace.len(),
        "{text}: packets that were told of"
    );
    assert_ended(&walks, &watched.left, &watched.report, text);
    walks
}

/// The ends that were told are what left and what was counted as dropped.
fn assert_ended(
    walks: &BTreeMap<u64, Vec<TraceStep>>,
    left: &[(u64, Option<u16>, Vec<u8>)],
    report: &Report,
    what: &str,
) {
    let mut drops = BTreeMap::<&str, u64>::new();
    let mut told: Vec<(Option<u16>, String)> = Vec::new();
    for (ordinal, walk) in walks {
        match walk.last() {
            Some(TraceStep::Drop { reason }) => *drops.entry(reason).or_default() += 1,
            Some(TraceStep::PutOut { egress, packet, .. }) => {
                told.push((*egress, packet.hex.clone()))
            }
            _ => panic!("{what}: packet {ordinal} has no end: {:?}", names(walk)),
        }
    }
    let counted: BTreeMap<&str, u64> = report
        .drops
        .iter()
        .filter(|(_, count)| **count > 0)
        .map(|(reason, count)| (reason.as_str(), *count))
        .collect();
    assert_eq!(drops, counted, "{what}: drops");
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let mut left: Vec<(Option<u16>, String)> = left
        .iter()
        .map(|(_, egress, bytes)| (*egress, hex(bytes)))
        .collect();
    left.sort();
    told.sort();
    assert!(left == told, "{what}: what leaves is what was told");
}

fn seen(walks: &BTreeMap<u64, Vec<TraceStep>>) -> BTreeSet<&'static str> {
    walks.values().flat_map(|walk| names(walk)).collect()
}

fn has(walks: &BTreeMap<u64, Vec<TraceStep>>, is: impl Fn(&TraceStep) -> bool) -> bool {
    walks.values().flatten().any(is)
}

fn found(walks: &BTreeMap<u64, Vec<TraceStep>>, is: impl Fn(&TableLookup) -> bool) -> bool {
    has(
        walks,
        |step| matches!(step, TraceStep::Meet(met) if is(&met.found)),
    )
}

fn traffic_of_all_kinds() -> Trace {
    generate(
        &traffic(
            "packets = 6000\nflows = 60\narrivals = { process = \"poisson\", rate_pps = 50000.0 }\n\
             reply_share = 0.4\ntcp_share = 0.6\nfragment_share = 0.02\nicmp_error_share = 0.01\n\
             packet_size = { kind = \"imix\" }\nhosts = { servers = 6, ipv6_share = 0.2 }\n",
        ),
        5,
    )
}

#[test]
fn of_rules() {
    let text = format!(
        "[service]\nchain = [\"acl\", \"napt\", \"router\"]\n{RULES}[link]\nround_trip = \"2ms\"\n"
    );
    let walks = compare(&text, &traffic_of_all_kinds());
    assert!(found(&walks, |found| matches!(found, TableLookup::Rule(_))));
    assert!(found(&walks, |found| matches!(
        found,
        TableLookup::NotPlain
    )));
    let names = seen(&walks);
    for step in ["hold", "punt", "receive", "returned", "go_on", "drop"] {
        assert!(names.contains(step), "{step}: {names:?}");
    }
    let makes_rule = |step: &TraceStep| {
        let TraceStep::Receive { slow_path, .. } = step else {
            return false;
        };
        matches!(slow_path, SlowLook::Rules(run) if run.rule.is_some() && run.functions.len() == 3)
    };
    assert!(has(&walks, makes_rule));
}

#[test]
fn of_flow_state() {
    let text = format!("[service]\nchain = [\"load_balancer\"]\n{BALANCED}");
    let walks = compare(&text, &balanced_traffic_of(BALANCED, 4000, ""));
    assert!(found(&walks, |found| matches!(
        found,
        TableLookup::Slot(slot) if slot.state == "active" && !slot.programs.is_empty()
    )));
    let says = |message: &str| {
        has(&walks, |step| match step {
            TraceStep::Punt { message: said, .. } | TraceStep::Returned { message: said } => {
                said.message == message
            }
            _ => false,
        })
    };
    for message in ["PULL", "WB", "STATE", "ACK"] {
        assert!(says(message), "{message}");
    }
}

#[test]
fn of_rules_around_flow_state() {
    let text = format!("[service]\nchain = [\"acl\", \"firewall\", \"napt\", \"router\"]\n{RULES}");
    let walks = compare(&text, &traffic_of_all_kinds());
    assert!(found(&walks, |found| matches!(found, TableLookup::Rule(_))));
    assert!(found(&walks, |found| matches!(found, TableLookup::Slot(_))));
    let elements = |walk: &Vec<TraceStep>| {
        let met = walk
            .iter()
            .filter(|step| matches!(step, TraceStep::Meet(_)));
        met.count()
    };
    assert_eq!(walks.values().map(elements).max(), Some(4));
}

#[test]
fn of_parked_payloads() {
    for chain in ["\"load_balancer\"", "\"acl\", \"load_balancer\""] {
        let text = format!(
            "[service]\nchain = [{chain}]\n{BALANCED}[acl]\ndefault = \"allow\"\nrules = []\n[parking]\n"
        );
        let packets = balanced_traffic_of(BALANCED, 4000, "packet_size = { kind = \"imix\" }\n");
        let walks = compare(&text, &packets);
        let names = seen(&walks);
        for step in ["park", "hold_back", "pass_parking"] {
            assert!(names.contains(step), "{step}: {names:?}");
        }
        let joins = |step: &TraceStep| matches!(step, TraceStep::PassParking { has_joined: true });
        assert!(has(&walks, joins));
    }
}

#[test]
fn of_split_packets() {
    for chain in ["\"load_balancer\"", "\"acl\", \"load_balancer\""] {
        let text = format!(
            "[service]\nchain = [{chain}]\n{BALANCED}[acl]\ndefault = \"allow\"\nrules = []\n[split]\n"
        );
        let packets = balanced_traffic_of(BALANCED, 4000, "packet_size = { kind = \"imix\" }\n");
        let walks = compare(&text, &packets);
        let names = seen(&walks);
        for step in ["split", "merge"] {
            assert!(names.contains(step), "{step}: {names:?}");
        }
    }
}

#[test]
fn of_an_element_on_the_slow_path() {
    let text = format!(
        "[service]\nchain = [\"acl\", \"firewall\", \"napt\", \"router\"]\n{RULES}[run]\npaths = \"slow\"\n"
    );
    let walks = compare(&text, &traffic_of_all_kinds());
    assert_eq!(service(&text).run.paths, Paths::Slow);
    assert!(found(&walks, |found| matches!(found, TableLookup::Nothing)));
    let elements = |walk: &Vec<TraceStep>| {
        let met = walk
            .iter()
            .filter(|s| matches!(s, TraceStep::Receive { .. }));
        met.count()
    };
    assert_eq!(walks.values().map(elements).max(), Some(4));
}

/// Datagrams of a flow in two parts: in order, the later one first, the first one twice, and a later one alone.
fn datagrams_in_parts() -> Trace {
    let mut trace = Trace::new();
    let mut push = |packet: &PacketBuilder<'_>| {
        let at = 1_000_000_000 + trace.len() as u64 * 1_000_000;
        trace.push(at, &packet.to_vec().expect("short"));
    };
    for number in 0..40u32 {
        let from = Endpoint::v4([10, 0, 0, 20], 1000);
        let to = Endpoint::v4([192, 0, 2, 1], 5000);
        let datagram = PacketBuilder::udp(from, to).payload_len(96);
        let datagram = datagram.identification(number);
        let (first, later) = (datagram.fragment(0, true), datagram.fragment(800, false));
        match number % 4 {
            0 => [&first, &later].map(&mut push),
            1 => [&later, &first].map(&mut push),
            2 => [&first, &first].map(&mut push),
            _ => [&later, &datagram].map(&mut push),
        };
    }
    trace
}

/// Fragments that wait, that do not fit, and whose first one never comes.
#[test]
fn of_fragments() {
    for chain in ["\"firewall\"", "\"firewall\", \"napt\", \"router\""] {
        let text = format!("[service]\nchain = [{chain}]\n{RULES}");
        let walks = compare(&text, &datagrams_in_parts());
        let ends = |steps: &[&str], why: &str| {
            let ends = |walk: &&Vec<TraceStep>| {
                let is_so =
                    matches!(walk.last(), Some(TraceStep::Drop { reason }) if *reason == why);
                is_so && names(walk).ends_with(steps)
            };
            walks.values().filter(ends).count()
        };
        let misfit = ends(&["gather", "drop"], "fragment_misfit");
        let alone = ends(&["hold", "gather", "drop"], "fragment_alone");
        assert_eq!((misfit, alone), (10, 10), "{chain}");
        let waited = walks.values().filter(|walk| names(walk).contains(&"hold"));
        assert!(waited.count() >= 20, "{chain}");
    }
}

/// What a reassembler had kept is dropped by the inspector behind it.
#[test]
fn of_what_functions_keep() {
    let rules = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../examples/inspector.rules"
    );
    let text = format!(
        "[service]\nchain = [\"reassembler\", \"inspector\"]\n[inspector]\nrules = {rules:?}\n"
    );
    let walks = compare(&text, &inspected_traffic(0.1, 6000));
    assert!(seen(&walks).contains("release"), "{:?}", seen(&walks));
}

/// The loop that serves a lane, whose packets are told of together.
#[test]
fn of_the_loop() {
    let balanced = format!("[service]\nchain = [\"load_balancer\"]\n{BALANCED}");
    let chain = "\"acl\", \"firewall\", \"napt\", \"router\"";
    let mixed = format!("[service]\nchain = [{chain}]\n{RULES}");
    for (text, trace) in [
        (balanced, balanced_traffic_of(BALANCED, 4000, "")),
        (mixed, traffic_of_all_kinds()),
    ] {
        let walks = compare_in_loop(&text, &trace);
        let steps = walks.values().flatten();
        let passed = steps.filter(|step| matches!(step, TraceStep::Pass { .. }));
        let passed = passed.count();
        assert!(passed > 1000, "{passed} passed in the loop: {text}");
    }
}

/// What a trace tells of a packet is what happens to it in a run of all.
#[test]
fn one_packet_is_followed_as_all_are() {
    let text = format!("[service]\nchain = [\"acl\", \"firewall\", \"napt\", \"router\"]\n{RULES}");
    let trace = traffic_of_all_kinds();
    let walks = compare(&text, &trace);
    for number in [1, 2, 700, 3000, 6000] {
        let mut source = Source::trace(crate::common::copy(&trace));
        let told = trace_packet(&service(&text), &mut source, number).expect("a trace");
        let walk = &walks[&(number - 1)];
        assert_eq!(names(&told.steps), names(walk), "packet {number}");
        let last = |step: Option<&TraceStep>| match step {
            Some(TraceStep::PutOut { packet, .. }) => packet.hex.clone(),
            other => format!("{other:?}"),
        };
        assert_eq!(
            last(told.steps.last()),
            last(walk.last()),
            "packet {number}"
        );
    }
}
