//! A packet of one IP version as one of the other, in its place: headers alone are rewritten, and what
//! is in front of them moves up or down (the stateless translation of RFC 7915).
//!
//! This is for a device that a packet's ends do not see: time to live and traffic class stay as they
//! are, and of ICMP only echoes are translated. A translator that is a hop of its own, and
//! translates errors, is the function `nat64`.

use thiserror::Error;

use crate::address::Address;
use crate::bytes::{array_at, put, u8_at, u16_at};
use crate::checksum::{self, Delta};
use crate::fields::{self, transport_end};
use crate::icmp::{v4, v6};
use crate::ipv4::{self, Ipv4Repr};
use crate::ipv6::{self, FRAGMENT_HEADER_BYTES, FragmentRepr, Ipv6Repr, Ipv6View};
use crate::layout::{Fragment, Layout, Network, Transport};
use crate::options::OptionBytes;
use crate::verify::checksum_at;
use crate::{ethernet, icmp, protocol};

/// The longest IPv4 packet that links of IPv6 carry in any case: a longer one must not be fragmented
/// (RFC 7915 §5.1).
const LONGEST_ANYWHERE: usize = 1260;

/// By how much a frame grows at most.
pub const MOST_GROWTH: usize = ipv6::HEADER_BYTES + FRAGMENT_HEADER_BYTES - ipv4::HEADER_BYTES;

/// Why a packet has no counterpart.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Error)]
pub enum Untranslatable {
    /// Not IP behind Ethernet and VLAN tags, or addresses that are of the packet's own version.
    #[error("not an IP packet behind Ethernet, or no addresses of the other version")]
    Family,
    /// ICMP other than an echo, or a fragment of one, whose checksum cannot be mended.
    #[error("ICMP other than a whole echo")]
    Icmp,
    /// A fragment of a UDP datagram without a checksum, which IPv6 must have.
    #[error("fragment of a UDP datagram without a checksum")]
    Checksum,
    /// An IPv6 packet that is to visit others before its destination, or an IPv4 one.
    #[error("source route")]
    SourceRoute,
    /// An IPv4 packet of a protocol whose number is that of an IPv6 extension header.
    #[error("protocol number of an IPv6 extension header")]
    Protocol,
    /// The packet would be longer than a header can say.
    #[error("longer than a header can say")]
    TooLong,
    /// There is not enough room in front of the frame.
    #[error("no room in front of the frame")]
    Room,
}

/// Turns the frame that begins at `start` of `buffer` into one of the other IP version, from `source`
/// to `destination`. `layout` is that of the frame, which its buffer ends with. Returns where the
/// frame begins now: up to [`MOST_GROWTH`] bytes before, or behind it.
///
/// # Errors
/// See [`Untranslatable`]; the frame is then as it was.
pub fn translate(
    buffer: &mut [u8],
    start: usize,
    layout: &Layout,
    source: Address,
    destination: Address,
) -> Result<usize, Untranslatable> {
    let frame = buffer.get_mut(start..).ok_or(Untranslatable::Room)?;
    let to_v4 = layout.network == Network::V6;
    if !is_plain_link(frame, layout) || [source, destination].map(Address::is_v4) != [to_v4; 2] {
        return Err(Untranslatable::Family);
    }
    let header = Header::read(frame, layout)?;
    let l4 = usize::from(layout.l4);
    let new_bytes = header.bytes(to_v4);
    let link = usize::from(layout.l3);
    let new_start = (start + l4).checked_sub(new_bytes + link);
    let new_start = new_start.ok_or(Untranslatable::Room)?;
    let upper_bytes = (layout.end as usize).saturating_sub(l4);
    let mut written = [0; ipv6::HEADER_BYTES + FRAGMENT_HEADER_BYTES];
    match to_v4 {
        true => header.emit_v4(source, destination, upper_bytes, &mut written)?,
        false => header.emit_v6(source, destination, upper_bytes, &mut written)?,
    }
    mend(frame, layout, source, destination)?;
    buffer.copy_within(start..start + link, new_start);
    let ether_type = match to_v4 {
        true => protocol::ETHER_IPV4,
        false => protocol::ETHER_IPV6,
    };
    let l3 = new_start + link;
    put(buffer, l3 - 2, ether_type.to_be_bytes());
    if let Some(place) = buffer.get_mut(l3..l3 + new_bytes) {
        place.copy_from_slice(&written[..new_bytes]);
    }
    Ok(new_start)
}

