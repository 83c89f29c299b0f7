//! A packet of one IP version as one of the other (RFC 7915).

use super::ends::{Ends, Untranslatable, mend};
use super::icmp;
use twinpath_core::wire::checksum::{finish_udp, pseudo_header, sum};
use twinpath_core::wire::ipv4::{self, Ipv4Repr, Ipv4View};
use twinpath_core::wire::ipv6::{self, FRAGMENT_HEADER_BYTES, FragmentRepr, Ipv6Repr, Ipv6View};
use twinpath_core::wire::options::OptionBytes;
use twinpath_core::wire::{protocol, tcp, udp};

/// The least that every IPv6 link carries, in bytes of IPv4: what is shorter may be fragmented
/// (RFC 7915 §5.1).
const ATOMIC: usize = 1260;
/// Loose and strict source routes.
const SOURCE_ROUTES: [u8; 2] = [131, 137];

/// Which part of a datagram a packet is.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Part {
    pub offset_bytes: u32,
    pub more: bool,
    pub identification: u32,
}

impl Part {
    /// Whether the packet is not all of its datagram.
    pub fn is_part(self) -> bool {
        self.more || self.offset_bytes > 0
    }
}

/// What an IP header says, in either version.
#[derive(Copy, Clone, Debug)]
pub(super) struct Datagram<'a> {
    pub traffic_class: u8,
    pub time_to_live: u8,
    pub protocol: u8,
    pub part: Part,
    pub may_fragment: bool,
    /// What follows the headers, as far as it is there, and how long it is.
    pub upper: &'a [u8],
    pub upper_bytes: usize,
}

impl<'a> Datagram<'a> {
    /// Reads a packet, or what an ICMP error quotes of one.
    pub fn of_v4(bytes: &'a [u8]) -> Result<Self, Untranslatable> {
        let view = Ipv4View::new_quoted(bytes).map_err(|_| Untranslatable::Header)?;
        for option in view.options() {
            let option = option.map_err(|_| Untranslatable::Header)?;
            // The pointer is behind the last hop once there are none left.
            let is_over = option
                .data
                .first()
                .is_none_or(|pointer| usize::from(*pointer) > option.data.len() + 2);
            if SOURCE_ROUTES.contains(&option.kind) && !is_over {
                return Err(Untranslatable::Header);
            }
        }
        let length = usize::from(view.total_length());
        let header = view.header_bytes();
        Ok(Self {
            traffic_class: view.dscp() << 2 | view.ecn(),
            time_to_live: view.ttl(),
            protocol: view.protocol(),
            part: Part {
                offset_bytes: view.fragment_offset_bytes(),
                more: view.more_fragments(),
                identification: view.identification().into(),
            },
            may_fragment: !view.dont_fragment(),
            upper: bytes.get(header..length.min(bytes.len())).unwrap_or(&[]),
            upper_bytes: length.saturating_sub(header),
        })
    }

    /// As [`Self::of_v4`]. Extension headers are skipped, but for one of a fragment.
    pub fn of_v6(bytes: &'a [u8]) -> Result<Self, Untranslatable> {
        let view = Ipv6View::new_quoted(bytes).map_err(|_| Untranslatable::Header)?;
        let extensions = view.extensions().map_err(|_| Untranslatable::Header)?;
        // Segments left of a routing header.
        let has_stops = |at: usize| view.payload().get(at + 3) != Some(&0);
        if extensions.routing.is_some_and(has_stops) {
            return Err(Untranslatable::Header);
        }
        let part = match extensions.identification {
            Some(_) => part_of_v6(&view).ok_or(Untranslatable::Header)?,
            None => Part::default(),
        };
        Ok(Self {
            traffic_class: view.traffic_class(),
            time_to_live: view.hop_limit(),
            protocol: extensions.protocol,
            part,
            may_fragment: extensions.identification.is_some(),
            upper: view.payload().get(extensions.length..).unwrap_or(&[]),
            upper_bytes: usize::from(view.payload_length()).saturating_sub(extensions.length),
        })
    }

