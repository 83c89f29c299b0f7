//! Connections of both IP versions beside somebody who knows their ports and sees none of their
//! packets, and with fragments: what leaves is what the slow path alone lets through, all that the
//! ends sent and nothing that changes their connections' lives.

use crate::common::acting::assert_share;
use crate::common::derived::counted;
use crate::common::rows::tell;
use crate::common::{Outcome, VARIANTS, assert_same, run, service, vary};
use std::collections::HashSet;
use std::time::Duration;
use twinpath_control::service::{Execution, Paths};
use twinpath_core::wire::fragment::cut;
use twinpath_core::wire::icmp::IcmpError;
use twinpath_core::wire::rewrite::refresh_checksums;
use twinpath_core::wire::tcp::flags::{ACK, FIN, RST, SYN};
use twinpath_core::wire::{Address, Endpoint, PacketBuilder, dissect};
use twinpath_io::Trace;

const RULES: &str = r#"
[firewall]
pick_up = false
rules = [
    { action = "allow", from = "10.0.0.0/8" },
    { action = "allow", from = "2001:db8::/48" },
]
"#;

const BALANCED: &str = r#"
[load_balancer]
[[load_balancer.services]]
vip = "198.51.100.1:80"
protocol = "tcp"
backends = [{ endpoint = "192.0.2.9:80" }]
"#;

/// Packets to come, in order.
#[derive(Default)]
struct Script {
    trace: Trace,
    now: Duration,
    /// What the ends themselves sent.
    genuine: Vec<Vec<u8>>,
}

impl Script {
    fn genuine(&mut self, frame: Vec<u8>) {
        self.forged(&frame);
        self.genuine.push(frame);
    }

    fn forged(&mut self, frame: &[u8]) {
        self.now += Duration::from_millis(2);
        let at = Duration::from_secs(1000) + self.now;
        self.trace.push(at.as_nanos() as u64, frame);
    }

    /// A whole packet in parts, in reverse order.
    fn in_parts(&mut self, whole: &[u8], identification: u32) {
        let layout = dissect(whole).expect("a packet");
        let parts = cut(whole, &layout, 400, identification).expect("long enough");
        parts.into_iter().rev().for_each(|part| self.genuine(part));
    }
}

/// Two ends.
#[derive(Copy, Clone)]
struct Ends {
    a: Endpoint,
    b: Endpoint,
    stranger: Address,
}

fn ends(version: usize, port: u16) -> Ends {
    match version {
        0 => Ends {
            a: Endpoint::v4([10, 0, 0, 1], port),
            b: Endpoint::v4([192, 0, 2, 1], 80),
            stranger: Address::from_v4([203, 0, 113, 66]),
        },
        _ => Ends {
            a: Endpoint::new(Address(0x2001_0db8 << 96 | 1), port),
            b: Endpoint::new(Address(0x2001_0db8_0002 << 80 | 1), 80),
            stranger: Address(0x2001_0db8_0bad << 80 | 1),
        },
    }
}

fn tcp(from: Endpoint, to: Endpoint, numbers: (u8, u32, u32), bytes: usize) -> Vec<u8> {
    let (flags, sequence, acknowledgement) = numbers;
    PacketBuilder::tcp(from, to)
        .flags(flags)
        .seq(sequence)
        .ack(acknowledgement)
        .payload_len(bytes)
        .to_vec()
        .expect("a packet")
}

fn udp(from: Endpoint, to: Endpoint, bytes: usize) -> Vec<u8> {
    let packet = PacketBuilder::udp(from, to).payload_len(bytes);
    packet.to_vec().expect("a packet")
}

impl Ends {
    /// The handshake, beside SYNs and an answer that nobody of them sent.
    fn open(self, script: &mut Script) {
        let Self { a, b, .. } = self;
        script.genuine(tcp(a, b, (SYN, 999, 0), 0));
        script.forged(&tcp(a, b, (SYN, 7_777_777, 0), 0));
        script.forged(&tcp(b, a, (SYN, 3_333_333, 0), 0));
        script.forged(&tcp(b, a, (SYN | ACK, 4999, 123_456), 0));
        script.genuine(tcp(b, a, (SYN | ACK, 4999, 1000), 0));
        script.genuine(tcp(a, b, (ACK, 1000, 5000), 0));
    }

