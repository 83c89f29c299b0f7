//! The simulated world: two ends, a link, and time.

pub use twinpath_remote::simulated::{Faults, Tally};

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;
use twinpath_core::wire::{Address, MacAddress};
use twinpath_core::{Frame, Instant, Pools, Ticket};
use twinpath_remote::server::{Config as ServerConfig, MemoryServer};
use twinpath_remote::simulated::{Link, Random};
use twinpath_remote::{
    Handle, Output, PayloadMemory, Refusal, Requester, Returned, requester, responder,
};

pub const SWITCH_MAC: MacAddress = MacAddress([2, 0, 0, 0, 0, 1]);
pub const SERVER_MAC: MacAddress = MacAddress([2, 0, 0, 0, 0, 2]);
const SERVER: u16 = 3;
const RUN: Duration = Duration::from_millis(30);
const READ_TIMEOUT: Duration = Duration::from_millis(5);
const TIMEOUT: Duration = Duration::from_micros(300);
/// As often as a driver that has nothing else to do looks at its deadlines.
const TICK: Duration = Duration::from_micros(50);
const SERVER_MEMORY: usize = 64 << 10;

/// What a payload is: its number says all of it.
fn content(number: u64, bytes: usize) -> Vec<u8> {
    let mut random = Random::new(number);
    (0..bytes).map(|_| random.next() as u8).collect()
}

/// A header at its function.
struct Header {
    handle: Handle,
    number: u64,
    due: Instant,
}

/// A header whose payload was asked for.
struct Waiting {
    number: u64,
    bytes: usize,
    asked: Instant,
    /// Which life of which queue pair's READs it is in the order of.
    queue_pair: u16,
    order: u64,
}

pub struct World {
    random: Random,
    faults: Faults,
    now: Instant,
    end: Instant,
    requester: Requester,
    requester_pools: Pools,
    server: Option<MemoryServer>,
    server_pools: Pools,
    /// When the server's process changes its state: dies, or comes back.
    server_changes: Instant,
    /// When the switch dies, and is there again at once.
    switch_changes: Instant,
    server_sends: Instant,
    memory_changes: Instant,
    is_failing: bool,
    /// To the server, and back.
    links: [Link; 2],
    next_packet: Instant,
    next_forgery: Instant,
    next_number: u64,
    headers: Vec<Header>,
    waiting: HashMap<Ticket, Waiting>,
    next_slot: u32,
    asked: u64,
    /// The last payload that came by each queue pair, by the order in which they were asked for.
    last_order: BTreeMap<u16, u64>,
    tally: Tally,
    seed: u64,
    is_v4: bool,
}

/// How often a switch dies that may.
const SWITCH_LIFE: Duration = Duration::from_millis(12);

impl World {
    /// A world in which the switch may die, too: it starts again under the same seed, and knows nothing.
    pub fn with_dying_switch(seed: u64, faults: Faults) -> Self {
        let mut world = Self::new(seed, faults);
        world.switch_changes = world.soon(SWITCH_LIFE);
        world
    }

    pub fn new(seed: u64, faults: Faults) -> Self {
        let mut random = Random::new(seed);
        let is_v4 = !seed.is_multiple_of(3);
        let [switch, _] = addresses(is_v4);
        let config = requester::Config {
            queue_pairs: 1 + random.below(4) as u16,
            mtu: 1024,
            window: if random.happens(500) { 256 } else { 12 },
            waiting: if random.happens(500) { 64 } else { 3 },
            records: 64,
            ack_every: 1 + random.below(8) as u32,
            timeout: TIMEOUT,
            read_timeout: READ_TIMEOUT,
            ..requester::Config::new(SERVER, SWITCH_MAC, switch, seed ^ 77)
        };
        let buffers = if faults.has_few_buffers { 24 } else { 4096 };
        let now = Instant(1_000_000_000);
        let mut world = Self {
            faults,
            now,
            end: now + RUN,
            requester: Requester::new(config),
            requester_pools: Pools::new(buffers, 1),
            server: None,
            server_pools: Pools::new(buffers, 1),
            server_changes: now,
            switch_changes: Instant::NEVER,
            server_sends: now,
            memory_changes: now + Duration::from_micros(random.below(20_000)),
            is_failing: false,
            links: [Link::new(random.next()), Link::new(random.next())],
            next_packet: now,
            next_forgery: now,
            next_number: 1,
            headers: Vec::new(),
            waiting: HashMap::new(),
            next_slot: 0,
            asked: 0,
            last_order: BTreeMap::new(),
            tally: Tally::default(),
            seed,
            is_v4,
            random,
        };
        world.change_server();
        world
    }

