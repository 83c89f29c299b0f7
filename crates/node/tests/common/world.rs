//! A machine with links that lose frames, and a worker that crashes.

pub mod causal;

use super::{Leaving, Outcome, packets_of, reported, undrawn_flows};
use std::collections::{BTreeMap, VecDeque};
use twinpath_coherence::Clock;
use twinpath_control::live::Live;
use twinpath_control::report::Report;
use twinpath_control::service::{Paths, Service};
use twinpath_core::{Frame, Instant};
use twinpath_io::Trace;
use twinpath_link::{Header, carries_packet};
use twinpath_node::machine::{ChangeOutcome, Progress, Replacement, Time};
use twinpath_node::observe::Observer;
use twinpath_node::sink::Sink;
use twinpath_node::{Limits, Node, Output, build};

/// What goes wrong.
#[derive(Copy, Clone, Debug, Default)]
pub struct Mishaps {
    /// One frame in so many is lost, on either way.
    pub loses_one_in: Option<u64>,
    /// The worker crashes after so many packets, again and again.
    pub crashes_every: Option<u64>,
}

/// What is on its way to a worker.
enum There {
    Frame(Frame),
    Time(Time),
}

/// What is on its way back: a frame, or how far a worker is.
enum Back {
    Frame(Frame),
    Progress(Progress),
}

/// A node and a link in which frames are under way for a few packets' time.
pub struct World<'a> {
    service: &'a Service,
    pub node: Node,
    mishaps: Mishaps,
    /// Each with the worker's number.
    to_worker: VecDeque<(usize, There)>,
    /// What time the workers have been told, or will be.
    told: Time,
    to_machine: VecDeque<(usize, Back)>,
    out: Output,
    now: Instant,
    carried: u64,
    /// What left of what came in, by number in the order of arrival.
    pub left: BTreeMap<u64, Vec<u8>>,
    /// The same numbers in the order in which they left, with the times of departure.
    pub order: Vec<(u64, Instant)>,
    /// Whether functions may make several packets of one.
    may_split: bool,
    /// The packets themselves.
    leaving: Leaving,
    /// Whole packets that were lost on the link or in a crash.
    pub lost: u64,
}

impl<'a> World<'a> {
    pub fn new(service: &'a Service, paths: Paths, mishaps: Mishaps) -> Self {
        let mut node = build(service, paths).expect("a good service");
        node.machine.set_limits(Limits {
            ring_frames: 1 << 20,
            is_lossless: false,
            is_replay: false,
        });
        Self {
            service,
            node,
            mishaps,
            to_worker: VecDeque::new(),
            told: Time::default(),
            to_machine: VecDeque::new(),
            out: Output::default(),
            now: Instant::ZERO,
            carried: 0,
            left: BTreeMap::new(),
            order: Vec::new(),
            may_split: false,
            leaving: Leaving::default(),
            lost: 0,
        }
    }

    pub fn run(&mut self, trace: &Trace) {
        self.run_in_bursts(trace, 1);
    }

    /// The same, with so many packets handed in together.
    pub fn run_in_bursts(&mut self, trace: &Trace, size: usize) {
        let packets: Vec<_> = (0..).zip(trace.iter()).collect();
        for burst in packets.chunks(size) {
            let latest = burst.iter().map(|(_, packet)| packet.timestamp_ns).max();
            self.now = self.now.max(Instant(latest.expect("some packets")));
            self.advance();
            let mut frames = Vec::new();
            for (ordinal, packet) in burst {
                frames.push(self.frame(*ordinal, packet.timestamp_ns, packet.frame));
            }
            let clock = self.clock();
            let machine = &mut self.node.machine;
            machine.receive(&mut frames, clock, &mut self.out);
            assert!(frames.is_empty(), "frames are left in a burst");
            self.advance();
            self.carry(5);
            let crashes = self.mishaps.crashes_every;
            let is_last = |ordinal: &u64| crashes.is_some_and(|every| ordinal % every == every - 1);
            if burst.iter().any(|(ordinal, _)| is_last(ordinal)) {
                self.crash();
            }
        }
        self.carry(0);
        self.now = Instant(self.now.0 + 1_000_000_000);
        self.advance();
    }

    /// Time goes on until whatever waits for what was lost has given it up.
    pub fn rest(&mut self) {
        for _ in 0..10 {
            self.now = Instant(self.now.0 + 1_000_000_000);
            self.advance();
            self.carry(0);
        }
    }

    /// One packet more, to which nothing happens: of what a link has lost last what comes behind tells.
    pub fn end_without_mishaps(&mut self, ordinal: u64, timestamp_ns: u64, packet: &[u8]) {
        self.mishaps = Mishaps::default();
        self.now = self.now.max(Instant(timestamp_ns));
        let frame = self.frame(ordinal, timestamp_ns, packet);
        let clock = self.clock();
        let machine = &mut self.node.machine;
        machine.receive(&mut vec![frame], clock, &mut self.out);
        self.advance();
        self.carry(0);
        self.rest();
    }

    fn frame(&mut self, ordinal: u64, timestamp_ns: u64, packet: &[u8]) -> Frame {
        let frame = self.node.machine.pools().take_filled(packet);
        let mut frame = frame.expect("a buffer");
        frame.set_timestamp(Instant(timestamp_ns));
        // Headers and payloads keep it, as they do what latencies are measured by.
        frame.set_received_ns(ordinal);
        frame
    }

    fn clock(&self) -> Clock {
        Clock {
            packet: self.now,
            link: self.now,
        }
    }