    /// B sends so many bytes from here on, in whole packets or in parts, and A acknowledges them.
    fn talk(self, script: &mut Script, sequence: u32, is_whole: bool) -> u32 {
        let Self { a, b, .. } = self;
        let data = tcp(b, a, (ACK, sequence, 1000), 1000);
        match is_whole {
            true => script.genuine(data),
            false => script.in_parts(&data, sequence),
        }
        script.genuine(tcp(a, b, (ACK, 1000, sequence + 1000), 0));
        sequence + 1000
    }

    /// What anybody could send.
    fn attack(self, script: &mut Script, sequence: u32) {
        let Self { a, b, stranger } = self;
        for guess in [1, 1000, 20_000, 60_000] {
            script.forged(&tcp(b, a, (RST, sequence + guess, 0), 0));
            script.forged(&tcp(a, b, (RST | ACK, 1000 + guess, sequence), 0));
        }
        script.forged(&tcp(a, b, (SYN, 55, 0), 0));
        let mut broken = tcp(b, a, (FIN | ACK, sequence, 1000), 10);
        let last = broken.len() - 1;
        broken[last] ^= 1;
        script.forged(&broken);
        let unreachable = IcmpError::Unreachable { code: 1 };
        let error = |quoted: &[u8]| {
            let error = PacketBuilder::icmp_error(unreachable, quoted);
            let error = error.source_address(stranger).to_vec();
            error.expect("a packet")
        };
        // About what was never sent; for a neighbour.
        script.forged(&error(&tcp(a, b, (ACK, 5_000_000, sequence), 10)));
        let mut misled = error(&tcp(a, b, (ACK, 1000, sequence), 10));
        let layout = dissect(&misled).expect("a packet");
        let end = usize::from(layout.l3) + if a.address.is_v4() { 20 } else { 40 };
        misled[end - 1] ^= 7;
        refresh_checksums(&mut misled, &layout).expect("sound");
        script.forged(&misled);
    }
}

/// A few connections of a version.
fn script(version: usize) -> Script {
    let mut script = Script::default();
    for port in 1000..1004 {
        let ends = ends(version, port);
        ends.open(&mut script);
        let mut sequence = 5000;
        for _ in 0..40 {
            sequence = ends.talk(&mut script, sequence, true);
        }
        ends.attack(&mut script, sequence);
        sequence = ends.talk(&mut script, sequence, false);
        // Longer than a connection lives that was reset.
        script.now += Duration::from_secs(15);
        for _ in 0..40 {
            sequence = ends.talk(&mut script, sequence, true);
        }
        script.genuine(udp(ends.a, ends.b, 20));
        script.in_parts(&udp(ends.b, ends.a, 1000), u32::from(port));
        // A part of nothing that was asked for.
        let other = Endpoint { port: 81, ..ends.b };
        let whole = udp(other, ends.a, 1000);
        let layout = dissect(&whole).expect("a packet");
        for part in cut(&whole, &layout, 400, 9).expect("long enough") {
            script.forged(&part);
        }
    }
    script
}

fn functions_acted(outcome: &Outcome, version: usize) {
    let count = |counter| counted(outcome, "firewall", &[counter]);
    // Of each connection: a SYN and eight resets; of the handshake a SYN from B.
    assert_eq!(count("segments_challenged"), 4 * (8 + 1 + 1), "{version}");
    assert_eq!(count("packets_with_bad_checksum"), 4);
    assert_eq!(count("icmp_errors_out_of_window"), 4);
    assert_eq!(count("icmp_errors_for_another"), 4);
    let what = format!(
        "parts that nobody asked for: {version} {:?}",
        outcome.report.drops
    );
    assert_eq!(count("packets_denied"), 4 * 3, "{what}");
    assert_eq!(count("connections_opened"), 4 * 2);
}

/// Where the packets come from.
const SCRIPT: &str = "connections and strangers";

