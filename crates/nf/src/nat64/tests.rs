use super::{Config, Nat64};
use crate::bindings::Bindings;
use crate::two_caches::{Bench, Outcome};
use twinpath_core::wire::icmp::{IcmpError, v4, v6};
use twinpath_core::wire::tcp::flags::{ACK, FIN, RST, SYN};
use twinpath_core::wire::{
    Address, Endpoint, Layout, Network, PacketBuilder, dissect, fields, protocol, rewrite,
};
use twinpath_core::{DropReason, Instant};

const BASIC: &str = r#"
    inside = ["2001:db8:1::/48"]
    external = ["192.0.2.1"]
    assignment = "preserve"
"#;
const HOST: &str = "[2001:db8:1::7]:5000";
const SERVER: &str = "8.8.8.8:53";
const SEEN: &str = "[64:ff9b::8.8.8.8]:53";
const EXTERNAL: &str = "192.0.2.1:5000";

fn bench(text: &str) -> Bench {
    let config: Config = toml::from_str(text).expect("a valid configuration");
    Bench::cached(vec![Box::new(Nat64::new(&config, 7))], 8)
}

fn end(text: &str) -> Endpoint {
    text.parse().expect(text)
}

fn at(seconds: u64) -> Instant {
    Instant(seconds * 1_000_000_000)
}

fn send(bench: &mut Bench, packet: PacketBuilder<'_>) -> Outcome {
    bench.process(&packet.to_vec().expect("fits"), 0, at(0))
}

fn ends(bytes: &[u8], layout: &Layout) -> (Endpoint, Endpoint) {
    (
        fields::source(bytes, layout),
        fields::destination(bytes, layout),
    )
}

/// The ends that a packet leaves with, of which all checksums hold.
fn sent(outcome: &Outcome) -> (Endpoint, Endpoint) {
    let (bytes, layout) = outcome.departed();
    ends(&bytes, &layout)
}

/// As somebody would have sent it who has the other version.
fn assert_is(outcome: &Outcome, expected: PacketBuilder<'_>) {
    let (bytes, layout) = outcome.departed();
    let expected = expected.ttl(63).to_vec().expect("fits");
    let other = dissect(&expected).expect("well formed");
    assert_eq!(
        bytes[usize::from(layout.l4)..],
        expected[usize::from(other.l4)..]
    );
    assert_eq!(ends(&bytes, &layout), ends(&expected, &other));
    assert_eq!(fields::ttl(&bytes, &layout), 63, "one less");
    assert_eq!(layout.network, other.network);
}

/// RFC 6146 §3.1, §3.5.
#[test]
fn a_connection_goes_both_ways() {
    let mut bench = bench(BASIC);
    for (flags, back) in [(SYN, SYN | ACK), (ACK, ACK), (ACK, ACK)] {
        let out = PacketBuilder::tcp(end(HOST), end(SEEN))
            .flags(flags)
            .payload(b"hello");
        let as_v4 = PacketBuilder::tcp(end(EXTERNAL), end(SERVER))
            .flags(flags)
            .payload(b"hello");
        assert_is(&send(&mut bench, out), as_v4);
        let answer = PacketBuilder::tcp(end(SERVER), end(EXTERNAL)).flags(back);
        let as_v6 = PacketBuilder::tcp(end(SEEN), end(HOST)).flags(back);
        assert_is(&send(&mut bench, answer), as_v6);
    }
    assert_eq!(bench.counter(0, "sessions_created"), 1);
    assert_eq!(bench.counter(0, "translated_out"), 3);
    assert_eq!(bench.rules(), 0, "no rule can write another version");
}

#[test]
fn broken_packets_open_and_end_nothing() {
    let mut bench = bench(BASIC);
    let broken = |packet: PacketBuilder<'_>| {
        let mut frame = packet.payload(b"hello").to_vec().expect("fits");
        let end = dissect(&frame).expect("well formed").end as usize;
        frame[end - 1] ^= 0x11;
        frame
    };
    let out = |flags| PacketBuilder::tcp(end(HOST), end(SEEN)).flags(flags);
    let back = |flags| PacketBuilder::tcp(end(SERVER), end(EXTERNAL)).flags(flags);
    let opening = [out(SYN), PacketBuilder::udp(end(HOST), end(SEEN))];
    for frame in opening.map(broken) {
        let fate = bench.process(&frame, 0, at(0));
        assert_eq!(fate.packet, Err(DropReason::BadChecksum));
    }
    assert_eq!(bench.counter(0, "bindings_created"), 0);
    for packet in [out(SYN), back(SYN | ACK), out(ACK), back(ACK)] {
        send(&mut bench, packet).departed();
    }
    for frame in [out(RST), back(RST), back(FIN | ACK)].map(broken) {
        let fate = bench.process(&frame, 0, at(0));
        assert_eq!(fate.packet, Err(DropReason::BadChecksum));
    }
    assert_eq!(bench.counter(0, "packets_with_bad_checksum"), 5);
    let late = out(ACK).to_vec().expect("fits");
    bench.process(&late, 0, at(7000)).departed();
}

