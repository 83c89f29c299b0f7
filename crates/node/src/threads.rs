//! Drives a node on threads: the machine on the caller's, each worker on its own, bounded rings
//! between.
//!
//! In a lossless run packets wait where there is no room. When a capture is replayed they also wait
//! where the capture's clock would run ahead of packets under way by more than the link's round trip:
//! the replay is as fast as the machine allows, and still every flow sees its state come and go as it
//! would have at the speed of the capture.

mod backoff;
mod packet_io;
mod returns;
mod worker;

pub use packet_io::PacketIo;
pub(crate) use packet_io::is_settled;

use crate::arrivals::{Arrivals, Filled, Pacing};
use crate::causality::Causality;
use crate::command::{
    Command, CommandQueue, CommandTarget, Commands, Question, WorkerAction, answer,
};
use crate::departure::Departure;
use crate::fast_path::BURST;
use crate::figures::{MachineFigures, PartFigures, WorkerFigures};
use crate::health::{Heartbeat, Phase};
use crate::machine::{ChangeRefusal, Machine, Output};
use crate::mirror::Event;
use crate::observe::{Observer, Tallies, pool_figures};
use crate::pinning;
use crate::sink::Sink;
use crate::source::Source;
use crate::thread_name;
use crate::wiring::Node;
use crate::worker::Worker;
use backoff::{Backoff, FairYield};
use packet_io::Replay;
use returns::{MachineInput, take};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant as WallClock};
use twinpath_coherence::Clock;
use twinpath_core::adjacency::shard_of;
use twinpath_core::{Frame, Instant, time_slice};
use twinpath_io::CaptureError;
use worker::{WorkerHeartbeat, WorkerLink, WorkerThread, worker_link};

/// Runs a node on threads until the source ends or `is_stopped` becomes true, and nothing is under
/// way any more. Returns how much packet time passed.
///
/// # Errors
/// Packets cannot be read or written. The workers are stopped all the same.
#[expect(clippy::too_many_arguments, reason = "each is another party of a run")]
pub fn run<S: Sink>(
    node: &mut Node,
    source: &mut Source,
    causality: Causality,
    sink: &mut S,
    observer: &mut Observer,
    pacing: Pacing,
    commands: &Commands,
    is_stopped: &AtomicBool,
) -> Result<Duration, CaptureError> {
    let arrivals = Arrivals::new(source, causality, pacing);
    let mut packets = Replay { arrivals, sink };
    run_on(node, &mut packets, observer, pacing, commands, is_stopped)
}

/// As [`run`], wherever packets come from and go.
///
/// # Errors
/// Packets cannot be read or written. The workers are stopped all the same.
pub fn run_on<P: PacketIo>(
    node: &mut Node,
    packets: &mut P,
    observer: &mut Observer,
    pacing: Pacing,
    commands: &Commands,
    is_stopped: &AtomicBool,
) -> Result<Duration, CaptureError> {
    pinning::stay_on(node.cpus.first());
    if !pacing.is_lossless {
        touch(node);
    }
    let heartbeat = Arc::clone(observer.heartbeat());
    heartbeat.enter(Phase::Ready);
    let started = first_packet(packets, node, observer, (commands, &heartbeat), is_stopped)?;
    let is_over = Arc::new(AtomicBool::new(false));
    let ring_frames = node.machine.limits().ring_frames;
    let mut links = Vec::new();
    std::thread::scope(|scope| {
        let workers = node.workers.iter_mut().zip(&mut node.worker_pools);
        for (number, (worker, pools)) in workers.enumerate() {
            worker.start(started);
            let (worker_link, end) = worker_link(ring_frames, &is_over);
            links.push(worker_link);
            let heartbeat = WorkerHeartbeat::new(&heartbeat, number);
            let cpu = node.cpus.get(1 + number);
            let name = thread_name::of_worker(number, node.shard);
            scope.spawn(move || {
                thread_name::take(&name);
                pinning::stay_on(cpu);
                // The machine's thread may share the processor, and has its usual slices.
                time_slice::shorten();
                WorkerThread::new(worker, pools, end, heartbeat).run()
            });
        }
        node.machine.start(started);
        let mut driver = Driver {
            machine: &mut node.machine,
            links,
            packets,
            observer,
            pacing,
            commands: CommandQueue::new(Some(commands)),
            output: Output::default(),
            burst: Vec::with_capacity(BURST),
            returned: Vec::new(),
            port_frames: Vec::new(),
            began: WallClock::now(),
            started,
            packet_clock: started,
            next_tick_ns: 0,
            idle: Backoff::default(),
            fair_yield: FairYield::default(),
            is_drained: None,
        };
        let result = driver.run(is_stopped);
        is_over.store(true, Ordering::Release);
        // Workers may be waiting for room in their rings.
        driver.drain_until_workers_end();
        result?;
        Ok(driver.packet_clock.since(started))
    })
}

