//! A rewritten frame is, byte for byte, the frame that would have been built that way; and its
//! incrementally mended checksums are those of a full recomputation.

use crate::common::{
    Kind, Packet, address, icmp_error, kind, packet, packet_of, tcp, whole_packet,
};
use proptest::prelude::*;
use twinpath_wire::rewrite::{self, RewriteError};
use twinpath_wire::{
    Endpoint, Layout, MacAddress, PacketBuilder, Transport, checksum, dissect, fields, kv,
    protocol, verify_ipv4_checksum, verify_transport_checksum,
};

/// Builds the packet, lets `change` rewrite the frame, and checks that all layouts agree.
fn rewritten(packet: &Packet, change: impl FnOnce(&mut [u8], &Layout)) -> Vec<u8> {
    let mut frame = packet.frame();
    let layout = dissect(&frame).unwrap();
    change(&mut frame, &layout);
    assert_eq!(dissect(&frame), Ok(layout));
    assert_valid(&frame, &layout);
    frame
}

fn assert_valid(frame: &[u8], layout: &Layout) {
    assert!(verify_ipv4_checksum(frame, layout));
    assert!(verify_transport_checksum(frame, layout));
    let mut refreshed = frame.to_vec();
    rewrite::refresh_checksums(&mut refreshed, layout).unwrap();
    assert_eq!(refreshed, frame);
}

/// The packet with another endpoint on one side; where there is no port it stays.
fn with_source(packet: &Packet, new: Endpoint) -> Packet {
    Packet {
        source: new,
        ..packet.clone()
    }
}

fn with_destination(packet: &Packet, new: Endpoint) -> Packet {
    let mut changed = Packet {
        destination: new,
        ..packet.clone()
    };
    if matches!(packet.kind, Kind::Echo { .. }) {
        changed.source.port = new.port;
    }
    changed
}

fn with_tcp(packet: &Packet, change: impl FnOnce(&mut u32, &mut u32, &mut u8, &mut u16)) -> Packet {
    let mut changed = packet.clone();
    if let Kind::Tcp {
        seq,
        ack,
        flags,
        window,
        ..
    } = &mut changed.kind
    {
        change(seq, ack, flags, window);
    }
    changed
}

fn two_packets() -> impl Strategy<Value = (Packet, Endpoint)> {
    any::<bool>().prop_flat_map(|v4| (packet_of(v4), crate::common::endpoint(v4)))
}

fn tcp_packet() -> impl Strategy<Value = Packet> {
    (packet(), tcp()).prop_filter_map("later fragment", |(packet, kind)| {
        (!packet.is_later_fragment()).then_some(Packet { kind, ..packet })
    })
}

fn udp_packet() -> impl Strategy<Value = Packet> {
    whole_packet().prop_map(|packet| Packet {
        kind: Kind::Udp,
        ..packet
    })
}

