//! The whole node allocates nothing per packet once it is warm: neither for packets that the fast
//! path settles, nor for those that go to a worker and back, nor where everything is on the slow path.
//! What is new may allocate (a flow, a cached rule), a bounded number of times. What is seldom in traffic
//! is in a file of its own.

#[path = "allocations/rare.rs"]
mod rare;

use allocation_counter::measure;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use twinpath_coherence::Clock;
use twinpath_control::service::{Paths, Service};
use twinpath_core::wire::kv::{self, KvOp, KvRepr};
use twinpath_core::wire::tcp::flags;
use twinpath_core::wire::{Endpoint, PacketBuilder};
use twinpath_core::{Frame, Instant};
use twinpath_link::Header;
use twinpath_node::mirror::Wanted;
use twinpath_node::source::{Read, Source};
use twinpath_node::{BATCH, Limits, Node, Output, Via, build};

/// Conversations, each with two packets in a round.
const FLOWS: u16 = 24;
/// Rounds until everything has its place and every list its length.
const WARM_ROUNDS: usize = 60;
const ROUNDS: usize = 100;
/// Windows of rules and intervals of reports pass while packets are counted.
const BETWEEN_ROUNDS: Duration = Duration::from_millis(1);

/// Most allocations for a conversation that is new, its two cached rules at each element included.
const MOST_PER_FLOW: u64 = 20;

/// How packets pass.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum Handling {
    /// They are settled on the fast path.
    Fast,
    /// Each goes to a worker and back, at each element.
    Punted,
    /// All elements are on the slow path.
    Slow,
}

impl Handling {
    fn paths(self) -> Paths {
        match self {
            Self::Slow => Paths::Slow,
            _ => Paths::Both,
        }
    }

    /// Settings that make packets pass so.
    fn settings(self) -> &'static str {
        match self {
            Self::Fast => {
                "[fast_path]\nslots = 1024\nhot_packets = 1\n[rule_cache]\nexact = 1024\nmasked = 64\nwindow = \"10ms\"\nthreshold = 0\n"
            }
            _ => "[fast_path]\nslots = 1024\nhot_packets = 65535\n[rule_cache]\nenabled = false\n",
        }
    }
}

const TABLES: &str = r#"
[slow_path]
flows = 4096
[acl]
default = "allow"
rules = [{ action = "deny", protocol = "tcp", to_port = 25 }]
[firewall]
default = "allow"
[napt]
inside = ["10.0.0.0/8"]
external = ["198.51.100.1"]
assignment = "preserve"
[nat64]
inside = ["fd00::/8"]
external = ["198.51.100.1"]
prefix = "2001:db8:64::/96"
assignment = "preserve"
[nptv6]
prefixes = [{ inside = "fd00:1:2::/48", external = "2001:db8:1::/48" }]
[router]
next_hops = [{ name = "up", mac = "02:00:00:00:01:01", source_mac = "02:00:00:00:00:01", port = 1 }]
routes = [{ to = "0.0.0.0/0", via = "up" }, { to = "::/0", via = "up" }]
[rate_limiter]
rate_pps = 1_000_000
[load_balancer]
table_size = 251
services = [
    { vip = "203.0.113.1:53", protocol = "udp", backends = [{ endpoint = "192.0.2.1:53" }] },
    { vip = "203.0.113.1:53", protocol = "tcp", backends = [{ endpoint = "192.0.2.1:53" }] },
    { vip = "[2001:db8:1::1]:53", protocol = "udp", backends = [{ endpoint = "[2001:db8::1]:53" }] },
    { vip = "[2001:db8:1::1]:53", protocol = "tcp", backends = [{ endpoint = "[2001:db8::1]:53" }] },
]
"#;

/// A limiter at whose rate packets come, so that each is a little too early.
const DELAYED: &str = "[delayed]\nfunction = \"rate_limiter\"\nrate_pps = 1000\nburst_packets = 1\nexcess = \"delay\"\n";

/// What packets are.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum Kind {
    /// The same questions and answers in each round.
    Datagrams,
    /// Of connections that go on, in order.
    Segments,
    /// The same, each with the gate of a signature that the workers alone look for, and find.
    Alerts,
    /// Datagrams whose payloads are parked while workers have their headers.
    Parked,
    /// The same where they wait in memory of the process.
    Split,
}

