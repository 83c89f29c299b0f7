//! Floods of openings, in packet time: who is there gets in, and who is in stays, on both paths as on
//! the slow path alone. The tables are small, so that what takes minutes elsewhere takes a moment.

use crate::common::acting::assert_share;
use crate::common::derived::counted;
use crate::common::rows::tell;
use crate::common::{Flows, Outcome, assert_same, run, service};
use twinpath_control::service::{Execution, Paths};
use twinpath_core::wire::tcp::flags::{ACK, RST, SYN};
use twinpath_core::wire::{Address, Endpoint, PacketBuilder};
use twinpath_io::Trace;

const FIREWALL: &str = r#"
chain = ["firewall"]
[firewall]
rules = [{ action = "allow", protocol = "any", to_port = 80 }]
"#;

const BALANCER: &str = r#"
chain = ["load_balancer"]
[load_balancer]
services = [
    { vip = "192.0.2.1:80", protocol = "tcp", backends = [{ endpoint = "10.1.0.2:8080" }] },
    { vip = "[2001:db8::1]:80", protocol = "tcp", backends = [{ endpoint = "[2001:db8:1::2]:8080" }] },
]
"#;

const MS: u64 = 1_000_000;
/// From a client to its server and back.
const ROUND_TRIP: u64 = 10 * MS;

