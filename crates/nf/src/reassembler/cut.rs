//! Cutting bytes off a segment, with every length and checksum mended.

use twinpath_core::wire::checksum::{Delta, fold, sum};
use twinpath_core::wire::tcp::flags::{FIN, URG};
use twinpath_core::wire::{rewrite, tcp};
use twinpath_core::{Packet, Pools};

/// Offset of the urgent pointer in a TCP header.
const URGENT_AT: usize = 18;

/// Cuts `bytes` of data off a TCP segment's front; its sequence number grows by as much. The
/// frame stays where it is: only its headers move.
pub(super) fn cut_front(packet: &mut Packet, bytes: u32) {
    let bytes = bytes.min(packet.layout.payload_bytes() as u32);
    let sequence = packet.tcp_sequence().wrapping_add(bytes);
    // The packet is TCP, so this cannot be refused.
    let _ = rewrite::set_tcp_seq(packet.frame.bytes_mut(), &packet.layout, sequence);
    move_urgent_pointer(packet, bytes);
    shorten(packet, bytes as usize, 0);
}

/// Cuts the last `numbers` sequence numbers off a TCP segment: its FIN first, then data.
pub(super) fn cut_back(packet: &mut Packet, numbers: u32) {
    let flags = packet.tcp_flags();
    let has_fin = numbers > 0 && flags & FIN != 0;
    if has_fin {
        let _ = rewrite::set_tcp_flags(packet.frame.bytes_mut(), &packet.layout, flags & !FIN);
    }
    let bytes = (numbers - u32::from(has_fin)).min(packet.layout.payload_bytes() as u32);
    shorten(packet, 0, bytes as usize);
}

/// A copy of a packet in a buffer of its own, or `None` if there is none.
pub(super) fn duplicate(packet: &Packet, pools: &mut Pools) -> Option<Packet> {
    let mut frame = pools.take_filled(packet.bytes())?;
    frame.set_timestamp(packet.frame.timestamp());
    frame.set_received_ns(packet.frame.received_ns());
    frame.set_ordinal(packet.frame.ordinal());
    frame.set_port(packet.frame.port());
    frame.set_metadata(packet.frame.metadata());
    Some(Packet {
        frame,
        layout: packet.layout,
        direction: packet.direction,
        role: packet.role,
        alias_row: packet.alias_row,
    })
}

/// Takes the mark off urgent data, which is data like other then.
pub(super) fn clear_urgent(packet: &mut Packet) {
    let (flags, at) = (
        packet.tcp_flags(),
        usize::from(packet.layout.l4) + URGENT_AT,
    );
    let old = u16_at(packet.bytes(), at);
    let frame = packet.frame.bytes_mut();
    put16(frame, at, 0);
    let checksum_at = usize::from(packet.layout.l4) + tcp::CHECKSUM_AT;
    mend(frame, checksum_at, Delta::of16(old, 0));
    let _ = rewrite::set_tcp_flags(frame, &packet.layout, flags & !URG);
}

/// The urgent pointer counts from the sequence number; once its place is cut off it means nothing.
fn move_urgent_pointer(packet: &mut Packet, bytes: u32) {
    let flags = packet.tcp_flags();
    if flags & URG == 0 {
        return;
    }
    let at = usize::from(packet.layout.l4) + URGENT_AT;
    let old = u16_at(packet.bytes(), at);
    let new = u32::from(old).saturating_sub(bytes) as u16;
    let frame = packet.frame.bytes_mut();
    put16(frame, at, new);
    mend(
        frame,
        usize::from(packet.layout.l4) + tcp::CHECKSUM_AT,
        Delta::of16(old, new),
    );
    if new == 0 {
        let _ = rewrite::set_tcp_flags(frame, &packet.layout, flags & !URG);
    }
}

/// Takes data away at both ends, and whatever padding follows the datagram.
fn shorten(packet: &mut Packet, front: usize, back: usize) {
    let layout = &mut packet.layout;
    let (start, end) = (usize::from(layout.payload), layout.end as usize);
    let frame = packet.frame.bytes_mut();
    let (Some(old), Some(kept)) = (frame.get(start..end), frame.get(start + front..end - back))
    else {
        return;
    };
    let segment_bytes = (end - usize::from(layout.l4)) as u16;
    // Data starts on a 16-bit boundary of the segment, before and after.
    let delta = Delta::of16(fold(sum(old)), fold(sum(kept)))
        + Delta::of16(segment_bytes, segment_bytes - (front + back) as u16);
    mend(frame, usize::from(layout.l4) + tcp::CHECKSUM_AT, delta);
    // It gets shorter, so that this cannot be refused.
    let _ = rewrite::set_datagram_end(frame, layout, end - front - back);
    frame.copy_within(..start, front);
    layout.end = (end - front - back) as u32;
    packet.frame.pull_front(front);
    packet.frame.set_len(end - front - back);
}

fn mend(frame: &mut [u8], checksum_at: usize, delta: Delta) {
    let checksum = delta.apply(u16_at(frame, checksum_at));
    put16(frame, checksum_at, checksum);
}

fn u16_at(frame: &[u8], at: usize) -> u16 {
    frame
        .get(at..at + 2)
        .map_or(0, |bytes| u16::from_be_bytes([bytes[0], bytes[1]]))
}

fn put16(frame: &mut [u8], at: usize, value: u16) {
    if let Some(place) = frame.get_mut(at..at + 2) {
        place.copy_from_slice(&value.to_be_bytes());
    }
}
