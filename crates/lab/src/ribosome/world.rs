//! The testbed, event by event.

mod packets;
mod servers;

use super::functions::{Functions, Whose};
use super::measures::{End, Measures};
use super::memory::Machine;
use super::parameters::{BackOffName, SECONDS, Setting};
use super::places::PayloadPlace;
use crate::model::ParameterError;
use crate::traffic::{Incoming, Traffic};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use twinpath_core::{Frame, HashKey, Instant, Pools};
use twinpath_engine::{Agenda, Time, World};

/// Buffers for packets of an ordinary length, and for longer ones.
const BUFFERS: (usize, usize) = (1 << 18, 1 << 10);
/// How often production is asked what time has made due.
const POLLING: Time = Time(100_000_000);

/// What happens.
pub(super) enum Event {
    /// The packet that was fetched arrives.
    Arrival,
    /// A packet or header is in front of a server with cores.
    AtServer(Whose, Frame),
    /// A core is done with it.
    Done(Whose, Frame),
    /// A function is to look at a flow again.
    Wake(Whose, u64),
    /// It is back at the switch.
    Back(Frame),
    /// A request has arrived at a memory server's card.
    Request(usize, Frame),
    /// It is executed.
    Execute(usize, Frame),
    /// An answer has arrived at the switch.
    Answer(usize, Frame),
    /// Production is asked what is due.
    Poll,
    /// A packet that is not split goes to the first memory server.
    Unsplit,
}

/// A packet under way.
#[derive(Copy, Clone)]
struct UnderWay {
    flow: u64,
    hash: u64,
    arrived: Time,
    /// When its header came back.
    returned: Time,
}

struct Testbed<'a> {
    setting: &'a Setting,
    place: PayloadPlace,
    machines: Vec<Machine>,
    functions: Functions,
    pools: Pools,
    traffic: Traffic,
    buffer: Vec<u8>,
    next: Option<Incoming>,
    fetched: u64,
    warm_up: u64,
    is_measuring: bool,
    is_over: bool,
    pipeline: Time,
    tag_bytes: u32,
    hash: HashKey,
    hash_of_cores: HashKey,
    /// By number, in the order of arrival.
    under_way: HashMap<u64, UnderWay>,
    waiting: u64,
    /// The number of each flow's last packet that left, plus one.
    last_out: HashMap<u64, u64>,
    flows: HashSet<u64>,
    answers: Vec<(Time, Frame)>,
    frames: Vec<Frame>,
    others: Arc<AtomicU64>,
    measures: Measures,
    end: End,
}

/// Runs until the last packet has arrived.
pub(super) fn run(setting: &Setting) -> Result<Vec<f64>, ParameterError> {
    let mut testbed = Testbed::new(setting)?;
    let mut agenda = Agenda::default();
    testbed.register();
    testbed.measures.begin(Time::ZERO, testbed.machines.len());
    testbed.fetch(&mut agenda);
    agenda.at(POLLING, Event::Poll);
    if setting.parameters.unsplit_gbps_per_s > 0.0 && !testbed.machines.is_empty() {
        agenda.at(Time::ZERO, Event::Unsplit);
    }
    while !testbed.is_over {
        let Some(event) = agenda.pop() else { break };
        testbed.happen(event, &mut agenda);
    }
    testbed.close(agenda.now());
    Ok(testbed.measures.row(setting, &testbed.end))
}

fn instant(time: Time) -> Instant {
    Instant(time.ns())
}

