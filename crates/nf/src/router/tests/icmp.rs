//! ICMP messages of the router's own: errors, and answers to echoes.

use super::*;
use twinpath_core::wire::layout::Layout;
use twinpath_core::wire::{verify_ipv4_checksum, verify_transport_checksum};

/// The one answer to a packet, which is sound.
fn answer(outcome: Outcome) -> (Vec<u8>, Layout) {
    let [answer] = <[Vec<u8>; 1]>::try_from(outcome.replies).expect("one answer");
    let layout = dissect(&answer).expect("well formed");
    assert!(verify_ipv4_checksum(&answer, &layout) && verify_transport_checksum(&answer, &layout));
    (answer, layout)
}

/// What stands in front of an IP packet: tags, sessions, LLC with SNAP; not labels.
const LINKS: [[&[u8]; 2]; 3] = [
    [
        &[0x81, 0, 0, 7, 0x08, 0x00],
        &[0x88, 0xa8, 0, 7, 0x86, 0xdd],
    ],
    [
        &[0x88, 0x64, 0x11, 0, 0, 7, 0, 0, 0, 0x21],
        &[0x88, 0x64, 0x11, 0, 0, 7, 0, 0, 0, 0x57],
    ],
    [
        &[0, 0, 0xaa, 0xaa, 3, 0, 0, 0, 0x08, 0x00],
        &[0, 0, 0xaa, 0xaa, 3, 0, 0, 0, 0x86, 0xdd],
    ],
];

#[test]
fn what_stands_in_front_of_ip_stays_there() {
    let text = TWO.replace("errors_per_second = 2", "");
    for [v4, v6] in LINKS {
        for (link, to) in [(v4, "10.1.0.1"), (v6, "2001:db8::7")] {
            let mut bench = bench(&text, 4);
            let packet = udp(address(to)).payload_len(30).link(link);
            for ttl in [64, 64, 63] {
                let frame = packet.ttl(ttl).to_vec().expect("fits");
                let (frame, port) = bench.process(&frame, 0, Instant(1)).packet.expect("leaves");
                let [from, own] = [[2, 0, 0, 0, 0, 2], [2, 0, 0, 0, 2, 1]].map(MacAddress);
                let expected = packet.ttl(ttl - 1).macs(from, own).to_vec().expect("fits");
                assert_eq!((frame, port), (expected, Some(2)), "{link:02x?}");
            }
            let (last, own) = (packet.ttl(1).to_vec().expect("fits"), 12 + link.len());
            let (error, layout) = answer(bench.process(&last, 0, Instant(1)));
            assert_eq!(usize::from(layout.l3), own);
            assert_eq!(fields::destination_mac(&error), fields::source_mac(&last));
            let quoted = fields::inner_destination(&error, &layout).expect("quoted");
            assert_eq!(quoted.address, address(to));
        }
    }
}

#[test]
fn errors_are_not_sent_to_whom_they_must_not() {
    let mut bench = bench(TWO, 8);
    let to = address("10.1.0.1");
    let redirect = {
        let (from, to) = (address("2001:db8:9::1"), address("2001:db8::7"));
        PacketBuilder::raw(58, from, to).payload(&[137, 0, 0, 0, 0, 0, 0, 0])
    };
    let from = |source: &str| udp(to).source_address(address(source));
    let group = MacAddress([1, 0, 0x5e, 0, 0, 1]);
    let labels = [0x88, 0x47, 0, 1, 1, 64];
    for packet in [
        redirect,
        from("127.0.0.1"),
        from("0.0.0.0"),
        from("224.0.0.5"),
        udp(address("2001:db8::7")).source_address(address("::1")),
        udp(to).macs(group, group),
        udp(to).link(&labels),
        udp(to).fragment(8, true).payload_len(16),
    ] {
        let frame = packet.ttl(1).to_vec().expect("fits");
        let outcome = bench.process(&frame, 0, Instant(1));
        assert_eq!(outcome.packet, Err(DropReason::TimeToLive), "{packet:?}");
        assert_eq!(outcome.replies.len(), 0, "{packet:?}");
    }
    assert_eq!(bench.counter(0, "errors_sent"), 0);
}