/// Whether nothing but Ethernet and VLAN tags is in front of the packet, which say nothing of its
/// length.
fn is_plain_link(frame: &[u8], layout: &Layout) -> bool {
    let expected = match layout.network {
        Network::V4 => protocol::ETHER_IPV4,
        Network::V6 => protocol::ETHER_IPV6,
        Network::None => return false,
    };
    let first = u16_at(frame, ethernet::ETHER_TYPE_AT);
    let is_announced = u16_at(frame, usize::from(layout.l3).wrapping_sub(2)) == expected;
    is_announced && (first == expected || protocol::is_vlan(first))
}

/// What both versions have in their headers.
struct Header {
    traffic_class: u8,
    time_to_live: u8,
    protocol: u8,
    identification: u32,
    offset_bytes: u32,
    more: bool,
}

impl Header {
    fn read(frame: &[u8], layout: &Layout) -> Result<Self, Untranslatable> {
        if fields::is_source_routed(frame, layout) {
            return Err(Untranslatable::SourceRoute);
        }
        if layout.network == Network::V4 && ipv6::is_extension(layout.protocol) {
            return Err(Untranslatable::Protocol);
        }
        let l3 = usize::from(layout.l3);
        let mut header = Self {
            traffic_class: 0,
            time_to_live: fields::ttl(frame, layout),
            protocol: other_protocol(layout.protocol),
            identification: 0,
            offset_bytes: 0,
            more: false,
        };
        if layout.network == Network::V4 {
            header.traffic_class = u8_at(frame, l3 + 1);
            let word = u16_at(frame, l3 + ipv4::FRAGMENT_AT);
            header.offset_bytes = u32::from(word & ipv4::OFFSET_MASK) * 8;
            header.more = word & ipv4::MORE_FRAGMENTS != 0;
            header.identification = u16_at(frame, l3 + ipv4::IDENTIFICATION_AT).into();
            return Ok(header);
        }
        header.traffic_class = (u16_at(frame, l3) >> 4) as u8;
        if layout.fragment != Fragment::Whole {
            let packet = frame.get(l3..).unwrap_or(&[]);
            let view = Ipv6View::new_quoted(packet).map_err(|_| Untranslatable::Family)?;
            let (_, part) = view.fragment_header().ok_or(Untranslatable::Family)?;
            header.offset_bytes = part.offset_bytes;
            header.more = part.more;
            header.identification = part.identification;
        }
        Ok(header)
    }

    const fn is_part(&self) -> bool {
        self.more || self.offset_bytes > 0
    }

    const fn bytes(&self, to_v4: bool) -> usize {
        match (to_v4, self.is_part()) {
            (true, _) => ipv4::HEADER_BYTES,
            (false, false) => ipv6::HEADER_BYTES,
            (false, true) => ipv6::HEADER_BYTES + FRAGMENT_HEADER_BYTES,
        }
    }

    fn emit_v4(
        &self,
        source: Address,
        destination: Address,
        upper_bytes: usize,
        out: &mut [u8],
    ) -> Result<(), Untranslatable> {
        let is_part = self.is_part();
        let header = Ipv4Repr {
            source,
            destination,
            protocol: self.protocol,
            ttl: self.time_to_live,
            dscp: self.traffic_class >> 2,
            ecn: self.traffic_class & 3,
            identification: if is_part {
                self.identification as u16
            } else {
                0
            },
            dont_fragment: !is_part && ipv4::HEADER_BYTES + upper_bytes > LONGEST_ANYWHERE,
            more_fragments: self.more,
            fragment_offset_bytes: self.offset_bytes,
            options: OptionBytes::EMPTY,
            payload_bytes: u16::try_from(upper_bytes).map_err(|_| Untranslatable::TooLong)?,
        };
        header.emit(out).map_err(|_| Untranslatable::TooLong)
    }

