use super::{Config, NewPrefixes, Nptv6};
use crate::two_caches::{Bench, Outcome};
use proptest::prelude::*;
use twinpath_core::wire::icmp::IcmpError;
use twinpath_core::wire::{
    Address, Endpoint, PacketBuilder, dissect, fields, icmp, protocol, rewrite,
};
use twinpath_core::{DropReason, Instant};
use twinpath_rulecache::RuleFunction;

const PREFIXES: &str = r#"
    prefixes = [
        { inside = "fd01:203:405::/48", external = "2001:db8:1::/48" },
        { inside = "fd02:1:1:1::/64", external = "2001:db8:2:2::/64" },
    ]
"#;
const INSIDE: [&str; 2] = ["fd01:203:405::/48", "fd02:1:1:1::/64"];

fn nptv6(text: &str) -> Box<dyn RuleFunction> {
    let config: Config = toml::from_str(text).expect("a valid configuration");
    Box::new(Nptv6::new(&config))
}

fn bench(limit: usize) -> Bench {
    let inside = INSIDE.map(|text| text.parse().expect("a prefix"));
    Bench::cached(vec![nptv6(PREFIXES)], limit).inside(&inside)
}

fn end(text: &str) -> Endpoint {
    text.parse().expect(text)
}

fn process(bench: &mut Bench, packet: PacketBuilder<'_>) -> Outcome {
    let frame = packet.payload_len(9).to_vec().expect("fits");
    bench.process(&frame, 0, Instant(0))
}

fn ends(outcome: &Outcome) -> (Endpoint, Endpoint) {
    let (bytes, layout) = outcome.departed();
    (
        fields::source(&bytes, &layout),
        fields::destination(&bytes, &layout),
    )
}

const HOST: &str = "[fd01:203:405:1::1234]:5000";
const OUTSIDE: &str = "[2001:db8:1:d550::1234]:5000";
const SERVER: &str = "[2001:db8:8::8]:53";

/// RFC 6296 §2.5.
#[test]
fn connections_begin_at_either_end() {
    let mut bench = bench(8);
    for _ in 0..3 {
        let sent = process(&mut bench, PacketBuilder::udp(end(HOST), end(SERVER)));
        assert_eq!(ends(&sent), (end(OUTSIDE), end(SERVER)));
        let back = process(&mut bench, PacketBuilder::tcp(end(SERVER), end(OUTSIDE)));
        assert_eq!(ends(&back), (end(SERVER), end(HOST)));
    }
    assert_eq!(bench.hits, 4, "by rules");
    let other_port = PacketBuilder::tcp(end(HOST), end("[2001:db8:8::8]:1"));
    process(&mut bench, other_port);
    assert_eq!(bench.hits, 5, "by addresses alone");
    bench.tell_all();
    assert_eq!(bench.counter(0, "translated_out"), 4);
    assert_eq!(bench.counter(0, "translated_in"), 3);
}

/// Whatever is carried: nothing but addresses changes, and checksums hold.
#[test]
fn other_protocols_and_fragments_are_translated() {
    let mut bench = bench(8);
    let gre = PacketBuilder::raw(protocol::GRE, end(HOST).address, end(SERVER).address);
    assert_eq!(
        ends(&process(&mut bench, gre)).0.address,
        end(OUTSIDE).address
    );
    let whole = PacketBuilder::udp(end(HOST), end(SERVER)).payload_len(100);
    for fragment in [whole.fragment(48, false), whole.fragment(0, true)] {
        let sent = bench.process(&fragment.to_vec().expect("fits"), 0, Instant(0));
        assert_eq!(ends(&sent).0.address, end(OUTSIDE).address, "in any order");
    }
    let frame = PacketBuilder::tcp(end(HOST), end(SERVER))
        .to_vec()
        .expect("fits");
    let (sent, layout) = bench.process(&frame, 0, Instant(0)).departed();
    assert_eq!(
        frame[usize::from(layout.l4)..],
        sent[usize::from(layout.l4)..]
    );
}

/// RFC 6296 §4.3.
#[test]
fn hosts_inside_reach_each_other_by_their_external_addresses() {
    let mut bench = bench(8);
    let other = "[fd02:1:1:1:2:3:4:5]:7";
    let there = ends(&process(
        &mut bench,
        PacketBuilder::udp(end(other), end(SERVER)),
    ))
    .0;
    for _ in 0..2 {
        let hairpin = process(&mut bench, PacketBuilder::udp(end(HOST), there));
        assert_eq!(ends(&hairpin), (end(OUTSIDE), end(other)));
    }
    bench.tell_all();
    assert_eq!(bench.counter(0, "hairpinned"), 2);
}

