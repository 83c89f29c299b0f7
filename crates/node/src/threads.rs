//! A whole node on threads: the fast path on the caller's, each worker on its own, bounded rings
//! between.
//!
//! A lossless run waits wherever a ring is full. When a capture is replayed it also waits where
//! the capture's clock would run ahead of the packets on the cores by more than the link's round
//! trip: the replay is as fast as the machine allows, and still every flow sees its state come
//! and go as it would have at the speed of the capture.

mod change;

pub use change::{Command, Commands, Done, NotNow, Replaced, no_commands};

use crate::fast_path::{BATCH, FastOutput};
use crate::live_drops::LiveDrops;
use crate::observe::Observer;
use crate::sink::Sink;
use crate::source::{Read, Source};
use crate::wiring::Node;
use crate::worker::Worker;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant as WallClock};
use twinpath_coherence::Clock;
use twinpath_core::{DropCounters, DropReason, Frame, Instant, Pools};
use twinpath_io::CaptureError;
use twinpath_link::ring::{RingReceiver, RingSender, ring};
use twinpath_link::{Sender, carries_packet, number};

/// How a threaded run behaves.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Tempo {
    /// Whether full rings push back; if not, packets are dropped there.
    pub is_lossless: bool,
    /// Whether packets wait for their time by the wall clock.
    pub is_paced: bool,
    /// How far the packet clock may run ahead of packets on the cores; zero does not bound it.
    pub round_trip: Duration,
    /// Frames that each ring holds.
    pub ring_frames: usize,
}

/// The fast path's end of the link to one worker.
struct Lane {
    to_worker: RingSender,
    from_worker: RingReceiver,
    numbers: Sender,
    /// The number of the last frame that the worker has finished with; its returns are in the
    /// ring before this changes.
    finished: Arc<AtomicU32>,
    /// What the worker dropped so far.
    drops: Arc<LiveDrops>,
    /// What the worker is to do between frames.
    tasks: mpsc::Sender<WorkerTask>,
    /// Number and time of frames that the worker has not finished with.
    in_flight: VecDeque<(u32, Instant)>,
}

/// What a worker's thread shares with the fast path's.
struct WorkerEnd {
    from_fast: RingReceiver,
    to_fast: RingSender,
    finished: Arc<AtomicU32>,
    drops: Arc<LiveDrops>,
    tasks: mpsc::Receiver<WorkerTask>,
    is_over: Arc<AtomicBool>,
}

/// What a worker does between two frames, with its buffers; frames for the fast path are appended.
pub type WorkerTask = Box<dyn FnOnce(&mut Worker, &mut Pools, &mut Vec<Frame>) + Send>;

/// Runs a node on threads until the source ends, the time is up or `is_stopped` becomes true, and
/// nothing is under way any more. Returns how much packet time passed.
///
/// # Errors
/// Packets cannot be read or written. The workers are stopped all the same.
pub fn run<S: Sink>(
    node: &mut Node,
    source: &mut Source,
    sink: &mut S,
    observer: &mut Observer,
    tempo: Tempo,
    commands: &Commands,
    is_stopped: &AtomicBool,
) -> Result<Duration, CaptureError> {
    if !tempo.is_lossless {
        touch(node);
    }
    let is_over = Arc::new(AtomicBool::new(false));
    let mut lanes = Vec::new();
    let mut ends = Vec::new();
    for _ in &node.workers {
        let (lane, end) = lane(tempo.ring_frames, &is_over);
        lanes.push(lane);
        ends.push(end);
    }
    let (fast_path, pools) = (&mut node.fast_path, &mut node.pools);
    let workers = node
        .workers
        .iter_mut()
        .zip(&mut node.worker_pools)
        .zip(ends);
    std::thread::scope(|scope| {
        let mut first = first_packet(source, is_stopped)?;
        let started = if let Read::Packet(at) = first {
            at
        } else {
            Instant::ZERO
        };
        for ((worker, pools), end) in workers {
            worker.start(started);
            scope.spawn(move || work(worker, pools, end));
        }
        fast_path.start(started);
        let mut fast = FastThread {
            fast_path,
            pools,
            lanes,
            sink,
            observer,
            tempo,
            commands,
            output: FastOutput::default(),
            batch: Vec::with_capacity(BATCH),
            returned: Vec::new(),
            began: WallClock::now(),
            started,
            packet_clock: started,
            next_tick_ns: 0,
            idle: Patience::default(),
            change: None,
        };
        let result = fast.run(&mut first, source, is_stopped);
        is_over.store(true, Ordering::Release);
        // Workers may be waiting for room in their return rings.
        let drained = fast.drain_until_workers_end();
        result.and(drained)?;
        Ok(fast.packet_clock.since(started))
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
        node.fast_path.touch();
        node.pools.touch();
    });
}

