//! The testbed, event by event.

use super::measures::Measures;
use super::parameters::{Arrivals, CoresLatency, Parameters, VariantName, wrong};
use super::sizes::Sizes;
use crate::model::ParameterError;
use twinpath_core::{HashKey, Instant};
use twinpath_engine::{Agenda, Rate, Time, World};
use twinpath_parking::{Answer, Dequeued, Load, ParkedPayload, PayloadBuffer, Reading, Ticket};
use twinpath_traffic::random::{Chance, Random, RandomSource};

/// What is parked: a packet without its bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ParkedPacket {
    bytes: u32,
    flow: u32,
    number: u64,
}

impl Load for ParkedPacket {
    fn bytes(&self) -> u32 {
        self.bytes
    }
}

/// What happens.
pub(crate) enum Event {
    /// A packet arrives.
    Arrival,
    /// A header is back.
    Header(Ticket),
    /// The port has sent what it took from the queue; a payload that goes round comes with it.
    Sent(Option<ParkedPayload<ParkedPacket>>),
    /// A payload has come round.
    Back(ParkedPayload<ParkedPacket>),
    /// The queue is read.
    Read,
    /// The controller gets the reading.
    Learn(Reading),
}

struct Testbed<'a> {
    parameters: &'a Parameters,
    buffer: PayloadBuffer<ParkedPacket, ()>,
    port: Rate,
    is_sending: bool,
    switch: Time,
    sizes: Sizes,
    mean_gap_ps: f64,
    header_loss: Chance,
    random: Streams,
    hash_key: HashKey,
    /// Number of the last packet of each flow that left, plus one.
    last_out: Vec<u64>,
    arrived: u64,
    warm_up: u64,
    measures: Measures,
}

/// A stream for each purpose, so that one does not shift another.
struct Streams {
    arrivals: Random,
    sizes: Random,
    cores: Random,
    losses: Random,
}

impl Streams {
    fn new(seed: u64) -> Self {
        Self {
            arrivals: Random::stream(seed, 0),
            sizes: Random::stream(seed, 1),
            cores: Random::stream(seed, 2),
            losses: Random::stream(seed, 3),
        }
    }
}

/// Runs until the last packet has arrived.
pub(crate) fn run(parameters: &Parameters) -> Result<Measures, ParameterError> {
    let buffer = PayloadBuffer::new(parameters.config()).map_err(|error| wrong(&error))?;
    let mut testbed = Testbed::new(parameters, buffer);
    let mut agenda = Agenda::default();
    agenda.at(Time::ZERO, Event::Arrival);
    if parameters.variant == VariantName::Multicast {
        agenda.at(Time::ZERO, Event::Read);
    }
    let mut events = 0;
    while testbed.arrived < parameters.packets {
        let Some(event) = agenda.pop() else {
            break;
        };
        testbed.happen(event, &mut agenda);
        events += 1;
    }
    let stats = *testbed.buffer.counters();
    let mut measures = testbed.measures;
    measures.end(&stats, agenda.now(), events);
    Ok(measures)
}

fn instant(time: Time) -> Instant {
    Instant(time.ns())
}

impl World for Testbed<'_> {
    type Event = Event;

    fn happen(&mut self, event: Event, agenda: &mut Agenda<Event>) {
        let now = agenda.now();
        match event {
            Event::Arrival => self.arrival(agenda),
            Event::Header(ticket) => {
                self.buffer
                    .answered(ticket, Answer::Header(()), instant(now));
            }
            Event::Sent(parked_payload) => {
                self.is_sending = false;
                match (parked_payload, self.switch) {
                    (None, _) => (),
                    (Some(parked_payload), Time::ZERO) => self.buffer.recirculated(parked_payload),
                    (Some(parked_payload), switch) => {
                        agenda.after(switch, Event::Back(parked_payload))
                    }
                }
                self.send(agenda);
            }
            Event::Back(parked_payload) => {
                self.buffer.recirculated(parked_payload);
                self.send(agenda);
            }
            Event::Read => self.read(agenda),
            Event::Learn(reading) => self.buffer.learn(reading),
        }
    }
}

impl<'a> Testbed<'a> {
    fn new(parameters: &'a Parameters, buffer: PayloadBuffer<ParkedPacket, ()>) -> Self {
        let packets_per_ps = parameters.input_gbps * 1e-3 / (8.0 * parameters.mean_bytes);
        Self {
            buffer,
            port: parameters.loopback(),
            is_sending: false,
            switch: Time::from_us_f64(parameters.switch_us),
            sizes: Sizes::new(parameters),
            mean_gap_ps: 1.0 / packets_per_ps,
            header_loss: Chance::new(parameters.header_loss),
            random: Streams::new(parameters.seed),
            hash_key: HashKey::new(parameters.seed),
            last_out: vec![0; parameters.flows as usize],
            arrived: 0,
            warm_up: (parameters.packets as f64 * parameters.warm_up) as u64,
            measures: Measures::default(),
            parameters,
        }
    }

