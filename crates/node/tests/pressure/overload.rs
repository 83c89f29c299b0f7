//! More packets than the slow path carries: what it carries stays the same, packets that find all
//! they need on the fast path lose nothing, every loss has its reason. And where nothing may be lost,
//! nothing is, however small the rings and however the processor is taken away.

use crate::common::burners::Burners;
use crate::common::rows::tell;
use crate::common::{assert_same_but_for_names, generate, run, run_with_buffers, service, traffic};
use std::collections::VecDeque;
use std::time::Duration;
use twinpath_coherence::Clock;
use twinpath_control::service::{Execution, Paths};
use twinpath_core::wire::{Endpoint, PacketBuilder};
use twinpath_core::{DropReason, Frame, Instant};
use twinpath_node::{Limits, Node, Output, Via, build};

const FIREWALL: &str = "[service]\nchain = [\"firewall\"]\n[fast_path]\nhot_packets = 1\n[firewall]\ndefault = \"allow\"\n";

/// Frames that the worker serves in a round.
const SERVED: usize = 8;
/// Frames that may be under way to it.
const RINGS: [usize; 11] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 64, 1024];
/// Payloads are long enough to be parked or split off.
const PAYLOAD_BYTES: usize = 200;
/// Packets of known flows in a round.
const KNOWN: u16 = 32;

/// A machine, and a worker that serves so many frames in a round.
struct Overloaded {
    node: Node,
    ring: usize,
    waiting: VecDeque<Frame>,
    out: Output,
    now: Instant,
    fast: u64,
    slow: u64,
    strangers: u16,
}

impl Overloaded {
    fn new(ring: usize) -> Self {
        Self::of(FIREWALL, ring)
    }

    fn of(text: &str, ring: usize) -> Self {
        let mut node = build(&service(text), Paths::Both).expect("sound");
        node.machine.set_limits(Limits {
            ring_frames: ring,
            is_lossless: false,
            is_replay: false,
        });
        Self {
            node,
            ring,
            waiting: VecDeque::new(),
            out: Output::default(),
            now: Instant(1_000_000_000),
            fast: 0,
            slow: 0,
            strangers: 0,
        }
    }

    fn clock(&self) -> Clock {
        Clock {
            packet: self.now,
            link: self.now,
        }
    }

    fn packet(&mut self, from: [u8; 4], port: u16) -> Frame {
        let (from, to) = (Endpoint::v4(from, port), Endpoint::v4([192, 0, 2, 1], 53));
        let packet = PacketBuilder::udp(from, to).payload_len(PAYLOAD_BYTES);
        let bytes = packet.to_vec().expect("short");
        let frame = self.node.machine.pools().take_filled(&bytes);
        let mut frame = frame.expect("a full ring leaves buffers");
        frame.set_timestamp(self.now);
        frame
    }

    /// A round: packets of known flows, and so many that nobody has seen before.
    fn round(&mut self, strangers: usize) {
        self.round_of(KNOWN, strangers);
    }

    fn round_of(&mut self, known: u16, strangers: usize) {
        self.now = self.now + Duration::from_micros(100);
        let mut burst: Vec<Frame> = (0..known)
            .map(|port| self.packet([10, 0, 0, 1], 1000 + port))
            .collect();
        for _ in 0..strangers {
            self.strangers = self.strangers.wrapping_add(1);
            let [high, low] = self.strangers.to_be_bytes();
            burst.push(self.packet([10, 1, high, low], 7));
        }
        let clock = self.clock();
        self.node.machine.receive(&mut burst, clock, &mut self.out);
        self.node.machine.advance(clock, &mut self.out);
        self.serve();
    }

    fn serve(&mut self) {
        self.take_out();
        for _ in 0..SERVED {
            let Some(frame) = self.waiting.pop_front() else {
                break;
            };
            let mut returns = Vec::new();
            let (worker, pools) = (&mut self.node.workers[0], &mut self.node.worker_pools[0]);
            worker.receive(frame, pools, &mut returns);
            let progress = worker.progress();
            let clock = self.clock();
            let machine = &mut self.node.machine;
            machine.returned(0, &mut returns, clock, &mut self.out);
            machine.progress(0, progress, &mut self.out);
            self.take_out();
        }
    }

