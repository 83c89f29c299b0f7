//! Names that a translation gives out may differ, as long as they are renamed one to one.

use crate::common::{MS, Packets, SECOND, capture, compare, end, frame, renamed, text, told, udp};
use std::time::Duration;
use twinpath_compare::{Capture, Options, Problem, Renaming};
use twinpath_core::wire::icmp::IcmpError;
use twinpath_core::wire::{PacketBuilder, dissect, rewrite};

const POOL: &str = "198.51.100.0/24";
const SERVER: &str = "192.0.2.1:53";

/// A datagram from an external port to the server.
fn asked(name: &str, payload: &'static [u8]) -> PacketBuilder<'static> {
    udp(name, SERVER).payload(payload)
}

/// A datagram from the server to a host inside.
fn answered(host: &str, payload: &'static [u8]) -> PacketBuilder<'static> {
    udp(SERVER, host).payload(payload)
}

const ONE: &str = "198.51.100.1:4001";
const TWO: &str = "198.51.100.1:4002";
const THREE: &str = "198.51.100.2:4003";
const FOUR: &str = "198.51.100.2:4001";

/// Packets at times in milliseconds.
fn at<'p>(packets: impl IntoIterator<Item = (u64, PacketBuilder<'p>)>) -> Packets {
    let framed = |(time, packet)| (time * MS, frame(packet));
    packets.into_iter().map(framed).collect()
}

fn in_words(a: &Packets, b: &Packets) -> String {
    text(compare(a, b, renamed(POOL)))
}

#[test]
fn ports_and_addresses_may_be_others() {
    let a = capture([
        asked(ONE, b"a1"),
        asked(TWO, b"b1"),
        asked(ONE, b"a2"),
        answered("10.0.0.1:5000", b"x"),
        asked(TWO, b"b2"),
    ]);
    let b = capture([
        asked(THREE, b"b1"),
        asked(TWO, b"a1"),
        answered("10.0.0.1:5000", b"x"),
        asked(TWO, b"a2"),
        asked(THREE, b"b2"),
    ]);
    let summary = compare(&a, &b, renamed(POOL)).expect("the same");
    assert_eq!((summary.packets, summary.flows), (5, 3));
    assert_eq!((summary.bindings, summary.renamed), (2, 2));
    let same = compare(&a, &a, renamed(POOL)).expect("the same");
    assert_eq!((same.bindings, same.renamed), (2, 0));
    assert!(told(&a, &b).contains("is missing in B, which has"));
    // Other prefixes are not renamed.
    let other = text(compare(&a, &b, renamed("198.51.100.1/32")));
    assert!(other.contains("198.51.100.2:4003"), "{other}");
    let both = renamed("198.51.100.1/32,198.51.100.2/32");
    assert_eq!(text(compare(&a, &b, both)), "the same");
}

#[test]
fn what_a_name_says_to_several_is_said_by_one_name() {
    let to = |name, server, payload| udp(name, server).payload(payload);
    let other = "192.0.2.9:80";
    let a = capture([
        to(ONE, SERVER, b"1"),
        to(TWO, SERVER, b"2"),
        to(ONE, other, b"3"),
        to(TWO, other, b"4"),
    ]);
    let crossed = capture([
        to(ONE, SERVER, b"1"),
        to(TWO, SERVER, b"2"),
        to(ONE, other, b"4"),
        to(TWO, other, b"3"),
    ]);
    let swapped = capture([
        to(TWO, SERVER, b"1"),
        to(ONE, SERVER, b"2"),
        to(TWO, other, b"3"),
        to(ONE, other, b"4"),
    ]);
    assert_eq!(in_words(&a, &swapped), "the same");
    assert!(in_words(&a, &crossed).contains("differs: "));
}

#[test]
fn a_port_of_b_shared_by_two_live_bindings_is_told() {
    let a = capture([
        asked(ONE, b"a1"),
        asked(TWO, b"b1"),
        asked(ONE, b"a2"),
        asked(TWO, b"b2"),
    ]);
    let b = capture([
        asked(THREE, b"a1"),
        asked(THREE, b"b1"),
        asked(THREE, b"a2"),
        asked(THREE, b"b2"),
    ]);
    assert_eq!(
        in_words(&a, &b),
        "in udp 198.51.100.1:4001 > 192.0.2.1:53 (udp 198.51.100.2:4003 > 192.0.2.1:53 in B), udp \
         198.51.100.2:4003 in B (from packet 1 on) stands for two bindings of A at a time: udp \
         198.51.100.1:4001 (from packet 1 on) and udp 198.51.100.1:4002 (from packet 2 on)"
    );
    // And the reverse: one binding must not have two names.
    let difference = compare(&b, &a, renamed(POOL)).expect_err("one is two");
    let Problem::Merged { by, name, parts } = &difference.problem else {
        panic!("{difference}");
    };
    assert_eq!((*by, &name.name[..]), (Capture::A, "udp 198.51.100.2:4003"));
    assert_eq!(parts.each_ref().map(|part| part.packet), [1, 2]);
}

