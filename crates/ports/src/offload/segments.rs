//! Cutting a frame into segments, where neither kernel nor card does.

use super::{TCP_CHECKSUM_AT, checksum_at, cut, link_bytes, partial_checksum};
use twinpath_core::wire::layout::{Layout, Network, Transport};
use twinpath_core::wire::{checksum, dissect};
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
        Some(layout) => cut_up(&frame, &layout, pools, out),
    };
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

fn cut_up(
    frame: &Frame,
    layout: &Layout,
    pools: &mut Pools,
    out: &mut Vec<Frame>,
) -> Result<(), Oversized> {
    let bytes = frame.bytes();
    let header = &bytes[..usize::from(layout.payload)];
    let payload = &bytes[usize::from(layout.payload)..layout.end as usize];
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
        renumber(
            segment.bytes_mut(),
            layout,
            number,
            number * size,
            number == last,
        );
        segment.set_timestamp(frame.timestamp());
        segment.set_received_ns(frame.received_ns());
        out.push(segment);
    }
    Ok(())
}

/// Lengths, numbers, flags and checksums of one segment.
fn renumber(bytes: &mut [u8], layout: &Layout, number: usize, at: usize, is_last: bool) {
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
    use super::super::tests::packets;
    use super::*;
    use proptest::prelude::*;
    use twinpath_core::wire::{fields, verify_ipv4_checksum, verify_transport_checksum};

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
