//! A DPU whose worker crashes, and whose questions and answers are lost: nothing stands for ever, every
//! packet is counted, and what leaves is what the slow path alone makes of it.

use crate::common::rows::tell;
use crate::common::world::{Mishaps, World};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;
use twinpath_coherence::Clock;
use twinpath_control::service::{Paths, Service};
use twinpath_core::{DashReason, DropReason, Frame, Instant};
use twinpath_io::Trace;
use twinpath_link::{Header, Message};
use twinpath_node::source::{Read, Source};
use twinpath_node::{DashStage, Limits, Node, Output, build};

const PACKETS: usize = 600;
/// Packets that one question may keep waiting.
const MOST_BEHIND: usize = 1024;

/// The example, with datagrams that nobody answers: what leaves of each does not hang on those before.
fn service() -> Service {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/dpu.toml");
    let mut service = Service::load(Path::new(path)).expect("the example");
    let traffic = service.traffic.as_mut().expect("it has traffic");
    (traffic.flows, traffic.tcp_share, traffic.server_packets) = (100, 0.0, false);
    service
}

fn packets(service: &Service, count: usize) -> Vec<(Instant, Vec<u8>)> {
    let traffic = service.traffic.as_ref().expect("it has traffic");
    let mut source = Source::generator(traffic, service).expect("traffic");
    let mut packets = Vec::new();
    while packets.len() < count {
        if let Read::Packet(at) = source.read().expect("traffic") {
            packets.push((at, source.bytes().to_vec()));
        }
    }
    packets
}

fn trace(service: &Service) -> Trace {
    let mut trace = Trace::new();
    for (at, packet) in packets(service, PACKETS) {
        trace.push(at.0, &packet);
    }
    trace
}

fn questions(node: &Node) -> usize {
    node.machine.path().dash().map_or(0, DashStage::questions)
}

/// Packets that were dropped, on either path.
fn dropped(node: &Node) -> u64 {
    let workers = node.workers.iter();
    let there: u64 = workers.map(|worker| worker.drops().total()).sum();
    node.machine.path().drops().total() + there
}

fn both(at: Instant) -> Clock {
    Clock {
        packet: at,
        link: at,
    }
}

fn arrives(node: &mut Node, packet: &[u8], clock: Clock, out: &mut Output) {
    let mut frame = node.machine.pools().take_filled(packet).expect("a buffer");
    frame.set_timestamp(clock.packet);
    node.machine.receive(&mut vec![frame], clock, out);
}

#[test]
fn losses_and_crashes_leave_nothing_standing() {
    let service = service();
    let trace = trace(&service);
    // Of a flow that nobody knows yet, so that it goes to the worker.
    let mut others = service.clone();
    others.seed = 9;
    let (at, last) = packets(&others, PACKETS).remove(PACKETS - 1);
    let end = |world: &mut World<'_>| world.end_without_mishaps(PACKETS as u64, at.0, &last);
    let mut oracle = World::new(&service, Paths::Slow, Mishaps::default());
    oracle.run(&trace);
    end(&mut oracle);
    let crashes = |every| Mishaps {
        crashes_every: Some(every),
        ..Mishaps::default()
    };
    let loses = |one_in| Mishaps {
        loses_one_in: Some(one_in),
        ..Mishaps::default()
    };
    let both = Mishaps {
        crashes_every: Some(70),
        loses_one_in: Some(9),
    };
    for mishaps in [crashes(40), crashes(150), loses(4), loses(50), both] {
        for burst in [1, 16] {
            let mut world = World::new(&service, Paths::Both, mishaps);
            world.run_in_bursts(&trace, burst);
            world.rest();
            end(&mut world);
            let what = format!("{mishaps:?} in bursts of {burst}");
            let stage = world.node.machine.path().dash().expect("a DPU");
            assert_eq!((stage.questions(), stage.held()), (0, 0), "{what}");
            assert!(world.node.machine.is_quiet(), "{what}");
            for (number, packet) in &world.left {
                assert_eq!(oracle.left.get(number), Some(packet), "{what}: {number}");
            }
            let (left, gone) = (world.left.len() as u64, dropped(&world.node));
            assert_eq!(left + gone + world.lost, 1 + PACKETS as u64, "{what}");
            assert!(left > PACKETS as u64 / 4, "{what}: {left} left");
            assert!(world.lost > 0, "{what}");
            let refused = oracle.node.workers[0].drops().total();
            assert!(gone + world.lost >= refused, "{what}: {gone} dropped");
            check_order(&trace, &world, &what);
            tell("generated v4 and v6", &world.report());
            let fast = world.report().fast;
            assert!(fast.share > 0.44, "{what}: {fast:?}");
        }
    }
}

