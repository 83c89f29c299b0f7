use super::*;
use crate::address::Endpoint;
use crate::build::{Extension, PacketBuilder};
use crate::icmp::IcmpError;
use crate::layout::dissect;

fn ends(v4: bool) -> (Endpoint, Endpoint) {
    let texts = match v4 {
        true => ["10.0.0.1:40000", "10.0.0.2:80"],
        false => ["[2001:db8::1]:40000", "[2001:db8::2]:80"],
    };
    let [source, destination] = texts.map(|text| text.parse().unwrap());
    (source, destination)
}

fn tcp(v4: bool) -> PacketBuilder<'static> {
    let (source, destination) = ends(v4);
    PacketBuilder::tcp(source, destination)
}

fn udp(v4: bool) -> PacketBuilder<'static> {
    let (source, destination) = ends(v4);
    PacketBuilder::udp(source, destination)
}

fn layout(builder: PacketBuilder<'_>) -> Layout {
    dissect(&builder.to_vec().unwrap()).unwrap()
}

/// What dissection says when the byte at `at` is `value`.
fn damaged(builder: PacketBuilder<'_>, at: usize, value: u8) -> Option<Malformed> {
    let mut frame = builder.to_vec().unwrap();
    frame[at] = value;
    dissect(&frame).err()
}

#[test]
fn a_plain_segment() {
    let expected = Layout {
        l3: 14,
        l4: 34,
        payload: 54,
        end: 57,
        network: Network::V4,
        transport: Transport::Tcp,
        protocol: 6,
        fragment: Fragment::Whole,
        inner: None,
    };
    assert_eq!(layout(tcp(true).payload(b"abc").padded()), expected);
}

#[test]
fn padding_is_not_payload() {
    for v4 in [true, false] {
        let frame = udp(v4).padded().to_vec().unwrap();
        assert_eq!(dissect(&frame).unwrap().payload_bytes(), 0);
    }
}

#[test]
fn up_to_four_tags() {
    for tags in 0..=4u16 {
        let tagged = (0..tags).fold(tcp(false), PacketBuilder::vlan);
        let found = layout(tagged);
        assert_eq!((found.l3, found.l4), (14 + 4 * tags, 54 + 4 * tags));
    }
    let mut frame = [0x81, 0x00].repeat(30);
    assert_eq!(dissect(&frame), Err(Malformed::TooManyVlanTags));
    frame.truncate(17);
    assert_eq!(dissect(&frame), Err(Malformed::TruncatedVlan));
    frame.truncate(13);
    assert_eq!(dissect(&frame), Err(Malformed::TruncatedEthernet));
}

#[test]
fn every_tag_protocol_is_followed() {
    for ether_type in [0x8100u16, 0x88a8, 0x9100, 0x9200, 0x9300] {
        let mut frame = tcp(true).vlan(5).to_vec().unwrap();
        frame[12..14].copy_from_slice(&ether_type.to_be_bytes());
        assert_eq!(dissect(&frame).unwrap().transport, Transport::Tcp);
    }
}

/// Labels, a session, and LLC with SNAP, in front of each IP version.
const LINKS: [[&[u8]; 2]; 3] = [
    [
        &[0x88, 0x47, 0, 1, 0, 64, 0, 2, 1, 64],
        &[0x81, 0, 0, 5, 0x88, 0x48, 0, 2, 1, 64],
    ],
    [
        &[0x88, 0x64, 0x11, 0, 0, 7, 0, 0, 0, 0x21],
        &[0x92, 0, 0, 5, 0x88, 0x64, 0x11, 0, 0, 7, 0, 0, 0, 0x57],
    ],
    [
        &[0, 0, 0xaa, 0xaa, 3, 0, 0, 0, 0x08, 0x00],
        &[0x81, 0, 0, 5, 0, 0, 0xaa, 0xaa, 3, 0, 0, 0, 0x86, 0xdd],
    ],
];

