//! Hosts inside reach each other by external addresses, whichever shards they belong to: what leaves is
//! what one node with everything on the slow path puts out, up to a renaming of the ports that it gives
//! out.
//!
//! Which port stands for a client is known when it has asked. So each run is made twice: of what leaves in
//! the first one servers learn whom to answer in the second.

use crate::common::rows::tell;
use crate::common::sharded::{run_shards, spread};
use crate::common::{Outcome, assert_same, assert_same_but_for_names, by_direction, run, service};
use std::collections::BTreeMap;
use twinpath_control::service::{Execution, Paths, Service};
use twinpath_core::wire::icmp::IcmpError;
use twinpath_core::wire::tcp::flags::{ACK, FIN, PSH, SYN};
use twinpath_core::wire::{Address, Endpoint, PacketBuilder, dissect, fields};
use twinpath_io::Trace;
use twinpath_node::shards::{Crossing, Partition};

const CLIENTS: u8 = 40;
const EXTERNAL: [u8; 4] = [192, 0, 2, 1];

/// Clients ask servers by a shared external address; each server has a TCP and a UDP port there. Some
/// hosts have a whole external address.
const TRANSLATION: &str = "[napt]\ninside = [\"10.0.0.0/8\"]\nexternal = [\"192.0.2.1\"]\nports = \"20000-59999\"\n\
    forward = [\
    { protocol = \"tcp\", external = \"192.0.2.1:8001\", to = \"10.0.0.201:80\" },\
    { protocol = \"tcp\", external = \"192.0.2.1:8002\", to = \"10.0.0.202:80\" },\
    { protocol = \"tcp\", external = \"192.0.2.1:8003\", to = \"10.0.0.203:80\" },\
    { protocol = \"udp\", external = \"192.0.2.1:5301\", to = \"10.0.0.201:53\" },\
    { protocol = \"udp\", external = \"192.0.2.1:5302\", to = \"10.0.0.202:53\" },\
    { protocol = \"udp\", external = \"192.0.2.1:5303\", to = \"10.0.0.203:53\" },\
    { external = \"198.51.100.1\", to = \"10.0.0.211\" },\
    { external = \"198.51.100.2\", to = \"10.0.0.212\" },\
    { external = \"198.51.100.3\", to = \"10.0.0.213\" }]\n\
    [rule_cache]\nwindow = \"1ms\"\nthreshold = 0\n";

/// Of other functions in front of the translation and behind it.
const CHAINS: [(&str, &str); 4] = [
    ("\"napt\"", ""),
    (
        "\"acl\", \"napt\", \"monitor\"",
        "[acl]\ndefault = \"allow\"\nrules = [{ action = \"deny\", to = \"192.0.2.1/32\", from = \"192.0.2.1/32\" }]\n",
    ),
    (
        "\"firewall\", \"napt\"",
        "[firewall]\ndefault = \"allow\"\n",
    ),
    (
        "\"napt\", \"firewall\", \"acl\"",
        "[firewall]\ndefault = \"allow\"\n[acl]\ndefault = \"allow\"\n",
    ),
];

fn gateway((chain, functions): (&str, &str)) -> Service {
    service(&format!(
        "[service]\nchain = [{chain}]\ninside = [\"10.0.0.0/8\"]\n{functions}{TRANSLATION}"
    ))
}

fn client(number: u8, port: u16) -> Endpoint {
    Endpoint::v4([10, 0, 0, number], port)
}

fn server(number: u8, port: u16) -> Endpoint {
    Endpoint::v4([10, 0, 0, 200 + number], port)
}

fn whole(number: u8, port: u16) -> [Endpoint; 2] {
    [
        Endpoint::v4([10, 0, 0, 210 + number], port),
        Endpoint::v4([198, 51, 100, number], port),
    ]
}

fn external(port: u16) -> Endpoint {
    Endpoint::v4(EXTERNAL, port)
}

