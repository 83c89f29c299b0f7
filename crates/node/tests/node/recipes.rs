//! The recipes of the manual do what their pages say, on both paths alike.

use crate::common::conversing::{converse, converse_alone};
use crate::common::inside::by_inside;
use crate::common::rows::tell;
use crate::common::{Outcome, assert_same_but_for_names, by_flow, generate};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use twinpath_classify::Prefix;
use twinpath_control::live::Live;
use twinpath_control::report::Report;
use twinpath_control::service::{Execution, Paths, Service};
use twinpath_core::wire::{Address, Endpoint, PacketBuilder, dissect, fields};
use twinpath_io::{CaptureReader, CaptureWriter, Next, Trace};
use twinpath_node::run::{Ports, run};
use twinpath_traffic::config::Arrivals;
use twinpath_traffic::{Direction, Generator, TrafficConfig};

fn recipe(name: &str) -> Service {
    let path = format!("../../docs/recipes/{name}.toml");
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    Service::load(&path).unwrap_or_else(|error| panic!("{error}"))
}

/// A recipe's own traffic, but less of it and slower, so that there is time for rules.
fn traffic(service: &Service, packets: u64) -> TrafficConfig {
    let mut traffic = service.traffic.clone().expect("the recipe has traffic");
    traffic.packets = Some(packets);
    traffic.flows = 200;
    traffic.churn_per_minute = 1000.0;
    traffic.arrivals = Arrivals::Constant { rate_pps: 2000.0 };
    traffic
}

fn counter(report: &Report, function: &str, counter: &str) -> u64 {
    let function = report.functions.iter().find(|one| one.name == function);
    function.map_or(0, |one| one.counters.get(counter).copied().unwrap_or(0))
}

fn source(packet: &[u8]) -> Endpoint {
    fields::source(packet, &dissect(packet).expect("sound"))
}

fn destination(packet: &[u8]) -> Endpoint {
    fields::destination(packet, &dissect(packet).expect("sound"))
}

fn is_in(prefix: &str, address: Address) -> bool {
    let prefix: Prefix = prefix.parse().expect("a prefix");
    prefix.includes(address)
}

fn end(text: &str) -> Endpoint {
    text.parse().expect("an endpoint")
}

/// What clients send and servers answer, on both paths; it is the same on the slow path alone but
/// for ports of the external addresses. Tells how many requests there were, too.
fn conversation(service: &Service, packets: u64, external: &str) -> (Outcome, Trace) {
    let requests = generate(&traffic(service, packets), service.seed);
    let (expected, plan) = converse_alone(service, &requests, Duration::from_millis(20));
    let found = converse(service, &requests, &plan, Execution::Virtual);
    assert_same_but_for_names(&expected, &found, external, &service.name);
    tell("generated, answered", &found.report);
    let share = found.report.fast.share;
    assert!(share > 0.3, "{}: {share} on the fast path", service.name);
    (found, requests)
}

/// How many packets to anywhere satisfy something.
fn count<'a>(packets: impl Iterator<Item = &'a [u8]>, of: impl Fn(&[u8]) -> bool) -> u64 {
    packets.filter(|packet| of(packet)).count() as u64
}

fn out(outcome: &Outcome) -> impl Iterator<Item = &[u8]> {
    outcome.packets.iter().map(|(_, packet)| packet.as_slice())
}

/// Packets by the number of the port that they come in by, in order of their times, and what leaves,
/// by port. Both paths agree.
fn replayed(service: &Service, packets: &[(u64, u32, Vec<u8>)]) -> (Vec<(u32, Vec<u8>)>, Report) {
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str| folder.path().join(name);
    let input = file("in.pcapng");
    let mut writer = CaptureWriter::with_interfaces(&input, &service.ports).expect("a file");
    for (at, port, packet) in packets {
        writer.write_on(*port, *at, packet).expect("written");
    }
    writer.finish().expect("written");
    let through = |paths, output: PathBuf| {
        let mut service = service.clone();
        (service.run.paths, service.run.execution) = (paths, Execution::Virtual);
        let ports = Ports {
            input: Some(input.clone()),
            output: Some(output.clone()),
            ..Ports::default()
        };
        let finished = run(&service, &ports, Live::hidden(), &AtomicBool::new(false));
        let finished = finished.unwrap_or_else(|error| panic!("{error}"));
        let order = finished.written.order;
        assert!(order.is_in_order(), "{order}");
        (packets_of(&output), finished.report)
    };
    let (alone, _) = through(Paths::Slow, file("alone.pcapng"));
    let (both, report) = through(Paths::Both, file("both.pcapng"));
    let flows =
        |left: &[(u32, Vec<u8>)]| by_flow(left.iter().map(|(_, packet)| packet.clone()).collect());
    assert!(
        flows(&alone) == flows(&both),
        "{}: paths differ",
        service.name
    );
    tell("made one by one", &report);
    (both, report)
}

