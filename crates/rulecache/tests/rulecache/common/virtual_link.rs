//! A fast path and workers with a link between them that delays packets and loses messages, all
//! under virtual time.
//!
//! What each function does is logged in the order in which it happens; a packet that meets a rule
//! is handled by all of them at once. The oracle, the functions alone, is given the same packets
//! and changes in the order of that log, each function for itself as a server in a row, and must do
//! the same to each packet. Entries that are forgotten are in the log too: a packet that was held
//! may be decided after an entry has ended that had not when it arrived.

use super::functions::sides;
use super::observed::Outcome;
use super::observed::{Did, Done, Observed};
use super::oracle::Oracle;
use super::traffic::{Spec, flow_of, packet};
use std::collections::{HashMap, VecDeque};
use std::time::Duration;
use twinpath_core::wire::{Endpoint, fields};
use twinpath_core::{Decision, Direction, Frame, Instant, Packet, Pools, Share};
use twinpath_rulecache::{
    Affected, CacheMessage, Effect, EntryId, Held, ManagerConfig, MatchKey, Output, RuleChain,
    RuleFunction, RuleTable, SelectionConfig, SlowRules, SlowRulesConfig, TableConfig,
};

/// Changes of table entries in mid-traffic.
pub type ChainEdit = fn(&mut RuleChain);

pub struct Scenario {
    pub functions: fn(&[u8]) -> Vec<Box<dyn RuleFunction>>,
    pub chain: Vec<u8>,
    pub specs: Vec<Spec>,
    /// After so many packets, entries and what happens to them.
    pub changes: Vec<(usize, u8, Affected, ChainEdit)>,
    pub rules: usize,
    pub held: usize,
    pub masks: usize,
    pub loss_percent: u64,
    pub delay_ns: u64,
    pub seed: u64,
}

#[derive(Debug)]
enum Event {
    /// A function did something.
    Did(Did),
    /// A packet met a rule.
    Met(u64, Outcome),
    /// A packet came out of the slow path.
    Decided(u64, Outcome),
    Changed(usize),
}

enum Item {
    Punted(Packet),
    Returned(u64),
    Message(CacheMessage),
}

/// One direction of the link: in order, with delays; it loses messages but no packets.
#[derive(Default)]
struct Link(VecDeque<(Instant, Item)>);

impl Link {
    fn due(&mut self, now: Instant) -> Option<Item> {
        let is_due = self.0.front().is_some_and(|(at, _)| *at <= now);
        let item = if is_due { self.0.pop_front() } else { None };
        item.map(|(_, item)| item)
    }
}

struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        (self.0 >> 33) % limit.max(1)
    }
}

pub struct Report {
    pub hits: u64,
    pub activated: u64,
    pub held: u64,
    pub demoted: u64,
    pub hold_full: u64,
    pub waited: u64,
    pub idle: u64,
    pub aged: u64,
    pub replaced: u64,
}

pub struct World {
    scenario: Scenario,
    pools: Pools,
    table: RuleTable,
    slow: SlowRules,
    up: Link,
    down: Link,
    now: Instant,
    dice: Dice,
    log: Vec<Event>,
    replies: usize,
    departed: Vec<u64>,
    flows: HashMap<u64, Option<(Endpoint, Endpoint, u8)>>,
    changing: VecDeque<usize>,
    is_changing: bool,
    done: Done,
}

fn slow(scenario: &Scenario, caching: bool, functions: Vec<Box<dyn RuleFunction>>) -> SlowRules {
    let config = SlowRulesConfig {
        caching,
        waiting: 10_000,
        selection: SelectionConfig {
            window: Duration::from_millis(2),
            threshold: 0,
            entries: 1024,
            judged: 64,
            seed: 1,
        },
        manager: ManagerConfig {
            exact: scenario.rules,
            masked: scenario.rules,
            masks: scenario.masks,
            retry: Duration::from_millis(3),
            window: Duration::from_millis(20),
            idle_windows: 2,
            successors: 4,
        },
    };
    SlowRules::new(config, sides(), functions)
}

