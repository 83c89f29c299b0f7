//! Dissection agrees with etherparse, an independent implementation: on packets that we build,
//! on packets that it builds, and on damaged ones.

use crate::common::{Kind, Packet, packet, whole_packet};
use etherparse::{
    Icmpv4Type, Icmpv6Type, Ipv4HeaderSlice, NetSlice, SlicedPacket, TcpSlice, TransportSlice,
};
use proptest::prelude::*;
use twinpath_wire::{
    Fragment, Layout, Malformed, Network, Transport, dissect, fields, ipv6, verify_ipv4_checksum,
    verify_transport_checksum,
};

/// Offset of a part within the whole.
fn offset(whole: &[u8], part: &[u8]) -> usize {
    part.as_ptr() as usize - whole.as_ptr() as usize
}

/// Asserts that both dissections of `frame` say the same.
fn assert_same(frame: &[u8], layout: &Layout, theirs: &SlicedPacket<'_>) {
    match &theirs.net {
        Some(NetSlice::Ipv4(ipv4)) => {
            let header = ipv4.header();
            assert_eq!(layout.network, Network::V4);
            assert_eq!(usize::from(layout.l3), offset(frame, header.slice()));
            assert_eq!(source(frame, layout), header.source().to_vec());
            assert_eq!(destination(frame, layout), header.destination().to_vec());
            assert_eq!(fields::ttl(frame, layout), header.ttl());
        }
        Some(NetSlice::Ipv6(ipv6)) => {
            let header = ipv6.header();
            assert_eq!(layout.network, Network::V6);
            assert_eq!(usize::from(layout.l3), offset(frame, header.slice()));
            assert_eq!(source(frame, layout), header.source().to_vec());
            assert_eq!(destination(frame, layout), header.destination().to_vec());
            assert_eq!(fields::ttl(frame, layout), header.hop_limit());
        }
        _ => assert_eq!(layout.network, Network::None),
    }
    if let Some(payload) = theirs.net.as_ref().and_then(NetSlice::ip_payload_ref) {
        assert_eq!(layout.protocol, payload.ip_number.0);
        assert_eq!(usize::from(layout.l4), offset(frame, payload.payload));
        assert_eq!(
            layout.end as usize,
            usize::from(layout.l4) + payload.payload.len()
        );
        assert_eq!(layout.fragment != Fragment::Whole, payload.fragmented);
    }
    assert_same_transport(frame, layout, theirs);
}

fn assert_same_transport(frame: &[u8], layout: &Layout, theirs: &SlicedPacket<'_>) {
    let payload = fields::payload(frame, layout);
    let ports = (
        fields::source(frame, layout).port,
        fields::destination(frame, layout).port,
    );
    match &theirs.transport {
        Some(TransportSlice::Tcp(tcp)) => assert_same_tcp(frame, layout, tcp),
        Some(TransportSlice::Udp(udp)) => {
            assert_eq!(layout.transport, Transport::Udp);
            assert_eq!(ports, (udp.source_port(), udp.destination_port()));
            assert_eq!(payload, udp.payload());
        }
        Some(TransportSlice::Icmpv4(icmp)) if layout.network == Network::V4 => {
            assert_eq!(layout.transport, Transport::Icmp);
            let kind = (icmp.type_u8(), icmp.code_u8());
            assert_eq!(fields::icmp_kind(frame, layout), Some(kind));
            if let Icmpv4Type::EchoRequest(echo) | Icmpv4Type::EchoReply(echo) = icmp.icmp_type() {
                assert_eq!(ports, (echo.id, echo.id));
                assert_eq!(payload, icmp.payload());
            }
        }
        Some(TransportSlice::Icmpv6(icmp)) if layout.network == Network::V6 => {
            assert_eq!(layout.transport, Transport::Icmp6);
            let kind = (icmp.type_u8(), icmp.code_u8());
            assert_eq!(fields::icmp_kind(frame, layout), Some(kind));
            if let Icmpv6Type::EchoRequest(echo) | Icmpv6Type::EchoReply(echo) = icmp.icmp_type() {
                assert_eq!(ports, (echo.id, echo.id));
                assert_eq!(payload, icmp.payload());
            }
        }
        // They do not look into fragments.
        None if layout.fragment == Fragment::First => {}
        _ => assert!(matches!(
            layout.transport,
            Transport::None | Transport::Other
        )),
    }
}

