//! Changing a dissected frame in place. Every checksum that covers a changed byte is mended
//! incrementally (RFC 1624), so a packet that arrived damaged leaves just as damaged, and a
//! fragment's checksum stays right although the rest of its datagram is not there.
//!
//! There is one way to write an end of a packet, with three doors. [`set_source`] and its like take an
//! endpoint that a function has just chosen. [`set_source_to`] is the same with what its checksums add
//! worked out beforehand ([`NewEndpoint`]), for an endpoint that a table gives to many packets, and
//! [`set_plain_source_to`] spares a packet that was found to be plain the questions about its layout:
//! fast programs call these for every packet. Beside them the rule cache writes all fields of a rule in
//! one pass over the headers of TCP or UDP over IPv4 (`twinpath_rulecache::headers`): field by field
//! each checksum would be read and mended up to four times. A property test there holds it to these
//! functions, which are what every other packet of a rule gets.

use thiserror::Error;

use crate::address::{Address, Endpoint};
use crate::bytes::{put, u8_at, u128_at};
use crate::checksum::{self, Delta};
use crate::fields::{Side, port_at, tcp_field};
use crate::layout::{Fragment, Layout, Network, Plain, Transport};
use crate::verify::{checksum_at, ipv4_header, routed_destination, transport_sum};
use crate::{ipv4, ipv6, link, tcp, udp};

mod inner;
mod mend;
mod plain;

pub use inner::{set_inner_destination, set_inner_source};
use mend::{mend, mend_transport, replace16, replace32, replace128};
pub use plain::NewEndpoint;

/// Why a frame was left as it was.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Error)]
pub enum RewriteError {
    /// An IPv4 address for an IPv6 packet or the other way round, or not an IP packet at all.
    #[error("address of another IP version than the packet")]
    Family,
    /// A TCP field in a packet without a TCP header.
    #[error("not a TCP packet")]
    NotTcp,
    /// A UDP length in a packet that is not a whole UDP datagram.
    #[error("not a whole UDP datagram")]
    NotUdp,
    /// An inner address in a packet that quotes none.
    #[error("not an ICMP error with a quoted packet")]
    NoInner,
    /// A field value that the header has no room for.
    #[error("value out of the field's range")]
    Range,
    /// The frame ends before the layout does, or before the wanted length.
    #[error("frame shorter than its layout")]
    ShortFrame,
}

/// Sets the source address and port. Where the packet has no port the endpoint's is ignored; for
/// an ICMP echo it becomes the identifier.
///
/// # Errors
/// [`RewriteError::Family`], [`RewriteError::ShortFrame`]; the frame is then unchanged.
#[inline]
pub fn set_source(frame: &mut [u8], layout: &Layout, new: Endpoint) -> Result<(), RewriteError> {
    set_endpoint(frame, layout, Side::Source, &NewEndpoint::new(new))
}

/// Sets the destination address and port, as [`set_source`] does the source's.
///
/// # Errors
/// As [`set_source`].
#[inline]
pub fn set_destination(
    frame: &mut [u8],
    layout: &Layout,
    new: Endpoint,
) -> Result<(), RewriteError> {
    set_endpoint(frame, layout, Side::Destination, &NewEndpoint::new(new))
}

/// [`set_source`] for an endpoint that many packets get.
///
/// # Errors
/// As [`set_source`].
#[inline(always)]
pub fn set_source_to(
    frame: &mut [u8],
    layout: &Layout,
    new: &NewEndpoint,
) -> Result<(), RewriteError> {
    set_endpoint(frame, layout, Side::Source, new)
}

/// [`set_destination`] for an endpoint that many packets get.
///
/// # Errors
/// As [`set_source`].
#[inline(always)]
pub fn set_destination_to(
    frame: &mut [u8],
    layout: &Layout,
    new: &NewEndpoint,
) -> Result<(), RewriteError> {
    set_endpoint(frame, layout, Side::Destination, new)
}

