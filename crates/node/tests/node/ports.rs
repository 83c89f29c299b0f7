//! Ports: by which packets come in, and by which they leave.

use crate::common::rows::tell;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use tempfile::TempDir;
use twinpath_control::live::Live;
use twinpath_control::service::{Execution, Paths, Service};
use twinpath_core::wire::{Endpoint, PacketBuilder};
use twinpath_io::{CaptureReader, CaptureWriter, Next};
use twinpath_node::run::{Finished, Ports, RunError, run};

/// What left: the port, and the packet.
type Left = Vec<(u32, Vec<u8>)>;

const ROUTED: &str = r#"
[service]
name = "routed"
chain = ["router"]
ports = ["site", "uplink", "peer"]
inside_ports = ["site"]
[router]
next_hops = [
    { name = "uplink", mac = "02:00:00:00:01:01", source_mac = "02:00:00:00:00:01", port = "uplink" },
    { name = "peer", mac = "02:00:00:00:02:01", source_mac = "02:00:00:00:00:02", port = 2 },
    { name = "site", mac = "02:00:00:00:03:01", source_mac = "02:00:00:00:00:03", port = "site" },
]
routes = [
    { to = "0.0.0.0/0", via = "uplink" },
    { to = "192.0.2.0/24", via = "peer" },
    { to = "10.0.0.0/8", via = "site" },
]
[rule_cache]
window = "20ms"
threshold = 1
"#;

fn service(text: &str, paths: Paths, execution: Execution) -> Service {
    let mut service =
        Service::parse(text, Path::new("ports.toml")).unwrap_or_else(|error| panic!("{error}"));
    (service.run.paths, service.run.execution) = (paths, execution);
    service
}

fn refused(text: &str) -> String {
    let error = Service::parse(text, Path::new("ports.toml"));
    error.expect_err("it is wrong").to_string()
}

fn end(address: &str, port: u16) -> Endpoint {
    Endpoint::new(address.parse().expect("an address"), port)
}

fn udp_frame(from: &str, from_port: u16, to: &str, to_port: u16) -> Vec<u8> {
    let packet = PacketBuilder::udp(end(from, from_port), end(to, to_port));
    packet.to_vec().expect("it fits")
}

fn tcp_frame(from: &str, from_port: u16, to: &str, to_port: u16) -> Vec<u8> {
    let packet = PacketBuilder::tcp(end(from, from_port), end(to, to_port));
    packet.to_vec().expect("it fits")
}

/// Packets of a few flows, each often enough to be cached, on the interfaces `site`, `uplink`.
fn capture(folder: &TempDir) -> PathBuf {
    let path = folder.path().join("in.pcapng");
    let mut writer = CaptureWriter::with_interfaces(&path, &["uplink", "site"]).expect("a file");
    for number in 0..200u64 {
        let at = 1_000_000_000 + number * 1_000_000;
        let port = 1000 + (number % 3) as u16;
        let out = [
            udp_frame("10.0.0.1", port, "192.0.2.7", 53),
            tcp_frame("10.0.0.2", port, "203.0.113.9", 443),
        ];
        let back = tcp_frame("203.0.113.9", 443, "10.0.0.2", port);
        for (step, frame) in out.into_iter().enumerate() {
            writer
                .write_on(1, at + step as u64, &frame)
                .expect("written");
        }
        writer.write_on(0, at + 500_000, &back).expect("written");
    }
    writer.finish().expect("written");
    path
}

fn through(service: &Service, input: &Path, output: &Path) -> Finished {
    let ports = Ports {
        input: Some(input.into()),
        output: Some(output.into()),
        ..Ports::default()
    };
    let finished = run(service, &ports, Live::hidden(), &AtomicBool::new(false));
    let finished = finished.unwrap_or_else(|error| panic!("{error}"));
    let order = finished.written.order;
    assert!(order.is_in_order(), "{order}");
    if service.run.paths == Paths::Both {
        tell("made one by one", &finished.report);
    }
    finished
}

fn packets_of(path: &Path) -> Left {
    let mut reader = CaptureReader::open(path).expect("a capture");
    let (mut left, mut buffer) = (Vec::new(), vec![0; 1 << 16]);
    while let Next::Frame(record) = reader.next_into(&mut buffer).expect("sound") {
        left.push((record.interface, buffer[..record.captured_len].to_vec()));
    }
    left
}

