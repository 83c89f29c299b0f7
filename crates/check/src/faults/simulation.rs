//! The loop on top: what is to happen happens, in order of time, until nothing is left or an invariant
//! is broken.

use super::checks::settle_inside;
use super::events::{Run, Sabotage, Saboteur, arrivals, fast_path, reports, slow_path};
use super::invariant::Invariant;
use super::outcome::Outcome;
use super::record::{Cause, Happened, Record};
use super::scenario::Scenario;
use super::world::{Line, Next, SetupError, World};
use twinpath_coherence::fsm::Fsm;
use twinpath_core::Instant;

/// Steps without an arrival after which time leaps: to the next arrival, for a silence may be long
/// and retries are short; or, in a run that should come to rest, by a long silence, so that what
/// waits for other flows to be forgotten gets its turn.
const STEPS_TO_LEAP: u64 = 500;

/// Steps in which a run must come to rest when nothing goes wrong any more.
const STEPS_TO_REST: u64 = 12 * STEPS_TO_LEAP;

/// Longer than it takes workers to recall a flow.
const LONG_SILENCE_NS: u64 = 61_000_000_000;

/// Most that the packet clock leaps, ten days: what lies years ahead of others is taken for past.
const LONGEST_LEAP_NS: u64 = 864_000_000_000_000;

/// A part of what a change may take.
const LONG_CHANGE_NS: u64 = 500_000_000;

/// Something happens that is not next in time.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Deviation {
    /// At which step of the run, counted from 0.
    pub step: usize,
    /// How many others were planned before it.
    pub behind: usize,
}

/// One run of a scenario.
pub struct Simulation {
    run: Run,
    steps_alone: u64,
    /// Where the run leaves the order of time; those to come, the next one last.
    deviations: Vec<Deviation>,
    /// By step, while things go wrong: how much was planned.
    planned: Vec<usize>,
}

impl Simulation {
    /// A run of `scenario`, in which chance is decided by `seed`.
    ///
    /// # Errors
    /// The functions do not go together, or their traffic cannot be generated.
    pub fn new(seed: u64, scenario: &Scenario) -> Result<Self, SetupError> {
        let world = World::new(seed, scenario)?;
        let mut record = Record::new(scenario, &world.chain.service)?;
        record.begin_mirror(world.machine.path());
        Ok(Self {
            run: Run {
                world,
                record,
                saboteur: None,
            },
            steps_alone: 0,
            deviations: Vec::new(),
            planned: Vec::new(),
        })
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
        let lines = simulation.run.world.lines_mut();
        lines.for_each(|line| line.hides_order = hides_order);
        Ok(match sabotage {
            Some(sabotage) => simulation.sabotaged(Saboteur::new(sabotage, seed)),
            None => simulation,
        })
    }

    /// The same run, but somebody does what nobody may.
    pub(super) fn sabotaged(mut self, saboteur: Saboteur) -> Self {
        self.run.saboteur = Some(saboteur);
        self
    }

    /// The same run, but its outcome has every event and not only the last.
    pub fn keeping_all_events(mut self) -> Self {
        self.run.record.log.keep_all();
        self
    }

    /// The same run, but at these steps, which are in order, something else happens.
    pub(super) fn deviating(mut self, deviations: &[Deviation]) -> Self {
        self.deviations = deviations.iter().rev().copied().collect();
        self
    }

    /// Runs until nothing is left to happen, or an invariant is broken.
    pub fn run(self) -> Outcome {
        self.run_counting().0
    }

    /// The same; also how much was planned at each step before nothing goes wrong any more.
    pub(super) fn run_counting(mut self) -> (Outcome, Vec<usize>) {
        self.run.world.agenda.add(0, Next::Arrival);
        while self.run.record.violations.is_empty() {
            let Some((at, next)) = self.pop() else {
                if arrivals::go_on_late(&mut self.run) {
                    continue;
                }
                rest(&mut self.run);
                break;
            };
            let now = &mut self.run.world.now;
            *now = (*now).max(at);
            self.happen(next);
            reports::tell_reports(&mut self.run);
            plan(&mut self.run);
            self.hurry();
        }
        (outcome(self.run), self.planned)
    }

    /// What happens next: what was planned for the earliest time, unless the run deviates here.
    fn pop(&mut self) -> Option<(u64, Next)> {
        let agenda = &mut self.run.world.agenda;
        if self.run.world.is_calm {
            return agenda.pop();
        }
        let step = self.planned.len();
        self.planned.push(agenda.len());
        let deviation = self.deviations.pop_if(|deviation| deviation.step == step);
        match deviation {
            Some(deviation) => agenda.pop_behind(deviation.behind),
            None => agenda.pop(),
        }
    }

    fn happen(&mut self, next: Next) {
        if matches!(next, Next::Arrival | Next::Calm | Next::LateArrival) {
            self.steps_alone = 0;
        }
        let run = &mut self.run;
        match next {
            Next::Arrival => arrivals::arrive(run),
            Next::Frame { line, ticket } => slow_path::arrive_at_end(run, line, ticket),
            Next::Tick => fast_path::tick(run),
            Next::Servers => fast_path::hear(run),
            Next::Wake { worker } => slow_path::wake(run, worker),
            Next::Pause { worker } => slow_path::pause(run, worker),
            Next::Resume { worker } => slow_path::resume(run, worker),
            Next::Crash { worker } => slow_path::crash(run, worker),
            Next::Calm => calm_down(run),
            Next::Command { worker } => slow_path::execute(run, worker),
            Next::Stop => fast_path::stop(run),
            Next::LateArrival => arrivals::arrive_late(run),
        }
    }

