//! What happens because of time happens at the same time on both paths: a gap is given up before
//! packets that come after its time-out and behind those that came before, wherever they are then;
//! flows are idle by the times of their own packets; a run ends when nothing is inside.
//!
//! Each has the smallest service and capture that were found to show that it was otherwise.

use crate::common::acting::assert_share;
use crate::common::derived::counted;
use crate::common::rows::tell;
use crate::common::{Leaving, Outcome, assert_same_but_for_names, copy, lossless, run};
use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use twinpath_control::live::Live;
use twinpath_control::service::{Execution, Paths, Service};
use twinpath_core::wire::tcp::flags;
use twinpath_core::wire::{Endpoint, PacketBuilder, dissect, fields};
use twinpath_core::{Frame, Instant, Pools};
use twinpath_io::Trace;
use twinpath_node::observe::Observer;
use twinpath_node::source::Source;
use twinpath_node::virtual_time::{Peers, VirtualRun};
use twinpath_node::{NodeConfig, wiring};

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/time")
        .join(name)
}

/// Both paths put out what the slow path alone does, in virtual time, and functions counted something,
/// which is what the case is about. The few packets of a case alone are no flow for the fast path: so it
/// is run again behind others, most of which that settles.
fn agrees(name: &str, acts: &[(&str, &str)]) {
    let both = agrees_behind_others(name, acts);
    assert_share(&both, LEAST_SHARE, name);
}

/// The same, whatever the fast path settles; returns the run behind others.
fn agrees_behind_others(name: &str, acts: &[(&str, &str)]) -> Outcome {
    let folder = folder(name);
    let service = Service::load(&folder.join("service.toml")).expect("a good service");
    let captures = ["packets.pcap", "packets.pcapng"].map(|file| folder.join(file));
    let capture = captures
        .iter()
        .find(|path| path.exists())
        .expect("a capture");
    let trace = Trace::load(capture).expect("a sound capture");
    agree(&service, &trace, acts, name);
    let others = behind_others(&trace);
    agree(&service, &others, acts, &format!("{name} behind others"))
}

/// Runs a case; returns what both paths put out.
fn agree(service: &Service, trace: &Trace, acts: &[(&str, &str)], what: &str) -> Outcome {
    let run = |paths| {
        let mut outcome = run(service, trace, paths, Execution::Virtual);
        // As a capture has them.
        outcome.packets.sort_by_key(|(at, _)| *at);
        outcome
    };
    let (expected, found) = (run(Paths::Slow), run(Paths::Both));
    assert_same_but_for_names(&expected, &found, "198.51.100.0/24", what);
    assert_eq!(expected.report.drops, found.report.drops, "{what}");
    for (function, counter) in acts {
        let count = counted(&expected, function, &[counter]);
        assert!(count > 0, "{what}: {function} did nothing of {counter}");
    }
    tell("a kept capture", &found.report);
    found
}

/// The fast path settles this share of the packets of a case behind others.
const LEAST_SHARE: f64 = 0.5;

/// Datagrams of a flow of its own, both ways, and a case's packets behind them.
fn behind_others(trace: &Trace) -> Trace {
    const OTHERS: u64 = 3000;
    const APART_NS: u64 = 2_000_000;
    let (from, to) = (
        Endpoint::v4([10, 0, 0, 77], 7000),
        Endpoint::v4([192, 0, 2, 77], 7777),
    );
    let packet = |from, to| PacketBuilder::udp(from, to).to_vec().expect("short");
    let ways = [packet(from, to), packet(to, from)];
    let first = trace.at(0).expect("some packets").timestamp_ns;
    let later = OTHERS * APART_NS;
    let mut all = Trace::new();
    for number in (1..=OTHERS).rev() {
        let way = &ways[(number % 2) as usize];
        all.push(first + later - number * APART_NS, way);
    }
    trace
        .iter()
        .for_each(|frame| all.push(frame.timestamp_ns + later, frame.frame));
    all
}

/// A worker waits for older packets that are on their way to it before a gap is given up.
#[test]
fn gap_timeout() {
    agrees("gap_timeout", &[("reassembler_0", "gaps_timed_out")]);
}