    /// The same at the next hop.
    pub fn forwarded(mut self) -> Result<Self, Untranslatable> {
        if self.time_to_live <= 1 {
            return Err(Untranslatable::TimeToLive);
        }
        self.time_to_live -= 1;
        Ok(self)
    }

    /// Writes it as IPv4 between these ends. Returns its bytes.
    pub fn write_v4(&self, old: Ends, new: Ends, out: &mut [u8]) -> Result<usize, Untranslatable> {
        let upper = out.get_mut(ipv4::HEADER_BYTES..).unwrap_or_default();
        let written = self.write_upper(old, new, upper)?;
        self.write_header_v4(new, self.upper_bytes, out)?;
        Ok(ipv4::HEADER_BYTES + written)
    }

    /// Writes it as IPv6 between these ends. Returns its bytes.
    pub fn write_v6(&self, old: Ends, new: Ends, out: &mut [u8]) -> Result<usize, Untranslatable> {
        let headers = self.headers_v6();
        let upper = out.get_mut(headers..).unwrap_or_default();
        let written = self.write_upper(old, new, upper)?;
        self.write_header_v6(new, self.upper_bytes, out)?;
        Ok(headers + written)
    }

    /// Writes the headers alone, in front of so many bytes of another message. Returns the bytes of all.
    pub fn write_header(
        &self,
        to_v4: bool,
        new: Ends,
        upper_bytes: usize,
        out: &mut [u8],
    ) -> Result<usize, Untranslatable> {
        match to_v4 {
            true => self.write_header_v4(new, upper_bytes, out)?,
            false => self.write_header_v6(new, upper_bytes, out)?,
        }
        let headers = if to_v4 {
            ipv4::HEADER_BYTES
        } else {
            self.headers_v6()
        };
        Ok(headers + upper_bytes)
    }

    fn write_header_v4(
        &self,
        new: Ends,
        upper_bytes: usize,
        out: &mut [u8],
    ) -> Result<(), Untranslatable> {
        let protocol = match self.protocol {
            protocol::ICMP6 => protocol::ICMP,
            other => other,
        };
        let is_part = self.part.is_part();
        let header = Ipv4Repr {
            source: new.source.address,
            destination: new.destination.address,
            protocol,
            ttl: self.time_to_live,
            dscp: self.traffic_class >> 2,
            ecn: self.traffic_class & 3,
            // One is drawn for what is not atomic.
            identification: self.part.identification as u16,
            dont_fragment: !is_part && ipv4::HEADER_BYTES + upper_bytes > ATOMIC,
            more_fragments: self.part.more,
            fragment_offset_bytes: self.part.offset_bytes,
            options: OptionBytes::EMPTY,
            payload_bytes: u16::try_from(upper_bytes).map_err(|_| Untranslatable::TooLong)?,
        };
        header.emit(out).map_err(|_| Untranslatable::TooLong)
    }

    /// How long it is in IPv6.
    pub fn bytes_v6(&self) -> usize {
        self.headers_v6() + self.upper_bytes
    }

    /// Bytes of the headers in IPv6.
    fn headers_v6(&self) -> usize {
        match self.part.is_part() {
            true => ipv6::HEADER_BYTES + FRAGMENT_HEADER_BYTES,
            false => ipv6::HEADER_BYTES,
        }
    }

    fn write_header_v6(
        &self,
        new: Ends,
        upper_bytes: usize,
        out: &mut [u8],
    ) -> Result<(), Untranslatable> {
        let next_header = match self.protocol {
            protocol::ICMP => protocol::ICMP6,
            other => other,
        };
        let is_part = self.part.is_part();
        let payload_bytes = self.headers_v6() - ipv6::HEADER_BYTES + upper_bytes;
        let header = Ipv6Repr {
            source: new.source.address,
            destination: new.destination.address,
            next_header: if is_part {
                protocol::FRAGMENT
            } else {
                next_header
            },
            hop_limit: self.time_to_live,
            traffic_class: self.traffic_class,
            flow_label: 0,
            payload_bytes: u16::try_from(payload_bytes).map_err(|_| Untranslatable::TooLong)?,
        };
        header.emit(out).map_err(|_| Untranslatable::TooLong)?;
        if !is_part {
            return Ok(());
        }
        let fragment = FragmentRepr {
            next_header,
            offset_bytes: self.part.offset_bytes,
            more: self.part.more,
            identification: self.part.identification,
        };
        let behind = out.get_mut(ipv6::HEADER_BYTES..).unwrap_or_default();
        fragment.emit(behind).map_err(|_| Untranslatable::TooLong)
    }

