//! The node as one machine without input or output of its own: bursts, frames and time go in, bursts,
//! frames and commands to workers come out.
//!
//! [`Machine`] is the fast path and everything around it that decides: what may be under way to each
//! [worker](crate::Worker), which packets are inside, how a chain becomes another, how a run comes to
//! its end. It reads no clock, starts no thread and opens no file. Whoever drives it, on threads, in
//! virtual time or through a link that loses frames, does this and no more:
//!
//! 1. It hands in bursts that arrived ([`Machine::receive`]), never more frames than there is
//!    [room](Machine::room) for.
//! 2. It carries what comes out: [departures](Output::departures) to ports, those whose egress [names a
//!    shard](twinpath_core::adjacency::shard_of) to that one's [machine](Machine::receive_across),
//!    [frames](Output::frames) to workers and what those give back to [`Machine::returned`], in order, each way;
//!    [messages](Output::messages) to ports that lead to memory servers, and all that comes by those
//!    ports to [`Machine::receive_from_servers`].
//! 3. When all that a worker gave back has been handed in, it says [how far the worker
//!    is](Machine::progress).
//! 4. It takes [commands](Output::commands) to workers behind the frames before them, and their
//!    [answers](Machine::answered) back behind the frames that they gave back before.
//! 5. It says what time it is ([`Machine::advance`]): after bursts, and when the
//!    [deadline](Machine::next_deadline) comes.
//! 6. It tells workers [what time it is for them](Machine::time) whenever that has changed, at
//!    any time after that.

mod change;
mod link;
mod replacement;
mod time;

pub use change::{ChangeOutcome, ChangeRefusal, Changed};
pub use replacement::Replacement;

use crate::departure::{Departure, Via};
use crate::fast_path::{BATCH, BURST, FastOutput, FastPath};
pub use crate::worker::{Moment, Progress, Replaced, Time, WorkerAnswer, WorkerCommand};

use crate::mirror::Mirror;
use crate::watch::{PacketLook, TraceStep, Watch};
use change::CurrentTask;
use link::Link;
use std::sync::Arc;
use std::time::Duration;
use time::Timekeeper;
use twinpath_coherence::Clock;
use twinpath_core::wire::MacAddress;
use twinpath_core::{DropReason, Frame, Instant, Pools};
use twinpath_link::carries_packet;
use twinpath_remote::SplitStage;
use twinpath_remote::fast::ServerEvent;

/// How a machine treats what it has no room for.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Frames that may be under way to each worker.
    pub ring_frames: usize,
    /// Whether nothing may be lost: frames without room wait, and then nothing more is taken in.
    /// Else they are dropped, and counted.
    pub is_lossless: bool,
    /// Whether packets come faster or slower than their clock says, while the link takes its own
    /// time. Then no payload times out while its header is on its way.
    pub is_replay: bool,
}

impl Limits {
    /// Packets that are received at once: no more than a part of what a worker's ring holds, or each
    /// burst finds the ring as full as the one before has left it. A ring shorter than a batch is full
    /// with any burst.
    #[inline]
    fn burst(self) -> usize {
        match self.ring_frames {
            0..BATCH => BURST,
            frames => (frames / 4).min(BURST),
        }
    }
}

/// What comes out of a machine: the caller's buffers.
#[derive(Default)]
pub struct Output {
    /// Packets that leave, in order, stamped with the time of their departure on the packet clock.
    pub departures: Vec<Departure>,
    /// Frames, each for a worker.
    pub frames: Vec<(usize, Frame)>,
    /// Frames for memory servers, each with the port that leads to them. They are no packets of the
    /// service.
    pub messages: Vec<(u16, Frame)>,
    /// What workers are to do, each for one.
    pub commands: Vec<(usize, WorkerCommand)>,
    /// What became of a change, or of the run.
    pub outcomes: Vec<ChangeOutcome>,
}

/// How soon a machine that waits for something wants to be told the time again.
const TICK: Duration = Duration::from_millis(1);

/// The same while payloads wait, which leave when their headers are back.
const PARKING_TICK: Duration = Duration::from_micros(5);