#[test]
fn packets_are_found_behind_labels_sessions_and_snap() {
    for links in LINKS {
        for (v4, link) in [true, false].into_iter().zip(links) {
            let packet = tcp(v4).payload(b"abc").padded();
            let (plain, found) = (layout(packet), layout(packet.link(link)));
            let l3 = 12 + link.len() as u16;
            let expected = Layout {
                l3,
                l4: plain.l4 - 14 + l3,
                payload: plain.payload - 14 + l3,
                end: plain.end - 14 + u32::from(l3),
                ..plain
            };
            assert_eq!(found, expected, "{link:02x?}");
        }
    }
}

/// What the link does not have does not belong to the packet.
#[test]
fn packets_do_not_reach_beyond_their_session() {
    for (link, length_at) in [(LINKS[1][0], 18), (LINKS[2][0], 12)] {
        let mut frame = udp(true).payload_len(9).link(link).to_vec().unwrap();
        assert!(dissect(&frame).is_ok());
        frame[length_at + 1] -= 1;
        assert_eq!(dissect(&frame), Err(Malformed::Ipv4TotalLength));
    }
}

#[test]
fn rarer_extension_headers_are_walked() {
    for number in [135, 139, 140, 253, 254] {
        let packet = tcp(false).ipv6_extension(Extension::Other(number), 2);
        let found = layout(packet);
        assert_eq!(
            (found.transport, found.l4),
            (Transport::Tcp, 70),
            "{number}"
        );
        let beyond = damaged(packet, 55, 9);
        assert_eq!(beyond, Some(Malformed::Ipv6Extensions), "{number}");
    }
}

#[test]
fn other_frames_are_fine() {
    let mut frame = [0; 60];
    frame[12..14].copy_from_slice(&protocol::ETHER_ARP.to_be_bytes());
    let found = dissect(&frame).unwrap();
    assert_eq!(
        (found.network, found.transport),
        (Network::None, Transport::None)
    );
    assert_eq!((found.l3, found.end), (14, 60));
    assert_eq!(
        crate::layout::ether_type(&frame, &found),
        protocol::ETHER_ARP
    );
    frame[12..14].copy_from_slice(&46u16.to_be_bytes());
    assert_eq!(dissect(&frame).unwrap().network, Network::None);
}

#[test]
fn fragments() {
    for v4 in [true, false] {
        let first = layout(udp(v4).fragment(0, true).payload_len(16));
        assert_eq!(
            (first.fragment, first.transport),
            (Fragment::First, Transport::Udp)
        );
        let later = layout(udp(v4).fragment(24, true).payload_len(16));
        assert_eq!(
            (later.fragment, later.transport),
            (Fragment::Later, Transport::None)
        );
        assert_eq!((later.protocol, later.payload), (17, later.l4));
        assert_eq!(later.payload_bytes(), 16);
        let far = udp(v4).fragment(65_528, false).payload_len(8).to_vec();
        assert_eq!(far.unwrap_err(), Malformed::FragmentBounds.into());
    }
    // A fragment header that fragments nothing (RFC 6946).
    assert_eq!(
        layout(udp(false).fragment(0, false)).fragment,
        Fragment::Whole
    );
}

#[test]
fn the_first_fragment_of_a_long_datagram() {
    for v4 in [true, false] {
        let mut frame = udp(v4).fragment(0, true).payload_len(16).to_vec().unwrap();
        let l4 = usize::from(dissect(&frame).unwrap().l4);
        frame[l4 + 4..l4 + 6].copy_from_slice(&9000u16.to_be_bytes());
        assert!(dissect(&frame).is_ok());
    }
}

