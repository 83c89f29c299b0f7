//! A segment that was cut is the segment that one would have built.

use super::bench::{Bench, ends};
use crate::reassembler::Config;
use crate::reassembler::cut::{cut_back, cut_front, duplicate};
use proptest::prelude::*;
use twinpath_core::wire::build::Extension;
use twinpath_core::wire::tcp::{TcpOption, TcpView, flags};
use twinpath_core::wire::{PacketBuilder, dissect, verify_transport_checksum};
use twinpath_core::{Instant, Packet};

/// Which headers a segment has.
#[derive(Copy, Clone, Debug)]
struct Shape {
    v6: bool,
    /// Which of [`links`] it stands behind.
    link: usize,
    options: bool,
    padded: bool,
}

/// What stands in front of IP: nothing but its EtherType, a tag, labels, a session, LLC with SNAP.
fn links(v6: bool) -> [&'static [u8]; 5] {
    match v6 {
        false => [
            &[0x08, 0x00],
            &[0x81, 0, 0, 7, 0x08, 0x00],
            &[0x88, 0x47, 0, 1, 0, 64, 0, 2, 1, 64],
            &[0x88, 0x64, 0x11, 0, 0, 7, 0, 0, 0, 0x21],
            &[0, 0, 0xaa, 0xaa, 3, 0, 0, 0, 0x08, 0x00],
        ],
        true => [
            &[0x86, 0xdd],
            &[0x93, 0, 0, 7, 0x86, 0xdd],
            &[0x88, 0x47, 0, 2, 1, 64],
            &[0x81, 0, 0, 7, 0x88, 0x64, 0x11, 0, 0, 7, 0, 0, 0, 0x57],
            &[0, 0, 0xaa, 0xaa, 3, 0, 0, 0, 0x86, 0xdd],
        ],
    }
}

fn build(shape: Shape, sequence: u32, tcp_flags: u8, payload: &[u8]) -> Vec<u8> {
    let (source, destination) = ends(shape.v6);
    let mut builder = PacketBuilder::tcp(source, destination)
        .seq(sequence)
        .flags(tcp_flags)
        .payload(payload)
        .link(links(shape.v6)[shape.link]);
    if shape.options {
        builder = builder.tcp_options(&[TcpOption::Timestamps { value: 1, echo: 2 }]);
        builder = if shape.v6 {
            builder.ipv6_extension(Extension::HopByHop, 1)
        } else {
            builder.ipv4_options(&[1; 8])
        };
    }
    if shape.padded {
        builder.padded()
    } else {
        builder
    }
    .to_vec()
    .expect("a frame")
}

fn shape() -> impl Strategy<Value = Shape> {
    (any::<[bool; 3]>(), 0..5usize).prop_map(|([v6, options, padded], link)| Shape {
        v6,
        link,
        options,
        padded,
    })
}

fn with_packet(bytes: &[u8], act: impl FnOnce(&mut Packet)) -> Vec<u8> {
    let mut bench = Bench::new(&Config::default(), false);
    let mut packet = bench.packet(bytes);
    act(&mut packet);
    assert_eq!(Ok(packet.layout), dissect(packet.bytes()));
    packet.bytes().to_vec()
}

