//! Drives a node in one thread under virtual time: a link of constant delay, and a run that is the
//! same every time.
//!
//! The packet clock is that of the packets. The link's runs ahead of it where packets have to wait
//! for what caused them, or for room: then frames under way arrive while no packet does.

use crate::arrivals::{Arrivals, Pacing};
use crate::causality::Causality;
use crate::command::{CommandQueue, CommandTarget, Commands, Question, WorkerAction};
use crate::departure::Via;
use crate::fast_path::BURST;
use crate::figures::{PartFigures, WorkerFigures};
use crate::machine::{Machine, Output, Progress, Time};
use crate::observe::{Observer, Tallies};
use crate::sink::Sink;
use crate::source::Source;
use crate::threads::is_settled;
use crate::watch::{TraceStep, Watch};
use crate::wiring::Node;
use std::collections::VecDeque;
use std::sync::mpsc;
use std::time::{Duration, Instant as WallClock};
use twinpath_coherence::Clock;
use twinpath_core::adjacency::shard_of;
use twinpath_core::{DropReason, Frame, Instant, Pools};
use twinpath_io::CaptureError;

/// What is on its way, due at its time.
struct InFlight<T> {
    due: Instant,
    worker: usize,
    what: T,
}

/// What is on its way to a worker.
enum ToWorker {
    Frame(Frame),
    Time(Time),
}

/// What is on its way back from a worker: frames, and how far it is when they have been handed in.
struct Returns {
    frames: Vec<Frame>,
    progress: Progress,
}

/// Who is at the other end of the ports that lead to memory servers, under virtual time.
pub trait Peers {
    /// A frame was sent by this port.
    fn send(&mut self, port: u16, frame: &[u8], now: Instant);

    /// When something is to be taken from here next.
    fn next(&self) -> Instant;

    /// Appends what arrives now, each frame with its port.
    fn take(&mut self, now: Instant, pools: &mut Pools, frames: &mut Vec<Frame>);
}

/// How packets enter a run under virtual time: each when the packet clock has come to it.
pub(crate) const PACING: Pacing = Pacing {
    is_lossless: true,
    is_paced: true,
    most_ahead: None,
};

/// One run under virtual time.
pub struct VirtualRun<'a, S: Sink> {
    node: &'a mut Node,
    sink: &'a mut S,
    observer: &'a mut Observer,
    one_way: Duration,
    to_workers: VecDeque<InFlight<ToWorker>>,
    from_workers: VecDeque<InFlight<Returns>>,
    /// What time workers have been told, or will be.
    told: Time,
    output: Output,
    burst: Vec<Frame>,
    returns: Vec<Frame>,
    /// The link's clock.
    now: Instant,
    /// How far it is ahead of the packet clock.
    ahead: Duration,
    commands: CommandQueue<'a>,
    peers: Option<&'a mut dyn Peers>,
    /// Packets on their way to other shards; empty between calls.
    going_across: Vec<(u16, Frame)>,
    /// When the first packet arrived.
    started: Option<Instant>,
    /// When the run began, on the wall.
    began: WallClock,
    is_over: bool,
}

/// Time goes on by so much where the machine waits for nothing.
const TICK: Duration = Duration::from_millis(1);

/// A packet that is followed is waited for while no more than so many things happen.
const MOST_EVENTS: usize = 1 << 20;

#[derive(Copy, Clone)]
enum NextEvent {
    Arrival,
    Return,
    /// Frames of memory servers arrive.
    Heard,
    /// The machine is told the time.
    Tick,
}

impl<'a, S: Sink> VirtualRun<'a, S> {
    /// A run over a link with this round trip.
    pub fn new(
        node: &'a mut Node,
        sink: &'a mut S,
        observer: &'a mut Observer,
        round_trip: Duration,
    ) -> Self {
        Self {
            node,
            sink,
            observer,
            one_way: round_trip / 2,
            to_workers: VecDeque::new(),
            from_workers: VecDeque::new(),
            told: Time::default(),
            output: Output::default(),
            burst: Vec::with_capacity(BURST),
            returns: Vec::new(),
            now: Instant::ZERO,
            ahead: Duration::ZERO,
            commands: CommandQueue::new(None),
            peers: None,
            going_across: Vec::new(),
            started: None,
            began: WallClock::now(),
            is_over: false,
        }
    }