/// The run begins at its first packet.
fn first_packet(source: &mut Source, is_stopped: &AtomicBool) -> Result<Read, CaptureError> {
    let mut patience = Patience::default();
    loop {
        let read = source.read()?;
        if read != Read::Nothing || is_stopped.load(Ordering::Relaxed) {
            return Ok(read);
        }
        patience.wait();
    }
}

fn lane(ring_frames: usize, is_over: &Arc<AtomicBool>) -> (Lane, WorkerEnd) {
    let (to_worker, from_fast) = ring(ring_frames);
    let (to_fast, from_worker) = ring(ring_frames);
    let finished = Arc::new(AtomicU32::new(0));
    let drops = Arc::new(LiveDrops::default());
    let (task_sender, tasks) = mpsc::channel();
    let lane = Lane {
        to_worker,
        from_worker,
        numbers: Sender::default(),
        finished: Arc::clone(&finished),
        drops: Arc::clone(&drops),
        tasks: task_sender,
        in_flight: VecDeque::with_capacity(2 * ring_frames),
    };
    (
        lane,
        WorkerEnd {
            from_fast,
            to_fast,
            finished,
            drops,
            tasks,
            is_over: Arc::clone(is_over),
        },
    )
}

/// A worker's thread.
fn work(worker: &mut Worker, pools: &mut Pools, mut end: WorkerEnd) {
    let mut numbers = Sender::default();
    let mut frames = Vec::with_capacity(BATCH);
    let mut returns = Vec::new();
    let mut patience = Patience::default();
    let mut processed = 0u32;
    loop {
        let is_over = end.is_over.load(Ordering::Acquire);
        for task in end.tasks.try_iter() {
            task(worker, pools, &mut returns);
            send_back(&mut returns, &mut numbers, &mut end.to_fast);
        }
        if end.from_fast.receive(&mut frames, BATCH) == 0 {
            if is_over {
                break;
            }
            patience.wait();
            continue;
        }
        patience = Patience::default();
        for frame in frames.drain(..) {
            worker.receive(frame, pools, &mut returns);
            send_back(&mut returns, &mut numbers, &mut end.to_fast);
            processed = processed.wrapping_add(1);
            end.finished.store(processed, Ordering::Release);
        }
        end.drops.publish(&worker.drops());
    }
}

fn send_back(returns: &mut Vec<Frame>, numbers: &mut Sender, to_fast: &mut RingSender) {
    for mut frame in returns.drain(..) {
        number(&mut frame, numbers.number());
        let mut patience = Patience::default();
        while let Err(refused) = to_fast.send(frame) {
            if to_fast.is_abandoned() {
                return;
            }
            frame = refused;
            patience.wait();
        }
    }
}

/// Waiting that is quick at first and polite later: other threads may need the processor.
#[derive(Default)]
struct Patience(u32);

impl Patience {
    fn wait(&mut self) {
        self.0 = self.0.saturating_add(1);
        match self.0 {
            0..64 => std::hint::spin_loop(),
            64..2048 => std::thread::yield_now(),
            _ => std::thread::sleep(Duration::from_micros(20)),
        }
    }
}