impl World {
    pub fn new(scenario: Scenario) -> Self {
        let table = RuleTable::new(TableConfig {
            exact: scenario.rules,
            masked: scenario.rules,
            masks: scenario.masks,
            held: scenario.held,
            promoted_together: 8,
            mark_timeout: Duration::from_millis(2),
            report_interval: Duration::from_millis(7),
            identifications: Share::FAST_PATH,
            seed: 9,
        });
        let done = Done::default();
        let functions = Observed::all((scenario.functions)(&scenario.chain), &done);
        Self {
            slow: slow(&scenario, true, functions),
            done,
            table,
            pools: Pools::new(20_000, 1),
            up: Link::default(),
            down: Link::default(),
            now: Instant::ZERO,
            dice: Dice(scenario.seed),
            log: Vec::new(),
            replies: 0,
            departed: Vec::new(),
            flows: HashMap::new(),
            changing: VecDeque::new(),
            is_changing: false,
            scenario,
        }
    }

    /// Runs everything and compares with the oracle.
    pub fn run(mut self) -> Report {
        let specs = std::mem::take(&mut self.scenario.specs);
        for (ordinal, spec) in specs.iter().enumerate() {
            self.pass_time(spec.gap_ns);
            self.ask_for_changes(ordinal);
            let packet = packet(&mut self.pools, spec, ordinal as u64, self.now);
            let flow = key_of(&packet).map(|_| flow_of(&packet));
            self.flows.insert(ordinal as u64, flow);
            self.arrive(packet);
            self.fast_tick();
        }
        self.settle();
        self.compare(&specs);
        self.check_order();
        self.report()
    }

    fn pass_time(&mut self, gap_ns: u64) {
        let until = Instant(self.now.0 + gap_ns);
        while self.now < until {
            let next = [self.up.0.front(), self.down.0.front()]
                .into_iter()
                .flatten()
                .map(|(at, _)| *at)
                .chain([until, Instant(self.now.0 + 2_000_000)])
                .min();
            self.now = next.expect("not empty").max(self.now);
            self.deliver();
        }
    }

    fn deliver(&mut self) {
        while let Some(item) = self.up.due(self.now) {
            self.at_worker(item);
        }
        let mut out = Vec::new();
        let waiting = self.slow.oldest_waiting();
        let oldest = waiting.map_or(Instant::NEVER, |(_, at)| at);
        self.slow.tell_time(self.slow.clock().min(oldest));
        self.slow.tick(self.now, &mut self.pools, &mut out);
        self.outputs(out);
        while let Some(item) = self.down.due(self.now) {
            self.at_fast_path(item);
        }
        self.fast_tick();
    }

    fn at_worker(&mut self, item: Item) {
        let mut out = Vec::new();
        match item {
            Item::Punted(packet) => self.slow.packet(packet, &mut self.pools, &mut out),
            Item::Message(message) => {
                self.slow
                    .message(&message, self.now, &mut self.pools, &mut out);
            }
            Item::Returned(_) => unreachable!("goes the other way"),
        }
        self.outputs(out);
        self.change_if_possible();
    }

    fn ask_for_changes(&mut self, ordinal: usize) {
        let changes = self.scenario.changes.iter().enumerate();
        let due = changes.filter(|(_, change)| change.0 == ordinal);
        self.changing.extend(due.map(|(number, _)| number));
        self.change_if_possible();
    }

    fn change_if_possible(&mut self) {
        while let Some(&number) = self.changing.front() {
            if !self.is_changing {
                let mut out = Vec::new();
                let (_, place, affected, _) = &self.scenario.changes[number];
                let affected = affected.clone();
                self.slow.take_out(*place, affected, self.now, &mut out);
                self.is_changing = true;
                self.outputs(out);
            }
            if !self.slow.may_change() {
                return;
            }
            (self.scenario.changes[number].3)(self.slow.chain());
            self.observe_changed(number);
            self.slow.end_changes();
            self.note_done();
            self.log.push(Event::Changed(number));
            self.is_changing = false;
            self.changing.pop_front();
        }
    }

    /// Functions that a change has put in the place of others are observed too.
    fn observe_changed(&mut self, number: usize) {
        let changed = self.scenario.changes[number].1;
        for (place, function) in self.slow.chain().functions_mut() {
            if changed == place {
                let new =
                    std::mem::replace(function, Box::new(super::functions::Monitor::default()));
                *function = Observed::one(place, new, &self.done);
            }
        }
    }

    fn note_done(&mut self) {
        let done = std::mem::take(&mut *self.done.lock().expect("one thread"));
        self.log.extend(done.into_iter().map(Event::Did));
    }