/// The server as clients know it, and as it is behind the function.
#[derive(Copy, Clone)]
struct Server {
    known_as: [&'static str; 2],
    is: [&'static str; 2],
}

const ITSELF: Server = Server {
    known_as: ["192.0.2.1:80", "[2001:db8::1]:80"],
    is: ["192.0.2.1:80", "[2001:db8::1]:80"],
};

const BEHIND: Server = Server {
    is: ["10.1.0.2:8080", "[2001:db8:1::2]:8080"],
    ..ITSELF
};

/// Openings come at a rate for some time.
#[derive(Copy, Clone)]
struct Flood {
    per_second: u64,
    milliseconds: u64,
    /// The server answers each, as it does where it cannot tell.
    is_answered: bool,
}

/// Packets, still in any order.
struct Packets {
    server: Server,
    all: Vec<(u64, Vec<u8>)>,
}

fn end(text: &str) -> Endpoint {
    text.parse().expect("an endpoint")
}

/// A host of a number, of either IP version.
fn host(group: u8, number: u32) -> Endpoint {
    let port = 1024 + (number % 60_000) as u16;
    let address = match number % 2 {
        0 => Address::from_v4((u32::from(group) << 24 | number).to_be_bytes()),
        _ => Address(0x2001_0db8_0002_u128 << 80 | u128::from(group) << 64 | u128::from(number)),
    };
    Endpoint::new(address, port)
}

impl Packets {
    fn push(&mut self, at: u64, builder: PacketBuilder) {
        self.all.push((at, builder.to_vec().expect("short")));
    }

    fn ends(&self, client: Endpoint) -> [Endpoint; 2] {
        let version = usize::from(!client.address.is_v4());
        [self.server.known_as, self.server.is].map(|ends| end(ends[version]))
    }

    /// A segment of the client's.
    fn asks(&mut self, at: u64, client: Endpoint, flags: u8, numbers: [u32; 2]) {
        let [server, _] = self.ends(client);
        let segment = PacketBuilder::tcp(client, server)
            .seq(numbers[0])
            .ack(numbers[1]);
        self.push(at, segment.flags(flags));
    }

    /// A segment of the server's.
    fn answers(&mut self, at: u64, client: Endpoint, flags: u8, numbers: [u32; 2]) {
        let [_, server] = self.ends(client);
        let segment = PacketBuilder::tcp(server, client)
            .seq(numbers[0])
            .ack(numbers[1]);
        self.push(at, segment.flags(flags));
    }

    fn opening(&mut self, at: u64, client: Endpoint) {
        self.asks(at, client, SYN, [100, 0]);
    }

    /// Opens and is used `times` times, in a packet each way: a question, and the answer.
    fn connection(&mut self, at: u64, client: Endpoint, times: u64, every: u64) {
        self.opening(at, client);
        self.answers(at + ROUND_TRIP, client, SYN | ACK, [900, 101]);
        let opened = at + ROUND_TRIP + MS;
        self.asks(opened, client, ACK, [101, 901]);
        for turn in 1..=times {
            let heard = 901 + 10 * (turn as u32 - 1);
            self.asks(opened + turn * every, client, ACK, [101, heard]);
            let [_, server] = self.ends(client);
            let answer = PacketBuilder::tcp(server, client).seq(heard).ack(101);
            self.push(
                opened + turn * every + MS,
                answer.flags(ACK).payload_len(10),
            );
        }
    }

    fn flood(&mut self, from: u64, flood: Flood) {
        let count = flood.per_second * flood.milliseconds / 1000;
        for number in 0..count as u32 {
            let at = from + u64::from(number) * 1_000_000_000 / flood.per_second;
            let spoofed = host(100, number);
            self.opening(at, spoofed);
            if flood.is_answered {
                self.answers(at + MS, spoofed, SYN | ACK, [900, 101]);
            }
        }
    }

    fn trace(mut self) -> Trace {
        self.all.sort_by_key(|(at, _)| *at);
        let mut trace = Trace::new();
        self.all
            .iter()
            .for_each(|(at, packet)| trace.push(1_000_000_000 + at, packet));
        trace
    }
}

const ESTABLISHED: u32 = 50;
const NEWCOMERS: u64 = 400;

/// Established connections, then a flood, and new connections all through it.
fn traffic(server: Server, flood: Flood) -> Trace {
    let mut packets = Packets {
        server,
        all: Vec::new(),
    };
    let times = 5 + flood.milliseconds / 20;
    for number in 0..ESTABLISHED {
        packets.connection(u64::from(number) * MS / 8, host(10, number), times, 20 * MS);
    }
    let begin = 50 * MS;
    packets.flood(begin, flood);
    for number in 0..NEWCOMERS {
        let at = begin + number * (flood.milliseconds * MS) / NEWCOMERS;
        packets.connection(at, host(11, number as u32), 2, 2 * MS);
    }
    packets.trace()
}

/// How many flows of a group of hosts have all their packets.
fn whole(flows: &Flows, group: u8, packets: usize) -> usize {
    let is_of = |address: Address| match address.is_v4() {
        true => address.0 as u32 >> 24 == u32::from(group),
        false => {
            (address.0 >> 64) as u16 == u16::from(group) && address.0 >> 80 == 0x2001_0db8_0002
        }
    };
    use twinpath_core::Side::{High, Low};
    let known = flows
        .iter()
        .filter_map(|(key, packets)| Some((key.as_ref()?, packets)));
    let all = known.filter(|(key, _)| [Low, High].iter().any(|&side| is_of(key.end(side).address)));
    // A balanced connection is two flows outside: to the backend, and back from the service.
    let mut seen = std::collections::BTreeMap::<_, usize>::new();
    for (key, found) in all {
        let side = if is_of(key.end(Low).address) {
            Low
        } else {
            High
        };
        *seen.entry(key.end(side)).or_default() += found.len();
    }
    seen.values().filter(|&&found| found == packets).count()
}

fn survives(text: &str, server: Server, flows: usize, flood: Flood) {
    let service = service(&format!("[service]{text}\n[slow_path]\nflows = {flows}\n"));
    let trace = traffic(server, flood);
    let slow = run(&service, &trace, Paths::Slow, Execution::Virtual);
    let both = run(&service, &trace, Paths::Both, Execution::Virtual);
    for Outcome { flows, report, .. } in [&slow, &both] {
        let times = 5 + flood.milliseconds as usize / 20;
        let established = whole(flows, 10, 3 + 2 * times);
        let newcomers = whole(flows, 11, 3 + 2 * 2);
        println!(
            "{} a second: {established} of {ESTABLISHED} stay, {newcomers} of {NEWCOMERS} get in, {} forgotten",
            flood.per_second, report.flows.half_open_forgotten
        );
        assert_eq!(established, ESTABLISHED as usize);
        assert!(newcomers as u64 * 100 >= NEWCOMERS * 99);
        assert!(report.flows.half_open_forgotten > 0);
        assert_eq!(report.drops.get("flow_table_full"), None);
    }
    // Each newcomer has one packet there, and who is in most.
    let exchanged = u64::from(ESTABLISHED) * 2 * (5 + flood.milliseconds / 20);
    let fast = both.report.fast.packets;
    assert!(
        fast >= exchanged * 2 / 3 + NEWCOMERS,
        "{fast} on the fast path"
    );
    assert_same(&slow.flows, &both.flows, "under attack");
    tell("connections and floods", &both.report);
}

/// Chains without a firewall in front.
const REASSEMBLER: &str = "\nchain = [\"reassembler\"]\n";

fn inspector() -> String {
    let rules = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/rules/evasions.rules");
    format!("\nchain = [\"reassembler\", \"inspector\"]\n[inspector]\nrules = {rules:?}\n")
}

/// As many as kept a balancer of a million flows full.
const SLOW: Flood = Flood {
    per_second: 1165,
    milliseconds: 5_000,
    is_answered: false,
};

const FAST: Flood = Flood {
    per_second: 500_000,
    milliseconds: 60,
    is_answered: false,
};

const fn answered(flood: Flood) -> Flood {
    Flood {
        is_answered: true,
        ..flood
    }
}

#[test]
fn a_slow_flood_keeps_nobody_out_of_a_firewall() {
    survives(FIREWALL, ITSELF, 4_096, SLOW);
    survives(FIREWALL, ITSELF, 4_096, answered(SLOW));
}

#[test]
fn a_slow_flood_keeps_nobody_out_of_a_balancer() {
    survives(BALANCER, BEHIND, 4_096, SLOW);
    survives(BALANCER, BEHIND, 4_096, answered(SLOW));
}

#[test]
fn a_slow_flood_keeps_nobody_out_of_a_reassembler_or_an_inspector() {
    for text in [REASSEMBLER, &inspector()] {
        survives(text, ITSELF, 4_096, SLOW);
        survives(text, ITSELF, 4_096, answered(SLOW));
    }
}

#[test]
fn a_fast_flood_keeps_nobody_out_of_a_reassembler_or_an_inspector() {
    for text in [REASSEMBLER, &inspector()] {
        survives(text, ITSELF, 27_000, FAST);
        survives(text, ITSELF, 27_000, answered(FAST));
    }
}

/// A quarter of these flows is half-open for 13 ms at this rate.
#[test]
fn a_fast_flood_keeps_nobody_out_of_a_firewall() {
    survives(FIREWALL, ITSELF, 27_000, FAST);
    survives(FIREWALL, ITSELF, 27_000, answered(FAST));
}

#[test]
fn a_fast_flood_keeps_nobody_out_of_a_balancer() {
    survives(BALANCER, BEHIND, 27_000, FAST);
    survives(BALANCER, BEHIND, 27_000, answered(FAST));
}

/// Flows of which nothing is known, as each of their packets is denied or none is any of a function's business,
/// leave half of the room to others, however hot they are.
#[test]
fn flows_of_which_nothing_is_known_leave_room() {
    const CLIENTS: u32 = 20;
    for (text, port) in [(FIREWALL, 81), (REASSEMBLER, 80)] {
        let service = service(&format!("[service]{text}\n[slow_path]\nflows = 1000\n"));
        let mut packets = Packets {
            server: ITSELF,
            all: Vec::new(),
        };
        for number in 0..6000 {
            let client = host(100, number / 4);
            let [server, _] = packets.ends(client);
            let datagram = PacketBuilder::udp(client, Endpoint::new(server.address, port));
            packets.push(u64::from(number) * MS / 100, datagram.payload_len(10));
        }
        for number in 0..CLIENTS {
            packets.connection((60 + u64::from(number)) * MS, host(11, number), 20, 2 * MS);
        }
        let trace = packets.trace();
        let slow = run(&service, &trace, Paths::Slow, Execution::Virtual);
        let both = run(&service, &trace, Paths::Both, Execution::Virtual);
        for Outcome { flows, report, .. } in [&slow, &both] {
            assert_eq!(report.drops.get("flow_table_full"), None, "{text}");
            assert_eq!(whole(flows, 11, 3 + 2 * 20), CLIENTS as usize, "{text}");
        }
        assert_same(&slow.flows, &both.flows, text);
        let fast = both.report.fast.packets;
        assert!(
            fast > u64::from(CLIENTS) * 20,
            "{text}: {fast} on the fast path"
        );
        tell("datagrams and connections", &both.report);
    }
}

/// What somebody makes of each spoofed address: packets of his own in its name, and the server's
/// answers, of which he hears none.
type Conversation = fn(&mut Packets, u64, Endpoint);

/// A flood of such conversations that fills the table several times over, then a client: it gets in
/// at once, and `later` milliseconds after, on both paths.
fn lets_a_client_in(text: &str, server: Server, conversation: Conversation, later: u64) {
    let service = service(&format!("[service]{text}\n[slow_path]\nflows = 256\n"));
    let mut packets = Packets {
        server,
        all: Vec::new(),
    };
    packets.connection(0, host(10, 0), 300, 20 * MS);
    for number in 0..1000 {
        conversation(
            &mut packets,
            100 * MS + u64::from(number) * 5 * MS,
            host(100, number),
        );
    }
    packets.connection(5_200 * MS, host(11, 0), 2, 2 * MS);
    packets.connection((5_200 + later) * MS, host(11, 1), 2, 2 * MS);
    let trace = packets.trace();
    let slow = run(&service, &trace, Paths::Slow, Execution::Virtual);
    let both = run(&service, &trace, Paths::Both, Execution::Virtual);
    for Outcome { flows, report, .. } in [&slow, &both] {
        assert_eq!(report.drops.get("flow_table_full"), None);
        assert_eq!(whole(flows, 11, 3 + 2 * 2), 2, "the clients get in");
        assert_eq!(whole(flows, 10, 3 + 2 * 300), 1, "who is in stays");
        let forgotten = report.flows.half_open_forgotten;
        assert!(forgotten > 0, "the table was never full");
    }
    for outcome in [&slow, &both] {
        let opened = opened(outcome);
        assert!(opened >= 3, "{opened} opened, of three clients alone");
    }
    let fast = both.report.fast.packets;
    assert!(fast >= 400, "{fast} on the fast path of 600 of who is in");
    assert_same(&slow.flows, &both.flows, "under attack");
    tell("connections and floods", &both.report);
}

/// Connections that a firewall let in, or a balancer gave to a backend.
fn opened(outcome: &Outcome) -> u64 {
    counted(outcome, "firewall", &["connections_opened"])
        + counted(outcome, "load_balancer", &["new_connections"])
}

/// An acknowledgement of a number that was made up, behind the server's SYN.
fn guessed_handshake(packets: &mut Packets, at: u64, spoofed: Endpoint) {
    packets.opening(at, spoofed);
    packets.answers(at + MS, spoofed, SYN | ACK, [900, 101]);
    packets.asks(at + 2 * MS, spoofed, ACK, [101, 12_345]);
}

/// The same, and the server refuses it.
fn refused_handshake(packets: &mut Packets, at: u64, spoofed: Endpoint) {
    guessed_handshake(packets, at, spoofed);
    packets.answers(at + 3 * MS, spoofed, RST, [12_345, 0]);
    packets.asks(at + 4 * MS, spoofed, ACK, [101, 12_345]);
}

/// The server challenges a segment that lies outside its window (RFC 9293 §3.10.7.4).
fn challenged_handshake(packets: &mut Packets, at: u64, spoofed: Endpoint) {
    packets.opening(at, spoofed);
    packets.answers(at + MS, spoofed, SYN | ACK, [900, 101]);
    packets.asks(at + 2 * MS, spoofed, ACK, [900_000, 12_345]);
    packets.answers(at + 3 * MS, spoofed, ACK, [901, 101]);
    packets.asks(at + 4 * MS, spoofed, ACK, [900_000, 12_345]);
}

/// A SYN to a port where nobody listens.
fn closed_port(packets: &mut Packets, at: u64, spoofed: Endpoint) {
    packets.opening(at, spoofed);
    packets.answers(at + MS, spoofed, RST | ACK, [0, 101]);
}

/// A segment of no connection, and its reset.
fn stray_and_reset(packets: &mut Packets, at: u64, spoofed: Endpoint) {
    packets.asks(at, spoofed, ACK, [101, 12_345]);
    packets.answers(at + MS, spoofed, RST, [12_345, 0]);
    packets.asks(at + 2 * MS, spoofed, ACK, [101, 12_345]);
}

/// A segment that its receiver acknowledges.
fn stray_and_acknowledged(packets: &mut Packets, at: u64, spoofed: Endpoint) {
    packets.asks(at, spoofed, ACK, [101, 12_345]);
    packets.answers(at + MS, spoofed, ACK, [9_000_000, 101]);
    packets.asks(at + 2 * MS, spoofed, ACK, [101, 12_345]);
}

fn blind_opening(packets: &mut Packets, at: u64, spoofed: Endpoint) {
    packets.opening(at, spoofed);
    packets.asks(at + MS, spoofed, ACK, [101, 12_345]);
}

/// A question over UDP, and its answer.
fn one_answer(packets: &mut Packets, at: u64, spoofed: Endpoint) {
    let [service, server] = packets.ends(spoofed);
    packets.push(at, PacketBuilder::udp(spoofed, service));
    packets.push(at + MS, PacketBuilder::udp(server, spoofed));
}

const LATER: u64 = 30_000;

#[test]
fn handshakes_with_guessed_numbers_keep_nobody_out() {
    for flood in [guessed_handshake, refused_handshake, challenged_handshake] {
        lets_a_client_in(FIREWALL, ITSELF, flood, LATER);
        lets_a_client_in(BALANCER, BEHIND, flood, LATER);
    }
}

#[test]
fn refused_openings_keep_nobody_out() {
    for flood in [closed_port, stray_and_reset] {
        lets_a_client_in(FIREWALL, ITSELF, flood, LATER);
        lets_a_client_in(BALANCER, BEHIND, flood, LATER);
    }
}

#[test]
fn stray_segments_that_are_answered_keep_nobody_out_of_a_firewall() {
    lets_a_client_in(FIREWALL, ITSELF, stray_and_acknowledged, LATER);
}

#[test]
fn openings_whose_answers_go_another_way_keep_nobody_out_of_a_balancer() {
    let direct = |backend, other| {
        let text = BALANCER.replace(
            "protocol = \"tcp\"",
            "protocol = \"tcp\", return = \"direct\"",
        );
        text.replace(
            "8080\" }",
            &format!("8080\", mac = \"{backend}:{other}\" }}"),
        )
    };
    let text = direct("02:00:00:00:00", "99");
    lets_a_client_in(&text, ITSELF, blind_opening, LATER);
}

#[test]
fn questions_over_udp_with_one_answer_keep_nobody_out() {
    lets_a_client_in(FIREWALL, ITSELF, one_answer, LATER);
    let udp = BALANCER.replace("services = [", "services = [\n\
        { vip = \"192.0.2.1:80\", protocol = \"udp\", backends = [{ endpoint = \"10.1.0.2:8080\" }] },\n\
        { vip = \"[2001:db8::1]:80\", protocol = \"udp\", backends = [{ endpoint = \"[2001:db8:1::2]:8080\" }] },");
    lets_a_client_in(&udp, BEHIND, one_answer, LATER);
}

/// Connections that are idle for too long make room for a new one at once, though nothing came by
/// in the meantime that could have told.
#[test]
fn expired_connections_make_room_for_a_new_one() {
    let text = format!(
        "[service]{FIREWALL}timeouts = {{ tcp_established = \"10s\" }}\n[slow_path]\nflows = 64\n"
    );
    let mut packets = Packets {
        server: ITSELF,
        all: Vec::new(),
    };
    for number in 0..64 {
        packets.connection(u64::from(number) * MS, host(10, number), 1, MS);
    }
    packets.connection(30_000 * MS, host(11, 0), 2, 2 * MS);
    let trace = packets.trace();
    // What the fast path holds it gives back in its own time, as packets come by.
    let service = service(&text);
    let slow = run(&service, &trace, Paths::Slow, Execution::Virtual);
    assert_eq!(slow.report.drops.get("flow_table_full"), None);
    assert_eq!(whole(&slow.flows, 10, 3 + 2), 64);
    assert_eq!(whole(&slow.flows, 11, 3 + 2 * 2), 1);
    assert!(opened(&slow) > 0, "{:?}", slow.report.functions);
}

/// Flows that are just hot enough for a slot take none from those that have one.
#[test]
fn many_new_flows_take_no_slots_from_established_ones() {
    let text = "[service]\nchain = [\"firewall\"]\n[fast_path]\nslots = 1024\n\
                [firewall]\nrules = [{ action = \"allow\", protocol = \"any\", to_port = 80 }]\n";
    let (established, turns, new) = (100u32, 100u64, 20_000u32);
    let mut packets = Packets {
        server: ITSELF,
        all: Vec::new(),
    };
    let datagram = |from, to| PacketBuilder::udp(from, to);
    for number in 0..established {
        let client = host(10, number);
        let [server, _] = packets.ends(client);
        for turn in 0..turns {
            let at = u64::from(number) * 1000 + turn * 5 * MS;
            packets.push(at, datagram(client, server));
            packets.push(at + MS, datagram(server, client));
        }
    }
    for number in 0..new {
        let client = host(100, number);
        let [server, _] = packets.ends(client);
        let at = 50 * MS + u64::from(number) * 20_000;
        (0..3).for_each(|more| packets.push(at + more * 5_000, datagram(client, server)));
    }
    let trace = packets.trace();
    let both = run(&service(text), &trace, Paths::Both, Execution::Virtual);
    assert_eq!(both.packets.len(), trace.len());
    let report = &both.report;
    assert!(report.coherence.collisions > 10_000, "the table is full");
    let on_the_way = u64::from(established) * (2 * turns - 10);
    assert!(
        report.fast.packets >= on_the_way,
        "{} on the fast path, of which {on_the_way} are of established flows",
        report.fast.packets
    );
}

/// The report tells slots as the last arrivals met them, not as they are when all state has gone home.
#[test]
fn slots_are_told_as_they_were_while_packets_came_in() {
    let text = format!("[service]{FIREWALL}[fast_path]\nhot_packets = 1\n");
    let mut packets = Packets {
        server: ITSELF,
        all: Vec::new(),
    };
    for number in 0..20 {
        let client = host(10, number);
        packets.connection(u64::from(number) * MS, client, 50, 2 * MS);
    }
    let trace = packets.trace();
    for execution in [Execution::Virtual, Execution::Threads] {
        let found = run(&service(&text), &trace, Paths::Both, execution);
        let slots = &found.report.slots;
        assert!(slots.active > slots.frozen, "{execution:?}: {slots:?}");
        assert_eq!(found.report.slots_at_end.active, 0);
    }
}

/// A host that has as many connections as it may gets no more until one is forgotten.
#[test]
fn a_host_opens_so_many_connections_on_both_paths_alike() {
    let limit = "per_host_connections = 10\n";
    let half_open = "timeouts = { tcp_half_open = \"1s\" }\n";
    let firewall = format!("[service]{FIREWALL}{limit}{half_open}");
    let half_open = "half_open_timeout = \"1s\"\n";
    let table = format!("[load_balancer]\n{limit}{half_open}");
    let balancer = format!("[service]{BALANCER}").replace("[load_balancer]\n", &table);
    // Workers count together.
    for workers in ["", "[slow_path]\nworkers = 4\n"] {
        let [firewall, balancer] = [&firewall, &balancer].map(|text| format!("{text}{workers}"));
        hosts_are_limited(&firewall, ITSELF, "connections_opened");
        hosts_are_limited(&balancer, BEHIND, "new_connections");
    }
}

/// Ten connections, each host.
fn hosts_are_limited(text: &str, server: Server, opened: &str) {
    let mut packets = Packets {
        server,
        all: Vec::new(),
    };
    for number in 0..80u16 {
        // Four hosts: two addresses of IPv4, and one network of IPv6.
        let client = match number % 4 {
            0 | 1 => Endpoint::v4([10, 0, 0, (number % 4) as u8], 2000 + number),
            more => {
                let address = Address(0x2001_0db8_0007_u128 << 80 | u128::from(more));
                Endpoint::new(address, 2000 + number)
            }
        };
        packets.connection(u64::from(number) * 2 * MS, client, 3, 2 * MS);
    }
    let trace = packets.trace();
    let service = service(text);
    let slow = run(&service, &trace, Paths::Slow, Execution::Virtual);
    let both = run(&service, &trace, Paths::Both, Execution::Virtual);
    assert_same(&slow.flows, &both.flows, "a limit of each host");
    assert_share(&both, 0.11, "a limit of each host");
    tell("made one by one", &both.report);
    for Outcome { report, .. } in [&slow, &both] {
        // Of a connection whose opening was refused the rest is picked up, or refused, too.
        let counters = &report.functions[0].counters;
        assert_eq!(counters.get(opened), Some(&30), "ten of each host");
        let refused = report.drops.get("host_limit").copied();
        assert!(refused >= Some(50), "{refused:?}");
        assert_eq!(
            refused.as_ref(),
            counters.get("connections_over_host_limit")
        );
    }
}

/// A translation whose table is full of sessions that are over, of which rules are still there: who comes
/// then gets in, as where there are none.
#[test]
fn sessions_that_are_over_give_way_with_their_rules() {
    let text = "[service]\nname = \"x\"\nchain = [\"napt\"]\ninside = [\"10.0.0.0/8\"]\n\
        [rule_cache]\nthreshold = 0\nwindow = \"2s\"\n\
        [napt]\ninside = [\"10.0.0.0/8\"]\nexternal = [\"198.51.100.1\"]\nassignment = \"preserve\"\n\
        sessions = 16\ntimeouts = { udp = \"2s\" }\n";
    let mut packets = Packets {
        server: ITSELF,
        all: Vec::new(),
    };
    let server = Endpoint::v4([192, 0, 2, 1], 53);
    for group in 0..3 {
        for turn in 0..50 {
            for one in 0..16 {
                let host = Endpoint::v4([10, 0, 0, 1], 2000 + 100 * group + one);
                let at = u64::from(group) * 7_200 + turn * 100;
                packets.push(at * MS + u64::from(one), PacketBuilder::udp(host, server));
            }
        }
    }
    let (service, trace) = (service(text), packets.trace());
    let slow = run(&service, &trace, Paths::Slow, Execution::Virtual);
    let both = run(&service, &trace, Paths::Both, Execution::Virtual);
    assert_eq!(slow.packets.len(), 3 * 50 * 16, "{:?}", slow.report.drops);
    assert_share(&both, 0.5, "a full table");
    assert_same(&slow.flows, &both.flows, "a full table");
    tell("made one by one", &both.report);
    let waited = both.report.rules.total.slow_path.waited;
    assert!(waited >= 16, "rules outlive their sessions: {waited}");
}