struct FastThread<'a, S: Sink> {
    fast_path: &'a mut crate::FastPath,
    pools: &'a mut Pools,
    lanes: Vec<Lane>,
    sink: &'a mut S,
    observer: &'a mut Observer,
    tempo: Tempo,
    commands: &'a Commands,
    output: FastOutput,
    batch: Vec<Frame>,
    returned: Vec<Frame>,
    began: WallClock,
    started: Instant,
    packet_clock: Instant,
    next_tick_ns: u64,
    idle: Patience,
    /// What is about to be changed.
    change: Option<change::Change>,
}

impl<S: Sink> FastThread<'_, S> {
    fn run(
        &mut self,
        next: &mut Read,
        source: &mut Source,
        is_stopped: &AtomicBool,
    ) -> Result<(), CaptureError> {
        while *next != Read::End && !is_stopped.load(Ordering::Relaxed) {
            self.obey()?;
            self.fill_batch(next, source)?;
            self.rest_if_idle();
            self.process()?;
            self.take_returns()?;
            self.tick();
        }
        self.finish()
    }

    /// Takes packets that are due into the batch. A replay never takes packets together that lie
    /// further apart than a round trip.
    fn fill_batch(&mut self, next: &mut Read, source: &mut Source) -> Result<(), CaptureError> {
        let mut horizon = Instant::NEVER;
        while self.batch.len() < BATCH {
            match *next {
                Read::Packet(at) if at > horizon || !self.is_due(at) => break,
                Read::Packet(at) => {
                    if self.batch.is_empty() && !self.tempo.round_trip.is_zero() {
                        self.wait_for_cores(at)?;
                        horizon = at + self.tempo.round_trip;
                    }
                    if !self.take_packet(at, source.bytes())? {
                        break;
                    }
                }
                Read::TooLong => self.fast_path.count_drop(DropReason::FrameTooLong),
                Read::Nothing => {
                    *next = source.read()?;
                    if *next == Read::Nothing {
                        break;
                    }
                    continue;
                }
                Read::End => break,
            }
            *next = source.read()?;
        }
        Ok(())
    }

    /// With nothing to do, other threads may have the processor.
    fn rest_if_idle(&mut self) {
        if self.batch.is_empty() && self.lanes.iter().all(|lane| lane.in_flight.is_empty()) {
            self.idle.wait();
        } else {
            self.idle = Patience::default();
        }
    }

    fn is_due(&self, at: Instant) -> bool {
        !self.tempo.is_paced || at.since(self.started).as_nanos() as u64 <= self.wall_ns()
    }

    fn wall_ns(&self) -> u64 {
        self.began.elapsed().as_nanos() as u64
    }

    /// Copies a packet into a frame. Without a free frame, or where too many packets wait for their
    /// turn, a lossless run makes room first, by having the batch in hand processed: false asks for
    /// that. Only if even then every frame is held is the packet dropped.
    fn take_packet(&mut self, at: Instant, bytes: &[u8]) -> Result<bool, CaptureError> {
        let frame = match self.pools.take_filled(bytes) {
            Some(frame) => Some(frame),
            None if self.tempo.is_lossless && !self.batch.is_empty() => return Ok(false),
            None if self.tempo.is_lossless => {
                self.wait_for_cores(Instant::NEVER)?;
                if self.fast_path.oldest_parked().is_some() {
                    self.pass_parking(Instant::NEVER)?;
                }
                self.pools.take_filled(bytes)
            }
            None => None,
        };
        let Some(mut frame) = frame else {
            self.fast_path.count_drop(DropReason::NoBuffer);
            return Ok(true);
        };
        frame.set_timestamp(at);
        self.packet_clock = at;
        self.batch.push(frame);
        Ok(true)
    }

    fn clock(&self) -> Clock {
        Clock {
            packet: self.packet_clock,
            link: Instant(self.wall_ns()),
        }
    }

    /// Lets the queue in which payloads wait go on.
    fn pass_parking(&mut self, until: Instant) -> Result<(), CaptureError> {
        while self
            .fast_path
            .pass_parking(until, self.pools, &mut self.output)
            .is_some()
        {}
        self.depart()
    }

    /// The time of the queue in which payloads wait. In a run that must not lose anything it is the
    /// packets', and waits for the cores, so that no patience ends while a header is on its way;
    /// else it goes on, also when no packet comes.
    fn parking_clock(&self, patience: Duration) -> Instant {
        match self.tempo.is_lossless {
            true => self
                .packet_clock
                .min(self.oldest_in_flight() + patience / 2),
            false => self.started + Duration::from_nanos(self.wall_ns()),
        }
    }

    fn process(&mut self) -> Result<(), CaptureError> {
        if let Some(parking) = self.fast_path.parking() {
            let patience = parking.lot().config().patience;
            self.pass_parking(self.parking_clock(patience))?;
        }
        let clock = self.clock();
        for frame in &mut self.batch {
            frame.set_received_ns(clock.link.0);
        }
        self.fast_path
            .process(&mut self.batch, clock, self.pools, &mut self.output);
        self.fast_path.sweep(clock, self.pools, &mut self.output);
        self.put_out()
    }

    fn put_out(&mut self) -> Result<(), CaptureError> {
        self.depart()?;
        let mut punts = std::mem::take(&mut self.output.punts);
        for (worker, frame) in punts.drain(..) {
            self.punt(worker, frame)?;
        }
        // Sending may have waited for room and taken returns, which may have punted answers.
        if self.output.punts.is_empty() {
            self.output.punts = punts;
            return Ok(());
        }
        self.put_out()
    }

    fn depart(&mut self) -> Result<(), CaptureError> {
        let now_ns = self.wall_ns();
        for departure in self.output.departures.drain(..) {
            let latency = now_ns.saturating_sub(departure.frame.received_ns());
            self.observer
                .departed(departure.via, departure.frame.len(), latency);
            self.sink.packet(&departure)?;
            self.pools.give(departure.frame);
        }
        Ok(())
    }

    /// Sends a frame to a worker: waits for room, or drops the frame if the run is live.
    fn punt(&mut self, worker: usize, mut frame: Frame) -> Result<(), CaptureError> {
        let mut patience = Patience::default();
        let mut waited = false;
        loop {
            let lane = &mut self.lanes[worker];
            let at = frame.timestamp();
            let mut numbers = lane.numbers.clone();
            let sequence = numbers.number();
            number(&mut frame, sequence);
            match lane.to_worker.send(frame) {
                Ok(()) => {
                    lane.numbers = numbers;
                    lane.in_flight.push_back((sequence, at));
                    return Ok(());
                }
                Err(refused) => frame = refused,
            }
            self.observer.ring_full += u64::from(!std::mem::replace(&mut waited, true));
            if !self.tempo.is_lossless {
                // A message alone is no lost packet: the protocol sends it again.
                if carries_packet(&frame) {
                    self.fast_path.count_drop(DropReason::RingFull);
                    self.fast_path.header_dropped(&frame);
                }
                self.pools.give(frame);
                return Ok(());
            }
            self.take_returns()?;
            patience.wait();
        }
    }

    /// Takes what has come back. Frames are settled before what they answered counts as finished.
    fn take_returns(&mut self) -> Result<(), CaptureError> {
        for worker in 0..self.lanes.len() {
            let finished = self.lanes[worker].finished.load(Ordering::Acquire);
            let mut returned = std::mem::take(&mut self.returned);
            self.lanes[worker]
                .from_worker
                .receive(&mut returned, usize::MAX);
            let clock = self.clock();
            for frame in returned.drain(..) {
                self.fast_path
                    .returned(worker, frame, clock, self.pools, &mut self.output);
            }
            self.returned = returned;
            self.lanes[worker].forget_finished(finished);
        }
        self.depart()?;
        self.sink.advance(self.watermark())
    }

    /// The oldest packet that may still leave.
    fn watermark(&self) -> Instant {
        let waiting = self.fast_path.oldest_parked().unwrap_or(Instant::NEVER);
        self.oldest_in_flight().min(self.packet_clock).min(waiting)
    }

    /// When the oldest packet arrived that a worker has not finished with.
    fn oldest_in_flight(&self) -> Instant {
        let in_flight = self.lanes.iter().filter_map(|lane| lane.in_flight.front());
        let oldest = in_flight.map(|&(_, at)| at).min();
        oldest.unwrap_or(Instant::NEVER)
    }

    /// Waits until the cores have finished with every packet older than a round trip before `at`.
    fn wait_for_cores(&mut self, at: Instant) -> Result<(), CaptureError> {
        let mut patience = Patience::default();
        let allowed = if at == Instant::NEVER {
            at
        } else {
            at - self.tempo.round_trip
        };
        while self.lanes.iter().any(|lane| {
            lane.in_flight
                .front()
                .is_some_and(|&(_, sent)| sent < allowed)
        }) {
            self.take_returns()?;
            self.put_out()?;
            patience.wait();
        }
        Ok(())
    }

    fn tick(&mut self) {
        let wall_ns = self.wall_ns();
        if wall_ns < self.next_tick_ns && self.tempo.is_paced {
            return;
        }
        self.next_tick_ns = wall_ns + 1_000_000;
        let packet_ns = self.packet_clock.since(self.started).as_nanos() as u64;
        let lanes = &self.lanes;
        self.observer
            .tick(packet_ns, wall_ns, self.fast_path, || dropped_so_far(lanes));
    }

    /// The last packets come back and all state goes home. Then what functions keep until a
    /// deadline is released, and passes the rest of the chain.
    fn finish(&mut self) -> Result<(), CaptureError> {
        self.process()?;
        self.wait_for_cores(Instant::NEVER)?;
        self.tempo.is_lossless = true;
        self.bring_all_home()?;
        self.ask_all(|worker, pools, returns| worker.advance(Instant::NEVER, pools, returns))?;
        self.bring_all_home()
    }

    fn bring_all_home(&mut self) -> Result<(), CaptureError> {
        loop {
            let clock = self.clock();
            let done = self
                .fast_path
                .give_all_back(clock, self.pools, &mut self.output);
            self.put_out()?;
            self.wait_for_cores(Instant::NEVER)?;
            if done {
                return self.pass_parking(Instant::NEVER);
            }
        }
    }

    fn drain_until_workers_end(&mut self) -> Result<(), CaptureError> {
        let mut patience = Patience::default();
        while self
            .lanes
            .iter()
            .any(|lane| !(lane.from_worker.is_abandoned() && lane.from_worker.is_empty()))
        {
            self.take_returns()?;
            patience.wait();
        }
        self.sink.advance(Instant::NEVER)
    }
}