    /// Packets that were dropped, all for the one reason.
    fn dropped(&self) -> u64 {
        let drops = self.node.machine.path().drops();
        let full = drops.of(DropReason::PuntRingFull);
        assert_eq!(drops.total(), full, "every loss has its reason");
        full
    }

    fn take_out(&mut self) {
        for departure in self.out.departures.drain(..) {
            match departure.via {
                Via::Fast => self.fast += 1,
                Via::Slow => self.slow += 1,
            }
            self.node.machine.pools().give(departure.frame);
        }
        let frames = self.out.frames.drain(..);
        self.waiting.extend(frames.map(|(_, frame)| frame));
        assert!(self.waiting.len() <= self.ring, "the link knows its room");
    }
}

/// So many rounds at most until all known flows are known, where there is hardly any room for pulls.
const MOST_ROUNDS: usize = 20_000;

impl Overloaded {
    /// Known flows become known, each while it pauses: a pull is cancelled by the next packet.
    fn get_to_know(&mut self) {
        for _ in 0..MOST_ROUNDS {
            let fast = self.fast;
            self.round(0);
            if self.fast - fast == u64::from(KNOWN) {
                return;
            }
            (0..10).for_each(|_| self.serve());
        }
        panic!("rings of {}: flows do not become known", self.ring);
    }
}

#[test]
fn goodput_does_not_fall_when_load_rises() {
    const ROUNDS: u64 = 300;
    for ring in RINGS {
        let mut best = 0;
        for load in [1, 2, 4, 8, 10] {
            let mut world = Overloaded::new(ring);
            world.get_to_know();
            let (fast, slow) = (world.fast, world.slow);
            let dropped = world.dropped();
            (0..ROUNDS).for_each(|_| world.round(load * SERVED));
            let (fast, slow) = (world.fast - fast, world.slow - slow);
            let full = world.dropped() - dropped;
            println!(
                "ring of {ring}, {load} times what is served: {fast} by the fast path, {slow} by the slow one, {full} dropped"
            );
            assert_eq!(fast, ROUNDS * u64::from(KNOWN), "hits lose nothing");
            let is_overload = load * SERVED > ring.min(SERVED);
            assert!(!is_overload || full > 0 || load == 1, "no overload");
            let served = ROUNDS * ring.min(SERVED) as u64;
            assert!(
                slow * 10 >= served * 9,
                "{slow} of {served} that can be served"
            );
            best = best.max(slow);
            assert!(slow * 10 >= best * 9, "{slow} of {best}");
        }
    }
}

/// The same where the worker sees headers alone; hits are counted when all have left.
#[test]
fn goodput_does_not_fall_where_payloads_wait_elsewhere() {
    const ROUNDS: u64 = 300;
    for elsewhere in ["[parking]\n", "[split]\n"] {
        for ring in [1, 8, 64, 1024] {
            let mut best = 0;
            for load in [1, 4, 10] {
                let mut world = Overloaded::of(&format!("{FIREWALL}{elsewhere}"), ring);
                world.get_to_know();
                let (fast, slow) = (world.fast, world.slow);
                (0..ROUNDS).for_each(|_| world.round(load * SERVED));
                let slow = world.slow - slow;
                let drained = ring / SERVED + 10;
                (0..drained).for_each(|_| world.round_of(0, 0));
                let fast = world.fast - fast;
                let what = format!("{elsewhere:?}, ring of {ring}, {load} times what is served");
                let dropped = world.dropped();
                println!(
                    "{what}: {fast} by the fast path, {slow} by the slow one, {dropped} dropped"
                );
                assert_eq!(fast, ROUNDS * u64::from(KNOWN), "{what}: hits lose nothing");
                let served = ROUNDS * ring.min(SERVED) as u64;
                assert!(slow * 10 >= served * 9, "{what}: {slow} of {served}");
                best = best.max(slow);
                assert!(slow * 10 >= best * 9, "{what}: {slow} of {best}");
                let path = world.node.machine.path();
                let parked = path.parking().map(|stage| stage.buffer().counters().parked);
                let split = path.split().map(|stage| stage.counters().packets);
                assert!(
                    parked.or(split) > Some(slow / 2),
                    "{what}: {parked:?} {split:?}"
                );
            }
        }
    }
}

