//! Which way packets go, and what of them enters the chain at all: told by ports, and not by what
//! senders claim; on both paths alike.

use crate::common::rows::tell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use tempfile::TempDir;
use twinpath_control::live::Live;
use twinpath_control::service::{Execution, Paths, Service};
use twinpath_core::wire::checksum::checksum;
use twinpath_core::wire::icmp::{IcmpError, IcmpMessage, IcmpView};
use twinpath_core::wire::layout::Layout;
use twinpath_core::wire::{Endpoint, MacAddress, PacketBuilder, dissect, fields, protocol};
use twinpath_io::{CaptureReader, CaptureWriter, Next};
use twinpath_nf::duration::Human;
use twinpath_node::run::{Finished, Ports, run};
use twinpath_node::sink::CaptureLosses;

const GATEWAY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/gateway.toml");

/// Ports of the example, by number.
const SITE: u32 = 0;
const UPLINK: u32 = 1;
const PEER: u32 = 2;

/// A packet, and the port that it comes in by.
type Arrival = (u32, Vec<u8>);

/// What left, and what was dropped by reason.
struct Outcome {
    left: Vec<(u32, Vec<u8>)>,
    drops: BTreeMap<String, u64>,
    on_fast_path: u64,
    /// How often a packet met a cached rule.
    hits: u64,
    warnings: Vec<String>,
}

impl Outcome {
    fn dropped(&self, reason: &str) -> u64 {
        self.drops.get(reason).copied().unwrap_or(0)
    }

    /// Cached rules were met so often, at least; what is dropped in front of the chain meets none.
    fn assert_settled(&self, least: u64, what: &str) {
        println!("{what}: {} cached rules met", self.hits);
        assert!(self.hits >= least, "{what}: {} cached rules met", self.hits);
    }
}

/// A packet so often that what is decided of it is cached, and met.
fn until_cached(arrival: &Arrival) -> Vec<Arrival> {
    vec![arrival.clone(); 200]
}

/// Packets, a millisecond apart, go through a service on both paths; the slow path alone gives the
/// same.
fn through(service: &Service, arrivals: &[Arrival]) -> Outcome {
    let folder = tempfile::tempdir().expect("a folder");
    let input = folder.path().join("in.pcapng");
    let mut writer = CaptureWriter::with_interfaces(&input, &service.ports).expect("a file");
    for (number, (port, packet)) in (0..).zip(arrivals) {
        let at = 1_000_000_000 + number * 1_000_000;
        writer.write_on(*port, at, packet).expect("written");
    }
    writer.finish().expect("written");
    let [both, alone] =
        [Paths::Both, Paths::Slow].map(|paths| run_on(service, paths, &folder, &input));
    let sorted = |outcome: &Outcome| {
        let mut left = outcome.left.clone();
        left.sort();
        left
    };
    assert_eq!(sorted(&both), sorted(&alone));
    assert_eq!(both.drops, alone.drops);
    both
}

fn run_on(service: &Service, paths: Paths, folder: &TempDir, input: &Path) -> Outcome {
    let mut service = service.clone();
    (service.run.paths, service.run.execution) = (paths, Execution::Virtual);
    let output: PathBuf = folder.path().join("out.pcapng");
    let ports = Ports {
        input: Some(input.into()),
        output: Some(output.clone()),
        ..Ports::default()
    };
    let finished = run(&service, &ports, Live::hidden(), &AtomicBool::new(false));
    let Finished {
        report, written, ..
    } = finished.unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(written, CaptureLosses::default(), "{}", written.order);
    if paths == Paths::Both {
        tell("made one by one", &report);
    }
    Outcome {
        left: packets_of(&output),
        drops: report.drops,
        on_fast_path: report.fast.packets,
        hits: report.rules.total.table.hits,
        warnings: report.warnings,
    }
}

