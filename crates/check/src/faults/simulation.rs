//! A run: the node of production, a link and a clock that are not.

use super::chain::reference::Reference;
use super::chain::service;
use super::chain::variant::Variant;
use super::draw::{self, Draw};
use super::driver::Told;
use super::functions::ledger::{Note, Notes};
use super::invariants::broken;
use super::outcome::Outcome;
use super::record::bindings::Bindings;
use super::record::coverage::Coverage;
use super::record::flow::FlowHistory;
use super::record::happened::Happened;
use super::record::history::History;
use super::record::log::Log;
use super::record::step::{Cause, Step};
use super::record::tally::Tally;
use super::rule::{Rule, Violation};
use super::sabotage::{Sabotage, Saboteur};
use super::scenario::Scenario;
use super::world::agenda::{Agenda, Next};
use super::world::line::Line;
use super::world::line_id::LineId;
use super::world::source::Source;
use std::collections::{BTreeSet, VecDeque};
use twinpath_coherence::Clock;
use twinpath_coherence::fsm::{Fsm, Slot};
use twinpath_control::service::{Service, ServiceError};
use twinpath_core::{DropReason, FlowKey, Frame, Instant, Pools, Steering};
use twinpath_node::machine::{Order, Progress};
use twinpath_node::wiring::{self, BuildError};
use twinpath_node::{FastPath, Limits, Machine, Output, Worker};
use twinpath_parking::{ConfigError, Stage};
use twinpath_traffic::TrafficError;

