//! Packets that are longer than the link that they are to leave by carries: fragmented where that may
//! be, else their senders are told, on both paths alike (RFC 1812 §4.2.2.7, RFC 1191, RFC 4443 §3.2,
//! RFC 4787 REQ-13).

use crate::common::rows::tell;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use twinpath_control::live::Live;
use twinpath_control::service::{Execution, Paths, Service};
use twinpath_core::wire::fragment::part;
use twinpath_core::wire::icmp::{IcmpError, IcmpMessage, IcmpView};
use twinpath_core::wire::{
    Endpoint, PacketBuilder, dissect, fields, verify_ipv4_checksum, verify_transport_checksum,
};
use twinpath_io::{CaptureReader, CaptureWriter, Next};
use twinpath_node::run::{Finished, Ports, run};

const LAN: u32 = 0;
const WAN: u32 = 1;
/// What the link outside carries.
const MTU: usize = 1400;

fn service(chain: &str, functions: &str) -> Service {
    service_with(chain, functions, "errors_per_source = 1000")
}

fn service_with(chain: &str, functions: &str, limit: &str) -> Service {
    let text = format!(
        r#"[service]
chain = {chain}
inside = ["192.168.1.0/24", "fd01::/64"]
inside_ports = ["lan"]
[ports]
lan = {{ device = "eth1", addresses = ["192.168.1.1/24", "fd01::1/64"], mtu = 1500 }}
wan = {{ device = "eth0", addresses = ["198.51.100.2/24", "2001:db8::2/64"], mtu = {MTU} }}
[rule_cache]
window = "10ms"
threshold = 0
[link]
round_trip = "200us"
[router]
address = "198.51.100.2"
address6 = "2001:db8::2"
next_hops = [{{ name = "home", port = "lan" }}, {{ name = "provider", port = "wan" }}]
{limit}
routes = [
    {{ to = "0.0.0.0/0", via = "provider" }},
    {{ to = "::/0", via = "provider" }},
    {{ to = "192.168.1.0/24", via = "home" }},
    {{ to = "fd01::/64", via = "home" }},
]
{functions}"#
    );
    Service::parse(&text, Path::new("mtu.toml")).unwrap_or_else(|error| panic!("{error}"))
}

/// What left by each port, and what was dropped.
struct Outcome {
    left: Vec<(u32, Vec<u8>)>,
    drops: BTreeMap<String, u64>,
    on_fast_path: u64,
}

/// Packets, a millisecond apart, on one path or both.
fn outcome(service: &Service, paths: Paths, arrivals: &[(u32, Vec<u8>)]) -> Outcome {
    let folder = tempfile::tempdir().expect("a folder");
    let [input, output] = ["in.pcapng", "out.pcapng"].map(|name| folder.path().join(name));
    let mut writer = CaptureWriter::with_interfaces(&input, &service.ports).expect("a file");
    for (number, (port, packet)) in (0..).zip(arrivals) {
        let at = 1_000_000_000 + number * 1_000_000;
        writer.write_on(*port, at, packet).expect("written");
    }
    writer.finish().expect("written");
    let mut service = service.clone();
    (service.run.paths, service.run.execution) = (paths, Execution::Virtual);
    let ports = Ports {
        input: Some(input),
        output: Some(output.clone()),
        ..Ports::default()
    };
    let finished = run(&service, &ports, Live::hidden(), &AtomicBool::new(false));
    let Finished {
        report, written, ..
    } = finished.unwrap_or_else(|error| panic!("{error}"));
    assert!(written.order.is_in_order(), "{}", written.order);
    if paths == Paths::Both {
        tell("made one by one", &report);
    }
    let mut reader = CaptureReader::open(&output).expect("a capture");
    let (mut left, mut buffer) = (Vec::new(), vec![0; 1 << 16]);
    while let Next::Frame(record) = reader.next_into(&mut buffer).expect("sound") {
        left.push((record.interface, buffer[..record.captured_len].to_vec()));
    }
    Outcome {
        left,
        drops: report.drops,
        on_fast_path: report.fast.packets,
    }
}

/// The same on both paths, of which the fast one has its share.
fn through(service: &Service, arrivals: &[(u32, Vec<u8>)], share: f64) -> Outcome {
    let [alone, both] = [Paths::Slow, Paths::Both].map(|paths| outcome(service, paths, arrivals));
    assert_eq!(both.drops, alone.drops);
    let names = |outcome: &Outcome| {
        let each = outcome.left.iter().map(|(port, packet)| {
            let mut packet = packet.clone();
            // Behind a translation those of datagrams that are not atomic are drawn.
            if packet[12..14] == [8, 0] {
                packet[18..20].fill(0);
                packet[24..26].fill(0);
            }
            (*port, packet)
        });
        let mut each: Vec<_> = each.collect();
        each.sort();
        each
    };
    assert_eq!(names(&both), names(&alone));
    let fast = both.on_fast_path as f64 / arrivals.len() as f64;
    assert!(fast > share, "{fast} of the packets on the fast path");
    both
}