/// Takes the memory of all tables and buffers, on a thread for each party. Huge pages cost
/// milliseconds each when they are touched first, and hashed tables touch all theirs with the
/// first dozens of packets: a live run would drop those behind them.
fn touch(node: &mut Node) {
    std::thread::scope(|scope| {
        for (worker, pools) in node.workers.iter_mut().zip(&mut node.worker_pools) {
            scope.spawn(move || {
                worker.touch();
                pools.touch();
            });
        }
        node.machine.touch();
    });
}

/// The run begins at its first packet. Whoever asks something before that is answered.
fn first_packet(
    packets: &mut impl PacketIo,
    node: &mut Node,
    observer: &mut Observer,
    (commands, heartbeat): (&Commands, &Heartbeat),
    is_stopped: &AtomicBool,
) -> Result<Instant, CaptureError> {
    let mut idle = Backoff::default();
    loop {
        heartbeat.all_turn();
        match packets.first()? {
            Some(at) => return Ok(at),
            None if packets.is_over() || is_stopped.load(Ordering::Relaxed) => {
                return Ok(Instant::ZERO);
            }
            None => {}
        }
        match commands.try_recv() {
            Ok(command) => answer_before_start(command, node, observer, packets),
            Err(_) => idle.wait(),
        }
    }
}

/// What is asked while all is at hand, for nothing has begun.
fn answer_before_start(
    command: Command,
    node: &mut Node,
    observer: &mut Observer,
    packets: &impl PacketIo,
) {
    match command {
        Command::Ask(worker, question) => {
            if let Some(worker) = node.workers.get(worker) {
                worker::answer(question, worker, Instant::ZERO);
            }
        }
        Command::Take(worker, take) => {
            if let Some(worker) = node.workers.get_mut(worker) {
                worker::give(take, worker);
            }
        }
        Command::AskMachine(question) => answer(question, &node.machine),
        Command::Figures(told) => {
            let figures = figures(observer, (0, 0), &mut node.machine, packets);
            // Whoever has gone away hears nothing, here as below.
            let _ = told.send(PartFigures::Machine(Box::new(figures), node.workers.len()));
            for (number, worker) in node.workers.iter().enumerate() {
                let figures = WorkerFigures::of(worker).numbered(number);
                let _ = told.send(PartFigures::Worker(Box::new(figures)));
            }
        }
        Command::Replace(replacement, answer) => {
            let _ = answer.send(Err((replacement, ChangeRefusal::NotBegun)));
        }
    }
}

/// What the machine's thread knows after so much packet time and real time.
fn figures(
    observer: &mut Observer,
    (packet_ns, wall_ns): (u64, u64),
    machine: &mut Machine,
    packets: &impl PacketIo,
) -> MachineFigures {
    observer.lost_at_ports(packets.losses());
    let mut figures = observer.figures(packet_ns, wall_ns, machine);
    packets.figures(&mut figures.report);
    pool_figures(machine.pools(), &mut figures.report);
    figures
}

/// What happened at memory servers goes into the log.
fn log_server_events(machine: &mut Machine) {
    for (server, told) in machine.take_server_events() {
        let event = told.event;
        match (event.is_error(), told.leaves_whole) {
            (true, true) => {
                tracing::error!("memory server {server}: {event}; packets go on unsplit");
            }
            (true, false) => tracing::warn!("memory server {server}: {event}"),
            (false, _) => tracing::info!("memory server {server}: {event}"),
        }
    }
}

/// How long the machine's thread may rest while frames are under way to workers, and while none are.
const SHORTEST_REST: Duration = Duration::from_micros(20);
const LONGEST_REST: Duration = Duration::from_millis(1);

/// How long the machine need not be told the time: until its next deadline, unless something is under way.
fn rest_of(machine: &Machine, clock: Clock) -> Duration {
    // What is under way comes back soon, and nothing tells of it but a look at its ring.
    if !machine.is_quiet() {
        return SHORTEST_REST;
    }
    let deadline = machine.next_deadline(clock);
    let until = deadline.map_or(LONGEST_REST, |at| at.since(clock.link));
    until.clamp(SHORTEST_REST, LONGEST_REST)
}

struct Driver<'a, P> {
    machine: &'a mut Machine,
    links: Vec<WorkerLink>,
    packets: &'a mut P,
    observer: &'a mut Observer,
    pacing: Pacing,
    commands: CommandQueue<'a>,
    output: Output,
    burst: Vec<Frame>,
    returned: Vec<Frame>,
    /// Of memory servers, and what nobody took; empty between turns.
    port_frames: Vec<Frame>,
    began: WallClock,
    started: Instant,
    packet_clock: Instant,
    next_tick_ns: u64,
    idle: Backoff,
    fair_yield: FairYield,
    /// Once the run is over: whether all has come to its end.
    is_drained: Option<bool>,
}

