//! Which TCP segments come out of order.

use std::collections::HashMap;
use twinpath_core::key::Keyed;
use twinpath_core::{FlowKey, Side};
use twinpath_wire::tcp::flags::{FIN, RST, SYN};
use twinpath_wire::{Layout, fields};

/// How far ahead a segment can be of what is awaited and still be of the same stream.
const WINDOW_BYTES: u32 = 1 << 20;
/// After so much silence a connection may be another.
const SILENCE_NS: u64 = 60_000_000_000;

/// Where a segment lies in its direction's stream.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum SegmentOrder {
    /// Bytes in front of it are missing.
    Ahead,
    /// All of its bytes have come before.
    Repeated,
    /// Anything else, or not certain.
    Elsewhere,
}

/// The next expected byte of each direction. It says only what is certain: a direction in which
/// anything odd was seen is not looked at again before its next SYN.
#[derive(Debug, Default)]
pub(super) struct Order {
    directions: HashMap<(FlowKey, Side), Next>,
}

#[derive(Copy, Clone, Debug)]
struct Next {
    byte: u32,
    last_ns: u64,
    is_certain: bool,
}

impl Order {
    /// Notes a TCP segment.
    pub fn segment(
        &mut self,
        frame: &[u8],
        layout: &Layout,
        keyed: &Keyed,
        at_ns: u64,
    ) -> SegmentOrder {
        let flags = fields::tcp_flags(frame, layout);
        let bytes = fields::payload(frame, layout).len() as u32;
        let first = fields::tcp_seq(frame, layout);
        let name = (keyed.key, keyed.side);
        if flags & (RST | FIN) != 0 {
            self.directions.remove(&name);
            self.directions.remove(&(keyed.key, keyed.side.other()));
            return SegmentOrder::Elsewhere;
        }
        if flags & SYN != 0 {
            self.start(name, first.wrapping_add(1 + bytes), at_ns);
            return SegmentOrder::Elsewhere;
        }
        match self.directions.get_mut(&name) {
            None if bytes > 0 => self.start(name, first.wrapping_add(bytes), at_ns),
            Some(next) if bytes > 0 => return next.segment(first, bytes, at_ns),
            _ => {}
        }
        SegmentOrder::Elsewhere
    }

    fn start(&mut self, name: (FlowKey, Side), byte: u32, last_ns: u64) {
        let is_certain = true;
        let next = Next {
            byte,
            last_ns,
            is_certain,
        };
        self.directions.insert(name, next);
    }
}

impl Next {
    fn segment(&mut self, first: u32, bytes: u32, at_ns: u64) -> SegmentOrder {
        let was_silent = at_ns.saturating_sub(self.last_ns) > SILENCE_NS;
        self.is_certain &= !was_silent;
        self.last_ns = at_ns;
        let (ahead, behind) = (first.wrapping_sub(self.byte), self.byte.wrapping_sub(first));
        if !self.is_certain {
            return SegmentOrder::Elsewhere;
        }
        match ahead {
            0 => self.byte = first.wrapping_add(bytes),
            1..WINDOW_BYTES => {
                self.is_certain = false;
                return SegmentOrder::Ahead;
            }
            // One byte again is a probe, which receivers answer and nobody holds.
            _ if (2..=bytes.max(WINDOW_BYTES)).contains(&behind) && bytes <= behind => {
                return SegmentOrder::Repeated;
            }
            _ => self.is_certain = false,
        }
        SegmentOrder::Elsewhere
    }
}