/// RFC 6146 §3.1, §3.5.
#[test]
fn datagrams_and_echoes_go_both_ways() {
    let mut bench = bench(BASIC);
    let out = PacketBuilder::udp(end(HOST), end(SEEN)).payload(b"question");
    assert_is(
        &send(&mut bench, out),
        PacketBuilder::udp(end(EXTERNAL), end(SERVER)).payload(b"question"),
    );
    let back = PacketBuilder::udp(end(SERVER), end(EXTERNAL)).payload(b"answer");
    assert_is(
        &send(&mut bench, back),
        PacketBuilder::udp(end(SEEN), end(HOST)).payload(b"answer"),
    );
    // Another host has the identifier already, so that it changes.
    for host in ["[2001:db8:1::8]:77", "[2001:db8:1::7]:77"] {
        let out = send(
            &mut bench,
            PacketBuilder::icmp_echo(end(host), end(SEEN)).payload(b"ping"),
        );
        let (bytes, layout) = out.departed();
        assert_eq!(
            fields::icmp_kind(&bytes, &layout),
            Some((v4::ECHO_REQUEST, 0))
        );
        let seen = fields::source(&bytes, &layout);
        let reply = PacketBuilder::icmp_echo(Endpoint::new(end(SERVER).address, seen.port), seen);
        let reply = send(&mut bench, reply.echo_reply().payload(b"pong"));
        let (bytes, layout) = reply.departed();
        assert_eq!(
            fields::icmp_kind(&bytes, &layout),
            Some((v6::ECHO_REPLY, 0))
        );
        assert_eq!(fields::destination(&bytes, &layout), end(host));
    }
    let stranger = send(
        &mut bench,
        PacketBuilder::udp(end("7.7.7.7:1"), end("192.0.2.1:9")),
    );
    assert_eq!(
        stranger.packet,
        Err(DropReason::Unsolicited),
        "nobody asked"
    );
}

/// RFC 6146 §3.4.
#[test]
fn a_datagram_without_checksum_gets_one() {
    let mut bench = bench(BASIC);
    send(&mut bench, PacketBuilder::udp(end(HOST), end(SEEN)));
    let answer = PacketBuilder::udp(end(SERVER), end(EXTERNAL)).payload(b"odd");
    let mut frame = answer.to_vec().expect("fits");
    let layout = dissect(&frame).expect("well formed");
    let at_checksum = usize::from(layout.l4) + 6;
    frame[at_checksum..at_checksum + 2].fill(0);
    let outcome = bench.process(&frame, 0, at(0));
    assert_is(
        &outcome,
        PacketBuilder::udp(end(SEEN), end(HOST)).payload(b"odd"),
    );
}

/// RFC 6146 §3.4.
#[test]
fn a_datagram_without_checksum_is_dropped_in_parts() {
    let mut bench = bench(BASIC);
    send(&mut bench, PacketBuilder::udp(end(HOST), end(SEEN)));
    let first = PacketBuilder::udp(end(SERVER), end(EXTERNAL)).payload_len(64);
    let first = first.fragment(0, true).to_vec().expect("fits");
    let layout = dissect(&first).expect("well formed");
    let mut without = first.clone();
    let at_checksum = usize::from(layout.l4) + 6;
    without[at_checksum..at_checksum + 2].fill(0);
    assert!(bench.process(&without, 0, at(0)).packet.is_err());
    assert!(
        bench.process(&first, 0, at(0)).packet.is_ok(),
        "with one it passes"
    );
}