/// The external endpoints of clients, by protocol and inside endpoint.
type Learnt = BTreeMap<(u8, u8), Endpoint>;

const TCP: u8 = 6;
const UDP: u8 = 17;

/// The port of a client's connections.
fn port_of(number: u8) -> u16 {
    4000 + u16::from(number)
}

/// What is sent, in order: everything, once it is known by which endpoints clients are reached.
struct Sent<'l> {
    trace: Trace,
    learnt: &'l Learnt,
}

impl Sent<'_> {
    fn send(&mut self, packet: &PacketBuilder<'_>) {
        let at = 1_000_000_000 + self.trace.len() as u64 * 20_000;
        self.trace.push(at, &packet.to_vec().expect("short"));
    }

    /// A connection of a client to a server: data both ways, an error of each about the other, and an end.
    fn tcp(&mut self, number: u8) {
        let to = 1 + number % 3;
        let (from, shown) = (
            client(number, port_of(number)),
            external(8000 + u16::from(to)),
        );
        let first = 1000 * u32::from(number);
        self.send(&PacketBuilder::tcp(from, shown).flags(SYN).seq(first));
        let Some(&back) = self.learnt.get(&(TCP, number)) else {
            return;
        };
        let at_server = server(to, 80);
        let answer = |length| {
            PacketBuilder::tcp(at_server, back)
                .flags(ACK | PSH)
                .payload_len(length)
        };
        self.send(
            &PacketBuilder::tcp(at_server, back)
                .flags(SYN | ACK)
                .seq(9)
                .ack(first + 1),
        );
        self.send(
            &PacketBuilder::tcp(from, shown)
                .flags(ACK)
                .seq(first + 1)
                .ack(10),
        );
        for round in 0..6u32 {
            let asked = PacketBuilder::tcp(from, shown)
                .flags(ACK | PSH)
                .payload_len(10);
            self.send(&asked.seq(first + 1 + 10 * round).ack(10 + 20 * round));
            self.send(&answer(20).seq(10 + 20 * round).ack(first + 11 + 10 * round));
        }
        // Each has seen the other's external endpoint alone.
        let seen_by_server = PacketBuilder::tcp(back, at_server)
            .flags(ACK)
            .seq(first + 51)
            .ack(130);
        self.error(&seen_by_server);
        let seen_by_client = PacketBuilder::tcp(shown, from)
            .flags(ACK)
            .seq(110)
            .ack(first + 61);
        self.error(&seen_by_client);
        self.send(
            &PacketBuilder::tcp(from, shown)
                .flags(FIN | ACK)
                .seq(first + 61)
                .ack(130),
        );
        self.send(
            &PacketBuilder::tcp(at_server, back)
                .flags(FIN | ACK)
                .seq(130)
                .ack(first + 62),
        );
        self.send(
            &PacketBuilder::tcp(from, shown)
                .flags(ACK)
                .seq(first + 62)
                .ack(131),
        );
    }

    /// Who has received a packet tells its sender that it is too long.
    fn error(&mut self, about: &PacketBuilder<'_>) {
        let quoted = about.to_vec().expect("short");
        self.send(&PacketBuilder::icmp_error(
            IcmpError::PacketTooBig { mtu: 1400 },
            &quoted,
        ));
    }

    fn udp(&mut self, number: u8) {
        let to = 1 + number % 3;
        let (from, shown) = (
            client(number, port_of(number)),
            external(5300 + u16::from(to)),
        );
        let asked = |length| PacketBuilder::udp(from, shown).payload_len(length);
        self.send(&asked(usize::from(number)));
        let Some(&back) = self.learnt.get(&(UDP, number)) else {
            return;
        };
        for length in 60..64 {
            self.send(&PacketBuilder::udp(server(to, 53), back).payload_len(length));
            self.send(&asked(length));
        }
        self.error(&PacketBuilder::udp(back, server(to, 53)).payload_len(60));
        self.error(&PacketBuilder::udp(shown, from).payload_len(60));
        // In parts, the last before the first.
        let long = asked(64).identification(number.into());
        self.send(&long.fragment(32, false));
        self.send(&long.fragment(0, true));
        let answer = PacketBuilder::udp(server(to, 53), back).payload_len(64);
        let answer = answer.identification(number.into());
        self.send(&answer.fragment(0, true));
        self.send(&answer.fragment(32, false));
    }

    /// Clients reach each other by ports that are nobody's but theirs, and ask where nobody is.
    fn peers(&mut self, number: u8) {
        let other = 1 + (number + 6) % CLIENTS;
        let from = client(number, port_of(number));
        if let Some(&shown) = self.learnt.get(&(UDP, other)) {
            self.send(&PacketBuilder::udp(from, shown).payload_len(33));
            self.send(&PacketBuilder::udp(from, external(shown.port ^ 1)).payload_len(34));
        }
    }

    /// Hosts with addresses of their own: all that needs no ports, too.
    fn whole(&mut self, number: u8) {
        let other = 1 + number % 3;
        let (port, asked) = (7000 + u16::from(number), 99);
        let ([from, shown], [to, asked_at]) = (whole(number, port), whole(other, asked));
        for length in 20..23 {
            self.send(&PacketBuilder::udp(from, asked_at).payload_len(length));
            self.send(&PacketBuilder::udp(to, shown).payload_len(length));
        }
        self.send(&PacketBuilder::icmp_echo(from, asked_at));
        let to = Endpoint::new(to.address, port);
        self.send(&PacketBuilder::icmp_echo(to, shown).echo_reply());
        self.send(&PacketBuilder::icmp_echo(client(number, port), asked_at));
    }
}

