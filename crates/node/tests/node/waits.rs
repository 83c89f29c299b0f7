//! No packet waits for another connection. One worker stands still, or one host's packets wait for
//! rules; those of all others leave within a few exchanges with the workers, whatever they are:
//! hits, packets of flows that become known, or newcomers.

use crate::common::service;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;
use twinpath_coherence::Clock;
use twinpath_control::service::Paths;
use twinpath_core::wire::icmp::IcmpError;
use twinpath_core::wire::tcp::flags;
use twinpath_core::wire::{Endpoint, PacketBuilder, dissect, fields};
use twinpath_core::{DropReason, Frame, Instant, Pools};
use twinpath_link::{Header, carries_packet};
use twinpath_node::machine::Time;
use twinpath_node::{Limits, Node, Output, Via, build};
use twinpath_rulecache::message::messages;
use twinpath_rulecache::{CacheMessage, RuleName};

const TABLES: &str = r#"
[fast_path]
hot_packets = 2
[rule_cache]
window = "500us"
threshold = 2
idle_windows = 255
[acl]
default = "allow"
rules = [{ action = "deny", protocol = "tcp", to_port = 25 }]
[monitor]
by = "connection"
[firewall]
default = "allow"
[inspector]
depth = 64
gaps = "inspect"
[napt]
inside = ["10.0.0.0/8"]
external = ["198.51.100.1"]
[router]
next_hops = [{ name = "up", mac = "02:00:00:00:01:01", source_mac = "02:00:00:00:00:01", port = 0 }]
routes = [{ to = "0.0.0.0/0", via = "up" }]
[load_balancer]
services = [{ vip = "192.0.2.1:53", protocol = "udp", backends = [{ endpoint = "192.0.2.11:53" }, { endpoint = "192.0.2.12:53" }] }]
"#;

/// Connections that send a packet each round.
const REGULARS: u32 = 30;
/// Connections that begin while another waits, and go on.
const LATE: std::ops::Range<u32> = 500..510;
/// The one whose packets wait, and how many it sends each round.
const WAITING: u32 = 1000;
/// The one over TCP.
const TCP: u32 = 1001;
const OF_WAITING: usize = 3;
/// Connections of one packet, in each round, are numbered from here.
const NEWCOMERS: u32 = 2000;
const NEWCOMERS_A_ROUND: u32 = 3;

/// Exchanges with the workers in a round; so many for each element a packet may need.
const EXCHANGES: usize = 2;
/// Elements of the longest chain.
const MOST_ELEMENTS: usize = 4;
/// Payloads are long enough to be parked or split off.
const PAYLOAD_BYTES: usize = 200;
const MOST_FOR_EACH: u64 = 3;

/// What does not go on.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum Stalled {
    Nothing,
    Worker(usize),
    /// The marks behind which one connection's rules become active.
    Marks,
    /// What it tells of how rules were used, and that they are gone: who waits for that waits on.
    Uses,
}

/// A packet that is inside.
#[derive(Copy, Clone, Debug)]
struct Inside {
    connection: u32,
    since: u64,
}

/// A machine and its workers, which exchange frames when they are told to.
struct World {
    node: Node,
    stalled: Stalled,
    to_workers: Vec<VecDeque<Frame>>,
    out: Output,
    now: Instant,
    told: Time,
    /// Exchanges so far.
    step: u64,
    taken: u64,
    inside: BTreeMap<u64, Inside>,
    newcomers: u32,
    /// Connections that have a packet at the worker that stands still.
    behind: BTreeSet<u32>,
    /// The longest that a packet was inside, in exchanges, of each connection.
    longest: BTreeMap<u32, u64>,
    /// Packets that left by each path since something stalled.
    left: [u64; 2],
    /// The last packet that left, of each connection.
    last: BTreeMap<u32, Vec<u8>>,
    /// The last segment that a client sent, as it left.
    sent: Vec<u8>,
    /// Rules whose marks are lost, by element, and whether there are more to come.
    lost: BTreeSet<(u8, RuleName)>,
    more_are_lost: bool,
}

impl World {
    fn new(chain: &[&str], workers: usize) -> Self {
        Self::with(chain, workers, "")
    }

