//! Each kind of difference is found, and told in words.

use crate::common::{MS, Packets, capture, compare, frame, text, told, udp};
use twinpath_compare::{Options, Problem};
use twinpath_core::wire::icmp::IcmpError;
use twinpath_core::wire::tcp::TcpOption;
use twinpath_core::wire::{MacAddress, PacketBuilder};

const FROM: &str = "10.0.0.1:5000";
const TO: &str = "192.0.2.1:53";
const FLOW: &str = "in udp 10.0.0.1:5000 > 192.0.2.1:53, ";

fn asked(payload: &'static [u8]) -> PacketBuilder<'static> {
    udp(FROM, TO).payload(payload)
}

fn answered(payload: &'static [u8]) -> PacketBuilder<'static> {
    udp(TO, FROM).payload(payload)
}

#[test]
fn the_same_packets_are_the_same_whatever_lies_between_them() {
    let a = capture([asked(b"1"), answered(b"1"), asked(b"2"), answered(b"2")]);
    let b = capture([asked(b"1"), asked(b"2"), answered(b"1"), answered(b"2")]);
    let summary = compare(&a, &b, Options::default()).expect("the same");
    assert_eq!((summary.packets, summary.flows), (4, 2));
    assert_eq!((summary.bindings, summary.renamed), (0, 0));
    assert_eq!(told(&Packets::new(), &Packets::new()), "the same");
}

#[test]
fn missing() {
    let a = capture([asked(b"1"), answered(b"x"), asked(b"2"), asked(b"3")]);
    let b = capture([asked(b"1"), answered(b"x"), asked(b"3")]);
    assert_eq!(
        told(&a, &b),
        format!(
            "{FLOW}packet 2 of the flow (packet 3 of A) is missing in B, which has 2 packets of it"
        )
    );
    let b = capture([asked(b"1"), asked(b"2"), asked(b"3")]);
    assert_eq!(
        told(&a, &b),
        "in udp 192.0.2.1:53 > 10.0.0.1:5000, packet 1 of the flow (packet 2 of A) is missing in B, \
         which has no packet of it"
    );
}

#[test]
fn extra() {
    let a = capture([asked(b"1"), asked(b"2")]);
    let b = capture([answered(b"x"), asked(b"1"), asked(b"1"), asked(b"2")]);
    // At the second packet of A; the answer comes first in B, but B's own packets come after A's
    // of the same number.
    assert_eq!(
        told(&a, &b),
        "in udp 192.0.2.1:53 > 10.0.0.1:5000, packet 1 of the flow in B (packet 1 of B) is not in A, \
         which has no packet of it"
    );
    let b = capture([asked(b"1"), asked(b"1"), asked(b"2")]);
    assert_eq!(
        told(&a, &b),
        format!(
            "{FLOW}packet 2 of the flow in B (packet 2 of B) is not in A, which has 2 packets of it"
        )
    );
}

#[test]
fn reordered() {
    let a = capture([answered(b"x"), asked(b"1"), asked(b"2"), asked(b"3")]);
    let b = capture([asked(b"1"), asked(b"3"), answered(b"x"), asked(b"2")]);
    assert_eq!(
        told(&a, &b),
        format!(
            "{FLOW}packets are reordered: packet 2 of the flow (packet 3 of A) comes as packet 3 of \
             the flow in B (packet 4 of B)"
        )
    );
}

/// What is told of packets at the front of which all is the same.
fn changed(a: PacketBuilder<'_>, b: PacketBuilder<'_>) -> String {
    let told = told(&capture([asked(b"0"), a]), &capture([asked(b"0"), b]));
    let (_, fields) = told.split_once(" differs: ").expect("a change");
    fields.to_owned()
}

#[test]
fn changed_packets_have_their_numbers() {
    let a = capture([asked(b"1"), answered(b"x"), asked(b"2").ttl(9)]);
    let b = capture([asked(b"1"), asked(b"2").ttl(8), answered(b"x")]);
    assert_eq!(
        told(&a, &b),
        format!(
            "{FLOW}packet 2 of the flow (packet 3 of A, packet 2 of B) differs: time to live is 9 in A \
             and 8 in B; header checksum is 0xe5ce in A and 0xe6ce in B"
        )
    );
}

#[test]
fn changed_header_fields_are_named() {
    let tcp = PacketBuilder::tcp(crate::common::end(FROM), crate::common::end(TO));
    let v6 = udp("[2001:db8::1]:1", "[2001:db8::2]:2");
    let mac = |last| MacAddress([2, 0, 0, 0, 0, last]);
    let cases = [
        (
            asked(b"1").macs(mac(1), mac(2)),
            asked(b"1").macs(mac(1), mac(9)),
            "destination MAC address is 02:00:00:00:00:02 in A and 02:00:00:00:00:09 in B",
        ),
        (v6.ttl(64), v6.ttl(63), "hop limit is 64 in A and 63 in B"),
        (
            tcp.seq(7),
            tcp.seq(8),
            "sequence number is 7 in A and 8 in B; TCP checksum is ",
        ),
        (
            tcp.window(7),
            tcp.window(7).tcp_options(&[TcpOption::NoOperation; 4]),
            "total length is 40 in A and 44 in B; header checksum is ",
        ),
        (
            asked(b"1"),
            asked(b"1").vlan(7),
            "length of tags, labels and EtherType is 2 bytes in A and 6 bytes in B; tags, labels and \
             EtherType from byte 0 on is 08 00 in A and 81 00 00 07 08 00 in B",
        ),
        (
            asked(b"1"),
            asked(b"1").padded(),
            "length of Ethernet padding is 0 bytes in A and 17 bytes in B",
        ),
    ];
    for (a, b, expected) in cases {
        let told = changed(a, b);
        assert!(told.starts_with(expected), "{expected:?} in {told:?}");
    }
    let longer = changed(tcp, tcp.tcp_options(&[TcpOption::NoOperation; 4]));
    assert!(
        longer.ends_with("length of TCP options is 0 bytes in A and 4 bytes in B"),
        "{longer}"
    );
}

#[test]
fn changed_payload_is_shown_from_its_first_other_byte() {
    let told = changed(asked(b"abcdefghijklm"), asked(b"abXdefghijklm"));
    assert!(
        told.ends_with(
            "payload from byte 2 on is 63 64 65 66 67 68 69 6a ... in A and 58 64 65 66 67 68 69 6a ... in B"
        ),
        "{told}"
    );
    let told = changed(asked(b"abc"), asked(b"ab"));
    assert!(
        told.ends_with("length of payload is 3 bytes in A and 2 bytes in B"),
        "{told}"
    );
}

#[test]
fn timestamps_are_compared_if_that_is_asked_for() {
    let a = capture([asked(b"1"), asked(b"2")]);
    let mut b = a.clone();
    b[1].0 += 5;
    assert_eq!(told(&a, &b), "the same");
    let options = Options {
        timestamps: true,
        ..Options::default()
    };
    assert_eq!(
        text(compare(&a, &b, options)),
        format!(
            "{FLOW}packet 2 of the flow (packet 2 of A, packet 2 of B) differs: time is 0.001000000 s \
             in A and 0.001000005 s in B"
        )
    );
}

#[test]
fn identifications_are_ignored_if_that_is_asked_for() {
    let a = capture([asked(b"1").identification(7)]);
    let b = capture([asked(b"1").identification(8)]);
    assert!(told(&a, &b).contains("identification is 0x7 in A and 0x8 in B; header checksum is "));
    let options = Options {
        ignore_ip_ids: true,
        ..Options::default()
    };
    assert_eq!(text(compare(&a, &b, options.clone())), "the same");
    let c = capture([asked(b"2").identification(8)]);
    let told = text(compare(&a, &c, options));
    assert!(
        told.contains("differs: UDP checksum is ") && !told.contains("identification"),
        "{told}"
    );
}

#[test]
fn fragments_errors_and_frames_without_ip_have_flows() {
    let fragment = |payload| udp(FROM, TO).fragment(8, false).payload(payload);
    let offending = frame(asked(b"1"));
    let error = PacketBuilder::icmp_error(IcmpError::Unreachable { code: 3 }, &offending);
    let ether_type = |number: u16, content: u8| {
        let mut frame = vec![content; 60];
        frame[12..14].copy_from_slice(&number.to_be_bytes());
        frame
    };
    let a: Packets = vec![
        (0, frame(fragment(b"12345678"))),
        (0, frame(error)),
        (0, ether_type(0x0806, 1)),
        (0, ether_type(0x0800, 0)),
        (0, vec![]),
    ];
    let expected = [
        "in fragments of udp 10.0.0.1 > 192.0.2.1, ",
        "in ICMP errors about udp 10.0.0.1:5000 > 192.0.2.1:53, ",
        "in frames of EtherType 0x0806 (ARP), ",
        "in malformed frames of EtherType 0x0800 (IPv4) (",
        "in malformed frames of EtherType 0x0000 (",
    ];
    for (index, expected) in expected.into_iter().enumerate() {
        let mut b = a.clone();
        b.remove(index);
        let told = told(&a, &b);
        let missing = format!(
            "packet 1 of the flow (packet {} of A) is missing in B",
            index + 1
        );
        assert!(told.starts_with(expected), "{told}");
        assert!(told.contains(&missing), "{told}");
    }
    // Frames of one EtherType have an order, those of several have none.
    let arp = [1, 2].map(|content| (0, ether_type(0x0806, content)));
    let other = (0, ether_type(0x88cc, 1));
    let a = vec![arp[0].clone(), other.clone(), arp[1].clone()];
    let b = vec![other.clone(), arp[0].clone(), arp[1].clone()];
    assert_eq!(told(&a, &b), "the same");
    let b = vec![arp[1].clone(), arp[0].clone(), other];
    assert!(told(&a, &b).contains("packets are reordered"));
}

#[test]
fn captures_can_have_other_names_in_the_sentence() {
    let (a, b) = (capture([asked(b"1")]), Packets::new());
    let difference = compare(&a, &b, Options::default()).expect_err("it is missing");
    assert!(matches!(
        difference.problem,
        Problem::Missing {
            place: 1,
            a: 1,
            held: 0
        }
    ));
    assert_eq!(
        difference.between("both.pcap", "slow.pcap").to_string(),
        format!(
            "{FLOW}packet 1 of the flow (packet 1 of both.pcap) is missing in slow.pcap, which has no packet of it"
        )
    );
}

/// The first in order of A's packets, whatever the flow.
#[test]
fn the_first_of_several_differences_is_told() {
    let a = capture([asked(b"1"), answered(b"1"), asked(b"2"), answered(b"2")]);
    let b = capture([asked(b"1"), answered(b"1"), asked(b"3"), answered(b"3")]);
    assert!(told(&a, &b).starts_with(FLOW));
    let a: Packets = a
        .into_iter()
        .map(|(time, frame)| (time + MS, frame))
        .rev()
        .collect();
    assert!(!told(&a, &b).starts_with(FLOW));
}