fn packets_of(path: &Path) -> Vec<(u32, Vec<u8>)> {
    let mut reader = CaptureReader::open(path).expect("a capture");
    let (mut left, mut buffer) = (Vec::new(), vec![0; 1 << 16]);
    while let Next::Frame(record) = reader.next_into(&mut buffer).expect("sound") {
        left.push((record.interface, buffer[..record.captured_len].to_vec()));
    }
    left
}

fn gateway() -> Service {
    let mut service = Service::load(Path::new(GATEWAY)).unwrap_or_else(|error| panic!("{error}"));
    // What is sent twice is worth a rule.
    service.rule_cache.threshold = 0;
    service.rule_cache.window = Human(Duration::from_millis(50));
    service.fast_path.hot_packets = 1;
    service
}

fn end(text: &str) -> Endpoint {
    text.parse().expect(text)
}

fn udp<'a>(from: &str, to: &str) -> PacketBuilder<'a> {
    PacketBuilder::udp(end(from), end(to)).payload_len(20)
}

fn frame(packet: PacketBuilder<'_>) -> Vec<u8> {
    packet.dont_fragment().to_vec().expect("short")
}

fn ends(packet: &[u8]) -> (Endpoint, Endpoint) {
    let layout = dissect(packet).expect("sound");
    (
        fields::source(packet, &layout),
        fields::destination(packet, &layout),
    )
}

/// A source inside does not make a packet one from inside: it neither passes list and firewall nor
/// opens a connection for answers.
#[test]
fn nobody_outside_passes_for_a_host_inside() {
    let spoofed = frame(udp("10.0.0.5:4000", "192.0.2.10:443"));
    let genuine = frame(udp("10.0.0.6:4000", "192.0.2.10:443"));
    let foreign = frame(udp("172.16.0.5:4000", "192.0.2.10:443"));
    let mut arrivals = Vec::new();
    for _ in 0..30 {
        arrivals.push((UPLINK, spoofed.clone()));
        arrivals.push((PEER, spoofed.clone()));
        arrivals.push((SITE, genuine.clone()));
        arrivals.push((SITE, foreign.clone()));
    }
    let outcome = through(&gateway(), &arrivals);
    assert_eq!(outcome.dropped("source_inside"), 60);
    assert_eq!(outcome.dropped("source_outside"), 30);
    assert_eq!(outcome.left.len(), 30);
    // What is refused is not counted as settled.
    let hits = outcome.on_fast_path;
    assert!((6..=30).contains(&hits), "{hits}");
    assert!(outcome.left.iter().all(|(port, packet)| {
        let (from, to) = ends(packet);
        *port == PEER && from.address != end("10.0.0.6:1").address && to == end("192.0.2.10:443")
    }));
}

/// Nor does one that the gateway's translation gives out: what came from there would be answered to a host
/// inside, or to itself.
#[test]
fn nobody_outside_sends_from_external_addresses() {
    let genuine = frame(udp("10.0.0.6:4000", "192.0.2.10:443"));
    let sent = through(&gateway(), &[(SITE, genuine.clone())]);
    let (external, _) = ends(&sent.left[0].1);
    let forged = Endpoint::new(external.address, 4000);
    let forged = frame(PacketBuilder::udp(forged, external).payload_len(20));
    let mut arrivals = until_cached(&(SITE, genuine));
    arrivals.extend(vec![(UPLINK, forged); 30]);
    let outcome = through(&gateway(), &arrivals);
    assert_eq!(outcome.dropped("source_inside"), 30);
    assert_eq!(outcome.left.len(), 200);
    outcome.assert_settled(100, "what the host sends");
}