fn trace(learnt: &Learnt) -> Trace {
    let mut sent = Sent {
        trace: Trace::new(),
        learnt,
    };
    for number in 1..=CLIENTS {
        sent.udp(number);
        sent.tcp(number);
    }
    for number in 1..=CLIENTS {
        sent.peers(number);
    }
    for number in 1..=3 {
        sent.whole(number);
    }
    sent.trace
}

/// Whom servers have seen asking: what came to a server from the shared address, by what tells the client.
fn learn(outcome: &Outcome) -> Learnt {
    let mut learnt = Learnt::new();
    for (_, packet) in &outcome.packets {
        let layout = dissect(packet).expect("sound");
        let (source, destination) = (
            fields::source(packet, &layout),
            fields::destination(packet, &layout),
        );
        let is_asked =
            source.address == Address::from_v4(EXTERNAL) && [53, 80].contains(&destination.port);
        if !is_asked {
            continue;
        }
        let number = match layout.protocol {
            TCP => fields::tcp_seq(packet, &layout) / 1000,
            _ => fields::payload(packet, &layout).len() as u32,
        };
        learnt.insert((layout.protocol, number as u8), source);
    }
    learnt
}

/// What leaves, and which packets were sent.
fn converse(run: impl Fn(&Trace) -> Outcome) -> (Outcome, Trace) {
    let learnt = learn(&run(&trace(&Learnt::new())));
    assert_eq!(
        learnt.len(),
        2 * usize::from(CLIENTS),
        "each client was heard by TCP and UDP"
    );
    let trace = trace(&learnt);
    (run(&trace), trace)
}