    /// The same, with somebody who may want something of it.
    pub fn hearing(self, commands: &'a Commands) -> Self {
        let commands = CommandQueue::new(Some(commands));
        Self { commands, ..self }
    }

    /// The same, with somebody at the other end of ports that lead to memory servers: the oracles with
    /// simulated servers use it, and nobody else, as a replay has none.
    pub fn with_peers(self, peers: &'a mut dyn Peers) -> Self {
        let peers = Some(peers);
        Self { peers, ..self }
    }

    /// Runs until the source ends and nothing is under way any more. Returns how much packet time
    /// passed.
    ///
    /// # Errors
    /// Packets cannot be read or written.
    pub fn run(
        &mut self,
        source: &mut Source,
        causality: Causality,
    ) -> Result<Duration, CaptureError> {
        let mut arrivals = Arrivals::new(source, causality, PACING);
        while self.take_in(&mut arrivals)? {}
        let end = self.packet_now();
        self.finish()?;
        Ok(end.since(self.started.unwrap_or(end)))
    }

    /// Runs until a packet of a source that is [followed](Arrivals::following) has taken its last
    /// step, or as many as come. Calls `step` with each.
    ///
    /// # Errors
    /// Packets cannot be read or written.
    pub(crate) fn follow(
        &mut self,
        arrivals: &mut Arrivals<'_>,
        watch: &Watch,
        mut step: impl FnMut(TraceStep, &Node),
    ) -> Result<(), CaptureError> {
        let (mut followed, mut rest) = (None, MOST_EVENTS);
        loop {
            let has_more = self.take_in(arrivals)? || self.settle(&mut rest)?;
            let mut is_last = false;
            for (ordinal, one) in watch.take() {
                (followed, is_last) = (Some(ordinal), one.is_last());
                step(one, self.node);
            }
            // What the watermark has passed is kept by a function, or was answered by one.
            let has_ended = followed.is_some_and(|number| self.node.machine.watermark() > number);
            if is_last || has_ended || !has_more {
                return Ok(());
            }
        }
    }

    /// Runs to the end. Calls `step` with each step of packets that are followed, and their numbers in
    /// the order of arrival.
    ///
    /// # Errors
    /// Packets cannot be read or written.
    pub(crate) fn follow_all(
        &mut self,
        arrivals: &mut Arrivals<'_>,
        watch: &Watch,
        mut step: impl FnMut(u64, TraceStep, &Node),
    ) -> Result<(), CaptureError> {
        let mut has_more = true;
        while has_more {
            has_more = self.take_in(arrivals)?;
            if !has_more {
                self.finish()?;
            }
            for (ordinal, one) in watch.take() {
                step(ordinal, one, self.node);
            }
        }
        Ok(())
    }

    /// Does what its operator has asked for, in a node in which nothing is under way, as between two
    /// runs.
    ///
    /// # Errors
    /// Packets cannot be written.
    pub(crate) fn take_commands(&mut self) -> Result<(), CaptureError> {
        self.now = self.node.machine.oldest();
        self.take_command();
        while self.commands.is_changing() {
            self.go_on()?;
        }
        Ok(())
    }

    /// The source has no more: what is under way goes on, for so many happenings. Returns whether
    /// anything was.
    fn settle(&mut self, rest: &mut usize) -> Result<bool, CaptureError> {
        if *rest == 0 || self.node.machine.is_quiet() {
            return Ok(false);
        }
        *rest -= 1;
        self.go_on().map(|()| true)
    }