impl<'a> Testbed<'a> {
    fn new(setting: &'a Setting) -> Result<Self, ParameterError> {
        let parameters = &setting.parameters;
        let others = Arc::new(AtomicU64::new(0));
        let traffic = Traffic::new(&parameters.traffic, &traffic_config(setting)?)?;
        let (small, large) = BUFFERS;
        let expected = parameters.traffic.packets as f64;
        let planned = match parameters.has_seconds() {
            // The last of the seconds is what is told.
            true => {
                let wire_bytes = setting.testbed.switch.wire_bytes.value();
                let per_s = parameters.traffic.packets_per_s(wire_bytes)?;
                (per_s * SECONDS * parameters.second_ms / 1e3).min(expected)
            }
            false => expected,
        };
        Ok(Self {
            place: PayloadPlace::new(setting, &others)?,
            machines: (0..setting.servers())
                .map(|number| Machine::new(number, setting))
                .collect(),
            functions: Functions::new(setting)?,
            pools: Pools::new(small, large),
            buffer: vec![0; traffic.buffer_bytes()],
            traffic,
            next: None,
            fetched: 0,
            warm_up: (planned * parameters.warm_up) as u64,
            is_measuring: parameters.warm_up == 0.0,
            is_over: false,
            pipeline: Time::from_ns_f64(setting.testbed.switch.pipeline_ns.value()),
            tag_bytes: tag_bytes(setting),
            hash: HashKey::new(parameters.traffic.seed),
            hash_of_cores: HashKey::new(!parameters.traffic.seed),
            under_way: HashMap::new(),
            waiting: 0,
            last_out: HashMap::new(),
            flows: HashSet::new(),
            answers: Vec::new(),
            frames: Vec::new(),
            others,
            measures: Measures::default(),
            end: End::default(),
            setting,
        })
    }

    /// What is known only in the end.
    fn close(&mut self, now: Time) {
        self.end.now = now;
        match &mut self.place {
            PayloadPlace::Remote(stage) => {
                self.end.slots_used = stage.counters().most_slots as f64;
                let first = stage.servers().into_iter().next();
                let share = first.map_or(0, |server| server.share_per_mille);
                self.end.server1_share = share as f64 / 1e3;
            }
            PayloadPlace::Sram(sram) => self.end.sram_bytes = sram.most_bytes() as f64,
            PayloadPlace::Loopback(stages) => {
                let counters = stages.iter().map(|stage| *stage.buffer().counters());
                let (rounds, parked) = counters.fold((0, 0), |(rounds, parked), one| {
                    (rounds + one.recirculations, parked + one.parked)
                });
                self.end.recirculations = rounds as f64 / parked.max(1) as f64;
            }
            PayloadPlace::Nowhere => (),
        }
    }
}

/// Clients' segments of TCP, with headers of 54 bytes as in the paper.
fn traffic_config(
    setting: &Setting,
) -> Result<twinpath_traffic::config::TrafficConfig, ParameterError> {
    let wire_bytes = setting.testbed.switch.wire_bytes.value();
    let mut config = setting.parameters.traffic.generator(wire_bytes)?;
    config.tcp.handshake = false;
    config.tcp.ack_every = 0;
    config.mtu_bytes = 9000;
    Ok(config)
}

/// What a header is longer on its way to the cores and back.
fn tag_bytes(setting: &Setting) -> u32 {
    use super::parameters::System;
    match setting.parameters.system {
        System::Whole => 0,
        System::Split => setting.cores.link_bytes.count() as u32,
        System::Sram | System::Parking => setting.sram.tag_bytes.count() as u32,
    }
}

impl World for Testbed<'_> {
    type Event = Event;

    fn happen(&mut self, event: Event, agenda: &mut Agenda<Event>) {
        self.pass(agenda);
        match event {
            Event::Arrival => self.arrival(agenda),
            Event::AtServer(whose, frame) => self.at_server(whose, frame, agenda),
            Event::Done(whose, frame) => self.done(whose, frame, agenda),
            Event::Wake(whose, flow) => self.wake(whose, flow, agenda),
            Event::Back(frame) => self.back(frame, agenda),
            Event::Request(server, frame) => self.request(server, frame, agenda),
            Event::Execute(server, frame) => self.execute(server, frame, agenda),
            Event::Answer(server, frame) => self.answer(server, frame, agenda),
            Event::Poll => {
                self.poll(agenda.now());
                agenda.after(POLLING, Event::Poll);
            }
            Event::Unsplit => self.unsplit(agenda),
        }
        self.send_messages(agenda);
        self.pass(agenda);
    }
}

impl Testbed<'_> {
    /// Whether servers are ever left alone.
    fn backs_off(&self) -> bool {
        self.setting.parameters.back_off != BackOffName::Never
    }
}
