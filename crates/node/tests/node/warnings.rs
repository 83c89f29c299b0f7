//! What a run must tell when it did not go as it should: packets that were inside when it ended,
//! traffic that fell behind its time, frames about another chain.

use crate::common::service;
use std::time::Duration;
use twinpath_coherence::Clock;
use twinpath_control::service::Paths;
use twinpath_core::wire::{Endpoint, PacketBuilder};
use twinpath_core::{DropReason, Frame, Instant, Steering};
use twinpath_io::Trace;
use twinpath_link::{Message, Sender, attach, detach, number};
use twinpath_node::arrivals::{Arrivals, Filled, Pacing};
use twinpath_node::causality::{Causality, Scope};
use twinpath_node::machine::ChangeOutcome;
use twinpath_node::source::Source;
use twinpath_node::{Node, Output, Via, build};

const FIREWALL: &str = "[service]\nchain = [\"firewall\"]\n[fast_path]\nhot_packets = 1\n[firewall]\ndefault = \"allow\"\n";

const START: Instant = Instant(1_000_000_000);

fn node() -> Node {
    let mut node = build(&service(FIREWALL), Paths::Both).expect("sound");
    node.machine.start(START);
    node.workers[0].start(START);
    node
}

fn at(after: Duration) -> Clock {
    let now = START + after;
    Clock {
        packet: now,
        link: now,
    }
}

const QUESTION: [([u8; 4], u16); 2] = [([10, 0, 0, 1], 1000), ([192, 0, 2, 1], 53)];

fn datagram([from, to]: [([u8; 4], u16); 2]) -> Vec<u8> {
    let end = |(address, port)| Endpoint::v4(address, port);
    let packet = PacketBuilder::udp(end(from), end(to));
    packet.to_vec().expect("short")
}

/// Hands in a packet.
fn arrive(node: &mut Node, out: &mut Output) {
    let frame = node.machine.pools().take_filled(&datagram(QUESTION));
    let mut frame = frame.expect("a buffer");
    frame.set_timestamp(START);
    node.machine
        .receive(&mut vec![frame], at(Duration::ZERO), out);
}

/// What the worker gives back of what it was sent.
fn served(node: &mut Node, out: &mut Output) -> Vec<Frame> {
    let mut returns = Vec::new();
    for (worker, frame) in out.frames.drain(..) {
        let pools = &mut node.worker_pools[worker];
        node.workers[worker].receive(frame, pools, &mut returns);
    }
    returns
}

/// What a worker does with what it was sent.
#[derive(Copy, Clone, PartialEq)]
enum Serves {
    All,
    Nothing,
    /// Nothing, but it goes on to say that it has come further.
    Words,
}

/// Whether a run ends with all that came in at its end, with such a worker.
fn ends_drained(serves: Serves) -> bool {
    let (mut node, mut out) = (node(), Output::default());
    let mut now = Duration::ZERO;
    arrive(&mut node, &mut out);
    node.machine.stop(&mut out);
    loop {
        now += Duration::from_millis(100);
        if serves == Serves::Words {
            let mut progress = node.workers[0].progress();
            progress.oldest_waiting = START + now;
            node.machine.progress(0, progress, &mut out);
        }
        if serves == Serves::All {
            let mut returns = served(&mut node, &mut out);
            let machine = &mut node.machine;
            machine.returned(0, &mut returns, at(now), &mut out);
            machine.progress(0, node.workers[0].progress(), &mut out);
        }
        for (worker, command) in std::mem::take(&mut out.commands) {
            let (pools, mut returns) = (&mut node.worker_pools[worker], Vec::new());
            let answer = node.workers[worker].execute(command, pools, &mut returns);
            assert!(returns.is_empty(), "the firewall keeps no packet");
            node.machine.answered(worker, answer, at(now), &mut out);
        }
        node.machine.advance(at(now), &mut out);
        if let Some(ChangeOutcome::Stopped { is_drained }) = out.outcomes.pop() {
            assert_eq!(node.machine.has_drained(), is_drained);
            assert_eq!(out.departures.len(), usize::from(is_drained));
            let lost = node.machine.path().drops().of(DropReason::RunEnded);
            assert_eq!(lost, u64::from(!is_drained));
            return is_drained;
        }
        assert!(now < Duration::from_secs(3600), "the run does not end");
    }
}

