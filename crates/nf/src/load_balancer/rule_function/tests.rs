//! The balancer with rules, without, and beside the one whose connections are a flow's words.

mod changes;
mod model;

use super::super::{Config, LoadBalancer};
use super::{Prepared, RuleBalancer};
use crate::two_caches::{Bench, Outcome};
use twinpath_core::wire::tcp::flags;
use twinpath_core::wire::{Endpoint, MacAddress, PacketBuilder, fields};
use twinpath_core::{DropReason, Instant};
use twinpath_rulecache::{Obstacle, RuleFunction};

const SERVICES: &str = r#"
    table_size = 251
    tcp_timeout = "40s"
    closing_timeout = "10s"
    udp_timeout = "20s"
    [[services]]
    vip = "192.0.2.1:80"
    protocol = "tcp"
    backends = [{ endpoint = "10.1.0.2:8080" }, { endpoint = "10.1.0.3:8081" }, { endpoint = "10.1.0.4:8082" }]
    [[services]]
    vip = "[2001:db8::1]:53"
    protocol = "udp"
    backends = [{ endpoint = "[2001:db8:1::2]:5353" }, { endpoint = "[2001:db8:1::3]:5353" }]
    [[services]]
    vip = "192.0.2.2:80"
    protocol = "tcp"
    return = "direct"
    backends = [{ endpoint = "10.1.0.2:80", mac = "02:00:00:00:01:02" }, { endpoint = "10.1.0.3:80", mac = "02:00:00:00:01:03" }]
"#;

fn config(text: &str) -> Config {
    toml::from_str(text).expect("a valid configuration")
}

fn balancer(text: &str) -> Box<dyn RuleFunction> {
    Box::new(RuleBalancer::new(Prepared::new(&config(text)), 7))
}

fn bench(text: &str) -> Bench {
    Bench::cached(vec![balancer(text)], 16)
}

fn end(text: &str) -> Endpoint {
    text.parse().expect(text)
}

fn at(seconds: u64) -> Instant {
    Instant((1000 + seconds) * 1_000_000_000)
}

fn tcp(from: Endpoint, to: Endpoint, flags: u8) -> PacketBuilder<'static> {
    PacketBuilder::tcp(from, to).flags(flags)
}

fn send(bench: &mut Bench, packet: PacketBuilder<'_>, seconds: u64) -> Outcome {
    let frame = packet.payload_len(9).to_vec().expect("fits");
    bench.process(&frame, 0, at(seconds))
}

fn ends(outcome: Outcome) -> Result<(Endpoint, Endpoint), DropReason> {
    outcome.packet.as_ref().map_err(|reason| *reason)?;
    let (bytes, layout) = outcome.departed();
    Ok((
        fields::source(&bytes, &layout),
        fields::destination(&bytes, &layout),
    ))
}

/// Sends TCP from a client to the first service; answers with the backend.
fn to_service(
    bench: &mut Bench,
    client: &str,
    flags: u8,
    seconds: u64,
) -> Result<Endpoint, DropReason> {
    let packet = tcp(end(client), end("192.0.2.1:80"), flags);
    let (source, backend) = ends(send(bench, packet, seconds))?;
    assert_eq!(source, end(client));
    Ok(backend)
}

#[test]
fn both_directions_are_rewritten_by_rules() {
    let mut bench = bench(SERVICES);
    let client = "198.51.100.7:40000";
    let backend = to_service(&mut bench, client, flags::SYN, 0).expect("a backend");
    assert_eq!((bench.rules(), bench.hits), (0, 0), "SYN makes no rule");
    for _ in 0..3 {
        assert_eq!(to_service(&mut bench, client, flags::ACK, 1), Ok(backend));
        let answer = tcp(backend, end(client), flags::ACK | flags::PSH);
        let answered = ends(send(&mut bench, answer, 1));
        assert_eq!(answered, Ok((end("192.0.2.1:80"), end(client))));
    }
    assert_eq!((bench.rules(), bench.hits), (2, 4));
    let fin = to_service(&mut bench, client, flags::FIN | flags::ACK, 1);
    assert_eq!((fin, bench.hits), (Ok(backend), 4), "FIN meets no rule");
}