    /// What comes next happens: packets enter, or those that wait let something else happen first.
    /// Returns whether the source had more.
    fn take_in(&mut self, arrivals: &mut Arrivals<'_>) -> Result<bool, CaptureError> {
        if arrivals.is_over() {
            return Ok(false);
        }
        self.take_command();
        let is_across = self.take_across(arrivals)?;
        let Some(at) = arrivals.first()? else {
            if !is_across {
                self.let_time_pass()?;
            }
            self.send_across(arrivals);
            return Ok(true);
        };
        if self.started.is_none() {
            self.start(at);
        }
        self.arrive(at, arrivals)?;
        self.send_across(arrivals);
        self.observer.arrived(&self.node.machine);
        let elapsed = self.packet_now().since(self.started.unwrap_or(at));
        self.observer.tick(
            elapsed.as_nanos() as u64,
            self.began.elapsed().as_nanos() as u64,
            &self.node.machine,
            || (Tallies::of(&self.node.workers), self.sink.losses(), None),
        );
        Ok(true)
    }

    /// Takes packets that have crossed from other shards, if some may enter. Returns whether some did.
    fn take_across(&mut self, arrivals: &mut Arrivals<'_>) -> Result<bool, CaptureError> {
        arrivals.settle(is_settled(&self.node.machine));
        let Some(at) = arrivals.first_across() else {
            return Ok(false);
        };
        if self.started.is_none() {
            self.start(at);
        }
        self.let_happen_until(at + self.ahead)?;
        self.now = self.now.max(at + self.ahead);
        arrivals.take_across(&mut self.node.machine, &mut self.burst);
        for frame in &mut self.burst {
            frame.set_received_ns(self.now.0);
        }
        let clock = self.clock();
        let has_some = !self.burst.is_empty();
        self.node
            .machine
            .receive_across(&mut self.burst, clock, &mut self.output);
        self.advance()?;
        Ok(has_some)
    }

    /// Packets that have left for other shards go there.
    fn send_across(&mut self, arrivals: &Arrivals<'_>) {
        for (shard, frame) in self.going_across.drain(..) {
            if !arrivals.send_across(shard, &frame) {
                self.node.machine.count_drop(DropReason::RunEnded);
            }
            self.node.machine.pools().give(frame);
        }
    }

    fn start(&mut self, at: Instant) {
        (self.now, self.started) = (at, Some(at));
        self.node.machine.start(at);
        let workers = self.node.workers.iter_mut();
        workers.for_each(|worker| worker.start(at));
    }

    /// The source has nothing now. What is under way goes on, and a change that somebody waits for.
    fn let_time_pass(&mut self) -> Result<(), CaptureError> {
        if self.commands.is_changing() || !self.node.machine.is_quiet() {
            return self.go_on();
        }
        std::thread::yield_now();
        Ok(())
    }

    /// Packets that arrive at `at` enter; what is due before happens before. If none may enter yet,
    /// one thing happens while they wait.
    fn arrive(&mut self, at: Instant, arrivals: &mut Arrivals<'_>) -> Result<(), CaptureError> {
        self.let_happen_until(at + self.ahead)?;
        self.now = self.now.max(at + self.ahead);
        let (now, machine) = (self.packet_now(), &mut self.node.machine);
        arrivals.fill(machine, now, self.now.0, &mut self.burst)?;
        if self.burst.is_empty() {
            return match arrivals.next_at() {
                Some(next) if next <= now => self.go_on(),
                _ => Ok(()),
            };
        }
        let clock = self.clock();
        self.node
            .machine
            .receive(&mut self.burst, clock, &mut self.output);
        self.advance()
    }

    /// Packets wait, and so does their clock: the next thing happens on the link. If there is none,
    /// time passes.
    fn go_on(&mut self) -> Result<(), CaptureError> {
        let machine = &self.node.machine;
        let deadline = machine.next_deadline_while_packets_wait(self.clock());
        let next = self.next_landing_or(deadline);
        let (at, what) = next.unwrap_or((self.now + TICK, NextEvent::Tick));
        let packet_now = self.packet_now();
        self.now = self.now.max(at);
        self.ahead = self.now.since(packet_now);
        self.let_happen(what)
    }

    fn advance(&mut self) -> Result<(), CaptureError> {
        let clock = self.clock();
        self.node.machine.advance(clock, &mut self.output);
        self.put_out()
    }

    fn packet_now(&self) -> Instant {
        self.now - self.ahead
    }

