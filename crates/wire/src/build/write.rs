use super::{BuildError, Extension, Message, PacketBuilder, Payload};
use crate::bytes::put;
use crate::ethernet::{self, EthernetRepr};
use crate::icmp::{self, IcmpMessage, IcmpRepr};
use crate::ipv4::Ipv4Repr;
use crate::ipv6::{self, FragmentRepr, Ipv6Repr};
use crate::layout::{Fragment, MAX_FRAME_BYTES, Network, dissect};
use crate::rewrite::{refresh_checksums, refresh_transport};
use crate::tcp::TcpRepr;
use crate::udp::{self, UdpRepr};
use crate::vlan::{self, VlanRepr};
use crate::{ipv4, link, protocol};

/// Where the parts of the frame begin.
struct Parts {
    l3: usize,
    extensions: usize,
    l4: usize,
    payload: usize,
    end: usize,
}

impl PacketBuilder<'_> {
    /// Writes the frame with valid checksums to the start of `out` and returns its length.
    /// Allocates nothing.
    ///
    /// # Errors
    /// The first setter's that went wrong; [`BuildError::BufferTooSmall`]; others if the parts do
    /// not fit together.
    pub fn write(&self, out: &mut [u8]) -> Result<usize, BuildError> {
        if let Some(why) = self.error {
            return Err(why);
        }
        let parts = self.parts();
        let length = self.frame_bytes();
        if length > MAX_FRAME_BYTES {
            return Err(BuildError::TooLong);
        }
        let frame = out.get_mut(..length).ok_or(BuildError::BufferTooSmall)?;
        self.write_link(frame)?;
        match self.network() {
            Network::V4 => self.write_ipv4(frame, &parts)?,
            _ => self.write_ipv6(frame, &parts)?,
        }
        self.write_transport(&mut frame[parts.l4..], &parts)?;
        self.payload.write(&mut frame[parts.payload..parts.end]);
        link::set_end(frame, parts.end);
        frame[parts.end..].fill(0);
        self.write_checksums(frame)?;
        Ok(length)
    }

    /// The frame in a vector of its own.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    pub fn to_vec(&self) -> Result<Vec<u8>, BuildError> {
        let mut frame = vec![0; self.frame_bytes().min(MAX_FRAME_BYTES)];
        self.write(&mut frame)?;
        Ok(frame)
    }

    /// How many bytes [`write`](Self::write) needs.
    #[must_use]
    pub fn frame_bytes(&self) -> usize {
        let end = self.parts().end;
        if self.pad {
            end.max(ethernet::MIN_FRAME_BYTES)
        } else {
            end
        }
    }

    fn network(&self) -> Network {
        if self.source.address.is_v4() {
            Network::V4
        } else {
            Network::V6
        }
    }

    fn parts(&self) -> Parts {
        let l3 = match self.link.len() {
            0 => ethernet::HEADER_BYTES + self.vlan_count * vlan::TAG_BYTES,
            bytes => ethernet::ETHER_TYPE_AT + bytes,
        };
        let fixed = match self.network() {
            Network::V4 => ipv4::HEADER_BYTES + self.ipv4_options.length(),
            _ => ipv6::HEADER_BYTES,
        };
        let extensions = l3 + fixed;
        let l4 = extensions + self.extension_bytes();
        let payload = l4 + self.transport_bytes();
        Parts {
            l3,
            extensions,
            l4,
            payload,
            end: payload.saturating_add(self.payload.len()),
        }
    }

    fn extension_bytes(&self) -> usize {
        let units: usize = self.extensions().map(|(_, units)| usize::from(units)).sum();
        let fragmented = self.network() == Network::V6 && self.fragment.is_some();
        units * 8 + usize::from(fragmented) * ipv6::FRAGMENT_HEADER_BYTES
    }

    fn extensions(&self) -> impl Iterator<Item = (Extension, u8)> {
        self.extensions.iter().copied().take(self.extension_count)
    }

    fn transport_bytes(&self) -> usize {
        if self.is_later_fragment() {
            return 0;
        }
        match &self.message {
            Message::Tcp(header) => header.header_bytes(),
            Message::Udp => udp::HEADER_BYTES,
            Message::Icmp(_) => icmp::HEADER_BYTES,
            Message::Raw(_) => 0,
        }
    }

    fn is_later_fragment(&self) -> bool {
        self.fragment.is_some_and(|(offset, _)| offset > 0)
    }

    fn protocol(&self) -> u8 {
        match (&self.message, self.network()) {
            (Message::Tcp(_), _) => protocol::TCP,
            (Message::Udp, _) => protocol::UDP,
            (Message::Icmp(_), Network::V4) => protocol::ICMP,
            (Message::Icmp(_), _) => protocol::ICMP6,
            (Message::Raw(number), _) => *number,
        }
    }

    fn write_link(&self, frame: &mut [u8]) -> Result<(), BuildError> {
        let inside = match self.network() {
            Network::V4 => protocol::ETHER_IPV4,
            _ => protocol::ETHER_IPV6,
        };
        let header = EthernetRepr {
            destination: self.destination_mac,
            source: self.source_mac,
            ether_type: self.announced(0, inside),
        };
        header.emit(frame)?;
        if !self.link.is_empty() {
            let place = frame.get_mut(ethernet::ETHER_TYPE_AT..);
            let place = place.and_then(|place| place.get_mut(..self.link.len()));
            place
                .ok_or(BuildError::BufferTooSmall)?
                .copy_from_slice(self.link);
            return Ok(());
        }
        let mut at = ethernet::HEADER_BYTES;
        for (index, &id) in self.vlans.iter().enumerate().take(self.vlan_count) {
            let ether_type = self.announced(index + 1, inside);
            let tag = VlanRepr {
                priority: 0,
                drop_eligible: false,
                id,
                ether_type,
            };
            tag.emit(&mut frame[at..])?;
            at += vlan::TAG_BYTES;
        }
        Ok(())
    }

    /// The EtherType that stands before the tag of this index, or before what is `inside` them.
    fn announced(&self, index: usize, inside: u16) -> u16 {
        match self.vlan_count.checked_sub(index) {
            None | Some(0) => inside,
            Some(1) => protocol::ETHER_VLAN,
            Some(_) => protocol::ETHER_SERVICE_VLAN,
        }
    }

    fn write_ipv4(&self, frame: &mut [u8], parts: &Parts) -> Result<(), BuildError> {
        if self.extension_count > 0 {
            return Err(BuildError::Extensions);
        }
        let (offset, more) = self.fragment.unwrap_or((0, false));
        let header = Ipv4Repr {
            source: self.source.address,
            destination: self.destination.address,
            protocol: self.protocol(),
            ttl: self.ttl,
            dscp: self.dscp,
            ecn: 0,
            identification: self.identification as u16,
            dont_fragment: self.dont_fragment,
            more_fragments: more,
            fragment_offset_bytes: offset,
            options: self.ipv4_options,
            payload_bytes: length16(parts.end - parts.l4)?,
        };
        header.emit(&mut frame[parts.l3..])
    }

    fn write_ipv6(&self, frame: &mut [u8], parts: &Parts) -> Result<(), BuildError> {
        if self.ipv4_options.length() > 0 {
            return Err(BuildError::Family);
        }
        let header = Ipv6Repr {
            source: self.source.address,
            destination: self.destination.address,
            next_header: self.next_header(0),
            hop_limit: self.ttl,
            traffic_class: self.dscp << 2,
            flow_label: 0,
            payload_bytes: length16(parts.end - parts.extensions)?,
        };
        header.emit(&mut frame[parts.l3..])?;
        self.write_extensions(&mut frame[parts.extensions..parts.l4])
    }

    /// The number of the extension header of this index, or of what follows them.
    fn next_header(&self, index: usize) -> u8 {
        match self.extensions().nth(index) {
            Some((kind, _)) => kind.number(),
            None if index == self.extension_count && self.fragment.is_some() => protocol::FRAGMENT,
            None => self.protocol(),
        }
    }

    fn write_extensions(&self, mut bytes: &mut [u8]) -> Result<(), BuildError> {
        bytes.fill(0);
        for (index, (kind, units)) in self.extensions().enumerate() {
            let (header, rest) = bytes.split_at_mut(usize::from(units) * 8);
            kind.write(header, self.next_header(index + 1), units);
            bytes = rest;
        }
        let Some((offset_bytes, more)) = self.fragment else {
            return Ok(());
        };
        let (next_header, identification) = (self.protocol(), self.identification);
        FragmentRepr {
            next_header,
            offset_bytes,
            more,
            identification,
        }
        .emit(bytes)
    }

    fn write_transport(&self, bytes: &mut [u8], parts: &Parts) -> Result<(), BuildError> {
        if self.is_later_fragment() {
            return Ok(());
        }
        let (source_port, destination_port) = (self.source.port, self.destination.port);
        match self.message {
            Message::Tcp(header) => TcpRepr {
                source_port,
                destination_port,
                ..header
            }
            .emit(bytes),
            Message::Udp => {
                let payload_bytes = length16(parts.end - parts.payload)?;
                UdpRepr {
                    source_port,
                    destination_port,
                    payload_bytes,
                }
                .emit(bytes)
            }
            Message::Icmp(message) => {
                let message = with_identifier(message, source_port);
                IcmpRepr {
                    network: self.network(),
                    message,
                }
                .emit(bytes)
            }
            Message::Raw(_) => Ok(()),
        }
    }

    fn write_checksums(&self, frame: &mut [u8]) -> Result<(), BuildError> {
        let layout = dissect(frame)?;
        refresh_checksums(frame, &layout).map_err(|_| BuildError::BufferTooSmall)?;
        if layout.fragment == Fragment::First {
            refresh_transport(frame, &layout);
        }
        Ok(())
    }
}

