//! Fragments of translated datagrams.

use super::*;
use std::collections::HashSet;
use twinpath_core::wire::icmp::IcmpError;
use twinpath_core::wire::{Network, dissect, protocol, verify_ipv4_checksum};

/// Two fragments of one datagram.
fn fragments(from: &str, to: &str, identification: u32) -> [Vec<u8>; 2] {
    let whole = PacketBuilder::udp(end(from), end(to))
        .payload(&[7; 100])
        .identification(identification);
    [whole.fragment(0, true), whole.fragment(48, false)]
        .map(|fragment| fragment.to_vec().expect("fits"))
}

/// Of an IPv4 packet.
fn identification(frame: &[u8]) -> u16 {
    u16::from_be_bytes([frame[18], frame[19]])
}

fn process(bench: &mut Bench, frame: &[u8], seconds: u64) -> Result<Vec<u8>, DropReason> {
    let outcome = bench.process(frame, 0, at(seconds));
    outcome.packet.map(|(bytes, _)| bytes)
}

#[test]
fn a_translated_datagram_s_fragments_are_those_of_the_datagram_translated() {
    let mut bench = bench(BASIC);
    let v4 = ["10.0.0.1", "10.0.0.2", "8.8.8.8:53", "192.0.2.1:0"];
    let v6 = [
        "[fd00::1]",
        "[fd00::2]",
        "[2001:db8:8::8]:53",
        "[2001:db8::1]:0",
    ];
    for [host, other, server, external] in [v4, v6] {
        // Another host has that port outside, so that the port changes too.
        udp(&mut bench, &format!("{other}:5000"), server, 0).expect("translated");
        for id in [1, 2, 0x0005_0001] {
            let host = format!("{host}:5000");
            let out = fragments(&host, server, id);
            let sent = out.map(|frame| process(&mut bench, &frame, 0).expect("translated"));
            let layout = dissect(&sent[0]).expect("well formed");
            let source = fields::source(&sent[0], &layout);
            assert_eq!(source.address, end(external).address);
            assert_ne!(source.port, 5000);
            let id = match layout.network {
                Network::V4 => identification(&sent[0]).into(),
                _ => id,
            };
            let expected = fragments(&source.to_string(), server, id);
            assert_eq!(sent, expected, "as if sent by the external endpoint");
            let back = fragments(server, &source.to_string(), id);
            let back = back.map(|frame| process(&mut bench, &frame, 0).expect("let in"));
            assert_eq!(back, fragments(server, &host, id));
        }
    }
    assert_eq!(bench.counter(0, "fragments_translated"), 24);
    assert_eq!(bench.rules(), 2, "those of the other hosts alone");
}

/// Options follow the fragment header, and are all that the later fragment's header names.
#[test]
fn extension_headers_of_a_fragmented_datagram_are_walked() {
    let mut bench = bench(BASIC);
    let whole = PacketBuilder::udp(end("[fd00::1]:5000"), end("[2001:db8:8::8]:53"))
        .payload(&[7; 100])
        .identification(9);
    let named_at = 14 + 40;
    let mut first = whole.fragment(0, true).to_vec().expect("fits");
    let options = [protocol::UDP, 0, 1, 4, 0, 0, 0, 0];
    first.splice(named_at + 8..named_at + 8, options);
    let payload = u16::try_from(first.len() - named_at).expect("fits");
    first[named_at - 36..named_at - 34].copy_from_slice(&payload.to_be_bytes());
    let mut later = whole.fragment(48, false).to_vec().expect("fits");
    for frame in [&mut first, &mut later] {
        frame[named_at] = protocol::DESTINATION_OPTIONS;
    }
    for frame in [first, later] {
        let sent = process(&mut bench, &frame, 0).expect("translated");
        let layout = dissect(&sent).expect("well formed");
        let source = fields::source(&sent, &layout).address;
        assert_eq!(source, end("[2001:db8::1]:0").address);
    }
    assert_eq!(bench.counter(0, "fragments_translated"), 2);
}