    fn clock(&self) -> Clock {
        Clock {
            packet: self.packet_now(),
            link: self.now,
        }
    }

    /// Departures go out, frames go on the link, workers are told what to do.
    fn put_out(&mut self) -> Result<(), CaptureError> {
        loop {
            for departure in self.output.departures.drain(..) {
                if let Some(shard) = shard_of(departure.frame.metadata().egress) {
                    self.going_across.push((shard, departure.frame));
                    continue;
                }
                let latency = match departure.via {
                    Via::Fast => 0,
                    Via::Slow => self.now.0.saturating_sub(departure.frame.received_ns()),
                };
                self.observer.departed(&departure, latency);
                self.sink.packet(&departure)?;
                self.node.machine.pools().give(departure.frame);
            }
            self.put_on_the_link();
            self.tell_peers();
            let commands = std::mem::take(&mut self.output.commands);
            if commands.is_empty() {
                break;
            }
            // Nothing is under way when there are commands.
            for (worker, command) in commands {
                let pools = &mut self.node.worker_pools[worker];
                let answer = self.node.workers[worker].execute(command, pools, &mut self.returns);
                self.hand_in_at_once(worker);
                let (clock, out) = (self.clock(), &mut self.output);
                self.node.machine.answered(worker, answer, clock, out);
            }
        }
        for outcome in std::mem::take(&mut self.output.outcomes) {
            self.is_over |= self.commands.came_of_command(outcome).is_some();
        }
        self.sink.advance(self.node.machine.oldest())
    }

    fn tell_peers(&mut self) {
        for (port, frame) in self.output.messages.drain(..) {
            if let Some(peers) = &mut self.peers {
                peers.send(port, frame.bytes(), self.now);
            }
            self.node.machine.pools().give(frame);
        }
    }

    fn hear_peers(&mut self) -> Result<(), CaptureError> {
        let Some(peers) = &mut self.peers else {
            return Ok(());
        };
        let (mut frames, machine) = (Vec::new(), &mut self.node.machine);
        peers.take(self.now, machine.pools(), &mut frames);
        let clock = self.clock();
        self.node
            .machine
            .receive_from_servers(&mut frames, clock, &mut self.output);
        self.put_out()
    }

    fn put_on_the_link(&mut self) {
        let due = self.now + self.one_way;
        let frames = self.output.frames.drain(..);
        self.to_workers.extend(frames.map(|(worker, frame)| {
            let what = ToWorker::Frame(frame);
            InFlight { due, worker, what }
        }));
        let time = self.node.machine.time();
        if std::mem::replace(&mut self.told, time) != time {
            let what = || ToWorker::Time(time);
            let workers = 0..self.node.workers.len();
            self.to_workers.extend(workers.map(|worker| {
                let what = what();
                InFlight { due, worker, what }
            }));
        }
    }

    fn hand_in_at_once(&mut self, worker: usize) {
        let (clock, out) = (self.clock(), &mut self.output);
        let machine = &mut self.node.machine;
        machine.returned(worker, &mut self.returns, clock, out);
        machine.progress(worker, self.node.workers[worker].progress(), out);
    }

    /// Everything that is due before or at `until`, in order.
    fn let_happen_until(&mut self, until: Instant) -> Result<(), CaptureError> {
        while let Some((at, what)) = self.next_happening().filter(|&(at, _)| at <= until) {
            self.now = self.now.max(at);
            self.let_happen(what)?;
        }
        Ok(())
    }

    fn let_happen(&mut self, what: NextEvent) -> Result<(), CaptureError> {
        match what {
            NextEvent::Arrival => self.arrive_at_worker(),
            NextEvent::Return => self.return_from_worker()?,
            NextEvent::Heard => self.hear_peers()?,
            NextEvent::Tick => self.advance()?,
        }
        Ok(())
    }