/// The machine.
pub struct Machine {
    path: FastPath,
    pools: Pools,
    links: Vec<Link>,
    limits: Limits,
    current_task: CurrentTask,
    /// Whether packets wait for a change.
    is_changing: bool,
    /// Of a run that is over, whether all that came in has come to its end.
    has_drained: bool,
    /// What leaves is never older than this.
    floor: Instant,
    time: Timekeeper,
    /// When something came back last, on the link's clock.
    last_return: Instant,
    out: FastOutput,
}

impl Machine {
    /// A machine around a fast path, with buffers for packets that arrive.
    pub fn new(path: FastPath, pools: Pools, limits: Limits) -> Self {
        let links = (0..path.workers()).map(|_| Link::new(limits.ring_frames));
        let links = links.collect();
        let mut machine = Self {
            links,
            path,
            pools,
            limits,
            current_task: CurrentTask::default(),
            is_changing: false,
            has_drained: false,
            floor: Instant::ZERO,
            time: Timekeeper::default(),
            last_return: Instant::ZERO,
            out: FastOutput::default(),
        };
        machine.set_limits(limits);
        machine
    }

    /// What there is room for.
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// Other limits, before the first packet.
    pub fn set_limits(&mut self, limits: Limits) {
        self.limits = limits;
        self.path.set_lossless(limits.is_lossless);
        self.links
            .iter_mut()
            .for_each(|link| link.set_room(limits.ring_frames));
    }

    /// The run begins at this packet time.
    pub fn start(&mut self, now: Instant) {
        self.path.start(now);
        self.floor = now;
        self.start_time(now);
    }

    /// Takes the memory of all tables and buffers now, before packets could wait for it.
    pub fn touch(&mut self) {
        self.path.touch();
        self.pools.touch();
    }

    /// The fast path, for whoever looks on.
    pub fn path(&self) -> &FastPath {
        &self.path
    }

    /// Whether the run is over and all that came in has come to its end.
    pub const fn has_drained(&self) -> bool {
        self.has_drained
    }

    /// Somebody follows packets from now on.
    pub(crate) fn watch(&mut self, watch: Watch) {
        self.path.watch(watch);
    }

    /// What happened at memory servers since this was asked last, each with the server's name.
    pub fn take_server_events(&mut self) -> Vec<(String, ServerEvent)> {
        let Some(stage) = self.path.split_at(Instant::ZERO) else {
            return Vec::new();
        };
        let events: Vec<_> = stage.take_server_events().collect();
        let named = |event: ServerEvent| (stage.name(event.server).to_owned(), event);
        events.into_iter().map(named).collect()
    }

    /// Who copies packets for whoever wants them.
    pub fn mirror(&self) -> &Arc<Mirror> {
        self.path.mirror()
    }

    /// Buffers for packets that arrive.
    pub fn pools(&mut self) -> &mut Pools {
        &mut self.pools
    }

    /// Packets come in by interfaces with these MAC addresses.
    pub fn set_stations(&mut self, stations: &[MacAddress]) {
        self.path.set_stations(stations);
    }

    /// The same of all ports, those behind the service's own that lead to memory servers included, whose links
    /// carry IP packets of so many bytes.
    pub fn set_server_links(&mut self, stations: &[MacAddress], mtus: &[usize]) {
        self.path.set_server_links(stations, mtus);
    }

    /// Links of ports carry IP packets of so many bytes.
    pub fn set_link_mtus(&mut self, mtus: &[usize]) {
        self.path.set_link_mtus(mtus);
    }

    /// Counts a drop that happened in front of the machine.
    pub fn count_drop(&mut self, reason: DropReason) {
        self.path.count_drop(reason);
    }

    /// Frames that may be received now.
    #[inline]
    pub fn room(&self) -> usize {
        if !self.current_task.takes_packets() || self.is_deadline_at_work() {
            return 0;
        }
        match self.limits.is_lossless {
            true if self.path.holds_many() => 0,
            true => self.room_of_links().min(BURST),
            false => self.limits.burst(),
        }
    }

    /// Whether some worker has enough in front of it: what it does not get to while frames are still in
    /// its caches takes it longer.
    pub fn has_busy_worker(&self) -> bool {
        self.links.iter().any(Link::is_busy)
    }