/// Those of an answer that came in this order.
fn answered(bench: &mut Bench, parts: &[&[u8]], seconds: u64) -> Vec<Vec<u8>> {
    let mut left = Vec::new();
    for part in parts {
        let held = bench.counter(0, "fragments_held");
        let outcome = bench.process(part, 0, at(seconds));
        if bench.counter(0, "fragments_held") > held {
            assert!(outcome.followers.is_empty());
            continue;
        }
        left.extend(outcome.packet.map(|(bytes, _)| bytes));
        left.extend(outcome.followers);
    }
    left
}

/// RFC 4787 REQ-14.
#[test]
fn answers_in_parts_may_come_in_any_order() {
    for (host, server, external) in [
        ("10.0.0.1:5000", "8.8.8.8:53", "192.0.2.1:5000"),
        ("[fd00::1]:5000", "[2001:db8:8::8]:53", "[2001:db8::1]:5000"),
    ] {
        let mut bench = bench(BASIC);
        udp(&mut bench, host, server, 0).expect("translated");
        let parts = |to: &str, id| {
            let whole = PacketBuilder::udp(end(server), end(to)).payload(&[7; 200]);
            let whole = whole.identification(id);
            [(0, true), (48, true), (96, false)]
                .map(|(offset, more)| whole.fragment(offset, more).to_vec().expect("fits"))
        };
        let ([a, b, c], [x, _, z]) = (parts(external, 1), parts(external, 2));
        let left = answered(&mut bench, &[&c, &b, &z, &a], 0);
        let [first, second, third] = parts(host, 1);
        assert_eq!(
            left,
            [first, third, second],
            "in the order in which they came"
        );
        let left = answered(&mut bench, &[&x], 1);
        let [first, _, third] = parts(host, 2);
        assert_eq!(left, [first, third], "of another datagram");
        assert_eq!(bench.counter(0, "fragments_held"), 3);
        assert_eq!(bench.counter(0, "fragments_translated"), 5);
        assert_eq!(bench.counter(0, "fragments_given_up"), 0);
    }
}

/// RFC 4787 REQ-14 a, RFC 6146 §3.4.
#[test]
fn few_fragments_are_kept_and_not_for_long() {
    let mut bench = bench(BASIC);
    udp(&mut bench, "10.0.0.1:5000", "8.8.8.8:53", 0).expect("translated");
    let answer = |id| fragments("8.8.8.8:53", "192.0.2.1:5000", id);
    let [first, second] = answer(1);
    assert_eq!(answered(&mut bench, &[&second], 0).len(), 0);
    assert_eq!(answered(&mut bench, &[&first], 6).len(), 1, "too late");
    assert_eq!(answered(&mut bench, &[&second], 66).len(), 1, "remembered");
    assert_eq!(
        answered(&mut bench, &[&second], 67).len(),
        0,
        "for a minute"
    );
    for id in 2..=257 {
        let [_, second] = answer(id);
        assert_eq!(answered(&mut bench, &[&second], 68).len(), 0);
    }
    let [first, _] = answer(1);
    assert_eq!(
        answered(&mut bench, &[&first], 68).len(),
        1,
        "the oldest gave way"
    );
    let [first, _] = answer(2);
    assert_eq!(answered(&mut bench, &[&first], 68).len(), 2);
    assert_eq!(bench.counter(0, "fragments_given_up"), 2);
    let [first, second] = fragments("8.8.8.8:53", "192.0.2.1:9", 3);
    assert_eq!(
        answered(&mut bench, &[&second, &first], 68).len(),
        0,
        "nobody's"
    );
    assert_eq!(
        bench.counter(0, "fragments_given_up"),
        4,
        "and the oldest again"
    );
}

/// RFC 4787 REQ-14 a.
#[test]
fn the_oldest_datagram_gives_way() {
    let mut bench = bench(BASIC);
    udp(&mut bench, "10.0.0.1:5000", "8.8.8.8:53", 0).expect("translated");
    let answer = |id| fragments("8.8.8.8:53", "192.0.2.1:5000", id);
    for id in 0..4097 {
        let [first, _] = answer(id);
        process(&mut bench, &first, 0).expect("translated");
    }
    let ([_, oldest], [_, newest]) = (answer(0), answer(4096));
    assert_eq!(answered(&mut bench, &[&oldest, &newest], 0).len(), 1);
}