#[test]
fn hosts_inside_reach_each_other_whichever_shards_they_belong_to() {
    for chain in CHAINS {
        let service = gateway(chain);
        let slow = |trace: &Trace| run(&service, trace, Paths::Slow, Execution::Virtual);
        let (slow, sent) = converse(slow);
        let lost: u64 = slow.report.drops.values().sum();
        assert_eq!(slow.packets.len() as u64 + lost, sent.len() as u64);
        // Nobody is behind the port beside a client's, and a firewall sees each way for itself: it knows
        // nothing of what an error quotes.
        assert!(
            lost < sent.len() as u64 / 4,
            "{chain:?}: {:?}",
            slow.report.drops
        );
        for shards in [1, 2, 4] {
            for (execution, paths) in [
                (Execution::Virtual, Paths::Both),
                (Execution::Threads, Paths::Both),
                (Execution::Virtual, Paths::Slow),
            ] {
                let named = format!("{chain:?}, {shards} shards, {execution:?}, {paths:?}");
                let mut spread = spread(&service, shards, execution);
                spread.run.paths = paths;
                let (found, sent) = converse(|trace| run_shards(&spread, trace).outcome);
                assert_same_but_for_names(&slow, &found, "192.0.2.1", &named);
                assert_eq!(found.report.drops, slow.report.drops, "{named}");
                let crossed = crossings(&spread, shards, &sent);
                println!(
                    "{named}: {crossed} of {} packets crossed, {:?}",
                    sent.len(),
                    found.report.fast
                );
                assert_eq!(crossed > sent.len() / 4, shards > 1, "{named}: {crossed}");
                let entered = found.report.fast.packets + found.report.slow.packets;
                assert_eq!(entered, sent.len() as u64, "{named}: each counts once");
                if paths == Paths::Both {
                    assert!(found.report.fast.packets > 0, "{named}");
                    tell("generated, hairpins", &found.report);
                }
            }
        }
    }
}

/// A translation of prefixes knows in every shard whom an address stands for, so that nothing crosses.
#[test]
fn hosts_inside_reach_each_other_by_other_prefixes_in_any_shard() {
    let service = service(
        "[service]\nchain = [\"firewall\", \"nptv6\"]\ninside = [\"fd00:1::/48\"]\n\
         [firewall]\ndefault = \"allow\"\n\
         [nptv6]\nprefixes = [{ inside = \"fd00:1::/48\", external = \"2001:db8:1::/48\" }]\n",
    );
    let host = |number: u8| format!("[fd00:1::{number:x}]:7").parse().expect("one");
    let sent = |shown: &BTreeMap<usize, Endpoint>| {
        let mut trace = Trace::new();
        for number in 1..=CLIENTS {
            let other = 1 + usize::from(number) % usize::from(CLIENTS);
            let outside = "[2001:db8:ffff::1]:7".parse().expect("one");
            let to = shown.get(&other).copied().unwrap_or(outside);
            let packet = PacketBuilder::udp(host(number), to).payload_len(number.into());
            trace.push(u64::from(number) * 20_000, &packet.to_vec().expect("short"));
        }
        trace
    };
    let run_on = |trace: &Trace| run(&service, trace, Paths::Slow, Execution::Virtual);
    let shown = run_on(&sent(&BTreeMap::new()))
        .packets
        .into_iter()
        .map(|(_, packet)| {
            let layout = dissect(&packet).expect("sound");
            let number = fields::payload(&packet, &layout).len();
            (number, fields::source(&packet, &layout))
        });
    let trace = sent(&shown.collect());
    let slow = run_on(&trace);
    assert_eq!(slow.packets.len(), trace.len());
    for shards in [1, 2, 4] {
        let found = run_shards(&spread(&service, shards, Execution::Threads), &trace);
        let named = format!("{shards} shards");
        assert_same(
            &by_direction(&slow.flows),
            &by_direction(&found.outcome.flows),
            &named,
        );
        let used = found.arrived.iter().filter(|&&count| count > 0).count();
        assert_eq!(used, usize::from(shards), "{:?}", found.arrived);
    }
}