    /// The same with more tables.
    fn with(chain: &[&str], workers: usize, more: &str) -> Self {
        let rules = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../examples/inspector.rules"
        );
        let tables = TABLES.replace("gaps =", &format!("rules = {rules:?}\ngaps ="));
        let inside = match workers {
            1 => "inside = [\"10.0.0.0/8\"]\n",
            _ => "",
        };
        let text = format!("[service]\nchain = {chain:?}\n{inside}{more}{tables}");
        let mut service = service(&text);
        service.slow_path.workers = workers;
        let mut node = build(&service, Paths::Both).unwrap_or_else(|error| panic!("{error}"));
        node.machine.set_limits(Limits {
            ring_frames: 1 << 16,
            is_lossless: false,
            is_replay: false,
        });
        let now = Instant(1_000_000_000);
        node.machine.start(now);
        node.workers.iter_mut().for_each(|worker| worker.start(now));
        Self {
            to_workers: node.workers.iter().map(|_| VecDeque::new()).collect(),
            node,
            stalled: Stalled::Nothing,
            out: Output::default(),
            now,
            told: Time::default(),
            step: 0,
            taken: 0,
            inside: BTreeMap::new(),
            newcomers: 0,
            behind: BTreeSet::new(),
            longest: BTreeMap::new(),
            left: [0; 2],
            last: BTreeMap::new(),
            sent: Vec::new(),
            lost: BTreeSet::new(),
            more_are_lost: true,
        }
    }

    fn stall(&mut self, stalled: Stalled) {
        (self.stalled, self.left) = (stalled, [0; 2]);
        self.longest.clear();
    }

    fn clock(&self) -> Clock {
        Clock {
            packet: self.now,
            link: self.now,
        }
    }

    /// So many packets of a connection.
    fn arrive(&mut self, connection: u32, packets: usize, burst: &mut Vec<Frame>) {
        let [_, _, high, low] = connection.to_be_bytes();
        let from = Endpoint::v4([10, 0, high, low], 1000);
        let packet = PacketBuilder::udp(from, Endpoint::v4([192, 0, 2, 1], 53));
        let bytes = packet.payload_len(PAYLOAD_BYTES).to_vec();
        let bytes = bytes.expect("short");
        (0..packets).for_each(|_| self.arrive_as(connection, &bytes, burst));
    }

    fn arrive_as(&mut self, connection: u32, bytes: &[u8], burst: &mut Vec<Frame>) {
        let mut frame = self.node.machine.pools().take_filled(bytes).expect("room");
        frame.set_timestamp(self.now);
        frame.set_received_ns(self.taken);
        let since = self.step;
        self.inside.insert(self.taken, Inside { connection, since });
        self.taken += 1;
        burst.push(frame);
    }

    /// A connection over TCP begins, and both its ends acknowledge each other's segments.
    fn talk(&mut self) {
        let (client, server) = (
            Endpoint::v4([10, 0, 9, 9], 1000),
            Endpoint::v4([192, 0, 2, 1], 80),
        );
        let (opens, answers) = (flags::SYN, flags::SYN | flags::ACK);
        for (sent, back) in [(opens, answers)]
            .into_iter()
            .chain([(flags::ACK, flags::ACK); 9])
        {
            let number = |sent: u8| u32::from(sent & flags::SYN == 0);
            let packet = PacketBuilder::tcp(client, server)
                .flags(sent)
                .seq(number(sent));
            self.segment(&packet.ack(number(sent)));
            self.sent = self.last[&TCP].clone();
            let layout = dissect(&self.sent).expect("a segment");
            let external = fields::source(&self.sent, &layout);
            let packet = PacketBuilder::tcp(server, external)
                .flags(back)
                .seq(number(back));
            self.segment(&packet.ack(1));
        }
    }

    fn segment(&mut self, packet: &PacketBuilder<'_>) {
        self.now = self.now + Duration::from_micros(100);
        let (bytes, mut burst) = (packet.to_vec().expect("short"), Vec::new());
        self.arrive_as(TCP, &bytes, &mut burst);
        self.enter(burst);
        (0..MOST_ELEMENTS * EXCHANGES).for_each(|_| self.exchange());
    }

    /// A router says that a segment of the connection was too long: whether it is of the connection is known
    /// when the rules of its session have told of the last one.
    fn tell_of_mtu(&mut self) {
        let error = IcmpError::PacketTooBig { mtu: 1400 };
        let about = self.sent.clone();
        let error = PacketBuilder::icmp_error(error, &about).to_vec();
        let (error, mut burst) = (error.expect("short"), Vec::new());
        self.arrive_as(WAITING, &error, &mut burst);
        self.enter(burst);
    }

    /// Packets of all, and a few exchanges.
    fn round(&mut self, of_waiting: usize, late: usize) {
        self.now = self.now + Duration::from_micros(100);
        let mut burst = Vec::new();
        (0..REGULARS).for_each(|connection| self.arrive(connection, 1, &mut burst));
        LATE.for_each(|connection| self.arrive(connection, late, &mut burst));
        self.arrive(WAITING, of_waiting, &mut burst);
        for _ in 0..NEWCOMERS_A_ROUND {
            self.arrive(NEWCOMERS + self.newcomers, 1, &mut burst);
            self.newcomers += 1;
        }
        self.enter(burst);
        (0..EXCHANGES).for_each(|_| self.exchange());
    }

    fn enter(&mut self, burst: Vec<Frame>) {
        let clock = self.clock();
        for mut burst in pieces(burst) {
            let machine = &mut self.node.machine;
            machine.receive(&mut burst, clock, &mut self.out);
        }
        self.node.machine.advance(clock, &mut self.out);
        self.take_out();
    }

    /// As many packets of a connection as there are buffers, and an exchange.
    fn flood(&mut self) {
        self.now = self.now + Duration::from_micros(100);
        let free = self.node.machine.pools().small().available();
        let mut burst = Vec::new();
        self.arrive(WAITING, free, &mut burst);
        self.enter(burst);
        self.exchange();
    }

    /// What has come to workers goes to them, and what they make of it comes back.
    fn exchange(&mut self) {
        self.step += 1;
        for worker in 0..self.to_workers.len() {
            if self.stalled != Stalled::Worker(worker) {
                let frames = std::mem::take(&mut self.to_workers[worker]);
                self.serve(worker, frames);
            }
        }
        self.told = self.node.machine.time();
        self.node.machine.advance(self.clock(), &mut self.out);
        self.take_out();
    }

    fn serve(&mut self, worker: usize, frames: VecDeque<Frame>) {
        let mut returns = Vec::new();
        let (served, pools) = (
            &mut self.node.workers[worker],
            &mut self.node.worker_pools[worker],
        );
        for mut frame in frames {
            let lost = &mut self.lost;
            match self.stalled {
                Stalled::Uses => forge(&mut frame, |message, _| match message {
                    CacheMessage::Used(rule, _) | CacheMessage::Gone(rule, ..) => {
                        rule.id = u32::MAX
                    }
                    _ => {}
                }),
                Stalled::Marks => forge(&mut frame, |message, element| {
                    let CacheMessage::Mark(mark, rule) = message else {
                        return;
                    };
                    if self.more_are_lost {
                        lost.insert((element, *rule));
                    }
                    if lost.contains(&(element, *rule)) {
                        *mark = u32::MAX;
                    }
                }),
                Stalled::Nothing | Stalled::Worker(_) => {}
            }
            served.receive(frame, pools, &mut returns);
        }
        served.advance(self.told, pools, &mut returns);
        let (progress, clock) = (served.progress(), self.clock());
        let machine = &mut self.node.machine;
        machine.returned(worker, &mut returns, clock, &mut self.out);
        machine.progress(worker, progress, &mut self.out);
    }

    fn take_out(&mut self) {
        for departure in self.out.departures.drain(..) {
            let of = self.inside.remove(&departure.frame.received_ns());
            let of = of.expect("a packet leaves once");
            let longest = self.longest.entry(of.connection).or_default();
            *longest = (self.step - of.since).max(*longest);
            self.left[usize::from(departure.via == Via::Slow)] += 1;
            let bytes = departure.frame.bytes().to_vec();
            self.last.insert(of.connection, bytes);
            self.node.machine.pools().give(departure.frame);
        }
        for (worker, frame) in self.out.frames.drain(..) {
            let of = self.inside.get(&frame.received_ns());
            if self.stalled == Stalled::Worker(worker) && carries_packet(&frame) {
                self.behind.extend(of.map(|of| of.connection));
            }
            self.to_workers[worker].push_back(frame);
        }
    }

    /// How long a packet of a connection was inside at most, or is.
    fn waited(&self, connection: u32) -> u64 {
        let of_it = |inside: &&Inside| inside.connection == connection;
        let inside = self.inside.values().filter(of_it);
        let now = inside.map(|inside| self.step - inside.since).max();
        let longest = self.longest.get(&connection).copied();
        now.max(longest).unwrap_or(0)
    }

    /// Fails if a packet of any but some connections was inside for longer than an exchange takes.
    fn assert_others_leave(&self, most: u64, waiting: &BTreeSet<u32>, what: &str) {
        let known = (0..REGULARS).chain(LATE);
        for connection in known.chain(NEWCOMERS..NEWCOMERS + self.newcomers) {
            let waited = self.waited(connection);
            let is_bounded = waited <= most;
            assert!(
                is_bounded || waiting.contains(&connection),
                "{what}: a packet of connection {connection} was inside for {waited} exchanges"
            );
        }
        assert_eq!(self.node.machine.path().drops().total(), 0, "{what}: drops");
    }
}

