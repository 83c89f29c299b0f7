//! What left, held against what the specification says.

use proptest::prelude::*;
use twinpath_core::Instant;
use twinpath_core::wire::layout::Layout;
use twinpath_core::wire::tunnel::{Tunnel, VXLAN_PORT};
use twinpath_core::wire::{
    dissect, fields, rewrite, verify_ipv4_checksum, verify_transport_checksum,
};
use twinpath_dash::headers::Headers;
use twinpath_dash::pipeline::Layer;
use twinpath_dash::{Dpu, Reason, Verdict};

use super::interpreter::Sent;
use super::packets::{HEADROOM, external};

/// A frame that left, taken apart: its layers from the inside out, and the inner frame.
pub fn taken_apart(mut frame: &[u8]) -> (Vec<Layer>, Vec<u8>, Layout) {
    let mut layers = Vec::new();
    loop {
        let layout = dissect(frame).expect("what leaves is sound");
        assert!(verify_ipv4_checksum(frame, &layout));
        assert!(verify_transport_checksum(frame, &layout));
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

/// What becomes of a packet, but for the identification that is drawn for it if it leaves behind a NAT
/// gateway: that says how many have left before it.
pub fn process(dpu: &mut Dpu, bytes: &[u8], now: Instant) -> Result<Vec<u8>, Reason> {
    let mut buffer = bytes.to_vec();
    match dpu.process(&mut buffer, HEADROOM, now) {
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