#[test]
fn a_run_that_ends_with_packets_inside_says_so() {
    assert!(ends_drained(Serves::All));
    assert!(!ends_drained(Serves::Nothing));
    assert!(!ends_drained(Serves::Words));
}

/// How far live traffic is behind when packets of these times are taken at once, so late; and how
/// many were taken.
fn behind(packets: &[(Duration, Vec<u8>)], taken: Duration) -> (Duration, usize) {
    let mut trace = Trace::new();
    for (after, packet) in packets {
        trace.push((START + *after).0, packet);
    }
    let (mut node, mut burst) = (node(), Vec::new());
    let mut source = Source::trace(trace);
    let causality = Causality::new(Scope::Hosts(Steering::new(1)));
    let live = Pacing {
        is_lossless: false,
        is_paced: true,
        most_ahead: None,
    };
    let mut arrivals = Arrivals::new(&mut source, causality, live);
    let filled = arrivals.fill(&mut node.machine, START + taken, 0, &mut burst);
    assert!(matches!(filled, Ok(Filled::Some | Filled::End)));
    (source.behind(), burst.len())
}

#[test]
fn traffic_that_falls_behind_says_how_far() {
    let milliseconds = Duration::from_millis;
    let (question, answer) = (datagram(QUESTION), datagram([QUESTION[1], QUESTION[0]]));
    let alone = [(milliseconds(5), question.clone())];
    assert_eq!(behind(&alone, milliseconds(4)), (Duration::ZERO, 0));
    assert_eq!(behind(&alone, milliseconds(5)), (Duration::ZERO, 1));
    assert_eq!(behind(&alone, milliseconds(12)), (milliseconds(7), 1));
    // The answer waits for its question to leave, and is late by then.
    let both = [(milliseconds(9), question), (milliseconds(10), answer)];
    assert_eq!(behind(&both, milliseconds(10)), (milliseconds(1), 1));
    let later = [both[0].clone(), (milliseconds(9), both[1].1.clone())];
    assert_eq!(behind(&later, milliseconds(12)), (milliseconds(3), 1));
}

/// What the worker grants comes back as of some chain, alone or with its packet. Returns how many
/// packets were dropped, and whether the next one finds its flow's state on the fast path.
fn granted_by(chain: u16, has_packet: bool) -> (u64, bool) {
    let (mut node, mut out, mut numbers) = (node(), Output::default(), Sender::default());
    arrive(&mut node, &mut out);
    let mut returns = served(&mut node, &mut out);
    assert_eq!(returns.len(), 1);
    let mut frame = returns.pop().expect("one");
    let mut header = detach(&mut frame).expect("a header");
    assert_eq!((header.message, header.chain), (Message::State, 0));
    if !has_packet {
        frame.set_len(0);
    }
    (header.chain, header.has_packet) = (chain, has_packet);
    attach(&mut frame, &header).expect("headroom");
    number(&mut frame, numbers.number());
    let (machine, clock) = (&mut node.machine, at(Duration::ZERO));
    machine.returned(0, &mut vec![frame], clock, &mut out);
    machine.progress(0, node.workers[0].progress(), &mut out);
    let left = std::mem::take(&mut out.departures);
    let dropped = node.machine.path().drops().total();
    assert_eq!(left.len() as u64 + dropped, u64::from(has_packet));
    let crossed = node.machine.path().drops().of(DropReason::AnotherChain);
    assert_eq!(crossed, dropped);
    arrive(&mut node, &mut out);
    let is_fast = out.departures.first().map(|departure| departure.via);
    (dropped, is_fast == Some(Via::Fast))
}

/// A message that crossed a change is about an element of the other chain: the fast path may not
/// take it for one of this. A packet does not cross a change, and is counted.
#[test]
fn what_is_about_another_chain_is_left_alone() {
    assert_eq!(granted_by(0, false), (0, true));
    assert_eq!(granted_by(0, true), (0, true));
    assert_eq!(granted_by(1, false), (0, false));
    assert_eq!(granted_by(1, true), (1, false));
    assert_eq!(granted_by(u16::MAX, false), (0, false));
}