/// The router's ports are those that packets leave by, on both paths alike, cached or not.
#[test]
fn packets_leave_by_the_port_that_the_router_says() {
    let folder = tempfile::tempdir().expect("a folder");
    let input = capture(&folder);
    let output = |name: &str| folder.path().join(name);
    for execution in [Execution::Virtual, Execution::Threads] {
        let alone = service(ROUTED, Paths::Slow, execution);
        through(&alone, &input, &output("alone.pcapng"));
        let both = service(ROUTED, Paths::Both, execution);
        let finished = through(&both, &input, &output("both.pcapng"));
        let report = finished.report;
        assert!(report.fast.packets > 300, "{:?}", report.fast);
        let by_port = |left: &Left| [0, 1, 2].map(|port| of_port(left, port));
        let (alone, both) = (
            packets_of(&output("alone.pcapng")),
            packets_of(&output("both.pcapng")),
        );
        assert_eq!(by_port(&both), by_port(&alone));
        assert_eq!(by_port(&both).map(|packets| packets.len()), [200, 200, 200]);
        for (port, mac) in [(0, 3), (1, 1), (2, 2)] {
            let has_mac = |frame: &Vec<u8>| frame[..6] == [2, 0, 0, 0, mac, 1];
            assert!(of_port(&both, port).iter().all(has_mac));
        }
    }
}

/// Neighbours that are known by their addresses: packets to them leave by their ports, on both paths
/// alike, whose MAC addresses only interfaces can tell.
#[test]
fn packets_to_neighbours_by_address_leave_by_their_ports() {
    let by_address = ROUTED
        .replace(
            "mac = \"02:00:00:00:01:01\", source_mac = \"02:00:00:00:00:01\"",
            "address = \"203.0.113.1\"",
        )
        .replace(
            "mac = \"02:00:00:00:03:01\", source_mac = \"02:00:00:00:00:03\", ",
            "",
        );
    assert!(by_address.contains("address =") && !by_address.contains("02:00:00:00:03:01"));
    let folder = tempfile::tempdir().expect("a folder");
    let input = capture(&folder);
    let output = |name: &str| folder.path().join(name);
    for execution in [Execution::Virtual, Execution::Threads] {
        through(
            &service(&by_address, Paths::Slow, execution),
            &input,
            &output("alone.pcapng"),
        );
        let both = service(&by_address, Paths::Both, execution);
        let finished = through(&both, &input, &output("both.pcapng"));
        assert!(
            finished.report.fast.packets > 300,
            "{:?}",
            finished.report.fast
        );
        let by_port = |name: &str| [0, 1, 2].map(|port| of_port(&packets_of(&output(name)), port));
        let (alone, both) = (by_port("alone.pcapng"), by_port("both.pcapng"));
        assert_eq!(both, alone);
        assert_eq!(both.map(|packets| packets.len()), [200, 200, 200]);
    }
}

/// A service that takes another's place calls its neighbours by the same numbers.
#[test]
fn neighbours_keep_their_numbers_in_a_new_service() {
    let text = |first: &str| {
        format!(
            "[service]\nchain = [\"router\"]\nports = [\"a\", \"b\"]\n[router]\nnext_hops = [{first}\n\
             {{ name = \"one\", address = \"192.0.2.1\", port = \"a\" }},\n{{ name = \"all\", port = \"b\" }}]\n\
             routes = [{{ to = \"0.0.0.0/0\", via = \"one\" }}, {{ to = \"10.0.0.0/8\", via = \"all\" }}]\n"
        )
    };
    let parsed = |text: &str| service(text, Paths::Both, Execution::Virtual);
    let old = parsed(&text(""));
    let mut new = parsed(&text(
        "{ name = \"new\", address = \"192.0.2.9\", port = \"b\" },",
    ));
    assert_ne!(old.adjacencies.all()[..], new.adjacencies.all()[..2]);
    let known = old.adjacencies.all();
    new.adopt_adjacencies(&old).expect("there is room");
    assert_eq!(new.adjacencies.all()[..2], known[..]);
    assert_eq!(new.adjacencies.all().len(), 3);
}