fn end(text: &str) -> Endpoint {
    text.parse().expect(text)
}

fn datagram<'a>(from: &str, to: &str, payload: usize) -> PacketBuilder<'a> {
    PacketBuilder::udp(end(from), end(to))
        .identification(7)
        .payload_len(payload)
}

fn frame(packet: PacketBuilder<'_>) -> Vec<u8> {
    packet.to_vec().expect("short")
}

/// By flow one that opens it, short ones, and then a long one between short ones.
fn flows(ends: &[(u32, &str, &str)], long: impl Fn(&str, &str) -> Vec<u8>) -> Vec<(u32, Vec<u8>)> {
    let mut arrivals = Vec::new();
    for (port, from, to) in ends {
        for number in 0..60 {
            arrivals.push((*port, frame(datagram(from, to, 20).dont_fragment())));
            if number >= 50 {
                arrivals.push((*port, long(from, to)));
            }
        }
    }
    arrivals
}

const NAPT: &str = r#"
[firewall]
default = "deny"
rules = [{ action = "allow", from = "192.168.1.0/24" }, { action = "allow", from = "fd01::/64" }]
[napt]
inside = ["192.168.1.0/24"]
external = ["198.51.100.7"]
"#;

const OUT: [(u32, &str, &str); 2] = [
    (LAN, "192.168.1.10:4000", "203.0.113.1:53"),
    (LAN, "[fd01::10]:4000", "[2001:db8:9::1]:53"),
];

/// Errors that went to a host inside, as it understands them.
fn errors(outcome: &Outcome, to: &str) -> Vec<(IcmpError, Endpoint, Endpoint)> {
    let to = end(to).address;
    let told = outcome.left.iter().filter_map(|(port, packet)| {
        let layout = dissect(packet).expect("sound");
        let quoted = fields::inner_source(packet, &layout)?;
        assert_eq!(*port, LAN);
        assert!(verify_ipv4_checksum(packet, &layout));
        assert!(verify_transport_checksum(packet, &layout));
        let message = IcmpView::new(&packet[layout.l4.into()..layout.end as usize]);
        let IcmpMessage::Error(error) = message.expect("an error").message(layout.network) else {
            panic!("no error");
        };
        let destination = fields::inner_destination(packet, &layout).expect("quoted");
        (fields::destination_address(packet, &layout) == to).then_some((error, quoted, destination))
    });
    told.collect()
}