fn packets_of(path: &Path) -> Vec<(u32, Vec<u8>)> {
    let mut reader = CaptureReader::open(path).expect("a capture");
    let (mut left, mut buffer) = (Vec::new(), vec![0; 1 << 16]);
    while let Next::Frame(record) = reader.next_into(&mut buffer).expect("sound") {
        left.push((record.interface, buffer[..record.captured_len].to_vec()));
    }
    left
}

fn udp(from: &str, to: &str) -> Vec<u8> {
    let packet = PacketBuilder::udp(end(from), end(to)).payload(b"nobody asked");
    packet.to_vec().expect("it fits")
}

#[test]
fn a_home_gateway_hides_hosts_and_lets_answers_in() {
    let service = recipe("home-gateway");
    let (found, requests) = conversation(&service, 6000, "198.51.100.7/32");
    let is_netbios = |packet: &[u8]| destination(packet).port == 137;
    let denied = count(requests.iter().map(|frame| frame.frame), is_netbios);
    assert!(denied > 100);
    assert_eq!(found.report.drops.get("denied"), Some(&denied));
    // What left for the provider, and what left for home, by the neighbours' addresses.
    let to_provider = |packet: &[u8]| packet[..6] == [2, 0, 0, 0, 1, 1];
    let (sent, answered) = (
        count(out(&found), to_provider),
        count(out(&found), |packet| !to_provider(packet)),
    );
    assert_eq!(sent, 6000 - denied);
    assert_eq!(answered, sent, "servers answer all that reaches them");
    for packet in out(&found) {
        let (from, to) = (source(packet).address, destination(packet).address);
        match to_provider(packet) {
            true if from.is_v4() => assert!(is_in("198.51.100.7", from)),
            true => assert!(is_in("2001:db8:1::/64", from)),
            false => assert!(is_in("192.168.1.0/24", to) || is_in("2001:db8:1::/64", to)),
        }
    }
    assert!(out(&found).any(|packet| !source(packet).address.is_v4()));
    let report = &found.report;
    assert!(counter(report, "napt", "bindings_created") > 20);
    assert!(counter(report, "firewall", "connections_opened") > 20);
    assert_eq!(counter(report, "router", "forwarded"), sent + answered);
}

#[test]
fn nobody_gets_into_a_home_unasked() {
    let (lan, wan) = (0, 1);
    let at = |milliseconds: u64| 1_000_000_000 + milliseconds * 1_000_000;
    let asked = (at(0), lan, udp("192.168.1.10:5000", "203.0.113.53:53"));
    // What stands for the host outside.
    let (left, _) = replayed(&recipe("home-gateway"), std::slice::from_ref(&asked));
    let external = source(&left[0].1).to_string();
    let packets = [
        asked,
        (at(10), wan, udp("203.0.113.53:53", &external)),
        (at(20), wan, udp("203.0.113.66:53", &external)),
        (at(30), wan, udp("203.0.113.66:99", "198.51.100.7:22")),
        (
            at(40),
            wan,
            udp("[2001:db8:66::1]:99", "[2001:db8:1::10]:22"),
        ),
        (at(50), wan, udp("192.168.1.10:99", "192.168.1.11:22")),
        (at(60), lan, udp("203.0.113.9:99", "203.0.113.53:53")),
    ];
    let (left, report) = replayed(&recipe("home-gateway"), &packets);
    let left: Vec<_> = left
        .iter()
        .map(|(port, packet)| (*port, destination(packet)))
        .collect();
    let expected = [
        (wan, end("203.0.113.53:53")),
        (lan, end("192.168.1.10:5000")),
    ];
    assert_eq!(left, expected);
    assert_eq!(report.dropped(), 5, "{:?}", report.drops);
    for spoofed in ["source_inside", "source_outside"] {
        assert_eq!(report.drops.get(spoofed), Some(&1));
    }
    assert!(counter(&report, "napt", "unsolicited") >= 1);
}

#[test]
fn a_carrier_nat_gives_each_subscriber_one_address() {
    let service = recipe("carrier-nat");
    let (found, requests) = conversation(&service, 6000, "198.51.100.0/24");
    assert_eq!(found.packets.len(), 2 * requests.len());
    let (mut outside, mut inside) = (0, 0);
    for packet in out(&found) {
        match is_in("100.64.0.0/10", destination(packet).address) {
            true => inside += 1,
            false if is_in("198.51.100.0/28", source(packet).address) => outside += 1,
            false => panic!("{} left as it was", source(packet)),
        }
    }
    assert_eq!((outside, inside), (6000, 6000));
    let report = &found.report;
    assert_eq!(report.dropped(), 0, "{:?}", report.drops);
    assert!(counter(report, "napt", "bindings_created") >= 200);
    assert_eq!(counter(report, "monitor", "packets"), 12_000);
}