fn assert_same_tcp(frame: &[u8], layout: &Layout, tcp: &TcpSlice<'_>) {
    assert_eq!(layout.transport, Transport::Tcp);
    assert_eq!(fields::source(frame, layout).port, tcp.source_port());
    assert_eq!(
        fields::destination(frame, layout).port,
        tcp.destination_port()
    );
    assert_eq!(fields::tcp_seq(frame, layout), tcp.sequence_number());
    assert_eq!(fields::tcp_ack(frame, layout), tcp.acknowledgment_number());
    assert_eq!(fields::tcp_window(frame, layout), tcp.window_size());
    assert_eq!(fields::payload(frame, layout), tcp.payload());
    let flags = [
        tcp.fin(),
        tcp.syn(),
        tcp.rst(),
        tcp.psh(),
        tcp.ack(),
        tcp.urg(),
        tcp.ece(),
        tcp.cwr(),
    ];
    for (bit, flag) in flags.into_iter().enumerate() {
        assert_eq!(fields::tcp_flags(frame, layout) >> bit & 1 == 1, flag);
    }
}

fn source(frame: &[u8], layout: &Layout) -> Vec<u8> {
    octets(layout, fields::source(frame, layout).address)
}

fn destination(frame: &[u8], layout: &Layout) -> Vec<u8> {
    octets(layout, fields::destination(frame, layout).address)
}

fn octets(layout: &Layout, address: twinpath_wire::Address) -> Vec<u8> {
    match layout.network {
        Network::V4 => address.octets4().to_vec(),
        _ => address.octets16().to_vec(),
    }
}

/// A packet as etherparse builds it.
fn built_by_etherparse(packet: &Packet) -> Vec<u8> {
    let (source, destination) = (packet.source, packet.destination);
    let ethernet = etherparse::PacketBuilder::ethernet2([1; 6], [2; 6]);
    let ip = match packet.is_v4() {
        true => ethernet.ipv4(
            source.address.octets4(),
            destination.address.octets4(),
            packet.ttl,
        ),
        false => ethernet.ipv6(
            source.address.octets16(),
            destination.address.octets16(),
            packet.ttl,
        ),
    };
    let (mut out, payload) = (Vec::new(), &packet.payload);
    match &packet.kind {
        Kind::Tcp { seq, window, .. } => {
            let tcp = ip.tcp(source.port, destination.port, *seq, *window);
            tcp.write(&mut out, payload).unwrap();
        }
        Kind::Echo { seq, .. } if packet.is_v4() => {
            ip.icmpv4_echo_request(source.port, *seq)
                .write(&mut out, payload)
                .unwrap();
        }
        Kind::Echo { seq, .. } => {
            ip.icmpv6_echo_request(source.port, *seq)
                .write(&mut out, payload)
                .unwrap();
        }
        _ => ip
            .udp(source.port, destination.port)
            .write(&mut out, payload)
            .unwrap(),
    }
    out
}

/// Whether only one side accepts a frame for a reason that is meant.
fn may_differ(
    frame: &[u8],
    ours: &Result<Layout, Malformed>,
    theirs: Option<&SlicedPacket<'_>>,
) -> bool {
    match (ours, theirs) {
        // Behind older tags, labels, sessions and SNAP they look for nothing.
        (Err(_), Some(theirs)) if theirs.net.is_none() => true,
        (Err(why), Some(theirs)) => may_be_stricter(*why, theirs),
        // They also read ARP, IGMP, MACsec, a second authentication header of IPv4 and ICMP of the
        // other IP version, and take a payload length of zero for a jumbogram.
        (Ok(layout), None) => {
            let other = matches!(layout.protocol, 1 | 2 | 51 | 58);
            let ether_type = twinpath_wire::layout::ether_type(frame, layout);
            let other = other || no_ipv6_payload(layout) || data_taken_for_headers(layout);
            other || matches!(ether_type, 0x0806 | 0x88e5)
        }
        _ => false,
    }
}

