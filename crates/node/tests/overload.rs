//! More packets than the slow path carries: what it carries stays the same, packets that find all
//! they need on the fast path lose nothing, every loss has its reason. And where nothing may be lost,
//! nothing is, however small the rings and however the processor is taken away.

mod common;

use common::{assert_same_but_for_names, generate, run, service, traffic};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use twinpath_coherence::Clock;
use twinpath_control::service::{Execution, Paths};
use twinpath_core::wire::{Endpoint, PacketBuilder};
use twinpath_core::{DropReason, Frame, Instant};
use twinpath_link::{Sender, number};
use twinpath_node::{Limits, Node, Output, Via, build};

const FIREWALL: &str = "[service]\nchain = [\"firewall\"]\n[fast_path]\nhot_packets = 1\n[firewall]\ndefault = \"allow\"\n";

/// Frames that the worker serves in a round.
const SERVED: usize = 8;
/// Frames that may be under way to it.
const RING: usize = 64;
/// Packets of known flows in a round.
const KNOWN: u16 = 32;

/// A machine, and a worker that serves so many frames in a round.
struct Overloaded {
    node: Node,
    waiting: VecDeque<Frame>,
    numbers: Sender,
    out: Output,
    now: Instant,
    fast: u64,
    slow: u64,
    strangers: u16,
}

impl Overloaded {
    fn new() -> Self {
        let mut node = build(&service(FIREWALL), Paths::Both).expect("sound");
        node.machine.set_limits(Limits {
            ring_frames: RING,
            is_lossless: false,
            is_replay: false,
        });
        Self {
            node,
            waiting: VecDeque::new(),
            numbers: Sender::default(),
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
        let packet = PacketBuilder::udp(from, to);
        let bytes = packet.to_vec().expect("short");
        let frame = self.node.machine.pools().take_filled(&bytes);
        let mut frame = frame.expect("a full ring leaves buffers");
        frame.set_timestamp(self.now);
        frame
    }

    /// A round: packets of known flows, and so many that nobody has seen before.
    fn round(&mut self, strangers: usize) {
        self.now = self.now + Duration::from_micros(100);
        let mut burst: Vec<Frame> = (0..KNOWN)
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
            for frame in &mut returns {
                number(frame, self.numbers.number());
            }
            let clock = self.clock();
            let machine = &mut self.node.machine;
            machine.returned(0, &mut returns, clock, &mut self.out);
            machine.progress(0, progress, &mut self.out);
        }
        self.take_out();
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
        assert!(self.waiting.len() <= RING, "the link knows its room");
    }
}

#[test]
fn goodput_does_not_fall_when_load_rises() {
    const ROUNDS: u64 = 300;
    let mut best = 0;
    for load in [1, 2, 4, 8, 10] {
        let mut world = Overloaded::new();
        // Known flows become known, each while it pauses: a pull is cancelled by the next packet.
        for _ in 0..6 {
            world.round(0);
            (0..10).for_each(|_| world.serve());
        }
        let (fast, slow) = (world.fast, world.slow);
        (0..ROUNDS).for_each(|_| world.round(load * SERVED));
        let (fast, slow) = (world.fast - fast, world.slow - slow);
        let drops = world.node.machine.path().drops();
        let full = drops.of(DropReason::PuntRingFull);
        println!(
            "{load} times what is served: {fast} by the fast path, {slow} by the slow one, {full} dropped"
        );
        assert_eq!(fast, ROUNDS * u64::from(KNOWN), "hits lose nothing");
        assert_eq!(drops.total(), full, "every loss has its reason");
        assert!(load < 2 || full > 0, "there was an overload");
        best = best.max(slow);
        assert!(slow * 10 >= best * 9, "{slow} of {best}");
    }
}

const GATEWAY: &str = "[service]\nchain = [\"acl\", \"firewall\", \"napt\", \"monitor\"]\ninside = [\"10.0.0.0/8\"]\n\
    [rule_cache]\nwindow = \"5ms\"\nthreshold = 1\n[acl]\ndefault = \"allow\"\n[monitor]\nby = \"hosts\"\n\
    [firewall]\ndefault = \"allow\"\n[napt]\ninside = [\"10.0.0.0/8\"]\nexternal = [\"198.51.100.1\", \"198.51.100.2\"]\n";

/// Takes the processor away now and then.
fn burn(is_over: &AtomicBool, mut dice: u64) {
    while !is_over.load(Ordering::Relaxed) {
        dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let spins = dice >> 44;
        (0..spins).for_each(|_| std::hint::spin_loop());
        std::thread::sleep(Duration::from_micros(dice >> 56));
    }
}

#[test]
fn a_lossless_replay_loses_nothing_with_rings_of_any_size() {
    let trace = generate(
        &traffic(
            "packets = 1500\nflows = 200\nchurn_per_minute = 60000.0\nreply_share = 0.4\ntcp_share = 0.5\n\
             arrivals = { process = \"poisson\", rate_pps = 100000.0 }\n",
        ),
        5,
    );
    let is_over = Arc::new(AtomicBool::new(false));
    let burners = [1, 2].map(|dice| {
        let is_over = Arc::clone(&is_over);
        std::thread::spawn(move || burn(&is_over, dice))
    });
    let plain = service(GATEWAY);
    let expected = run(&plain, &trace, Paths::Slow, Execution::Virtual);
    for ring_frames in [1, 2, 7, 1024] {
        let mut service = plain.clone();
        service.link.ring_frames = ring_frames;
        let found = run(&service, &trace, Paths::Both, Execution::Threads);
        let what = format!("rings of {ring_frames}");
        assert_eq!(found.report.drops, expected.report.drops, "{what}");
        assert_same_but_for_names(&expected, &found, "198.51.100.0/24", &what);
        assert!(
            found.report.fast.packets > 150,
            "{what}: {:?}",
            found.report.fast
        );
    }
    is_over.store(true, Ordering::Relaxed);
    for burner in burners {
        burner.join().expect("it only burns");
    }
}