/// Why a simulation cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// The configuration of a function is refused.
    #[error(transparent)]
    Service(#[from] ServiceError),
    /// A queue for payloads that cannot be.
    #[error(transparent)]
    Parking(#[from] ConfigError),
    /// Functions that cannot be built, or do not go together.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// The traffic cannot be generated.
    #[error(transparent)]
    Traffic(#[from] TrafficError),
}

/// The packet clock when the link's is at zero.
const STARTED: Instant = Instant(1_700_000_000_000_000_000);

/// Events that an outcome keeps, unless it is asked to keep all.
const EVENTS_KEPT: usize = 40;

/// Steps without an arrival after which time leaps: to the next arrival, for a silence may be long
/// and retries are short; or, in a run that should come to rest, by a long silence, so that what
/// waits for other flows to be forgotten gets its turn.
const STEPS_TO_LEAP: u64 = 500;

/// Steps in which a run must come to rest when nothing goes wrong any more.
const STEPS_TO_REST: u64 = 12 * STEPS_TO_LEAP;

/// Longer than it takes workers to recall a flow.
const LONG_SILENCE_NS: u64 = 61_000_000_000;

/// A part of what a change may take.
const LONG_CHANGE_NS: u64 = 500_000_000;

/// Buffers for frames that the link doubles.
const SPARE_BUFFERS: usize = 256;

/// What the chain is to become.
pub(super) struct NextChain {
    pub variant: Variant,
    pub service: Service,
    /// All flows have to come home before.
    pub brings_flows_home: bool,
}

/// One run of a scenario.
pub struct Simulation {
    pub(super) seed: u64,
    pub(super) scenario: Scenario,
    pub(super) machine: Machine,
    pub(super) workers: Vec<Worker>,
    pub(super) worker_pools: Vec<Pools>,
    pub(super) steering: Steering,
    /// To and from each worker.
    pub(super) lines: Vec<[Line; 2]>,
    pub(super) spare: Pools,
    pub(super) source: Source,
    pub(super) out: Output,
    /// What workers are to do, and what they have said and the machine has not heard yet.
    pub(super) orders: Vec<VecDeque<Order>>,
    pub(super) told: Vec<VecDeque<Told>>,
    /// What the machine has heard last of each.
    pub(super) said: Vec<(u32, Progress)>,
    pub(super) batch: Vec<Frame>,
    pub(super) returns: Vec<Frame>,
    pub(super) notes: Notes,
    pub(super) heard: Vec<Note>,
    /// What the functions with rules make of packets alone.
    pub(super) reference: Reference,
    pub(super) bindings: Bindings,
    /// Packets that went into a fast path with rules and have not come out.
    pub(super) inside: BTreeSet<u32>,
    /// Counts what happens.
    pub(super) turn: u64,
    /// Packets sent after all others.
    pub(super) trickled: u32,
    pub(super) paused_until: Vec<u64>,
    pub(super) waiting: Vec<VecDeque<u64>>,
    pub(super) arrivals: Draw,
    pub(super) mishaps: Draw,
    pub(super) changes: Draw,
    /// What the chain is, and what it becomes.
    pub(super) variant: Variant,
    pub(super) service: Service,
    pub(super) next: Option<NextChain>,
    /// Packets have arrived while the machine took none.
    pub(super) has_waiting_packets: bool,
    /// The highest number of a pull so far.
    pub(super) newest_generation: u32,
    /// The number of each slot's last pull.
    pub(super) pulled: Vec<u32>,
    pub(super) saboteur: Option<Saboteur>,
    pub(super) now: u64,
    pub(super) agenda: Agenda,
    pub(super) is_calm: bool,
    pub(super) is_stopping: bool,
    pub(super) has_stopped: bool,
    pub(super) history: History,
    pub(super) step: Step,
    pub(super) slots: Vec<Slot>,
    pub(super) keys: Vec<FlowKey>,
    pub(super) owners: Vec<Option<usize>>,
    pub(super) words: Vec<u32>,
    pub(super) tally: Tally,
    pub(super) coverage: Coverage,
    pub(super) log: Log,
    steps_alone: u64,
    /// When the next packets arrive, or all calms down.
    pub(super) next_arrival: u64,
    violations: Vec<Violation>,
}

impl Simulation {
    /// A run of `scenario`, in which chance is decided by `seed`.
    ///
    /// # Errors
    /// The functions do not go together, or their traffic cannot be generated.
    pub fn new(seed: u64, scenario: &Scenario) -> Result<Self, SetupError> {
        let notes = Notes::default();
        let variant = Variant::default();
        let service = service::service(scenario, variant, (&notes, seed))?;
        let steering = wiring::steering(&service)?;
        let mut fast_path = FastPath::new(
            steering.clone(),
            wiring::sides(&service)?,
            service::fast_elements(scenario, &service)?,
            scenario.resources.workers,
        );
        if let Some(parking) = &scenario.parking {
            fast_path = fast_path.with_parking(Stage::new(parking.queue.clone(), parking.port)?);
        }
        let limits = Limits {
            ring_frames: scenario.resources.ring_frames,
            is_lossless: scenario.resources.is_lossless,
            is_replay: false,
        };
        let pools = Pools::new(scenario.resources.buffers, 1);
        let workers = scenario.resources.workers;
        let mut simulation = Self {
            seed,
            scenario: scenario.clone(),
            machine: Machine::new(fast_path, pools, limits),
            workers: Vec::new(),
            worker_pools: Vec::new(),
            steering,
            lines: Vec::new(),
            spare: Pools::new(SPARE_BUFFERS, 1),
            source: Source::new(seed, scenario)?,
            out: Output::default(),
            orders: (0..workers).map(|_| VecDeque::new()).collect(),
            told: (0..workers).map(|_| VecDeque::new()).collect(),
            said: vec![(0, Progress::default()); workers],
            batch: Vec::new(),
            returns: Vec::new(),
            notes,
            heard: Vec::new(),
            reference: Reference::new(scenario.elements, &service)?,
            bindings: Bindings::default(),
            inside: BTreeSet::new(),
            turn: 0,
            trickled: 0,
            paused_until: vec![0; workers],
            waiting: vec![VecDeque::new(); workers],
            arrivals: Draw::new(seed, draw::ARRIVALS + 100),
            mishaps: Draw::new(seed, draw::WORKERS),
            changes: Draw::new(seed, draw::CHANGES),
            variant,
            service,
            next: None,
            has_waiting_packets: false,
            newest_generation: 0,
            pulled: Vec::new(),
            saboteur: None,
            now: 0,
            agenda: Agenda::default(),
            is_calm: false,
            is_stopping: false,
            has_stopped: false,
            history: History::default(),
            step: Step::default(),
            slots: Vec::new(),
            keys: Vec::new(),
            owners: Vec::new(),
            words: Vec::new(),
            tally: Tally::new(workers),
            coverage: Coverage::default(),
            log: Log::new(EVENTS_KEPT),
            steps_alone: 0,
            next_arrival: 0,
            violations: Vec::new(),
        };
        simulation.history.expiry_ticks = scenario.traffic.expiry_ticks;
        simulation.history.orders_each_end = simulation.follows_walks();
        simulation.begin_mirror();
        (0..workers).try_for_each(|worker| simulation.employ(worker))?;
        simulation.machine.start(STARTED);
        Ok(simulation)
    }

    /// A run of a seed's own scenario; with sabotage, the link does what no link may do.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn of_seed(seed: u64, sabotage: Option<Sabotage>) -> Result<Self, SetupError> {
        let hides_order = sabotage.is_some_and(Sabotage::hides_order);
        let scenario = match hides_order {
            true => Scenario::drawn(seed).for_hidden_order(),
            false => Scenario::drawn(seed),
        };
        let mut simulation = Self::new(seed, &scenario)?;
        let lines = simulation.lines.iter_mut().flatten();
        lines.for_each(|line| line.hides_order = hides_order);
        simulation.saboteur = sabotage.map(|sabotage| Saboteur::new(sabotage, seed));
        Ok(simulation)
    }

    /// The same run, but its outcome has every event and not only the last.
    pub fn keeping_all_events(mut self) -> Self {
        self.log.keep_all();
        self
    }

    fn employ(&mut self, worker: usize) -> Result<(), SetupError> {
        let blueprint = service::blueprint(&self.scenario, &self.service);
        let mut made = Worker::new(blueprint, None)?;
        made.start(STARTED);
        self.workers.push(made);
        self.worker_pools
            .push(Pools::new(self.scenario.resources.worker_buffers, 1));
        let stream = draw::LINES + 2 * worker as u64;
        let line = |faults, stream| Line::new(faults, Draw::new(self.seed, stream));
        self.lines.push([
            line(self.scenario.to_worker, stream),
            line(self.scenario.from_worker, stream + 1),
        ]);
        Ok(())
    }

    /// The packet clock.
    pub(super) fn packet_now(&self) -> Instant {
        Instant(STARTED.0 + self.now * self.scenario.traffic.clock_rate)
    }

    /// When, by the link's clock, the packet clock has passed `at`.
    fn link_time(&self, at: Instant) -> u64 {
        at.0.saturating_sub(STARTED.0) / self.scenario.traffic.clock_rate + 1
    }

    pub(super) fn clock(&self) -> Clock {
        Clock {
            packet: self.packet_now(),
            link: Instant(self.now),
        }
    }

    pub(super) fn line(&mut self, id: LineId) -> &mut Line {
        &mut self.lines[id.worker][usize::from(id.is_back)]
    }

    pub(super) fn slot_of(&self, flow: &FlowHistory) -> Option<&Slot> {
        flow.slot.map(|slot| &self.slots[slot])
    }

    /// The words in a flow's slot.
    pub(super) fn words_of(&self, flow: &FlowHistory) -> &[u32] {
        let count = self.words.len() / self.slots.len().max(1);
        flow.slot
            .map_or(&[], |slot| &self.words[slot * count..(slot + 1) * count])
    }

    /// Whether the fast path holds a flow's authoritative value: ACTIVE, or FROZEN and not yet
    /// imported by these workers.
    pub(super) fn is_at_fast_path(&self, flow: &FlowHistory) -> bool {
        self.slot_of(flow).is_some_and(|slot| match slot.fsm {
            Fsm::Active => true,
            Fsm::Frozen => !flow.is_done(slot.generation),
            Fsm::Initial | Fsm::Incomplete => false,
        })
    }

    /// Drops that the fast path counts, but for those on the link.
    pub(super) fn fast_drops(&self) -> u64 {
        let drops = self.machine.path().drops();
        drops.total() - drops.of(DropReason::LinkReordered)
    }

    /// Runs until nothing is left to happen, or a rule is broken.
    pub fn run(mut self) -> Outcome {
        self.agenda.add(0, Next::Arrival);
        while self.violations.is_empty() {
            let Some((at, next)) = self.agenda.pop() else {
                self.rest();
                break;
            };
            self.now = self.now.max(at);
            self.happen(next);
            self.tell_progress();
            self.plan();
            self.hurry();
        }
        self.outcome()
    }

    fn happen(&mut self, next: Next) {
        if matches!(next, Next::Arrival | Next::Calm | Next::Trickle) {
            self.steps_alone = 0;
        }
        match next {
            Next::Arrival => self.arrive(),
            Next::Frame { line, ticket } => self.frame(line, ticket),
            Next::Tick => self.tick(),
            Next::Wake { worker } => self.wake(worker),
            Next::Pause { worker } => self.pause(worker),
            Next::Resume { worker } => self.resume(worker),
            Next::Crash { worker } => self.crash(worker),
            Next::Calm => self.calm_down(),
            Next::Order { worker } => self.order(worker),
            Next::Stop => self.stop(),
            Next::Trickle => self.trickle(),
        }
    }

    /// Plans what the new state of things asks for: a tick when the next timer is due, or while the
    /// machine is at something, and wake-ups.
    fn plan(&mut self) {
        let protocol = &self.scenario.protocol;
        let time_to_live = protocol.time_to_live;
        let due = self.slots.iter().filter_map(|slot| match slot.fsm {
            Fsm::Initial => None,
            Fsm::Incomplete | Fsm::Frozen => Some(slot.time_ns),
            Fsm::Active => Some(self.link_time(Instant(slot.time_ns) + time_to_live)),
        });
        let delay_ns = self.scenario.to_worker.delay_ns;
        let soon = self.now + delay_ns / 2;
        if let Some(at) = due.min() {
            self.agenda.add_tick(at.max(soon));
        }
        if self.next.is_some() || self.is_ending() || self.parks_anything() {
            self.agenda.add_tick(self.now + delay_ns);
        }
        for worker in 0..self.workers.len() {
            if let Some(deadline) = self.workers[worker].next_deadline() {
                let at = self.link_time(deadline) + self.scenario.to_worker.delay_ns;
                self.agenda
                    .add_wake(worker, at.max(soon).max(self.paused_until[worker]));
            }
        }
    }

    /// What goes round in circles is helped by a leap of time, and must come to rest at last.
    fn hurry(&mut self) {
        self.steps_alone += 1;
        if self.steps_alone.is_multiple_of(STEPS_TO_LEAP) {
            self.log.add(self.now, Happened::LongSilence);
            self.now = match (self.is_calm, self.has_waiting_packets) {
                (true, _) if self.is_ending() => self.now + LONG_CHANGE_NS,
                (true, _) => self.now + LONG_SILENCE_NS,
                (false, true) => self.now + LONG_CHANGE_NS,
                (false, false) => self.now.max(self.next_arrival),
            };
        }
        if self.is_calm && self.steps_alone > STEPS_TO_REST {
            self.rest();
        }
    }

    fn calm_down(&mut self) {
        self.is_calm = true;
        self.log.add(self.now, Happened::Calm);
        let lines = self.lines.iter_mut().flatten();
        lines.for_each(Line::calm_down);
        for worker in 0..self.workers.len() {
            self.paused_until[worker] = self.paused_until[worker].min(self.now);
            self.agenda.add(self.now, Next::Resume { worker });
            self.agenda.add(self.now, Next::Order { worker });
        }
        let next = match self.has_rules() {
            true => Next::Trickle,
            false => Next::Stop,
        };
        if self.has_rules() || self.seed.is_multiple_of(2) {
            self.agenda.add(self.now, next);
        }
    }

    /// Nothing is left to happen, or too much: the last look.
    fn rest(&mut self) {
        self.begin(Cause::Nothing);
        self.step.is_rest = true;
        self.settle_inside();
        self.settle_parking();
        self.tally.buffers_missing = self.buffers_missing();
        self.check();
    }

    fn buffers_missing(&mut self) -> usize {
        let pools = self.worker_pools.iter_mut();
        pools
            .chain([self.machine.pools(), &mut self.spare])
            .map(|pools| pools.small().frames() - pools.small().available())
            .sum()
    }

    pub(super) fn begin(&mut self, cause: Cause) {
        let packet_now = self.packet_now().0;
        self.turn += 1;
        self.step.begin(cause, self.now, packet_now);
        self.step.brings_flows_home = self.is_stopping || self.next.is_some();
    }

    /// Looks at what the step did, and judges it.
    pub(super) fn check(&mut self) {
        self.look();
        self.coverage.steps += 1;
        let step = std::mem::take(&mut self.step);
        // Several checks may follow one another before anybody looks at what was found.
        if self.violations.is_empty() {
            self.violations = broken(self, &step);
        }
        self.step = step;
    }

    /// What only shows after a check.
    pub(super) fn watermark_fault(&mut self, what: String) {
        let rule = Rule::Watermark;
        self.violations.push(Violation { rule, what });
    }

    fn is_ending(&self) -> bool {
        self.is_stopping && !self.has_stopped
    }

    fn outcome(mut self) -> Outcome {
        self.count_all();
        let (events, digest) = self.log.close();
        Outcome {
            seed: self.seed,
            scenario: self.scenario,
            violations: self.violations,
            events,
            digest,
            coverage: self.coverage,
        }
    }

    pub(super) fn note(&mut self, happened: Happened) {
        self.log.add(self.now, happened);
    }
}