    fn soon(&mut self, most: Duration) -> Instant {
        let nanoseconds = self.random.below(most.as_nanos() as u64);
        self.now + Duration::from_nanos(nanoseconds)
    }

    pub fn run(&mut self) {
        while self.now < self.end {
            self.step();
        }
    }

    /// The link is a good one from now on, and the server stays: all that was asked for comes to its
    /// end, and payloads go and come again.
    pub fn heal(&mut self) {
        self.faults = Faults::NONE;
        self.switch_changes = Instant::NEVER;
        self.is_failing = false;
        if self.server.is_none() {
            self.change_server();
        }
        if let Some(server) = &mut self.server {
            server.endpoint_mut().set_failing(false);
        }
        self.next_packet = Instant::NEVER;
        self.discard_headers();
        let end = self.now + READ_TIMEOUT + Duration::from_millis(1);
        while self.now < end {
            self.step();
        }
        assert!(self.waiting.is_empty(), "seed {}: no end", self.seed);
        let end = self.now + Duration::from_secs(3);
        let pairs = self.requester.queue_pairs();
        while !(0..pairs).all(|pair| self.requester.is_ready(pair)) {
            assert!(
                self.now < end,
                "seed {}: a queue pair stays down",
                self.seed
            );
            self.step();
        }
        for pair in 0..pairs {
            // That the server has refused something is noticed by the next payload.
            let is_well = (0..20).any(|_| self.goes_and_comes(pair));
            let (seed, counters) = (self.seed, self.requester.counters());
            assert!(
                is_well,
                "seed {seed}: queue pair {pair} is not well: {counters:?}"
            );
        }
        assert!(self.waiting.is_empty() && self.headers.is_empty());
    }

    fn goes_and_comes(&mut self, pair: u16) -> bool {
        let before = self.tally.of("payloads_seen");
        self.write(pair, Duration::from_nanos(1));
        let end = self.now + READ_TIMEOUT + 2 * TICK;
        while self.now < end {
            self.step();
        }
        self.tally.of("payloads_seen") > before
    }

    fn discard_headers(&mut self) {
        for header in std::mem::take(&mut self.headers) {
            self.requester.discard(&header.handle);
        }
    }

    /// The next thing that happens.
    fn step(&mut self) {
        let next_header = self.headers.iter().map(|header| header.due).min();
        let times = [
            self.links[0].next(),
            self.links[1].next(),
            self.next_packet,
            self.server_sends,
            self.server_changes,
            self.switch_changes,
            self.memory_changes,
            self.next_forgery,
            next_header.unwrap_or(Instant::NEVER),
            self.requester.deadline().max(self.now + TICK),
        ];
        let next = times.into_iter().min().expect("some time");
        self.now = self.now.max(next);
        if self.now >= self.switch_changes {
            self.restart_switch();
        }
        self.arrivals();
        if self.now >= self.next_packet {
            let pairs = u64::from(self.requester.queue_pairs());
            let pair = self.random.below(pairs) as u16;
            // Functions take their time, some of them long.
            let most = match self.random.happens(50) {
                true => Duration::from_millis(8),
                false => Duration::from_micros(80),
            };
            self.write(pair, most);
            self.next_packet = self.soon(Duration::from_micros(60));
        }
        self.returning_headers();
        self.server_acts();
        self.forge();
        let mut output = Output::default();
        self.requester
            .poll(self.now, &mut self.requester_pools, &mut output);
        self.take(output);
    }

    /// What was under way is lost with the switch; what is on the links, and at the server, stays.
    fn restart_switch(&mut self) {
        self.tally.add_requester(&self.requester);
        self.tally.count("switch_restarts");
        let life = self.random.next();
        self.requester = Requester::new(requester::Config {
            life,
            ..*self.requester.config()
        });
        self.headers.clear();
        self.waiting.clear();
        self.last_order.clear();
        self.switch_changes = self.soon(SWITCH_LIFE);
    }