#[test]
fn strangers_change_nothing_and_fragments_go_with_their_connection() {
    for (chain, more) in [
        ("\"firewall\"", ""),
        ("\"monitor\", \"firewall\"", "[monitor]\n"),
    ] {
        for version in 0..2 {
            let script = script(version);
            let text = format!("[service]\nname = \"x\"\nchain = [{chain}]\n{more}{RULES}");
            let service = service(&text);
            let alone = run(&service, &script.trace, Paths::Slow, Execution::Virtual);
            let left: HashSet<_> = alone.packets.iter().map(|(_, frame)| frame).collect();
            for frame in &script.genuine {
                assert!(left.contains(frame), "an end waits for {frame:02x?}");
            }
            functions_acted(&alone, version);
            for variant in VARIANTS {
                for cached in [true, false] {
                    let mut service = vary(&service, variant);
                    service.rule_cache.enabled = cached;
                    let both = run(&service, &script.trace, Paths::Both, Execution::Virtual);
                    assert_same(&alone.flows, &both.flows, &format!("{variant:?} {chain}"));
                    functions_acted(&both, version);
                    // Without rules a monitor in front of it has all packets on the slow path.
                    let least = if more.is_empty() || cached { 0.4 } else { 0.0 };
                    let what = format!("{variant:?} {chain} cached {cached}");
                    assert_share(&both, least, &what);
                    tell(SCRIPT, &both.report);
                }
            }
        }
    }
}

/// A segment to a service in parts, in reverse order, goes to one backend.
#[test]
fn fragments_go_to_one_backend() {
    let (client, vip, backend) = (
        Endpoint::v4([10, 0, 0, 1], 1000),
        Endpoint::v4([198, 51, 100, 1], 80),
        Endpoint::v4([192, 0, 2, 9], 80),
    );
    let mut script = Script::default();
    script.genuine(tcp(client, vip, (SYN, 999, 0), 0));
    for number in 0..20 {
        let data = (ACK, 1000 + 1000 * number, 5000);
        script.in_parts(&tcp(client, vip, data, 1000), number);
        script.genuine(tcp(client, vip, data, 10));
    }
    for number in 20..60 {
        script.genuine(tcp(client, vip, (ACK, 1000 + 1000 * number, 5000), 1000));
    }
    let text = format!(
        "[service]\nname = \"x\"\nchain = [\"load_balancer\"]\n[fast_path]\nhot_packets = 1\n{BALANCED}"
    );
    let service = service(&text);
    let alone = run(&service, &script.trace, Paths::Slow, Execution::Virtual);
    let both = run(&service, &script.trace, Paths::Both, Execution::Virtual);
    assert_same(&alone.flows, &both.flows, "fragments");
    tell(SCRIPT, &both.report);
    assert!(counted(&both, "load_balancer", &["new_connections"]) > 0);
    assert_share(&both, 0.22, "fragments");
    assert_eq!(both.packets.len(), script.genuine.len());
    for (_, frame) in &both.packets {
        let layout = dissect(frame).expect("a packet");
        let to = twinpath_core::wire::fields::destination_address(frame, &layout);
        assert_eq!(to, backend.address);
    }
}

/// FINs that nobody sent, of a client that goes on and whose answers do not come by: for as long as
/// it sends data again before it would be forgotten, it stays with its connection.
#[test]
fn forged_fins_end_no_connection() {
    let balancer = "[load_balancer]\n[[load_balancer.services]]\nvip = \"198.51.100.1:80\"\nprotocol = \"tcp\"\n\
         return = \"direct\"\nbackends = [{ endpoint = \"192.0.2.9:80\", mac = \"02:00:00:00:00:09\" }]\n";
    let (client, vip) = (
        Endpoint::v4([10, 0, 0, 1], 1000),
        Endpoint::v4([198, 51, 100, 1], 80),
    );
    let mut script = Script::default();
    script.genuine(tcp(client, vip, (SYN, 999, 0), 0));
    let mut sequence = 1000;
    for _ in 0..3 {
        for _ in 0..20 {
            script.genuine(tcp(client, vip, (ACK, sequence, 5000), 100));
            sequence += 100;
        }
        script.forged(&tcp(
            client,
            vip,
            (FIN | ACK, sequence + (1 << 30), 5000),
            0,
        ));
        script.genuine(tcp(client, vip, (ACK, sequence, 5000), 100));
        sequence += 100;
        // Longer than a connection lives that has ended.
        script.now += Duration::from_secs(60);
    }
    let text = format!("[service]\nname = \"x\"\nchain = [\"load_balancer\"]\n{balancer}");
    let service = service(&text);
    let alone = run(&service, &script.trace, Paths::Slow, Execution::Virtual);
    for variant in VARIANTS {
        let service = vary(&service, variant);
        let both = run(&service, &script.trace, Paths::Both, Execution::Virtual);
        assert_same(&alone.flows, &both.flows, &format!("{variant:?}"));
        assert_eq!(both.packets.len(), script.genuine.len() + 3);
        let new = counted(&both, "load_balancer", &["new_connections"]);
        assert_eq!(new, 1, "{variant:?}");
        assert_share(&both, 0.53, &format!("{variant:?}"));
        tell(SCRIPT, &both.report);
    }
}