/// Frames that pass by the chain have no router to say which of three ports they leave by: that is
/// loss, and told as loud as any other.
#[test]
fn what_has_no_port_to_leave_by_is_lost() {
    let folder = tempfile::tempdir().expect("a folder");
    let input = folder.path().join("arp.pcapng");
    let mut writer = CaptureWriter::with_interfaces(&input, &["site", "uplink"]).expect("a file");
    let mut arp = [0; 60];
    arp[12..14].copy_from_slice(&[0x08, 0x06]);
    for number in 0..7 {
        writer
            .write_on(0, number * 1_000_000, &arp)
            .expect("written");
    }
    writer.finish().expect("written");
    let text = ROUTED.replacen("chain =", "unparsed = \"forward\"\nchain =", 1);
    for execution in [Execution::Virtual, Execution::Threads] {
        let service = service(&text, Paths::Both, execution);
        let report = through(&service, &input, &folder.path().join("out.pcapng")).report;
        assert_eq!(report.drops["no_egress"], 7, "{execution:?}");
        assert_eq!(report.lost(), 7, "{:?}", report.drops);
    }
}

fn of_port(left: &Left, port: u32) -> Vec<Vec<u8>> {
    let of_port = left.iter().filter(|(one, _)| *one == port);
    let mut packets: Vec<Vec<u8>> = of_port.map(|(_, packet)| packet.clone()).collect();
    packets.sort();
    packets
}

/// Without a router a packet leaves by the other of two ports; a file for each port, in and out.
#[test]
fn a_bump_in_the_wire_has_a_file_for_each_port() {
    let folder = tempfile::tempdir().expect("a folder");
    for (port, from, to) in [
        ("left", "10.0.0.1", "10.0.0.2"),
        ("right", "10.0.0.2", "10.0.0.1"),
    ] {
        let path = folder.path().join(format!("in-{port}.pcap"));
        let mut writer = CaptureWriter::create(path).expect("a file");
        for number in 0..400 {
            let frame = udp_frame(from, 1000 + number as u16 % 4, to, 2000);
            writer
                .write(1_000_000_000 + 1_000_000 * number, &frame)
                .expect("written");
        }
        writer.finish().expect("written");
    }
    let text = "[service]\nchain = [\"monitor\"]\nports = [\"left\", \"right\"]\ninside_ports = [\"left\"]\n\
                [rule_cache]\nwindow = \"5ms\"\nthreshold = 0\n";
    let service = service(text, Paths::Both, Execution::Virtual);
    let pattern = |what: &str| folder.path().join(format!("{what}-{{port}}.pcap"));
    let report = through(&service, &pattern("in"), &pattern("out")).report;
    assert!(report.fast.share > 0.5, "{:?}", report.fast);
    for (from, to) in [("left", "right"), ("right", "left")] {
        let path = |what: &str, port: &str| folder.path().join(format!("{what}-{port}.pcap"));
        assert_eq!(packets_of(&path("out", to)), packets_of(&path("in", from)));
    }
}

/// In order a packet meets the list before the translation, in reverse behind it. A packet that
/// comes in by the other port is from outside, whatever source it claims: nobody translates it.
#[test]
fn which_way_a_packet_goes_may_be_told_by_its_port() {
    let folder = tempfile::tempdir().expect("a folder");
    let text = r#"
[service]
chain = ["acl", "napt"]
ports = ["in", "out"]
inside_ports = ["in"]
source_check = "off"
[acl]
default = "allow"
rules = [{ action = "deny", from = "198.51.100.1" }, { action = "deny", to = "10.0.0.1" }]
[napt]
inside = ["10.0.0.0/8"]
external = ["198.51.100.1"]
forward = [{ protocol = "udp", external = "198.51.100.1:53", to = "10.0.0.1:53" }]
"#;
    let (host, external, other) = ("10.0.0.1", "198.51.100.1", "192.0.2.7");
    for paths in [Paths::Slow, Paths::Both] {
        for (port, from, to, expected) in [
            (0, host, other, Some(external)),
            (1, other, external, None),
            (1, host, other, Some(host)),
        ] {
            let input = folder.path().join("in.pcapng");
            let mut writer =
                CaptureWriter::with_interfaces(&input, &["in", "out"]).expect("a file");
            for at in 1..=500 {
                let frame = udp_frame(from, 1000, to, 53);
                writer
                    .write_on(port, at * 10_000_000, &frame)
                    .expect("written");
            }
            writer.finish().expect("written");
            let output = folder.path().join("out.pcapng");
            let service = service(text, paths, Execution::Virtual);
            let finished = through(&service, &input, &output);
            let is_cached = finished.report.fast.packets > 400;
            assert_eq!(
                is_cached,
                paths == Paths::Both,
                "{:?}",
                finished.report.fast
            );
            let left = packets_of(&output);
            let Some(expected) = expected else {
                assert!(left.is_empty(), "the list is behind the translation");
                continue;
            };
            assert_eq!(left.len(), 500);
            let expected: std::net::Ipv4Addr = expected.parse().expect("an address");
            assert!(
                left.iter()
                    .all(|(to, frame)| *to == 1 - port && frame[26..30] == expected.octets())
            );
        }
    }
}