/// [`set_source_to`] for a packet that was found to be plain.
///
/// # Errors
/// As for [`set_source_to`].
#[inline(always)]
pub fn set_plain_source_to(
    frame: &mut [u8],
    plain: Plain,
    new: &NewEndpoint,
) -> Result<(), RewriteError> {
    set_plain_end_to(frame, plain, Side::Source, new)
}

/// [`set_destination_to`] for a packet that was found to be plain.
///
/// # Errors
/// As for [`set_destination_to`].
#[inline(always)]
pub fn set_plain_destination_to(
    frame: &mut [u8],
    plain: Plain,
    new: &NewEndpoint,
) -> Result<(), RewriteError> {
    set_plain_end_to(frame, plain, Side::Destination, new)
}

#[inline(always)]
fn set_plain_end_to(
    frame: &mut [u8],
    plain: Plain,
    side: Side,
    new: &NewEndpoint,
) -> Result<(), RewriteError> {
    match plain::set_plain_endpoint(frame, plain, side, new) {
        true => Ok(()),
        false => set_end_anyway(frame, plain, side, new),
    }
}

#[inline(never)]
fn set_end_anyway(
    frame: &mut [u8],
    plain: Plain,
    side: Side,
    new: &NewEndpoint,
) -> Result<(), RewriteError> {
    set_endpoint(frame, &plain.layout(), side, new)
}

/// Sets time to live or hop limit.
///
/// # Errors
/// [`RewriteError::Family`] if the frame is not IP; [`RewriteError::ShortFrame`].
#[inline]
pub fn set_ttl(frame: &mut [u8], layout: &Layout, ttl: u8) -> Result<(), RewriteError> {
    check_length(frame, layout)?;
    let l3 = usize::from(layout.l3);
    match layout.network {
        Network::V4 => {
            let word = u16::from_be_bytes([ttl, u8_at(frame, l3 + ipv4::TTL_AT + 1)]);
            let delta = replace16(frame, l3 + ipv4::TTL_AT, word);
            mend(frame, l3 + ipv4::CHECKSUM_AT, delta);
        }
        Network::V6 => put(frame, l3 + ipv6::HOP_LIMIT_AT, [ttl]),
        Network::None => return Err(RewriteError::Family),
    }
    Ok(())
}

/// Sets the identification of an IPv4 packet.
///
/// # Errors
/// [`RewriteError::Family`] if the packet is not IPv4; [`RewriteError::ShortFrame`].
pub fn set_identification(
    frame: &mut [u8],
    layout: &Layout,
    identification: u16,
) -> Result<(), RewriteError> {
    check_length(frame, layout)?;
    if layout.network != Network::V4 {
        return Err(RewriteError::Family);
    }
    let l3 = usize::from(layout.l3);
    let delta = replace16(frame, l3 + ipv4::IDENTIFICATION_AT, identification);
    mend(frame, l3 + ipv4::CHECKSUM_AT, delta);
    Ok(())
}

/// Sets the TCP sequence number.
///
/// # Errors
/// [`RewriteError::NotTcp`], [`RewriteError::ShortFrame`].
#[inline]
pub fn set_tcp_seq(frame: &mut [u8], layout: &Layout, sequence: u32) -> Result<(), RewriteError> {
    let at = tcp_field_at(frame, layout, tcp::SEQUENCE_AT)?;
    let delta = replace32(frame, at, sequence);
    mend_transport(frame, layout, delta);
    Ok(())
}

/// Sets the TCP flags, see [`tcp::flags`].
///
/// # Errors
/// [`RewriteError::NotTcp`], [`RewriteError::ShortFrame`].
#[inline]
pub fn set_tcp_flags(frame: &mut [u8], layout: &Layout, flags: u8) -> Result<(), RewriteError> {
    let at = tcp_field_at(frame, layout, tcp::FLAGS_AT - 1)?;
    let word = u16::from_be_bytes([u8_at(frame, at), flags]);
    let delta = replace16(frame, at, word);
    mend_transport(frame, layout, delta);
    Ok(())
}