/// It would do for either conversation alone.
#[test]
fn a_port_shared_towards_different_servers_is_told_too() {
    let other = "192.0.2.9:80";
    let a = capture([asked(ONE, b"1"), udp(TWO, other), asked(ONE, b"2")]);
    let b = capture([asked(ONE, b"1"), udp(ONE, other), asked(ONE, b"2")]);
    let told = in_words(&a, &b);
    assert!(
        told.contains("in B (from packet 1 on) stands for two bindings of A"),
        "{told}"
    );
}

#[test]
fn a_port_may_be_used_again_when_its_binding_is_over() {
    let first = [(0, asked(ONE, b"1")), (60_000, asked(ONE, b"2"))];
    let second = |name| [(300_000, asked(name, b"3")), (301_000, asked(name, b"4"))];
    let a = at(first.into_iter().chain(second(ONE)));
    let b = at(first.into_iter().chain(second(TWO)));
    let summary = compare(&a, &b, renamed(POOL)).expect("the same");
    assert_eq!((summary.bindings, summary.renamed), (2, 1));
    // Within the time that a binding lives, it is one binding with two names.
    let patient = |seconds| Options {
        renaming: renamed(POOL)
            .renaming
            .map(|names| names.with_binding_idle(Duration::from_secs(seconds))),
        ..Options::default()
    };
    assert_eq!(text(compare(&a, &b, patient(239))), "the same");
    let told = text(compare(&a, &b, patient(240)));
    assert!(
        told.contains("in A (from packet 1 on) stands for two bindings of B"),
        "{told}"
    );
}

#[test]
fn a_binding_may_not_get_another_name_while_it_lives() {
    let a = at([(0, asked(ONE, b"1")), (1000, asked(ONE, b"2"))]);
    let b = at([(0, asked(ONE, b"1")), (1000, asked(TWO, b"2"))]);
    let difference = compare(&a, &b, renamed(POOL)).expect_err("two names");
    assert!(matches!(
        difference.problem,
        Problem::Merged { by: Capture::A, .. }
    ));
}

/// A packet that waited makes a silence shorter, or longer, in one of the captures.
#[test]
fn a_silence_of_one_capture_alone_parts_no_binding() {
    let said = |name, second, third| {
        at([
            (0, asked(name, b"1")),
            (second, asked(name, b"2")),
            (third, asked(name, b"3")),
        ])
    };
    let without = said(ONE, 119_000, 238_000);
    for with in [
        said(ONE, 121_000, 238_000),
        said(TWO, 119_000, 240_000),
        said(TWO, 121_000, 242_000),
    ] {
        for (a, b) in [(&with, &without), (&without, &with)] {
            let summary = compare(a, b, renamed(POOL)).expect("the same");
            assert_eq!((summary.packets, summary.bindings), (3, 1));
        }
    }
    // Another name after it, or another order, is a difference: in the other there was no silence.
    let other_name = at([
        (0, asked(ONE, b"1")),
        (121_000, asked(TWO, b"2")),
        (238_000, asked(TWO, b"3")),
    ]);
    assert!(in_words(&without, &other_name).contains("two bindings"));
    let other_order = at([
        (0, asked(ONE, b"2")),
        (121_000, asked(ONE, b"1")),
        (238_000, asked(ONE, b"3")),
    ]);
    assert_ne!(in_words(&without, &other_order), "the same");
}

#[test]
fn swapped_replies_are_told() {
    let asks = [asked(ONE, b"a"), asked(TWO, b"b")];
    let hosts = ["10.0.0.1:5000", "10.0.0.2:5000"];
    let right = [answered(hosts[0], b"to a"), answered(hosts[1], b"to b")];
    let wrong = [answered(hosts[1], b"to a"), answered(hosts[0], b"to b")];
    let a = capture(asks.into_iter().chain(right));
    let b = capture(asks.into_iter().chain(wrong));
    let told = in_words(&a, &b);
    assert!(
        told.starts_with("in udp 192.0.2.1:53 > 10.0.0.1:5000, packet 1 of the flow (packet 3 of A, packet 4 of B) differs: "),
        "{told}"
    );
    assert!(
        told.ends_with("payload from byte 3 on is 61 in A and 62 in B"),
        "{told}"
    );
}