/// Behind a translator's prefix are hosts of IPv4: nobody outside has an address there, least of all one that
/// stands for the translator's own, or for whom a host inside has a session with.
#[test]
fn nobody_outside_sends_from_behind_a_translators_prefix() {
    let text = r#"
        [service]
        chain = ["firewall", "nat64"]
        ports = ["site", "uplink"]
        inside_ports = ["site"]
        inside = ["fd00::/64"]
        [firewall]
        default = "deny"
        rules = [{ action = "allow", from = "fd00::/64" }]
        [nat64]
        inside = ["fd00::/64"]
        external = ["198.51.100.7"]
    "#;
    let service = Service::parse(text, Path::new("x.toml")).expect("a service");
    let genuine = frame(udp("[fd00::6]:4000", "[64:ff9b::c000:20a]:443"));
    let forged = ["64:ff9b::c633:6407", "64:ff9b::c000:20a"]
        .map(|source| frame(udp(&format!("[{source}]:443"), "[fd00::6]:4000")));
    let [own, peers] = forged;
    let arrivals = [(0, genuine), (1, own), (1, peers)];
    let outcome = through(&service, &arrivals);
    assert_eq!(outcome.dropped("source_inside"), 2, "{:?}", outcome.drops);
    assert_eq!(outcome.left.len(), 1);
}

/// The same where the capture does not say by which ports its packets came in: then sources tell.
#[test]
fn captures_without_ports_go_by_sources() {
    let folder = tempfile::tempdir().expect("a folder");
    let input = folder.path().join("in.pcap");
    let mut writer = CaptureWriter::create(&input).expect("a file");
    let genuine = frame(udp("10.0.0.6:4000", "192.0.2.10:443"));
    let from_outside = frame(udp("192.0.2.10:443", "10.0.0.6:4000"));
    writer.write(1_000_000_000, &genuine).expect("written");
    writer.write(1_001_000_000, &from_outside).expect("written");
    writer.finish().expect("written");
    let outcome = run_on(&gateway(), Paths::Both, &folder, &input);
    assert_eq!(
        outcome.dropped("source_inside") + outcome.dropped("source_outside"),
        0
    );
    assert!(outcome.left.iter().any(|(port, _)| *port == PEER));
    let told = "their source addresses told, which anybody can forge";
    assert!(
        outcome
            .warnings
            .iter()
            .any(|warning| warning.contains(told))
    );
}

/// Replies are translated back before the router decides, so that they leave by the site's port with
/// the site's MAC address.
#[test]
fn translated_replies_leave_where_the_hosts_are() {
    let service = gateway();
    let requests: Vec<Arrival> = (0..5u16)
        .map(|host| {
            (
                SITE,
                frame(udp(&format!("10.0.0.{host}:4000"), "192.0.2.10:443")),
            )
        })
        .collect();
    let sent = through(&service, &requests).left;
    assert_eq!(sent.len(), 5);
    let mut arrivals = requests.clone();
    for _ in 0..40 {
        arrivals.extend(sent.iter().map(|(port, packet)| {
            let (external, server) = ends(packet);
            (
                *port,
                frame(PacketBuilder::udp(server, external).payload_len(20)),
            )
        }));
        arrivals.extend(requests.clone());
    }
    let outcome = through(&service, &arrivals);
    let is_reply = |(_, packet): &&Arrival| ends(packet).0 == end("192.0.2.10:443");
    let replies: Vec<&Arrival> = outcome.left.iter().filter(is_reply).collect();
    assert_eq!(replies.len(), 200, "{:?}", outcome.drops);
    for (port, packet) in replies {
        let (_, to) = ends(packet);
        assert!(to.port == 4000 && to.address.octets4()[..3] == [10, 0, 0]);
        assert_eq!(*port, SITE);
        assert_eq!(
            fields::destination_mac(packet),
            MacAddress([2, 0, 0, 0, 3, 1])
        );
        assert_eq!(fields::source_mac(packet), MacAddress([2, 0, 0, 0, 0, 3]));
    }
    assert!(outcome.on_fast_path > 100, "{}", outcome.on_fast_path);
}