/// What stands in front of a translation sees external addresses of hosts inside, and not whom they stand
/// for; what stands behind it sees whom.
#[test]
fn an_access_list_behind_a_translation_stops_what_one_in_front_lets_pass() {
    let napt = "[napt]\ninside = [\"10.0.0.0/8\"]\nexternal = [\"192.0.2.1\"]\nforward = [\
        { external = \"192.0.2.8\", to = \"10.0.0.8\" },\
        { protocol = \"udp\", external = \"192.0.2.1:9000\", to = \"10.0.0.9:53\" }]\n";
    let nptv6 =
        "[nptv6]\nprefixes = [{ inside = \"fd00:1::/48\", external = \"2001:db8:1::/48\" }]\n";
    let nat64 = "[nat64]\ninside = [\"fd00:1::/48\"]\nexternal = [\"192.0.2.1\"]\nforward = [\
        { protocol = \"udp\", external = \"192.0.2.1:9000\", to = \"[fd00:1::8]:53\" }]\n";
    // By RFC 6296 the next word makes up for what the prefix changes by: 0xfd00 + 1 - (0x2001 + 0xdb8 + 1).
    let mapped = "[2001:db8:1:cf47::8]:53";
    for (name, translation, from, asked, to, inside) in [
        (
            "napt",
            napt,
            "10.0.0.1:7",
            "192.0.2.8:53",
            "10.0.0.8",
            "10.0.0.0/8",
        ),
        (
            "napt",
            napt,
            "10.0.0.1:7",
            "192.0.2.1:9000",
            "10.0.0.9",
            "10.0.0.0/8",
        ),
        (
            "nptv6",
            nptv6,
            "[fd00:1::1]:7",
            mapped,
            "fd00:1::8",
            "fd00:1::/48",
        ),
        (
            "nat64",
            nat64,
            "[fd00:1::1]:7",
            "[64:ff9b::c000:201]:9000",
            "fd00:1::8",
            "fd00:1::/48",
        ),
    ] {
        let through = |chain: &str| {
            let deny =
                format!("default = \"allow\"\nrules = [{{ action = \"deny\", to = \"{to}\" }}]");
            let text = format!(
                "[service]\nchain = [{chain}]\ninside = [\"{inside}\"]\n[firewall]\n{deny}\n[acl]\n{deny}\n\
                 {translation}[rule_cache]\nwindow = \"1ms\"\nthreshold = 0\n"
            );
            let mut trace = Trace::new();
            for number in 0..50u64 {
                let [from, asked] = [from, asked].map(|end| end.parse().expect("an endpoint"));
                let packet = PacketBuilder::udp(from, asked).payload_len(9);
                let at = 1_000_000_000 + number * 1_000_000;
                trace.push(at, &packet.to_vec().expect("short"));
            }
            run(&service(&text), &trace, Paths::Both, Execution::Virtual)
        };
        let is_for = |packet: &[u8]| {
            let layout = dissect(packet).expect("sound");
            fields::destination(packet, &layout).address == to.parse().expect("an address")
        };
        let passed = through(&format!("\"firewall\", \"{name}\""));
        assert_eq!(
            passed.packets.len(),
            50,
            "{asked}: {:?}",
            passed.report.drops
        );
        assert!(
            passed.packets.iter().all(|(_, packet)| is_for(packet)),
            "{asked}"
        );
        let stopped = through(&format!("\"firewall\", \"{name}\", \"acl\""));
        assert_eq!(stopped.packets.len(), 0, "{asked}");
        let denied = stopped.report.drops.get("denied");
        assert_eq!(denied, Some(&50), "{asked}: {:?}", stopped.report.drops);
        for outcome in [&passed, &stopped] {
            // Between IP versions they are all the workers'.
            let fast = outcome.report.fast.packets;
            assert_eq!(fast > 0, name != "nat64", "{asked}: {fast}");
            tell("made one by one", &outcome.report);
        }
    }
}

/// How many packets of a trace go on in another shard than they belong to.
fn crossings(service: &Service, shards: u16, trace: &Trace) -> usize {
    let partition = Partition::of(service, shards).expect("no files");
    let crosses = |packet: &[u8]| matches!(partition.crossing(packet), Crossing::To(_));
    trace.iter().filter(|frame| crosses(frame.frame)).count()
}