/// A node whose driver allocates nothing itself.
struct Bench {
    node: Node,
    now: Instant,
    burst: Vec<Frame>,
    out: Output,
    frames: Vec<(usize, Frame)>,
    returns: Vec<Frame>,
    left: [usize; 2],
    /// What was seldom of what left.
    seen: rare::RarePackets,
    /// Headers that were alone on the link.
    parked: usize,
}

impl Bench {
    fn new(chain: &[&str], way: Handling, kind: Kind) -> Self {
        let makes_rules =
            |name: &&str| ["acl", "napt", "nat64", "nptv6", "router", "monitor"].contains(name);
        let inside = match chain.iter().any(makes_rules) {
            true => "inside = [\"10.0.0.0/8\", \"fd00::/8\"]\n",
            false => "",
        };
        let settings = way.settings();
        let parking = match kind {
            Kind::Parked => "[parking]\n",
            Kind::Split => "[split]\n",
            _ => "",
        };
        let rules = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../examples/inspector.rules"
        );
        // Longer packets go to the slow path until so much of their flow has been inspected.
        let depth = match kind {
            Kind::Alerts => "",
            _ => "depth = 64\n",
        };
        let delayed = if chain == ["delayed"] { DELAYED } else { "" };
        let text = format!(
            "[service]\nchain = {chain:?}\n{inside}{settings}{parking}{TABLES}{delayed}[inspector]\n{depth}gaps = \"inspect\"\nrules = {rules:?}\n"
        );
        let service = Service::parse(&text, Path::new("allocations.toml"));
        let service = service.unwrap_or_else(|error| panic!("{error}"));
        Self::of(&service, way.paths())
    }

    fn of(service: &Service, paths: Paths) -> Self {
        let mut node = build(service, paths).unwrap_or_else(|error| panic!("{error}"));
        node.machine.set_limits(Limits {
            ring_frames: 1024,
            is_lossless: true,
            is_replay: false,
        });
        let now = Instant(1_000_000_000);
        node.machine.start(now);
        node.workers.iter_mut().for_each(|worker| worker.start(now));
        Self {
            node,
            now,
            burst: Vec::new(),
            out: Output::default(),
            frames: Vec::new(),
            returns: Vec::new(),
            left: [0; 2],
            seen: rare::RarePackets::default(),
            parked: 0,
        }
    }

    fn clock(&self) -> Clock {
        Clock {
            packet: self.now,
            link: self.now,
        }
    }

    fn rounds(&mut self, rounds: &[Vec<Vec<u8>>]) {
        for packets in rounds {
            self.now = self.now + BETWEEN_ROUNDS;
            packets.chunks(BATCH).for_each(|burst| self.send(burst));
        }
    }

    fn send(&mut self, packets: &[Vec<u8>]) {
        let clock = self.clock();
        for packet in packets {
            let frame = self.node.machine.pools().take_filled(packet);
            let mut frame = frame.expect("a buffer");
            frame.set_timestamp(self.now);
            self.burst.push(frame);
        }
        let machine = &mut self.node.machine;
        machine.receive(&mut self.burst, clock, &mut self.out);
        self.carry();
        self.node.machine.advance(clock, &mut self.out);
        self.carry();
        let time = self.node.machine.time();
        let pools = &mut self.node.worker_pools[0];
        self.node.workers[0].advance(time, pools, &mut self.returns);
        // Payloads leave when their place in the queue comes out.
        while self.node.machine.path().parking().is_some() && !self.node.machine.is_quiet() {
            self.now = self.now + Duration::from_micros(1);
            self.node.machine.advance(self.clock(), &mut self.out);
            self.carry();
        }
    }

    /// Everything that is under way arrives.
    fn carry(&mut self) {
        let clock = self.clock();
        loop {
            for departure in self.out.departures.drain(..) {
                self.left[usize::from(departure.via == Via::Slow)] += 1;
                self.seen.note(departure.frame.bytes());
                self.node.machine.pools().give(departure.frame);
            }
            if self.out.frames.is_empty() {
                return;
            }
            std::mem::swap(&mut self.frames, &mut self.out.frames);
            for (worker, frame) in self.frames.drain(..) {
                let header = Header::read(frame.bytes());
                self.parked += usize::from(header.is_ok_and(|said| said.metadata.parked_bytes > 0));
                let pools = &mut self.node.worker_pools[worker];
                self.node.workers[worker].receive(frame, pools, &mut self.returns);
            }
            let (machine, out) = (&mut self.node.machine, &mut self.out);
            machine.returned(0, &mut self.returns, clock, out);
            machine.progress(0, self.node.workers[0].progress(), out);
        }
    }
}