/// RFC 6296 §3.2.
#[test]
fn errors_show_each_end_the_addresses_that_it_knows() {
    let mut bench = bench(8);
    let kind = IcmpError::PacketTooBig { mtu: 1280 };
    let sent = process(&mut bench, PacketBuilder::udp(end(HOST), end(SERVER)))
        .departed()
        .0;
    let router = end("[2001:db8:9::1]:0").address;
    let error = PacketBuilder::icmp_error(kind, &sent).source_address(router);
    let error = error.to_vec().expect("fits");
    let (bytes, layout) = bench.process(&error, 0, Instant(0)).departed();
    assert_eq!(
        fields::destination(&bytes, &layout).address,
        end(HOST).address
    );
    assert_eq!(fields::inner_source(&bytes, &layout), Some(end(HOST)));
    let received = process(&mut bench, PacketBuilder::udp(end(SERVER), end(OUTSIDE)))
        .departed()
        .0;
    let error = PacketBuilder::icmp_error(IcmpError::Unreachable { code: 4 }, &received);
    let (bytes, layout) = bench
        .process(&error.to_vec().expect("fits"), 0, Instant(0))
        .departed();
    assert_eq!(
        fields::source(&bytes, &layout).address,
        end(OUTSIDE).address
    );
    assert_eq!(
        fields::inner_destination(&bytes, &layout),
        Some(end(OUTSIDE))
    );
    let mut forged = PacketBuilder::icmp_error(kind, &sent)
        .to_vec()
        .expect("fits");
    let last = forged.len() - 1;
    forged[last] ^= 1;
    let dropped = bench.process(&forged, 0, Instant(0)).packet;
    assert_eq!(dropped, Err(DropReason::BadChecksum));
}

/// An ICMPv6 message from the server to the host's external address, with a right checksum.
fn message(kind: u8, quoted: &[u8]) -> Vec<u8> {
    let bytes = [&[kind, 0, 0, 0, 0, 0, 0, 0], quoted].concat();
    let ends = [SERVER, OUTSIDE].map(|text| end(text).address);
    let packet = PacketBuilder::raw(protocol::ICMP6, ends[0], ends[1]).payload(&bytes);
    let mut frame = packet.to_vec().expect("fits");
    let layout = dissect(&frame).expect("valid");
    rewrite::refresh_checksums(&mut frame, &layout).expect("sound");
    frame
}

/// Errors for whoever did not send what they quote, or of whose quote nobody can tell, and redirects:
/// no host hears them, and they show no address inside.
#[test]
fn errors_that_do_not_answer_for_themselves_are_dropped() {
    let mut bench = bench(8);
    let quoted = |from: &str| {
        let packet = PacketBuilder::udp(end(from), end(SERVER)).payload_len(64);
        let whole = packet.to_vec().expect("fits");
        let later = packet.fragment(8, false).to_vec().expect("fits");
        [whole, later]
            .map(|frame| frame[usize::from(dissect(&frame).expect("valid").l3)..].to_vec())
    };
    let ([whole, later], [other, _]) = (quoted(OUTSIDE), quoted("[2001:db8:1:d54e::99]:1"));
    for (frame, expected) in [
        (message(icmp::v6::PACKET_TOO_BIG, &whole), Ok(())),
        (
            message(icmp::v6::PACKET_TOO_BIG, &other),
            Err(DropReason::IcmpRecipient),
        ),
        (
            message(icmp::v6::PACKET_TOO_BIG, &whole[..44]),
            Err(DropReason::IcmpQuote),
        ),
        (
            message(icmp::v6::PACKET_TOO_BIG, &later),
            Err(DropReason::IcmpQuote),
        ),
        (
            message(icmp::v6::REDIRECT, &[0; 32]),
            Err(DropReason::IcmpType),
        ),
    ] {
        let outcome = bench.process(&frame, 0, Instant(0));
        assert_eq!(outcome.packet.map(|_| ()), expected);
    }
    for (name, count) in [
        ("icmp_errors_for_another", 1),
        ("icmp_errors_with_bad_quote", 2),
        ("icmp_redirects_refused", 1),
    ] {
        assert_eq!(bench.counter(0, name), count, "{name}");
    }
}

