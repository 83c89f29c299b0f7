//! Reading fields of a dissected frame. The layout must come from this frame; with a foreign one
//! the answers are meaningless (zeros where the frame ends) but nothing panics.

use crate::address::{Address, Endpoint, MacAddress};
use crate::bytes::{array_at, u8_at, u16_at, u32_at, u128_at};
use crate::layout::{Fragment, Inner, Layout, Network, Transport};
use crate::{icmp, ipv4, ipv6, protocol, tcp, udp};

/// Who sent the packet. The port is zero where there is none; for an ICMP echo both ports are its
/// identifier.
#[must_use]
#[inline]
pub fn source(frame: &[u8], layout: &Layout) -> Endpoint {
    Endpoint::new(source_address(frame, layout), source_port(frame, layout))
}

/// Whom the packet is for. The port is as in [`source`].
#[must_use]
#[inline]
pub fn destination(frame: &[u8], layout: &Layout) -> Endpoint {
    Endpoint::new(
        destination_address(frame, layout),
        destination_port(frame, layout),
    )
}

/// The identification of an IPv4 packet.
#[must_use]
#[inline]
pub fn identification(frame: &[u8], layout: &Layout) -> Option<u16> {
    let at = usize::from(layout.l3) + ipv4::IDENTIFICATION_AT;
    (layout.network == Network::V4).then(|| u16_at(frame, at))
}

/// Where in its datagram an IPv4 packet begins, in bytes.
#[must_use]
pub fn fragment_offset_bytes(frame: &[u8], layout: &Layout) -> u32 {
    let word = u16_at(frame, usize::from(layout.l3) + ipv4::FRAGMENT_AT);
    match layout.network {
        Network::V4 => u32::from(word & ipv4::OFFSET_MASK) * 8,
        _ => 0,
    }
}

/// Whether nothing of a packet's datagram is or can become a fragment (RFC 6864): such may have any
/// identification. A packet that is not IPv4 is taken for one.
#[must_use]
#[inline(always)]
pub fn is_atomic(frame: &[u8], layout: &Layout) -> bool {
    let may_fragment =
        || u16_at(frame, usize::from(layout.l3) + ipv4::FRAGMENT_AT) & ipv4::DONT_FRAGMENT == 0;
    layout.network != Network::V4 || layout.fragment == Fragment::Whole && !may_fragment()
}

/// The source address; `::` if the frame is not IP.
#[must_use]
#[inline(always)]
pub fn source_address(frame: &[u8], layout: &Layout) -> Address {
    address(frame, layout.network, layout.l3, Side::Source)
}

/// The destination address; `::` if the frame is not IP.
#[must_use]
#[inline(always)]
pub fn destination_address(frame: &[u8], layout: &Layout) -> Address {
    address(frame, layout.network, layout.l3, Side::Destination)
}

/// The source port, as in [`source`].
#[must_use]
#[inline(always)]
pub fn source_port(frame: &[u8], layout: &Layout) -> u16 {
    port_at(frame, layout, Side::Source).map_or(0, |at| u16_at(frame, at))
}

/// The destination port, as in [`source`].
#[must_use]
#[inline(always)]
pub fn destination_port(frame: &[u8], layout: &Layout) -> u16 {
    port_at(frame, layout, Side::Destination).map_or(0, |at| u16_at(frame, at))
}

/// Both ends of a TCP or UDP packet over IPv4, each as a number: 32 bits of address in front of 16
/// bits of port. Source first; `None` for every other packet.
#[must_use]
#[inline(always)]
pub fn v4_ends(frame: &[u8], layout: &Layout) -> Option<(u64, u64)> {
    let has_ports = matches!(layout.transport, Transport::Tcp | Transport::Udp);
    if layout.network != Network::V4 || !has_ports {
        return None;
    }
    let addresses: [u8; 8] = array_at(frame, usize::from(layout.l3) + ipv4::SOURCE_AT)?;
    let ports: [u8; 4] = array_at(frame, usize::from(layout.l4))?;
    let (addresses, ports) = (u64::from_be_bytes(addresses), u32::from_be_bytes(ports));
    let source = addresses >> 32 << 16 | u64::from(ports >> 16);
    let destination = (addresses & 0xffff_ffff) << 16 | u64::from(ports & 0xffff);
    Some((source, destination))
}