/// The answer to a query that was let through comes back whole where it comes in fragments, in either
/// order, through an access list that has no state.
#[test]
fn answers_in_fragments_pass_the_example() {
    let service = gateway();
    let query = frame(udp("10.0.0.5:4000", "192.0.2.10:53"));
    let sent = through(&service, &[(SITE, query.clone())]).left;
    let (external, server) = ends(&sent[0].1);
    let answer = PacketBuilder::udp(server, external)
        .payload_len(72)
        .identification(7);
    let parts = [answer.fragment(0, true), answer.fragment(80, false)];
    let parts = parts.map(|part| (sent[0].0, part.to_vec().expect("short")));
    let [first, last] = parts;
    for answers in [[first.clone(), last.clone()], [last, first]] {
        let mut arrivals = until_cached(&(SITE, query.clone()));
        arrivals.extend(answers);
        let outcome = through(&service, &arrivals);
        let at_site = outcome.left.iter().filter(|(port, _)| *port == SITE);
        assert_eq!(at_site.count(), 2, "{:?}", outcome.drops);
        outcome.assert_settled(290, "queries");
    }
}

/// Hosts inside that reach each other by their external addresses are at the same port, where no router
/// says another: so are the fragments of what they send, in whatever order.
#[test]
fn hosts_inside_reach_each_other_at_their_port() {
    let napt = "[napt]\ninside = ['10.0.0.0/8']\nexternal = ['198.51.100.8']\n\
        forward = [{ protocol = 'udp', external = '198.51.100.8:53', to = '10.0.0.6:53' }]\n";
    let nptv6 = "[nptv6]\nprefixes = [{ inside = 'fd00:1::/48', external = '2001:db8:1::/48' }]\n";
    let v4 = ("10.0.0.5:4000", "198.51.100.8:53");
    let v6 = ("[fd00:1::5]:4000", "[2001:db8:1:1::6]:53");
    for (function, table, (from, to)) in [("napt", napt, v4), ("nptv6", nptv6, v6)] {
        let text = format!(
            "[service]\nchain = ['{function}']\nports = ['lan', 'wan']\ninside_ports = ['lan']\n\
             inside = ['10.0.0.0/8', 'fd00:1::/48']\n[rule_cache]\nwindow = '10ms'\n{table}"
        );
        let service = Service::parse(&text, Path::new("x.toml")).expect("valid");
        let mut arrivals = vec![(0, frame(udp(from, to))); 100];
        let whole = udp(from, to).identification(7).payload_len(32);
        arrivals.extend(
            [whole.fragment(40, false), whole.fragment(0, true)].map(|part| (0, frame(part))),
        );
        let outcome = through(&service, &arrivals);
        let back = outcome.left.iter().filter(|(port, _)| *port == 0);
        let drops = &outcome.drops;
        assert_eq!(back.count(), arrivals.len(), "{function}: {drops:?}");
        assert!(
            outcome.on_fast_path > 50,
            "{function}: {}",
            outcome.on_fast_path
        );
    }
}

/// What the router answers goes back through all that the packet has passed, whichever way that
/// went: a host inside is told by the addresses that it knows.
#[test]
fn answers_go_back_through_the_whole_chain() {
    let service = gateway();
    let request = frame(udp("10.0.0.5:4000", "192.0.2.10:443"));
    let sent = through(&service, &[(SITE, request.clone())]).left;
    let (external, server) = ends(&sent[0].1);
    let expired = frame(udp("10.0.0.5:4000", "192.0.2.10:443").ttl(1));
    let reply = PacketBuilder::udp(server, external).payload_len(20).ttl(1);
    let mut arrivals = until_cached(&(SITE, request));
    arrivals.extend([(SITE, expired), (PEER, frame(reply))]);
    let outcome = through(&service, &arrivals);
    outcome.assert_settled(290, "requests");
    assert_eq!(outcome.dropped("time_to_live"), 2);
    let errors: Vec<(u32, &[u8], Layout)> = outcome
        .left
        .iter()
        .map(|(port, packet)| (*port, &packet[..], dissect(packet).expect("sound")))
        .filter(|(_, _, layout)| layout.inner.is_some())
        .collect();
    let told = |port: u32| {
        let error = errors.iter().find(|(one, ..)| *one == port);
        let (_, packet, layout) = error.unwrap_or_else(|| panic!("{errors:?}"));
        let icmp = IcmpView::new(&packet[layout.l4.into()..]).expect("complete");
        let expected = IcmpMessage::Error(IcmpError::TimeExceeded { code: 0 });
        assert_eq!(icmp.message(layout.network), expected);
        let quoted = (
            fields::inner_source(packet, layout).expect("quoted"),
            fields::inner_destination(packet, layout).expect("quoted"),
        );
        (fields::destination(packet, layout).address, quoted)
    };
    let inside = end("10.0.0.5:4000");
    assert_eq!(told(SITE), (inside.address, (inside, server)));
    let (to, (quoted_from, _)) = told(PEER);
    assert_eq!((to, quoted_from), (server.address, server));
}