    fn arrival(&mut self, agenda: &mut Agenda<Event>) {
        let (now, number) = (agenda.now(), self.arrived);
        self.arrived += 1;
        if number == self.warm_up {
            self.measures.begin(self.buffer.counters(), now);
        }
        self.park(number, agenda);
        let queue = (
            self.buffer.queue_bytes(),
            self.buffer.queue_packets() as u64,
        );
        self.measures.arrival(queue, self.buffer.fit());
        self.send(agenda);
        let gap = self.gap();
        agenda.after(gap, Event::Arrival);
    }

    fn gap(&mut self) -> Time {
        Time(match self.parameters.arrivals {
            Arrivals::Constant => self.mean_gap_ps as u64,
            Arrivals::Poisson => self.random.arrivals.exponential(self.mean_gap_ps) as u64,
        })
    }

    fn park(&mut self, number: u64, agenda: &mut Agenda<Event>) {
        let flow = (number % u64::from(self.parameters.flows)) as u32;
        let bytes = self.sizes.draw(&mut self.random.sizes);
        let latency = self.cores_latency(agenda.now());
        let is_lost = self.header_loss.draw(&mut self.random.losses);
        let parked_packet = ParkedPacket {
            bytes,
            flow,
            number,
        };
        let parked = self
            .buffer
            .park(parked_packet, self.flow_hash(flow), instant(agenda.now()));
        if let (Ok(ticket), false) = (parked, is_lost) {
            agenda.after(latency, Event::Header(ticket));
        }
    }

    /// With as many partitions as flows, each flow has its own: the hash counts them off.
    fn flow_hash(&self, flow: u32) -> u64 {
        match self.parameters.partitions {
            0 => (((u64::from(flow) << 32) / u64::from(self.parameters.flows)) + 1) << 32,
            _ => self.hash_key.hash([flow.into()]),
        }
    }

    fn cores_latency(&mut self, now: Time) -> Time {
        let parameters = self.parameters;
        let spread = parameters.cores_spread_us;
        Time::from_us_f64(match parameters.cores {
            CoresLatency::Constant => parameters.cores_us,
            CoresLatency::Exponential => {
                parameters.cores_us + self.random.cores.exponential(spread)
            }
            CoresLatency::Steps => {
                let period = (now.us_f64() / parameters.cores_period_us) as u64;
                parameters.cores_us + spread * (period % 2) as f64
            }
        })
    }

    /// Takes the head of the queue and puts it on the wire, if the port is free. A copy takes its time
    /// there, too: that is what it is for.
    fn send(&mut self, agenda: &mut Agenda<Event>) {
        let Some(bytes) = self.buffer.head_bytes().filter(|_| !self.is_sending) else {
            return;
        };
        self.is_sending = true;
        let on_wire = self.port.time_of(bytes.into());
        self.measures.busy += on_wire;
        let parked_payload = self.dequeue(agenda.now(), on_wire);
        agenda.after(on_wire, Event::Sent(parked_payload));
    }

    /// Answers with the payload that must go round, if it is one.
    fn dequeue(&mut self, now: Time, on_wire: Time) -> Option<ParkedPayload<ParkedPacket>> {
        match self.buffer.dequeue(instant(now))? {
            Dequeued::Depart {
                payload,
                parked_at,
                recirculations,
                ..
            } => {
                let latency = now + on_wire - Time::from_ns(parked_at.0);
                let is_in_order = self.is_in_order(&payload);
                self.measures
                    .departure(payload.bytes, latency, recirculations, is_in_order);
                None
            }
            Dequeued::Again(parked_payload) => Some(parked_payload),
            Dequeued::Ended { .. } | Dequeued::Copy | Dequeued::Whole(_) => None,
        }
    }

    fn is_in_order(&mut self, parked_packet: &ParkedPacket) -> bool {
        let Some(last) = self.last_out.get_mut(parked_packet.flow as usize) else {
            return true;
        };
        let is_next = parked_packet.number >= *last;
        *last = (*last).max(parked_packet.number + 1);
        is_next
    }

    fn read(&mut self, agenda: &mut Agenda<Event>) {
        let reading = self.buffer.reading(instant(agenda.now()));
        let delay = Time::from_us_f64(self.parameters.reading_delay_us);
        agenda.after(delay, Event::Learn(reading));
        let every = Time::from_us_f64(self.parameters.reading_every_us);
        agenda.after(every, Event::Read);
    }
}