fn end(address: &str, port: u16) -> Endpoint {
    Endpoint::new(address.parse().expect("an address"), port)
}

/// The ends of the conversations, each as its question and its answer have them where they come in.
fn ends(chain: &[&str], is_v6: bool) -> impl Iterator<Item = [(Endpoint, Endpoint); 2]> {
    let is_balanced = chain.contains(&"load_balancer");
    let translated = match () {
        // The server is behind a prefix, and answers in IPv4.
        () if chain.contains(&"nat64") => Some([
            "fd00::1",
            "2001:db8:64::c000:201",
            "192.0.2.1",
            "198.51.100.1",
        ]),
        // The subnet makes up for the other prefix (RFC 6296 §3.1).
        () if chain.contains(&"nptv6") => Some([
            "fd00:1:2::1",
            "2001:db8::1",
            "2001:db8::1",
            "2001:db8:1:cf49::1",
        ]),
        () => None,
    };
    let is_translated = chain.contains(&"napt") && !is_v6;
    let (host, server) = match is_v6 {
        true => ("fd00::1", "2001:db8::1"),
        false => ("10.0.0.1", "192.0.2.1"),
    };
    let asked = match (is_balanced, is_v6) {
        (false, _) => server,
        (true, true) => "2001:db8:1::1",
        (true, false) => "203.0.113.1",
    };
    let seen = if is_translated { "198.51.100.1" } else { host };
    let [host, asked, server, seen] = translated.unwrap_or([host, asked, server, seen]);
    (0..FLOWS).map(move |flow| {
        let port = 2000 + flow;
        let question = (end(host, port), end(asked, 53));
        [question, (end(server, 53), end(seen, port))]
    })
}

/// So many rounds of packets, each with a question and its answer for each conversation.
fn rounds(chain: &[&str], is_v6: bool, kind: Kind) -> Vec<Vec<Vec<u8>>> {
    let all = 0..WARM_ROUNDS + ROUNDS;
    if chain == ["kv_store"] {
        return all.map(|_| requests(is_v6)).collect();
    }
    let datagrams = |bytes| {
        let datagram = move |(from, to)| PacketBuilder::udp(from, to).payload_len(bytes).to_vec();
        let packets = ends(chain, is_v6).flatten().map(datagram);
        let packets: Vec<_> = packets.map(|packet| packet.expect("short")).collect();
        all.clone().map(|_| packets.clone()).collect()
    };
    match kind {
        Kind::Datagrams => datagrams(100),
        Kind::Parked | Kind::Split => datagrams(600),
        Kind::Segments => all.map(|round| segments(chain, is_v6, round, "")).collect(),
        Kind::Alerts => {
            let card = "card=1234-5678-1234-5678";
            all.map(|round| segments(chain, is_v6, round, card))
                .collect()
        }
    }
}

/// Bytes of data in a segment.
const DATA: u32 = 100;

/// What the ends of a connection send in a round: in the first they open it.
fn segments(chain: &[&str], is_v6: bool, round: usize, said: &str) -> Vec<Vec<u8>> {
    let mut data = vec![b'.'; DATA as usize];
    data[..said.len()].copy_from_slice(said.as_bytes());
    let (first, sent) = (1000, DATA * round.saturating_sub(1) as u32);
    let of_end = |(place, (from, to)): (u32, (Endpoint, Endpoint))| {
        let segment = PacketBuilder::tcp(from, to);
        let segment = match (round, place) {
            (0, 0) => segment.flags(flags::SYN).seq(first),
            (0, _) => segment
                .flags(flags::SYN | flags::ACK)
                .seq(first)
                .ack(first + 1),
            _ => {
                let (seq, ack) = (first + 1 + sent, first + 1 + sent + DATA * place);
                let segment = segment.flags(flags::ACK | flags::PSH).seq(seq).ack(ack);
                segment.payload(&data)
            }
        };
        segment.to_vec().expect("short")
    };
    let connections = ends(chain, is_v6);
    let packets = connections.flat_map(|ends| (0..).zip(ends));
    packets.map(of_end).collect()
}