#[test]
fn a_direct_return_sets_the_mac_address_alone() {
    let mut bench = bench(SERVICES);
    let (client, vip) = (end("198.51.100.7:40000"), end("192.0.2.2:80"));
    for round in 0..3 {
        let outcome = send(&mut bench, tcp(client, vip, flags::ACK), round);
        let (bytes, _) = outcome.departed();
        let MacAddress([2, 0, 0, 0, 1, 2 | 3]) = fields::destination_mac(&bytes) else {
            panic!("a backend's MAC address")
        };
        let answer = send(&mut bench, tcp(vip, client, flags::ACK), round);
        assert_eq!(ends(answer), Ok((vip, client)));
    }
    assert_eq!((bench.rules(), bench.hits), (2, 4));
}

#[test]
fn other_packets_share_rules() {
    let mut bench = bench(SERVICES);
    for port in 1..100 {
        let from = Endpoint::v4([203, 0, 113, port], 4000 + u16::from(port));
        let packet = tcp(from, end("203.0.114.1:80"), flags::ACK);
        assert_eq!(
            ends(send(&mut bench, packet, 0)),
            Ok((from, end("203.0.114.1:80")))
        );
    }
    assert_eq!((bench.rules(), bench.hits), (1, 98));
    // At the service's address, but not its port or protocol.
    let client = end("203.0.113.1:4001");
    for _ in 0..2 {
        let vip = end("192.0.2.1:81");
        assert_eq!(
            ends(send(&mut bench, tcp(client, vip, 0), 0)),
            Ok((client, vip))
        );
        let vip = end("192.0.2.1:80");
        let udp = send(&mut bench, PacketBuilder::udp(client, vip), 0);
        assert_eq!(ends(udp), Ok((client, vip)));
    }
    assert_eq!((bench.rules(), bench.hits), (3, 100));
}

#[test]
fn packets_that_met_rules_keep_a_connection_alive() {
    let mut bench = bench(SERVICES);
    let client = "198.51.100.7:40000";
    let backend = to_service(&mut bench, client, flags::SYN, 0).expect("a backend");
    for seconds in [1, 10, 19, 28, 37, 46] {
        assert_eq!(
            to_service(&mut bench, client, flags::ACK, seconds),
            Ok(backend)
        );
    }
    assert_eq!(bench.hits, 5, "a rule ends after the shortest time-out");
    assert_eq!(to_service(&mut bench, client, flags::ACK, 80), Ok(backend));
    assert_eq!((bench.hits, bench.counter(0, "new_connections")), (5, 1));
    assert_eq!(to_service(&mut bench, client, flags::ACK, 121), Ok(backend));
    assert_eq!(
        bench.counter(0, "new_connections"),
        2,
        "silent for too long"
    );
}

#[test]
fn idle_connections_are_forgotten_and_make_room() {
    let mut bench = bench(&format!("connections = 2\n{SERVICES}"));
    let client = |number: u16| format!("198.51.100.7:{}", 1000 + number);
    assert!(to_service(&mut bench, &client(1), flags::ACK, 0).is_ok());
    assert!(to_service(&mut bench, &client(2), flags::ACK, 9).is_ok());
    let full = to_service(&mut bench, &client(3), flags::ACK, 9);
    assert_eq!(full, Err(DropReason::FlowTableFull));
    assert_eq!(bench.obstacle, Some(Obstacle::Undecided));
    assert!(
        to_service(&mut bench, &client(1), flags::ACK, 9).is_ok(),
        "by its rule"
    );
    bench.tell_all();
    bench.tick(at(45));
    assert_eq!(bench.counter(0, "connections"), 2, "used until 9 s");
    bench.free(0, [super::CONNECTION | 1, super::CONNECTION | 2]);
    bench.tick(at(50));
    assert_eq!(bench.counter(0, "connections"), 0);
    assert!(to_service(&mut bench, &client(3), flags::ACK, 50).is_ok());
}

#[test]
fn wrong_numbers_of_connections_are_refused() {
    let message = toml::from_str::<Config>(&format!("connections = 0\n{SERVICES}"));
    let message = message.expect_err("too few").to_string();
    assert!(
        message.contains("connections = 0 is not from 1 to"),
        "{message}"
    );
}