/// A run goes on while anything comes back, however long that takes.
#[test]
fn long_round_trip() {
    agrees(
        "long_round_trip",
        &[("napt_1", "sessions_created"), ("monitor_3", "packets")],
    );
}

/// What a reassembler lets go of meets a ban that has ended meanwhile.
#[test]
fn short_ban() {
    agrees(
        "short_ban",
        &[("inspector_1", "bans"), ("reassembler_0", "gaps_timed_out")],
    );
}

/// What a reassembler lets go of meets flows that have been idle meanwhile.
#[test]
fn short_expiry() {
    agrees(
        "short_expiry",
        &[
            ("firewall_1", "connections_opened"),
            ("router_0", "forwarded"),
        ],
    );
}

/// At the end of a run, too, what is let go meets flows as they are at its time.
#[test]
fn end_of_run() {
    agrees("end_of_run", &[("reassembler_2", "gaps_timed_out")]);
}

/// The same where two reassemblers let go one after the other.
#[test]
fn end_of_run_banned() {
    agrees(
        "end_of_run_banned",
        &[
            ("inspector_3", "out_of_order"),
            ("reassembler_5", "gaps_timed_out"),
        ],
    );
}

/// A round trip that is longer than time-outs lets nothing expire. Over such a link nothing of these
/// flows comes to the fast path.
#[test]
fn latency() {
    let acts = [
        ("firewall_4", "connections_opened"),
        ("router_5", "forwarded"),
    ];
    let both = agrees_behind_others("latency", &acts);
    assert_eq!(both.report.fast.packets, 0);
}

/// A segment that waits for a gap until its time-out, and the next one of its flow just then, or a
/// moment before or after, leave in this order wherever the reassembler is, and over any link.
#[test]
fn the_next_segment_at_the_time_out() {
    let [client, server] = [([10, 0, 0, 1], 1000), ([192, 0, 2, 1], 80)]
        .map(|(address, port)| Endpoint::v4(address, port));
    let segment = |sequence: u32, flags: u8, data: usize| {
        let packet = PacketBuilder::tcp(client, server).seq(sequence);
        let packet = packet.flags(flags).payload_len(data).to_vec();
        packet.expect("short")
    };
    const GAP_NS: u64 = 1_000_000;
    let (mut granted, mut declined, mut hits) = (0, 0, 0);
    for (chain, late_ns, round_trip) in [
        "[\"monitor\", \"reassembler\"]",
        "[\"reassembler\", \"monitor\"]",
        "[\"reassembler\"]",
    ]
    .iter()
    .flat_map(|chain| [-1, 0, 1].map(|late_ns| (chain, late_ns)))
    .flat_map(|(chain, late_ns)| {
        ["4us", "1ms", "10ms"].map(|round_trip| (chain, late_ns, round_trip))
    }) {
        let what = format!("{chain}, {late_ns} ns after the time-out, over {round_trip}");
        let inside = match chain.contains("monitor") {
            true => "inside = [\"10.0.0.0/8\"]\n",
            false => "",
        };
        let text = format!(
            "[service]\nchain = {chain}\n{inside}[fast_path]\nhot_packets = 1\n\
             [link]\nround_trip = \"{round_trip}\"\n[rule_cache]\nthreshold = 0\n\
             [reassembler]\ngap_timeout = \"1ms\"\n[monitor]\n"
        );
        let service = Service::parse(&text, Path::new("time.toml"));
        let service = service.unwrap_or_else(|error| panic!("{error}"));
        let mut trace = Trace::new();
        let start = 1_000_000_000;
        trace.push(start, &segment(100, flags::SYN, 0));
        trace.push(start + 100_000_000, &segment(101, flags::ACK, 10));
        // Behind a hole of ten bytes, and the one after it.
        let held = start + 200_000_000;
        trace.push(held, &segment(121, flags::ACK, 10));
        let next = (held + GAP_NS).wrapping_add_signed(late_ns);
        trace.push(next, &segment(131, flags::ACK, 10));
        let run = |paths| run(&service, &trace, paths, Execution::Virtual);
        let (slow, both) = (run(Paths::Slow), run(Paths::Both));
        for outcome in [&slow, &both] {
            let sequences: Vec<u32> = outcome
                .packets
                .iter()
                .map(|(_, bytes)| {
                    let layout = dissect(bytes).expect("sound");
                    fields::tcp_seq(bytes, &layout)
                })
                .collect();
            assert_eq!(sequences, [100, 101, 121, 131], "{what}");
        }
        let given_up = |outcome: &Outcome| {
            let mut functions = outcome.report.functions.iter();
            functions.find_map(|function| function.counters.get("gaps_timed_out").copied())
        };
        assert_eq!(given_up(&slow), Some(1), "{what}");
        assert_eq!(given_up(&both), Some(1), "{what}");
        let coherence = &both.report.coherence;
        assert!(coherence.pulls_granted > 0, "{what}: {coherence:?}");
        granted += coherence.pulls_granted;
        declined += coherence.pulls_declined;
        hits += both.report.rules.total.table.hits;
    }
    // The fast path had the state in front of the hole each time, and behind it where the next segment came to find it
    // given up; it was refused while the segment waited.
    println!("{granted} times granted, {declined} declined, {hits} rules met");
    assert!(granted >= 27 + 12 && declined >= 3 && hits >= 9);
}

