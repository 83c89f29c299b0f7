//! Packets from few flows, with everything that can be odd about them.

use super::functions::PUBLIC;
use proptest::prelude::*;
use twinpath_core::wire::layout::Transport;
use twinpath_core::wire::{Endpoint, PacketBuilder, dissect, fields};
use twinpath_core::{Direction, Instant, Packet, Pools, key::Role};

/// One packet to be.
#[derive(Clone, Debug)]
pub struct Spec {
    pub gap_ns: u64,
    pub flow: u8,
    pub flags: u8,
    pub ttl: u8,
    pub oddity: u8,
    pub ingress: u16,
    pub payload: usize,
}

pub fn specs(count: usize) -> impl Strategy<Value = Vec<Spec>> {
    let gap = prop_oneof![
        20 => 0u64..300_000,
        2 => 300_000u64..5_000_000,
        1 => 30_000_000u64..90_000_000,
    ];
    let flow = prop_oneof![3 => 0u8..6, 2 => 0u8..32, 1 => 32u8..48];
    let flags = prop_oneof![12 => Just(0x10u8), 2 => Just(0x18), 1 => Just(2), 1 => Just(0x11), 1 => Just(7)];
    let ttl = prop_oneof![20 => Just(64u8), 1 => 1u8..4];
    let oddity = prop_oneof![20 => Just(0u8), 1 => 1u8..6];
    let ingress = prop_oneof![12 => Just(1u16), 1 => 2u16..4];
    let spec = (gap, flow, flags, ttl, oddity, ingress, 0usize..40).prop_map(
        |(gap_ns, flow, flags, ttl, oddity, ingress, payload)| Spec {
            gap_ns,
            flow,
            flags,
            ttl,
            oddity,
            ingress,
            payload,
        },
    );
    prop::collection::vec(spec, 1..count)
}

/// The ends of a flow: 0 to 31 go out over IPv4 and IPv6, 32 to 47 come back to translated ports.
fn ends(flow: u8) -> (Endpoint, Endpoint) {
    let number = u16::from(flow);
    if flow >= 32 {
        let from = Endpoint::v4([192, 0, 2, 1], 443);
        return (from, Endpoint::new(PUBLIC, 50_000 + number % 8));
    }
    let (host, port) = (flow & 3, 40_000 + 700 * (number >> 2 & 1));
    let service = [80, 443, 53, 8080][usize::from(flow >> 3)];
    if flow % 5 == 4 {
        let from = format!("[fd00::{host}]:{port}");
        let to = format!("[2001:db8:{:x}::1]:{service}", u16::from(host) << 14);
        return (from.parse().expect("v6"), to.parse().expect("v6"));
    }
    let from = Endpoint::v4([10, 0, 0, host], port);
    (
        from,
        Endpoint::v4([192, 0, 2, 60 + (flow & 12) * 9], service),
    )
}

fn builder(flow: u8, flags: u8) -> PacketBuilder<'static> {
    let (from, to) = ends(flow);
    match flow % 4 {
        0 | 3 => PacketBuilder::tcp(from, to).flags(flags),
        1 => PacketBuilder::udp(from, to),
        _ if matches!(flow % 3, 0) => PacketBuilder::icmp_echo(from, to),
        _ => PacketBuilder::tcp(from, to).flags(flags),
    }
}

fn is_tcp(flow: u8) -> bool {
    matches!((flow % 4, flow % 3), (0 | 3, _) | (2, 1 | 2))
}

pub fn bytes(spec: &Spec) -> Vec<u8> {
    let plain = builder(spec.flow, spec.flags)
        .ttl(spec.ttl)
        .payload_len(spec.payload);
    let (from, _) = ends(spec.flow);
    let odd = match spec.oddity {
        1 if from.address.is_v4() => plain.ipv4_options(&[1, 1, 1, 0]),
        // Of whole units: behind 20 bytes of TCP, or 8 of others.
        2 => plain
            .payload_len(spec.payload / 8 * 8 + if is_tcp(spec.flow) { 4 } else { 8 })
            .fragment(0, true),
        3 => plain.vlan(7),
        _ => plain,
    };
    let mut frame = odd.to_vec().expect("fits");
    damage(&mut frame, spec.oddity);
    frame
}

/// Checksums that nobody computes so, and absent ones.
fn damage(frame: &mut [u8], oddity: u8) {
    let layout = dissect(frame).expect("well formed");
    let at = match layout.transport {
        Transport::Tcp => 16,
        Transport::Udp => 6,
        _ => 2,
    };
    let checksum = match oddity {
        4 => [0xff, 0xff],
        5 if layout.transport == Transport::Udp => [0, 0],
        _ => return,
    };
    let at = usize::from(layout.l4) + at;
    frame[at..at + 2].copy_from_slice(&checksum);
}

/// Which packets must leave in order: those with the same ends and protocol.
pub fn flow_of(packet: &Packet) -> (Endpoint, Endpoint, u8) {
    let (bytes, layout) = (packet.bytes(), &packet.layout);
    let (source, destination) = (
        fields::source(bytes, layout),
        fields::destination(bytes, layout),
    );
    (source, destination, layout.protocol)
}

pub fn packet(pools: &mut Pools, spec: &Spec, ordinal: u64, at: Instant) -> Packet {
    let bytes = bytes(spec);
    let mut frame = pools.take_filled(&bytes).expect("a buffer");
    frame.set_timestamp(at);
    frame.set_ordinal(ordinal);
    frame.set_port(spec.ingress);
    Packet {
        layout: dissect(&bytes).expect("well formed"),
        frame,
        direction: Direction::Original,
        role: Role::Member,
        alias_row: 0,
    }
}
