//! Congestion marks across tunnels (RFC 6040), and the byte of an IP header that holds them.
//!
//! That byte is IPv4's type of service and IPv6's traffic class: six bits say how the packet is to be
//! treated (DSCP), two whether its ends understand congestion marks and whether it has met any (ECN).

use crate::bytes::{put, u8_at, u16_at};
use crate::checksum::Delta;
use crate::ipv4;
use crate::layout::{Layout, Network};

/// Neither end understands marks.
pub const NOT_CAPABLE: u8 = 0;
/// Marks are understood (the other code for it).
pub const CAPABLE_1: u8 = 1;
/// Marks are understood.
pub const CAPABLE_0: u8 = 2;
/// Congestion was met.
pub const CONGESTED: u8 = 3;

/// The inner packet's mark when outer headers are taken off; `None` if the packet is to be dropped,
/// since congestion outside cannot be told to ends that do not understand it (RFC 6040 §4.2,
/// figure 4). Only the lowest two bits of each count.
#[must_use]
#[inline]
pub const fn decapsulated(outer: u8, inner: u8) -> Option<u8> {
    match (inner & 3, outer & 3) {
        (NOT_CAPABLE, CONGESTED) => None,
        (NOT_CAPABLE, _) => Some(NOT_CAPABLE),
        (_, CONGESTED) | (CONGESTED, _) => Some(CONGESTED),
        (CAPABLE_0, CAPABLE_1) => Some(CAPABLE_1),
        (inner, _) => Some(inner),
    }
}

/// The byte of DSCP and ECN; 0 if the frame is not IP.
#[must_use]
#[inline]
pub fn traffic_class(frame: &[u8], layout: &Layout) -> u8 {
    let at = usize::from(layout.l3);
    match layout.network {
        Network::V4 => u8_at(frame, at + 1),
        Network::V6 => (u16_at(frame, at) >> 4) as u8,
        Network::None => 0,
    }
}

/// Sets it, and mends the checksum of an IPv4 header. A frame that is not IP stays as it is.
#[inline]
pub fn set_traffic_class(frame: &mut [u8], layout: &Layout, class: u8) {
    let at = usize::from(layout.l3);
    let old = u16_at(frame, at);
    match layout.network {
        Network::V4 => {
            let new = old & 0xff00 | u16::from(class);
            let checksum = u16_at(frame, at + ipv4::CHECKSUM_AT);
            let mended = Delta::of16(old, new).apply(checksum);
            put(frame, at, new.to_be_bytes());
            put(frame, at + ipv4::CHECKSUM_AT, mended.to_be_bytes());
        }
        Network::V6 => {
            let new = old & 0xf00f | u16::from(class) << 4;
            put(frame, at, new.to_be_bytes());
        }
        Network::None => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 6040, figure 4: a row for each inner mark, a column for each outer one, both in the order
    /// Not-ECT, ECT(0), ECT(1), CE.
    #[test]
    fn marks_are_those_of_rfc_6040() {
        const ORDER: [u8; 4] = [NOT_CAPABLE, CAPABLE_0, CAPABLE_1, CONGESTED];
        const N: Option<u8> = Some(NOT_CAPABLE);
        const ZERO: Option<u8> = Some(CAPABLE_0);
        const ONE: Option<u8> = Some(CAPABLE_1);
        const CE: Option<u8> = Some(CONGESTED);
        let figure = [
            [N, N, N, None],
            [ZERO, ZERO, ONE, CE],
            [ONE, ONE, ONE, CE],
            [CE, CE, CE, CE],
        ];
        for (inner, row) in ORDER.into_iter().zip(figure) {
            for (outer, expected) in ORDER.into_iter().zip(row) {
                assert_eq!(
                    decapsulated(outer, inner),
                    expected,
                    "{outer} around {inner}"
                );
                assert_eq!(decapsulated(outer | 0xfc, inner | 0xb8), expected);
            }
        }
    }
}
