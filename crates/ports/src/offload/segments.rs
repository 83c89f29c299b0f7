//! Cutting a frame into segments, where neither kernel nor card does: that of a tunnel by the packet
//! inside.

use super::{TCP_CHECKSUM_AT, checksum_at, cut, has_segments, link_bytes, partial_checksum};
use twinpath_core::wire::layout::{Layout, Network, Transport};
use twinpath_core::wire::tunnel::Tunnel;
use twinpath_core::wire::{checksum, dissect, fields};
use twinpath_core::{Frame, Pools};

const FIN: u8 = 0x01;
const PUSH: u8 = 0x08;
const REDUCED: u8 = 0x80;

/// Why a frame cannot leave by a port.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Oversized {
    /// It is longer than the port's MTU and is not to be cut.
    Frame,
    /// No buffer was free for a segment; those before it are there.
    NoBuffer,
}

/// A frame as it can leave by a port of this MTU: itself, or the segments that it is to be cut into,
/// appended to `out`.
///
/// # Errors
/// It is too long, or there are no buffers.
pub fn segments(
    frame: Frame,
    mtu: usize,
    pools: &mut Pools,
    out: &mut Vec<Frame>,
) -> Result<(), Oversized> {
    let result = match cut(&frame) {
        None => match check_length(&frame, mtu) {
            Ok(()) => {
                out.push(frame);
                return Ok(());
            }
            too_long => too_long,
        },
        Some(layout) => {
            let whole = Whole {
                outer: None,
                at: 0,
                layout,
            };
            whole.cut_up(&frame, pools, out)
        }
    };
    pools.give(frame);
    result
}

/// A frame of a tunnel as whoever looks inside needs it: each segment of the packet inside in headers
/// of its own, appended to `out`. Whatever is not to be cut, or in no tunnel, stays as it is.
///
/// # Errors
/// There are no buffers; segments that had some are there.
pub fn segments_inside(
    frame: Frame,
    pools: &mut Pools,
    out: &mut Vec<Frame>,
) -> Result<(), Oversized> {
    let Some(whole) = Whole::in_tunnel(&frame) else {
        out.push(frame);
        return Ok(());
    };
    let result = whole.cut_up(&frame, pools, out);
    pools.give(frame);
    result
}

/// Whether a frame may leave by a port of this MTU: it is short enough, or is to be cut.
///
/// # Errors
/// It is too long.
pub fn check_length(frame: &Frame, mtu: usize) -> Result<(), Oversized> {
    let bytes = frame.bytes();
    let is_short = bytes.len() <= mtu + link_bytes(bytes);
    match is_short || cut(frame).is_some() {
        true => Ok(()),
        false => Err(Oversized::Frame),
    }
}

/// Of a frame that is to be cut into segments the first alone is left.
pub fn keep_first_segment(frame: &mut Frame) {
    if let Some(layout) = cut(frame) {
        let segment = usize::from(frame.segment_bytes());
        frame.set_len(usize::from(layout.payload) + segment);
        frame.set_segment_bytes(0);
        renumber(frame.bytes_mut(), &layout, 0, 0, false);
    }
}

/// A packet that is to be cut, in its frame.
struct Whole {
    /// Headers of the tunnel that it is in.
    outer: Option<Layout>,
    /// Where its own frame begins.
    at: usize,
    layout: Layout,
}

impl Whole {
    /// That inside of a tunnel. To which port VXLAN goes is for others to know.
    fn in_tunnel(frame: &Frame) -> Option<Self> {
        let (bytes, segment) = (frame.bytes(), usize::from(frame.segment_bytes()));
        let outer = dissect(bytes).ok().filter(|_| segment != 0)?;
        let port = fields::destination_port(bytes, &outer);
        let inner = Tunnel::read(bytes, &outer, port).ok()?.inner();
        let layout = dissect(bytes.get(inner.clone())?).ok()?;
        let payload = layout.end as usize - usize::from(layout.payload);
        (has_segments(&layout) && payload > segment).then_some(Self {
            outer: Some(outer),
            at: inner.start,
            layout,
        })
    }

