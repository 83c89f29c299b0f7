//! Work that hosts leave to network cards: checksums that are half made, and frames that are to be
//! cut into segments.
//!
//! AF_PACKET and TAP tell of both in a header in front of each frame (`struct virtio_net_hdr`). A
//! half-made checksum is completed when a frame comes in, so that functions see what will be on the
//! wire. A frame that is to be cut stays whole on its way through the node, as in Linux itself:
//! sixty-four kilobytes cost a function as much as one packet. Where it leaves, the kernel cuts it
//! (AF_PACKET, TAP), or [`segments`] does. What looks inside of tunnels gets [segments of the packet
//! inside](segments_inside).

mod segments;
mod vnet;

pub use segments::{Oversized, check_length, keep_first_segment, segments, segments_inside};
pub use vnet::{Segments, VNET_BYTES, VnetHeader};

use twinpath_core::Frame;
use twinpath_core::wire::layout::{Fragment, Layout, Network, Transport};
use twinpath_core::wire::tunnel::Tunnel;
use twinpath_core::wire::{checksum, dissect, fields};

const ETHERNET_BYTES: usize = 14;
const TAG_BYTES: usize = 4;
const TCP_CHECKSUM_AT: usize = 16;
const UDP_CHECKSUM_AT: usize = 6;

/// Completes a checksum whose field holds the sum of what its pseudo-header adds: the sum from
/// `start` to the end of the frame goes to `offset` behind `start`. Returns whether both are inside.
pub fn complete(frame: &mut [u8], start: usize, offset: usize) -> bool {
    let Some(place) = start.checked_add(offset).filter(|at| at + 2 <= frame.len()) else {
        return false;
    };
    let sum = checksum::sum(&frame[start..]);
    let finished = match offset == UDP_CHECKSUM_AT {
        true => checksum::finish_udp(sum),
        false => checksum::finish(sum),
    };
    frame[place..place + 2].copy_from_slice(&finished.to_be_bytes());
    true
}

/// Completes the checksum of TCP or UDP if its field holds just what the pseudo-header adds. A host
/// leaves it so on a virtual cable, and AF_XDP does not tell. Of 65,536 finished checksums one looks
/// the same: if it is right it stays what it is. Only for virtual cables, on which bits do not flip.
pub fn complete_if_partial(frame: &mut [u8]) {
    let Ok(layout) = dissect(frame) else { return };
    // The checksum around is right once that inside is. A host makes no tunnel in a tunnel so.
    if layout.transport == Transport::Udp && layout.fragment == Fragment::Whole {
        complete_inside(frame, &layout);
    }
    complete_own(frame, &layout);
}

/// The same of the outermost packet.
fn complete_own(frame: &mut [u8], layout: &Layout) {
    if layout.fragment != Fragment::Whole {
        return;
    }
    let Some(offset) = checksum_at(layout.transport) else {
        return;
    };
    let (start, end) = (usize::from(layout.l4), layout.end as usize);
    let field = &frame[start + offset..start + offset + 2];
    let partial = partial_checksum(frame, layout).to_be_bytes();
    if *field == partial {
        complete(&mut frame[..end], start, offset);
    }
}

/// The same of the packet in a tunnel, if the frame is one.
fn complete_inside(frame: &mut [u8], outer: &Layout) {
    let port = fields::destination_port(frame, outer);
    let Ok(tunnel) = Tunnel::read(frame, outer, port) else {
        return;
    };
    let inside = frame.get_mut(tunnel.inner()).unwrap_or(&mut []);
    if let Ok(layout) = dissect(inside) {
        complete_own(inside, &layout);
    }
}

/// What the pseudo-header adds to a frame's checksum, folded, as hosts leave it in the field.
fn partial_checksum(frame: &[u8], layout: &Layout) -> u16 {
    checksum::fold(checksum::pseudo_header(
        fields::source_address(frame, layout),
        fields::destination_address(frame, layout),
        layout.protocol,
        layout.end - u32::from(layout.l4),
    ))
}

/// Where the checksum is in a transport header that has segments.
const fn checksum_at(transport: Transport) -> Option<usize> {
    match transport {
        Transport::Tcp => Some(TCP_CHECKSUM_AT),
        Transport::Udp => Some(UDP_CHECKSUM_AT),
        _ => None,
    }
}

/// Puts back a VLAN tag that the kernel has taken off: it stands behind the two addresses again.
/// Returns whether there was room.
pub fn put_tag(frame: &mut Frame, tag: [u8; TAG_BYTES]) -> bool {
    const ADDRESSES_BYTES: usize = 12;
    if frame.len() < ETHERNET_BYTES || frame.push_front(TAG_BYTES).is_none() {
        return false;
    }
    let bytes = frame.bytes_mut();
    bytes.copy_within(TAG_BYTES..TAG_BYTES + ADDRESSES_BYTES, 0);
    bytes[ADDRESSES_BYTES..ADDRESSES_BYTES + TAG_BYTES].copy_from_slice(&tag);
    true
}

