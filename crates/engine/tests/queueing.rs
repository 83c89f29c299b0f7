//! The engine against what queueing theory knows in closed form.

use twinpath_engine::devices::{Cores, Link, Nic, Port, Service, Switch};
use twinpath_engine::stats::{OverTime, Samples};
use twinpath_engine::{Agenda, Rate, Time, World, run};
use twinpath_traffic::random::{Random, RandomSource};

/// A queue with one server, event by event.
struct Queue {
    service: Service,
    arrivals_left: u64,
    gap_ps: f64,
    waiting: std::collections::VecDeque<Time>,
    is_busy: bool,
    arrivals: Random,
    services: Random,
    inside: OverTime,
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
            inside: OverTime::default(),
            waits: Samples::default(),
            sojourns: Samples::default(),
        }
    }

    fn measured(mut self) -> (Self, Time) {
        let mut agenda = Agenda::default();
        agenda.at(Time::ZERO, Event::Arrival);
        run(&mut self, &mut agenda);
        let end = agenda.now();
        (self, end)
    }

    fn count(&self) -> u64 {
        self.waiting.len() as u64 + u64::from(self.is_busy)
    }

    fn start(&mut self, arrived: Time, agenda: &mut Agenda<Event>) {
        self.is_busy = true;
        self.waits.record((agenda.now() - arrived).0);
        let service = self.service.draw(0, &mut self.services);
        agenda.after(service, Event::Departure(arrived));
    }
}

impl World for Queue {
    type Event = Event;

    fn happen(&mut self, event: Event, agenda: &mut Agenda<Event>) {
        let now = agenda.now();
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
        self.inside.set(self.count(), now);
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
        let (queue, _) = Queue::new(Service::Exponential(SERVICE), load, PACKETS).measured();
        let expected = load / (1.0 - load) * SERVICE.0 as f64;
        assert_near(queue.waits.mean(), expected, 0.04, "M/M/1 wait");
    }
}

#[test]
fn constant_service_waits_half_as_long_as_m_m_1() {
    for load in [0.3, 0.5, 0.8] {
        let (queue, _) = Queue::new(Service::Constant(SERVICE), load, PACKETS).measured();
        let expected = load / (2.0 * (1.0 - load)) * SERVICE.0 as f64;
        assert_near(queue.waits.mean(), expected, 0.04, "M/D/1 wait");
    }
}

/// The sojourn of M/M/1 is exponential: its percentiles are logarithms.
#[test]
fn percentiles_of_m_m_1_are_exponential() {
    let (queue, _) = Queue::new(Service::Exponential(SERVICE), 0.5, PACKETS).measured();
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
        let (queue, end) = Queue::new(service, 0.9, 20_000).measured();
        let by_time = queue.inside.mean(end) * end.0 as f64;
        let by_packet = queue.sojourns.mean() * queue.sojourns.count() as f64;
        assert_near(by_time, by_packet, 1e-12, "L = lambda W");
    }
}

/// The devices that answer at once give the same queue as events do.
#[test]
fn cores_are_the_same_queue_without_events() {
    let load = 0.7;
    let service = Service::Exponential(SERVICE);
    let (queue, _) = Queue::new(service, load, 50_000).measured();
    let mut cores = Cores::new(1, service, Time(u64::MAX), Random::stream(11, 1));
    let mut arrivals = Random::stream(11, 0);
    let (mut now, mut sojourns) = (Time::ZERO, Samples::default());
    for _ in 0..50_000 {
        let done = cores.process(now, 0, 0).expect("no limit");
        sojourns.record((done - now).0);
        now += Time(arrivals.exponential(1e6 / load) as u64);
    }
    assert_eq!(sojourns.mean(), queue.sojourns.mean());
    assert_eq!(sojourns.quantile(0.99), queue.sojourns.quantile(0.99));
}

/// A testbed put together: a switch that cuts packets, a cable, a card, a core and the way back.
#[test]
fn bytes_are_conserved_along_a_testbed() {
    let rate = Rate::from_gbps(10.0);
    let port = Port::new(rate, 20_000);
    let mut switch = Switch::new(Time::from_ns(400), vec![port; 2], Time::ZERO);
    let cable = Link {
        latency: Time::from_ns(50),
        mtu_bytes: 9000,
    };
    let mut nic = Nic::new(30e6, 512, Rate::from_gbps(100.0), Time::from_ns(900));
    let service = Service::Exponential(Time::from_ns(700));
    let mut cores = Cores::new(2, service, Time::from_ns(20_000), Random::stream(3, 1));
    let mut random = Random::stream(3, 0);

    let (mut now, mut offered, mut at_cores, mut slowest) = (Time::ZERO, 0u64, 0u64, Time::ZERO);
    for _ in 0..50_000 {
        now += Time(random.exponential(400_000.0) as u64);
        let bytes = Switch::truncate(64 + random.below(1400) as u32, 1000);
        offered += u64::from(bytes);
        let through = switch
            .forward(now, 0, bytes)
            .and_then(|time| cable.carry(time, bytes))
            .and_then(|time| nic.transfer(time, bytes))
            .and_then(|time| cores.process(time, random.bits(), bytes));
        if let Ok(time) = through {
            at_cores += 1;
            slowest = slowest.max(time.since(now));
        }
    }
    let port = *switch.port(0).expect("a port").stats();
    assert_eq!(port.bytes + port.dropped_bytes, offered);
    assert_eq!(port.packets + port.dropped, 50_000);
    assert!(port.dropped > 1000, "the port is overloaded: {port:?}");
    assert_eq!(port.packets, at_cores + nic.lost() + cores.lost());
    assert!(
        slowest > Time::from_ns(16_000),
        "a full port queue takes 16 us"
    );
}