const GUARDED: &str = r#"
[service]
chain = ["acl"]
ports = ["lan", "uplink"]
[acl]
default = "deny"
rules = [
    { action = "deny", ingress = "uplink", from = "10.0.0.0/8" },
    { action = "deny", ingress = "uplink", from = "fd00::/8" },
    { action = "allow", from = "10.0.0.0/8" },
    { action = "allow", from = "fd00::/8" },
    { action = "allow", ingress = "uplink" },
]
[rule_cache]
window = "20ms"
threshold = 0
"#;

/// The same packets of both IP versions by either port: what the list says of the port counts, on
/// both paths alike.
#[test]
fn an_access_list_may_ask_for_the_port_of_arrival() {
    let folder = tempfile::tempdir().expect("a folder");
    let input = folder.path().join("in.pcapng");
    let hosts = [
        ("10.0.0.1", "192.0.2.7"),
        ("192.0.2.7", "10.0.0.1"),
        ("fd00::1", "2001:db8::7"),
        ("2001:db8::7", "fd00::1"),
    ];
    let mut writer = CaptureWriter::with_interfaces(&input, &["lan", "uplink"]).expect("a file");
    for round in 0..200 {
        for (place, (from, to)) in (0..).zip(hosts) {
            let frame = udp_frame(from, 1000, to, 53);
            for port in 0..2u32 {
                let at = 1_000_000_000 + round * 5_000_000 + place * 10 + u64::from(port);
                writer.write_on(port, at, &frame).expect("written");
            }
        }
    }
    writer.finish().expect("written");
    for (paths, least_fast) in [(Paths::Slow, 0), (Paths::Both, 1200)] {
        for execution in [Execution::Virtual, Execution::Threads] {
            let output = folder.path().join("out.pcapng");
            let finished = through(&service(GUARDED, paths, execution), &input, &output);
            assert!(
                finished.report.fast.packets >= least_fast,
                "{paths:?} {execution:?}"
            );
            let left = packets_of(&output);
            // What came in by the one leaves by the other.
            for (port, passing) in [(1, [hosts[0], hosts[2]]), (0, [hosts[1], hosts[3]])] {
                let mut expected = passing.map(|(from, to)| udp_frame(from, 1000, to, 53));
                expected.sort();
                let found = of_port(&left, port);
                assert_eq!(found.len(), 400, "{paths:?} {execution:?}");
                assert!(found[..200].iter().all(|frame| *frame == expected[0]));
                assert!(found[200..].iter().all(|frame| *frame == expected[1]));
            }
        }
    }
}

