use super::*;
use crate::layout::{Fragment, Transport};

const CLIENT: Endpoint = Endpoint::v4([10, 0, 0, 1], 40_000);
const SERVER: Endpoint = Endpoint::v4([10, 0, 0, 2], 80);

fn v6(host: u128) -> Endpoint {
    Endpoint::new(Address(0x2001_0db8 << 96 | host), 9)
}

#[test]
fn a_frame_byte_by_byte() {
    let macs = (MacAddress([1; 6]), MacAddress([2; 6]));
    let frame = PacketBuilder::udp(CLIENT, SERVER)
        .macs(macs.0, macs.1)
        .vlan(7)
        .ttl(9)
        .payload(b"hi")
        .to_vec()
        .unwrap();
    let expected = [
        &[
            2, 2, 2, 2, 2, 2, 1, 1, 1, 1, 1, 1, 0x81, 0x00, 0, 7, 0x08, 0x00,
        ][..],
        &[
            0x45, 0, 0, 30, 0, 0, 0, 0, 9, 17, 0x9d, 0xcd, 10, 0, 0, 1, 10, 0, 0, 2,
        ],
        &[0x9c, 0x40, 0, 80, 0, 10, 0xe6, 0xdd, b'h', b'i'],
    ];
    assert_eq!(frame, expected.concat());
}

#[test]
fn tcp_options_read_back() {
    let options = [
        TcpOption::MaximumSegmentSize(1400),
        TcpOption::WindowScale(9),
    ];
    let frame = PacketBuilder::tcp(CLIENT, SERVER)
        .tcp_options(&options)
        .to_vec()
        .unwrap();
    let layout = dissect(&frame).unwrap();
    let found: Vec<_> = fields::tcp_options(&frame, &layout).collect();
    let padding_ends_the_list = options.map(Ok);
    assert_eq!(found, padding_ends_the_list);
}

#[test]
fn the_pattern_counts_to_250() {
    let frame = PacketBuilder::udp(CLIENT, SERVER)
        .payload_len(253)
        .to_vec()
        .unwrap();
    assert_eq!(frame[42..45], [0, 1, 2]);
    assert_eq!(frame[42 + 250..], [250, 0, 1]);
}

#[test]
fn pads_to_60_bytes() {
    let builder = PacketBuilder::udp(CLIENT, SERVER).padded();
    let mut buffer = [0xee; 61];
    assert_eq!(builder.write(&mut buffer), Ok(60));
    assert_eq!(buffer[42..], [[0; 18].as_slice(), &[0xee]].concat());
    assert_eq!(builder.payload_len(20).frame_bytes(), 62);
}

#[test]
fn errors_quote_no_more_than_the_rfcs_say() {
    let kind = IcmpError::TimeExceeded { code: 0 };
    let long = PacketBuilder::udp(CLIENT, SERVER)
        .payload_len(1400)
        .to_vec()
        .unwrap();
    assert_eq!(
        PacketBuilder::icmp_error(kind, &long).frame_bytes(),
        14 + 576
    );
    let long = PacketBuilder::udp(v6(1), v6(2))
        .payload_len(1400)
        .to_vec()
        .unwrap();
    assert_eq!(
        PacketBuilder::icmp_error(kind, &long).frame_bytes(),
        14 + 1280
    );
}

#[test]
fn errors_go_back_to_the_source() {
    let offending = PacketBuilder::udp(CLIENT, SERVER).to_vec().unwrap();
    let router = Address::from_v4([192, 0, 2, 1]);
    let kind = IcmpError::PacketTooBig { mtu: 1400 };
    let frame = PacketBuilder::icmp_error(kind, &offending)
        .source_address(router)
        .to_vec()
        .unwrap();
    let layout = dissect(&frame).unwrap();
    assert_eq!(fields::source(&frame, &layout), Endpoint::new(router, 0));
    assert_eq!(
        fields::destination(&frame, &layout),
        Endpoint::new(CLIENT.address, 0)
    );
    assert_eq!(fields::inner_source(&frame, &layout), Some(CLIENT));
    assert_eq!(fields::inner_destination(&frame, &layout), Some(SERVER));
}

#[test]
fn fragments_of_both_versions() {
    for (source, destination) in [(CLIENT, SERVER), (v6(1), v6(2))] {
        let frame = PacketBuilder::tcp(source, destination)
            .fragment(16, true)
            .identification(77)
            .payload(&[9; 8])
            .to_vec()
            .unwrap();
        let layout = dissect(&frame).unwrap();
        assert_eq!(
            (layout.fragment, layout.transport),
            (Fragment::Later, Transport::None)
        );
        assert_eq!(fields::payload(&frame, &layout), [9; 8]);
    }
}

#[test]
fn what_does_not_fit_together_is_an_error() {
    let (tcp, udp) = (
        PacketBuilder::tcp(CLIENT, SERVER),
        PacketBuilder::udp(CLIENT, SERVER),
    );
    let cases = [
        (udp.seq(1), BuildError::WrongKind),
        (udp.window(1), BuildError::WrongKind),
        (tcp.echo_reply(), BuildError::WrongKind),
        (tcp.vlan(4096), BuildError::FieldRange),
        (tcp.dscp(64), BuildError::FieldRange),
        (tcp.fragment(4, true), BuildError::FieldRange),
        (
            (0..5).fold(tcp, PacketBuilder::vlan),
            BuildError::TooManyVlanTags,
        ),
        (tcp.ipv4_options(&[0; 41]), BuildError::OptionsTooLong),
        (
            tcp.ipv6_extension(Extension::Destination, 1),
            BuildError::Extensions,
        ),
        (PacketBuilder::tcp(CLIENT, v6(1)), BuildError::Family),
        (PacketBuilder::tcp(v6(1), CLIENT), BuildError::Family),
        (
            PacketBuilder::tcp(v6(1), v6(2)).ipv4_options(&[1]),
            BuildError::Family,
        ),
        (udp.payload_len(65_508), BuildError::TooLong),
        (udp.payload_len(1 << 20), BuildError::TooLong),
        (udp.payload_len(usize::MAX), BuildError::TooLong),
    ];
    for (number, (builder, expected)) in cases.into_iter().enumerate() {
        assert_eq!(builder.to_vec(), Err(expected), "case {number}");
    }
    assert_eq!(tcp.write(&mut [0; 53]), Err(BuildError::BufferTooSmall));
    let arp = [0; 60];
    let about_arp = PacketBuilder::icmp_error(IcmpError::Unreachable { code: 0 }, &arp);
    assert_eq!(about_arp.to_vec(), Err(BuildError::Family));
}

/// The first error is told, whatever follows.
#[test]
fn the_first_error_wins() {
    let builder = PacketBuilder::udp(CLIENT, SERVER).seq(1).vlan(4096);
    assert_eq!(builder.to_vec(), Err(BuildError::WrongKind));
}
