use super::{Fragment, Layout, MAX_FRAME_BYTES, Network, Transport};
use crate::bytes::{array_at, u8_at, u16_at, u32_at, u64_at};
use crate::{checksum, ethernet, ipv4, ipv6, protocol, tcp, udp, vlan};

/// What nearly every frame is: Ethernet with one VLAN tag at most, IPv4 without options, whole, with
/// TCP or UDP.
///
/// It says as much as a [`Layout`] in a third of the room, since all headers but the last begin
/// at places that one number tells.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Plain {
    end: u32,
    payload: u16,
    l3: u8,
    is_udp: bool,
}

/// Where the IP header begins without a tag, and behind one.
const UNTAGGED: usize = ethernet::HEADER_BYTES;
const TAGGED: usize = ethernet::HEADER_BYTES + vlan::TAG_BYTES;

/// Addresses and ports of a plain packet, as they lie in its headers.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct PlainEnds {
    /// Source address and destination address.
    pub addresses: u64,
    /// Source port and destination port.
    pub ports: u32,
}

impl PlainEnds {
    /// Source and destination, each an address and behind it a port, as
    /// [`v4_ends`](crate::fields::v4_ends) has them.
    #[inline(always)]
    #[must_use]
    pub const fn of((source, destination): (u64, u64)) -> Self {
        Self {
            addresses: source >> 16 << 32 | destination >> 16,
            ports: (source as u16 as u32) << 16 | destination as u16 as u32,
        }
    }
}

impl Plain {
    /// Where the transport header of an untagged frame begins.
    pub const UNTAGGED_L4: usize = UNTAGGED + ipv4::HEADER_BYTES;

    /// Looks whether a frame is plain. `None` means "look closer", not that anything is wrong.
    #[inline(always)]
    #[must_use]
    pub fn of(frame: &[u8]) -> Option<Self> {
        Self::with_ends(frame).map(|(plain, _)| plain)
    }

    /// The same, with its addresses and ports.
    #[inline(always)]
    #[must_use]
    pub fn with_ends(frame: &[u8]) -> Option<(Self, PlainEnds)> {
        match ends_behind::<UNTAGGED>(frame) {
            None if protocol::is_vlan(u16_at(frame, UNTAGGED - 2)) => ends_behind::<TAGGED>(frame),
            plain => plain,
        }
    }

    /// Looks whether a frame is plain and has no tag: all headers but the last begin at fixed places.
    #[inline(always)]
    #[must_use]
    pub fn untagged(frame: &[u8]) -> Option<Self> {
        behind::<UNTAGGED>(frame)
    }

    /// The same as a layout.
    #[inline(always)]
    #[must_use]
    pub const fn layout(self) -> Layout {
        Layout {
            l3: self.l3 as u16,
            l4: self.l4() as u16,
            payload: self.payload,
            end: self.end,
            network: Network::V4,
            transport: match self.is_udp {
                true => Transport::Udp,
                false => Transport::Tcp,
            },
            protocol: self.protocol(),
            fragment: Fragment::Whole,
            inner: None,
        }
    }

    /// Where the IP header begins.
    #[inline(always)]
    #[must_use]
    pub const fn l3(self) -> usize {
        self.l3 as usize
    }

    /// Where the transport header begins.
    #[inline(always)]
    #[must_use]
    pub const fn l4(self) -> usize {
        self.l3() + ipv4::HEADER_BYTES
    }

    /// Whether it is UDP; otherwise it is TCP.
    #[inline(always)]
    #[must_use]
    pub const fn is_udp(self) -> bool {
        self.is_udp
    }

    /// The IP protocol number.
    #[inline(always)]
    #[must_use]
    pub const fn protocol(self) -> u8 {
        match self.is_udp {
            true => protocol::UDP,
            false => protocol::TCP,
        }
    }

    /// Bytes of payload after the transport header.
    #[inline(always)]
    #[must_use]
    pub const fn payload_bytes(self) -> u32 {
        self.end - self.payload as u32
    }

    /// Bytes of the IP packet.
    #[inline(always)]
    #[must_use]
    pub const fn packet_bytes(self) -> u32 {
        self.end - self.l3 as u32
    }

    /// The TCP header without its options; `None` if it is UDP.
    #[inline(always)]
    #[must_use]
    pub fn tcp_header(self, frame: &[u8]) -> Option<&[u8; tcp::HEADER_BYTES]> {
        match self.is_udp {
            true => None,
            false => frame.get(self.l4()..)?.first_chunk(),
        }
    }

    /// Addresses and ports.
    #[inline(always)]
    #[must_use]
    pub fn ends(self, frame: &[u8]) -> PlainEnds {
        PlainEnds {
            addresses: self.addresses(frame),
            ports: self.ports(frame),
        }
    }

    /// Source address and destination address.
    #[inline(always)]
    #[must_use]
    pub fn addresses(self, frame: &[u8]) -> u64 {
        array_at(frame, self.l3() + ipv4::SOURCE_AT).map_or(0, u64::from_be_bytes)
    }

    /// Source port and destination port.
    #[inline(always)]
    #[must_use]
    pub fn ports(self, frame: &[u8]) -> u32 {
        u32_at(frame, self.l4())
    }

    /// Whether the IPv4 header's checksum holds.
    #[inline(always)]
    #[must_use]
    pub fn has_valid_checksum(self, frame: &[u8]) -> bool {
        array_at(frame, self.l3()).is_some_and(|header| checksum::is_valid_header(&header))
    }