    fn cut_up(
        &self,
        frame: &Frame,
        pools: &mut Pools,
        out: &mut Vec<Frame>,
    ) -> Result<(), Oversized> {
        let (bytes, layout) = (frame.bytes(), &self.layout);
        let (begin, end) = (usize::from(layout.payload), layout.end as usize);
        let (header, rest) = bytes.split_at(self.at + begin);
        let payload = &rest[..end - begin];
        let size = usize::from(frame.segment_bytes());
        let last = (payload.len() - 1) / size;
        for (number, part) in payload.chunks(size).enumerate() {
            let mut segment = pools
                .take(header.len() + part.len())
                .ok_or(Oversized::NoBuffer)?;
            segment.set_len(header.len() + part.len());
            let (front, back) = segment.bytes_mut().split_at_mut(header.len());
            front.copy_from_slice(header);
            back.copy_from_slice(part);
            let inside = &mut segment.bytes_mut()[self.at..];
            renumber(inside, layout, number, number * size, number == last);
            if let Some(outer) = &self.outer {
                renumber_tunnel(segment.bytes_mut(), outer, number);
            }
            segment.set_timestamp(frame.timestamp());
            segment.set_received_ns(frame.received_ns());
            segment.set_port(frame.port());
            out.push(segment);
        }
        Ok(())
    }
}

/// Lengths, numbers and checksums of a tunnel's headers in front of a segment.
fn renumber_tunnel(bytes: &mut [u8], outer: &Layout, number: usize) {
    let l4 = usize::from(outer.l4);
    renumber_ip(bytes, outer, number);
    if outer.transport == Transport::Udp {
        let length = (bytes.len() - l4) as u16;
        put(bytes, l4 + 4, length);
        if get(bytes, l4 + super::UDP_CHECKSUM_AT) != 0 {
            finish_checksum(bytes, l4);
        }
    }
}

/// Lengths, numbers, flags and checksums of one segment.
fn renumber(bytes: &mut [u8], layout: &Layout, number: usize, at: usize, is_last: bool) {
    let (l4, end) = (usize::from(layout.l4), bytes.len());
    renumber_ip(bytes, layout, number);
    match layout.transport {
        Transport::Tcp => {
            let sequence = [0, 1, 2, 3].map(|byte| bytes[l4 + 4 + byte]);
            let sequence = u32::from_be_bytes(sequence).wrapping_add(at as u32);
            bytes[l4 + 4..l4 + 8].copy_from_slice(&sequence.to_be_bytes());
            if !is_last {
                bytes[l4 + 13] &= !(FIN | PUSH);
            }
            if number > 0 {
                bytes[l4 + 13] &= !REDUCED;
            }
        }
        _ => put(bytes, l4 + 4, (end - l4) as u16),
    }
    finish_checksum(bytes, l4);
}

/// The same of an IP header alone.
fn renumber_ip(bytes: &mut [u8], layout: &Layout, number: usize) {
    let (l3, l4) = (usize::from(layout.l3), usize::from(layout.l4));
    let end = bytes.len();
    match layout.network {
        Network::V4 => {
            put(bytes, l3 + 2, (end - l3) as u16);
            let identification = get(bytes, l3 + 4).wrapping_add(number as u16);
            put(bytes, l3 + 4, identification);
            put(bytes, l3 + 10, 0);
            let sum = checksum::checksum(&bytes[l3..l4]);
            put(bytes, l3 + 10, sum);
        }
        _ => put(bytes, l3 + 4, (end - l3 - 40) as u16),
    }
}

fn finish_checksum(bytes: &mut [u8], l4: usize) {
    let Ok(layout) = dissect(bytes) else { return };
    let Some(offset) = checksum_at(layout.transport) else {
        return;
    };
    put(bytes, l4 + offset, partial_checksum(bytes, &layout));
    debug_assert!(offset == TCP_CHECKSUM_AT || layout.transport == Transport::Udp);
    super::complete(bytes, l4, offset);
}