proptest! {
    #![proptest_config(crate::common::cases(2000))]

    #[test]
    fn source((packet, new) in two_packets()) {
        let frame = rewritten(&packet, |frame, layout| {
            rewrite::set_source(frame, layout, new).unwrap();
            assert_eq!(fields::source(frame, layout).address, new.address);
        });
        prop_assert_eq!(frame, with_source(&packet, new).frame());
    }

    #[test]
    fn destination((packet, new) in two_packets()) {
        let frame = rewritten(&packet, |frame, layout| {
            rewrite::set_destination(frame, layout, new).unwrap();
            assert_eq!(fields::destination(frame, layout).address, new.address);
        });
        prop_assert_eq!(frame, with_destination(&packet, new).frame());
    }

    #[test]
    fn ttl(packet in packet(), ttl in any::<u8>()) {
        let frame = rewritten(&packet, |frame, layout| {
            rewrite::set_ttl(frame, layout, ttl).unwrap();
            assert_eq!(fields::ttl(frame, layout), ttl);
        });
        prop_assert_eq!(frame, Packet { ttl, ..packet }.frame());
    }

    #[test]
    fn tcp_fields(packet in tcp_packet(), new in any::<(u32, u8)>()) {
        let frame = rewritten(&packet, |frame, layout| {
            rewrite::set_tcp_seq(frame, layout, new.0).unwrap();
            rewrite::set_tcp_flags(frame, layout, new.1).unwrap();
            assert_eq!(fields::tcp_seq(frame, layout), new.0);
            assert_eq!(fields::tcp_flags(frame, layout), new.1);
        });
        let expected = with_tcp(&packet, |seq, _, flags, _| (*seq, *flags) = new);
        prop_assert_eq!(frame, expected.frame());
    }

    #[test]
    fn swapping_is_the_packet_the_other_way(packet in packet()) {
        let frame = rewritten(&packet, |frame, layout| {
            rewrite::swap_endpoints(frame, layout).unwrap();
        });
        let (mut source, mut destination) = (packet.destination, packet.source);
        if matches!(packet.kind, Kind::Echo { .. }) {
            (source.port, destination.port) = (destination.port, source.port);
        }
        let back = Packet { source, destination, ..packet };
        let (source_mac, destination_mac) = (MacAddress([2, 0, 0, 0, 0, 2]), MacAddress([2, 0, 0, 0, 0, 1]));
        prop_assert_eq!(frame, back.builder().macs(source_mac, destination_mac).to_vec().unwrap());
    }

    #[test]
    fn udp_length(packet in udp_packet(), payload in proptest::collection::vec(any::<u8>(), 0..300)) {
        let packet = Packet { padded: false, ..packet };
        let mut frame = packet.frame();
        let mut layout = dissect(&frame).unwrap();
        frame.resize(frame.len() + 300, 0);
        rewrite::set_udp_payload_length(&mut frame, &mut layout, payload.len()).unwrap();
        frame.truncate(layout.end as usize);
        frame[usize::from(layout.payload)..].copy_from_slice(&payload);
        prop_assert!(verify_ipv4_checksum(&frame, &layout));
        rewrite::refresh_checksums(&mut frame, &layout).unwrap();
        prop_assert_eq!(dissect(&frame), Ok(layout));
        prop_assert_eq!(frame, Packet { payload, ..packet }.frame());
    }

    /// The same behind labels, a session, and LLC with SNAP, whose lengths follow.
    #[test]
    fn behind_links(
        packet in udp_packet(),
        new in any::<bool>().prop_flat_map(crate::common::endpoint),
        payload in proptest::collection::vec(any::<u8>(), 0..300),
        link in prop::sample::select(vec![
            [&[0x88, 0x47, 0, 1, 0, 64, 0, 2, 1, 64][..]; 2],
            [&[0x88, 0x64, 0x11, 0, 0, 7, 0, 0, 0, 0x21], &[0x88, 0x64, 0x11, 0, 0, 7, 0, 0, 0, 0x57]],
            [
                &[0x81, 0, 0, 9, 0, 0, 0xaa, 0xaa, 3, 0, 0, 0, 0x08, 0x00],
                &[0x81, 0, 0, 9, 0, 0, 0xaa, 0xaa, 3, 0, 0, 0, 0x86, 0xdd],
            ],
        ]),
    ) {
        let link = link[usize::from(!packet.is_v4())];
        let packet = Packet { padded: false, vlans: Vec::new(), ..packet };
        let built = |packet: &Packet| packet.builder().link(link).to_vec().unwrap();
        let mut frame = built(&packet);
        let mut layout = dissect(&frame).unwrap();
        prop_assert_eq!(usize::from(layout.l3), 12 + link.len());
        frame.resize(frame.len() + 300, 0);
        rewrite::set_udp_payload_length(&mut frame, &mut layout, payload.len()).unwrap();
        frame.truncate(layout.end as usize);
        frame[usize::from(layout.payload)..].copy_from_slice(&payload);
        rewrite::refresh_checksums(&mut frame, &layout).unwrap();
        let mut expected = Packet { payload, ..packet };
        if rewrite::set_source(&mut frame, &layout, new).is_ok() {
            expected.source = new;
        }
        prop_assert_eq!(dissect(&frame), Ok(layout));
        prop_assert_eq!(frame, built(&expected));
    }

    /// The error about a rewritten packet is the rewritten error about the packet.
    #[test]
    fn inner_endpoints((packet, kind, new, to_source) in any::<bool>().prop_flat_map(|v4| {
        let new = crate::common::endpoint(v4);
        (packet_of(v4), icmp_error(v4), new, any::<bool>())
    })) {
        let mut frame = PacketBuilder::icmp_error(kind, &packet.frame()).to_vec().unwrap();
        let layout = dissect(&frame).unwrap();
        let Some(inner) = layout.inner else {
            let too_short = packet.is_later_fragment() || matches!(packet.kind, Kind::Raw(_));
            prop_assert!(too_short);
            let missing = rewrite::set_inner_source(&mut frame, &layout, new);
            prop_assert_eq!(missing, Err(RewriteError::NoInner));
            return Ok(());
        };
        prop_assert_eq!(inner.network, layout.network);
        let changed = if to_source {
            rewrite::set_inner_source(&mut frame, &layout, new).unwrap();
            rewrite::set_destination(&mut frame, &layout, new).unwrap();
            with_source(&packet, new)
        } else {
            rewrite::set_inner_destination(&mut frame, &layout, new).unwrap();
            rewrite::set_source(&mut frame, &layout, new).unwrap();
            with_destination(&packet, new)
        };
        prop_assert_eq!(dissect(&frame), Ok(layout));
        assert_valid(&frame, &layout);
        let expected = PacketBuilder::icmp_error(kind, &changed.frame()).to_vec().unwrap();
        prop_assert_eq!(&frame, &expected);
        let read = match to_source {
            true => fields::inner_source(&frame, &layout),
            false => fields::inner_destination(&frame, &layout),
        };
        prop_assert_eq!(read.unwrap().address, new.address);
    }

    /// A damaged packet stays exactly as damaged: rewriting back gives the bytes we had.
    #[test]
    fn there_and_back((packet, new) in two_packets(), damage in 0..60usize, value in any::<u8>()) {
        let mut frame = packet.frame();
        let at = damage.min(frame.len() - 1);
        frame[at] = value;
        let Ok(layout) = dissect(&frame) else { return Ok(()) };
        let before = frame.clone();
        let old = fields::source(&frame, &layout);
        prop_assume!(layout.is_ip() && old.address.is_v4() == new.address.is_v4());
        // 0xffff and 0 are the same number to a checksum, and come back as one of them.
        prop_assume!(!has_odd_zero(&frame, &layout));
        rewrite::set_source(&mut frame, &layout, new).unwrap();
        rewrite::set_source(&mut frame, &layout, old).unwrap();
        prop_assert_eq!(frame, before);
    }

    #[test]
    fn the_other_family_is_refused(
        (packet, other) in any::<bool>().prop_flat_map(|v4| (packet_of(v4), address(!v4))),
    ) {
        let mut frame = packet.frame();
        let (before, layout) = (frame.clone(), dissect(&frame).unwrap());
        let new = Endpoint::new(other, 1);
        prop_assert_eq!(rewrite::set_source(&mut frame, &layout, new), Err(RewriteError::Family));
        let refused = rewrite::set_destination(&mut frame, &layout, new);
        prop_assert_eq!(refused, Err(RewriteError::Family));
        prop_assert_eq!(frame, before);
    }

    #[test]
    fn fields_of_other_kinds_are_refused(packet in packet(), kind in kind()) {
        let packet = Packet { kind, ..packet };
        let mut frame = packet.frame();
        let (before, mut layout) = (frame.clone(), dissect(&frame).unwrap());
        if layout.transport != Transport::Tcp {
            let refused = rewrite::set_tcp_seq(&mut frame, &layout, 1);
            prop_assert_eq!(refused, Err(RewriteError::NotTcp));
        }
        let too_long = rewrite::set_udp_payload_length(&mut frame, &mut layout, usize::MAX);
        prop_assert!(too_long.is_err());
        if layout.transport != Transport::Udp || packet.fragment.is_some() {
            let refused = rewrite::set_udp_payload_length(&mut frame, &mut layout, 0);
            prop_assert_eq!(refused, Err(RewriteError::NotUdp));
        }
        let cut = frame.len().min(layout.end as usize) - 1;
        let refused = rewrite::set_source(&mut frame[..cut], &layout, packet.source);
        prop_assert_eq!(refused, Err(RewriteError::ShortFrame));
        let refused = rewrite::set_ttl(&mut frame[..cut], &layout, 1);
        prop_assert_eq!(refused, Err(RewriteError::ShortFrame));
        prop_assert_eq!(frame, before);
    }
}