/// A rule finds its packets whatever they are wrapped in.
#[test]
fn nothing_hides_from_an_access_list() {
    let text = "[service]\nchain = [\"acl\"]\nports = [\"left\", \"right\"]\ninside_ports = [\"left\"]\n\
        [acl]\ndefault = \"allow\"\nrules = [{ action = \"deny\", protocol = \"tcp\", to_port = 25 }]\n\
        [rule_cache]\nthreshold = 0\n";
    let service = Service::parse(text, Path::new("test.toml")).expect("sound");
    let links: [[&[u8]; 2]; 6] = [
        [&[0x08, 0x00], &[0x86, 0xdd]],
        [&[0x88, 0x47, 0, 1, 0, 64, 0, 2, 1, 64]; 2],
        [
            &[0x88, 0x64, 0x11, 0, 0, 7, 0, 0, 0, 0x21],
            &[0x88, 0x64, 0x11, 0, 0, 7, 0, 0, 0, 0x57],
        ],
        [
            &[0, 0, 0xaa, 0xaa, 3, 0, 0, 0, 0x08, 0x00],
            &[0, 0, 0xaa, 0xaa, 3, 0, 0, 0, 0x86, 0xdd],
        ],
        [&[0x92, 0, 0, 5, 0x08, 0x00], &[0x92, 0, 0, 5, 0x86, 0xdd]],
        [&[0x93, 0, 0, 5, 0x08, 0x00], &[0x93, 0, 0, 5, 0x86, 0xdd]],
    ];
    let ends = [
        ["10.0.0.1:4000", "10.0.0.2"],
        ["[2001:db8::1]:4000", "[2001:db8::2]"],
    ];
    let mut arrivals = Vec::new();
    for _ in 0..10 {
        for (link, [from, to]) in links.iter().flat_map(|links| links.iter().zip(ends)) {
            for port in [25, 80] {
                let packet = PacketBuilder::tcp(end(from), end(&format!("{to}:{port}")));
                arrivals.push((0, frame(packet.link(link))));
            }
        }
        for port in [25, 80] {
            let packet = PacketBuilder::tcp(end("10.0.0.1:4000"), end(&format!("10.0.0.2:{port}")));
            arrivals.push((0, behind_authentication(frame(packet))));
        }
        for number in [135, 139, 140, 253, 254] {
            let to = end("[2001:db8::2]:25");
            let packet = PacketBuilder::tcp(end("[2001:db8::1]:4000"), to);
            let extension = twinpath_core::wire::build::Extension::Other(number);
            arrivals.push((0, frame(packet.ipv6_extension(extension, 1))));
        }
    }
    let outcome = through(&service, &arrivals);
    assert_eq!(outcome.dropped("denied"), 10 * (12 + 5 + 1));
    assert_eq!(outcome.left.len(), 130);
    assert!(
        outcome
            .left
            .iter()
            .all(|(_, packet)| self::ends(packet).1.port == 80)
    );
    assert!(outcome.on_fast_path > 60, "{}", outcome.on_fast_path);
}

