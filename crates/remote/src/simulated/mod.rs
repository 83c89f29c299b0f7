//! Memory servers at the other end of links on which anything may happen, by seed: for tests, and for
//! whoever drives a switch without a network.
//!
//! Frames are lost, doubled, late, overtaken and damaged; servers die and come back, or their memory
//! fails; somebody on the link repeats old frames, changes where they belong, and forges answers and
//! requests with right check sums. No clock is read.

pub mod hostile;
mod link;
mod tally;

pub use link::{Faults, Link};
pub use tally::Tally;

use crate::server::{Config, MemoryServer};
use std::time::Duration;
use twinpath_core::{Instant, Pools};

/// Numbers that follow from a seed.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// From a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x1234_5678_9abc_def0)
    }

    /// The next one.
    #[expect(clippy::should_implement_trait, reason = "it never ends")]
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11
    }

    /// Below a number.
    pub fn below(&mut self, end: u64) -> u64 {
        self.next() % end.max(1)
    }

    /// So often of a thousand times.
    pub fn happens(&mut self, per_mille: u64) -> bool {
        self.below(1000) < per_mille
    }
}

/// A server, its cable, and what happens to it.
struct RackUnit {
    config: Config,
    port: u16,
    server: Option<MemoryServer>,
    /// To the server, and back.
    links: [Link; 2],
    pools: Pools,
    sends: Instant,
    /// When its process dies, or comes back.
    changes: Instant,
    memory_changes: Instant,
    is_failing: bool,
    next_forgery: Instant,
}

/// Servers, each at a port of the switch.
pub struct Rack {
    places: Vec<RackUnit>,
    faults: Faults,
    random: Random,
    tally: Tally,
}

/// A server that has died is back at the latest after this.
const LONGEST_OUTAGE: Duration = Duration::from_millis(5);
/// A server that may die does so within this.
const LONGEST_LIFE: Duration = Duration::from_millis(30);
/// Memory begins or ceases to fail, and somebody on the link sends, so often.
const MISHAP_INTERVAL: Duration = Duration::from_millis(2);
/// A server takes so long for what it has to send.
const TURN: Duration = Duration::from_micros(2);
/// Frames that a server sends at a time.
const BURST: usize = 16;

impl Rack {
    /// An empty one.
    #[must_use]
    pub fn new(seed: u64, faults: Faults) -> Self {
        Self {
            places: Vec::new(),
            faults,
            random: Random::new(seed),
            tally: Tally::default(),
        }
    }

    /// A server is started at the other end of a port. Its seed is another each time that it starts.
    pub fn add(&mut self, port: u16, config: Config, now: Instant) {
        let buffers = if self.faults.has_few_buffers {
            24
        } else {
            1024
        };
        let random = &mut self.random;
        let mut place = RackUnit {
            config,
            port,
            server: None,
            links: [Link::new(random.next()), Link::new(random.next())],
            pools: Pools::new(buffers, 1),
            sends: now,
            changes: now,
            memory_changes: now,
            is_failing: false,
            next_forgery: now,
        };
        place.change(now, &self.faults, &mut self.random, &mut self.tally);
        self.places.push(place);
    }

    /// What went wrong so far; servers that died are among it, those that run are not.
    #[must_use]
    pub fn tally(&self) -> Tally {
        let mut tally = self.tally.clone();
        let running = self.places.iter().filter_map(|place| place.server.as_ref());
        running.for_each(|server| tally.add_server(server));
        tally
    }

    /// A server dies now, and stays away until [`Self::revive`].
    pub fn kill(&mut self, number: usize) {
        if let Some(place) = self.places.get_mut(number)
            && let Some(server) = place.server.take()
        {
            self.tally.add_server(&server);
            self.tally.count("crashes");
            place.changes = Instant::NEVER;
        }
    }

    /// A server that was killed is started again.
    pub fn revive(&mut self, number: usize, now: Instant) {
        if let Some(place) = self.places.get_mut(number)
            && place.server.is_none()
        {
            place.change(now, &self.faults, &mut self.random, &mut self.tally);
        }
    }

    /// A server's memory is registered no more, which it does not announce: the key that switches have
    /// fits nothing.
    pub fn withdraw_memory(&mut self, number: usize) {
        let place = self.places.get_mut(number);
        if let Some(server) = place.and_then(|place| place.server.as_mut()) {
            let rkey = server.memory().rkey;
            server.endpoint_mut().withdraw(rkey);
        }
    }