/// Whether a checksum in the frame is written as the zero that nobody computes.
fn has_odd_zero(frame: &[u8], layout: &Layout) -> bool {
    let (l3, l4) = (usize::from(layout.l3), usize::from(layout.l4));
    let at = match layout.transport {
        Transport::Tcp => l4 + 16,
        Transport::Icmp | Transport::Icmp6 => l4 + 2,
        _ => l3 + 10,
    };
    let odd = |at: usize| frame.get(at..at + 2) == Some(&[0xff, 0xff]);
    odd(l3 + 10) || odd(at)
}

#[test]
fn an_absent_udp_checksum_stays_absent() {
    let (client, server) = (
        Endpoint::v4([10, 0, 0, 1], 40_000),
        Endpoint::v4([10, 0, 0, 2], 53),
    );
    let mut frame = PacketBuilder::udp(client, server)
        .payload(b"query")
        .to_vec()
        .unwrap();
    let layout = dissect(&frame).unwrap();
    frame[40..42].fill(0);
    rewrite::set_source(&mut frame, &layout, Endpoint::v4([172, 16, 0, 9], 1)).unwrap();
    assert_eq!(frame[40..42], [0, 0]);
    assert!(verify_transport_checksum(&frame, &layout));
    rewrite::refresh_checksums(&mut frame, &layout).unwrap();
    assert_ne!(frame[40..42], [0, 0]);
    assert!(verify_transport_checksum(&frame, &layout));
}

