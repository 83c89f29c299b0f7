//! The engine against what queueing theory knows in closed form.

use twinpath_engine::devices::Server;
use twinpath_engine::stats::Samples;
use twinpath_engine::{Agenda, Time, World, run};
use twinpath_traffic::random::{Random, RandomSource};

/// How long one packet takes.
#[derive(Copy, Clone)]
enum Service {
    /// Always the same.
    Constant(Time),
    /// Exponentially distributed, with this mean.
    Exponential(Time),
}

impl Service {
    fn draw(self, random: &mut Random) -> Time {
        match self {
            Self::Constant(time) => time,
            Self::Exponential(mean) => Time(random.exponential(mean.0 as f64) as u64),
        }
    }
}

/// A queue with one server, event by event.
struct Queue {
    service: Service,
    arrivals_left: u64,
    gap_ps: f64,
    waiting: std::collections::VecDeque<Time>,
    is_busy: bool,
    arrivals: Random,
    services: Random,
    /// Packets inside times picoseconds, up to `changed`.
    inside: u128,
    changed: Time,
    waits: Samples,
    sojourns: Samples,
}

enum Event {
    Arrival,
    Departure(Time),
}

impl Queue {
    fn new(service: Service, load: f64, packets: u64) -> Self {
        Self {
            service,
            arrivals_left: packets,
            gap_ps: 1e6 / load,
            waiting: Default::default(),
            is_busy: false,
            arrivals: Random::stream(11, 0),
            services: Random::stream(11, 1),
            inside: 0,
            changed: Time::ZERO,
            waits: Samples::default(),
            sojourns: Samples::default(),
        }
    }

    fn measured(mut self) -> Self {
        let mut agenda = Agenda::default();
        agenda.at(Time::ZERO, Event::Arrival);
        run(&mut self, &mut agenda);
        self
    }

    fn count(&self) -> u64 {
        self.waiting.len() as u64 + u64::from(self.is_busy)
    }

    fn start(&mut self, arrived: Time, agenda: &mut Agenda<Event>) {
        self.is_busy = true;
        self.waits.record((agenda.now() - arrived).0);
        let service = self.service.draw(&mut self.services);
        agenda.after(service, Event::Departure(arrived));
    }
}

impl World for Queue {
    type Event = Event;

    fn happen(&mut self, event: Event, agenda: &mut Agenda<Event>) {
        let now = agenda.now();
        self.inside += u128::from(self.count()) * u128::from((now - self.changed).0);
        self.changed = now;
        match event {
            Event::Arrival => {
                self.arrivals_left -= 1;
                if self.arrivals_left > 0 {
                    let gap = self.arrivals.exponential(self.gap_ps);
                    agenda.after(Time(gap as u64), Event::Arrival);
                }
                match self.is_busy {
                    true => self.waiting.push_back(now),
                    false => self.start(now, agenda),
                }
            }
            Event::Departure(arrived) => {
                self.sojourns.record((now - arrived).0);
                self.is_busy = false;
                if let Some(next) = self.waiting.pop_front() {
                    self.start(next, agenda);
                }
            }
        }
    }
}

/// Mean service time, ps.
const SERVICE: Time = Time(1_000_000);
const PACKETS: u64 = 400_000;

fn assert_near(found: f64, expected: f64, tolerance: f64, what: &str) {
    let off = (found / expected - 1.0).abs();
    assert!(off < tolerance, "{what}: {found}, expected {expected}");
}

#[test]
fn exponential_service_waits_as_long_as_m_m_1() {
    for load in [0.3, 0.5, 0.8] {
        let queue = Queue::new(Service::Exponential(SERVICE), load, PACKETS).measured();
        let expected = load / (1.0 - load) * SERVICE.0 as f64;
        assert_near(queue.waits.mean(), expected, 0.04, "M/M/1 wait");
    }
}

#[test]
fn constant_service_waits_half_as_long_as_m_m_1() {
    for load in [0.3, 0.5, 0.8] {
        let queue = Queue::new(Service::Constant(SERVICE), load, PACKETS).measured();
        let expected = load / (2.0 * (1.0 - load)) * SERVICE.0 as f64;
        assert_near(queue.waits.mean(), expected, 0.04, "M/D/1 wait");
    }
}

/// The sojourn of M/M/1 is exponential: its percentiles are logarithms.
#[test]
fn percentiles_of_m_m_1_are_exponential() {
    let queue = Queue::new(Service::Exponential(SERVICE), 0.5, PACKETS).measured();
    let mean = 2.0 * SERVICE.0 as f64;
    for share in [0.5, 0.9, 0.99] {
        let expected = -mean * (1.0f64 - share).ln();
        let found = queue.sojourns.quantile(share) as f64;
        assert_near(found, expected, 0.05, "M/M/1 percentile");
    }
}

/// Exact for any run that begins and ends empty, not only on average.
#[test]
fn littles_law_holds_to_the_last_bit() {
    for service in [Service::Exponential(SERVICE), Service::Constant(SERVICE)] {
        let queue = Queue::new(service, 0.9, 20_000).measured();
        let by_packet = queue.sojourns.mean() * queue.sojourns.count() as f64;
        assert_near(queue.inside as f64, by_packet, 1e-12, "L = lambda W");
    }
}

/// A server that answers at once gives the same queue as events do.
#[test]
fn a_server_is_the_same_queue_without_events() {
    let load = 0.7;
    let service = Service::Exponential(SERVICE);
    let queue = Queue::new(service, load, 50_000).measured();
    let (mut arrivals, mut services) = (Random::stream(11, 0), Random::stream(11, 1));
    let (mut server, mut now, mut sojourns) = (Server::default(), Time::ZERO, Samples::default());
    for _ in 0..50_000 {
        let done = server.serve(now, service.draw(&mut services));
        sojourns.record((done - now).0);
        now += Time(arrivals.exponential(1e6 / load) as u64);
    }
    assert_eq!(sojourns.mean(), queue.sojourns.mean());
    assert_eq!(sojourns.quantile(0.99), queue.sojourns.quantile(0.99));
}