/// What a frame tells of rules becomes something else.
fn forge(frame: &mut Frame, mut change: impl FnMut(&mut CacheMessage, u8)) {
    if carries_packet(frame) {
        return;
    }
    let header = Header::read(frame.bytes()).expect("a frame of the link");
    let mut at = header.bytes();
    let told: Vec<CacheMessage> = messages(&frame.bytes()[at..]).flatten().collect();
    for mut message in told {
        change(&mut message, header.element);
        at += message
            .write(&mut frame.bytes_mut()[at..])
            .expect("as long");
    }
}

/// A burst in parts that a machine takes.
fn pieces(mut burst: Vec<Frame>) -> Vec<Vec<Frame>> {
    let mut pieces = Vec::new();
    while !burst.is_empty() {
        let rest = burst.split_off(burst.len().min(32));
        pieces.push(std::mem::replace(&mut burst, rest));
    }
    pieces
}

const ROUNDS: u64 = 30;

/// Chains whose flows several workers share.
const SHARED: [&[&str]; 4] = [
    &["firewall"],
    &["firewall", "reassembler"],
    &["load_balancer"],
    &["firewall", "inspector"],
];

#[test]
fn one_worker_stands_still() {
    for (chain, warm) in SHARED.iter().flat_map(|chain| [(chain, 0), (chain, 20)]) {
        for stalled in 0..3 {
            let mut world = World::new(chain, 3);
            (0..warm).for_each(|_| world.round(0, 0));
            world.stall(Stalled::Worker(stalled));
            (0..ROUNDS).for_each(|_| world.round(1, 1));
            let what = format!("{chain:?}, worker {stalled} after {warm} rounds");
            let waiting = &world.behind;
            println!("{what}: {} wait, {:?} left", waiting.len(), world.left);
            world.assert_others_leave(MOST_FOR_EACH, waiting, &what);
            let longest = waiting.iter().map(|of| world.waited(*of)).max();
            assert!(longest > Some(ROUNDS), "{what}: nothing waits");
            assert!(world.left.iter().all(|left| *left > 50), "{what}");
            let all = (REGULARS + world.newcomers) as usize;
            assert!(waiting.len() * 2 < all, "{what}: all wait");
        }
    }
}