/// Puts and gets, two for each entry.
fn requests(is_v6: bool) -> Vec<Vec<u8>> {
    let (client, store) = match is_v6 {
        true => ("fd00::1", "2001:db8::1"),
        false => ("10.0.0.1", "192.0.2.1"),
    };
    let of_entry = |entry: u16| {
        [(KvOp::Put, &[7; 30][..]), (KvOp::Get, &[])].map(|(op, value)| {
            let key = [entry as u8 + 1; kv::KEY_BYTES];
            let request = KvRepr::request(op, 1, key, value);
            let mut bytes = vec![0; request.message_bytes()];
            request.emit(&mut bytes).expect("there is room");
            let packet = PacketBuilder::udp(end(client, 2000), end(store, kv::DEFAULT_PORT));
            packet.payload(&bytes).to_vec().expect("short")
        })
    };
    (0..FLOWS).flat_map(of_entry).collect()
}

const CHAINS: [(&[&str], Kind); 29] = [
    (&["acl", "monitor"], Kind::Datagrams),
    (&["firewall", "reassembler"], Kind::Datagrams),
    (&["load_balancer"], Kind::Datagrams),
    (&["inspector"], Kind::Datagrams),
    (&["kv_store"], Kind::Datagrams),
    (&["acl", "napt", "monitor", "router"], Kind::Datagrams),
    (&["acl", "firewall", "monitor"], Kind::Datagrams),
    (
        &["firewall", "acl", "load_balancer", "router"],
        Kind::Datagrams,
    ),
    (&["firewall", "reassembler"], Kind::Segments),
    (&["load_balancer"], Kind::Segments),
    (&["firewall", "reassembler", "inspector"], Kind::Segments),
    (&["acl", "napt", "monitor", "router"], Kind::Segments),
    (
        &["acl", "firewall", "load_balancer", "monitor"],
        Kind::Segments,
    ),
    (&["acl", "nptv6", "monitor"], Kind::Datagrams),
    (&["acl", "nptv6", "monitor"], Kind::Segments),
    (&["nat64", "router"], Kind::Datagrams),
    (&["acl", "nat64", "monitor", "router"], Kind::Segments),
    (&["inspector"], Kind::Alerts),
    (&["reassembler", "inspector"], Kind::Alerts),
    (&["rate_limiter"], Kind::Datagrams),
    (&["telemetry"], Kind::Datagrams),
    (&["rate_limiter", "telemetry"], Kind::Segments),
    (&["acl", "rate_limiter", "monitor"], Kind::Datagrams),
    (&["delayed"], Kind::Datagrams),
    (&["reframer"], Kind::Datagrams),
    (&["load_balancer"], Kind::Parked),
    (&["acl", "load_balancer", "monitor"], Kind::Parked),
    (&["load_balancer"], Kind::Split),
    (&["acl", "load_balancer", "monitor"], Kind::Split),
];

/// How packets of a kind can pass.
fn ways(chain: &[&str], kind: Kind) -> &'static [Handling] {
    match kind {
        // What becomes another IP version's is never cached, and what is held is on the slow path.
        _ if chain
            .iter()
            .any(|name| ["nat64", "reframer", "delayed"].contains(name)) =>
        {
            &[Handling::Punted, Handling::Slow]
        }
        Kind::Datagrams | Kind::Segments => &[Handling::Fast, Handling::Punted, Handling::Slow],
        Kind::Alerts => &[Handling::Punted, Handling::Slow],
        Kind::Parked | Kind::Split => &[Handling::Punted],
    }
}

/// Whether packets are IPv6, or those from inside are.
fn versions(chain: &[&str], kind: Kind) -> &'static [bool] {
    match kind {
        _ if chain.iter().any(|name| ["nat64", "nptv6"].contains(name)) => &[true],
        Kind::Datagrams => &[false, true],
        _ => &[false],
    }
}

#[test]
fn no_packet_allocates_once_the_node_is_warm() {
    for (chain, kind) in CHAINS {
        for &is_v6 in versions(chain, kind) {
            ways(chain, kind)
                .iter()
                .for_each(|way| assert_frugal(chain, kind, is_v6, *way));
        }
    }
}

