//! Rewriting one end of what nearly every packet is, TCP or UDP over IPv4, with one look at each
//! header.

use crate::address::Endpoint;
use crate::fields::Side;
use crate::layout::{Layout, Network, Plain, Transport};
use crate::{ipv4, tcp, udp};

/// An endpoint that rewrites put into packets, with what they need of it worked out.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct NewEndpoint {
    /// The endpoint.
    pub endpoint: Endpoint,
    pub(super) family: Network,
    address: [u8; 4],
    port: [u8; 2],
    /// Sum of the address's halves, in the machine's byte order.
    address_sum: u32,
}

impl NewEndpoint {
    /// Works it out.
    #[must_use]
    #[inline(always)]
    pub const fn new(endpoint: Endpoint) -> Self {
        let address = endpoint.address.octets4();
        Self {
            endpoint,
            family: match endpoint.address.is_v4() {
                true => Network::V4,
                false => Network::V6,
            },
            address,
            port: endpoint.port.to_be_bytes(),
            address_sum: halves(u32::from_ne_bytes(address)),
        }
    }
}

/// [`set_endpoint`](super::set_endpoint) for a packet that is known to be plain; false, with
/// nothing changed, if its address is the new one already or the new one is of another family.
#[inline(always)]
pub(super) fn set_plain_endpoint(
    frame: &mut [u8],
    plain: Plain,
    side: Side,
    new: &NewEndpoint,
) -> bool {
    const TCP: usize = L4 + tcp::CHECKSUM_AT + 2;
    const UDP: usize = L4 + udp::CHECKSUM_AT + 2;
    if new.family != Network::V4 {
        return false;
    }
    match plain.is_udp() {
        false => set::<TCP>(frame, plain.l3(), side, new, mended),
        true => set::<UDP>(frame, plain.l3(), side, new, mended_udp),
    }
}

/// Sets source or destination; false, with nothing changed, if the packet is another kind or its
/// address is the new one already.
#[inline(always)]
pub(super) fn set_endpoint(
    frame: &mut [u8],
    layout: &Layout,
    side: Side,
    new: &NewEndpoint,
) -> bool {
    if layout.network != Network::V4 || layout.l4.wrapping_sub(layout.l3) != L4 as u16 {
        return false;
    }
    let l3 = usize::from(layout.l3);
    match layout.transport {
        Transport::Tcp => set::<{ L4 + tcp::CHECKSUM_AT + 2 }>(frame, l3, side, new, mended),
        Transport::Udp => set::<{ L4 + udp::CHECKSUM_AT + 2 }>(frame, l3, side, new, mended_udp),
        _ => false,
    }
}

/// The transport header, counted from an IPv4 header without options.
const L4: usize = ipv4::HEADER_BYTES;

/// `BYTES` are those from the IP header to the transport checksum, which is the last of them.
///
/// A sum does not depend on byte order (RFC 1071 §2), so numbers are added as the machine reads
/// them.
#[inline(always)]
fn set<const BYTES: usize>(
    frame: &mut [u8],
    l3: usize,
    side: Side,
    new: &NewEndpoint,
    mended_transport: impl FnOnce(u16, u32) -> u16,
) -> bool {
    let packet = frame
        .get_mut(l3..)
        .and_then(|packet| packet.first_chunk_mut::<BYTES>());
    let Some(packet) = packet else {
        return false;
    };
    let address_at = side.address_at(Network::V4);
    let place = packet[address_at..].first_chunk_mut::<4>();
    let Some(place) = place else { return false };
    // As numbers, or it would be compared and copied in parts.
    let old = u32::from_ne_bytes(*place);
    if old == u32::from_ne_bytes(new.address) {
        return false;
    }
    *place = new.address;
    let change = halves(!old) + new.address_sum;
    replace(packet, ipv4::CHECKSUM_AT, |checksum| {
        mended(checksum, change)
    });
    let port = u16::from_ne_bytes(new.port);
    let old_port = replace(packet, L4 + side.port_at(), |_| port);
    // An unchanged port adds minus zero to a sum that is not zero, which changes nothing.
    let change = change + u32::from(!old_port) + u32::from(port);
    replace(packet, BYTES - 2, |checksum| {
        mended_transport(checksum, change)
    });
    true
}

#[inline(always)]
const fn halves(number: u32) -> u32 {
    (number >> 16) + (number & 0xffff)
}

/// RFC 1624, equation 3, for a change that is not zero.
#[inline(always)]
const fn mended(checksum: u16, change: u32) -> u16 {
    let sum = !checksum as u32 + change;
    // The upper half becomes the sum of both, with the lower half's carry around the end.
    !(sum.wrapping_add(sum.rotate_left(16)) >> 16) as u16
}

/// The same for UDP: an absent checksum stays absent, and none that is there becomes zero.
#[inline(always)]
const fn mended_udp(checksum: u16, change: u32) -> u16 {
    match (checksum, mended(checksum, change)) {
        (0, _) => 0,
        (_, 0) => 0xffff,
        (_, mended) => mended,
    }
}

/// Replaces a 16-bit number; returns what it was.
#[inline(always)]
fn replace<const BYTES: usize>(
    bytes: &mut [u8; BYTES],
    at: usize,
    new: impl FnOnce(u16) -> u16,
) -> u16 {
    let old = u16::from_ne_bytes([bytes[at], bytes[at + 1]]);
    bytes[at..at + 2].copy_from_slice(&new(old).to_ne_bytes());
    old
}

#[cfg(test)]
mod tests;