#[test]
fn each_thing_that_can_be_wrong() {
    let cases = [
        (damaged(tcp(true), 14, 0x65), Malformed::Ipv4Version),
        (damaged(tcp(true), 14, 0x44), Malformed::Ipv4HeaderLength),
        (damaged(tcp(true), 14, 0x4f), Malformed::TruncatedIpv4),
        (damaged(tcp(true), 17, 41), Malformed::Ipv4TotalLength),
        (damaged(tcp(true), 17, 19), Malformed::Ipv4TotalLength),
        (damaged(tcp(true), 17, 39), Malformed::TruncatedTcp),
        (damaged(tcp(true), 23, 51), Malformed::Ipv4Authentication),
        (damaged(tcp(true), 46, 0x40), Malformed::TcpHeaderLength),
        (damaged(tcp(true), 46, 0x60), Malformed::TcpHeaderLength),
        (damaged(udp(true), 17, 27), Malformed::TruncatedUdp),
        (damaged(udp(true), 39, 7), Malformed::UdpLength),
        (damaged(udp(true), 39, 9), Malformed::UdpLength),
        (damaged(tcp(false), 14, 0x40), Malformed::Ipv6Version),
        (damaged(tcp(false), 19, 21), Malformed::Ipv6PayloadLength),
        (damaged(udp(false), 20, 60), Malformed::Ipv6Extensions),
    ];
    for (number, (found, expected)) in cases.into_iter().enumerate() {
        assert_eq!(found, Some(expected), "case {number}");
    }
    let (source, destination) = ends(true);
    let echo = PacketBuilder::icmp_echo(source, destination);
    assert_eq!(damaged(echo, 17, 27), Some(Malformed::TruncatedIcmp));
    assert_eq!(dissect(&[0; 65_554]), Err(Malformed::Oversized));
}

#[test]
fn cut_anywhere_is_an_error() {
    for v4 in [true, false] {
        let frame = tcp(v4).vlan(1).payload_len(9).to_vec().unwrap();
        for length in 0..frame.len() {
            assert!(dissect(&frame[..length]).is_err(), "{length}");
        }
    }
}

#[test]
fn extension_headers_are_skipped() {
    let found = layout(
        tcp(false)
            .ipv6_extension(Extension::HopByHop, 1)
            .ipv6_extension(Extension::Routing, 3)
            .ipv6_extension(Extension::Authentication, 2)
            .ipv6_extension(Extension::Destination, 2),
    );
    assert_eq!((found.l3, found.l4, found.payload), (14, 54 + 64, 54 + 84));
    assert_eq!((found.transport, found.protocol), (Transport::Tcp, 6));
}

#[test]
fn the_packet_inside_an_error() {
    for v4 in [true, false] {
        let offending = udp(v4).payload_len(30).to_vec().unwrap();
        let error = PacketBuilder::icmp_error(IcmpError::TimeExceeded { code: 0 }, &offending);
        let outer = layout(error);
        let header = if v4 { 20 } else { 40 };
        let network = if v4 { Network::V4 } else { Network::V6 };
        let l3 = 14 + header + 8;
        let expected = Inner {
            l3,
            l4: l3 + header,
            network,
            protocol: 17,
        };
        assert_eq!(outer.inner, Some(expected));
    }
}

#[test]
fn an_error_about_a_later_fragment_has_no_inner_header() {
    for v4 in [true, false] {
        let offending = udp(v4).fragment(8, false).payload_len(30).to_vec().unwrap();
        let error = PacketBuilder::icmp_error(IcmpError::Unreachable { code: 1 }, &offending);
        assert_eq!(layout(error).inner, None);
    }
}

#[test]
fn icmp_of_the_other_version_is_not_looked_into() {
    let (source, destination) = ends(true);
    let raw = PacketBuilder::raw(58, source.address, destination.address).payload_len(8);
    assert_eq!(layout(raw).transport, Transport::Other);
}

#[test]
fn meanings_state_the_bounds_that_hold() {
    assert_eq!(crate::link::MAX_VLAN_TAGS, 4);
    assert!(Malformed::TooManyVlanTags.meaning().contains("four"));
    assert_eq!(MAX_FRAME_BYTES, 65_553);
    assert!(Malformed::Oversized.meaning().contains("65,553"));
}
