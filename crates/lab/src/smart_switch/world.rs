//! The box, event by event.

use super::configuration::{self, dpu_address};
use super::dpu::{Device, Memory, Passed};
use super::frames::{Conversation, HEADROOM};
use super::measures::Measures;
use super::parameters::{Arrivals, CONNECTION_PACKETS, Setting};
use crate::model::ParameterError;
use std::collections::HashMap;
use twinpath_core::wire::Address;
use twinpath_dash::Question;
use twinpath_dash::steering::{DpuRoute, DpuSteering, FrameOrigin};
use twinpath_engine::devices::Server;
use twinpath_engine::{Agenda, Time, World, run_until};
use twinpath_traffic::popularity::Zipf;
use twinpath_traffic::random::{Random, RandomSource};

/// Runs one point.
pub(super) fn run(setting: &Setting) -> Result<Vec<f64>, ParameterError> {
    let mut testbed = Testbed::new(setting)?;
    let mut agenda = Agenda::default();
    testbed.begin(&mut agenda);
    let end = testbed.measures.end;
    run_until(&mut testbed, &mut agenda, end);
    let memories = testbed.devices.iter().map(|device| device.memory);
    let memory = memories.fold(Memory::default(), Memory::or_more);
    Ok(testbed.measures.row(setting, memory))
}

/// What happens.
enum Event {
    /// A packet of a known flow comes.
    Datagram,
    /// A connection begins.
    Opens,
    /// The next packet of a connection comes.
    Segment(Connection),
    /// A packet is at its DPU.
    AtDpu(Packet),
    /// A core has judged a packet.
    Judged(Packet, Box<Question>),
}

/// A connection, and how many of its packets have left.
#[derive(Clone, Copy)]
struct Connection {
    conversation: Conversation,
    step: u32,
}

struct Packet {
    buffer: Vec<u8>,
    dpu: usize,
    came: Time,
    connection: Option<Connection>,
}

struct Testbed<'a> {
    setting: &'a Setting,
    steering: DpuSteering,
    /// DPUs by address.
    numbers: HashMap<Address, usize>,
    devices: Vec<Device>,
    /// The switch takes one packet after the other.
    switch: Server,
    random: Random,
    zipf: Option<Zipf>,
    /// The next connection of each ENI.
    next: Vec<u32>,
    measures: Measures,
}

impl<'a> Testbed<'a> {
    fn new(setting: &'a Setting) -> Result<Self, ParameterError> {
        let parameters = &setting.parameters;
        let (_, snapshot) = configuration::read(&configuration::of_switch(setting))?;
        let devices = (0..parameters.dpus).map(|number| Device::new(setting, number));
        let devices: Vec<_> = devices.collect::<Result<_, _>>()?;
        let end = Time::from_us_f64(parameters.duration_us);
        let begin = Time::from_us_f64(parameters.duration_us * parameters.warm_up);
        let measures = Measures::new(begin..end, devices.len());
        let exponent = parameters.eni_zipf;
        Ok(Self {
            setting,
            steering: DpuSteering::of(&snapshot.configuration),
            numbers: (0..parameters.dpus)
                .map(|number| (dpu_address(number), usize::from(number)))
                .collect(),
            devices,
            switch: Server::default(),
            random: Random::stream(parameters.seed, 0),
            zipf: (exponent > 0.0).then(|| Zipf::new(parameters.enis.into(), exponent)),
            next: vec![0; parameters.enis as usize],
            measures,
        })
    }

    fn begin(&mut self, agenda: &mut Agenda<Event>) {
        if self.setting.packets_per_s() > 0.0 {
            agenda.at(Time::ZERO, Event::Datagram);
        }
        if self.setting.connections_per_s() > 0.0 {
            agenda.at(Time::ZERO, Event::Opens);
        }
    }

    /// The time from one arrival to the next.
    fn gap(&mut self, per_s: f64) -> Time {
        let mean_ns = 1e9 / per_s;
        Time::from_ns_f64(match self.setting.parameters.arrivals {
            Arrivals::Constant => mean_ns,
            Arrivals::Poisson => self.random.exponential(mean_ns),
        })
    }

    fn eni(&mut self) -> u32 {
        let enis = u64::from(self.setting.parameters.enis);
        let number = match &self.zipf {
            Some(zipf) => zipf.sample(&mut self.random),
            None => self.random.below(enis),
        };
        number as u32
    }

    fn datagram(&mut self, agenda: &mut Agenda<Event>) {
        let eni = self.eni();
        let flow = self.random.below(self.setting.flows_of_eni().into()) as u32;
        let conversation = Conversation::new(eni, flow, self.setting.mappings_of_eni());
        let buffer = conversation.datagram(self.setting.outer_bytes());
        self.arrive(buffer, None, agenda);
        let gap = self.gap(self.setting.packets_per_s());
        agenda.at(agenda.now() + gap, Event::Datagram);
    }