    /// What is under way and arrives next.
    fn next_landing(&self) -> Option<(Instant, NextEvent)> {
        let arrival = self.to_workers.front();
        let back = self.from_workers.front();
        let arrival = arrival.map(|frame| (frame.due, NextEvent::Arrival));
        let back = back.map(|returns| (returns.due, NextEvent::Return));
        let heard = self.peers.as_ref().map(|peers| peers.next());
        let heard = heard.filter(|&at| at != Instant::NEVER);
        let heard = heard.map(|at| (at.max(self.now), NextEvent::Heard));
        [back, arrival, heard]
            .into_iter()
            .flatten()
            .min_by_key(|&(at, _)| at)
    }

    fn next_happening(&self) -> Option<(Instant, NextEvent)> {
        self.next_landing_or(self.node.machine.next_deadline(self.clock()))
    }

    fn next_landing_or(&self, deadline: Option<Instant>) -> Option<(Instant, NextEvent)> {
        let tick = deadline.map(|at| (at, NextEvent::Tick));
        let landing = self.next_landing().into_iter();
        landing.chain(tick).min_by_key(|&(at, _)| at)
    }

    fn arrive_at_worker(&mut self) {
        let Some(InFlight { worker, what, .. }) = self.to_workers.pop_front() else {
            return;
        };
        let Node {
            workers,
            worker_pools,
            ..
        } = &mut *self.node;
        let (one, pools) = (&mut workers[worker], &mut worker_pools[worker]);
        match what {
            ToWorker::Frame(frame) => one.receive(frame, pools, &mut self.returns),
            ToWorker::Time(time) => one.advance(time, pools, &mut self.returns),
        }
        self.send_back(worker);
    }

    fn send_back(&mut self, worker: usize) {
        self.from_workers.push_back(InFlight {
            due: self.now + self.one_way,
            worker,
            what: Returns {
                frames: std::mem::take(&mut self.returns),
                progress: self.node.workers[worker].progress(),
            },
        });
    }

    fn return_from_worker(&mut self) -> Result<(), CaptureError> {
        let Some(InFlight { worker, what, .. }) = self.from_workers.pop_front() else {
            return Ok(());
        };
        let Returns {
            mut frames,
            progress,
        } = what;
        let (clock, out) = (self.clock(), &mut self.output);
        let machine = &mut self.node.machine;
        let has_brought = !frames.is_empty();
        machine.returned(worker, &mut frames, clock, out);
        machine.progress(worker, progress, out);
        // That a worker has heard the time is no occasion to tell it again: a silence would be full
        // of it.
        if has_brought || !machine.is_quiet() {
            machine.advance(clock, out);
        }
        self.put_out()
    }

    /// The last packets come back, all state goes home, and what functions keep is released.
    fn finish(&mut self) -> Result<(), CaptureError> {
        self.let_happen_until(self.now)?;
        self.node.machine.stop(&mut self.output);
        self.advance()?;
        while !self.is_over {
            self.go_on()?;
        }
        // Other shards take nothing any more.
        for (_, frame) in self.going_across.drain(..) {
            self.node.machine.count_drop(DropReason::RunEnded);
            self.node.machine.pools().give(frame);
        }
        self.sink.advance(Instant::NEVER)
    }
}

impl<'a, S: Sink> CommandTarget<'a> for VirtualRun<'a, S> {
    fn queue(&mut self) -> &mut CommandQueue<'a> {
        &mut self.commands
    }

    fn machine(&mut self) -> &mut Machine {
        &mut self.node.machine
    }

    fn ask(&mut self, worker: usize, question: Question) {
        let now = self.packet_now();
        if let Some(worker) = self.node.workers.get(worker) {
            question(worker, now);
        }
    }

    fn take(&mut self, worker: usize, take: WorkerAction) {
        if let Some(worker) = self.node.workers.get_mut(worker) {
            take(worker);
        }
    }

    fn tell_figures(&mut self, told: &mpsc::Sender<PartFigures>) {
        let wall_ns = self.began.elapsed().as_nanos() as u64;
        let workers = &self.node.workers;
        let figures = self.observer.figures(0, wall_ns, &self.node.machine);
        // Whoever has gone away hears nothing.
        let _ = told.send(PartFigures::Machine(Box::new(figures), workers.len()));
        for worker in workers {
            let _ = told.send(PartFigures::Worker(Box::new(WorkerFigures::of(worker))));
        }
    }
}