/// What quotes a packet of a session must have been made of it, and by whom it can be.
/// RFC 6146 §3.6.1.
#[test]
fn errors_that_do_not_answer_for_themselves_are_dropped() {
    let mut bench = bench(&BASIC.replace("192.0.2.1\"", "192.0.2.1\", \"192.0.2.2\""));
    let left = send(&mut bench, PacketBuilder::udp(end(HOST), end(SEEN)))
        .departed()
        .0;
    let kind = IcmpError::Unreachable { code: 3 };
    let good = PacketBuilder::icmp_error(kind, &left)
        .to_vec()
        .expect("fits");
    let layout = dissect(&good).expect("well formed");
    let (quote, message) = (usize::from(layout.payload), usize::from(layout.l4));
    let own = fields::destination(&good, &layout).address;
    let other = ["192.0.2.1:0", "192.0.2.2:0"].map(end);
    let other = other
        .into_iter()
        .find(|end| end.address != own)
        .expect("two");
    let mut to_other = good.clone();
    rewrite::set_destination(&mut to_other, &layout, other).expect("IPv4");
    let mut damaged = good.clone();
    damaged[message + 2] ^= 1;
    let mut damaged_quote = good.clone();
    damaged_quote[quote + 8] ^= 1;
    rewrite::refresh_checksums(&mut damaged_quote, &layout).expect("whole");
    let gateway = end("8.8.8.1:0").address;
    let redirect = PacketBuilder::icmp_error(IcmpError::Redirect { code: 1, gateway }, &left);
    for (frame, reason) in [
        (to_other, DropReason::IcmpRecipient),
        (damaged, DropReason::BadChecksum),
        (damaged_quote, DropReason::IcmpQuote),
        (redirect.to_vec().expect("fits"), DropReason::IcmpType),
    ] {
        assert_eq!(bench.process(&frame, 0, at(0)).packet, Err(reason));
    }
    assert!(bench.process(&good, 0, at(0)).packet.is_ok());
    for (name, count) in [
        ("icmp_errors_for_another", 1),
        ("icmp_errors_with_bad_checksum", 1),
        ("icmp_errors_with_bad_quote", 1),
        ("icmp_redirects_refused", 1),
        ("errors_dropped", 4),
        ("errors_translated", 1),
        ("untranslatable", 0),
    ] {
        assert_eq!(bench.counter(0, name), count, "{name}");
    }
}

/// RFC 5927 §4.1: of a connection that begins its SYN is known.
#[test]
fn a_quoted_segment_is_one_that_its_host_has_sent() {
    let mut bench = bench(BASIC);
    let syn = PacketBuilder::tcp(end(HOST), end(SEEN)).flags(SYN).seq(100);
    let left = send(&mut bench, syn).departed().0;
    let layout = dissect(&left).expect("well formed");
    let [host, server] = [fields::source, fields::destination].map(|of| of(&left, &layout));
    let kind = IcmpError::Unreachable { code: 3 };
    let quoting = |number| {
        let quoted = PacketBuilder::tcp(host, server).flags(SYN).seq(number);
        let quoted = quoted.to_vec().expect("fits");
        let error = PacketBuilder::icmp_error(kind, &quoted);
        error.to_vec().expect("fits")
    };
    let refused = bench.process(&quoting(101), 0, at(0)).packet;
    assert_eq!(refused, Err(DropReason::IcmpQuote));
    assert!(bench.process(&quoting(100), 0, at(0)).packet.is_ok());
    assert_eq!(bench.counter(0, "icmp_errors_out_of_window"), 1);
    assert_eq!(bench.counter(0, "errors_dropped"), 1);
}

/// RFC 6146 §3.6.1.
#[test]
fn errors_are_translated_with_what_they_quote() {
    let mut bench = bench(BASIC);
    let out = PacketBuilder::udp(end(HOST), end(SEEN)).payload(b"too long");
    let sent = send(&mut bench, out).departed().0;
    let router = end("7.7.7.7:0").address;
    let error = PacketBuilder::icmp_error(IcmpError::PacketTooBig { mtu: 1400 }, &sent);
    let outcome = send(&mut bench, error.source_address(router));
    let (bytes, layout) = outcome.departed();
    assert_eq!(
        fields::icmp_kind(&bytes, &layout),
        Some((v6::PACKET_TOO_BIG, 0))
    );
    assert_eq!(
        bytes[usize::from(layout.l4) + 4..][..4],
        1420u32.to_be_bytes()
    );
    assert_eq!(
        ends(&bytes, &layout).0.address,
        end("[64:ff9b::7.7.7.7]:0").address
    );
    assert_eq!(ends(&bytes, &layout).1.address, end(HOST).address);
    assert_eq!(fields::inner_source(&bytes, &layout), Some(end(HOST)));
    assert_eq!(fields::inner_destination(&bytes, &layout), Some(end(SEEN)));
    let received = send(&mut bench, PacketBuilder::udp(end(SERVER), end(EXTERNAL)))
        .departed()
        .0;
    let error = PacketBuilder::icmp_error(IcmpError::Unreachable { code: 4 }, &received);
    let (bytes, layout) = send(&mut bench, error).departed();
    assert_eq!(
        fields::icmp_kind(&bytes, &layout),
        Some((v4::UNREACHABLE, 3))
    );
    assert_eq!(ends(&bytes, &layout).0.address, end(EXTERNAL).address);
    assert_eq!(fields::inner_source(&bytes, &layout), Some(end(SERVER)));
    assert_eq!(
        fields::inner_destination(&bytes, &layout),
        Some(end(EXTERNAL))
    );
    let unknown = PacketBuilder::udp(end("192.0.2.1:9"), end(SERVER))
        .to_vec()
        .expect("fits");
    let error = PacketBuilder::icmp_error(IcmpError::Unreachable { code: 3 }, &unknown);
    assert!(send(&mut bench, error).packet.is_err());
    assert_eq!(bench.counter(0, "errors_translated"), 2);
}