/// Nor do those of a DPU, whose flows are known: in tunnels, of both IP versions inside. What opens a flow
/// asks policies, and that may allocate.
#[test]
fn no_packet_of_a_dpu_allocates_once_it_is_warm() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/dpu.toml");
    let mut service = Service::load(Path::new(path)).expect("the example");
    let traffic = service.traffic.as_mut().expect("it has traffic");
    (traffic.flows, traffic.tcp_share, traffic.churn_per_minute) = (u64::from(FLOWS), 0.0, 0.0);
    let traffic = traffic.clone();
    let mut source = Source::generator(&traffic, &service).expect("traffic");
    let mut packets = Vec::new();
    while packets.len() < 8 * usize::from(FLOWS) {
        if let Read::Packet(_) = source.read().expect("traffic") {
            packets.push(source.bytes().to_vec());
        }
    }
    for paths in [Paths::Both, Paths::Slow] {
        let mut bench = Bench::of(&service, paths);
        let all: Vec<_> = (0..WARM_ROUNDS + ROUNDS).map(|_| packets.clone()).collect();
        let (first, rest) = all.split_at(WARM_ROUNDS);
        let cold = measure(|| bench.rounds(first));
        let before = bench.left;
        let warm = measure(|| bench.rounds(rest));
        let left = [0, 1].map(|via| bench.left[via] - before[via]);
        println!(
            "DPU, {paths:?}: {} allocations cold, {} warm; {left:?} left",
            cold.count_total, warm.count_total
        );
        let (via, other) = if paths == Paths::Both { (0, 1) } else { (1, 0) };
        let sent: usize = rest.iter().map(Vec::len).sum();
        assert!(
            left[via] > sent / 4 && left[other] == 0,
            "{paths:?}: {left:?}"
        );
        assert_eq!(warm.count_total, 0, "{paths:?}");
    }
}

/// Neither do packets that are copied for whoever captures them or follows drops.
#[test]
fn no_packet_allocates_while_it_is_copied() {
    let chain = ["acl", "firewall", "monitor"];
    for way in [Handling::Fast, Handling::Punted, Handling::Slow] {
        let rounds = rounds(&chain, false, Kind::Datagrams);
        let (first, rest) = rounds.split_at(WARM_ROUNDS);
        let mut bench = Bench::new(&chain, way, Kind::Datagrams);
        let mirror = Arc::clone(bench.node.machine.mirror());
        let wanted = [Wanted::Element(0), Wanted::Element(2), Wanted::Drops];
        let readers = wanted.map(|wanted| mirror.read(wanted, 256).expect("there is room"));
        let [mut front, mut behind, drops] = readers;
        bench.rounds(first);
        assert!(
            !front.copies().is_empty() && !behind.copies().is_empty(),
            "{way:?}"
        );
        let warm = measure(|| bench.rounds(rest));
        assert!(!front.copies().is_empty(), "{way:?}");
        assert_eq!(warm.count_total, 0, "{way:?}");
        drop((front, behind, drops));
        assert!(!mirror.wants_elements() && !mirror.wants_drops());
    }
}

fn assert_frugal(chain: &[&str], kind: Kind, is_v6: bool, way: Handling) {
    let what = format!("{chain:?} {kind:?} {way:?}, IPv6: {is_v6}");
    let rounds = rounds(chain, is_v6, kind);
    let (first, rest) = rounds.split_at(WARM_ROUNDS);
    let mut bench = Bench::new(chain, way, kind);
    let cold = measure(|| bench.rounds(first));
    let before = bench.left;
    let warm = measure(|| bench.rounds(rest));
    let left = [0, 1].map(|via| bench.left[via] - before[via]);
    println!(
        "{what}: {} allocations cold, {} warm; {left:?} left",
        cold.count_total, warm.count_total
    );
    let all = rest.iter().map(Vec::len).sum();
    let expected = match way {
        Handling::Fast => [all, 0],
        Handling::Punted | Handling::Slow => [0, all],
    };
    assert_eq!(left, expected, "{what}: on the fast path, by the slow path");
    let has_headers = matches!(kind, Kind::Parked | Kind::Split);
    assert_eq!(bench.parked > 0, has_headers, "{what}");
    assert_eq!(warm.count_total, 0, "{what}");
    let most = MOST_PER_FLOW * u64::from(FLOWS);
    let count = cold.count_total;
    assert!((1..most).contains(&count), "{what}: {count} cold");
}