/// Source address and destination address of a TCP or UDP packet over IPv6, and its ports as they
/// lie in the header, that of the source in the upper half. `None` for every other packet.
#[must_use]
#[inline(always)]
pub fn v6_ends(frame: &[u8], layout: &Layout) -> Option<([Address; 2], u32)> {
    let has_ports = matches!(layout.transport, Transport::Tcp | Transport::Udp);
    if layout.network != Network::V6 || !has_ports {
        return None;
    }
    let at = usize::from(layout.l3) + ipv6::SOURCE_AT;
    let addresses: &[u8; 32] = frame.get(at..)?.first_chunk()?;
    let ports = array_at(frame, usize::from(layout.l4))?;
    let [source, destination] = [0, 16].map(|at| Address(u128_at(addresses, at)));
    Some(([source, destination], u32::from_be_bytes(ports)))
}

/// Who sent the packet inside an ICMP error. Its source is the one who will read the error.
#[must_use]
pub fn inner_source(frame: &[u8], layout: &Layout) -> Option<Endpoint> {
    Some(inner_endpoint(frame, &layout.inner?, Side::Source))
}

/// Whom the packet inside an ICMP error was for.
#[must_use]
pub fn inner_destination(frame: &[u8], layout: &Layout) -> Option<Endpoint> {
    Some(inner_endpoint(frame, &layout.inner?, Side::Destination))
}

/// The sequence number of the TCP segment inside an ICMP error; `None` if it is no TCP.
#[must_use]
pub fn inner_tcp_sequence(frame: &[u8], layout: &Layout) -> Option<u32> {
    let inner = layout
        .inner
        .filter(|inner| inner.protocol == protocol::TCP)?;
    Some(u32_at(frame, usize::from(inner.l4) + tcp::SEQUENCE_AT))
}

/// The frame's source on this link.
#[must_use]
pub fn source_mac(frame: &[u8]) -> MacAddress {
    MacAddress(array_at(frame, 6).unwrap_or_default())
}

/// The frame's destination on this link.
#[must_use]
pub fn destination_mac(frame: &[u8]) -> MacAddress {
    MacAddress(array_at(frame, 0).unwrap_or_default())
}

/// Whether the sender says by which hosts the packet is to go: IPv4's loose and strict source routes,
/// IPv6's routing header of type 0 with segments left (RFC 5095).
#[must_use]
pub fn is_source_routed(frame: &[u8], layout: &Layout) -> bool {
    let headers = frame.get(usize::from(layout.l3)..layout.l4.into());
    let headers = headers.unwrap_or(&[]);
    match layout.network {
        Network::V4 => ipv4::has_source_route(headers),
        Network::V6 => ipv6::has_segments_left(headers),
        Network::None => false,
    }
}

/// Time to live or hop limit; zero if the frame is not IP.
#[must_use]
#[inline]
pub fn ttl(frame: &[u8], layout: &Layout) -> u8 {
    match layout.network {
        Network::V4 => u8_at(frame, usize::from(layout.l3) + ipv4::TTL_AT),
        Network::V6 => u8_at(frame, usize::from(layout.l3) + ipv6::HOP_LIMIT_AT),
        Network::None => 0,
    }
}

/// TCP sequence number; zero if the packet is not TCP.
#[must_use]
#[inline]
pub fn tcp_seq(frame: &[u8], layout: &Layout) -> u32 {
    tcp_field(layout, tcp::SEQUENCE_AT).map_or(0, |at| u32_at(frame, at))
}

/// TCP acknowledgement number; zero if the packet is not TCP.
#[must_use]
#[inline]
pub fn tcp_ack(frame: &[u8], layout: &Layout) -> u32 {
    tcp_field(layout, tcp::ACKNOWLEDGEMENT_AT).map_or(0, |at| u32_at(frame, at))
}

/// TCP flags, see [`tcp::flags`]; zero if the packet is not TCP.
#[must_use]
#[inline]
pub fn tcp_flags(frame: &[u8], layout: &Layout) -> u8 {
    tcp_field(layout, tcp::FLAGS_AT).map_or(0, |at| u8_at(frame, at))
}

/// TCP window, not scaled; zero if the packet is not TCP.
#[must_use]
#[inline]
pub fn tcp_window(frame: &[u8], layout: &Layout) -> u16 {
    tcp_field(layout, tcp::WINDOW_AT).map_or(0, |at| u16_at(frame, at))
}

/// The TCP options; none if the packet is not TCP.
#[must_use]
pub fn tcp_options<'a>(frame: &'a [u8], layout: &Layout) -> tcp::TcpOptions<'a> {
    let options = tcp_field(layout, tcp::HEADER_BYTES)
        .and_then(|start| frame.get(start..usize::from(layout.payload)));
    tcp::TcpOptions::new(options.unwrap_or(&[]))
}