    /// Writes what follows the headers: ports, and what checksums cover. Returns how much was written.
    fn write_upper(&self, old: Ends, new: Ends, out: &mut [u8]) -> Result<usize, Untranslatable> {
        let out = out
            .get_mut(..self.upper.len())
            .ok_or(Untranslatable::TooLong)?;
        out.copy_from_slice(self.upper);
        if self.part.offset_bytes > 0 {
            return Ok(out.len());
        }
        match self.protocol {
            protocol::TCP => write_ports(out, tcp::CHECKSUM_AT, old, new),
            protocol::UDP => self.write_udp(out, old, new)?,
            protocol::ICMP | protocol::ICMP6 if self.part.is_part() => {
                return Err(Untranslatable::Part);
            }
            protocol::ICMP | protocol::ICMP6 => {
                icmp::translate_echo(out, self.upper_bytes, old, new)?;
            }
            _ => {}
        }
        Ok(out.len())
    }

    /// IPv4 may have no checksum, IPv6 must (RFC 7915 §4.5).
    fn write_udp(&self, out: &mut [u8], old: Ends, new: Ends) -> Result<(), Untranslatable> {
        let has_checksum = out.get(udp::CHECKSUM_AT..udp::CHECKSUM_AT + 2) != Some(&[0, 0]);
        write_ports(out, udp::CHECKSUM_AT, old, new);
        if has_checksum || new.source.address.is_v4() || out.len() < self.upper_bytes {
            return Ok(());
        }
        if self.part.is_part() {
            return Err(Untranslatable::Part);
        }
        let length = out.len() as u32;
        let (source, destination) = (new.source.address, new.destination.address);
        let total = sum(out) + pseudo_header(source, destination, protocol::UDP, length);
        let checksum = finish_udp(total).to_be_bytes();
        if let Some(place) = out.get_mut(udp::CHECKSUM_AT..udp::CHECKSUM_AT + 2) {
            place.copy_from_slice(&checksum);
        }
        Ok(())
    }
}

/// What the fragment header says.
fn part_of_v6(view: &Ipv6View<'_>) -> Option<Part> {
    let (mut next, mut rest) = (view.next_header(), view.payload());
    while next != protocol::FRAGMENT {
        let length = match next {
            protocol::HOP_BY_HOP | protocol::DESTINATION_OPTIONS | protocol::ROUTING => {
                8 + 8 * usize::from(*rest.get(1)?)
            }
            protocol::AUTHENTICATION => 8 + 4 * usize::from(*rest.get(1)?),
            _ => return None,
        };
        (next, rest) = (*rest.first()?, rest.get(length..)?);
    }
    let header = FragmentRepr::parse(rest.first_chunk()?);
    Some(Part {
        offset_bytes: header.offset_bytes,
        more: header.more,
        identification: header.identification,
    })
}

/// Sets the ports of a header and mends the checksum at a place of it, which covers addresses too.
fn write_ports(upper: &mut [u8], checksum_at: usize, old: Ends, new: Ends) {
    let Some(ports) = upper.first_chunk_mut::<4>() else {
        return;
    };
    ports[..2].copy_from_slice(&new.source.port.to_be_bytes());
    ports[2..].copy_from_slice(&new.destination.port.to_be_bytes());
    let is_udp = checksum_at == udp::CHECKSUM_AT;
    mend(upper, checksum_at, total(old), total(new), is_udp);
}

/// What checksums cover of both ends: the addresses of either version, and ports.
pub(super) fn total(ends: Ends) -> u64 {
    let addresses = pseudo_header(ends.source.address, ends.destination.address, 0, 0);
    addresses + u64::from(ends.source.port) + u64::from(ends.destination.port)
}