/// Two conversations go on under each other's name.
#[test]
fn names_swapped_in_mid_conversation_are_told() {
    let a = capture([
        asked(ONE, b"a1"),
        asked(TWO, b"b1"),
        asked(ONE, b"a2"),
        asked(TWO, b"b2"),
    ]);
    let b = capture([
        asked(ONE, b"a1"),
        asked(TWO, b"b1"),
        asked(TWO, b"a2"),
        asked(ONE, b"b2"),
    ]);
    let difference = compare(&a, &b, renamed(POOL)).expect_err("swapped");
    let Problem::Changed { place, a, b, .. } = difference.problem else {
        panic!("{difference}");
    };
    assert_eq!((place, a, b), (2, 3, 4));
}

#[test]
fn differences_within_a_binding_are_told_with_both_names() {
    let a = [b"1", b"2", b"3"].map(|payload| asked(ONE, payload));
    let b = [b"1", b"2", b"3"].map(|payload| asked(THREE, payload));
    let flow =
        "in udp 198.51.100.1:4001 > 192.0.2.1:53 (udp 198.51.100.2:4003 > 192.0.2.1:53 in B), ";
    let whole = capture(a);
    let cases: [(&[_], &str); 4] = [
        (
            &[b[0], b[2]],
            "packet 2 of the flow (packet 2 of A) is missing in B, which has 2 packets of it",
        ),
        (
            &[b[0], b[2], b[1]],
            "packets are reordered: packet 2 of the flow (packet 2 of A) comes as packet 3",
        ),
        (
            &[b[0], b[0], b[1], b[2]],
            "packet 2 of the flow in B (packet 2 of B) is not in A",
        ),
        (
            &[b[0], b[1].ttl(9), b[2]],
            "packet 2 of the flow (packet 2 of A, packet 2 of B) differs: time to live is 64 in A and 9 in B; header checksum with names blanked is ",
        ),
    ];
    for (other, expected) in cases {
        let told = in_words(&whole, &capture(other.iter().copied()));
        assert!(told.starts_with(flow), "{told}");
        assert!(told.contains(expected), "{expected:?} in {told:?}");
    }
    let told = in_words(&whole, &Packets::new());
    assert!(
        told.ends_with(
            "packet 1 of the flow (packet 1 of A) is missing in B, which has no packet of it"
        ),
        "{told}"
    );
    let told = in_words(&Packets::new(), &whole);
    assert!(
        told.starts_with("in udp 198.51.100.1:4001 > 192.0.2.1:53, packet 1 of the flow in B"),
        "{told}"
    );
}

/// Of three that say the same one is not there.
#[test]
fn bindings_that_say_the_same_are_counted() {
    let a = capture([ONE, TWO, THREE].map(|name| asked(name, b"1")));
    let b = capture([FOUR, ONE, TWO].map(|name| asked(name, b"1")));
    assert_eq!(in_words(&a, &b), "the same");
    let told = in_words(&a, &b[..2].to_vec());
    assert!(
        told.contains("(packet 3 of A) is missing in B, which has no packet of it"),
        "{told}"
    );
}

#[test]
fn checksums_are_compared_as_if_there_were_no_names() {
    let good = frame(asked(ONE, b"1"));
    let layout = dissect(&good).expect("sound");
    // What a translation does, and what it must not do.
    let mut mended = good.clone();
    rewrite::set_source(&mut mended, &layout, end(THREE)).expect("fits");
    let mut stale = mended.clone();
    stale[40..42].copy_from_slice(&good[40..42]);
    let told = |frame| in_words(&vec![(0, good.clone())], &vec![(0, frame)]);
    assert_eq!(told(mended), "the same");
    let stale = told(stale);
    assert!(
        stale.contains("differs: UDP checksum with names blanked is "),
        "{stale}"
    );
    assert!(!stale.contains("source"), "{stale}");
}