    /// What goes round in circles is helped by a leap of time, and must come to rest at last.
    fn hurry(&mut self) {
        self.steps_alone += 1;
        if self.steps_alone.is_multiple_of(STEPS_TO_LEAP) {
            self.run.note(Happened::LongSilence);
            leap(&mut self.run.world);
        }
        if self.run.world.is_calm && self.steps_alone > STEPS_TO_REST {
            rest(&mut self.run);
        }
    }
}

fn leap(world: &mut World) {
    let now = world.now;
    let longest = LONGEST_LEAP_NS / world.scenario.traffic.clock_rate;
    world.now = match (world.is_calm, world.arrivals.are_waiting) {
        (true, _) if world.is_ending() => now + LONG_CHANGE_NS,
        (true, _) => now + LONG_SILENCE_NS.min(longest),
        (false, true) => now + LONG_CHANGE_NS,
        (false, false) => now.max(world.arrivals.next),
    };
}

/// Plans what the new state of things asks for: a tick when the next timer is due, or while the
/// machine is at something, and wake-ups.
fn plan(run: &mut Run) {
    let (world, slots) = (&mut run.world, run.record.mirror.slots());
    let time_to_live = world.scenario.protocol.time_to_live;
    let due = slots.filter_map(|slot| match slot.fsm {
        Fsm::Initial => None,
        Fsm::Incomplete | Fsm::Frozen => Some(slot.time_ns),
        Fsm::Active => Some(world.link_time(Instant(slot.time_ns) + time_to_live)),
    });
    let due = due.min();
    let delay_ns = world.scenario.to_worker.delay_ns;
    let soon = world.now + delay_ns / 2;
    if let Some(at) = due {
        world.agenda.add_tick(at.max(soon));
    }
    if world.chain.next.is_some() || world.is_ending() || world.keeps_anything() {
        world.agenda.add_tick(world.now + delay_ns);
    }
    plan_servers(world);
    for number in 0..world.workers.len() {
        let worker = &world.workers[number];
        if worker.told != world.machine.time() {
            let at = (world.now + delay_ns).max(worker.paused_until);
            world.agenda.add_wake(number, at);
        }
    }
    let deadline = world.machine.next_deadline(world.clock());
    let has_idle_servers = world.scenario.servers() > 0 && world.needs_no_servers();
    if let Some(at) = deadline.filter(|_| !has_idle_servers) {
        world.agenda.add_tick(at.0.max(soon));
    }
}

/// What memory servers do next, as long as somebody waits for it.
fn plan_servers(world: &mut World) {
    world.tell_servers();
    let next = world.servers.next();
    if next != Instant::NEVER && !world.needs_no_servers() {
        world.agenda.add_servers(next.0.max(world.now + 1));
    }
}

/// From now on nothing goes wrong any more.
fn calm_down(run: &mut Run) {
    run.note(Happened::Calm);
    let world = &mut run.world;
    world.is_calm = true;
    world.lines_mut().for_each(Line::calm_down);
    world.servers.calm_down(Instant(world.now));
    for (worker, remote) in world.workers.iter_mut().enumerate() {
        remote.paused_until = remote.paused_until.min(world.now);
        world.agenda.add(world.now, Next::Resume { worker });
        world.agenda.add(world.now, Next::Command { worker });
    }
    let has_rules = world.scenario.elements.have_rules();
    if has_rules {
        world.agenda.add(world.now, Next::LateArrival);
    } else if world.is_stopped_at_last() {
        world.agenda.add(world.now, Next::Stop);
    }
}

/// Nothing is left to happen, or too much: the last look.
fn rest(run: &mut Run) {
    run.begin(Cause::Nothing);
    let Run { world, record, .. } = run;
    record.step.is_rest = true;
    settle_inside(world, record);
    settle_payloads(world, record);
    record.tally.buffers_missing = world.buffers_missing();
    run.check();
}

/// In the end nothing waits, and every payload has come to one end.
fn settle_payloads(world: &World, record: &mut Record) {
    let parking = world.parking().map(|stage| stage.buffer().counters());
    let split = world.split().map(|stage| stage.counters());
    let ends = match (parking, split) {
        (Some(counters), _) => (counters.parked, counters.ended()),
        (None, Some(counters)) => (counters.packets, counters.ended()),
        (None, None) => return,
    };
    let (parked, ended) = ends;
    if world.keeps_anything() || parked != ended {
        let what = format!("of {parked} payloads {ended} have come to an end");
        record.step.fault(Invariant::Whole, what);
    }
}

fn outcome(run: Run) -> Outcome {
    let Run { world, record, .. } = run;
    let mut coverage = record.coverage;
    let is_ledger = world.scenario.functions.is_ledger();
    let flows = world.workers.iter().flat_map(|worker| worker.flows());
    flows.for_each(|flows| coverage.count_flows(flows, is_ledger));
    let rules = world.rules();
    rules.for_each(|rules| coverage.count_rules(rules.table, rules.book));
    if let Some(stage) = world.parking() {
        coverage.count_parking(stage);
    }
    if let Some(stage) = world.split() {
        coverage.count_split(stage);
    }
    coverage.count_fast_path(world.machine.path());
    let mut acted = record.acted;
    for worker in &world.workers {
        worker.each_counter(&mut |function, counter, times| acted.add(function, counter, times));
    }
    acted.count_fast_path(world.machine.path(), &record.answers);
    let (events, digest) = record.log.close();
    Outcome {
        seed: world.seed,
        scenario: world.scenario,
        violations: record.violations,
        events,
        digest,
        coverage,
        acted,
    }
}
