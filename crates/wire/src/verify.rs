//! Checking checksums of a dissected frame, for those who ask; dissection does not.

use crate::address::Address;
use crate::bytes::u16_at;
use crate::checksum;
use crate::fields::{destination_address, source_address, transport_end};
use crate::layout::{Fragment, Layout, Network, Transport};
use crate::{icmp, ipv6, tcp, udp};

/// Whether the IPv4 header checksum holds. True for a frame that is not IPv4.
#[must_use]
#[inline]
pub fn verify_ipv4_checksum(frame: &[u8], layout: &Layout) -> bool {
    if layout.network != Network::V4 {
        return true;
    }
    let header = ipv4_header(frame, layout);
    match header.try_into() {
        Ok(without_options) => checksum::is_valid_header(without_options),
        Err(_) => checksum::checksum(header) == 0,
    }
}

/// Whether the checksum of the IPv4 header that an ICMP error quotes holds. True where nothing can
/// be read of the quote, or it is not IPv4.
#[must_use]
pub fn verify_inner_ipv4_checksum(frame: &[u8], layout: &Layout) -> bool {
    match layout.inner {
        Some(inner) if inner.network == Network::V4 => {
            checksum::checksum(header_at(frame, usize::from(inner.l3))) == 0
        }
        _ => true,
    }
}

/// Whether the TCP, UDP, ICMP or ICMPv6 checksum holds. True where there is nothing to check: not
/// IP, another protocol, a fragment, or UDP over IPv4 without a checksum. UDP over IPv6 must have
/// one (RFC 8200 §8.1).
#[must_use]
pub fn verify_transport_checksum(frame: &[u8], layout: &Layout) -> bool {
    let Some(at) = checksum_at(layout) else {
        return true;
    };
    if layout.fragment != Fragment::Whole {
        return true;
    }
    if layout.transport == Transport::Udp && u16_at(frame, at) == 0 {
        return layout.network == Network::V4;
    }
    checksum::finish(transport_sum(frame, layout)) == 0
}

/// The sum over pseudo-header (where the protocol has one), transport header and payload.
pub(crate) fn transport_sum(frame: &[u8], layout: &Layout) -> u64 {
    let segment = frame
        .get(usize::from(layout.l4)..transport_end(frame, layout))
        .unwrap_or(&[]);
    let mut total = checksum::sum(segment);
    if layout.transport != Transport::Icmp {
        let source = source_address(frame, layout);
        let destination = final_destination(frame, layout);
        let length = segment.len() as u32;
        total += checksum::pseudo_header(source, destination, layout.protocol, length);
    }
    total
}

/// Offset of the transport checksum in the frame.
#[inline(always)]
pub(crate) fn checksum_at(layout: &Layout) -> Option<usize> {
    let offset = match layout.transport {
        Transport::Tcp => tcp::CHECKSUM_AT,
        Transport::Udp => udp::CHECKSUM_AT,
        Transport::Icmp | Transport::Icmp6 => icmp::CHECKSUM_AT,
        Transport::None | Transport::Other => return None,
    };
    Some(usize::from(layout.l4) + offset)
}

/// The IPv4 header with its options.
pub(crate) fn ipv4_header<'a>(frame: &'a [u8], layout: &Layout) -> &'a [u8] {
    header_at(frame, usize::from(layout.l3))
}

/// As long as it says: an authentication header may lie between it and the transport's.
fn header_at(frame: &[u8], l3: usize) -> &[u8] {
    let words = frame.get(l3).map_or(0, |first| usize::from(first & 0xf));
    frame.get(l3..l3 + 4 * words).unwrap_or(&[])
}

/// The destination that the pseudo-header counts.
fn final_destination(frame: &[u8], layout: &Layout) -> Address {
    routed_destination(frame, layout).unwrap_or_else(|| destination_address(frame, layout))
}

/// The last stop of an IPv6 packet that still has others before it.
#[inline(always)]
pub(crate) fn routed_destination(frame: &[u8], layout: &Layout) -> Option<Address> {
    if usize::from(layout.l4) <= usize::from(layout.l3) + ipv6::HEADER_BYTES {
        return None;
    }
    if layout.network != Network::V6 {
        return None;
    }
    ipv6::routed_destination(frame.get(usize::from(layout.l3)..layout.end as usize)?)
}