/// Endpoint-independent mapping, paired addresses: the same binding whomever it talks to, and the
/// same address for another binding of the subscriber.
#[test]
fn subscribers_keep_their_binding_and_can_be_called() {
    let (subscribers, internet) = (0, 1);
    let service = recipe("carrier-nat");
    let at = |milliseconds: u64| 1_000_000_000 + milliseconds * 1_000_000;
    let asked = [
        (
            at(0),
            subscribers,
            udp("100.64.0.7:5060", "203.0.113.1:5060"),
        ),
        (
            at(10),
            subscribers,
            udp("100.64.0.7:5060", "203.0.113.2:5060"),
        ),
        (
            at(20),
            subscribers,
            udp("100.64.0.7:7000", "203.0.113.2:5060"),
        ),
    ];
    let (left, _) = replayed(&service, &asked);
    let from: Vec<Endpoint> = left.iter().map(|(_, packet)| source(packet)).collect();
    assert_eq!(from[0], from[1]);
    assert_eq!(from[0].address, from[2].address);
    assert_ne!(from[0].port, from[2].port);
    let caller = udp("203.0.113.99:4000", &from[0].to_string());
    let stranger = udp(
        "203.0.113.99:4000",
        &Endpoint::new(from[0].address, 9).to_string(),
    );
    let mut called = asked.to_vec();
    called.push((at(30), internet, caller));
    called.push((at(40), internet, stranger));
    let (left, report) = replayed(&service, &called);
    let (port, last) = left.last().expect("packets");
    assert_eq!(
        (*port, destination(last)),
        (subscribers, end("100.64.0.7:5060"))
    );
    assert_eq!(left.len(), 4, "the stranger's is dropped");
    assert_eq!(counter(&report, "napt", "unsolicited"), 1);
}

#[test]
fn a_load_balancer_spreads_connections_and_hides_servers() {
    let service = recipe("load-balancer");
    let (found, requests) = conversation(&service, 6000, "10.1.0.0/24");
    assert_eq!(found.packets.len(), 2 * requests.len());
    let services = ["192.0.2.80:443", "[2001:db8::80]:443", "192.0.2.53:53"].map(end);
    let is_answer = |packet: &[u8]| services.contains(&source(packet));
    assert_eq!(count(out(&found), is_answer), 6000);
    let to = |server: &str| count(out(&found), |packet| destination(packet) == end(server));
    for server in [
        "10.1.0.1:8443",
        "10.1.0.2:8443",
        "10.1.0.3:8443",
        "[2001:db8:1::1]:8443",
        "[2001:db8:1::2]:8443",
        "10.1.0.11:53",
        "10.1.0.12:53",
    ] {
        assert!(to(server) > 100, "{server}: {}", to(server));
    }
    assert_eq!(to("10.1.0.4:8443"), 0, "it is drained");
    assert!(
        to("10.1.0.3:8443") > to("10.1.0.1:8443"),
        "it has twice the weight"
    );
    let balancer = |name| counter(&found.report, "load_balancer", name);
    assert!(balancer("new_connections") > 200);
    assert_eq!(balancer("reassigned"), 0);
}

/// The recipe's own traffic in both directions, and an attacker's packets between.
fn under_attack(service: &Service, packets: u64) -> Vec<(u64, u32, Vec<u8>)> {
    let (internet, servers) = (0, 1);
    let mut generator = Generator::new(&traffic(service, packets), 1).expect("it is valid");
    let (mut all, mut buffer) = (Vec::new(), vec![0; generator.frame_bytes_max()]);
    while let Some(packet) = generator.next_into(&mut buffer) {
        let port = match packet.direction {
            Direction::ToServer => internet,
            Direction::ToClient => servers,
        };
        let at = packet.timestamp_ns + 1_000_000_000;
        all.push((at, port, buffer[..packet.len].to_vec()));
        if all.len() % 10 == 0 {
            all.push((at, internet, attack(all.len() / 10)));
        }
    }
    all
}

/// Reflected, spoofed, out of the blue: by number.
fn attack(number: usize) -> Vec<u8> {
    let reflector = format!("203.0.112.{}", number % 200 + 1);
    match number % 4 {
        0 => udp(&format!("{reflector}:123"), "198.51.100.53:53"),
        1 => udp("198.51.100.80:999", "198.51.100.53:53"),
        2 => udp("[2001:db8:100::80]:999", "[2001:db8:100::53]:53"),
        _ => {
            let (from, to) = (format!("{reflector}:7777"), end("198.51.100.80:443"));
            let segment = PacketBuilder::tcp(end(&from), to).seq(1).ack(1);
            segment.to_vec().expect("it fits")
        }
    }
}