#[test]
fn fragments_of_echoes_and_between_hosts_inside_are_translated() {
    let mut bench = bench(BASIC);
    udp(&mut bench, "10.0.0.2:2222", "8.8.8.8:53", 0).expect("translated");
    let hairpin = fragments("10.0.0.1:1111", "192.0.2.1:2222", 9);
    let sent = hairpin.map(|frame| process(&mut bench, &frame, 0).expect("translated"));
    let id = identification(&sent[0]).into();
    assert_eq!(sent, fragments("192.0.2.1:1111", "10.0.0.2:2222", id));
    let echo = PacketBuilder::icmp_echo(end("10.0.0.1:77"), end("8.8.8.8:0")).payload_len(100);
    let parts = [echo.fragment(0, true), echo.fragment(48, false)];
    for part in parts {
        let sent = process(&mut bench, &part.to_vec().expect("fits"), 0).expect("translated");
        let layout = dissect(&sent).expect("well formed");
        assert_eq!(layout.network, Network::V4);
        assert!(verify_ipv4_checksum(&sent, &layout));
        let source = fields::source(&sent, &layout).address;
        assert_eq!(source, end("192.0.2.1:0").address);
    }
    let others = fragments("7.7.7.7:1", "8.8.8.8:2", 1);
    for frame in others {
        assert_eq!(
            process(&mut bench, &frame, 0),
            Ok(frame.clone()),
            "they pass"
        );
    }
}

/// What a host sends needs no ports to get the host's one external address.
/// RFC 4787 REQ-14.
#[test]
fn fragments_that_leave_may_come_in_any_order() {
    for (host, server) in [
        ("10.0.0.1:5000", "8.8.8.8:53"),
        ("[fd00::1]:5000", "[2001:db8:8::8]:53"),
    ] {
        let mut bench = bench(BASIC);
        let [first, second] = fragments(host, server, 1);
        let late = process(&mut bench, &second, 0).expect("before the first");
        let first = process(&mut bench, &first, 0).expect("translated");
        let layout = dissect(&first).expect("well formed");
        let source = fields::source(&first, &layout).to_string();
        let id = match layout.network {
            Network::V4 => identification(&first).into(),
            _ => 1,
        };
        assert_eq!([first, late], fragments(&source, server, id));
    }
    // With several addresses it is not known which of them the ports would get.
    let text = BASIC.replace("192.0.2.1\"", "192.0.2.1\", \"192.0.2.2\"");
    let mut bench = bench(&format!("pooling = 'arbitrary'\n{text}"));
    let [first, second] = fragments("10.0.0.1:5000", "8.8.8.8:53", 1);
    assert_eq!(answered(&mut bench, &[&second], 0).len(), 0);
    let left = answered(&mut bench, &[&first], 0);
    assert_eq!(
        (left.len(), identification(&left[0])),
        (2, identification(&left[1]))
    );
}

/// RFC 6864 §5.3.1: two hosts behind one address must not number datagrams to one receiver alike.
/// RFC 7857 §10.
#[test]
fn datagrams_in_parts_of_two_hosts_are_told_apart_outside() {
    let mut bench = bench(BASIC);
    let mut ids = |host: &str| -> Vec<u16> {
        let sent = (0..100).map(|id| {
            let parts = fragments(&format!("{host}:5000"), "8.8.8.8:53", id);
            let [first, second] = parts.map(|part| process(&mut bench, &part, 0).expect("sent"));
            assert_eq!(identification(&first), identification(&second));
            identification(&first)
        });
        sent.collect()
    };
    let (one, other) = (ids("10.0.0.1"), ids("10.0.0.2"));
    let all: std::collections::HashSet<_> = one.iter().chain(&other).collect();
    assert_eq!(all.len(), 200);
}