    fn outputs(&mut self, out: Vec<Output>) {
        self.note_done();
        for output in out {
            let item = match output {
                Output::Depart(packet, egress) => {
                    let ordinal = packet.frame.ordinal();
                    let left = left(&packet.frame, egress);
                    self.log.push(Event::Decided(ordinal, left));
                    self.pools.give(packet.frame);
                    Item::Returned(ordinal)
                }
                Output::Drop(packet, reason) => {
                    let ordinal = packet.frame.ordinal();
                    self.log
                        .push(Event::Decided(ordinal, Outcome::Dropped(reason)));
                    self.pools.give(packet.frame);
                    continue;
                }
                Output::Reply(frame) => {
                    self.replies += 1;
                    self.pools.give(frame);
                    continue;
                }
                Output::Send(message) => Item::Message(message),
            };
            Self::send(
                &mut self.down,
                &mut self.dice,
                &self.scenario,
                self.now,
                item,
            );
        }
    }

    fn send(link: &mut Link, dice: &mut Dice, scenario: &Scenario, now: Instant, item: Item) {
        let is_lost = dice.below(100) < scenario.loss_percent;
        if let Item::Message(message) = &item {
            // What travels is what can be read back.
            let mut body = [0; twinpath_rulecache::message::MAX_MESSAGE_BYTES];
            let bytes = message.write(&mut body).expect("room");
            let read = CacheMessage::read(&mut &body[..bytes]);
            assert_eq!(read.as_ref(), Ok(message));
            if is_lost {
                return;
            }
        }
        let at = Instant(now.0 + 1000 + dice.below(scenario.delay_ns));
        let last = link.0.back().map_or(Instant::ZERO, |(at, _)| *at);
        link.0.push_back((at.max(last), item));
    }

    fn arrive(&mut self, mut packet: Packet) {
        let layout = packet.layout;
        let Some(key) = key_of(&packet) else {
            return self.punt(packet);
        };
        let found = self.table.find(&key);
        let (now, bytes) = (self.now, packet.frame.bytes_mut());
        let decision = self.table.packet(&key, found, bytes, &layout, now);
        self.decided(packet, key, decision);
    }

    fn decided(&mut self, packet: Packet, key: MatchKey, decision: Decision) {
        match decision {
            Decision::Forward { egress } => {
                let ordinal = packet.frame.ordinal();
                let left = left(&packet.frame, egress);
                self.log.push(Event::Met(ordinal, left));
                self.departed.push(ordinal);
                self.pools.give(packet.frame);
            }
            Decision::Drop(reason) => {
                let ordinal = packet.frame.ordinal();
                self.log.push(Event::Met(ordinal, Outcome::Dropped(reason)));
                self.pools.give(packet.frame);
            }
            Decision::Reply => unreachable!("rules do not answer"),
            Decision::Punt => self.punt(packet),
            Decision::Hold => {
                let mut effects = Vec::new();
                let held = Held {
                    layout: packet.layout,
                    frame: packet.frame,
                    key,
                };
                self.table.hold(held, &mut effects);
                self.take_effects(effects);
            }
        }
    }

    fn punt(&mut self, packet: Packet) {
        let item = Item::Punted(packet);
        Self::send(&mut self.up, &mut self.dice, &self.scenario, self.now, item);
    }

    fn at_fast_path(&mut self, item: Item) {
        match item {
            Item::Returned(ordinal) => self.departed.push(ordinal),
            Item::Message(message) => {
                let mut effects = Vec::new();
                self.table.message(&message, &mut effects);
                self.take_effects(effects);
            }
            Item::Punted(_) => unreachable!("goes the other way"),
        }
    }

    fn fast_tick(&mut self) {
        let mut effects = Vec::new();
        self.table.tick(self.now, self.now, &mut effects);
        self.take_effects(effects);
    }