/// An ICMP message of any type, with so many bytes behind its header.
fn icmp(from: Endpoint, to: Endpoint, kind: u8, bytes: usize) -> Vec<u8> {
    let echo = PacketBuilder::icmp_echo(from, to).payload_len(bytes);
    let mut frame = echo.to_vec().expect("a packet");
    let layout = dissect(&frame).expect("sound");
    frame[usize::from(layout.l4)] = kind;
    let layout = dissect(&frame).expect("still sound");
    refresh_checksums(&mut frame, &layout).expect("sound");
    frame
}

/// Two ends that talk by ICMP are no licence for errors and redirects that quote too little to be
/// about anything: they are no packets of that flow, on either path.
#[test]
fn errors_that_quote_nothing_are_of_no_flow() {
    for version in [0, 1] {
        // What asks and answers besides echoes: timestamps, and what is for experiments.
        let (asks, answers, forged) = match version {
            0 => (13, 14, [3, 4, 5, 11, 12]),
            _ => (200, 201, [1, 2, 3, 4, 137]),
        };
        let Ends { a, b, .. } = ends(version, 0);
        let mut script = Script::default();
        for _ in 0..20 {
            script.genuine(icmp(a, b, asks, 12));
            script.genuine(icmp(b, a, answers, 12));
        }
        for kind in forged {
            for quoted in [0, 4, 20] {
                script.forged(&icmp(b, a, kind, quoted));
                script.genuine(icmp(b, a, answers, 12));
            }
        }
        let text = format!("[service]\nname = \"x\"\nchain = [\"firewall\"]\n{RULES}");
        let service = service(&text.replace("pick_up = false\n", ""));
        let alone = run(&service, &script.trace, Paths::Slow, Execution::Virtual);
        assert_eq!(alone.packets.len(), script.genuine.len(), "{version}");
        for variant in VARIANTS {
            let service = vary(&service, variant);
            let both = run(&service, &script.trace, Paths::Both, Execution::Virtual);
            assert_same(&alone.flows, &both.flows, &format!("{variant:?}"));
            assert_eq!(alone.report.drops, both.report.drops, "{variant:?}");
            assert_share(&both, 0.5, &format!("{variant:?} {version}"));
            tell(SCRIPT, &both.report);
        }
    }
}