/// Where payloads wait while workers have headers.
const ELSEWHERE: [&str; 2] = ["[parking]\n", "[split]\n"];

/// The same where headers alone are at the worker that stands still. A payload comes out of its queue as
/// time goes on, which it does once in a round.
#[test]
fn one_worker_stands_still_with_headers() {
    let chains: [&[&str]; 2] = [&["firewall"], &["load_balancer"]];
    for (chain, elsewhere) in chains
        .iter()
        .flat_map(|chain| ELSEWHERE.map(|more| (chain, more)))
    {
        let mut world = World::with(chain, 3, elsewhere);
        (0..20).for_each(|_| world.round(0, 0));
        world.stall(Stalled::Worker(1));
        (0..ROUNDS).for_each(|_| world.round(1, 1));
        let what = format!("{chain:?} {elsewhere:?}");
        let waiting = &world.behind;
        println!("{what}: {} wait, {:?} left", waiting.len(), world.left);
        let most = MOST_FOR_EACH + EXCHANGES as u64;
        world.assert_others_leave(most, waiting, &what);
        let longest = waiting.iter().map(|of| world.waited(*of)).max();
        assert!(longest > Some(ROUNDS), "{what}: nothing waits");
        assert!(world.left.iter().all(|left| *left > 50), "{what}");
        let path = world.node.machine.path();
        let parked = path.parking().map(|stage| stage.buffer().counters().parked);
        let split = path.split().map(|stage| stage.counters().packets);
        assert!(parked.or(split) > Some(100), "{what}: {parked:?} {split:?}");
    }
}