    fn advance(&mut self) {
        self.node.machine.advance(self.clock(), &mut self.out);
        self.put_out();
    }

    fn put_out(&mut self) {
        for departure in self.out.departures.drain(..) {
            self.leaving.packet(&departure).expect("memory never fails");
            let frame = departure.frame;
            assert_eq!(frame.metadata().parked_bytes, 0, "a header leaves alone");
            // What a function answers is no packet that came in.
            let twice = match departure.is_reply {
                true => None,
                false => self
                    .left
                    .insert(frame.received_ns(), frame.bytes().to_vec()),
            };
            assert!(twice.is_none() || self.may_split, "a packet left twice");
            self.order.push((frame.received_ns(), frame.timestamp()));
            self.node.machine.pools().give(frame);
        }
        let frames = self.out.frames.drain(..);
        self.to_worker
            .extend(frames.map(|(worker, frame)| (worker, There::Frame(frame))));
        let time = self.node.machine.time();
        if std::mem::replace(&mut self.told, time) != time {
            let all = 0..self.node.workers.len();
            self.to_worker
                .extend(all.map(|worker| (worker, There::Time(time))));
        }
    }

    /// Lets frames arrive until so many are left on each way.
    fn carry(&mut self, left: usize) {
        while self.to_worker.len() > left || self.to_machine.len() > left {
            if self.to_worker.len() > left {
                match self.to_worker.pop_front() {
                    Some((worker, There::Frame(frame))) => self.serve(worker, frame),
                    Some((worker, There::Time(time))) => self.tell_time(worker, time),
                    None => {}
                }
            }
            if self.to_machine.len() > left {
                self.come_back();
            }
        }
    }

    fn tell_time(&mut self, worker: usize, time: Time) {
        let mut returns = Vec::new();
        let pools = &mut self.node.worker_pools[worker];
        self.node.workers[worker].advance(time, pools, &mut returns);
        self.give_back(worker, returns);
    }

    fn serve(&mut self, worker: usize, frame: Frame) {
        let Some(frame) = self.survivor(frame) else {
            return;
        };
        let mut returns = Vec::new();
        let pools = &mut self.node.worker_pools[worker];
        self.node.workers[worker].receive(frame, pools, &mut returns);
        self.give_back(worker, returns);
    }

    fn give_back(&mut self, worker: usize, returns: Vec<Frame>) {
        let frames = returns.into_iter().map(Back::Frame);
        self.to_machine.extend(frames.map(|frame| (worker, frame)));
        let progress = self.node.workers[worker].progress();
        self.to_machine
            .push_back((worker, Back::Progress(progress)));
    }

    fn come_back(&mut self) {
        match self.to_machine.pop_front() {
            Some((worker, Back::Frame(frame))) => {
                let Some(frame) = self.survivor(frame) else {
                    return;
                };
                let (clock, out) = (self.clock(), &mut self.out);
                let machine = &mut self.node.machine;
                machine.returned(worker, &mut vec![frame], clock, out);
            }
            Some((worker, Back::Progress(progress))) => {
                let machine = &mut self.node.machine;
                machine.progress(worker, progress, &mut self.out);
            }
            None => {}
        }
        self.put_out();
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
        let is_whole = carries_packet(frame) && header.metadata.parked_bytes == 0;
        self.lost += u64::from(is_whole);
    }

    /// The chain becomes another. The worker may crash after it was told to get ready and before it
    /// does so; what it says of that is lost.
    pub fn change(&mut self, replacement: Replacement, mut crashes: bool) {
        let begun = self.node.machine.change(Box::new(replacement));
        assert!(begun.is_ok(), "another change is under way");
        for _ in 0..1000 {
            self.now = Instant(self.now.0 + 100_000);
            self.advance();
            self.carry(0);
            for (worker, command) in std::mem::take(&mut self.out.commands) {
                if std::mem::take(&mut crashes) {
                    self.crash();
                    self.to_machine.clear();
                }
                let (mut returns, pools) = (Vec::new(), &mut self.node.worker_pools[worker]);
                let answer = self.node.workers[worker].execute(command, pools, &mut returns);
                self.give_back(worker, returns);
                self.carry(0);
                let (clock, out) = (self.clock(), &mut self.out);
                self.node.machine.answered(worker, answer, clock, out);
            }
            match self.out.outcomes.pop() {
                Some(ChangeOutcome::Changed(_)) => return,
                Some(_) => panic!("the change is refused"),
                None => {}
            }
        }
        panic!("the change does not end");
    }

    /// What is on its way to the first worker goes down with it.
    fn crash(&mut self) {
        for (worker, what) in std::mem::take(&mut self.to_worker) {
            match what {
                other if worker != 0 => self.to_worker.push_back((worker, other)),
                There::Frame(frame) => self.lose(&frame),
                // It is told again when it is another.
                There::Time(_) => {}
            }
        }
        let (mut returns, pools) = (Vec::new(), &mut self.node.worker_pools[0]);
        self.node.workers[0].crash(self.now, pools, &mut returns);
        self.give_back(0, returns);
    }

    /// What the node tells of the run.
    pub fn report(&self) -> Report {
        reported(Observer::new(Live::hidden()), &self.node)
    }

    /// What the run gave.
    pub fn outcome(self) -> Outcome {
        Outcome {
            flows: undrawn_flows(self.service, packets_of(&self.leaving)),
            report: self.report(),
            packets: self.leaving.packets,
            ports: self.leaving.ports,
        }
    }
}