#[test]
fn own_addresses_are_local() {
    let text = TWO.replace("errors_per_second = 2", "addresses = ['10.1.0.254']");
    let mut bench = bench(&text, 8);
    for own in ["192.0.2.1", "10.1.0.254", "2001:db8:ffff::1"] {
        for packet in [udp(address(own)), udp(address(own)).ttl(1)] {
            let frame = packet.to_vec().expect("fits");
            let outcome = bench.process(&frame, 0, Instant(1));
            assert_eq!(outcome.packet, Err(DropReason::ForRouter));
            assert_eq!(outcome.replies.len(), 0);
        }
        let host = match address(own).is_v4() {
            true => "172.16.0.1:77",
            false => "[2001:db8:9::1]:77",
        };
        let echo =
            PacketBuilder::icmp_echo(host.parse().expect(host), Endpoint::new(address(own), 0));
        let echo = echo.seq(9).payload(b"are you there?");
        let request = echo.vlan(5).ttl(1).to_vec().expect("fits");
        let outcome = bench.process(&request, 0, Instant(1));
        let (reply, layout) = answer(outcome);
        let (sent, asked) = (dissect(&request).expect("sound"), &request);
        assert_eq!(
            fields::source(&reply, &layout),
            fields::destination(asked, &sent)
        );
        assert_eq!(
            fields::destination(&reply, &layout),
            fields::source(asked, &sent)
        );
        assert_eq!(fields::payload(&reply, &layout), b"are you there?");
        assert_eq!(reply.len(), request.len(), "with its tag");
        let icmp = IcmpView::new(&reply[layout.l4.into()..]).expect("complete");
        let expected = IcmpMessage::Echo {
            reply: true,
            identifier: 77,
            sequence: 9,
        };
        assert_eq!(icmp.message(layout.network), expected);
        for broken in [echo.echo_reply(), echo.fragment(0, true)] {
            let frame = broken.to_vec().expect("fits");
            let outcome = bench.process(&frame, 0, Instant(1));
            assert_eq!(outcome.packet, Err(DropReason::ForRouter));
            assert_eq!(outcome.replies.len(), 0);
        }
        let mut damaged = request.clone();
        *damaged.last_mut().expect("bytes") ^= 1;
        assert_eq!(bench.process(&damaged, 0, Instant(1)).replies.len(), 0);
    }
    bench.tell_all();
    let counted = ["local", "echoes_answered"].map(|name| bench.counter(0, name));
    assert_eq!(counted, [18, 3]);
}

/// A route to an own address changes nothing.
#[test]
fn own_addresses_stay_local_whatever_routes_say() {
    let before: Config = toml::from_str(TWO).expect("valid");
    let mut bench = bench(TWO, 8);
    let own = || address("192.0.2.1");
    let with = before.with_route(own().into(), "a").expect("a next hop");
    for (former, after) in [(&before, &with), (&with, &before)] {
        change(&mut bench, former, after);
        let frame = udp(own()).to_vec().expect("fits");
        let outcome = bench.process(&frame, 0, Instant(1));
        assert_eq!(outcome.packet, Err(DropReason::ForRouter));
    }
}

/// The error reaches the host inside by the addresses that it knows, through every function
/// before the router.
#[test]
fn an_error_about_a_translated_packet_is_translated_back() {
    use crate::{acl, napt};
    let napt: napt::Config =
        toml::from_str("inside = ['10.0.0.0/8']\nexternal = ['198.51.100.1']").expect("valid");
    let routed = TWO.replace(
        "routes = [",
        "routes = [{ to = '203.0.113.0/24', via = 'a' }, ",
    );
    let chain = |list: &str| -> Bench {
        let list: acl::Config = toml::from_str(list).expect("valid");
        let config = toml::from_str(&routed).expect("valid");
        let functions: Vec<Box<dyn RuleFunction>> = vec![
            Box::new(acl::AccessList::new(
                acl::Prepared::new(&list).expect("few"),
            )),
            Box::new(napt::Napt::new(&napt, 3)),
            Box::new(Router::new(&config, Path::new(""), 1).expect("few")),
        ];
        Bench::cached(functions, 8).inside(&["10.0.0.0/8".parse().expect("a prefix")])
    };
    let mut open = chain("default = 'allow'");
    let packet = PacketBuilder::udp(
        "10.0.0.7:4000".parse().expect("v4"),
        "203.0.113.1:80".parse().expect("v4"),
    );
    let frame = packet.ttl(1).payload(b"data!").to_vec().expect("fits");
    let outcome = open.process(&frame, 0, Instant(1));
    assert_eq!(outcome.packet, Err(DropReason::TimeToLive));
    let [error] = <[Vec<u8>; 1]>::try_from(outcome.replies).expect("one error");
    let layout = dissect(&error).expect("well formed");
    assert!(verify_ipv4_checksum(&error, &layout) && verify_transport_checksum(&error, &layout));
    assert_eq!(
        fields::source(&error, &layout).address,
        "192.0.2.1".parse().expect("v4")
    );
    assert_eq!(
        fields::destination(&error, &layout).address,
        "10.0.0.7".parse().expect("v4")
    );
    let quoted = [
        fields::inner_source(&error, &layout),
        fields::inner_destination(&error, &layout),
    ];
    let expected = ["10.0.0.7:4000", "203.0.113.1:80"].map(|text| text.parse().ok());
    assert_eq!(quoted, expected);
    assert_eq!(open.counter(1, "errors_translated"), 1);
    let mut strict = chain("rules = [{ action = 'allow', protocol = 'udp' }]");
    let outcome = strict.process(&frame, 0, Instant(1));
    assert_eq!(
        (outcome.packet, outcome.replies),
        (Err(DropReason::TimeToLive), vec![])
    );
}
