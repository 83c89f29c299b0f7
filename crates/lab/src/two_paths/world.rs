//! The testbed, event by event.

mod arrivals;
mod behind;
mod changing;

use super::barrier::Barrier;
use super::change::ChainChange;
use super::control_plane::ControlPlane;
use super::cores::Bank;
use super::finishing::Finishing;
use super::measures::{End, Measures, Node as NodeCounts};
use super::parameters::Setting;
use super::switch::instant;
use crate::model::ParameterError;
use crate::traffic::{Incoming, Traffic};
use behind::{Crossing, Report, Return};
use std::collections::VecDeque;
use twinpath_core::{Frame, Steering};
use twinpath_engine::devices::Port;
use twinpath_engine::{Agenda, Rate, Time, World, run_until};
use twinpath_link::Sender;
use twinpath_node::machine::WorkerAnswer;
use twinpath_node::{Departure, Node, Output};

/// How often the number of rules is read.
const READING: Time = Time(1_000_000_000);

/// What came of a run.
pub(super) struct Outcome {
    pub(super) row: Vec<f64>,
    pub(super) lost_share: f64,
    /// Of the packets that came, those that left.
    pub(super) carried_share: f64,
}

/// Sees everything that leaves.
pub(super) type Tap<'a> = &'a mut dyn FnMut(&Departure);

/// Runs at so many times the plan's rate.
pub(super) fn run(setting: &Setting, rate: f64) -> Result<Outcome, ParameterError> {
    run_tapped(setting, rate, &mut |_| ())
}

/// The same, with a look at what leaves.
pub(super) fn run_tapped(
    setting: &Setting,
    rate: f64,
    tap: Tap<'_>,
) -> Result<Outcome, ParameterError> {
    let mut testbed = Testbed::new(setting, rate, tap)?;
    let mut agenda = Agenda::default();
    testbed.node.machine.start(instant(Time::ZERO));
    let workers = testbed.node.workers.iter_mut();
    workers.for_each(|worker| worker.start(instant(Time::ZERO)));
    testbed.fetch(&mut agenda);
    agenda.at(READING, Event::Reading);
    if testbed.change.is_some() {
        let at = Time::from_us_f64(setting.parameters.replace_at_ms * 1e3);
        agenda.at(at, Event::Change);
    }
    while !testbed.is_over {
        let until = agenda.now() + READING;
        run_until(&mut testbed, &mut agenda, until);
    }
    let end = testbed.end(testbed.last);
    Ok(Outcome {
        row: testbed.measures.row(setting, &end),
        lost_share: testbed.measures.lost_share(),
        carried_share: testbed.measures.left as f64 / testbed.measures.arrived.max(1) as f64,
    })
}

/// What happens.
enum Event {
    /// The packet that was fetched arrives.
    Arrival,
    /// A frame is in front of the cores, or has passed a stage of them.
    AtCores(Crossing),
    /// The last stage's core is done with it.
    Done(Crossing),
    /// A frame is back at the switch.
    Back(Return),
    /// The control plane has done what is in this frame.
    Written(Return),
    /// A packet whose payload was fetched leaves.
    Joined(Time, Frame),
    /// The number of rules is read.
    Reading,
    /// The chain is to be replaced.
    Change,
}

struct Testbed<'a> {
    node: Node,
    bank: Bank,
    control_plane: Option<ControlPlane>,
    store: Option<Store>,
    pipeline: Time,
    /// The time of arrivals is divided by this.
    rate: f64,
    slow_start: f64,
    traffic: Traffic,
    buffer: Vec<u8>,
    next: Option<Incoming>,
    /// When the packets after the warm-up would have come, and when they do.
    offset: (Time, Time),
    fetched: u64,
    warm_up: u64,
    is_measuring: bool,
    is_over: bool,
    /// When the last packet arrived.
    last: Time,
    numbers: Vec<(Sender, Sender)>,
    /// What came of the frames that each worker was sent.
    finishing: Vec<Finishing>,
    barrier: Barrier<Report>,
    /// What time workers have been told.
    told: twinpath_node::machine::Time,
    output: Output,
    batch: Vec<Frame>,
    returns: Vec<Frame>,
    measures: Measures,
    tap: Tap<'a>,
    /// Whether packets of this flow are watched one by one.
    watches_flows: bool,
    steering: Steering,
    change: Option<ChainChange>,
    /// What workers will have answered when all that they gave back is in.
    answers: VecDeque<(usize, WorkerAnswer)>,
    /// Frames between the fast path and the cores, either way.
    under_way: u64,
}

/// Payloads that wait outside of the switch.
struct Store {
    read: Port,
    latency: Time,
    header_bytes: u32,
}