/// Turns a packet around: swaps MAC addresses, IP addresses and ports. No checksum changes by it,
/// except for an IPv6 packet with routing segments left, whose transport checksum is mended.
///
/// # Errors
/// [`RewriteError::ShortFrame`].
pub fn swap_endpoints(frame: &mut [u8], layout: &Layout) -> Result<(), RewriteError> {
    check_length(frame, layout)?;
    swap::<6>(frame, 0, 6);
    if layout.is_ip() {
        swap_addresses(frame, layout);
    }
    if matches!(layout.transport, Transport::Tcp | Transport::Udp) {
        swap::<2>(frame, usize::from(layout.l4), usize::from(layout.l4) + 2);
    }
    Ok(())
}

/// Gives a whole UDP datagram another payload length: IP length (its checksum is mended), UDP
/// length and `layout.end`. The frame may have to be longer than before; the caller cuts it to
/// `layout.end` (or pads it). The UDP checksum is not touched, as it covers the payload that the
/// caller is about to write: call [`refresh_checksums`] after that.
///
/// # Errors
/// [`RewriteError::NotUdp`]; [`RewriteError::ShortFrame`] if the frame has no room for the
/// payload; [`RewriteError::Range`] if the IP length cannot say so.
pub fn set_udp_payload_length(
    frame: &mut [u8],
    layout: &mut Layout,
    payload_bytes: usize,
) -> Result<(), RewriteError> {
    if layout.transport != Transport::Udp || layout.fragment != Fragment::Whole {
        return Err(RewriteError::NotUdp);
    }
    let end = usize::from(layout.payload).saturating_add(payload_bytes);
    if end > frame.len() {
        return Err(RewriteError::ShortFrame);
    }
    set_datagram_end(frame, layout, end)?;
    let length = (udp::HEADER_BYTES + payload_bytes) as u16;
    put(
        frame,
        usize::from(layout.l4) + udp::LENGTH_AT,
        length.to_be_bytes(),
    );
    layout.end = end as u32;
    Ok(())
}

/// Computes the IPv4 header checksum and, unless this is a fragment, the transport checksum from
/// scratch. UDP gets one even if it had none.
///
/// # Errors
/// [`RewriteError::ShortFrame`].
pub fn refresh_checksums(frame: &mut [u8], layout: &Layout) -> Result<(), RewriteError> {
    check_length(frame, layout)?;
    if layout.network == Network::V4 {
        let at = usize::from(layout.l3) + ipv4::CHECKSUM_AT;
        put(frame, at, [0; 2]);
        let checksum = checksum::checksum(ipv4_header(frame, layout));
        put(frame, at, checksum.to_be_bytes());
    }
    if layout.fragment == Fragment::Whole {
        refresh_transport(frame, layout);
    }
    Ok(())
}

pub(crate) fn refresh_transport(frame: &mut [u8], layout: &Layout) {
    let Some(at) = checksum_at(layout) else {
        return;
    };
    put(frame, at, [0; 2]);
    let sum = transport_sum(frame, layout);
    let checksum = match layout.transport {
        Transport::Udp => checksum::finish_udp(sum),
        _ => checksum::finish(sum),
    };
    put(frame, at, checksum.to_be_bytes());
}

#[inline(always)]
fn set_endpoint(
    frame: &mut [u8],
    layout: &Layout,
    side: Side,
    new: &NewEndpoint,
) -> Result<(), RewriteError> {
    check_length(frame, layout)?;
    if layout.network != new.family {
        return Err(RewriteError::Family);
    }
    if plain::set_endpoint(frame, layout, side, new) {
        return Ok(());
    }
    set_any_endpoint(frame, layout, side, new.endpoint);
    Ok(())
}