impl<P: PacketIo> Driver<'_, P> {
    fn run(&mut self, is_stopped: &AtomicBool) -> Result<(), CaptureError> {
        let mut is_stopping = false;
        while self.is_drained.is_none() {
            self.observer.heartbeat().machine_turns();
            if !is_stopping {
                self.take_command();
                let wall_ns = self.wall_ns();
                let now = self.started + Duration::from_nanos(wall_ns);
                let (packets, burst) = (&mut *self.packets, &mut self.burst);
                let filled = packets.fill(self.machine, now, wall_ns, burst)?;
                let is_stopped = is_stopped.load(Ordering::Relaxed);
                if filled == Filled::End || is_stopped && self.packets.stops() {
                    is_stopping = true;
                    self.observer.heartbeat().enter(Phase::Stopping);
                    self.receive()?;
                    self.machine.stop(&mut self.output);
                }
            }
            self.take_across()?;
            self.rest_if_idle();
            self.receive()?;
            self.yield_fairly();
            self.take_returns()?;
            self.receive_from_servers()?;
            self.take_undelivered()?;
            self.tick();
        }
        let pools = self.machine.pools();
        self.packets.advance(Instant::NEVER, pools)
    }

    /// With nothing to do, other threads may have the processor.
    fn rest_if_idle(&mut self) {
        let is_idle = self.burst.is_empty() && self.links.iter().all(WorkerLink::is_empty);
        if !is_idle {
            self.idle.end();
            return;
        }
        let clock = self.clock();
        let (packets, machine) = (&mut *self.packets, &*self.machine);
        self.idle.wait_or(|| packets.rest(rest_of(machine, clock)));
    }

    /// A worker that has enough to do may be waiting for this very processor: more that came to it now
    /// would find it behind what has left the caches again.
    fn yield_fairly(&mut self) {
        if self.machine.has_busy_worker() {
            self.fair_yield.give(self.began);
        }
    }

    fn wall_ns(&self) -> u64 {
        self.began.elapsed().as_nanos() as u64
    }

    /// The packet clock is that of the last packet; live it goes on also when none comes.
    fn clock(&self) -> Clock {
        let wall = Duration::from_nanos(self.wall_ns());
        let packet = match self.pacing.is_lossless {
            true => self.packet_clock,
            false => self.packet_clock.max(self.started + wall),
        };
        Clock {
            packet,
            link: Instant(wall.as_nanos() as u64),
        }
    }

    /// The burst goes in, and time goes on.
    fn receive(&mut self) -> Result<(), CaptureError> {
        if let Some(last) = self.burst.last() {
            self.packet_clock = last.timestamp();
        }
        let clock = self.clock();
        if !self.burst.is_empty() {
            let mirror = self.machine.mirror();
            if mirror.wants_ports() {
                let frames = self.burst.iter();
                frames.for_each(|frame| mirror.copy(Event::Received, frame));
            }
            self.machine
                .receive(&mut self.burst, clock, &mut self.output);
            self.observer.arrived(self.machine);
        }
        self.machine.advance(clock, &mut self.output);
        self.put_out()
    }

    /// Takes what memory servers have sent.
    fn receive_from_servers(&mut self) -> Result<(), CaptureError> {
        let pools = self.machine.pools();
        self.packets
            .receive_from_servers(pools, &mut self.port_frames);
        if self.port_frames.is_empty() {
            return Ok(());
        }
        let clock = self.clock();
        self.machine
            .receive_from_servers(&mut self.port_frames, clock, &mut self.output);
        self.put_out()
    }

    /// Tells senders of what nobody took at its link. How long it was there is no latency of what they are told.
    fn take_undelivered(&mut self) -> Result<(), CaptureError> {
        self.packets.undelivered(&mut self.port_frames);
        if self.port_frames.is_empty() {
            return Ok(());
        }
        let received_ns = self.wall_ns();
        let frames = self.port_frames.iter_mut();
        frames.for_each(|frame| frame.set_received_ns(received_ns));
        let clock = self.clock();
        self.machine
            .undelivered(&mut self.port_frames, clock, &mut self.output);
        self.put_out()
    }

    /// Takes packets that have come from other shards.
    fn take_across(&mut self) -> Result<(), CaptureError> {
        self.packets
            .come_across(self.machine, &mut self.port_frames);
        if self.port_frames.is_empty() {
            return Ok(());
        }
        let received_ns = self.wall_ns();
        for frame in &mut self.port_frames {
            frame.set_received_ns(received_ns);
            self.packet_clock = self.packet_clock.max(frame.timestamp());
        }
        let clock = self.clock();
        self.machine
            .receive_across(&mut self.port_frames, clock, &mut self.output);
        self.put_out()
    }

    /// What came out goes where it belongs.
    fn put_out(&mut self) -> Result<(), CaptureError> {
        if !self.output.messages.is_empty() {
            let pools = self.machine.pools();
            self.packets.tell_servers(&mut self.output.messages, pools);
        }
        self.depart()?;
        for (worker, frame) in self.output.frames.drain(..) {
            self.links[worker].send(frame);
        }
        let time = self.machine.time();
        self.links
            .iter_mut()
            .for_each(|worker_link| worker_link.tell_time(time));
        for (worker, command) in self.output.commands.drain(..) {
            self.links[worker].tell(command);
        }
        for outcome in std::mem::take(&mut self.output.outcomes) {
            if let Some(is_drained) = self.commands.came_of_command(outcome) {
                self.is_drained = Some(is_drained);
            }
        }
        Ok(())
    }

    fn depart(&mut self) -> Result<(), CaptureError> {
        if self.output.departures.is_empty() {
            return Ok(());
        }
        let now_ns = self.wall_ns();
        let is_mirrored = self.machine.mirror().wants_ports();
        for departure in self.output.departures.drain(..) {
            if let Some(shard) = shard_of(departure.frame.metadata().egress) {
                self.packets
                    .goes_across(shard, departure.frame, self.machine);
                continue;
            }
            let latency = now_ns.saturating_sub(departure.frame.received_ns());
            self.observer.departed(&departure, latency);
            if is_mirrored {
                let Departure { frame, port, .. } = &departure;
                let of = (frame.timestamp().0, *port);
                let mirror = self.machine.mirror();
                mirror.copy_bytes(Event::Transmitted, of, frame.bytes());
            }
            self.packets.leaves(departure, self.machine.pools())?;
        }
        let oldest = self.machine.oldest();
        self.packets.advance(oldest, self.machine.pools())
    }

    /// Takes what has come back.
    fn take_returns(&mut self) -> Result<(), CaptureError> {
        for worker in 0..self.links.len() {
            let mut input = MachineInput {
                worker,
                clock: self.clock(),
                machine: self.machine,
                out: &mut self.output,
            };
            take(&mut self.links[worker], &mut self.returned, &mut input);
        }
        self.put_out()
    }

    fn tick(&mut self) {
        let wall_ns = self.wall_ns();
        if wall_ns < self.next_tick_ns && self.pacing.is_paced {
            return;
        }
        self.next_tick_ns = wall_ns + 1_000_000;
        log_server_events(self.machine);
        let packet_ns = self.packet_clock.since(self.started).as_nanos() as u64;
        let (links, packets) = (&self.links, &*self.packets);
        let heartbeat = self.observer.heartbeat();
        packets.each_port(&mut |port, state| heartbeat.port(port, state));
        self.observer.tick(packet_ns, wall_ns, self.machine, || {
            let mut tallies = Tallies::default();
            for worker_link in links {
                tallies.add(&worker_link.drops(), worker_link.restarts());
            }
            (tallies, packets.losses(), packets.kernel_figures())
        });
    }

    fn drain_until_workers_end(&mut self) {
        let mut idle = Backoff::default();
        while !self.links.iter().all(WorkerLink::is_left) {
            for worker_link in &mut self.links {
                worker_link
                    .from_worker
                    .receive(&mut self.returned, usize::MAX);
            }
            self.returned.clear();
            idle.wait();
        }
    }
}