/// RFC 6146 §3.5.1, §3.8.
#[test]
fn hosts_inside_reach_each_other_by_their_external_endpoints() {
    for filtering in ["endpoint_independent", "address_dependent"] {
        let mut bench = bench(&format!("filtering = '{filtering}'\n{BASIC}"));
        send(&mut bench, PacketBuilder::udp(end(HOST), end(SEEN)));
        let (other, seen) = ("[2001:db8:1::8]:6000", "[64:ff9b::192.0.2.1]:5000");
        let there = send(&mut bench, PacketBuilder::udp(end(other), end(seen)));
        if filtering == "endpoint_independent" {
            assert_eq!(sent(&there), (end("[64:ff9b::192.0.2.1]:6000"), end(HOST)));
        } else {
            assert_eq!(
                there.packet,
                Err(DropReason::Unsolicited),
                "but it has opened its own"
            );
        }
        let back = PacketBuilder::udp(end(HOST), end("[64:ff9b::192.0.2.1]:6000"));
        assert_eq!(sent(&send(&mut bench, back)), (end(seen), end(other)));
    }
}

fn parts(packet: PacketBuilder<'_>, id: u32) -> [Vec<u8>; 2] {
    let whole = packet.payload(&[7; 100]).identification(id);
    [whole.fragment(0, true), whole.fragment(48, false)].map(|part| part.to_vec().expect("fits"))
}

/// RFC 6146 §3.4.
#[test]
fn fragments_go_both_ways_in_any_order() {
    for is_reversed in [false, true] {
        let mut bench = bench(BASIC);
        send(&mut bench, PacketBuilder::udp(end(HOST), end(SEEN)));
        for (from, to, new) in [
            (HOST, SEEN, [EXTERNAL, SERVER]),
            (SERVER, EXTERNAL, [SEEN, HOST]),
        ] {
            let mut order = parts(PacketBuilder::udp(end(from), end(to)), 9);
            let expected = parts(PacketBuilder::udp(end(new[0]), end(new[1])), 9);
            if is_reversed {
                order.reverse();
            }
            let mut left = Vec::new();
            for part in order {
                let held = bench.counter(0, "fragments_held");
                let outcome = bench.process(&part, 0, at(0));
                if bench.counter(0, "fragments_held") == held {
                    left.push(outcome.packet.expect("translated").0);
                }
                left.extend(outcome.followers);
            }
            left.sort_by_key(|part| dissect(part).expect("well formed").fragment as u8);
            assert_eq!(left.len(), 2);
            for (part, expected) in left.iter().zip(&expected) {
                let [layout, other] =
                    [part, expected].map(|part| dissect(part).expect("well formed"));
                assert_eq!(layout.fragment, other.fragment);
                assert_eq!(
                    part[usize::from(layout.l4)..],
                    expected[usize::from(other.l4)..]
                );
                assert_eq!(ends(part, &layout).0.address, end(new[0]).address);
            }
        }
    }
}

fn identification(frame: &[u8]) -> u16 {
    let layout = dissect(frame).expect("well formed");
    fields::identification(frame, &layout).expect("IPv4")
}

/// RFC 7915 §5.1, RFC 6864 §5.3.1: datagrams and fragments of hosts that share an address.
#[test]
fn what_becomes_ipv4_is_numbered() {
    let mut bench = bench(BASIC);
    let mut drawn = std::collections::HashSet::new();
    let hosts = [HOST, "[2001:db8:1::8]:5000"];
    for host in (0..50).flat_map(|_| hosts) {
        let datagram = PacketBuilder::udp(end(host), end(SEEN));
        let (whole, _) = send(&mut bench, datagram).departed();
        assert!(drawn.insert(identification(&whole)), "twice");
        let [first, second] = parts(datagram, 9).map(|part| {
            let outcome = bench.process(&part, 0, at(0));
            identification(&outcome.packet.expect("translated").0)
        });
        assert_eq!(first, second, "of one datagram");
        assert!(drawn.insert(first), "twice");
    }
    let long = PacketBuilder::udp(end(HOST), end(SEEN)).payload_len(1300);
    let (atomic, _) = send(&mut bench, long).departed();
    assert_eq!(identification(&atomic), 0, "RFC 6864 §4.1: none is needed");
}