proptest! {
    #[test]
    fn cut_at_both_ends(
        shape in shape(), sequence: u32, fin: bool,
        (payload, front, back) in proptest::collection::vec(any::<u8>(), 1..1000)
            .prop_flat_map(|payload| { let len = payload.len(); (Just(payload), 0..=len, 0..=len) }),
    ) {
        let back = back.min(payload.len() - front);
        let tcp_flags = flags::ACK | if fin { flags::FIN } else { 0 };
        let cut = with_packet(&build(shape, sequence, tcp_flags, &payload), |packet| {
            cut_front(packet, front as u32);
            cut_back(packet, (back + usize::from(fin && back > 0)) as u32);
        });
        let left = &payload[front..payload.len() - back];
        let tcp_flags = if back > 0 { flags::ACK } else { tcp_flags };
        let padded = shape.padded && front == 0 && back == 0 && !shape.v6;
        let built = build(Shape { padded: false, ..shape }, sequence.wrapping_add(front as u32), tcp_flags, left);
        prop_assert_eq!(&cut[..built.len()], &built);
        prop_assert!(padded || cut.len() == built.len(), "no padding is left");
    }

    #[test]
    fn damage_stays_damage(shape in shape(), front in 0..50u32, back in 0..50u32, place in 0..100usize, damage in 1..=255u8) {
        let mut bytes = build(shape, 5, flags::ACK, &[9; 100]);
        let payload = usize::from(dissect(&bytes).expect("well-formed").payload);
        let kept = payload + place;
        bytes[kept] ^= damage;
        let cut = with_packet(&bytes, |packet| {
            cut_front(packet, front);
            cut_back(packet, back);
        });
        let layout = dissect(&cut).expect("well-formed");
        prop_assert!(!verify_transport_checksum(&cut, &layout));
    }
}

#[test]
fn cutting_nothing_changes_nothing() {
    let shape = Shape {
        v6: false,
        link: 0,
        options: false,
        padded: false,
    };
    let bytes = build(shape, 5, flags::ACK | flags::FIN, b"data");
    let cut = with_packet(&bytes, |packet| {
        cut_front(packet, 0);
        cut_back(packet, 0);
    });
    assert_eq!(cut, bytes);
}

#[test]
fn the_urgent_pointer_stays_where_it_points() {
    let shape = Shape {
        v6: false,
        link: 0,
        options: false,
        padded: false,
    };
    let mut bytes = build(shape, 5, flags::ACK | flags::URG, b"urgent data");
    let layout = dissect(&bytes).expect("well-formed");
    let segment = usize::from(layout.l4);
    let before = [bytes[segment + 16], bytes[segment + 17]];
    bytes[segment + 19] = 6;
    let checksum = u16::from_be_bytes(before);
    let pointer = twinpath_core::wire::checksum::Delta::of16(0, 6);
    let mended = pointer.apply(checksum).to_be_bytes();
    bytes[segment + 16..segment + 18].copy_from_slice(&mended);
    for (front, pointer, urgent) in [(0, 6, true), (4, 2, true), (6, 0, false), (9, 0, false)] {
        let cut = with_packet(&bytes, |packet| cut_front(packet, front));
        let layout = dissect(&cut).expect("well-formed");
        let view = TcpView::new(&cut[usize::from(layout.l4)..]).expect("a header");
        assert_eq!(
            (view.urgent(), view.flags() & flags::URG != 0),
            (pointer, urgent)
        );
        assert!(verify_transport_checksum(&cut, &layout));
    }
}

#[test]
fn a_copy_is_like_the_original() {
    let mut bench = Bench::new(&Config::default(), false);
    let shape = Shape {
        v6: true,
        link: 1,
        options: true,
        padded: false,
    };
    let mut packet = bench.packet(&build(shape, 5, flags::ACK, b"data"));
    packet.frame.set_timestamp(Instant(7));
    packet.frame.set_received_ns(8);
    packet.frame.set_ordinal(9);
    packet.frame.set_port(10);
    let copy = duplicate(&packet, &mut bench.pools).expect("a buffer");
    assert_eq!(copy.bytes(), packet.bytes());
    assert_eq!(
        (copy.layout, copy.direction, copy.role, copy.alias_row),
        (
            packet.layout,
            packet.direction,
            packet.role,
            packet.alias_row
        )
    );
    let book = |packet: &Packet| {
        (
            packet.frame.timestamp(),
            packet.frame.received_ns(),
            packet.frame.ordinal(),
            packet.frame.port(),
        )
    };
    assert_eq!(book(&copy), (Instant(7), 8, 9, 10));
}