impl<'a> Testbed<'a> {
    fn new(setting: &Setting, rate: f64, tap: Tap<'a>) -> Result<Self, ParameterError> {
        let node = super::node::build(setting)?;
        let parameters = &setting.parameters;
        let traffic = Traffic::new(&parameters.traffic, &setting.traffic()?)?;
        let workers = node.workers.len();
        let elements = setting.elements()?;
        Ok(Self {
            bank: Bank::new(setting, workers, &elements),
            control_plane: setting.agent().map(ControlPlane::new),
            store: setting.store().map(|preset| Store {
                // As many stores as the input needs.
                read: Port::new(Rate(u64::MAX >> 20), u64::MAX),
                latency: Time::from_ns_f64(preset.read_ns.value()),
                header_bytes: preset.header_bytes.count() as u32,
            }),
            pipeline: Time::from_ns_f64(setting.testbed.switch.pipeline_ns.value()),
            rate,
            slow_start: parameters.slow_start,
            buffer: vec![0; traffic.buffer_bytes()],
            traffic,
            next: None,
            offset: (Time::ZERO, Time::ZERO),
            fetched: 0,
            warm_up: (parameters.traffic.packets as f64 * parameters.warm_up) as u64,
            is_measuring: parameters.warm_up == 0.0,
            is_over: false,
            last: Time::ZERO,
            numbers: vec![Default::default(); workers],
            finishing: (0..workers).map(|_| Finishing::default()).collect(),
            barrier: Barrier::default(),
            told: Default::default(),
            output: Output::default(),
            batch: Vec::with_capacity(1),
            returns: Vec::new(),
            measures: Measures::default(),
            tap,
            watches_flows: setting.agent().is_some(),
            steering: setting.steering()?,
            change: match setting.replaced()? {
                Some(other) => Some(ChainChange::new(setting, other)?),
                None => None,
            },
            answers: VecDeque::new(),
            under_way: 0,
            node,
        })
    }

    /// Departures leave, frames go to the devices, and workers do what they are told.
    fn put_out(&mut self, agenda: &mut Agenda<Event>) {
        let now = agenda.now();
        let mut output = std::mem::take(&mut self.output);
        for departure in output.departures.drain(..) {
            self.depart(departure, agenda);
        }
        for (worker, frame) in output.frames.drain(..) {
            self.punt(worker, frame, now + self.pipeline, agenda);
        }
        for (worker, command) in output.commands.drain(..) {
            self.execute(worker, command, agenda);
        }
        for outcome in output.outcomes.drain(..) {
            self.came_of_change(outcome, agenda);
        }
        self.output = output;
        self.tell_time(agenda);
    }

    fn lose(&mut self, frame: Frame) {
        self.measures.lost += 1;
        self.node.machine.pools().give(frame);
    }

    fn end(&self, now: Time) -> End {
        End {
            now,
            node: self.counts(),
            written: self
                .control_plane
                .as_ref()
                .map(ControlPlane::counts)
                .unwrap_or_default(),
            busy: self.bank.busy(),
            change: self
                .change
                .as_ref()
                .map(ChainChange::told)
                .unwrap_or_default(),
            cores: self.bank.cores(),
        }
    }

    fn counts(&self) -> NodeCounts {
        let path = self.node.machine.path();
        let mut counts = NodeCounts::default();
        if let Some(stage) = path.stage() {
            let stats = stage.counters();
            counts.pulls = stats.pulls;
            counts.cancelled = stats.cancellations;
            counts.collisions = stats.collisions;
            counts.write_backs = stats.write_backs;
            counts.states = stats.population[2];
        }
        counts.rules = path
            .rule_stages()
            .map(|stage| stage.table.active() as u64)
            .sum();
        let rules = self.node.workers.iter().flat_map(|worker| worker.rules());
        counts.selected = rules.map(|rules| rules.manager().counters().added).sum();
        counts
    }
}

impl World for Testbed<'_> {
    type Event = Event;

    fn happen(&mut self, event: Event, agenda: &mut Agenda<Event>) {
        if self.is_over {
            return;
        }
        match event {
            Event::Arrival => self.arrival(agenda),
            Event::AtCores(crossing) => self.at_cores(crossing, agenda),
            Event::Done(crossing) => self.done(crossing, agenda),
            Event::Back(back) => self.back(back, agenda),
            Event::Written(back) => self.written(back, agenda),
            Event::Joined(end, frame) => self.left(frame, false, end),
            Event::Reading => {
                let active = self
                    .node
                    .machine
                    .path()
                    .rule_stages()
                    .map(|stage| stage.table.active());
                self.measures.rules(active.sum());
                agenda.after(READING, Event::Reading);
            }
            Event::Change => self.change_chain(),
        }
        self.go_on(agenda);
    }
}
