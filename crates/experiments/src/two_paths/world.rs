//! The testbed, event by event.

use super::barrier::Barrier;
use super::change::Change;
use super::control_plane::{ControlPlane, Passage};
use super::cores::{At, Bank, Whose};
use super::measures::{End, Measures, Node as NodeCounts};
use super::parameters::Setting;
use super::switch::{clock, instant, time};
use crate::model::Misfit;
use crate::traffic::{Incoming, Traffic};
use twinpath_core::wire::dissect;
use twinpath_core::{Frame, Steering};
use twinpath_engine::devices::Port;
use twinpath_engine::{Agenda, Rate, Time, World, run_until};
use twinpath_link::{Header, Message, Sender, number};
use twinpath_node::replacement::Leftovers;
use twinpath_node::{Departure, FastOutput, Node, Via};

/// How often the number of rules is read.
const READING: Time = Time(1_000_000_000);
/// Flows whose state is asked home at once, when a chain is replaced.
const HOME_AT_ONCE: usize = 256;

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
pub(super) fn run(setting: &Setting, rate: f64) -> Result<Outcome, Misfit> {
    run_tapped(setting, rate, &mut |_| ())
}

/// The same, with a look at what leaves.
pub(super) fn run_tapped(setting: &Setting, rate: f64, tap: Tap<'_>) -> Result<Outcome, Misfit> {
    let mut testbed = Testbed::new(setting, rate, tap)?;
    let mut agenda = Agenda::default();
    testbed.node.machine.path_mut().start(instant(Time::ZERO));
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
    Back(usize, Frame),
    /// The control plane has done what is in this frame.
    Written(usize, Frame),
    /// A packet whose payload was fetched leaves.
    Joined(Time, Frame),
    /// A worker's timers.
    Wake(usize),
    /// The number of rules is read.
    Reading,
    /// The chain is to be replaced.
    Change,
}