    fn open(&mut self, agenda: &mut Agenda<Event>) {
        let eni = self.eni();
        let next = &mut self.next[eni as usize];
        let conversation = Conversation::new(eni, *next, self.setting.mappings_of_eni());
        *next += 1;
        self.measures.begun += u64::from(self.measures.counts(agenda.now()));
        let step = 0;
        self.segment(Connection { conversation, step }, agenda);
        let gap = self.gap(self.setting.connections_per_s());
        agenda.at(agenda.now() + gap, Event::Opens);
    }

    fn segment(&mut self, connection: Connection, agenda: &mut Agenda<Event>) {
        let buffer = connection.conversation.segment(connection.step);
        self.arrive(buffer, Some(connection), agenda);
    }

    /// A packet comes to the switch, which finds its DPU by what is in it.
    fn arrive(
        &mut self,
        buffer: Vec<u8>,
        connection: Option<Connection>,
        agenda: &mut Agenda<Event>,
    ) {
        let now = agenda.now();
        let counts = self.measures.counts(now);
        self.measures.came += u64::from(counts);
        let mac = self.devices[0].eni_mac(&buffer[HEADROOM..]);
        let way = mac.and_then(|mac| self.steering.way(mac, FrameOrigin::Host).ok());
        let Some(dpu) = way.and_then(|way| self.number(way)) else {
            return self.lose(now, connection.as_ref());
        };
        self.measures.steered[dpu] += u64::from(counts);
        let taken = Time::from_ns_f64(1e3 / self.setting.switch.capacity_mpps.value());
        let switched = self.switch.serve(now, taken) + self.half_switch();
        let bytes = (buffer.len() - HEADROOM) as u32;
        let packet = Packet {
            buffer,
            dpu,
            came: now,
            connection,
        };
        match self.devices[dpu].receive(switched, bytes) {
            Ok(there) => agenda.at(there, Event::AtDpu(packet)),
            Err(_) => self.lose(now, connection.as_ref()),
        }
    }

    fn number(&self, way: DpuRoute) -> Option<usize> {
        match way {
            DpuRoute::Local { dpu } => self.numbers.get(&dpu).copied(),
            DpuRoute::Remote { .. } => None,
        }
    }

    /// A packet passes the switch's pipeline twice.
    fn half_switch(&self) -> Time {
        Time::from_ns_f64(self.setting.switch.pipeline_ns.value() / 2.0)
    }

    fn lose(&mut self, came: Time, connection: Option<&Connection>) {
        let counts = u64::from(self.measures.counts(came));
        self.measures.lost += counts;
        if connection.is_some() {
            self.measures.failed += counts;
        }
    }

    fn at_dpu(&mut self, mut packet: Packet, agenda: &mut Agenda<Event>) {
        let passed = self.devices[packet.dpu].take(&mut packet.buffer, agenda.now());
        if matches!(passed, Passed::Asks(..)) {
            self.measures.judged += u64::from(self.measures.counts(packet.came));
        }
        self.passed(passed, packet, false, agenda);
    }

    fn judged(&mut self, mut packet: Packet, question: &Question, agenda: &mut Agenda<Event>) {
        let device = &mut self.devices[packet.dpu];
        let passed = device.judged(&mut packet.buffer, question, agenda.now());
        self.passed(passed, packet, true, agenda);
    }

    fn passed(
        &mut self,
        passed: Passed,
        packet: Packet,
        was_judged: bool,
        agenda: &mut Agenda<Event>,
    ) {
        match passed {
            Passed::Asks(done, question) => agenda.at(done, Event::Judged(packet, question)),
            Passed::Lost => self.lose(packet.came, packet.connection.as_ref()),
            Passed::Left(time, bytes) => {
                let left = time + self.half_switch();
                self.measures.leave((packet.came, left), bytes, was_judged);
                if let Some(connection) = packet.connection {
                    self.go_on(connection, left, agenda);
                }
            }
        }
    }

    /// A host answers what it was sent.
    fn go_on(&mut self, connection: Connection, left: Time, agenda: &mut Agenda<Event>) {
        let step = connection.step + 1;
        if step == CONNECTION_PACKETS {
            return self.measures.finish(left);
        }
        let answers = left + Time::from_us_f64(self.setting.parameters.host_us);
        agenda.at(answers, Event::Segment(Connection { step, ..connection }));
    }
}

impl World for Testbed<'_> {
    type Event = Event;

    fn happen(&mut self, event: Event, agenda: &mut Agenda<Event>) {
        match event {
            Event::Datagram => self.datagram(agenda),
            Event::Opens => self.open(agenda),
            Event::Segment(connection) => self.segment(connection, agenda),
            Event::AtDpu(packet) => self.at_dpu(packet, agenda),
            Event::Judged(packet, question) => self.judged(packet, &question, agenda),
        }
    }
}