    /// From now on nothing goes wrong any more, and all servers are there.
    pub fn calm_down(&mut self, now: Instant) {
        self.faults = Faults::NONE;
        for place in &mut self.places {
            place.changes = Instant::NEVER;
            place.is_failing = false;
            match &mut place.server {
                Some(server) => server.endpoint_mut().set_failing(false),
                None => place.change(now, &self.faults, &mut self.random, &mut self.tally),
            }
        }
    }

    /// A switch sends a frame by a port.
    pub fn send(&mut self, port: u16, frame: &[u8], now: Instant) {
        for place in self.places.iter_mut().filter(|place| place.port == port) {
            place.links[0].send(frame, now, &self.faults, &mut self.tally);
        }
    }

    /// When something happens next.
    #[must_use]
    pub fn next(&self) -> Instant {
        let next = |place: &RackUnit| {
            let sends = match place.server {
                Some(_) => place.sends,
                None => Instant::NEVER,
            };
            let mishap = match self.faults.forged + self.faults.failing {
                0 => Instant::NEVER,
                _ => place.next_forgery.min(place.memory_changes),
            };
            let links = place.links[0].next().min(place.links[1].next());
            links.min(sends).min(place.changes).min(mishap)
        };
        let all = self.places.iter().map(next);
        all.min().unwrap_or(Instant::NEVER)
    }

    /// All that happens until now does. Calls `arrives` with each frame that comes to the switch, and
    /// its port.
    pub fn pass(&mut self, now: Instant, mut arrives: impl FnMut(u16, &[u8])) {
        for place in &mut self.places {
            place.pass(now, &self.faults, &mut self.random, &mut self.tally);
            while let Some(bytes) = place.links[1].arrived(now) {
                arrives(place.port, &bytes);
            }
        }
    }
}

impl RackUnit {
    /// The server dies or comes back.
    fn change(&mut self, now: Instant, faults: &Faults, random: &mut Random, tally: &mut Tally) {
        let within = |most: Duration, random: &mut Random| {
            now + Duration::from_nanos(random.below(most.as_nanos() as u64))
        };
        match self.server.take() {
            Some(server) => {
                tally.add_server(&server);
                tally.count("crashes");
                self.changes = within(LONGEST_OUTAGE, random);
            }
            None => {
                let seed = random.next();
                let config = Config {
                    seed,
                    ..self.config
                };
                let mut server = MemoryServer::new(config, now);
                server.endpoint_mut().set_failing(self.is_failing);
                self.server = Some(server);
                self.sends = now;
                self.changes = match random.happens(faults.crashes) {
                    true => within(LONGEST_LIFE, random),
                    false => Instant::NEVER,
                };
            }
        }
    }

    fn pass(&mut self, now: Instant, faults: &Faults, random: &mut Random, tally: &mut Tally) {
        if now >= self.changes {
            self.change(now, faults, random, tally);
        }
        self.fail(now, faults, random, tally);
        self.forge(now, faults, random, tally);
        while let Some(bytes) = self.links[0].arrived(now) {
            if let Some(server) = &mut self.server {
                server.receive(&bytes, now);
                self.sends = self.sends.min(now + TURN);
            }
        }
        let Some(server) = self.server.as_mut().filter(|_| now >= self.sends) else {
            return;
        };
        let mut frames = Vec::new();
        server.transmit(now, &mut self.pools, &mut frames, BURST);
        self.sends = server.deadline().max(now + TURN);
        for frame in frames {
            self.links[1].send(frame.bytes(), now, faults, tally);
            self.pools.give(frame);
        }
    }

    fn fail(&mut self, now: Instant, faults: &Faults, random: &mut Random, tally: &mut Tally) {
        if now < self.memory_changes {
            return;
        }
        self.memory_changes = now + MISHAP_INTERVAL;
        self.is_failing = !self.is_failing && random.happens(faults.failing);
        tally.add_to("failures", u64::from(self.is_failing));
        if let Some(server) = &mut self.server {
            server.endpoint_mut().set_failing(self.is_failing);
        }
    }

    fn forge(&mut self, now: Instant, faults: &Faults, random: &mut Random, tally: &mut Tally) {
        if now < self.next_forgery {
            return;
        }
        self.next_forgery = now + MISHAP_INTERVAL;
        if random.happens(faults.forged) {
            let [to_server, to_switch] = &mut self.links;
            match random.below(3) {
                0 => to_server.forge_request(now, random, tally),
                1 => to_switch.forge_answer(now, random, tally),
                _ => to_switch.move_response(now, random, tally),
            }
        }
    }
}