#[test]
fn echoes_have_identifiers_for_ports() {
    let ping =
        |name, sequence| PacketBuilder::icmp_echo(end(name), end("192.0.2.1:0")).seq(sequence);
    let a = capture([ping(ONE, 1), ping(TWO, 1), ping(ONE, 2), ping(TWO, 5)]);
    let b = capture([ping(FOUR, 1), ping(ONE, 1), ping(FOUR, 5), ping(ONE, 2)]);
    assert_eq!(in_words(&a, &b), "the same");
    let b = capture([ping(ONE, 1), ping(ONE, 1), ping(ONE, 2), ping(ONE, 5)]);
    let told = in_words(&a, &b);
    assert!(
        told.contains("icmp 198.51.100.1 identifier 4001 in B (from packet 1 on) stands for two"),
        "{told}"
    );
}

/// The same port of TCP and UDP are two names.
#[test]
fn protocols_have_names_of_their_own() {
    let tcp = |name| PacketBuilder::tcp(end(name), end(SERVER));
    let a = capture([asked(ONE, b"1"), tcp(ONE)]);
    let b = capture([asked(TWO, b"1"), tcp(THREE)]);
    let summary = compare(&a, &b, renamed(POOL)).expect("the same");
    assert_eq!((summary.bindings, summary.renamed), (2, 2));
}

#[test]
fn errors_are_renamed_with_what_they_quote() {
    let error = |name: &str, sender: &str, kind| {
        let offending = frame(udp(SERVER, name).payload(b"answer"));
        let error = PacketBuilder::icmp_error(kind, &offending);
        frame(error.source_address(end(sender).address))
    };
    let unreachable = IcmpError::Unreachable { code: 3 };
    let from_host = |name| error(name, name, unreachable);
    let capture =
        |name: &str, frame| vec![(0, crate::common::frame(asked(name, b"1"))), (MS, frame)];
    let a = capture(ONE, from_host(ONE));
    assert_eq!(in_words(&a, &capture(THREE, from_host(THREE))), "the same");
    // About another binding, from another address than the one that is quoted, of another kind.
    let told = in_words(&a, &capture(THREE, from_host(FOUR)));
    assert!(told.contains("stands for two bindings"), "{told}");
    assert_ne!(
        in_words(&a, &capture(THREE, error(THREE, ONE, unreachable))),
        "the same"
    );
    let other_kind = error(THREE, THREE, IcmpError::TimeExceeded { code: 0 });
    assert!(in_words(&a, &capture(THREE, other_kind)).contains("ICMP type is 3 in A and 11 in B"));
    // From outside, seen there: the quote's source is the name.
    let outside = |name| {
        let offending = crate::common::frame(asked(name, b"1"));
        frame(PacketBuilder::icmp_error(unreachable, &offending))
    };
    let a = capture(ONE, outside(ONE));
    assert_eq!(in_words(&a, &capture(THREE, outside(THREE))), "the same");
    assert_ne!(in_words(&a, &capture(THREE, outside(ONE))), "the same");
}

#[test]
fn fragments_go_with_the_first_of_their_datagram() {
    let fragments = |name, id| {
        let part = udp(name, SERVER).identification(id);
        [
            part.fragment(0, true).payload(b"12345678"),
            part.fragment(16, false).payload(b"x"),
        ]
    };
    let later = |name, id| fragments(name, id)[1];
    let a = capture([fragments(ONE, 1), fragments(TWO, 2)].concat());
    let b = capture([fragments(FOUR, 1), fragments(THREE, 2)].concat());
    let summary = compare(&a, &b, renamed(POOL)).expect("the same");
    assert_eq!(summary.bindings, 2);
    let b = capture([
        fragments(FOUR, 1)[0],
        later(TWO, 1),
        fragments(TWO, 2)[0],
        later(FOUR, 2),
    ]);
    assert_ne!(in_words(&a, &b), "the same");
    // Without a first one, the name is the address.
    let (a, b) = (capture([later(ONE, 1)]), capture([later(THREE, 1)]));
    assert_eq!(in_words(&a, &b), "the same");
}