/// A frame behind the switch.
struct Crossing {
    frame: Frame,
    whose: Whose,
    at: At,
    bytes: u32,
    ticket: u64,
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
    barrier: Barrier<(usize, Frame)>,
    wakes: Vec<Time>,
    output: FastOutput,
    batch: Vec<Frame>,
    returns: Vec<Frame>,
    measures: Measures,
    tap: Tap<'a>,
    /// Whether packets of this flow are watched one by one.
    watches_flows: bool,
    steering: Steering,
    change: Option<Change>,
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
    fn new(setting: &Setting, rate: f64, tap: Tap<'a>) -> Result<Self, Misfit> {
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
            barrier: Barrier::default(),
            wakes: vec![Time(u64::MAX); workers],
            output: FastOutput::default(),
            batch: Vec::with_capacity(1),
            returns: Vec::new(),
            measures: Measures::default(),
            tap,
            watches_flows: setting.agent().is_some(),
            steering: setting.steering()?,
            change: match setting.replaced()? {
                Some(other) => Some(Change::new(setting, other)?),
                None => None,
            },
            under_way: 0,
            node,
        })
    }

    /// Gets the next packet and puts its arrival on.
    fn fetch(&mut self, agenda: &mut Agenda<Event>) {
        self.next = self.traffic.next_into(&mut self.buffer);
        let Some(incoming) = self.next else {
            self.is_over = true;
            return;
        };
        let at = self.arrival_time(incoming.at);
        self.fetched += 1;
        if self.fetched == self.warm_up {
            self.offset = (incoming.at, at);
        }
        agenda.at(at, Event::Arrival);
    }

    fn arrival_time(&self, planned: Time) -> Time {
        let (from, to) = self.offset;
        let slower = match self.fetched >= self.warm_up {
            true => 1.0,
            false => self.slow_start,
        };
        let since = (planned - from).0 as f64 * slower / self.rate;
        to + Time(since as u64)
    }

    fn arrival(&mut self, agenda: &mut Agenda<Event>) {
        let Some(incoming) = self.next else { return };
        let now = agenda.now();
        self.last = now;
        if !self.is_measuring && self.fetched > self.warm_up {
            self.is_measuring = true;
            let end = self.end(now);
            self.measures.begin(&end);
        }
        self.measures.arrived += 1;
        self.measures.arrived_bytes += incoming.len as u64;
        let bytes = &self.buffer[..incoming.len];
        let Some(mut frame) = self.node.machine.pools().take_filled(bytes) else {
            self.measures.lost += 1;
            return self.fetch(agenda);
        };
        frame.set_timestamp(instant(now));
        frame.set_received_ns(now.ns());
        if let Some(change) = self.change.as_mut().filter(|change| change.is_under_way()) {
            change.wait(frame);
            return self.fetch(agenda);
        }
        let fast_before = self.measures.fast;
        self.enter(frame, agenda);
        if let Some(flow) = incoming.flow.filter(|_| self.watches_flows) {
            self.measures.flows.insert(flow);
            if self.measures.fast > fast_before {
                self.measures.by_rules.insert(flow);
            }
        }
        self.fetch(agenda);
    }

    /// A packet meets the fast path.
    fn enter(&mut self, frame: Frame, agenda: &mut Agenda<Event>) {
        let clock = clock(agenda.now());
        self.batch.push(frame);
        let (path, pools) = self.node.machine.parts();
        path.process(&mut self.batch, clock, pools, &mut self.output);
        path.sweep(clock, pools, &mut self.output);
        self.put_out(agenda);
    }

    /// Goes on with a change of the chain, if nothing is under way any more.
    fn change_chain(&mut self, agenda: &mut Agenda<Event>) {
        let Some(change) = &mut self.change else {
            return;
        };
        if self.under_way > 0 || !change.is_under_way() {
            return;
        }
        let (brings_home, releases) = (change.brings_flows_home(), change.releases_packets());
        let clock = clock(agenda.now());
        let (path, pools) = self.node.machine.parts();
        let are_home =
            !brings_home || path.bring_flows_home(HOME_AT_ONCE, clock, pools, &mut self.output);
        let is_settled = path.settle_rules(clock, pools, &mut self.output);
        self.put_out(agenda);
        if releases {
            self.release(agenda);
        }
        if are_home && is_settled && self.under_way == 0 {
            self.take_chain(agenda);
        }
    }

    /// What functions keep leaves through the chain as it is.
    fn release(&mut self, agenda: &mut Agenda<Event>) {
        for worker in 0..self.node.workers.len() {
            let pools = &mut self.node.worker_pools[worker];
            let now = instant(agenda.now());
            self.node.workers[worker].release(now, pools, &mut self.returns);
            self.send_back(worker, agenda);
        }
    }

    /// Both paths take the other chain, if packets do not wait for rules to go.
    fn take_chain(&mut self, agenda: &mut Agenda<Event>) {
        let Some(change) = &mut self.change else {
            return;
        };
        let Some(mut replacement) = change.take() else {
            return;
        };
        let mut left = Leftovers::default();
        let now = instant(agenda.now());
        for (worker, plans) in self.node.workers.iter_mut().zip(&mut replacement.cores) {
            let steering = replacement.steering.clone();
            match worker.replace(std::mem::take(plans), steering, now) {
                Ok((_, remains)) => left.add(remains),
                Err(returned) => {
                    *plans = returned;
                    return change.put_back(replacement);
                }
            }
        }
        self.steering = replacement.steering.clone();
        let path = self.node.machine.path_mut();
        path.replace(
            replacement.sides,
            replacement.steering,
            replacement.fast,
            &mut left,
        );
        path.keep_flows();
        if let Some(pools) = replacement.pools {
            left.add(self.node.machine.pools().grow_to(pools));
        }
        let (setting, waiting) = change.end(agenda.now());
        if let Ok(elements) = setting.elements() {
            self.bank.serve(&setting, &elements);
        }
        waiting
            .into_iter()
            .for_each(|frame| self.enter(frame, agenda));
    }

    /// Departures leave, punts go to the devices.
    fn put_out(&mut self, agenda: &mut Agenda<Event>) {
        let now = agenda.now();
        let mut output = std::mem::take(&mut self.output);
        for departure in output.departures.drain(..) {
            self.depart(departure, agenda);
        }
        for (worker, frame) in output.punts.drain(..) {
            self.punt(worker, frame, now + self.pipeline, agenda);
        }
        self.output = output;
    }

    fn depart(&mut self, departure: Departure, agenda: &mut Agenda<Event>) {
        (self.tap)(&departure);
        let now = agenda.now();
        let is_fast = departure.via == Via::Fast;
        if let (false, Some(store)) = (is_fast, &mut self.store) {
            let payload = (departure.frame.len() as u32).saturating_sub(store.header_bytes);
            let read = store.read.send(now, payload).unwrap_or(now) + store.latency;
            return agenda.at(read, Event::Joined(read, departure.frame));
        }
        // Slow packets end with their return to the switch (SwitchNIC §6).
        let end = if is_fast { now + self.pipeline } else { now };
        self.left(departure.frame, is_fast, end);
    }

    fn left(&mut self, frame: Frame, is_fast: bool, end: Time) {
        let latency = end.since(Time::from_ns(frame.received_ns()));
        self.measures.departed(frame.len(), is_fast, latency);
        self.node.machine.pools().give(frame);
    }

    fn punt(&mut self, worker: usize, frame: Frame, now: Time, agenda: &mut Agenda<Event>) {
        let Ok(header) = Header::read(frame.bytes()) else {
            return self.lose(frame);
        };
        let mut bytes = (frame.len() - header.bytes()) as u32;
        if let Some(store) = &self.store {
            bytes = bytes.min(store.header_bytes);
        }
        let whose = Whose {
            worker,
            hash: self.flow_hash(&frame.bytes()[header.bytes()..]),
        };
        let at = At {
            element: header.element,
            stage: 0,
        };
        match self.bank.cross(now, worker, bytes) {
            Err(_) => self.lose(frame),
            Ok(arrived) => {
                self.under_way += 1;
                let crossing = Crossing {
                    frame,
                    whose,
                    at,
                    bytes,
                    ticket: u64::MAX,
                };
                agenda.at(arrived, Event::AtCores(crossing));
            }
        }
    }

    /// The hash of a packet's flow; 0 of what is no packet.
    fn flow_hash(&self, packet: &[u8]) -> u64 {
        let keyed = dissect(packet)
            .ok()
            .and_then(|layout| self.steering.key(packet, &layout));
        keyed.map_or(0, |keyed| keyed.key.hash(self.steering.seed()))
    }

    fn lose(&mut self, frame: Frame) {
        self.measures.lost += 1;
        self.node.machine.pools().give(frame);
    }

    /// Reports of rules must not overtake packets, which several cores work on.
    fn at_cores(&mut self, mut crossing: Crossing, agenda: &mut Agenda<Event>) {
        if crossing.ticket == u64::MAX {
            if Header::read(crossing.frame.bytes()).is_ok_and(|h| h.message == Message::RuleReport)
            {
                self.barrier.wait((crossing.whose.worker, crossing.frame));
                return self.free(agenda);
            }
            crossing.ticket = self.barrier.enter();
        }
        let now = agenda.now();
        match self
            .bank
            .work(now, crossing.at, crossing.whose, crossing.bytes)
        {
            Err(_) => {
                self.barrier.done(crossing.ticket);
                self.under_way -= 1;
                self.lose(crossing.frame);
                self.free(agenda);
            }
            Ok(done) => {
                crossing.at.stage += 1;
                let is_last = crossing.at.stage >= self.bank.stages(crossing.at.element);
                let event = if is_last { Event::Done } else { Event::AtCores };
                agenda.at(done, event(crossing));
            }
        }
    }

    fn done(&mut self, crossing: Crossing, agenda: &mut Agenda<Event>) {
        self.receive(crossing.whose.worker, crossing.frame, agenda);
        self.barrier.done(crossing.ticket);
        self.free(agenda);
    }

    /// What has waited for packets before it is received.
    fn free(&mut self, agenda: &mut Agenda<Event>) {
        while let Some((worker, frame)) = self.barrier.next_free() {
            self.receive(worker, frame, agenda);
        }
    }

    fn receive(&mut self, worker: usize, mut frame: Frame, agenda: &mut Agenda<Event>) {
        self.under_way -= 1;
        number(&mut frame, self.numbers[worker].0.number());
        let pools = &mut self.node.worker_pools[worker];
        self.node.workers[worker].receive(frame, pools, &mut self.returns);
        self.send_back(worker, agenda);
        self.wake_later(worker, agenda);
    }

    fn send_back(&mut self, worker: usize, agenda: &mut Agenda<Event>) {
        let mut returns = std::mem::take(&mut self.returns);
        for frame in returns.drain(..) {
            let header = Header::read(frame.bytes()).map_or(0, |header| header.bytes());
            let mut bytes = (frame.len() - header) as u32;
            if let Some(store) = &self.store {
                bytes = bytes.min(store.header_bytes);
            }
            match self.bank.come_back(agenda.now(), worker, bytes) {
                Ok(back) => {
                    self.under_way += 1;
                    agenda.at(back, Event::Back(worker, frame));
                }
                Err(_) => self.lose(frame),
            }
        }
        self.returns = returns;
    }

    /// Functions' timers: the packet clock of the cores is what has reached them, one way behind.
    fn wake_later(&mut self, worker: usize, agenda: &mut Agenda<Event>) {
        let Some(deadline) = self.node.workers[worker].next_deadline() else {
            return;
        };
        let at = time(deadline).max(agenda.now());
        if at < self.wakes[worker] {
            self.wakes[worker] = at;
            agenda.at(at, Event::Wake(worker));
        }
    }

    fn wake(&mut self, worker: usize, agenda: &mut Agenda<Event>) {
        self.wakes[worker] = Time(u64::MAX);
        let now = instant(agenda.now());
        let due = self.node.workers[worker].next_deadline();
        if due.is_some_and(|deadline| deadline <= now) {
            let pools = &mut self.node.worker_pools[worker];
            self.node.workers[worker].advance(now, pools, &mut self.returns);
            self.send_back(worker, agenda);
        }
        self.wake_later(worker, agenda);
    }

    fn back(&mut self, worker: usize, frame: Frame, agenda: &mut Agenda<Event>) {
        self.under_way -= 1;
        let Some(control_plane) = &mut self.control_plane else {
            return self.returned(worker, frame, agenda);
        };
        let pools = &mut self.node.worker_pools[worker];
        match control_plane.pass(frame, agenda.now(), pools) {
            Passage::Now(frame) => self.returned(worker, frame, agenda),
            Passage::Parted(rest, late) => {
                if let Some(rest) = rest {
                    self.returned(worker, rest, agenda);
                }
                if let Some((at, frame)) = late {
                    self.under_way += 1;
                    agenda.at(at, Event::Written(worker, frame));
                }
            }
        }
    }

    fn returned(&mut self, worker: usize, mut frame: Frame, agenda: &mut Agenda<Event>) {
        number(&mut frame, self.numbers[worker].1.number());
        let clock = clock(agenda.now());
        let (path, pools) = self.node.machine.parts();
        path.returned(worker, frame, clock, pools, &mut self.output);
        self.put_out(agenda);
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
            change: self.change.as_ref().map(Change::told).unwrap_or_default(),
            cores: self.bank.cores(),
        }
    }

    fn counts(&self) -> NodeCounts {
        let path = self.node.machine.path();
        let mut counts = NodeCounts::default();
        if let Some(stage) = path.stage() {
            let stats = stage.stats();
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
            Event::Back(worker, frame) => self.back(worker, frame, agenda),
            Event::Written(worker, frame) => {
                self.under_way -= 1;
                if let Some(control_plane) = &mut self.control_plane {
                    control_plane.written(&frame);
                }
                self.returned(worker, frame, agenda);
            }
            Event::Joined(end, frame) => self.left(frame, false, end),
            Event::Wake(worker) => self.wake(worker, agenda),
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
            Event::Change => {
                if let Some(change) = &mut self.change {
                    change.begin(agenda.now());
                }
            }
        }
        self.change_chain(agenda);
    }
}