impl<'a, P: PacketIo> CommandTarget<'a> for Driver<'a, P> {
    fn queue(&mut self) -> &mut CommandQueue<'a> {
        &mut self.commands
    }

    fn machine(&mut self) -> &mut Machine {
        self.machine
    }

    fn ask(&mut self, worker: usize, question: Question) {
        if let Some(worker_link) = self.links.get(worker) {
            worker_link.ask(question, self.clock().packet);
        }
    }

    fn take(&mut self, worker: usize, take: WorkerAction) {
        if let Some(link) = self.links.get(worker) {
            link.take(take);
        }
    }

    /// Tells what this thread knows, and has each worker tell what it knows.
    fn tell_figures(&mut self, told: &mpsc::Sender<PartFigures>) {
        let packet_ns = self.packet_clock.since(self.started).as_nanos() as u64;
        let times = (packet_ns, self.wall_ns());
        let figures = figures(self.observer, times, self.machine, self.packets);
        // Whoever has gone away hears nothing.
        let _ = told.send(PartFigures::Machine(Box::new(figures), self.links.len()));
        for (number, worker_link) in self.links.iter().enumerate() {
            let told = told.clone();
            let tell = move |worker: &Worker, _: Instant| {
                let figures = WorkerFigures::of(worker).numbered(number);
                let _ = told.send(PartFigures::Worker(Box::new(figures)));
            };
            worker_link.ask(Box::new(tell), self.packet_clock);
        }
    }
}