/// RFC 4787 REQ-13.
#[test]
fn senders_behind_a_translation_are_told() {
    let long = |from: &str, to: &str| frame(datagram(from, to, 1440).dont_fragment());
    let service = service(r#"["firewall", "napt", "router"]"#, NAPT);
    let outcome = through(&service, &flows(&OUT, long), 0.4);
    assert_eq!(outcome.drops["too_long"], 20);
    for (_, from, to) in OUT {
        let told = errors(&outcome, from);
        let expected = (
            IcmpError::PacketTooBig { mtu: MTU as u32 },
            end(from),
            end(to),
        );
        assert_eq!(told, vec![expected; 10], "{from}");
    }
    assert!(
        outcome
            .left
            .iter()
            .all(|(_, packet)| packet.len() <= 14 + MTU)
    );
}

/// Datagrams and fragments of them; senders of IPv6 fragment themselves.
#[test]
fn what_may_be_fragmented_is() {
    let long = |from: &str, to: &str| frame(datagram(from, to, 3000));
    let service = service(r#"["firewall", "napt", "router"]"#, NAPT);
    let outcome = through(&service, &flows(&OUT[..1], long), 0.4);
    assert_eq!(
        outcome.drops.values().sum::<u64>(),
        0,
        "{:?}",
        outcome.drops
    );
    let mut numbers: BTreeMap<u32, Vec<(u32, u32)>> = BTreeMap::new();
    for (port, packet) in &outcome.left {
        let layout = dissect(packet).expect("sound");
        assert!(*port == WAN && packet.len() <= 14 + MTU);
        assert!(verify_ipv4_checksum(packet, &layout));
        let Some(part) = part(packet, &layout) else {
            continue;
        };
        let parts = numbers.entry(part.identification).or_default();
        parts.push((part.offset, part.end()));
        assert_eq!(part.is_last, part.end() == 3008);
    }
    assert_eq!(numbers.len(), 10);
    for parts in numbers.values() {
        assert_eq!(*parts, [(0, 1376), (1376, 2752), (2752, 3008)]);
    }
}

/// What comes from outside is as long as the link inside carries, which is more.
#[test]
fn each_link_has_its_own() {
    let ends = [
        (WAN, "203.0.113.1:53", "192.168.1.10:4000"),
        (WAN, "[2001:db8:9::1]:53", "[fd01::10]:4000"),
    ];
    let service = service(r#"["monitor", "router"]"#, "");
    let at_limit = |from: &str, to: &str| {
        let headers = if from.starts_with('[') { 48 } else { 28 };
        frame(datagram(from, to, 1500 - headers).dont_fragment())
    };
    let outcome = through(&service, &flows(&ends, at_limit), 0.4);
    assert_eq!((outcome.left.len(), outcome.drops.values().sum()), (140, 0));
    let beyond = |from: &str, to: &str| {
        let headers = if from.starts_with('[') { 48 } else { 28 };
        frame(datagram(from, to, 1501 - headers).dont_fragment())
    };
    let outcome = through(&service, &flows(&ends, beyond), 0.4);
    assert_eq!((outcome.left.len(), outcome.drops["too_long"]), (140, 20));
    let told = outcome.left.iter().filter(|(port, packet)| {
        let layout = dissect(packet).expect("sound");
        *port == WAN && fields::inner_source(packet, &layout).is_some()
    });
    assert_eq!(told.count(), 20);
}

/// A host of IPv6 behind NAT64 hears of it in its own terms (RFC 7915 §5.2).
#[test]
fn senders_behind_nat64_are_told_of_ipv6_lengths() {
    let nat64 = "[nat64]\ninside = [\"fd01::/64\"]\nexternal = [\"198.51.100.7\"]\nmtu = 1500\n";
    let ends = [(LAN, "[fd01::10]:4000", "[64:ff9b::cb00:7101]:53")];
    let long = |from: &str, to: &str| frame(datagram(from, to, 1440));
    let service = service(r#"["nat64", "router"]"#, nat64);
    let [alone, both] = [Paths::Slow, Paths::Both].map(|paths| {
        let outcome = outcome(&service, paths, &flows(&ends, long));
        assert_eq!(outcome.drops["too_long"], 10);
        errors(&outcome, "[fd01::10]:0")
    });
    assert_eq!(alone, both);
    let mtu = MTU as u32 + 20;
    let expected = (
        IcmpError::PacketTooBig { mtu },
        end(ends[0].1),
        end(ends[0].2),
    );
    assert_eq!(both, vec![expected; 10]);
}

/// Hosts behind NAT64 that know each other by external endpoints: the router's error about a packet
/// between them goes to its sender, in its own terms, and nowhere else.
#[test]
fn senders_to_hosts_behind_the_same_nat64_are_told() {
    let nat64 = "[nat64]\ninside = [\"fd01::/64\"]\nexternal = [\"198.51.100.7\"]\n\
                 assignment = \"preserve\"\n";
    let service = service(r#"["nat64", "router"]"#, nat64);
    let [one, other] = ["[fd01::10]:4000", "[fd01::11]:5000"];
    let shown = "[64:ff9b::c633:6407]:5000";
    let mut arrivals: Vec<_> = [one, other]
        .map(|host| (LAN, frame(datagram(host, "[64:ff9b::cb00:7101]:53", 20))))
        .into();
    for _ in 0..5 {
        arrivals.push((LAN, frame(datagram(one, shown, 20))));
        arrivals.push((LAN, frame(datagram(one, shown, 1460))));
    }
    for paths in [Paths::Slow, Paths::Both] {
        let outcome = outcome(&service, paths, &arrivals);
        assert_eq!(outcome.drops["too_long"], 5);
        let told = errors(&outcome, one);
        let expected = (IcmpError::PacketTooBig { mtu: 1500 }, end(one), end(shown));
        assert_eq!(told, vec![expected; 5]);
        assert_eq!(outcome.left.len(), 2 + 5 + 5);
    }
}

/// Nobody is told of an error, and senders of one network together not more often than the router
/// says.
#[test]
fn not_everybody_is_told_everything() {
    let monitor = "[monitor]\nby = \"hosts\"\n";
    let mut service = service(r#"["monitor", "router"]"#, monitor);
    let told = frame(datagram(OUT[0].1, OUT[0].2, 1440).dont_fragment());
    let quoted = frame(datagram(OUT[0].2, OUT[0].1, 1440).dont_fragment());
    let error = PacketBuilder::icmp_error(IcmpError::Unreachable { code: 1 }, &quoted);
    let long_error = frame(error.payload(&[0x45; 1440]).dont_fragment());
    let arrivals = [told.clone(), long_error].map(|packet| (LAN, packet));
    let outcome = through(&service, &arrivals, -1.0);
    assert_eq!(outcome.drops["too_long"], 2);
    assert_eq!(errors(&outcome, OUT[0].1).len(), 1);
    let text = r#"["monitor", "router"]"#;
    service = service_with(text, monitor, "errors_per_source = 3");
    let arrivals = vec![(LAN, told); 40];
    let outcome = through(&service, &arrivals, -1.0);
    assert_eq!(outcome.drops["too_long"], 40);
    assert_eq!(errors(&outcome, OUT[0].1).len(), 3);
}