/// Chains with rules, and how many elements they are.
const CACHED: [(&[&str], u64); 5] = [
    (&["acl", "monitor"], 1),
    (&["acl", "napt", "monitor"], 1),
    (&["firewall", "napt"], 2),
    (&["acl", "firewall", "monitor"], 3),
    (&["acl", "firewall", "napt", "router"], 4),
];

/// A connection becomes known, but the marks behind which its rules are active never come: its
/// packets are held. All others go on, and those that would become known do.
#[test]
fn the_packets_of_one_connection_wait_for_a_rule() {
    for (chain, elements) in CACHED {
        let mut world = World::new(chain, 1);
        (0..40).for_each(|_| world.round(0, 0));
        world.stall(Stalled::Marks);
        (0..10).for_each(|_| world.round(OF_WAITING, 0));
        world.more_are_lost = false;
        (10..ROUNDS).for_each(|_| world.round(OF_WAITING, 1));
        let waited = world.waited(WAITING);
        println!(
            "{chain:?}: one waits for {waited} exchanges, {:?} left",
            world.left
        );
        let most = elements * MOST_FOR_EACH;
        world.assert_others_leave(most, &BTreeSet::from([WAITING]), &format!("{chain:?}"));
        assert!(
            waited > elements * MOST_FOR_EACH,
            "{chain:?}: nothing waits"
        );
        assert!(world.left.iter().all(|left| *left > 50), "{chain:?}");
    }
}

/// A packet waits at its worker for what the rules of a binding tell, which never comes. Connections that
/// become known meanwhile do not wait for it.
#[test]
fn a_packet_waits_for_the_rules_of_a_binding() {
    for (chain, elements) in CACHED
        .into_iter()
        .filter(|(chain, _)| chain.contains(&"napt"))
    {
        let mut world = World::new(chain, 1);
        (0..40).for_each(|_| world.round(0, 0));
        world.talk();
        world.stall(Stalled::Uses);
        world.tell_of_mtu();
        (0..ROUNDS).for_each(|_| world.round(0, 1));
        let what = format!("{chain:?}");
        println!("{what}: {:?} left", world.left);
        let most = elements * MOST_FOR_EACH;
        world.assert_others_leave(most, &BTreeSet::from([WAITING]), &what);
        assert!(world.waited(WAITING) > ROUNDS, "{what}: nothing waits");
        let [fast, slow] = world.left;
        let known = ROUNDS * u64::from(REGULARS);
        assert!(
            fast > known,
            "{what}: {fast} and {slow} left, none became known"
        );
    }
}

/// Packets take every buffer that is free, round after round: what waits for a rule leaves one to the
/// message without which the rule never becomes active.
#[test]
fn packets_that_wait_for_a_rule_leave_a_buffer_to_its_messages() {
    for (chain, buffers) in CACHED
        .iter()
        .flat_map(|(chain, _)| [2, 3, 5, 16, 40].map(|few| (chain, few)))
    {
        let mut world = World::new(chain, 1);
        *world.node.machine.pools() = Pools::new(buffers, 1);
        (0..2000).for_each(|_| world.flood());
        let drops = world.node.machine.path().drops();
        let (left, dropped) = (world.left, drops.of(DropReason::NoBuffer));
        let what = format!("{chain:?}, {buffers} buffers: {left:?} left, {dropped} dropped");
        println!("{what}");
        assert_eq!(drops.total(), dropped, "{what}");
        assert!(left.iter().sum::<u64>() > 100, "{what}");
    }
}