    fn arrivals(&mut self) {
        while let Some(bytes) = self.links[0].arrived(self.now) {
            if let Some(server) = &mut self.server {
                server.receive(&bytes, self.now);
                let when = self.soon(Duration::from_micros(10));
                self.server_sends = self.server_sends.min(when);
            }
        }
        while let Some(bytes) = self.links[1].arrived(self.now) {
            let Some(frame) = self.requester_pools.take_filled(&bytes) else {
                continue;
            };
            let mut output = Output::default();
            let (now, pools) = (self.now, &mut self.requester_pools);
            let other = self.requester.receive(frame, now, pools, &mut output);
            other.into_iter().for_each(|frame| pools.give(frame));
            self.take(output);
        }
    }

    /// A packet is split: its payload is written, its header goes to its function.
    fn write(&mut self, pair: u16, most: Duration) {
        let bytes = match self.random.below(4) {
            0 => self.random.below(8) as usize,
            _ => self.random.below(1100) as usize,
        };
        let number = self.next_number;
        self.next_number += 1;
        let Some(payload) = self.requester_pools.take_filled(&content(number, bytes)) else {
            return;
        };
        let mut output = Output::default();
        let written = self.requester.write(pair, payload, self.now, &mut output);
        match written {
            Ok(handle) => {
                let due = self.soon(most);
                self.headers.push(Header {
                    handle,
                    number,
                    due,
                });
            }
            Err((payload, _)) => {
                assert_eq!(
                    payload.bytes(),
                    content(number, bytes),
                    "it comes back as it was"
                );
                self.requester_pools.give(payload);
            }
        }
        self.take(output);
    }

    fn returning_headers(&mut self) {
        let mut due = Vec::new();
        let now = self.now;
        let mut at = 0;
        while at < self.headers.len() {
            match self.headers[at].due <= now {
                true => due.push(self.headers.swap_remove(at)),
                false => at += 1,
            }
        }
        due.sort_by_key(|header| header.due);
        for header in due {
            self.returned(header);
        }
    }

    fn returned(&mut self, header: Header) {
        let is_quiet = self.next_packet == Instant::NEVER;
        match self.random.below(100) {
            0..10 if !is_quiet => {
                self.tally.count("discarded_headers");
                self.requester.discard(&header.handle);
            }
            10..15 if !is_quiet => self.tally.count("forgotten"),
            _ => self.ask(header),
        }
    }

    fn ask(&mut self, header: Header) {
        let mut handle = header.handle;
        if self.random.happens(200) {
            // The function chooses another queue pair.
            let pairs = u64::from(self.requester.queue_pairs());
            handle.queue_pair = self.random.below(pairs) as u16;
            if handle.queue_pair != header.handle.queue_pair {
                self.tally.count("written_by_another_queue_pair");
            }
        }
        let slot = Ticket {
            slot: self.next_slot,
            generation: 1,
        };
        self.next_slot += 1;
        self.forged_handles(&handle, slot);
        let waiting = Waiting {
            number: header.number,
            bytes: handle.bytes.into(),
            asked: self.now,
            queue_pair: handle.queue_pair,
            order: self.asked,
        };
        self.asked += 1;
        self.waiting.insert(slot, waiting);
        let mut output = Output::default();
        let (now, pools) = (self.now, &mut self.requester_pools);
        let asked = self.requester.read(&handle, slot, now, pools, &mut output);
        if asked.is_err() {
            self.waiting.remove(&slot);
        }
        self.take(output);
    }

    /// A handle that was changed is none.
    fn forged_handles(&mut self, handle: &Handle, slot: Ticket) {
        let mut forged = *handle;
        match self.random.below(5) {
            0 => forged.address ^= 64 << self.random.below(12),
            1 => forged.bytes ^= 1 << self.random.below(10),
            2 => forged.server ^= 1,
            3 => {
                let number = forged.sequence.number() ^ 1 << self.random.below(30);
                forged.sequence = twinpath_remote::Sequence::new(number);
            }
            _ => return,
        }
        let mut output = Output::default();
        let (now, pools) = (self.now, &mut self.requester_pools);
        let refused = self.requester.read(&forged, slot, now, pools, &mut output);
        // One that happens to be that of another payload would be read under this one's name.
        assert_eq!(refused, Err(Refusal::Unknown), "seed {}", self.seed);
        assert!(output.frames.is_empty() && output.payloads.is_empty());
    }