/// Packets of a flow and direction leave in the order in which they came.
fn check_order(trace: &Trace, world: &World<'_>, what: &str) {
    let dpu = world.node.workers[0].dash().expect("a DPU").dpu();
    let flows: Vec<_> = trace
        .iter()
        .map(|packet| dpu.arrival(packet.frame))
        .collect();
    let mut last = BTreeMap::new();
    for (number, _) in &world.order {
        let arrival = flows.get(*number as usize).copied().flatten();
        let flow = format!("{:?}", arrival.map(|arrival| arrival.headers));
        let before = last.insert(flow, *number);
        assert!(
            before.is_none_or(|before| before < *number),
            "{what}: {number}"
        );
    }
}

/// The answer to a run's first question goes down with its worker, of which nothing has come yet: what waits
/// for it goes on at once, though nothing may be lost.
#[test]
fn the_first_answer_is_lost_with_its_worker() {
    let service = service();
    let mut node = build(&service, Paths::Both).expect("a sound service");
    node.machine.set_limits(Limits {
        ring_frames: 64,
        is_lossless: true,
        is_replay: false,
    });
    let (at, packet) = packets(&service, 1).remove(0);
    node.machine.start(at);
    let clock = both(at);
    let mut out = Output::default();
    // The second waits behind the first.
    for _ in 0..2 {
        arrives(&mut node, &packet, clock, &mut out);
    }
    let mut asked = std::mem::take(&mut out.frames);
    assert_eq!((asked.len(), questions(&node)), (1, 1));
    let (worker, frame) = asked.remove(0);
    assert_eq!(worker, 0);
    let mut returns = Vec::new();
    let Node {
        workers,
        worker_pools,
        ..
    } = &mut node;
    workers[0].receive(frame, &mut worker_pools[0], &mut returns);
    returns.clear();
    workers[0].crash(at, &mut worker_pools[0], &mut returns);
    hand_in(&mut node, &mut returns, clock, &mut out);
    node.machine.advance(clock, &mut out);
    assert_eq!(out.frames.len(), 1, "the second asks itself");
    let (_, frame) = out.frames.remove(0);
    let header = Header::read(frame.bytes()).expect("a link header");
    assert_eq!(header.message, Message::Question);
    let Node {
        workers,
        worker_pools,
        ..
    } = &mut node;
    workers[0].receive(frame, &mut worker_pools[0], &mut returns);
    hand_in(&mut node, &mut returns, clock, &mut out);
    assert_eq!(out.departures.len() as u64 + dropped(&node), 1);
    assert_eq!(questions(&node), 0);
    assert!(node.machine.is_quiet());
}

/// A question that is lost with its packet, and whose answer nobody waits for, is over when its worker has
/// finished with it: time need not be told for that, and the next packet of its flow asks itself.
#[test]
fn a_lost_question_that_nobody_waits_for_is_over_at_once() {
    let service = service();
    let mut node = build(&service, Paths::Both).expect("a sound service");
    let (at, packet) = packets(&service, 1).remove(0);
    node.machine.start(at);
    let clock = both(at);
    let mut out = Output::default();
    for _ in 0..2 {
        arrives(&mut node, &packet, clock, &mut out);
        let (_, asked) = out.frames.pop().expect("it asks");
        assert_eq!((out.frames.len(), questions(&node)), (0, 1));
        let mut lost = Vec::new();
        node.workers[0].receive(asked, &mut node.worker_pools[0], &mut lost);
        hand_in(&mut node, &mut Vec::new(), clock, &mut out);
        assert_eq!(questions(&node), 0);
        assert!(node.machine.is_quiet());
    }
}

/// How many packets the fast path dropped for each of three reasons that are easily taken for one another.
fn losses(node: &Node) -> [u64; 3] {
    let drops = node.machine.path().drops();
    [
        DropReason::AnswerBacklogFull,
        DropReason::AnswerLate,
        DropReason::PuntRingFull,
    ]
    .map(|reason| drops.of(reason))
}

/// A node that may lose packets, and one for it.
fn live() -> (Node, Instant, Vec<u8>) {
    let service = service();
    let (at, packet) = packets(&service, 1).remove(0);
    (live_node(&service, at), at, packet)
}

fn live_node(service: &Service, at: Instant) -> Node {
    let mut node = build(service, Paths::Both).expect("a sound service");
    node.machine.set_limits(Limits {
        ring_frames: 64,
        is_lossless: false,
        is_replay: false,
    });
    node.machine.start(at);
    node
}

