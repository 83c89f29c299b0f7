//! What left, held against what the specification says.

use proptest::prelude::*;
use twinpath_core::Instant;
use twinpath_core::wire::layout::{Layout, Network};
use twinpath_core::wire::tunnel::{Tunnel, VXLAN_PORT, ecn};
use twinpath_core::wire::{
    dissect, fields, protocol, rewrite, verify_ipv4_checksum, verify_transport_checksum,
};
use twinpath_dash::headers::Headers;
use twinpath_dash::pipeline::Layer;
use twinpath_dash::settings::Dscp;
use twinpath_dash::{Dpu, Reason, Settings, Verdict};

use super::interpreter::Sent;
use super::packets::{HEADROOM, external};

/// A frame that left, taken apart: its layers from the inside out, and the inner frame.
pub fn taken_apart(mut frame: &[u8]) -> (Vec<Layer>, Vec<u8>, Layout) {
    let mut layers = Vec::new();
    loop {
        let layout = dissect(frame).expect("what leaves is sound");
        assert!(verify_ipv4_checksum(frame, &layout));
        assert!(verify_transport_checksum(frame, &layout) || has_no_checksum(frame, &layout));
        let Ok(tunnel) = Tunnel::read(frame, &layout, VXLAN_PORT) else {
            layers.reverse();
            return (layers, frame.to_vec(), layout);
        };
        layers.push(Layer {
            encapsulation: tunnel.encapsulation,
            key: tunnel.key,
            source: fields::source_address(frame, &layout),
            destination: fields::destination_address(frame, &layout),
        });
        frame = &frame[tunnel.inner()];
    }
}

/// Whether what left is what the specification says.
pub fn compare(frame: &[u8], sent: &Sent, came: &[u8]) -> Result<(), TestCaseError> {
    let (mut layers, inner, layout) = taken_apart(frame);
    if !sent.endpoints.is_empty() {
        let last = layers.last_mut().expect("a tunnel");
        prop_assert!(sent.endpoints.contains(&last.destination));
        last.destination = sent.underlay.last().expect("a tunnel").destination;
    }
    prop_assert_eq!(&layers, &sent.underlay);
    prop_assert_eq!(Headers::of(&inner, &layout), Some(sent.overlay));
    prop_assert!(verify_transport_checksum(&inner, &layout));
    if !sent.underlay.is_empty() {
        let source = sent.source_mac.unwrap_or(fields::source_mac(came));
        let destination = sent
            .destination_mac
            .unwrap_or(fields::destination_mac(came));
        prop_assert_eq!(fields::source_mac(&inner), source);
        prop_assert_eq!(fields::destination_mac(&inner), destination);
    }
    Ok(())
}

/// Whether the headers around what left are as a DPU is set, where `bytes` are what came.
pub fn check_outer_headers(
    mut frame: &[u8],
    settings: &Settings,
    bytes: &[u8],
) -> Result<(), TestCaseError> {
    let came = &bytes[HEADROOM..];
    if tunnel_of(frame).is_some() {
        let own = settings
            .underlay_mac
            .unwrap_or(fields::destination_mac(came));
        let next_hop = settings.next_hop_mac.unwrap_or(fields::source_mac(came));
        prop_assert_eq!(fields::source_mac(frame), own);
        prop_assert_eq!(fields::destination_mac(frame), next_hop);
    }
    let (layers, inner, _) = taken_apart(frame);
    let own_dscp = dscp_of(inner_of(bytes));
    let dscp = match settings.dscp {
        Dscp::Preserve => dscp_of(came),
        Dscp::Uniform => own_dscp,
        Dscp::Pipe(dscp) => dscp,
    };
    // Without a tunnel the packet's own header is the outer one.
    let inside = if layers.is_empty() { dscp } else { own_dscp };
    prop_assert_eq!(dscp_of(&inner), inside);
    while let Some((layout, inside)) = tunnel_of(frame) {
        prop_assert_eq!(fields::ttl(frame, &layout), settings.ttl);
        prop_assert_eq!(ecn::traffic_class(frame, &layout) >> 2, dscp);
        if layout.protocol == protocol::UDP && layout.network == Network::V6 {
            let is_left_out = has_no_checksum(frame, &layout);
            prop_assert_eq!(is_left_out, !settings.udp_checksum_v6);
        }
        frame = inside;
    }
    Ok(())
}

fn dscp_of(frame: &[u8]) -> u8 {
    ecn::traffic_class(frame, &dissect(frame).expect("sound")) >> 2
}

/// Whether a frame is of UDP over IPv6 without a checksum, as tunnels may be.
fn has_no_checksum(frame: &[u8], layout: &Layout) -> bool {
    let at = usize::from(layout.l4) + 6;
    let is_v6 = layout.network == Network::V6;
    layout.protocol == protocol::UDP && is_v6 && frame.get(at..at + 2) == Some(&[0, 0])
}

/// The outer headers of a frame with a tunnel, and what is in it.
fn tunnel_of(frame: &[u8]) -> Option<(Layout, &[u8])> {
    let layout = dissect(frame).ok()?;
    let tunnel = Tunnel::read(frame, &layout, VXLAN_PORT).ok()?;
    Some((layout, &frame[tunnel.inner()]))
}

/// What becomes of a packet that lies in its buffer, as at a node: it is taken apart with its burst, and goes
/// by the shortest way if its flow is known and nothing stops it.
pub fn treat(dpu: &mut Dpu, buffer: &mut Vec<u8>, now: Instant) -> Verdict {
    let mut verdict = None;
    let burst = std::slice::from_mut(buffer);
    dpu.process_burst(burst, HEADROOM, now, |_, told| verdict = Some(told));
    verdict.expect("a verdict for each packet")
}

/// What becomes of a packet, but for the identification that is drawn for it if it leaves behind a NAT
/// gateway: that says how many have left before it.
pub fn process(dpu: &mut Dpu, bytes: &[u8], now: Instant) -> Result<Vec<u8>, Reason> {
    let mut buffer = bytes.to_vec();
    match treat(dpu, &mut buffer, now) {
        Verdict::Forward(frame) => {
            let mut frame = buffer[frame].to_vec();
            blank_drawn(&mut frame);
            Ok(frame)
        }
        Verdict::Drop(reason) => Err(reason),
        Verdict::TooLong(_) => Err(Reason::TooLong),
    }
}

fn blank_drawn(mut frame: &mut [u8]) {
    while let Ok(layout) = dissect(frame) {
        let Ok(tunnel) = Tunnel::read(frame, &layout, VXLAN_PORT) else {
            let is_hidden = fields::source_address(frame, &layout) == external(true);
            if is_hidden && !fields::is_atomic(frame, &layout) {
                rewrite::set_identification(frame, &layout, 0).expect("IPv4");
            }
            return;
        };
        frame = &mut frame[tunnel.inner()];
    }
}

/// The inner frame of bytes that packets are made of.
pub fn inner_of(bytes: &[u8]) -> &[u8] {
    let frame = &bytes[HEADROOM..];
    let layout = dissect(frame).expect("sound");
    &frame[Tunnel::read(frame, &layout, VXLAN_PORT)
        .expect("a tunnel")
        .inner()]
}