/// A router behind a translation tells of a packet that came to a host's own address, though the
/// host's session with that end has run out unnoticed, for cached rules may have used it: nothing was
/// translated, and nothing waits for those rules.
#[test]
fn errors_about_what_was_not_translated_leave() {
    let text = "[service]\nname = \"x\"\nchain = [\"napt\", \"router\"]\ninside = [\"10.0.0.0/8\"]\n\
        [rule_cache]\nthreshold = 0\nwindow = \"100ms\"\n\
        [napt]\ninside = [\"10.0.0.0/8\"]\nexternal = [\"198.51.100.1\"]\n\
        timeouts = { tcp_transitory = \"1s\", tcp_established = \"2s\" }\n\
        [router]\naddress = \"192.0.2.254\"\nno_route = \"drop\"\n\
        next_hops = [{ name = \"lab\", mac = \"02:00:00:00:02:01\", source_mac = \"02:00:00:00:00:02\", port = 0 }]\n\
        routes = [{ to = \"10.0.0.0/8\", via = \"lab\" }]\n";
    let Ends { a, b, .. } = ends(0, 1018);
    let mut script = Script::default();
    for _ in 0..60 {
        script.forged(&tcp(a, b, (ACK, 1000, 1000), 0));
    }
    script.now += Duration::from_secs(10);
    let late = PacketBuilder::tcp(b, a).flags(ACK).ttl(1);
    script.forged(&late.to_vec().expect("a packet"));
    let service = service(text);
    let alone = run(&service, &script.trace, Paths::Slow, Execution::Virtual);
    assert_eq!(alone.packets.len(), 1, "the error alone leaves");
    let mut hits = 0;
    for variant in VARIANTS {
        let service = vary(&service, variant);
        let both = run(&service, &script.trace, Paths::Both, Execution::Virtual);
        assert_same(&alone.flows, &both.flows, &format!("{variant:?}"));
        hits += both.report.rules.total.table.hits;
        tell(SCRIPT, &both.report);
    }
    assert!(hits > 0, "no cached rule was used");
}

/// Errors and resets of somebody who sees nothing of a connection are judged by what rules have told of it,
/// and take none of them; the other end's own reset does.
#[test]
fn strangers_take_no_rules_of_a_translation() {
    let text = "[service]\nname = \"x\"\nchain = [\"napt\"]\ninside = [\"10.0.0.0/8\"]\n\
        [rule_cache]\nthreshold = 0\nwindow = \"10ms\"\n\
        [napt]\ninside = [\"10.0.0.0/8\"]\nexternal = [\"198.51.100.1\"]\nassignment = \"preserve\"\n";
    let Ends { a, b, stranger } = ends(0, 1000);
    let external = Endpoint::v4([198, 51, 100, 1], 1000);
    let error = |sequence| {
        let quoted = tcp(external, b, (ACK, sequence, 5000), 10);
        let error = PacketBuilder::icmp_error(IcmpError::Unreachable { code: 1 }, &quoted);
        let error = error.source_address(stranger).to_vec();
        error.expect("a packet")
    };
    let mut script = Script::default();
    script.forged(&tcp(a, b, (SYN, 999, 0), 0));
    script.forged(&tcp(b, external, (SYN | ACK, 4999, 1000), 0));
    let (mut own, mut other) = (1000, 5000);
    for round in 0..400 {
        script.forged(&tcp(a, b, (ACK, own, other), 100));
        own += 100;
        script.forged(&tcp(b, external, (ACK, other, own), 100));
        other += 100;
        if round % 20 == 19 {
            script.forged(&tcp(b, external, (RST, other + 40_000, 0), 0));
            // About what was sent, and what was not.
            script.forged(&error(own - 100));
            script.forged(&error(own + 5_000_000));
        }
    }
    let service = service(text);
    let forged = script.trace.len() as u64;
    let alone = run(&service, &script.trace, Paths::Slow, Execution::Virtual);
    assert_eq!(
        alone.packets.len() as u64,
        forged - 20,
        "half of the errors"
    );
    let both = run(&service, &script.trace, Paths::Both, Execution::Virtual);
    assert_same(&alone.flows, &both.flows, "forged");
    tell(SCRIPT, &both.report);
    let manager = &both.report.rules.total.manager;
    assert_eq!((manager.added, manager.invalidated), (2, 0), "{manager:?}");
    assert!(both.report.fast.share > 0.9, "{:?}", both.report.fast);
    script.forged(&tcp(a, b, (ACK, own, other), 0));
    script.forged(&tcp(b, external, (RST, other, 0), 0));
    script.forged(&tcp(b, external, (ACK, other, own), 100));
    let alone = run(&service, &script.trace, Paths::Slow, Execution::Virtual);
    for variant in VARIANTS {
        let service = vary(&service, variant);
        let both = run(&service, &script.trace, Paths::Both, Execution::Virtual);
        assert_same(&alone.flows, &both.flows, &format!("{variant:?}"));
        let manager = &both.report.rules.total.manager;
        assert!(manager.invalidated >= 2, "{variant:?}: {manager:?}");
    }
}