/// What the workers dropped, as far as they have published it.
fn dropped_so_far(lanes: &[Lane]) -> DropCounters {
    let mut drops = DropCounters::default();
    lanes
        .iter()
        .for_each(|lane| drops.absorb(&lane.drops.read()));
    drops
}

impl Lane {
    fn forget_finished(&mut self, finished: u32) {
        while self
            .in_flight
            .front()
            .is_some_and(|&(sequence, _)| finished.wrapping_sub(sequence) as i32 >= 0)
        {
            self.in_flight.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::worker::CoreElement;
    use twinpath_coherence::Cores;
    use twinpath_slowpath::Chain;

    /// What a worker drops shows while the run goes on.
    #[test]
    fn drops_of_workers_are_seen_live() {
        let is_over = Arc::new(AtomicBool::new(false));
        let (mut lane, end) = lane(8, &is_over);
        let flows = Cores::new(Chain::new(Vec::new()), 1, 1, 0);
        let mut worker = Worker::new(vec![CoreElement::Flows(Box::new(flows))], None);
        let (mut own, mut buffers) = (Pools::new(1, 1), Pools::new(1, 1));
        std::thread::scope(|scope| {
            scope.spawn(move || work(&mut worker, &mut own, end));
            let nonsense = buffers.take_filled(&[0; 60]).expect("a buffer");
            lane.to_worker.send(nonsense).expect("room");
            let deadline = WallClock::now() + Duration::from_secs(20);
            let lanes = [lane];
            while dropped_so_far(&lanes).total() == 0 && WallClock::now() < deadline {
                std::thread::yield_now();
            }
            assert_eq!(dropped_so_far(&lanes).of(DropReason::BadLinkFrame), 1);
            is_over.store(true, Ordering::Release);
        });
    }
}