/// RFC 7915 §4: what may be fragmented is, to what every link of IPv6 carries.
#[test]
fn long_packets_that_may_be_fragmented_are() {
    let mut bench = bench(BASIC);
    send(&mut bench, PacketBuilder::udp(end(HOST), end(SEEN)));
    let payload: Vec<u8> = (0..1450).map(|byte| byte as u8).collect();
    let long = PacketBuilder::udp(end(SERVER), end(EXTERNAL))
        .payload(&payload)
        .identification(5);
    let outcome = send(&mut bench, long);
    let first = outcome.packet.expect("the first").0;
    assert_eq!(outcome.followers.len(), 1);
    let mut joined = Vec::new();
    for (number, part) in [&first, &outcome.followers[0]].into_iter().enumerate() {
        let layout = dissect(part).expect("well formed");
        assert_eq!(layout.network, Network::V6);
        assert!(part.len() <= 14 + 1280, "{}", part.len());
        assert_eq!(layout.fragment as u8, 1 + number as u8);
        joined.extend_from_slice(&part[usize::from(layout.l4)..]);
    }
    let whole = PacketBuilder::udp(end(SEEN), end(HOST)).payload(&payload);
    let whole = whole.to_vec().expect("fits");
    let layout = dissect(&whole).expect("well formed");
    assert_eq!(joined, whole[usize::from(layout.l4)..]);
    assert_eq!(bench.counter(0, "fragmented"), 1);
}

/// RFC 4787 REQ-13, RFC 7915 §4.
/// RFC 5508 REQ-10.
#[test]
fn long_packets_that_must_not_be_fragmented_are_answered() {
    let mut bench = bench(&format!("mtu = 1300\n{BASIC}"));
    send(&mut bench, PacketBuilder::udp(end(HOST), end(SEEN)));
    let long = PacketBuilder::udp(end(SERVER), end(EXTERNAL)).payload_len(1300);
    let mut frame = long.to_vec().expect("fits");
    let layout = dissect(&frame).expect("well formed");
    // It must not be fragmented.
    frame[usize::from(layout.l3) + 6] |= 0x40;
    twinpath_core::wire::rewrite::refresh_checksums(&mut frame, &layout).expect("whole");
    let outcome = bench.process(&frame, 0, at(0));
    assert_eq!(outcome.packet, Err(DropReason::TooLong));
    let error = outcome.replies.first().expect("an answer");
    let layout = dissect(error).expect("well formed");
    assert_eq!(
        fields::icmp_kind(error, &layout),
        Some((v4::UNREACHABLE, v4::FRAGMENTATION_NEEDED))
    );
    assert_eq!(
        error[usize::from(layout.l4) + 6..][..2],
        1280u16.to_be_bytes()
    );
    assert_eq!(
        fields::destination(error, &layout).address,
        end(SERVER).address
    );
    assert_eq!(
        fields::source(error, &layout).address,
        end(EXTERNAL).address
    );
    assert_eq!(bench.counter(0, "too_long"), 1);
}

/// RFC 6146 §3.5 (RFC 6052 §3.1), RFC 5508 REQ-10.
#[test]
fn others_pass_and_what_has_no_counterpart_is_dropped() {
    let mut bench = bench(BASIC);
    for (from, to) in [
        ("[2001:db8:1::7]:1", "[2001:db8:9::9]:2"),
        ("[2001:db8:2::7]:1", SEEN),
        ("7.7.7.7:1", "8.8.8.8:2"),
    ] {
        for _ in 0..2 {
            let passed = send(&mut bench, PacketBuilder::udp(end(from), end(to)));
            assert_eq!(sent(&passed), (end(from), end(to)));
        }
    }
    assert_eq!(bench.hits, 3, "by rules");
    let local = PacketBuilder::udp(end(HOST), end("[64:ff9b::10.0.0.1]:53"));
    assert_eq!(
        send(&mut bench, local).packet,
        Err(DropReason::UntranslatableAddress)
    );
    let gre = PacketBuilder::raw(protocol::GRE, end(HOST).address, end(SEEN).address);
    assert_eq!(
        send(&mut bench, gre).packet,
        Err(DropReason::UntranslatableProtocol)
    );
    let dying = PacketBuilder::udp(end(HOST), end(SEEN)).ttl(1);
    let outcome = send(&mut bench, dying);
    assert_eq!(outcome.packet, Err(DropReason::TimeToLive));
    let layout = dissect(&outcome.replies[0]).expect("an answer");
    assert_eq!(
        fields::icmp_kind(&outcome.replies[0], &layout),
        Some((v6::TIME_EXCEEDED, 0))
    );
    assert_eq!(bench.counter(0, "untranslatable"), 2);
}