/// Packets meet the worker at each of three elements.
const THRICE: &str = "[service]\nchain = [\"acl\", \"firewall\", \"monitor\"]\n[rule_cache]\nenabled = false\n\
    [acl]\ndefault = \"allow\"\n[firewall]\ndefault = \"allow\"\n[monitor]\nby = \"hosts\"\n";

/// What a worker has had goes on before others come in: what has been done for it was not in vain.
#[test]
fn packets_inside_go_on_before_others_come_in() {
    const ROUNDS: u64 = 300;
    for ring in RINGS {
        let carried = |strangers: usize| {
            let mut world = Overloaded::of(THRICE, ring);
            (0..ROUNDS).for_each(|_| world.round_of(0, strangers));
            (0..1000).for_each(|_| world.round_of(0, 0));
            (world.slow, world.dropped())
        };
        let (light, heavy) = (carried(1), carried(10 * SERVED));
        println!("ring of {ring}: {light:?} and {heavy:?}");
        assert_eq!(light, (ROUNDS, 0), "ring of {ring}: no overload");
        let sent = ROUNDS * 10 * SERVED as u64;
        assert_eq!(heavy.0 + heavy.1, sent, "each has left or was refused");
        let most = ROUNDS * SERVED as u64 / 3;
        assert!(heavy.0 >= light.0.max(most * 9 / 10 * u64::from(ring >= SERVED)));
    }
}

const GATEWAY: &str = "[service]\nchain = [\"acl\", \"firewall\", \"napt\", \"monitor\"]\ninside = [\"10.0.0.0/8\"]\n\
    [rule_cache]\nwindow = \"5ms\"\nthreshold = 1\n[acl]\ndefault = \"allow\"\n[monitor]\nby = \"hosts\"\n\
    [firewall]\ndefault = \"allow\"\n[napt]\ninside = [\"10.0.0.0/8\"]\nexternal = [\"198.51.100.1\", \"198.51.100.2\"]\n";

/// Frames that may be under way, and buffers for packets that arrive. With one buffer a packet would
/// leave none to messages that it may wait for.
const SMALL: [(usize, usize); 10] = [
    (1, 2),
    (1, 4096),
    (2, 3),
    (3, 5),
    (4, 4),
    (5, 9),
    (6, 2),
    (7, 16),
    (8, 8),
    (1024, 4096),
];

/// Of 1500 packets.
const LEAST_FAST: u64 = 75;

#[test]
fn a_lossless_replay_loses_nothing_with_rings_and_pools_of_any_size() {
    let trace = generate(
        &traffic(
            "packets = 1500\nflows = 200\nchurn_per_minute = 60000.0\nreply_share = 0.4\ntcp_share = 0.5\n\
             arrivals = { process = \"poisson\", rate_pps = 100000.0 }\n",
        ),
        5,
    );
    let plain = service(GATEWAY);
    let expected = run(&plain, &trace, Paths::Slow, Execution::Virtual);
    let _burner = Burners::start(1);
    for (ring_frames, buffers) in SMALL {
        let mut service = plain.clone();
        service.link.ring_frames = ring_frames;
        let found = run_with_buffers(&service, &trace, buffers);
        let what = format!("rings of {ring_frames}, {buffers} buffers");
        assert_eq!(found.report.drops, expected.report.drops, "{what}");
        assert_same_but_for_names(&expected, &found, "198.51.100.0/24", &what);
        tell("generated", &found.report);
        assert!(
            found.report.fast.packets > LEAST_FAST,
            "{what}: {:?}",
            found.report.fast
        );
    }
}