#[test]
fn what_is_wrong_with_ports_is_told_with_its_line() {
    let with = |from: &str, to: &str| refused(&ROUTED.replace(from, to));
    let error = with("port = \"uplink\"", "port = \"downlink\"");
    assert!(
        error.contains("ports.toml:9")
            && error.contains(
                "no port is called \"downlink\": expected one of \"site\", \"uplink\", \"peer\""
            ),
        "{error}"
    );
    let error = with("port = 2", "port = 3");
    assert!(
        error.contains("ports.toml:10") && error.contains("no such port"),
        "{error}"
    );
    let error = with(
        "ports = [\"site\", \"uplink\", \"peer\"]\ninside_ports = [\"site\"]",
        "",
    );
    assert!(
        error.contains("expected ports = [...] in [service]"),
        "{error}"
    );
    let error = with("\"uplink\", \"peer\"]", "\"site\", \"peer\"]");
    assert!(
        error.contains("ports.toml:5") && error.contains("two ports are called site"),
        "{error}"
    );
    let guarded = |from: &str, to: &str| refused(&GUARDED.replacen(from, to, 1));
    let error = guarded("ingress = \"uplink\"", "ingress = \"wan\"");
    assert!(
        error.contains("ports.toml:8")
            && error.contains("no port is called \"wan\": expected one of \"lan\", \"uplink\""),
        "{error}"
    );
    let error = guarded("ingress = \"uplink\"", "ingress = 1");
    assert!(
        error.contains("ports.toml:8") && error.contains("expected the name of a port"),
        "{error}"
    );
    let error = guarded("ports = [\"lan\", \"uplink\"]", "");
    assert!(
        error.contains("expected ports = [...] in [service]"),
        "{error}"
    );
    let error = refused(&GUARDED.replace("acl", "firewall").replacen(
        "\"uplink\", f",
        "\"wan\", f",
        1,
    ));
    assert!(
        error.contains("ports.toml:8") && error.contains("no port is called \"wan\""),
        "{error}"
    );
    let error = refused("[service]\nchain = [\"monitor\"]\nports = [\"a\", \"b\", \"c\"]\n");
    assert!(
        error.contains("expected a router in the chain, or at most two ports"),
        "{error}"
    );
    let error = with(
        "inside_ports = [\"site\"]",
        "inside_ports = [\"site\"]\nsource_check = \"loose\"",
    );
    assert!(
        error.contains("ports.toml:7")
            && error.contains("expected inside and inside_ports beside source_check"),
        "{error}"
    );
    let error = with(
        "inside_ports = [\"site\"]",
        "forward_ether_types = [\"arp\", \"ipx\"]",
    );
    assert!(
        error.contains("ports.toml:6") && error.contains("expected one of arp, lldp"),
        "{error}"
    );
}

/// New connections by either port: those that a rule is for pass, and so do their answers, which come
/// in by the other port.
#[test]
fn a_firewall_may_ask_for_the_port_of_arrival() {
    const FIREWALL: &str = r#"
[service]
chain = ["firewall"]
ports = ["lan", "uplink"]
[firewall]
rules = [{ action = "allow", ingress = "lan" }]
"#;
    let folder = tempfile::tempdir().expect("a folder");
    let input = folder.path().join("in.pcapng");
    // The same hosts and another port for who begins outside, so that these are other connections.
    let talks = [(0u32, 1000, 53), (1, 2000, 54)];
    let mut writer = CaptureWriter::with_interfaces(&input, &["lan", "uplink"]).expect("a file");
    for round in 0..200 {
        for (opener, from_port, to_port) in talks {
            let asked = udp_frame("10.0.0.1", from_port, "192.0.2.7", to_port);
            let answered = udp_frame("192.0.2.7", to_port, "10.0.0.1", from_port);
            let at = 1_000_000_000 + round * 5_000_000 + u64::from(opener) * 1_000_000;
            writer.write_on(opener, at, &asked).expect("written");
            writer
                .write_on(1 - opener, at + 500_000, &answered)
                .expect("written");
        }
    }
    writer.finish().expect("written");
    for (paths, least_fast) in [(Paths::Slow, 0), (Paths::Both, 300)] {
        for execution in [Execution::Virtual, Execution::Threads] {
            let output = folder.path().join("out.pcapng");
            let finished = through(&service(FIREWALL, paths, execution), &input, &output);
            assert!(
                finished.report.fast.packets >= least_fast,
                "{paths:?} {execution:?}"
            );
            let left = packets_of(&output);
            let asked = udp_frame("10.0.0.1", 1000, "192.0.2.7", 53);
            let answered = udp_frame("192.0.2.7", 53, "10.0.0.1", 1000);
            // What begins outside is denied until it is answered by the port that may open.
            let denied = udp_frame("10.0.0.1", 2000, "192.0.2.7", 54);
            let opened = udp_frame("192.0.2.7", 54, "10.0.0.1", 2000);
            for (port, frame, count) in [
                (1, &asked, 200),
                (0, &answered, 200),
                (0, &denied, 199),
                (1, &opened, 200),
            ] {
                let found = of_port(&left, port);
                let found = found.iter().filter(|one| *one == frame).count();
                assert_eq!(found, count, "{paths:?} {execution:?}");
            }
        }
    }
}

#[test]
fn a_file_for_each_port_needs_ports() {
    let service = service(
        "[service]\nchain = [\"monitor\"]\n",
        Paths::Both,
        Execution::Virtual,
    );
    let ports = Ports {
        input: Some("in-{port}.pcap".into()),
        ..Ports::default()
    };
    let error = run(&service, &ports, Live::hidden(), &AtomicBool::new(false)).map(|_| ());
    assert!(matches!(error, Err(RunError::NoPorts(_))), "{error:?}");
}