/// Whole datagrams that may be fragmented on their way, too, whichever path sends them.
/// RFC 7857 §10.
#[test]
fn datagrams_that_may_be_fragmented_are_told_apart_outside() {
    let mut bench = bench(BASIC);
    let mut drawn = [HashSet::new(), HashSet::new()];
    let hosts = ["10.0.0.1:5000", "10.0.0.2:5000"];
    for (round, host) in (0..100).flat_map(|round| hosts.map(|host| (round, host))) {
        let datagram = PacketBuilder::udp(end(host), end("8.8.8.8:53")).identification(7);
        let hits = bench.hits;
        let (sent, layout) = send(&mut bench, datagram, 0).departed();
        let by_rule = bench.hits > hits;
        assert_eq!(by_rule, round > 0);
        let id = identification(&sent);
        assert_eq!(id & 1 == 0, by_rule, "a half of the numbers for each path");
        assert!(drawn[usize::from(by_rule)].insert(id), "{id} twice");
        assert_eq!(layout.network, Network::V4);
        let parts = fragments(host, "8.8.8.8:53", 7);
        for part in parts.map(|part| process(&mut bench, &part, 0).expect("sent")) {
            drawn[0].insert(identification(&part));
        }
    }
    let [by_workers, by_rules] = drawn;
    assert_eq!(by_rules.len(), 198);
    assert_eq!(by_workers.len(), 2 + 200, "one for each datagram");
}

#[test]
fn what_is_atomic_or_comes_in_keeps_its_identification() {
    let mut bench = bench(BASIC);
    let atomic = PacketBuilder::udp(end("10.0.0.1:5000"), end("8.8.8.8:53"))
        .identification(7)
        .dont_fragment();
    let answer = PacketBuilder::udp(end("8.8.8.8:53"), end("192.0.2.1:5000")).identification(7);
    let between = PacketBuilder::udp(end("7.7.7.7:1"), end("8.8.8.8:53")).identification(7);
    for round in 0..3 {
        for packet in [atomic, answer, between] {
            let (sent, _) = send(&mut bench, packet, 0).departed();
            assert_eq!(identification(&sent), 7);
        }
        assert_eq!(bench.hits > 0, round > 0);
    }
}

/// A host with an address of its own numbers its datagrams itself; errors about the packets of
/// several share one.
#[test]
fn a_host_alone_at_its_address_keeps_its_identifications() {
    let alone = "forward = [{ external = '192.0.2.9', to = '10.0.0.9' }]";
    let mut bench = bench(&format!("{alone}\n{BASIC}"));
    let datagram = PacketBuilder::udp(end("10.0.0.9:5000"), end("8.8.8.8:53")).identification(7);
    for _ in 0..2 {
        let (sent, layout) = send(&mut bench, datagram, 0).departed();
        assert_eq!(ends_of(&sent, &layout).0, end("192.0.2.9:5000"));
        assert_eq!(identification(&sent), 7);
    }
    assert_eq!(bench.hits, 1);
    let parts = fragments("10.0.0.9:5000", "8.8.8.8:53", 8);
    for part in parts.map(|part| process(&mut bench, &part, 0).expect("sent")) {
        assert_eq!(identification(&part), 8);
    }
}

#[test]
fn errors_that_leave_have_numbers_of_their_own() {
    let mut bench = bench(BASIC);
    udp(&mut bench, "10.0.0.1:5000", "8.8.8.8:53", 0).expect("translated");
    let mut drawn = HashSet::new();
    for _ in 0..10 {
        let heard = PacketBuilder::udp(end("8.8.8.8:53"), end("10.0.0.1:5000"));
        let heard = heard.to_vec().expect("fits");
        let error = PacketBuilder::icmp_error(IcmpError::Unreachable { code: 3 }, &heard);
        let frame = error.identification(7).to_vec().expect("fits");
        let (sent, _) = bench.process(&frame, 0, at(0)).departed();
        assert!(drawn.insert(identification(&sent)), "twice");
    }
    assert!(drawn.iter().all(|id| id % 2 == 1));
}