/// ICMP type and code, of either IP version.
#[must_use]
#[inline]
pub fn icmp_kind(frame: &[u8], layout: &Layout) -> Option<(u8, u8)> {
    let l4 = usize::from(layout.l4);
    let is_icmp = matches!(layout.transport, Transport::Icmp | Transport::Icmp6);
    is_icmp.then(|| (u8_at(frame, l4), u8_at(frame, l4 + 1)))
}

/// What follows the transport header, up to the end of the IP datagram, and for a whole UDP
/// datagram only as far as its own length says. Never contains Ethernet padding.
#[must_use]
#[inline]
pub fn payload<'a>(frame: &'a [u8], layout: &Layout) -> &'a [u8] {
    let end = transport_end(frame, layout);
    frame.get(usize::from(layout.payload)..end).unwrap_or(&[])
}

/// Where the transport's own data ends: UDP may be shorter than the IP datagram around it.
#[inline(always)]
pub(crate) fn transport_end(frame: &[u8], layout: &Layout) -> usize {
    let end = layout.end as usize;
    if layout.transport != Transport::Udp || layout.fragment != Fragment::Whole {
        return end;
    }
    let l4 = usize::from(layout.l4);
    end.min(l4 + usize::from(u16_at(frame, l4 + udp::LENGTH_AT)))
}

/// One of the two ends of a packet.
#[derive(Copy, Clone, PartialEq, Eq)]
pub(crate) enum Side {
    Source,
    Destination,
}

impl Side {
    /// Offset of this side's address in an IP header.
    #[inline(always)]
    pub(crate) const fn address_at(self, network: Network) -> usize {
        match (network, self) {
            (Network::V6, Self::Source) => ipv6::SOURCE_AT,
            (Network::V6, Self::Destination) => ipv6::DESTINATION_AT,
            (_, Self::Source) => ipv4::SOURCE_AT,
            (_, Self::Destination) => ipv4::DESTINATION_AT,
        }
    }

    /// Offset of this side's port in a TCP or UDP header.
    #[inline(always)]
    pub(crate) const fn port_at(self) -> usize {
        match self {
            Self::Source => 0,
            Self::Destination => 2,
        }
    }
}

#[inline(always)]
fn address(frame: &[u8], network: Network, l3: u16, side: Side) -> Address {
    let at = usize::from(l3) + side.address_at(network);
    match network {
        Network::V4 => Address::from_v4(array_at(frame, at).unwrap_or_default()),
        Network::V6 => Address(u128_at(frame, at)),
        Network::None => Address::UNSPECIFIED_V6,
    }
}

/// Offset of the port in the frame, or of an ICMP echo's identifier.
#[inline(always)]
pub(crate) fn port_at(frame: &[u8], layout: &Layout, side: Side) -> Option<usize> {
    let l4 = usize::from(layout.l4);
    match layout.transport {
        Transport::Tcp | Transport::Udp => Some(l4 + side.port_at()),
        Transport::Icmp | Transport::Icmp6 => identifier_at(frame, layout.network, l4),
        Transport::None | Transport::Other => None,
    }
}

/// As [`port_at`], in the packet inside an ICMP error.
pub(crate) fn inner_port_at(frame: &[u8], inner: &Inner, side: Side) -> Option<usize> {
    let l4 = usize::from(inner.l4);
    match (inner.protocol, inner.network) {
        (protocol::TCP | protocol::UDP, _) => Some(l4 + side.port_at()),
        (protocol::ICMP, Network::V4) | (protocol::ICMP6, Network::V6) => {
            identifier_at(frame, inner.network, l4)
        }
        _ => None,
    }
}

fn identifier_at(frame: &[u8], network: Network, l4: usize) -> Option<usize> {
    icmp::is_echo(network, *frame.get(l4)?).then_some(l4 + icmp::IDENTIFIER_AT)
}

fn inner_endpoint(frame: &[u8], inner: &Inner, side: Side) -> Endpoint {
    let port = inner_port_at(frame, inner, side).map_or(0, |at| u16_at(frame, at));
    Endpoint::new(address(frame, inner.network, inner.l3, side), port)
}

#[inline(always)]
pub(crate) fn tcp_field(layout: &Layout, offset: usize) -> Option<usize> {
    (layout.transport == Transport::Tcp).then_some(usize::from(layout.l4) + offset)
}