impl Extension {
    const fn number(self) -> u8 {
        match self {
            Self::HopByHop => protocol::HOP_BY_HOP,
            Self::Destination => protocol::DESTINATION_OPTIONS,
            Self::Routing => protocol::ROUTING,
            Self::Authentication => protocol::AUTHENTICATION,
            Self::Other(number) => number,
        }
    }

    /// Fills a zeroed header; zeros are valid padding options (Pad1) and addresses.
    fn write(self, header: &mut [u8], next_header: u8, units: u8) {
        let length = match self {
            Self::Authentication => units.saturating_mul(2).saturating_sub(2),
            _ => units - 1,
        };
        put(header, 0, [next_header, length]);
    }
}

impl Payload<'_> {
    const fn len(&self) -> usize {
        match self {
            Self::Bytes(bytes) => bytes.len(),
            Self::Pattern(length) => *length,
        }
    }

    /// Fills `out`, which is exactly as long as the payload.
    fn write(&self, out: &mut [u8]) {
        match self {
            Self::Bytes(bytes) => out.copy_from_slice(bytes),
            Self::Pattern(_) => {
                for (value, byte) in (0..=250).cycle().zip(out) {
                    *byte = value;
                }
            }
        }
    }
}

const fn with_identifier(message: IcmpMessage, identifier: u16) -> IcmpMessage {
    match message {
        IcmpMessage::Echo {
            reply, sequence, ..
        } => IcmpMessage::Echo {
            reply,
            identifier,
            sequence,
        },
        other => other,
    }
}

fn length16(bytes: usize) -> Result<u16, BuildError> {
    u16::try_from(bytes).map_err(|_| BuildError::TooLong)
}
