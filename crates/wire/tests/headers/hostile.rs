//! Nothing panics on any bytes, and what dissection accepts is inside the frame.

use crate::common::packet;
use proptest::collection::vec;
use proptest::prelude::*;
use twinpath_wire::{Endpoint, Layout, PacketBuilder, dissect, fields, kv, rewrite};

/// Reads every field and does every rewrite; results do not matter, only that they return.
fn exercise(frame: &mut [u8], layout: &Layout) {
    let (source, destination) = (
        fields::source(frame, layout),
        fields::destination(frame, layout),
    );
    let inner = (
        fields::inner_source(frame, layout),
        fields::inner_destination(frame, layout),
    );
    let sum = fields::ttl(frame, layout) ^ fields::tcp_flags(frame, layout);
    let _ = fields::tcp_seq(frame, layout) ^ fields::tcp_ack(frame, layout);
    let _ = (
        fields::tcp_window(frame, layout),
        fields::icmp_kind(frame, layout),
    );
    let _ = fields::tcp_options(frame, layout).count();
    let _ = kv::KvView::new(fields::payload(frame, layout));
    let _ = twinpath_wire::layout::ether_type(frame, layout);
    let _ = twinpath_wire::verify_ipv4_checksum(frame, layout);
    let _ = twinpath_wire::verify_transport_checksum(frame, layout);
    let _ = rewrite::set_source(frame, layout, destination);
    let _ = rewrite::set_destination(frame, layout, source);
    let _ = rewrite::set_inner_source(frame, layout, inner.1.unwrap_or(source));
    let _ = rewrite::set_inner_destination(frame, layout, inner.0.unwrap_or(source));
    let _ = rewrite::set_ttl(frame, layout, sum);
    let _ = rewrite::set_tcp_seq(frame, layout, 1);
    let _ = rewrite::set_tcp_flags(frame, layout, 3);
    let _ = rewrite::swap_endpoints(frame, layout);
    let _ = rewrite::refresh_checksums(frame, layout);
    let _ = rewrite::set_udp_payload_length(frame, &mut layout.clone(), usize::from(sum));
}

fn assert_inside(frame: &[u8], layout: &Layout) {
    let ordered = [
        usize::from(layout.l3),
        usize::from(layout.l4),
        usize::from(layout.payload),
        layout.end as usize,
        frame.len(),
    ];
    assert!(ordered.is_sorted(), "{ordered:?}");
    if let Some(inner) = layout.inner {
        assert!(layout.payload == inner.l3 && inner.l3 < inner.l4);
        assert!(usize::from(inner.l4) + 8 <= layout.end as usize);
        assert_eq!(inner.network, layout.network);
    }
}

fn check(mut frame: Vec<u8>) {
    if let Ok(layout) = dissect(&frame) {
        assert_inside(&frame, &layout);
        exercise(&mut frame, &layout);
    }
}

proptest! {
    #![proptest_config(crate::common::cases(4000))]

    #[test]
    fn random_bytes(frame in vec(any::<u8>(), 0..200)) {
        check(frame);
    }

    #[test]
    fn random_bytes_behind_an_ether_type(
        mut frame in vec(any::<u8>(), 14..200),
        ether_type in prop::sample::select(vec![0x0800u16, 0x86dd, 0x8100, 0x88a8]),
        version in prop::sample::select(vec![0x45u8, 0x46, 0x60]),
    ) {
        frame[12..14].copy_from_slice(&ether_type.to_be_bytes());
        if let Some(byte) = frame.get_mut(14) {
            *byte = version;
        }
        check(frame);
    }

    #[test]
    fn truncated(packet in packet(), length in 0..300usize) {
        let mut frame = packet.frame();
        frame.truncate(length);
        check(frame);
    }

    #[test]
    fn flipped(packet in packet(), bits in vec(0..2400usize, 1..6)) {
        let mut frame = packet.frame();
        for bit in bits {
            if let Some(byte) = frame.get_mut(bit / 8) {
                *byte ^= 1 << (bit % 8);
            }
        }
        check(frame);
    }

    #[test]
    fn flipped_inside_an_icmp_error(
        (packet, kind) in any::<bool>().prop_flat_map(|v4| {
            (crate::common::packet_of(v4), crate::common::icmp_error(v4))
        }),
        bits in vec(240..1600usize, 1..6),
        length in 40..400usize,
    ) {
        let mut frame = PacketBuilder::icmp_error(kind, &packet.frame()).to_vec().unwrap();
        for bit in bits {
            if let Some(byte) = frame.get_mut(bit / 8) {
                *byte ^= 1 << (bit % 8);
            }
        }
        check(frame.clone());
        frame.truncate(length);
        check(frame);
    }

    /// A layout that belongs to another frame gives nonsense, but no panic.
    #[test]
    fn foreign_layouts(packet in packet(), other in vec(any::<u8>(), 0..120)) {
        let layout = dissect(&packet.frame()).unwrap();
        exercise(&mut other.clone(), &layout);
    }

    #[test]
    fn impossible_layouts(
        mut frame in vec(any::<u8>(), 0..120),
        offsets in any::<(u16, u16, u16, u32)>(),
        packet in packet(),
    ) {
        let mut layout = dissect(&packet.frame()).unwrap();
        (layout.l3, layout.l4, layout.payload, layout.end) = offsets;
        exercise(&mut frame, &layout);
        layout.end %= 120;
        exercise(&mut frame, &layout);
    }
}

#[test]
fn every_length_of_zeros_and_ones() {
    for length in 0..=100 {
        check(vec![0; length]);
        check(vec![0xff; length]);
    }
    check(vec![0; 70_000]);
}

#[test]
fn the_longest_datagram_is_fine_and_one_more_byte_is_not() {
    let (source, destination) = (Endpoint::v4([1; 4], 1), Endpoint::v4([2; 4], 2));
    let longest = PacketBuilder::udp(source, destination).payload_len(65_507);
    let mut frame = longest.vlan(1).to_vec().unwrap();
    assert_eq!(frame.len(), 65_553);
    assert_eq!(dissect(&frame).unwrap().payload_bytes(), 65_507);
    frame.push(0);
    assert_eq!(dissect(&frame), Err(twinpath_wire::Malformed::Oversized));
    assert!(longest.payload_len(65_508).to_vec().is_err());
}