/// What we refuse and they take.
fn may_be_stricter(why: Malformed, theirs: &SlicedPacket<'_>) -> bool {
    let fragmented = theirs
        .net
        .as_ref()
        .and_then(NetSlice::ip_payload_ref)
        .is_some_and(|payload| payload.fragmented);
    let no_payload_length = matches!(
        &theirs.net,
        Some(NetSlice::Ipv6(ipv6)) if ipv6.header().payload_length() == 0
    );
    match why {
        Malformed::Ipv6MappedAddress => true,
        Malformed::TooManyVlanTags | Malformed::TruncatedVlan => theirs.link_exts.is_full(),
        Malformed::UdpLength => {
            let whole =
                matches!(&theirs.transport, Some(TransportSlice::Udp(udp)) if udp.length() == 0);
            whole || fragmented || stops_at_rare_extension(theirs)
        }
        Malformed::FragmentBounds
        | Malformed::TruncatedTcp
        | Malformed::TcpHeaderLength
        | Malformed::TruncatedUdp
        | Malformed::TruncatedIcmp => {
            fragmented || no_payload_length || stops_at_rare_extension(theirs)
        }
        Malformed::Ipv6Extensions => {
            no_payload_length || fragmented || stops_at_rare_extension(theirs)
        }
        _ => false,
    }
}

/// They take a rarer extension header for a transport's.
fn stops_at_rare_extension(theirs: &SlicedPacket<'_>) -> bool {
    let payload = theirs.net.as_ref().and_then(NetSlice::ip_payload_ref);
    payload.is_some_and(|payload| matches!(payload.ip_number.0, 135 | 139 | 140 | 253 | 254))
}

/// They take a payload length of zero for a jumbogram.
fn no_ipv6_payload(layout: &Layout) -> bool {
    layout.network == Network::V6 && usize::from(layout.l3) + 40 == layout.end as usize
}

/// They walk on over extension headers into the data of a later fragment.
fn data_taken_for_headers(layout: &Layout) -> bool {
    layout.fragment == Fragment::Later && ipv6::is_extension(layout.protocol)
}