#[test]
fn hosts_may_have_another_prefix_in_front_of_ipv4() {
    let mut bench = bench(&format!("prefix = '2001:db8:64::/48'\n{BASIC}"));
    let seen = Address::from_v6(
        "2001:db8:64:a00:0:100::"
            .parse::<std::net::Ipv6Addr>()
            .expect("an address")
            .octets(),
    );
    let outcome = send(
        &mut bench,
        PacketBuilder::udp(end(HOST), Endpoint::new(seen, 53)),
    );
    assert_eq!(sent(&outcome).1, end("10.0.0.1:53"), "local ones too");
}

#[test]
fn contradictions_are_refused() {
    for (from, to, expected) in [
        ("2001:db8:1::/48", "10.0.0.0/8", "expected IPv6"),
        (
            "2001:db8:1::/48",
            "64:ff9b::c000:0/112",
            "within prefix = 64:ff9b::/96",
        ),
        ("192.0.2.1", "2001:db8:9::1", "expected IPv4"),
        (
            "assignment = \"preserve\"",
            "prefix = '64:ff9b::/33'",
            "expected IPv6 with 32, 40",
        ),
        (
            "assignment = \"preserve\"",
            "mtu = 1279",
            "expected 1280 to 9000",
        ),
        (
            "assignment = \"preserve\"",
            "lowest_mtu = 1600",
            "larger than mtu = 1500",
        ),
        (
            "assignment = \"preserve\"",
            "ports_per_host = 0",
            "expected at least 1",
        ),
    ] {
        let text = BASIC.replace(from, to);
        let error = toml::from_str::<Config>(&text)
            .expect_err("refused")
            .to_string();
        assert!(error.contains(expected), "{error}");
    }
}

const OTHER: &str = "[2001:db8:1::8]:6000";
/// The hosts as they know each other.
const SHOWN: &str = "[64:ff9b::192.0.2.1]:5000";
const OTHER_SHOWN: &str = "[64:ff9b::192.0.2.1]:6000";

/// Both have sent something out.
fn acquainted() -> Bench {
    let mut bench = bench(BASIC);
    for host in [HOST, OTHER] {
        send(&mut bench, PacketBuilder::udp(end(host), end(SEEN))).departed();
    }
    bench
}

/// RFC 6146 §3.8.
#[test]
fn errors_between_hosts_that_share_an_address() {
    let mut bench = acquainted();
    let there = PacketBuilder::udp(end(OTHER), end(SHOWN)).payload(b"hello");
    let (received, layout) = send(&mut bench, there).departed();
    assert_eq!(ends(&received, &layout), (end(OTHER_SHOWN), end(HOST)));
    let error = PacketBuilder::icmp_error(IcmpError::Unreachable { code: 4 }, &received);
    let (bytes, layout) = send(&mut bench, error).departed();
    assert_eq!(layout.network, Network::V6);
    let (from, to) = ends(&bytes, &layout);
    assert_eq!(
        (from.address, to.address),
        (end(SHOWN).address, end(OTHER).address)
    );
    assert_eq!(fields::inner_source(&bytes, &layout), Some(end(OTHER)));
    assert_eq!(fields::inner_destination(&bytes, &layout), Some(end(SHOWN)));
    assert_eq!(bench.counter(0, "errors_translated"), 1);
    // About what nobody has sent.
    let forged = PacketBuilder::udp(end("[64:ff9b::192.0.2.1]:9"), end(HOST));
    let forged = forged.to_vec().expect("fits");
    let error = PacketBuilder::icmp_error(IcmpError::Unreachable { code: 4 }, &forged);
    assert_eq!(send(&mut bench, error).packet, Err(DropReason::IcmpSession));
    assert_eq!(bench.counter(0, "errors_translated"), 1);
}

