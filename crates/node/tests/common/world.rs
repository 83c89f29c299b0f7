//! A node with a link that loses frames, and cores that crash.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;
use twinpath_coherence::Clock;
use twinpath_control::service::{Paths, Service};
use twinpath_core::{Frame, Instant};
use twinpath_io::Trace;
use twinpath_link::{Header, Sender, carries_packet, number};
use twinpath_node::fast_path::FastOutput;
use twinpath_node::wiring::core_elements;
use twinpath_node::{Node, build};

/// What goes wrong.
#[derive(Copy, Clone, Debug, Default)]
pub struct Mishaps {
    /// One frame in so many is lost, on either way.
    pub loses_one_in: Option<u64>,
    /// The cores crash after so many packets, again and again.
    pub crashes_every: Option<u64>,
}

/// A node and a link in which frames are under way for a few packets' time.
pub struct World<'a> {
    service: &'a Service,
    pub node: Node,
    mishaps: Mishaps,
    senders: [Sender; 2],
    to_cores: VecDeque<Frame>,
    to_switch: VecDeque<Frame>,
    out: FastOutput,
    now: Instant,
    carried: u64,
    epoch: u32,
    /// What left, by number in the order of arrival.
    pub left: BTreeMap<u64, Vec<u8>>,
    /// Whole packets that were lost on the link or in a crash.
    pub lost: u64,
}

impl<'a> World<'a> {
    pub fn new(service: &'a Service, paths: Paths, mishaps: Mishaps) -> Self {
        Self {
            service,
            node: build(service, paths).expect("a good service"),
            mishaps,
            senders: Default::default(),
            to_cores: VecDeque::new(),
            to_switch: VecDeque::new(),
            out: FastOutput::default(),
            now: Instant::ZERO,
            carried: 0,
            epoch: 1,
            left: BTreeMap::new(),
            lost: 0,
        }
    }

    pub fn run(&mut self, trace: &Trace) {
        for (ordinal, packet) in (0..).zip(trace.iter()) {
            self.now = Instant(packet.timestamp_ns);
            self.pass(self.now);
            let mut frame = self.node.pools.take_filled(packet.frame).expect("a buffer");
            frame.set_timestamp(self.now);
            frame.set_ordinal(ordinal);
            let clock = self.clock();
            let (pools, out) = (&mut self.node.pools, &mut self.out);
            self.node
                .fast_path
                .process(&mut vec![frame], clock, pools, out);
            self.node.fast_path.sweep(clock, pools, out);
            self.put_out();
            self.carry(5);
            let crashes = self.mishaps.crashes_every;
            if crashes.is_some_and(|every| ordinal % every == every - 1) {
                self.crash();
            }
        }
        self.carry(0);
        self.pass(Instant::NEVER);
    }

    /// Time goes on until nothing is under way and nobody waits.
    pub fn come_to_rest(&mut self) {
        for _ in 0..10_000 {
            self.now = self.now + Duration::from_millis(1);
            let clock = self.clock();
            let (path, pools) = (&mut self.node.fast_path, &mut self.node.pools);
            let is_over = path.give_all_back(clock, pools, &mut self.out);
            self.put_out();
            self.carry(0);
            if is_over {
                return;
            }
        }
        panic!("it never ends");
    }

    fn clock(&self) -> Clock {
        Clock {
            packet: self.now,
            link: self.now,
        }
    }

    fn pass(&mut self, until: Instant) {
        let (pools, out) = (&mut self.node.pools, &mut self.out);
        while let Some(at) = self.node.fast_path.pass_parking(until, pools, out) {
            assert!(at <= until);
        }
        self.put_out();
    }

    fn put_out(&mut self) {
        for departure in self.out.departures.drain(..) {
            let frame = departure.frame;
            assert_eq!(frame.trip().parked_bytes, 0, "a header leaves alone");
            let twice = self.left.insert(frame.ordinal(), frame.bytes().to_vec());
            assert!(twice.is_none(), "a packet left twice");
            self.node.pools.give(frame);
        }
        for (_, mut frame) in self.out.punts.drain(..) {
            number(&mut frame, self.senders[0].number());
            self.to_cores.push_back(frame);
        }
    }

    /// Lets frames arrive until so many are left on each way.
    fn carry(&mut self, left: usize) {
        while self.to_cores.len() > left || self.to_switch.len() > left {
            if self.to_cores.len() > left
                && let Some(frame) = self.to_cores.pop_front()
                && let Some(frame) = self.survivor(frame)
            {
                let mut returns = Vec::new();
                let pools = &mut self.node.worker_pools[0];
                self.node.workers[0].receive(frame, pools, &mut returns);
                for mut frame in returns {
                    number(&mut frame, self.senders[1].number());
                    self.to_switch.push_back(frame);
                }
            }
            if self.to_switch.len() > left
                && let Some(frame) = self.to_switch.pop_front()
                && let Some(frame) = self.survivor(frame)
            {
                let clock = self.clock();
                let (pools, out) = (&mut self.node.pools, &mut self.out);
                self.node.fast_path.returned(0, frame, clock, pools, out);
                self.put_out();
            }
        }
    }

    /// The frame, unless it is one that is lost.
    fn survivor(&mut self, frame: Frame) -> Option<Frame> {
        self.carried += 1;
        let is_lost = |one_in| self.carried.is_multiple_of(one_in);
        if !self.mishaps.loses_one_in.is_some_and(is_lost) {
            return Some(frame);
        }
        self.lose(&frame);
        None
    }

    /// A header's payload is counted when it has waited in vain.
    fn lose(&mut self, frame: &Frame) {
        let header = Header::read(frame.bytes()).expect("a link header");
        let is_whole = carries_packet(frame) && header.trip.parked_bytes == 0;
        self.lost += u64::from(is_whole);
    }

    /// What is on its way to the cores goes down with them.
    fn crash(&mut self) {
        self.epoch += 1;
        for frame in std::mem::take(&mut self.to_cores) {
            self.lose(&frame);
        }
        let paths = match self.node.fast_path.stage() {
            Some(_) => Paths::Both,
            None => Paths::Slow,
        };
        let elements = core_elements(self.service, paths, self.epoch).expect("built before");
        self.node.workers[0].restart(elements);
    }
}