proptest! {
    #![proptest_config(crate::common::cases(4000))]

    #[test]
    fn agree_on_what_we_build(packet in packet()) {
        let frame = packet.frame();
        let layout = dissect(&frame).unwrap();
        let theirs = SlicedPacket::from_ethernet(&frame).unwrap();
        prop_assert_eq!(theirs.link_exts.len(), packet.vlans.len());
        if comparable(&frame, &layout, &theirs) {
            assert_same(&frame, &layout, &theirs);
        }
    }

    #[test]
    fn agree_on_what_they_build(packet in whole_packet()) {
        let frame = built_by_etherparse(&packet);
        let layout = dissect(&frame).unwrap();
        prop_assert!(verify_ipv4_checksum(&frame, &layout));
        prop_assert!(verify_transport_checksum(&frame, &layout));
        assert_same(&frame, &layout, &SlicedPacket::from_ethernet(&frame).unwrap());
        prop_assert_eq!(fields::source(&frame, &layout).address, packet.source.address);
        prop_assert_eq!(fields::payload(&frame, &layout), &packet.payload[..]);
    }

    #[test]
    fn they_find_our_checksums_right(packet in whole_packet()) {
        let frame = packet.frame();
        let theirs = SlicedPacket::from_ethernet(&frame).unwrap();
        let Some(net) = &theirs.net else { panic!("not IP") };
        if let NetSlice::Ipv4(ipv4) = net {
            let header: Ipv4HeaderSlice<'_> = ipv4.header();
            let checksum = header.to_header().calc_header_checksum();
            prop_assert_eq!(checksum, header.header_checksum());
        }
        let (ours, expected) = match (theirs.transport, net) {
            (Some(TransportSlice::Tcp(tcp)), NetSlice::Ipv4(ip)) => {
                let (source, destination) = (ip.header().source(), ip.header().destination());
                (tcp.checksum(), tcp.calc_checksum_ipv4(source, destination).unwrap())
            }
            (Some(TransportSlice::Tcp(tcp)), NetSlice::Ipv6(ip)) => {
                let (source, destination) = (ip.header().source(), ip.header().destination());
                (tcp.checksum(), tcp.calc_checksum_ipv6(source, destination).unwrap())
            }
            (Some(TransportSlice::Udp(udp)), NetSlice::Ipv4(ip)) => {
                let expected = udp.to_header().calc_checksum_ipv4_raw(
                    ip.header().source(), ip.header().destination(), udp.payload());
                (udp.checksum(), expected.unwrap())
            }
            (Some(TransportSlice::Udp(udp)), NetSlice::Ipv6(ip)) => {
                let expected = udp.to_header().calc_checksum_ipv6_raw(
                    ip.header().source(), ip.header().destination(), udp.payload());
                (udp.checksum(), expected.unwrap())
            }
            (Some(TransportSlice::Icmpv4(icmp)), _) => {
                (icmp.checksum(), icmp.icmp_type().calc_checksum(icmp.payload()))
            }
            (Some(TransportSlice::Icmpv6(icmp)), NetSlice::Ipv6(ip)) => {
                let header = ip.header();
                let valid = icmp.is_checksum_valid(header.source(), header.destination());
                (u16::from(valid), 1)
            }
            _ => return Ok(()),
        };
        prop_assert_eq!(ours, expected);
    }

    #[test]
    fn agree_on_damaged_packets(
        packet in packet(),
        damage in proptest::collection::vec((0..90usize, any::<u8>()), 1..4),
        cut in 0..200usize,
    ) {
        let mut frame = packet.frame();
        for (at, value) in damage {
            if let Some(byte) = frame.get_mut(at) {
                *byte = value;
            }
        }
        frame.truncate(frame.len().saturating_sub(cut.saturating_sub(100)));
        let (ours, theirs) = (dissect(&frame), SlicedPacket::from_ethernet(&frame));
        match (&ours, &theirs) {
            (Ok(layout), Ok(theirs)) if comparable(&frame, layout, theirs) => {
                assert_same(&frame, layout, theirs);
            }
            (Ok(_), Ok(_)) | (Err(_), Err(_)) => {}
            _ => prop_assert!(may_differ(&frame, &ours, theirs.as_ref().ok()), "{ours:?} {theirs:?}"),
        }
    }
}

/// Whether both read the same protocols: see [`may_differ`] for those that only one side does.
fn comparable(frame: &[u8], layout: &Layout, theirs: &SlicedPacket<'_>) -> bool {
    let macsec = twinpath_wire::layout::ether_type(frame, layout) == 0x88e5;
    let one_sided = match (layout.network, layout.protocol) {
        (Network::V4, 51 | 58) | (Network::V6, 1) => true,
        _ => matches!(theirs.transport, Some(TransportSlice::Igmp(_))),
    };
    let four_tags = layout.l3 == 30;
    let behind_rare = layout.network == Network::V6 && stops_at_rare_extension(theirs);
    let beyond = no_ipv6_payload(layout) || data_taken_for_headers(layout) || behind_rare;
    // Behind older tags, labels, sessions and SNAP.
    let ours_alone = layout.network != Network::None && theirs.net.is_none();
    !(macsec || one_sided || four_tags || beyond || ours_alone)
}