/// RFC 5508 REQ-7: a request bears what stands for its sender, so that the answer finds it.
#[test]
fn hosts_inside_answer_each_others_echoes() {
    let mut bench = bench(BASIC);
    let [asks, asked] = ["[2001:db8:1::7]:77", "[2001:db8:1::8]:500"].map(end);
    for host in [asks, asked] {
        send(&mut bench, PacketBuilder::icmp_echo(host, end(SEEN))).departed();
    }
    let echo = |from, to| PacketBuilder::icmp_echo(from, to).payload(b"ping");
    // Both have what they had inside.
    let shown = end("[64:ff9b::192.0.2.1]:500");
    for _ in 0..2 {
        let request = echo(Endpoint::new(asks.address, 500), shown);
        let (bytes, layout) = send(&mut bench, request).departed();
        assert!(twinpath_core::wire::verify_transport_checksum(
            &bytes, &layout
        ));
        let (from, to) = ends(&bytes, &layout);
        assert_eq!((from.address, to.address), (shown.address, asked.address));
        assert_ne!(to.port, 500, "that is the other's");
        let (bytes, layout) = send(&mut bench, echo(to, from).echo_reply()).departed();
        let answer = (shown, Endpoint::new(asks.address, 500));
        assert_eq!(ends(&bytes, &layout), answer);
    }
}

/// An echo has one identifier, which does not name both ends there.
#[test]
fn errors_about_echoes_do_not_tell_whom_they_are_for() {
    let mut bench = bench(BASIC);
    for host in ["[2001:db8:1::7]:77", "[2001:db8:1::8]:77"] {
        send(&mut bench, PacketBuilder::icmp_echo(end(host), end(SEEN))).departed();
    }
    let shown = "[64:ff9b::192.0.2.1]:77";
    let there = PacketBuilder::icmp_echo(end("[2001:db8:1::8]:77"), end(shown));
    let (received, _) = send(&mut bench, there).departed();
    let error = PacketBuilder::icmp_error(IcmpError::TimeExceeded { code: 0 }, &received);
    assert_eq!(send(&mut bench, error).packet, Err(DropReason::IcmpSession));
}

/// RFC 6146 §3.8.
#[test]
fn fragments_between_hosts_that_share_an_address() {
    for is_reversed in [false, true] {
        let mut bench = acquainted();
        let mut order = parts(PacketBuilder::udp(end(OTHER), end(SHOWN)), 9);
        let expected = parts(PacketBuilder::udp(end(OTHER_SHOWN), end(HOST)), 9);
        if is_reversed {
            order.reverse();
        }
        let mut left = Vec::new();
        for part in order {
            let held = bench.counter(0, "fragments_held");
            let outcome = bench.process(&part, 0, at(0));
            if bench.counter(0, "fragments_held") == held {
                left.push(outcome.packet.expect("goes on").0);
            }
            left.extend(outcome.followers);
        }
        assert_eq!(left, expected);
        assert_eq!(bench.counter(0, "hairpinned"), 2);
        assert_eq!(bench.counter(0, "untranslatable"), 0);
    }
    let mut bench = bench(BASIC);
    let [first, second] = parts(PacketBuilder::udp(end(OTHER), end(SHOWN)), 9);
    for part in [second, first] {
        bench.process(&part, 0, at(0));
    }
    assert_eq!(bench.counter(0, "fragments_given_up"), 1, "nobody is there");
}

const FORWARDING: &str = r#"
    inside = ["2001:db8:1::/48"]
    external = ["192.0.2.1"]
    filtering = "address_and_port_dependent"
    forward = [
        { protocol = "tcp", external = "192.0.2.1:8080-8089", to = "[2001:db8:1::5]:80" },
        { protocol = "udp", external = "192.0.2.7:53", to = "[2001:db8:1::5]:5353" },
        { external = "192.0.2.9", to = "2001:db8:1::9" },
    ]
"#;

/// RFC 6146 §3.1: static bindings.
#[test]
fn anyone_reaches_a_forwarded_port_and_hears_from_it() {
    let mut bench = bench(FORWARDING);
    for (external, host) in [
        ("192.0.2.1:8080", "[2001:db8:1::5]:80"),
        ("192.0.2.1:8089", "[2001:db8:1::5]:89"),
        ("192.0.2.9:22", "[2001:db8:1::9]:22"),
    ] {
        let tcp = |from: &str, to: &str, flags| PacketBuilder::tcp(end(from), end(to)).flags(flags);
        let early = send(&mut bench, tcp(SERVER, external, ACK));
        assert_eq!(early.packet, Err(DropReason::Unsolicited));
        let opened = send(&mut bench, tcp(SERVER, external, SYN));
        assert_is(&opened, tcp(SEEN, host, SYN));
        let answered = send(&mut bench, tcp(host, SEEN, SYN | ACK));
        assert_is(&answered, tcp(external, SERVER, SYN | ACK));
    }
    let question = PacketBuilder::udp(end(SERVER), end("192.0.2.7:53"));
    let host = "[2001:db8:1::5]:5353";
    assert_is(
        &send(&mut bench, question),
        PacketBuilder::udp(end(SEEN), end(host)),
    );
    let ping = PacketBuilder::icmp_echo(end("8.8.8.8:7"), end("192.0.2.9:7"));
    let (bytes, layout) = send(&mut bench, ping).departed();
    assert_eq!(ends(&bytes, &layout).1, end("[2001:db8:1::9]:7"));
    let closed = PacketBuilder::tcp(end(SERVER), end("192.0.2.1:8090")).flags(SYN);
    assert_eq!(
        send(&mut bench, closed).packet,
        Err(DropReason::Unsolicited)
    );
    // A whole address needs no ports.
    let [_, later] = parts(PacketBuilder::udp(end(SERVER), end("192.0.2.9:53")), 9);
    let later = bench.process(&later, 0, at(0)).packet.expect("let in").0;
    let layout = dissect(&later).expect("well formed");
    assert_eq!(
        fields::destination(&later, &layout).address,
        end("[2001:db8:1::9]:0").address
    );
}