    fn room_of_links(&self) -> usize {
        let room = |link: &Link| match link.backlog() {
            0 => link.room(),
            _ => 0,
        };
        self.links.iter().map(room).min().unwrap_or(usize::MAX)
    }

    /// Packets that wait for room on a link.
    pub fn packets_waiting(&self) -> usize {
        self.links.iter().map(Link::packets_waiting).sum()
    }

    /// Packets that have arrived so far.
    pub fn arrived(&self) -> u64 {
        self.path.under_way().arrived()
    }

    /// Every packet that arrived before this one, by its number in the order of arrival, has left,
    /// was dropped, or is kept by a function.
    #[inline]
    pub fn watermark(&self) -> u64 {
        let waiting = self.links.iter().map(Link::waiting_since).min();
        self.path
            .under_way()
            .watermark()
            .min(waiting.unwrap_or(u64::MAX))
    }

    /// When the oldest packet arrived that is under way or waits; `None` if none does.
    pub fn oldest_waiting(&self) -> Option<Instant> {
        self.path.under_way().oldest_waiting()
    }

    /// What leaves from now on is at least as old as this, on the packet clock.
    pub fn oldest(&self) -> Instant {
        self.floor
    }

    /// Whether nothing is under way between the paths, or waits.
    pub fn is_quiet(&self) -> bool {
        self.links.iter().all(Link::is_quiet) && self.path.under_way().waiting() == 0
    }

    /// Takes a burst from a port, stamped with its time; it is emptied.
    #[inline]
    pub fn receive(&mut self, burst: &mut Vec<Frame>, clock: Clock, out: &mut Output) {
        if self.path.keeps_payloads() {
            self.let_payloads_pass(clock, out);
        }
        self.path
            .process(burst, clock, &mut self.pools, &mut self.out);
        self.put_out(out);
    }

    /// Takes frames that a worker has given back, in order; they are drained.
    pub fn returned(
        &mut self,
        worker: usize,
        frames: &mut Vec<Frame>,
        clock: Clock,
        out: &mut Output,
    ) {
        if self.path.keeps_payloads() {
            self.let_payloads_pass(clock, out);
        }
        if !frames.is_empty() {
            self.last_return = self.last_return.max(clock.link);
        }
        for mut frame in frames.drain(..) {
            // What a function had kept comes as of now; what waited for rules did not leave.
            let ordinal = frame.ordinal().max(self.watermark());
            frame.set_ordinal(ordinal);
            self.path
                .returned(worker, frame, clock, &mut self.pools, &mut self.out);
            self.put_out(out);
        }
    }

    /// A worker has come so far, and all that it gave back by then has been handed in.
    pub fn progress(&mut self, worker: usize, progress: Progress, out: &mut Output) {
        if self.links[worker].is_news(&progress) {
            self.last_return = self.last_return.max(self.clock().link);
        }
        let (link, path) = (&mut self.links[worker], &mut self.path);
        link.progress(progress, |ordinal, ticket| {
            path.finished_with(ordinal, ticket)
        });
        path.under_way_mut().settle();
        self.floor = self.floor.max(self.path.under_way().oldest());
        self.tell_time();
        while let Some(frame) = self.links[worker].next_waiting() {
            out.frames.push((worker, self.links[worker].send(frame)));
        }
    }

    /// Takes frames that came by ports which lead to memory servers, each with its port; they are
    /// drained. There is always room for them.
    pub fn receive_from_servers(
        &mut self,
        frames: &mut Vec<Frame>,
        clock: Clock,
        out: &mut Output,
    ) {
        let Some(stage) = self.path.split_at(clock.link) else {
            return frames.drain(..).for_each(|frame| self.pools.give(frame));
        };
        for frame in frames.drain(..) {
            stage.receive(frame, clock.link, &mut self.pools);
        }
        self.let_split_pass(clock, out);
        // What waited for its payload may have been the last that a deadline let go of.
        self.take_time(clock);
        self.tell_time();
    }

    /// Takes packets that have left and that their next hops do not take, each with the port that it was to
    /// leave by; they are drained. Their senders are told, if a router is in the chain.
    pub fn undelivered(&mut self, frames: &mut Vec<Frame>, clock: Clock, out: &mut Output) {
        if !self.current_task.takes_packets() {
            return frames.drain(..).for_each(|frame| self.pools.give(frame));
        }
        let watermark = self.watermark();
        self.path
            .undelivered(frames, watermark, clock, &mut self.pools, &mut self.out);
        self.put_out(out);
    }