    /// TCP flags; 0 if it is UDP.
    #[inline(always)]
    #[must_use]
    pub fn tcp_flags(self, frame: &[u8]) -> u8 {
        match self.is_udp {
            true => 0,
            false => frame
                .get(self.l4() + tcp::FLAGS_AT)
                .map_or(0, |flags| *flags),
        }
    }
}

/// Such a packet behind `L3` bytes of Ethernet and tags. It is for the caller to know that they end
/// there; the EtherType is looked at here.
#[inline(always)]
fn behind<const L3: usize>(frame: &[u8]) -> Option<Plain> {
    let l4 = L3 + ipv4::HEADER_BYTES;
    if frame.len() < l4 + udp::HEADER_BYTES || frame.len() > MAX_FRAME_BYTES {
        return None;
    }
    // EtherType, version and header length in one comparison.
    let start = u32_at(frame, L3 - 2);
    let end = L3 + usize::from(u16_at(frame, L3 + ipv4::TOTAL_LENGTH_AT));
    if start & 0xffff_ff00 != 0x0800_4500 || end > frame.len() {
        return None;
    }
    // Fragment offset, "more fragments" and protocol in another.
    let kind = u32_at(frame, L3 + FRAGMENT_AT) & 0x3fff_00ff;
    let (is_udp, header_bytes) = match kind {
        PLAIN_TCP => (false, tcp_header_bytes(frame, l4)?),
        PLAIN_UDP => (true, udp_header_bytes(frame, l4, end)?),
        _ => return None,
    };
    let payload = l4 + header_bytes;
    if payload > end {
        return None;
    }
    Some(Plain {
        end: end as u32,
        payload: payload as u16,
        l3: L3 as u8,
        is_udp,
    })
}

/// The same with its ends, which lie where `L3` tells: nothing has to be looked at again.
#[inline(always)]
fn ends_behind<const L3: usize>(frame: &[u8]) -> Option<(Plain, PlainEnds)> {
    let plain = behind::<L3>(frame)?;
    let ends = PlainEnds {
        addresses: u64_at(frame, L3 + ipv4::SOURCE_AT),
        ports: u32_at(frame, L3 + ipv4::HEADER_BYTES),
    };
    Some((plain, ends))
}

/// The layout of a whole IPv6 packet without extension headers, with TCP or UDP, behind one tag at
/// most. `None` for every other frame, be it good or bad.
#[inline(always)]
pub(super) fn plain_v6(frame: &[u8]) -> Option<Layout> {
    match u16_at(frame, UNTAGGED - 2) {
        protocol::ETHER_IPV6 => v6_behind::<UNTAGGED>(frame),
        tag if protocol::is_vlan(tag) => v6_behind::<TAGGED>(frame),
        _ => None,
    }
}

/// Such a packet behind `L3` bytes of Ethernet and tags, as for [`behind`].
#[inline(always)]
fn v6_behind<const L3: usize>(frame: &[u8]) -> Option<Layout> {
    let l4 = L3 + ipv6::HEADER_BYTES;
    if frame.len() < l4 + udp::HEADER_BYTES || frame.len() > MAX_FRAME_BYTES {
        return None;
    }
    // EtherType and version; no address is an IPv4 one in disguise if its upper half says so.
    let start = u32_at(frame, L3 - 2);
    let end = l4 + usize::from(u16_at(frame, L3 + ipv6::PAYLOAD_LENGTH_AT));
    let source = u64_at(frame, L3 + ipv6::SOURCE_AT);
    let destination = u64_at(frame, L3 + ipv6::DESTINATION_AT);
    let is_mapped = source == 0 || destination == 0;
    if start & 0xffff_f000 != 0x86dd_6000 || end > frame.len() || is_mapped {
        return None;
    }
    let protocol = u8_at(frame, L3 + ipv6::NEXT_HEADER_AT);
    let (transport, header_bytes) = match protocol {
        protocol::TCP => (Transport::Tcp, tcp_header_bytes(frame, l4)?),
        protocol::UDP => (Transport::Udp, udp_header_bytes(frame, l4, end)?),
        _ => return None,
    };
    let payload = l4 + header_bytes;
    (payload <= end).then_some(Layout {
        l3: L3 as u16,
        l4: l4 as u16,
        payload: payload as u16,
        end: end as u32,
        network: Network::V6,
        transport,
        protocol,
        fragment: Fragment::Whole,
        inner: None,
    })
}

/// Offset of flags and fragment offset within the IPv4 header; TTL and protocol follow.
const FRAGMENT_AT: usize = 6;
const PLAIN_TCP: u32 = protocol::TCP as u32;
const PLAIN_UDP: u32 = protocol::UDP as u32;

#[inline(always)]
fn tcp_header_bytes(frame: &[u8], l4: usize) -> Option<usize> {
    let header_bytes = usize::from(*frame.get(l4 + 12)? >> 4) * 4;
    (header_bytes >= tcp::HEADER_BYTES).then_some(header_bytes)
}

#[inline(always)]
fn udp_header_bytes(frame: &[u8], l4: usize, end: usize) -> Option<usize> {
    let length = usize::from(u16_at(frame, l4 + udp::LENGTH_AT));
    (length >= udp::HEADER_BYTES && l4 + length <= end).then_some(udp::HEADER_BYTES)
}

#[cfg(test)]
mod tests;