#[test]
fn hosts_inside_reach_forwarded_ports_as_others_do() {
    let mut bench = bench(FORWARDING);
    let seen = "[64:ff9b::192.0.2.1]:8080";
    let there = PacketBuilder::tcp(end(HOST), end(seen)).flags(SYN);
    let (from, to) = sent(&send(&mut bench, there));
    assert_eq!(to, end("[2001:db8:1::5]:80"));
    let back = PacketBuilder::tcp(end("[2001:db8:1::5]:80"), from).flags(SYN | ACK);
    assert_eq!(sent(&send(&mut bench, back)), (end(seen), end(HOST)));
}

#[test]
fn forwards_are_listed_with_the_bindings() {
    let mut bench = bench(FORWARDING);
    send(
        &mut bench,
        PacketBuilder::udp(end("[2001:db8:1::9]:4"), end(SEEN)),
    )
    .departed();
    let told = bench.function::<Nat64>(0).bindings().told();
    let expected = [
        "[2001:db8:1::5]:80 tcp as 192.0.2.1:8080-8089, forwarded",
        "[2001:db8:1::5]:5353 udp as 192.0.2.7:53, forwarded",
        "2001:db8:1::9 as 192.0.2.9, forwarded",
        "[2001:db8:1::9]:4 udp as 192.0.2.9:4, sessions: 1",
    ];
    assert_eq!(told, expected);
}

#[test]
fn forwards_that_cannot_be_are_refused() {
    for (from, to, expected) in [
        (
            "192.0.2.7:53\"",
            "[2001:db8::7]:53\"",
            "expected an address of IPv4 in external",
        ),
        (
            "\"2001:db8:1::9\"",
            "\"10.0.0.9\"",
            "expected an address of IPv4 in external",
        ),
        (
            "\"2001:db8:1::9\"",
            "\"2001:db8:2::9\"",
            "in no prefix of inside",
        ),
        ("192.0.2.9", "192.0.2.1", "cannot be in external"),
        ("192.0.2.9", "224.0.0.9", "multicast"),
    ] {
        let text = FORWARDING.replace(from, to);
        let error = toml::from_str::<Config>(&text)
            .expect_err("refused")
            .to_string();
        assert!(error.contains(expected), "{error}");
    }
}

/// RFC 6888 REQ-4: a network of IPv6 is one host, which may take any of its addresses.
#[test]
fn a_network_has_the_ports_and_sessions_of_one_host() {
    let open = |bench: &mut Bench, network: u8, address: u16, server: u8| {
        let host = end(&format!("[2001:db8:1:{network}::{address}]:5000"));
        let server = end(&format!("[64:ff9b::8.8.8.{server}]:53"));
        send(bench, PacketBuilder::udp(host, server))
            .packet
            .map(|_| ())
    };
    let text = BASIC.replace("preserve", "random");
    for (limit, server) in [("ports_per_host", 1), ("sessions_per_host", 2)] {
        let mut bench = bench(&format!("{limit} = 3\n{text}"));
        for address in 1..=3 {
            assert_eq!(open(&mut bench, 0, address, 1), Ok(()));
        }
        let fourth = open(&mut bench, 0, 4, server);
        assert_eq!(fourth, Err(DropReason::HostLimit), "{limit}");
        assert_eq!(open(&mut bench, 1, 1, 1), Ok(()), "another network");
        let text = format!("{limit} = 3\nper_host_v6_prefix = 128\n{text}");
        let mut bench = self::bench(&text);
        assert!((1..=9).all(|address| open(&mut bench, 0, address, 1).is_ok()));
    }
}