    /// Takes packets that have come from other shards, each with its time; they are drained. There are never
    /// more than there is [room](Self::room) for.
    pub fn receive_across(&mut self, frames: &mut Vec<Frame>, clock: Clock, out: &mut Output) {
        if self.path.keeps_payloads() {
            self.let_payloads_pass(clock, out);
        }
        self.path
            .receive_across(frames, clock, &mut self.pools, &mut self.out);
        self.put_out(out);
    }

    /// It is that late: timers go on, and what is to be done besides packets.
    #[inline]
    pub fn advance(&mut self, clock: Clock, out: &mut Output) {
        if self.path.keeps_payloads() {
            self.let_payloads_pass(clock, out);
        }
        self.path.sweep(clock, &mut self.pools, &mut self.out);
        self.put_out(out);
        if !self.current_task.is_idle() {
            self.go_on(clock, out);
        }
        self.take_time(clock);
        self.tell_time();
    }

    /// When, on the link's clock, time should be told again though nothing happens.
    pub fn next_deadline(&self, clock: Clock) -> Option<Instant> {
        self.next_deadline_or(self.next_deadline_of_functions(clock), clock)
    }

    /// The same while packets wait in front, and the packet clock with them: no deadline of a function that
    /// has not come by then comes meanwhile, unless the run is at its end and it waits for nothing inside.
    pub fn next_deadline_while_packets_wait(&self, clock: Clock) -> Option<Instant> {
        let of_functions = self.next_deadline_of_functions(clock);
        let may_come = self.current_task.is_ending() && !self.does_deadline_wait(clock);
        let comes = |at: &Instant| *at <= clock.link || may_come;
        self.next_deadline_or(of_functions.filter(comes), clock)
    }

    fn next_deadline_or(&self, of_functions: Option<Instant>, clock: Clock) -> Option<Instant> {
        if self.path.parking().is_some_and(|stage| !stage.is_empty()) {
            return Some(clock.link + PARKING_TICK);
        }
        let servers = self.path.split().map(SplitStage::deadline);
        let servers = servers.filter(|&at| at != Instant::NEVER);
        let has_lost_headers = self.is_quiet() && self.awaits_headers() && !self.has_deadlines();
        let is_waiting = !self.current_task.is_idle() || !self.is_quiet() || has_lost_headers;
        // What is on the link comes back by itself.
        let is_at_rest = !self.links.iter().any(Link::has_in_flight);
        let tick = (is_waiting && is_at_rest).then(|| clock.link + TICK);
        tick.into_iter().chain(of_functions).chain(servers).min()
    }

    /// Whether payloads wait in remote memory for headers that have not come back.
    fn awaits_headers(&self) -> bool {
        let split = self.path.split();
        split.is_some_and(|stage| stage.headers_away() > 0)
    }

    /// Lets payloads that wait go on.
    #[cold]
    fn let_payloads_pass(&mut self, clock: Clock, out: &mut Output) {
        match self.path.parking().is_some() {
            true => self.let_parking_pass(clock, out),
            false => self.let_split_pass(clock, out),
        }
    }

    /// Lets remote memory go on. Where nothing is inside, and no function has a deadline up to which it
    /// may keep a header, those that are not back will never be.
    pub(super) fn let_split_pass(&mut self, clock: Clock, out: &mut Output) {
        let is_resting = self.is_quiet() && !self.has_deadlines();
        let Some(stage) = self.path.split_at(clock.link) else {
            return;
        };
        if is_resting && stage.headers_away() > 0 {
            stage.release_lost();
        }
        stage.poll(clock.link, &mut self.pools);
        self.put_out(out);
    }

    /// Lets the queue in which payloads wait go on.
    fn let_parking_pass(&mut self, clock: Clock, out: &mut Output) {
        if !self.limits.is_replay {
            return self.pass_parking(clock.link, out);
        }
        // Where no packet is inside, no payload waits for what is under way: messages alone.
        let is_resting =
            self.links.iter().all(Link::is_quiet) || self.path.under_way().waiting() == 0;
        let until = match is_resting {
            true => {
                self.pass_all_parking(out);
                clock.packet
            }
            false => clock
                .packet
                .min(self.floor + self.path.header_timeout() / 2),
        };
        self.pass_parking(until, out);
    }

