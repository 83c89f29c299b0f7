//! A TCP segment as a stretch of sequence numbers.

use twinpath_core::Packet;
use twinpath_core::wire::tcp::flags::{FIN, SYN};

/// How far `a` lies ahead of `b` in sequence space, which wraps; negative if it lies behind.
pub(super) const fn ahead(a: u32, b: u32) -> i32 {
    a.wrapping_sub(b) as i32
}

/// What the reassembler reads of a segment's headers.
#[derive(Copy, Clone, Debug)]
pub(super) struct Segment {
    /// Its sequence number.
    pub start: u32,
    /// The sequence number after it. SYN and FIN take one each.
    pub end: u32,
    /// Bytes of data.
    pub payload_bytes: u32,
    /// What it acknowledges, if it has ACK.
    pub acknowledged: u32,
    flags: u8,
}

impl Segment {
    /// Reads a TCP packet.
    pub fn of(packet: &Packet) -> Self {
        let (start, flags) = (packet.tcp_sequence(), packet.tcp_flags());
        let payload_bytes = packet.layout.payload_bytes() as u32;
        let marks = u32::from(flags & SYN != 0) + u32::from(flags & FIN != 0);
        Self {
            start,
            end: start.wrapping_add(payload_bytes + marks),
            payload_bytes,
            acknowledged: packet.tcp_acknowledgement(),
            flags,
        }
    }

    /// Whether a flag is set.
    pub const fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// Whether a byte of its data has this number or a later one.
    pub const fn has_data_from(&self, number: u32) -> bool {
        let end = self.start.wrapping_add(self.payload_bytes);
        self.payload_bytes > 0 && ahead(end, number) > 0
    }

    /// Whether it takes no sequence numbers: an acknowledgement and nothing else.
    pub const fn is_bare(&self) -> bool {
        self.start == self.end
    }
}