#[test]
fn a_ddos_filter_lets_clients_through_and_nothing_else() {
    let service = recipe("ddos-filter");
    let packets = under_attack(&service, 8000);
    let (left, report) = replayed(&service, &packets);
    let is_attacker = |packet: &[u8]| is_in("203.0.113.64/26", source(packet).address);
    let is_served = |packet: &[u8]| [443, 53].contains(&destination(packet).port);
    let is_sound = |packet: &[u8]| {
        let from = source(packet);
        !is_attacker(packet)
            && is_served(packet)
            && !is_in("198.51.100.0/24", from.address)
            && !is_in("2001:db8:100::/48", from.address)
            && !is_in("203.0.112.0/24", from.address)
    };
    let from_internet = |all: &[(u32, &[u8])], of: &dyn Fn(&[u8]) -> bool| {
        let of_port = all.iter().filter(|(port, packet)| *port == 0 && of(packet));
        of_port.count()
    };
    let came: Vec<(u32, &[u8])> = packets
        .iter()
        .map(|(_, port, packet)| (*port, packet.as_slice()))
        .collect();
    let to_servers: Vec<&[u8]> = left
        .iter()
        .filter(|(port, _)| *port == 1)
        .map(|(_, packet)| packet.as_slice())
        .collect();
    assert!(
        to_servers.iter().all(|packet| is_sound(packet)),
        "an attack passed"
    );
    let (sound, attacks) = (
        from_internet(&came, &is_sound),
        from_internet(&came, &is_attacker),
    );
    assert!(attacks > 20 && sound > 2000, "{attacks}, {sound}");
    // Segments that come after a connection's end are no client's loss.
    assert!(
        to_servers.len() * 100 >= sound * 97,
        "{} of {sound}",
        to_servers.len()
    );
    assert!(counter(&report, "shield", "denied") > 1000);
    assert!(
        counter(&report, "firewall", "packets_denied") > 100,
        "segments of no connection"
    );
    assert!(report.fast.share > 0.3, "{:?}", report.fast);
}

/// Probes for what is not served, each from another source: few rules stop them all.
#[test]
fn a_flood_from_many_sources_stays_on_the_fast_path() {
    let service = recipe("ddos-filter");
    let internet = 0;
    let probe = |number: u32| {
        let [_, high, middle, low] = number.to_be_bytes();
        let from = format!("20.{high}.{middle}.{low}:5000");
        let at = 1_000_000_000 + u64::from(number) * 100_000;
        (at, internet, udp(&from, "198.51.100.80:11211"))
    };
    let packets: Vec<_> = (0..50_000).map(probe).collect();
    let (left, report) = replayed(&service, &packets);
    assert_eq!(left, []);
    assert_eq!(report.drops.get("denied"), Some(&50_000));
    assert!(report.fast.share > 0.9, "{:?}", report.fast);
}

/// A DPU for a tenant: nothing of its configuration waits, the machines reach each other by the fast path,
/// and mail is dropped.
#[test]
fn dpu() {
    let mut service = recipe("dpu");
    service.traffic = Some(traffic(&service, 6_000));
    let through = |paths| {
        let mut service = service.clone();
        (service.run.paths, service.run.execution) = (paths, Execution::Virtual);
        let folder = tempfile::tempdir().expect("a folder");
        let output = folder.path().join("out.pcap");
        let ports = Ports {
            output: Some(output.clone()),
            ..Ports::default()
        };
        let finished = run(&service, &ports, Live::hidden(), &AtomicBool::new(false));
        let finished = finished.unwrap_or_else(|error| panic!("{error}"));
        (
            by_inside(packets_of(&output).iter().map(|(_, packet)| packet)),
            finished.report,
        )
    };
    let (alone, _) = through(Paths::Slow);
    let (both, report) = through(Paths::Both);
    assert!(alone == both, "paths differ");
    tell("generated", &report);
    let share = report.fast.share;
    assert!(share > 0.5, "{share} on the fast path");
    let dash = report.dash.as_ref().expect("a DPU");
    assert_eq!(dash.enis.len(), 2);
    for eni in &dash.enis {
        assert!(
            eni.outbound.sent_packets > 500 && eni.inbound.sent_packets > 100,
            "{eni:?}"
        );
        let mail = eni.drops.get("acl_outbound").copied().unwrap_or(0);
        assert!(mail > 0, "{eni:?}");
    }
    let created = dash.enis.iter().map(|eni| eni.flows_created).sum::<u64>();
    assert_eq!(counter(&report, "dash", "flows_created"), created);
    let instance = &service.chain[0];
    let config = instance
        .config
        .of::<twinpath_nf::dash::Config>()
        .expect("a DPU");
    assert_eq!(config.store().unsettled(), [0, 0], "all is in force");
}