#[inline(never)]
fn set_any_endpoint(frame: &mut [u8], layout: &Layout, side: Side, new: Endpoint) {
    let routed = side == Side::Destination && routed_destination(frame, layout).is_some();
    let address = set_address(frame, layout.network, layout.l3, side, new.address);
    if layout.network == Network::V4 {
        mend(frame, usize::from(layout.l3) + ipv4::CHECKSUM_AT, address);
    }
    let mut delta = match port_at(frame, layout, side) {
        Some(at) => replace16(frame, at, new.port),
        None => Delta::NONE,
    };
    if layout.transport != Transport::Icmp && !routed {
        delta += address;
    }
    mend_transport(frame, layout, delta);
}

/// Offset of a TCP field that may be rewritten.
#[inline(always)]
fn tcp_field_at(frame: &[u8], layout: &Layout, offset: usize) -> Result<usize, RewriteError> {
    check_length(frame, layout)?;
    tcp_field(layout, offset).ok_or(RewriteError::NotTcp)
}

#[inline(always)]
fn check_length(frame: &[u8], layout: &Layout) -> Result<(), RewriteError> {
    if (layout.end as usize) > frame.len() {
        return Err(RewriteError::ShortFrame);
    }
    Ok(())
}

#[inline(always)]
fn check_family(network: Network, address: Address) -> Result<(), RewriteError> {
    match (network, address.is_v4()) {
        (Network::V4, true) | (Network::V6, false) => Ok(()),
        _ => Err(RewriteError::Family),
    }
}

#[inline(always)]
fn set_address(frame: &mut [u8], network: Network, l3: u16, side: Side, new: Address) -> Delta {
    let at = usize::from(l3) + side.address_at(network);
    match network {
        Network::V4 => replace32(frame, at, new.word(3)),
        Network::V6 => replace128(frame, at, new.0),
        Network::None => Delta::NONE,
    }
}

fn swap_addresses(frame: &mut [u8], layout: &Layout) {
    let l3 = usize::from(layout.l3);
    let source = l3 + Side::Source.address_at(layout.network);
    let destination = l3 + Side::Destination.address_at(layout.network);
    if layout.network == Network::V4 {
        return swap::<4>(frame, source, destination);
    }
    let delta = match routed_destination(frame, layout) {
        Some(_) => Delta::of128(u128_at(frame, source), u128_at(frame, destination)),
        None => Delta::NONE,
    };
    swap::<16>(frame, source, destination);
    mend_transport(frame, layout, delta);
}

fn swap<const N: usize>(frame: &mut [u8], first: usize, second: usize) {
    let Some((head, tail)) = frame.split_at_mut_checked(second) else {
        return;
    };
    if let (Some(a), Some(b)) = (head.get_mut(first..first + N), tail.get_mut(..N)) {
        a.swap_with_slice(b);
    }
}

/// Lets the datagram end at another byte of the frame: IP length (its checksum is mended), and
/// lengths in front of it (PPPoE's, IEEE 802.3's). Lengths and checksums behind the IP header are
/// the caller's, and so is [`Layout::end`].
///
/// # Errors
/// [`RewriteError::Range`] if the IP length cannot say so.
pub fn set_datagram_end(frame: &mut [u8], layout: &Layout, end: usize) -> Result<(), RewriteError> {
    set_ip_length(frame, layout, end)?;
    link::set_end(frame, end);
    Ok(())
}

fn set_ip_length(frame: &mut [u8], layout: &Layout, end: usize) -> Result<(), RewriteError> {
    let l3 = usize::from(layout.l3);
    let start = if layout.network == Network::V6 {
        l3 + ipv6::HEADER_BYTES
    } else {
        l3
    };
    let length = u16::try_from(end.saturating_sub(start)).map_err(|_| RewriteError::Range)?;
    if layout.network == Network::V6 {
        put(frame, l3 + ipv6::PAYLOAD_LENGTH_AT, length.to_be_bytes());
        return Ok(());
    }
    let delta = replace16(frame, l3 + ipv4::TOTAL_LENGTH_AT, length);
    mend(frame, l3 + ipv4::CHECKSUM_AT, delta);
    Ok(())
}