    fn emit_v6(
        &self,
        source: Address,
        destination: Address,
        upper_bytes: usize,
        out: &mut [u8],
    ) -> Result<(), Untranslatable> {
        let is_part = self.is_part();
        let payload_bytes = self.bytes(false) - ipv6::HEADER_BYTES + upper_bytes;
        let header = Ipv6Repr {
            source,
            destination,
            next_header: if is_part {
                protocol::FRAGMENT
            } else {
                self.protocol
            },
            hop_limit: self.time_to_live,
            traffic_class: self.traffic_class,
            flow_label: 0,
            payload_bytes: u16::try_from(payload_bytes).map_err(|_| Untranslatable::TooLong)?,
        };
        header.emit(out).map_err(|_| Untranslatable::TooLong)?;
        if is_part {
            let part = FragmentRepr {
                next_header: self.protocol,
                offset_bytes: self.offset_bytes,
                more: self.more,
                identification: self.identification,
            };
            let place = out.get_mut(ipv6::HEADER_BYTES..).unwrap_or_default();
            part.emit(place).map_err(|_| Untranslatable::TooLong)?;
        }
        Ok(())
    }
}

const fn other_protocol(number: u8) -> u8 {
    match number {
        protocol::ICMP => protocol::ICMP6,
        protocol::ICMP6 => protocol::ICMP,
        other => other,
    }
}

/// Mends what lies behind the IP header. A pseudo-header of mapped addresses has the sum that IPv4's
/// has.
fn mend(
    frame: &mut [u8],
    layout: &Layout,
    source: Address,
    destination: Address,
) -> Result<(), Untranslatable> {
    let is_icmp = matches!(layout.protocol, protocol::ICMP | protocol::ICMP6);
    if is_icmp {
        return mend_echo(frame, layout, source, destination);
    }
    let Some(at) = checksum_at(layout) else {
        return Ok(());
    };
    let old = u16_at(frame, at);
    let delta = Delta::of128(fields::source_address(frame, layout).0, source.0)
        + Delta::of128(fields::destination_address(frame, layout).0, destination.0);
    let new = match (layout.transport, old) {
        (Transport::Udp, 0) if !source.is_v4() => {
            if layout.fragment != Fragment::Whole {
                return Err(Untranslatable::Checksum);
            }
            let segment = segment(frame, layout);
            let length = segment.len() as u32;
            let pseudo = checksum::pseudo_header(source, destination, protocol::UDP, length);
            checksum::finish_udp(pseudo + checksum::sum(segment))
        }
        (Transport::Udp, _) => delta.apply_udp(old),
        _ => delta.apply(old),
    };
    put(frame, at, new.to_be_bytes());
    Ok(())
}

fn segment<'a>(frame: &'a [u8], layout: &Layout) -> &'a [u8] {
    let end = transport_end(frame, layout);
    frame.get(usize::from(layout.l4)..end).unwrap_or(&[])
}

/// ICMPv6 covers a pseudo-header, ICMP does not.
fn mend_echo(
    frame: &mut [u8],
    layout: &Layout,
    source: Address,
    destination: Address,
) -> Result<(), Untranslatable> {
    let at = usize::from(layout.l4);
    let to_v4 = source.is_v4();
    let kind = match (layout.network, u8_at(frame, at)) {
        (Network::V4, v4::ECHO_REQUEST) => v6::ECHO_REQUEST,
        (Network::V4, v4::ECHO_REPLY) => v6::ECHO_REPLY,
        (Network::V6, v6::ECHO_REQUEST) => v4::ECHO_REQUEST,
        (Network::V6, v6::ECHO_REPLY) => v4::ECHO_REPLY,
        _ => return Err(Untranslatable::Icmp),
    };
    if layout.fragment != Fragment::Whole {
        return Err(Untranslatable::Icmp);
    }
    let length = segment(frame, layout).len() as u32;
    let (six, others) = match to_v4 {
        true => (
            fields::source_address(frame, layout),
            fields::destination_address(frame, layout),
        ),
        false => (source, destination),
    };
    let pseudo = checksum::fold(checksum::pseudo_header(
        six,
        others,
        protocol::ICMP6,
        length,
    ));
    let head: [u8; 2] = array_at(frame, at).unwrap_or_default();
    let word = u16::from_be_bytes(head);
    let turned = u16::from_be_bytes([kind, head[1]]);
    let pseudo = match to_v4 {
        true => Delta::of16(pseudo, 0),
        false => Delta::of16(0, pseudo),
    };
    let old = u16_at(frame, at + icmp::CHECKSUM_AT);
    let new = (Delta::of16(word, turned) + pseudo).apply(old);
    put(frame, at, turned.to_be_bytes());
    put(frame, at + icmp::CHECKSUM_AT, new.to_be_bytes());
    Ok(())
}