/// What is refused makes no flow: the answer is for all that have come meanwhile, of whom none asks again.
#[test]
fn a_refusal_is_for_all_who_ask_the_same() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/recipes/dpu.toml");
    let mut service = Service::load(Path::new(path)).expect("a recipe");
    let traffic = service.traffic.as_mut().expect("it has traffic");
    // An access list closes it.
    (traffic.tcp_share, traffic.hosts.server_ports) = (1.0, vec![25]);
    let (at, packet) = packets(&service, 1).remove(0);
    let mut node = live_node(&service, at);
    let mut out = Output::default();
    for _ in 0..5 {
        arrives(&mut node, &packet, both(at), &mut out);
    }
    assert_eq!((out.frames.len(), questions(&node)), (1, 1));
    answer_all(&mut node, both(at), &mut out);
    assert_eq!(
        (out.frames.len(), questions(&node), dropped(&node)),
        (0, 0, 5)
    );
    let reason = DropReason::Dash(DashReason::AclOutbound);
    assert_eq!(node.machine.path().drops().of(reason), 5);
    assert!(node.machine.is_quiet());
}

/// Of an ENI's packets no more wait than half of what there is room for: others' find some.
#[test]
fn an_eni_leaves_others_room_to_wait() {
    let service = service();
    let of_v4: Vec<_> = packets(&service, 2_000)
        .into_iter()
        .filter(|(_, packet)| packet[12..14] == [8, 0] && packet[62..64] == [8, 0])
        .collect();
    let eni = |packet: &[u8]| packet[56..62].to_vec();
    let flow = |packet: &[u8]| packet[76..88].to_vec();
    let (at, first) = of_v4[0].clone();
    let (mut own, mut others) = (BTreeMap::new(), None);
    for (_, packet) in of_v4 {
        match eni(&packet) == eni(&first) {
            true => drop(own.insert(flow(&packet), packet)),
            false => others = Some(packet),
        }
    }
    let mut node = live_node(&service, at);
    let (mut out, mut now) = (Output::default(), at);
    let mut send = |node: &mut Node, packet: &[u8], count| {
        for _ in 0..count {
            now = now + Duration::from_millis(1);
            arrives(node, packet, both(now), &mut out);
        }
    };
    assert!(own.len() >= 4, "{} flows of an ENI", own.len());
    for packet in own.values().take(4) {
        send(&mut node, packet, 1 + MOST_BEHIND);
    }
    let held = |node: &Node| node.machine.path().dash().map_or(0, DashStage::held);
    let [lost, ..] = losses(&node);
    assert_eq!(
        (held(&node), lost),
        (2 * MOST_BEHIND, 2 * MOST_BEHIND as u64)
    );
    let dpu = node.machine.path().dash().expect("a DPU").dpu();
    let counted = dpu.tables().enis().filter_map(|(_, entry)| {
        let count = dpu.counters(&entry.id)?.not_held;
        (count > 0).then(|| (entry.mac.0.to_vec(), count))
    });
    assert_eq!(counted.collect::<Vec<_>>(), [(eni(&first), lost)]);
    send(&mut node, &others.expect("of another ENI"), 1 + MOST_BEHIND);
    assert_eq!((held(&node), losses(&node)[0]), (3 * MOST_BEHIND, lost));
}

/// One flow's packets take no more than their part of what may wait for answers.
#[test]
fn what_waits_for_an_answer_is_bounded() {
    const TOO_MANY: usize = 7;
    let (mut node, at, packet) = live();
    let mut out = Output::default();
    // A second in all: as fast as the DPU's limits let packets of a flow wait.
    for number in 0..1 + MOST_BEHIND + TOO_MANY {
        let at = at + Duration::from_millis(number as u64);
        arrives(&mut node, &packet, both(at), &mut out);
    }
    assert_eq!((out.frames.len(), questions(&node)), (1, 1));
    assert_eq!(losses(&node), [TOO_MANY as u64, 0, 0]);
}

/// A packet whose answer comes after all is dropped: those behind it have gone on.
#[test]
fn an_answer_that_is_late_is_told_as_such() {
    let (mut node, at, packet) = live();
    let mut out = Output::default();
    for _ in 0..2 {
        arrives(&mut node, &packet, both(at), &mut out);
    }
    let mut later = at;
    for _ in 0..40 {
        later = later + Duration::from_millis(100);
        node.machine.advance(both(later), &mut out);
    }
    assert_eq!(out.frames.len(), 2, "the second asks itself");
    answer_all(&mut node, both(later), &mut out);
    assert_eq!(losses(&node), [0, 1, 0]);
    assert_eq!(out.departures.len() as u64 + dropped(&node), 2);
}

/// The worker answers all that it was asked.
fn answer_all(node: &mut Node, clock: Clock, out: &mut Output) {
    let mut returns = Vec::new();
    for (_, frame) in out.frames.drain(..) {
        node.workers[0].receive(frame, &mut node.worker_pools[0], &mut returns);
    }
    hand_in(node, &mut returns, clock, out);
}

fn hand_in(node: &mut Node, returns: &mut Vec<Frame>, clock: Clock, out: &mut Output) {
    node.machine.returned(0, returns, clock, out);
    node.machine.progress(0, node.workers[0].progress(), out);
}