/// The same IPv4 packet with an authentication header in front of what it carries (RFC 4302).
fn behind_authentication(frame: Vec<u8>) -> Vec<u8> {
    let (link_and_ip, carried) = frame.split_at(34);
    let mut head = link_and_ip.to_vec();
    let bytes = u16::from_be_bytes([head[16], head[17]]) + 12;
    head[16..18].copy_from_slice(&bytes.to_be_bytes());
    let header = [head[23], 1, 0, 0, 0, 0, 0, 7, 0, 0, 0, 1];
    (head[23], head[24], head[25]) = (protocol::AUTHENTICATION, 0, 0);
    let sum = checksum(&head[14..]).to_be_bytes();
    head[24..26].copy_from_slice(&sum);
    [&head, &header[..], carried].concat()
}

/// What is no IP packet passes no list, unless the service lets it pass by.
#[test]
fn frames_without_an_ip_packet_are_dropped_and_counted_unless_they_may_pass() {
    let of_type = |ether_type: u16| {
        let mut frame = vec![0; 60];
        frame[12..14].copy_from_slice(&ether_type.to_be_bytes());
        frame
    };
    let types = [0x0806, 0x0026, 0x88cc, 0x8847, 0x8863];
    let arrivals: Vec<Arrival> = types.map(|ether_type| (1, of_type(ether_type))).into();
    let with = |keys: &str| {
        let text = format!(
            "[service]\nchain = [\"acl\", \"firewall\"]\nports = [\"left\", \"right\"]\n{keys}\n\
             [acl]\ndefault = \"deny\"\n[firewall]\ndefault = \"deny\"\n"
        );
        let service = Service::parse(&text, Path::new("test.toml"));
        through(
            &service.unwrap_or_else(|error| panic!("{error}")),
            &arrivals,
        )
    };
    let all = ["arp", "llc", "ether_type", "mpls", "pppoe"];
    let dropped = with("");
    assert_eq!(dropped.left.len(), 0);
    assert!(
        all.iter()
            .all(|kind| dropped.dropped(&format!("unparsed_{kind}")) == 1)
    );
    let some = with("forward_ether_types = [\"arp\", \"lldp\", \"llc\"]");
    assert_eq!(some.left.len(), 3);
    assert!(
        some.left.iter().all(|(port, _)| *port == 0),
        "by the other port"
    );
    assert_eq!(
        (
            some.dropped("unparsed_mpls"),
            some.dropped("unparsed_pppoe")
        ),
        (1, 1)
    );
    assert_eq!(with("unparsed = \"forward\"").left.len(), 5);
}

/// RFC 1812: a router takes no packet with a wrong header, from nowhere, or for somebody else.
#[test]
fn a_router_takes_only_what_it_should() {
    let sound = udp("10.0.0.5:4000", "192.0.2.10:443");
    let mut damaged = frame(sound);
    damaged[14 + 8] ^= 1;
    let group = MacAddress([0xff; 6]);
    let own = MacAddress([2, 0, 0, 0, 0, 1]);
    let mut arrivals = until_cached(&(SITE, frame(sound)));
    let left = arrivals.len();
    for _ in 0..3 {
        arrivals.push((SITE, damaged.clone()));
        arrivals.push((SITE, frame(sound.macs(own, group))));
        arrivals.push((UPLINK, frame(udp("127.0.0.1:5", "198.51.100.1:5"))));
        arrivals.push((UPLINK, frame(udp("198.51.100.254:5", "198.51.100.1:5"))));
        arrivals.push((SITE, frame(sound.ipv4_options(&[131, 3, 4]))));
    }
    let outcome = through(&gateway(), &arrivals);
    assert_eq!(outcome.left.len(), left);
    outcome.assert_settled(290, "sound packets");
    let counted = ["ipv4_checksum", "other_station", "martian", "source_route"];
    assert_eq!(counted.map(|reason| outcome.dropped(reason)), [3, 3, 6, 3]);
}