/// RFC 6296 §3.5: silently.
#[test]
fn others_pass_and_what_cannot_be_translated_is_dropped() {
    let mut bench = bench(8);
    for (from, to) in [
        (HOST, "[fd02:1:1:1::5]:7"),
        ("[2001:db8:8::8]:1", "[2001:db8:9::9]:2"),
        ("10.0.0.1:1", "8.8.8.8:53"),
        // From outside, whatever it says.
        ("[2001:db8:8::8]:1", HOST),
    ] {
        let passed = process(&mut bench, PacketBuilder::udp(end(from), end(to)));
        assert_eq!(ends(&passed), (end(from), end(to)));
    }
    for (from, to) in [
        ("[fd01:203:405:ffff::1]:1", SERVER),
        ("[fd02:1:1:1::]:1", SERVER),
        (SERVER, "[2001:db8:1:ffff::1]:1"),
    ] {
        let dropped = process(&mut bench, PacketBuilder::udp(end(from), end(to)));
        assert_eq!(dropped.packet, Err(DropReason::UntranslatableAddress));
        assert!(dropped.replies.is_empty());
    }
    assert_eq!(bench.counter(0, "untranslatable"), 3);
}

#[test]
fn other_prefixes_may_come_while_packets_flow() {
    let mut bench = bench(8);
    for _ in 0..2 {
        process(&mut bench, PacketBuilder::udp(end(HOST), end(SERVER)));
    }
    let text = PREFIXES.replace("2001:db8:1::", "2001:db8:3::");
    let config = toml::from_str(&text).expect("valid");
    bench.reconfigure::<Nptv6>(0, NewPrefixes(config));
    let sent = process(&mut bench, PacketBuilder::udp(end(HOST), end(SERVER)));
    assert_eq!(ends(&sent).0, end("[2001:db8:3:d54e::1234]:5000"));
}

#[test]
fn contradictions_are_refused() {
    for (from, to, expected) in [
        (
            "fd01:203:405::/48",
            "10.0.0.0/8",
            "expected a prefix of IPv6",
        ),
        (
            "fd01:203:405::/48",
            "fd01:203:405::/65",
            "with 1 to 64 bits",
        ),
        (
            "2001:db8:2:2::/64",
            "2001:db8:1:1::/64",
            "have addresses in common",
        ),
    ] {
        let text = PREFIXES.replace(from, to);
        let error = toml::from_str::<Config>(&text)
            .expect_err("refused")
            .to_string();
        assert!(error.contains(expected), "{error}");
    }
    let none = toml::from_str::<Config>("prefixes = []").expect_err("refused");
    assert!(none.to_string().contains("expected 1 to 64"));
}

fn host() -> impl Strategy<Value = Address> {
    let prefix = prop::sample::select(vec![
        "fd01:203:405::",
        "fd02:1:1:1::",
        "2001:db8:1::",
        "2001:db8:2:2::",
        "2001:db8:8::",
    ]);
    (prefix, 0u128..3, 0u128..3, any::<bool>()).prop_map(|(prefix, subnet, host, ones)| {
        let network: Address = prefix.parse::<std::net::IpAddr>().expect(prefix).into();
        let subnet = if ones { 0xffff } else { subnet };
        Address(network.0 | subnet << 64 | host)
    })
}

proptest! {
    #[test]
    fn agrees_with_and_without_rules(
        rules in 1usize..8,
        packets in prop::collection::vec((host(), host(), 0u8..4), 1..80),
    ) {
        let (mut plain, mut cached) = (bench(0), bench(rules));
        for (from, to, kind) in packets {
            let (from, to) = (Endpoint::new(from, 7), Endpoint::new(to, 7));
            let packet = match kind {
                0 => PacketBuilder::tcp(from, to),
                1 => PacketBuilder::udp(from, to),
                2 => PacketBuilder::icmp_echo(from, to),
                _ => PacketBuilder::raw(protocol::GRE, from.address, to.address),
            };
            let outcome = process(&mut plain, packet);
            prop_assert_eq!(&process(&mut cached, packet), &outcome);
            if outcome.packet.is_ok() {
                outcome.departed();
            }
        }
        cached.tell_all();
        for name in ["past", "translated_out", "translated_in", "hairpinned", "untranslatable"] {
            prop_assert_eq!(plain.counter(0, name), cached.counter(0, name), "{}", name);
        }
    }
}
