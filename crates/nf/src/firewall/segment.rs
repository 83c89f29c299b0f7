//! What the firewall reads of a TCP segment.

use twinpath_core::wire::tcp::TcpOption;
use twinpath_core::wire::tcp::flags::{ACK, FIN, SYN};
use twinpath_core::wire::{Fragment, fields, fragment};
use twinpath_core::{Direction, Packet};

use super::tcp_state::SegmentKind;

/// The largest shift of a window (RFC 7323 §2.3).
pub const MAX_SCALE: u8 = 14;

/// A TCP segment.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Which way it goes.
    pub direction: Direction,
    /// What its flags make of it.
    pub kind: SegmentKind,
    /// Sequence number of its first byte.
    pub sequence: u32,
    /// The sequence number after it: payload, SYN and FIN count.
    pub end: u32,
    /// The acknowledgement number, if the flag says that there is one.
    pub acknowledgement: Option<u32>,
    /// Window as sent, not scaled.
    pub window: u16,
    /// Window scale offered, read from SYN and SYN+ACK only.
    pub scale: Option<u8>,
}

impl Segment {
    /// Reads a packet that has a TCP header, or is a later part of a segment that has: of that the
    /// fast path has told the place, and it counts as data that acknowledges the same.
    pub fn of(packet: &Packet) -> Self {
        match packet.layout.fragment {
            Fragment::Later => Self::of_later_part(packet),
            Fragment::Whole | Fragment::First => Self::of_header(packet),
        }
    }

    fn of_later_part(packet: &Packet) -> Self {
        let place = packet.frame.place();
        let (offset, bytes) = fragment::part(packet.bytes(), &packet.layout)
            .map_or((0, 0), |part| (part.offset, part.bytes));
        let sequence = place.sequence.wrapping_add(offset);
        Self {
            direction: packet.direction,
            kind: SegmentKind::Ack,
            sequence,
            end: sequence.wrapping_add(bytes),
            acknowledgement: Some(place.acknowledgement),
            window: 0,
            scale: None,
        }
    }

    fn of_header(packet: &Packet) -> Self {
        let flags = packet.tcp_flags();
        let kind = SegmentKind::of(flags);
        let sequence = packet.tcp_sequence();
        let flag_bytes = u32::from(flags & SYN != 0) + u32::from(flags & FIN != 0);
        let is_syn = matches!(kind, SegmentKind::Syn | SegmentKind::SynAck);
        Self {
            direction: packet.direction,
            kind,
            sequence,
            end: sequence
                .wrapping_add(packet.layout.payload_bytes() as u32)
                .wrapping_add(flag_bytes),
            acknowledgement: (flags & ACK != 0).then(|| packet.tcp_acknowledgement()),
            window: packet.tcp_window(),
            scale: if is_syn { window_scale(packet) } else { None },
        }
    }
}

/// The window scale option. A larger one than allowed counts as the largest, as RFC 7323 has it.
pub(crate) fn window_scale(packet: &Packet) -> Option<u8> {
    let options = fields::tcp_options(packet.bytes(), &packet.layout);
    let scale = options
        .map_while(Result::ok)
        .find_map(|option| match option {
            TcpOption::WindowScale(shift) => Some(shift),
            _ => None,
        })?;
    Some(scale.min(MAX_SCALE))
}