fn get(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

fn put(bytes: &mut [u8], at: usize, value: u16) {
    bytes[at..at + 2].copy_from_slice(&value.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::super::tests::{in_tunnel, packets};
    use super::*;
    use proptest::prelude::*;
    use twinpath_core::wire::tunnel::{Encapsulation, VXLAN_PORT};
    use twinpath_core::wire::{verify_ipv4_checksum, verify_transport_checksum};

    /// Segments of a packet in a tunnel are those of the packet alone, each in the tunnel.
    #[test]
    fn what_is_in_a_tunnel_is_cut_inside() {
        for packet in packets() {
            for encapsulation in [Encapsulation::Vxlan, Encapsulation::Nvgre] {
                let mut pools = Pools::new(32, 1);
                let [mut alone, mut inside] = [packet.clone(), in_tunnel(&packet, encapsulation)]
                    .map(|bytes| pools.take_filled(&bytes).expect("room"));
                alone.set_segment_bytes(300);
                inside.set_segment_bytes(300);
                let (mut wanted, mut found) = (Vec::new(), Vec::new());
                segments(alone, 1500, &mut pools, &mut wanted).expect("room");
                segments_inside(inside, &mut pools, &mut found).expect("room");
                assert_eq!((found.len(), wanted.len()), (4, 4));
                for (frame, wanted) in found.iter().zip(&wanted) {
                    let bytes = frame.bytes();
                    let layout = dissect(bytes).expect("sound");
                    assert_eq!(frame.segment_bytes(), 0);
                    assert!(verify_ipv4_checksum(bytes, &layout));
                    assert!(verify_transport_checksum(bytes, &layout));
                    let tunnel = Tunnel::read(bytes, &layout, VXLAN_PORT).expect("a tunnel");
                    assert_eq!(tunnel.key, 77);
                    assert_eq!(&bytes[tunnel.inner()], wanted.bytes());
                }
            }
        }
    }

    #[test]
    fn what_is_in_no_tunnel_stays_whole() {
        for packet in packets() {
            let mut pools = Pools::new(32, 1);
            let mut frame = pools.take_filled(&packet).expect("room");
            frame.set_segment_bytes(300);
            let mut out = Vec::new();
            segments_inside(frame, &mut pools, &mut out).expect("whole");
            assert_eq!((out.len(), out[0].bytes()), (1, &packet[..]));
        }
    }

    #[test]
    fn the_first_segment_is_that_of_all() {
        for whole in packets() {
            let mut pools = Pools::new(16, 2);
            let mut frame = pools.take_filled(&whole).expect("room");
            frame.set_segment_bytes(300);
            let mut all = Vec::new();
            let mut copy = pools.take_filled(&whole).expect("room");
            copy.set_segment_bytes(300);
            segments(copy, 1500, &mut pools, &mut all).expect("buffers");
            keep_first_segment(&mut frame);
            assert_eq!(frame.bytes(), all[0].bytes());
            keep_first_segment(&mut frame);
            assert_eq!(frame.bytes(), all[0].bytes(), "it is to be cut no more");
        }
    }

    proptest! {
        #[test]
        fn segments_hold_the_same_bytes_in_order(which in 0..4usize, size in 1..1200u16) {
            let packet = &packets()[which];
            let mut pools = Pools::new(1200, 1);
            let mut frame = pools.take_filled(packet).expect("room");
            frame.set_segment_bytes(size);
            let mut out = Vec::new();
            segments(frame, 1500, &mut pools, &mut out).expect("room");
            let whole = dissect(packet).expect("sound");
            prop_assert_eq!(out.len(), 999usize.div_ceil(size.into()));
            let mut bytes = Vec::new();
            for segment in &out {
                let layout = dissect(segment.bytes()).expect("sound");
                prop_assert!(verify_ipv4_checksum(segment.bytes(), &layout));
                prop_assert!(verify_transport_checksum(segment.bytes(), &layout));
                if layout.transport == Transport::Tcp {
                    let at = usize::from(layout.l4) + 4;
                    let sequence = |bytes: &[u8]| get(bytes, at) as u32 * 65_536 + get(bytes, at + 2) as u32;
                    prop_assert_eq!(
                        sequence(segment.bytes()),
                        sequence(packet).wrapping_add(bytes.len() as u32)
                    );
                }
                bytes.extend_from_slice(fields::payload(segment.bytes(), &layout));
            }
            prop_assert_eq!(&bytes[..], fields::payload(packet, &whole));
        }
    }

    #[test]
    fn what_is_too_long_and_not_to_be_cut_is_refused() {
        let mut pools = Pools::new(4, 1);
        let packet = &packets()[0];
        let mut out = Vec::new();
        let frame = pools.take_filled(packet).expect("room");
        let fits = packet.len() - 14;
        assert_eq!(segments(frame, fits, &mut pools, &mut out), Ok(()));
        let frame = pools.take_filled(packet).expect("room");
        let refused = segments(frame, fits - 1, &mut pools, &mut out);
        assert_eq!(refused, Err(Oversized::Frame));
        let mut frame = pools.take_filled(packet).expect("room");
        frame.set_segment_bytes(100);
        let refused = segments(frame, 200, &mut pools, &mut out);
        assert_eq!(refused, Err(Oversized::NoBuffer));
    }
}