    fn take_effects(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Send(message) => {
                    let item = Item::Message(message);
                    Self::send(&mut self.up, &mut self.dice, &self.scenario, self.now, item);
                }
                Effect::Release(held, decision) => {
                    assert_ne!(decision, Decision::Hold);
                    let packet = Packet {
                        frame: held.frame,
                        layout: held.layout,
                        direction: Default::default(),
                        role: Default::default(),
                        alias_row: 0,
                    };
                    self.decided(packet, held.key, decision);
                }
            }
        }
    }

    /// Lets everything come to rest, then takes out all rules, so that every use is credited.
    fn settle(&mut self) {
        self.scenario.loss_percent = 0;
        self.pass_time(300_000_000);
        assert!(self.changing.is_empty(), "every change gets its turn");
        assert_eq!(self.table.held(), 0, "nobody is held for ever");
        assert!(!self.slow.is_waiting(), "nobody waits for ever");
        let mut out = Vec::new();
        let all = Affected::Everything;
        self.slow.take_out(0, all, self.now, &mut out);
        self.outputs(out);
        self.pass_time(300_000_000);
        assert_eq!(self.slow.manager().rules(), 0);
        assert_eq!(self.table.active(), 0);
    }

    /// The oracle decides in the order of the log.
    fn compare(&mut self, specs: &[Spec]) {
        self.note_done();
        let mut at = 0;
        let packets = specs.iter().enumerate().map(|(ordinal, spec)| {
            at += spec.gap_ns;
            packet(&mut self.pools, spec, ordinal as u64, Instant(at))
        });
        let functions = (self.scenario.functions)(&self.scenario.chain);
        let mut oracle = Oracle::new(functions, packets.collect());
        let mut decided = 0;
        for event in std::mem::take(&mut self.log) {
            match event {
                Event::Changed(number) => (self.scenario.changes[number].3)(oracle.chain()),
                Event::Did(Did::Forgot(EntryId { function, entry }, at)) => {
                    let function = oracle.chain().function(function);
                    function.expect("in the chain").forget(entry, at);
                }
                Event::Did(Did::Handled(ordinal, place)) => oracle.handle(ordinal, place),
                Event::Met(ordinal, outcome) => {
                    decided += 1;
                    oracle.handle_by_all(ordinal);
                    let expected = oracle.outcome(ordinal);
                    let spec = &specs[ordinal as usize];
                    assert_eq!(Some(outcome), expected, "packet {ordinal}: {spec:?}");
                }
                Event::Decided(ordinal, outcome) => {
                    decided += 1;
                    let expected = oracle.outcome(ordinal);
                    let spec = &specs[ordinal as usize];
                    assert_eq!(Some(outcome), expected, "packet {ordinal}: {spec:?}");
                }
            }
        }
        assert_eq!(decided, specs.len(), "no packet is lost or doubled");
        assert_eq!(oracle.replies(), self.replies);
        let counts = |chain: &mut RuleChain| {
            let mut counts = Vec::new();
            for (_, function) in chain.functions_mut() {
                function.counters(&mut |_, value| counts.push(value));
            }
            counts
        };
        assert_eq!(counts(self.slow.chain()), counts(oracle.chain()));
    }

    fn check_order(&self) {
        let mut last = HashMap::new();
        for &ordinal in &self.departed {
            if let Some(flow) = self.flows[&ordinal] {
                let before = last.insert(flow, ordinal);
                let in_order = before.is_none_or(|before| before < ordinal);
                assert!(in_order, "{ordinal} after {before:?} of {flow:?}");
            }
        }
    }

    fn report(&self) -> Report {
        let (table, manager) = (self.table.counters(), self.slow.manager().counters());
        Report {
            hits: table.hits,
            activated: table.activated,
            held: table.held,
            demoted: table.demoted,
            hold_full: table.hold_full,
            idle: table.idle,
            waited: self.slow.counters().waited,
            aged: manager.aged,
            replaced: manager.replaced,
        }
    }
}

/// What a packet shows to the rules, or a first fragment of its flow.
fn key_of(packet: &Packet) -> Option<MatchKey> {
    let (bytes, layout, ingress) = (packet.bytes(), &packet.layout, packet.frame.port());
    let ports = [
        fields::source_port(bytes, layout),
        fields::destination_port(bytes, layout),
    ];
    let datagram = (ports, layout.protocol);
    MatchKey::of(bytes, layout, ingress, Direction::Original)
        .or_else(|| MatchKey::of_fragment(bytes, layout, datagram, ingress, Direction::Original))
}

fn left(frame: &Frame, egress: Option<u16>) -> Outcome {
    let bytes = frame.bytes().to_vec();
    Outcome::Left { bytes, egress }
}