    /// No header is on the slow path: all that waits in the queue leaves or ends, unless a header waits on
    /// this side, for a rule or for its flow's state. Its payload would go round to the end of time, and take
    /// the port there, which would let nothing leave that comes later.
    pub(super) fn pass_all_parking(&mut self, out: &mut Output) {
        if !self.path.holds_headers() {
            self.pass_parking(Instant::NEVER, out);
        }
    }

    fn pass_parking(&mut self, until: Instant, out: &mut Output) {
        let passes = |path: &mut FastPath, pools: &mut Pools, out: &mut FastOutput| {
            path.pass_parking(until, pools, out).is_some()
        };
        while passes(&mut self.path, &mut self.pools, &mut self.out) {
            self.put_out(out);
        }
        self.put_out(out);
    }

    /// What the fast path has put out goes to the links and ports.
    #[inline]
    fn put_out(&mut self, out: &mut Output) {
        if self.path.keeps_payloads() {
            self.take_from_split(out);
        }
        let floor = self.floor;
        for departure in &mut self.out.departures {
            if departure.via == Via::Slow && departure.frame.timestamp() < floor {
                departure.frame.set_timestamp(floor);
            }
        }
        if !self.path.choose_ports(&mut self.out.departures) {
            let (watermark, clock) = (self.watermark(), self.clock());
            self.path
                .keep_back(watermark, clock, &mut self.pools, &mut self.out);
        }
        if !self.out.punts.is_empty() {
            self.send_punts(out);
        }
        if let Some(watch) = self.path.watched() {
            tell_of(&self.out.departures, self.path.has_one_port(), watch);
        }
        match out.departures.is_empty() {
            true => std::mem::swap(&mut out.departures, &mut self.out.departures),
            false => out.departures.append(&mut self.out.departures),
        }
        self.path.under_way_mut().settle();
        self.floor = floor.max(self.path.under_way().oldest());
    }

    /// What remote memory has put out.
    fn take_from_split(&mut self, out: &mut Output) {
        self.path.pass_split(&mut self.pools, &mut self.out);
        if let Some(stage) = self.path.split_at(Instant::ZERO) {
            out.messages.append(stage.messages());
        }
    }

    fn send_punts(&mut self, out: &mut Output) {
        let mut punts = std::mem::take(&mut self.out.punts);
        for (worker, frame) in punts.drain(..) {
            self.punt(worker, frame, out);
        }
        self.out.punts = punts;
    }

    fn punt(&mut self, worker: usize, frame: Frame, out: &mut Output) {
        let link = &mut self.links[worker];
        let has_room = link.room() > 0 && link.backlog() == 0;
        let has_packet = carries_packet(&frame);
        // While a change is made packets wait at their ports: no more can come than are inside. What
        // a worker has had goes on before others come in, or all would be done in vain: of these,
        // too, there are no more than have come in. A message alone is told again if it is lost.
        let is_inside = has_packet && frame.metadata().was_on_slow_path;
        let may_wait = self.limits.is_lossless || self.is_changing || is_inside;
        if !has_room && !may_wait {
            return self.path.refuse(frame, &mut self.pools);
        }
        if has_packet {
            let (ordinal, at) = (frame.ordinal(), frame.timestamp());
            self.path.under_way_mut().open(ordinal, at);
        }
        match has_room {
            true => out.frames.push((worker, link.send(frame))),
            false => link.wait(frame),
        }
    }
}

#[cold]
fn tell_of(departures: &[Departure], has_one_port: bool, watch: &Watch) {
    for Departure {
        frame,
        is_reply,
        port,
        ..
    } in departures
    {
        watch.tell(frame.buffer(), || TraceStep::PutOut {
            is_reply: *is_reply,
            egress: match has_one_port {
                true => frame.metadata().egress,
                false => Some(*port),
            },
            packet: PacketLook::of(frame.bytes()),
        });
    }
}