/// Bytes of a frame that an MTU does not count: the Ethernet header, with a tag if it has one.
pub fn link_bytes(frame: &[u8]) -> usize {
    match frame.get(12..14) {
        Some([0x81, 0x00] | [0x88, 0xa8]) => ETHERNET_BYTES + TAG_BYTES,
        _ => ETHERNET_BYTES,
    }
}

/// Whether a frame that is to be cut is one of those that can be.
fn cut(frame: &Frame) -> Option<Layout> {
    let segment = usize::from(frame.segment_bytes());
    if segment == 0 {
        return None;
    }
    let layout = dissect(frame.bytes()).ok()?;
    let payload = layout.end as usize - usize::from(layout.payload);
    (has_segments(&layout) && payload > segment).then_some(layout)
}

/// Whether a packet can be cut into segments.
fn has_segments(layout: &Layout) -> bool {
    checksum_at(layout.transport).is_some()
        && layout.network != Network::None
        && layout.fragment == Fragment::Whole
}

#[cfg(test)]
mod tests {
    use super::*;
    use twinpath_core::Pools;
    use twinpath_core::wire::tunnel::{Encapsulation, Outer, VXLAN_PORT, Varying};
    use twinpath_core::wire::{MacAddress, PacketBuilder, verify_transport_checksum};

    pub(super) fn packets() -> Vec<Vec<u8>> {
        let ends = [
            ("10.0.0.1:5", "192.0.2.1:80"),
            ("[2001:db8::1]:5", "[2001:db8::2]:80"),
        ];
        let end = |text: &str| text.parse().expect("an endpoint");
        let mut packets = Vec::new();
        for (from, to) in ends {
            for builder in [
                PacketBuilder::tcp(end(from), end(to)),
                PacketBuilder::udp(end(from), end(to)),
            ] {
                let payload: Vec<u8> = (0..999).map(|at| at as u8).collect();
                packets.push(builder.payload(&payload).to_vec().expect("short"));
            }
        }
        packets
    }

    /// A packet in a tunnel of this kind, between addresses of its own version.
    pub(super) fn in_tunnel(packet: &[u8], encapsulation: Encapsulation) -> Vec<u8> {
        let layout = dissect(packet).expect("sound");
        let outer = Outer {
            source_mac: MacAddress([2; 6]),
            destination_mac: MacAddress([4; 6]),
            source: fields::source_address(packet, &layout),
            destination: fields::destination_address(packet, &layout),
            encapsulation,
            key: 77,
            vxlan_port: VXLAN_PORT,
            ttl: 64,
        };
        let varying = Varying {
            source_port: 50_000,
            udp_checksum: true,
            ..Varying::default()
        };
        let mut frame = vec![0; outer.header_bytes()];
        frame.extend_from_slice(packet);
        outer.emit(&varying, &mut frame).expect("sound");
        frame
    }

    /// Hosts leave that of a packet in their tunnels to the card, too.
    #[test]
    fn half_made_checksums_inside_are_found_and_completed() {
        for packet in packets() {
            let whole = in_tunnel(&packet, Encapsulation::Vxlan);
            let (inner, layout) = (whole.len() - packet.len(), dissect(&packet).expect("sound"));
            let at = inner + usize::from(layout.l4) + checksum_at(layout.transport).expect("one");
            let mut half = whole.clone();
            let partial = partial_checksum(&packet, &layout);
            half[at..at + 2].copy_from_slice(&partial.to_be_bytes());
            complete_if_partial(&mut half);
            assert_eq!(half, whole);
        }
    }

    #[test]
    fn half_made_checksums_are_found_and_completed() {
        for whole in packets() {
            let layout = dissect(&whole).expect("sound");
            let at = usize::from(layout.l4) + checksum_at(layout.transport).expect("one");
            let mut half = whole.clone();
            let partial = partial_checksum(&whole, &layout);
            half[at..at + 2].copy_from_slice(&partial.to_be_bytes());
            assert!(!verify_transport_checksum(&half, &layout));
            complete_if_partial(&mut half);
            assert_eq!(half, whole);
            complete_if_partial(&mut half);
            assert_eq!(half, whole, "what is whole stays as it is");
            half[at] ^= 1;
            let wrong = half.clone();
            complete_if_partial(&mut half);
            assert_eq!(half, wrong, "a wrong checksum is not made right");
        }
    }

    #[test]
    fn nothing_is_completed_outside_the_frame() {
        let mut frame = [0; 20];
        assert!(!complete(&mut frame, 10, 9) && !complete(&mut frame, usize::MAX, 1));
        assert!(complete(&mut frame, 10, 8));
    }

    #[test]
    fn a_tag_is_put_back_where_it_was() {
        let end = |text: &str| text.parse().expect("an endpoint");
        let build = || PacketBuilder::udp(end("10.0.0.1:5"), end("192.0.2.1:80"));
        let (plain, tagged) = (build().to_vec(), build().vlan(7).to_vec());
        let mut pools = Pools::new(1, 1);
        let mut frame = pools.take_filled(&plain.expect("short")).expect("room");
        assert!(put_tag(&mut frame, [0x81, 0, 0, 7]));
        assert_eq!(frame.bytes(), tagged.expect("short"));
        assert_eq!(link_bytes(frame.bytes()), 18);
    }
}