    fn take(&mut self, output: Output) {
        for frame in output.frames {
            self.links[0].send(frame.bytes(), self.now, &self.faults, &mut self.tally);
            self.requester_pools.give(frame);
        }
        for returned in output.payloads {
            self.ended(returned);
        }
    }

    fn ended(&mut self, returned: Returned) {
        let seed = self.seed;
        let waiting = self.waiting.remove(&returned.header);
        let waiting = waiting.unwrap_or_else(|| panic!("seed {seed}: it ends twice"));
        let took = self.now.since(waiting.asked);
        assert!(took <= READ_TIMEOUT + 2 * TICK, "seed {seed}: {took:?}");
        let frame: Frame = match returned.payload {
            Ok(frame) => frame,
            Err(_) => return,
        };
        let expected = content(waiting.number, waiting.bytes);
        assert!(frame.bytes() == expected, "seed {seed}: a wrong payload");
        let last = self.last_order.entry(waiting.queue_pair).or_default();
        assert!(*last <= waiting.order, "seed {seed}: out of order");
        *last = waiting.order;
        self.tally.count("payloads_seen");
        self.requester_pools.give(frame);
    }

    // The server.

    fn server_acts(&mut self) {
        if self.now >= self.server_changes {
            self.change_server();
        }
        if self.now >= self.memory_changes {
            self.memory_changes = self.soon(Duration::from_millis(20));
            self.is_failing = !self.is_failing && self.random.happens(self.faults.failing);
            self.tally.add_to("failures", u64::from(self.is_failing));
            if let Some(server) = &mut self.server {
                server.endpoint_mut().set_failing(self.is_failing);
            }
        }
        let is_due = self.now >= self.server_sends;
        let Some(server) = self.server.as_mut().filter(|_| is_due) else {
            self.server_sends = if is_due {
                Instant::NEVER
            } else {
                self.server_sends
            };
            return;
        };
        let mut frames = Vec::new();
        let most = 1 + self.random.below(16) as usize;
        server.transmit(self.now, &mut self.server_pools, &mut frames, most);
        self.server_sends = server.deadline().max(self.now + Duration::from_micros(2));
        for frame in frames {
            self.links[1].send(frame.bytes(), self.now, &self.faults, &mut self.tally);
            self.server_pools.give(frame);
        }
    }

    fn change_server(&mut self) {
        let crashes = self.faults.crashes;
        match self.server.take() {
            Some(server) => {
                self.tally.add_server(&server);
                self.tally.count("crashes");
                self.server_changes = self.soon(Duration::from_millis(5));
            }
            None => {
                let config = self.server_config();
                let mut server = MemoryServer::new(config, self.now);
                server.endpoint_mut().set_failing(self.is_failing);
                self.server = Some(server);
                self.server_sends = self.now;
                self.server_changes = match self.random.happens(crashes) {
                    true => self.soon(RUN),
                    false => Instant::NEVER,
                };
            }
        }
    }

    fn server_config(&mut self) -> ServerConfig {
        let [_, ip] = addresses(self.is_v4);
        ServerConfig {
            server: SERVER,
            memory_bytes: SERVER_MEMORY,
            responder: responder::Config {
                mac: SERVER_MAC,
                ip,
                mtu: 1024,
                queue_pairs: 4,
                reads: 4,
                message_bytes: 1 << 16,
            },
            seed: self.random.next(),
        }
    }

    // Somebody on the link.

    fn forge(&mut self) {
        if self.now < self.next_forgery {
            return;
        }
        self.next_forgery = self.soon(Duration::from_millis(2));
        if self.random.happens(self.faults.forged) {
            let [to_server, to_switch] = &mut self.links;
            match self.random.below(3) {
                0 => to_server.forge_request(self.now, &mut self.random, &mut self.tally),
                1 => to_switch.forge_answer(self.now, &mut self.random, &mut self.tally),
                _ => to_switch.move_response(self.now, &mut self.random, &mut self.tally),
            }
        }
    }

    pub fn tally(mut self) -> Tally {
        if let Some(server) = self.server.take() {
            self.tally.add_server(&server);
        }
        self.tally.add_requester(&self.requester);
        self.tally
    }
}

fn addresses(is_v4: bool) -> [Address; 2] {
    [1, 2].map(|last| match is_v4 {
        true => Address::from_v4([10, 9, 0, last]),
        false => Address(0xfd09 << 112 | u128::from(last)),
    })
}