#[test]
fn a_computed_udp_zero_is_sent_as_ones() {
    let (client, server) = (
        Endpoint::v4([10, 0, 0, 1], 40_000),
        Endpoint::v4([10, 0, 0, 2], 53),
    );
    let mut frame = PacketBuilder::udp(client, server)
        .payload(b"query")
        .to_vec()
        .unwrap();
    let layout = dissect(&frame).unwrap();
    let checksum = u16::from_be_bytes([frame[40], frame[41]]);
    // Raising the port by the checksum brings the checksum to zero.
    let port = 40_000u16
        .checked_add(checksum)
        .unwrap_or(40_000u16.wrapping_add(checksum) + 1);
    rewrite::set_source(&mut frame, &layout, Endpoint::v4([10, 0, 0, 1], port)).unwrap();
    assert_eq!(frame[40..42], [0xff, 0xff]);
    assert_valid(&frame, &layout);
}

#[test]
fn routing_segments_left_count_in_the_pseudo_header() {
    let host = |number: u128| Endpoint::new(twinpath_wire::Address(0x2001 << 112 | number), 9);
    let mut frame = PacketBuilder::tcp(host(1), host(2))
        .ipv6_extension(twinpath_wire::build::Extension::Routing, 3)
        .to_vec()
        .unwrap();
    // Type 0 with one segment left: the last stop is the address in the routing header.
    frame[54 + 3] = 1;
    frame[54 + 8..54 + 24].copy_from_slice(&host(3).address.octets16());
    let layout = dissect(&frame).unwrap();
    rewrite::refresh_checksums(&mut frame, &layout).unwrap();
    let direct = {
        let frame = PacketBuilder::tcp(host(1), host(3)).to_vec().unwrap();
        [frame[54 + 16], frame[54 + 17]]
    };
    assert_eq!(frame[78 + 16..78 + 18], direct);
    rewrite::set_destination(&mut frame, &layout, host(7)).unwrap();
    assert_valid(&frame, &layout);
    rewrite::set_source(&mut frame, &layout, host(8)).unwrap();
    assert_valid(&frame, &layout);
    rewrite::swap_endpoints(&mut frame, &layout).unwrap();
    assert_valid(&frame, &layout);
}