/// Nobody, who counts how often he is asked: once for each thing that happens.
#[derive(Default)]
struct Steps(Rc<Cell<u64>>);

impl Peers for Steps {
    fn send(&mut self, _: u16, _: &[u8], _: Instant) {}

    fn next(&self) -> Instant {
        self.0.set(self.0.get() + 1);
        Instant::NEVER
    }

    fn take(&mut self, _: Instant, _: &mut Pools, _: &mut Vec<Frame>) {}
}

/// While packets wait, their clock stands still, and a deadline a nanosecond ahead of it does not come: the
/// link's round trip is not gone through nanosecond by nanosecond.
#[test]
fn no_time_passes_in_steps_to_deadlines_that_cannot_come() {
    for ring_frames in [1, 1024] {
        let text = format!(
            "[service]\nchain = [\"acl\", \"reframer\"]\ninside = [\"10.0.0.0/8\"]\n[acl]\ndefault = \"allow\"\n\
             [reframer]\nwindow = \"1us\"\n[link]\nround_trip = \"5ms\"\nring_frames = {ring_frames}\n"
        );
        let service = Service::parse(&text, Path::new("time.toml"));
        let service = service.unwrap_or_else(|error| panic!("{error}"));
        let service = lossless(&service, Paths::Both, Execution::Virtual);
        let mut trace = Trace::new();
        for number in 0..40 {
            let [client, server] = [
                ([10, 0, 0, 1], 1000 + number as u16 % 3),
                ([192, 0, 2, 1], 80),
            ]
            .map(|(address, port)| Endpoint::v4(address, port));
            let packet = PacketBuilder::udp(client, server).payload_len(10).to_vec();
            trace.push(1_000_000_000 + number * 43, &packet.expect("short"));
        }
        let steps = Rc::new(Cell::new(0));
        let mut node = NodeConfig::of(&service, Paths::Both)
            .and_then(|config| config.build())
            .unwrap_or_else(|error| panic!("{error}"));
        let (mut sink, mut observer) = (Leaving::default(), Observer::new(Live::hidden()));
        let causality = wiring::causality(&service).expect("a sound service");
        VirtualRun::new(
            &mut node,
            &mut sink,
            &mut observer,
            service.link.round_trip.duration(),
        )
        .with_peers(&mut Steps(Rc::clone(&steps)))
        .run(&mut Source::trace(copy(&trace)), causality)
        .expect("memory never fails");
        println!("ring of {ring_frames}: {} steps", steps.get());
        assert_eq!(sink.packets.len(), 40);
        assert!(
            steps.get() < 2_000,
            "ring of {ring_frames}: {} steps",
            steps.get()
        );
    }
}