/// Between hosts inside, or outside of the translation: both ends are names.
#[test]
fn packets_with_two_names_go_together() {
    fn talk(from: &str, to: &str, payload: &'static [u8]) -> PacketBuilder<'static> {
        udp(from, to).payload(payload)
    }
    let a = capture([
        talk(ONE, TWO, b"1"),
        talk(TWO, ONE, b"2"),
        talk(ONE, THREE, b"3"),
    ]);
    let b = capture([
        talk(FOUR, ONE, b"1"),
        talk(ONE, FOUR, b"2"),
        talk(FOUR, TWO, b"3"),
    ]);
    let summary = compare(&a, &b, renamed(POOL)).expect("the same");
    assert_eq!((summary.packets, summary.bindings), (3, 3));
    let there_and_back = capture([talk(ONE, TWO, b"1"), talk(TWO, ONE, b"2")]);
    let there_twice = capture([talk(ONE, TWO, b"1"), talk(ONE, TWO, b"2")]);
    assert_ne!(in_words(&there_and_back, &there_twice), "the same");
    let back_first = capture([talk(TWO, ONE, b"2"), talk(ONE, TWO, b"1")]);
    assert_eq!(in_words(&there_and_back, &back_first), "the same");
    // Every name says and hears what it should, but not with the same partner.
    let pairs = |x: [&str; 2], y: [&str; 2]| {
        capture([
            talk(x[0], x[1], b"1"),
            talk(y[0], y[1], b"1"),
            asked(x[1], b"2"),
            asked(y[1], b"3"),
            asked(x[0], b"4"),
        ])
    };
    let a = pairs([ONE, TWO], [THREE, FOUR]);
    let mut b = a.clone();
    b[0].1 = frame(talk(ONE, FOUR, b"1"));
    b[1].1 = frame(talk(THREE, TWO, b"1"));
    let difference = compare(&a, &b, renamed(POOL)).expect_err("crossed");
    assert!(
        matches!(difference.problem, Problem::Crossed { .. }),
        "{difference}"
    );
    assert!(
        difference
            .to_string()
            .contains("holds several translated names")
    );
}

#[test]
fn timestamps_count_with_names_too() {
    let a = capture([asked(ONE, b"1"), asked(ONE, b"2")]);
    let mut b = capture([asked(TWO, b"1"), asked(TWO, b"2")]);
    let options = Options {
        timestamps: true,
        ..renamed(POOL)
    };
    assert_eq!(text(compare(&a, &b, options.clone())), "the same");
    b[1].0 += SECOND;
    let told = text(compare(&a, &b, options));
    assert!(
        told.ends_with("differs: time is 0.001000000 s in A and 1.001000000 s in B"),
        "{told}"
    );
}

#[test]
fn identifications_may_be_others_as_well() {
    let atomic = |name| asked(name, b"1").dont_fragment();
    let a = capture([atomic(ONE).identification(7)]);
    let b = capture([atomic(TWO).identification(9)]);
    assert!(
        in_words(&a, &b)
            .contains("differs: identification is 0x7 in A and 0x9 in B; header checksum")
    );
    let options = Options {
        ignore_ip_ids: true,
        ..renamed(POOL)
    };
    assert_eq!(text(compare(&a, &b, options)), "the same");
}

/// Of what leaves, and is not atomic: a translation draws them.
#[test]
fn drawn_identifications_are_renamed() {
    let sent = |name, ids: [u32; 2]| ids.map(|id| asked(name, b"1").identification(id));
    let (a, b) = (capture(sent(ONE, [7, 8])), capture(sent(TWO, [90, 3])));
    assert_eq!(in_words(&a, &b), "the same");
    let heard = |id| capture([answered("10.0.0.1:5000", b"x").identification(id)]);
    assert_ne!(in_words(&heard(1), &heard(2)), "the same");
    assert_eq!(in_words(&heard(1), &heard(1)), "the same");
    // Which fragments belong together does not change.
    let parts = |name, ids: [u32; 3], payload| {
        let part = |id, offset| {
            let whole = udp(name, SERVER).identification(id);
            whole.fragment(offset, offset < 32).payload(payload)
        };
        [part(ids[0], 0), part(ids[1], 16), part(ids[2], 32)]
    };
    let both = |ids: [u32; 6]| {
        let [a, b, c, d, e, f] = ids;
        let one = parts(ONE, [a, b, c], &[1; 16]);
        capture([one, parts(ONE, [d, e, f], &[2; 16])].concat())
    };
    let a = both([1, 1, 1, 2, 2, 2]);
    assert_eq!(in_words(&a, &both([5, 5, 5, 9, 9, 9])), "the same");
    assert_ne!(in_words(&a, &both([5, 5, 9, 9, 9, 5])), "the same");
    assert_ne!(in_words(&a, &both([5, 5, 6, 9, 9, 9])), "the same");
}

/// An error quotes what was drawn.
#[test]
fn so_are_those_that_errors_quote() {
    let error = |id| {
        let quoted = frame(asked(ONE, b"12345678").identification(id));
        let error = PacketBuilder::icmp_error(IcmpError::Unreachable { code: 1 }, &quoted);
        vec![(0, frame(error))]
    };
    assert_eq!(in_words(&error(1), &error(2)), "the same");
}

#[test]
fn names_of_ipv6_are_names() {
    let asked = |name| udp(name, "[2001:db8:9::1]:53").payload(b"1");
    let a = capture([
        asked("[2001:db8::1]:1000"),
        asked("[2001:db8::1]:1001").ttl(9),
    ]);
    let b = capture([asked("[2001:db8::2]:7"), asked("[2001:db8::1]:1000").ttl(9)]);
    assert_eq!(text(compare(&a, &b, renamed("2001:db8::/64"))), "the same");
}

/// Packets to an inside host carry what could be taken for a blanked name.
#[test]
fn a_blanked_name_is_not_an_address_of_zeros() {
    let nameless = udp("0.0.0.0:0", SERVER).payload(b"1");
    let (a, b) = (capture([asked(ONE, b"1")]), capture([nameless]));
    assert_ne!(in_words(&a, &b), "the same");
}

#[test]
fn the_options_say_what_is_renamed() {
    let renaming = Renaming::of(vec![POOL.parse().expect("a prefix")]);
    assert_eq!(renaming.binding_idle(), Duration::from_secs(120));
    assert_eq!(renaming.external().len(), 1);
}

/// A frame with what stands between its Ethernet addresses and its datagram.
fn behind(link: &str, packet: PacketBuilder<'_>) -> Vec<u8> {
    let plain = frame(packet);
    let (addresses, datagram) = (&plain[..12], &plain[14..]);
    let is_v6 = plain[12..14] == [0x86, 0xdd];
    let ppp: [u8; 2] = if is_v6 { [0, 0x57] } else { [0, 0x21] };
    let length = (datagram.len() as u16 + 2).to_be_bytes();
    let session = [&[0x11, 0, 0, 7][..], &length, &ppp].concat();
    let header: Vec<u8> = match link {
        "a PPPoE session" => [&[0x88, 0x64], &session[..]].concat(),
        "a PPPoE session behind a tag" => [&[0x81, 0, 0, 5, 0x88, 0x64], &session[..]].concat(),
        "a label" => vec![0x88, 0x47, 0, 0x01, 0x01, 64],
        _ => plain[12..14].to_vec(),
    };
    [addresses, &header, datagram].concat()
}

/// Names and identifications are found wherever a datagram stands.
#[test]
fn datagrams_in_sessions_and_behind_labels_have_names_too() {
    let versions = [
        (POOL, SERVER, [ONE, FOUR]),
        (
            "2001:db8:9::/48",
            "[2001:db8::1]:53",
            ["[2001:db8:9::1]:4001", "[2001:db8:9::2]:4009"],
        ),
    ];
    let links = [
        "nothing",
        "a PPPoE session",
        "a PPPoE session behind a tag",
        "a label",
    ];
    for (pool, server, names) in versions {
        let v4 = server == SERVER;
        for link in links {
            let whole = |name: &str, id| {
                udp(name, server)
                    .payload(b"1")
                    .identification(if v4 { id } else { 0 })
            };
            let part = |name: &str, id, at: usize| {
                let part = udp(name, server).fragment(at as u32, at == 0);
                part.payload(b"12345678").identification(id)
            };
            let capture = |name: &str, id: u32| -> Packets {
                let frames = [
                    behind(link, whole(name, id)),
                    behind(link, part(name, id + 1, 0)),
                    behind(link, part(name, id + 1, 16)),
                    behind(link, whole(name, id + 2)),
                ];
                (0..).map(|number| number * MS).zip(frames).collect()
            };
            let [a, b] = [capture(names[0], 7), capture(names[1], 900)];
            let options = Options {
                ignore_ip_ids: true,
                ..renamed(pool)
            };
            let summary =
                compare(&a, &b, options).unwrap_or_else(|error| panic!("{link}: {error}"));
            assert_eq!((summary.bindings, summary.renamed), (1, 1), "{link}");
            let same_name = capture(names[0], 900);
            let ids = Options {
                ignore_ip_ids: true,
                ..Options::default()
            };
            assert_eq!(text(compare(&a, &same_name, ids)), "the same", "{link}");
            assert_ne!(told(&a, &same_name), "the same", "{link}");
        }
    }
}