#[test]
fn a_request_becomes_its_reply_in_place() {
    let (client, server) = (
        Endpoint::v4([10, 0, 0, 1], 40_000),
        Endpoint::v4([10, 0, 0, 2], 9),
    );
    let (mut message, mut buffer) = ([0; kv::MAX_MESSAGE_BYTES], [0; 256]);
    let request = kv::KvRepr::request(kv::KvOp::Get, 7, [1; 16], &[]);
    let length = request.emit(&mut message).unwrap();
    let builder = PacketBuilder::udp(client, server).payload(&message[..length]);
    let length = builder.write(&mut buffer).unwrap();

    let mut layout = dissect(&buffer[..length]).unwrap();
    let reply = request.answered(kv::KvStatus::Ok, b"value");
    rewrite::set_udp_payload_length(&mut buffer, &mut layout, reply.message_bytes()).unwrap();
    reply
        .emit(&mut buffer[usize::from(layout.payload)..])
        .unwrap();
    let frame = &mut buffer[..layout.end as usize];
    rewrite::swap_endpoints(frame, &layout).unwrap();
    rewrite::refresh_checksums(frame, &layout).unwrap();

    assert_eq!(dissect(frame), Ok(layout));
    assert_valid(frame, &layout);
    assert_eq!(
        (
            fields::source(frame, &layout),
            fields::destination(frame, &layout)
        ),
        (server, client)
    );
    let view = kv::KvView::new(fields::payload(frame, &layout)).unwrap();
    assert_eq!(kv::KvRepr::parse(&view), reply);
}

/// The least that an ICMP error must quote: the TCP checksum is not there and must not be mended
/// behind the end.
#[test]
fn a_quote_of_eight_bytes() {
    let (client, server) = (
        Endpoint::v4([10, 0, 0, 1], 40_000),
        Endpoint::v4([10, 0, 0, 2], 80),
    );
    let offending = PacketBuilder::tcp(client, server)
        .payload_len(100)
        .to_vec()
        .unwrap();
    let kind = twinpath_wire::icmp::IcmpError::TimeExceeded { code: 0 };
    let quote_cut = |bytes: usize| {
        let mut frame = PacketBuilder::icmp_error(kind, &offending)
            .to_vec()
            .unwrap();
        let total = 20 + 8 + 20 + bytes;
        frame[16..18].copy_from_slice(&(total as u16).to_be_bytes());
        let layout = dissect(&frame).unwrap();
        rewrite::refresh_checksums(&mut frame, &layout).unwrap();
        (frame, layout)
    };
    let (_, layout) = quote_cut(7);
    assert_eq!(layout.inner, None);
    for bytes in [8, 16, 17, 18, 40] {
        let (mut frame, layout) = quote_cut(bytes);
        let behind = frame[layout.end as usize..].to_vec();
        rewrite::set_inner_source(&mut frame, &layout, Endpoint::v4([1, 2, 3, 4], 5)).unwrap();
        assert_eq!(
            fields::inner_source(&frame, &layout),
            Some(Endpoint::v4([1, 2, 3, 4], 5))
        );
        assert_eq!(frame[layout.end as usize..], behind);
        assert_valid(&frame, &layout);
    }
}

/// The checksum is the IP header's, and no word of what lies between it and the transport's.
#[test]
fn an_authentication_header_is_not_summed_up_with_that_of_ip() {
    const AUTHENTICATION: [u8; 16] = [17, 2, 0, 0, 0, 0, 0, 7, 0, 0, 0, 1, 9, 9, 9, 9];
    let ends = [1, 2].map(|last| Endpoint::v4([10, 0, 0, last], 53));
    let mut frame = PacketBuilder::udp(ends[0], ends[1])
        .to_vec()
        .expect("short");
    let total = u16::from_be_bytes([frame[16], frame[17]]) + AUTHENTICATION.len() as u16;
    frame[16..18].copy_from_slice(&total.to_be_bytes());
    frame[23] = protocol::AUTHENTICATION;
    frame.splice(34..34, AUTHENTICATION);
    let layout = dissect(&frame).expect("sound");
    assert_eq!(layout.protocol, protocol::UDP);
    rewrite::refresh_checksums(&mut frame, &layout).expect("whole");
    assert_eq!(checksum::checksum(&frame[14..34]), 0);
    assert!(verify_ipv4_checksum(&frame, &layout));
    // What is authenticated may be anything; the header may not.
    frame[46] ^= 1;
    assert!(verify_ipv4_checksum(&frame, &layout));
    frame[22] ^= 1;
    assert!(!verify_ipv4_checksum(&frame, &layout));
}
