//! Building whole frames for tests and traffic generation.
//!
//! ```
//! use twinpath_wire::{Endpoint, PacketBuilder, dissect, fields};
//!
//! let client: Endpoint = "10.0.0.1:40000".parse()?;
//! let server: Endpoint = "10.0.0.2:80".parse()?;
//! let frame = PacketBuilder::tcp(client, server).seq(7).payload(b"GET /").to_vec()?;
//! let layout = dissect(&frame)?;
//! assert_eq!(fields::payload(&frame, &layout), b"GET /");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod write;

pub use crate::build_error::BuildError;

use crate::address::{Address, Endpoint, MacAddress};
use crate::icmp::{IcmpError, IcmpMessage};
use crate::ipv6::MAX_EXTENSIONS;
use crate::kinds::Network;
use crate::layout::{MAX_VLAN_TAGS, dissect};
use crate::options::OptionBytes;
use crate::tcp::{self, TcpOption, TcpRepr};
use crate::{fields, vlan};

/// How much of an IPv4 packet an ICMP error quotes: the whole error stays within 576 bytes
/// (RFC 1812 §4.3.2.3).
pub const IPV4_QUOTE_BYTES: usize = 576 - 28;
/// How much of an IPv6 packet an ICMP error quotes: the whole error stays within 1280 bytes
/// (RFC 4443 §2.4).
pub const IPV6_QUOTE_BYTES: usize = 1280 - 48;

/// One frame in the making. Setters take and return the builder; what is wrong with their
/// arguments is told by [`write`](Self::write).
///
/// The IP version is that of the addresses. Without setters: MAC addresses `02:00:00:00:00:01`
/// and `:02`, no VLAN tag, TTL 64, TCP with ACK set and a window of 65535, no payload, no padding.
#[derive(Copy, Clone, Debug)]
pub struct PacketBuilder<'a> {
    source_mac: MacAddress,
    destination_mac: MacAddress,
    vlans: [u16; MAX_VLAN_TAGS],
    vlan_count: usize,
    /// In place of tags and EtherType.
    link: &'a [u8],
    source: Endpoint,
    destination: Endpoint,
    ttl: u8,
    dscp: u8,
    identification: u32,
    dont_fragment: bool,
    ipv4_options: OptionBytes,
    extensions: [(Extension, u8); MAX_EXTENSIONS],
    extension_count: usize,
    fragment: Option<(u32, bool)>,
    message: Message,
    payload: Payload<'a>,
    pad: bool,
    error: Option<BuildError>,
}

/// An IPv6 extension header that the builder can write.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Extension {
    /// Hop-by-hop options; must be the first.
    HopByHop,
    /// Destination options.
    Destination,
    /// A routing header with no segments left.
    Routing,
    /// An authentication header.
    Authentication,
    /// Any other that is [walked](crate::ipv6::is_extension), by its number.
    Other(u8),
}

/// What the IP packet carries.
#[derive(Copy, Clone, Debug)]
enum Message {
    /// Ports are those of the endpoints when it is written.
    Tcp(TcpRepr),
    Udp,
    /// An echo's identifier is the source's port when it is written.
    Icmp(IcmpMessage),
    /// Any other protocol, with the payload right after the IP header.
    Raw(u8),
}

#[derive(Copy, Clone, Debug)]
enum Payload<'a> {
    Bytes(&'a [u8]),
    Pattern(usize),
}

impl<'a> PacketBuilder<'a> {
    /// A TCP segment.
    #[must_use]
    pub const fn tcp(source: Endpoint, destination: Endpoint) -> Self {
        let header = TcpRepr {
            source_port: 0,
            destination_port: 0,
            sequence: 0,
            acknowledgement: 0,
            flags: tcp::flags::ACK,
            window: u16::MAX,
            urgent: 0,
            options: OptionBytes::EMPTY,
        };
        Self::new(source, destination, Message::Tcp(header))
    }

    /// A UDP datagram.
    #[must_use]
    pub const fn udp(source: Endpoint, destination: Endpoint) -> Self {
        Self::new(source, destination, Message::Udp)
    }

    /// An echo request; its identifier is the source's port.
    #[must_use]
    pub const fn icmp_echo(source: Endpoint, destination: Endpoint) -> Self {
        let echo = IcmpMessage::Echo {
            reply: false,
            identifier: 0,
            sequence: 0,
        };
        Self::new(source, destination, Message::Icmp(echo))
    }

    /// An ICMP error about `offending_frame`, from that packet's destination to its source (see
    /// [`source_address`](Self::source_address) for a router's). It quotes as much as the RFCs
    /// ask for.
    #[must_use]
    pub fn icmp_error(kind: IcmpError, offending_frame: &'a [u8]) -> Self {
        let nobody = Endpoint::new(Address::UNSPECIFIED_V4, 0);
        let message = Message::Icmp(IcmpMessage::Error(kind));
        let layout = match dissect(offending_frame) {
            Ok(layout) if layout.is_ip() => layout,
            Ok(_) => return Self::new(nobody, nobody, message).fail(BuildError::Family),
            Err(why) => return Self::new(nobody, nobody, message).fail(why.into()),
        };
        let (l3, end) = (usize::from(layout.l3), layout.end as usize);
        let limit = match layout.network {
            Network::V6 => IPV6_QUOTE_BYTES,
            _ => IPV4_QUOTE_BYTES,
        };
        let quote = offending_frame.get(l3..end.min(l3 + limit)).unwrap_or(&[]);
        let source = fields::source(offending_frame, &layout);
        let destination = fields::destination(offending_frame, &layout);
        Self::new(destination, source, message).payload(quote)
    }

    /// Any IP protocol, with the payload right after the IP header.
    #[must_use]
    pub const fn raw(protocol: u8, source: Address, destination: Address) -> Self {
        let (source, destination) = (Endpoint::new(source, 0), Endpoint::new(destination, 0));
        Self::new(source, destination, Message::Raw(protocol))
    }

    const fn new(source: Endpoint, destination: Endpoint, message: Message) -> Self {
        Self {
            source_mac: MacAddress([2, 0, 0, 0, 0, 1]),
            destination_mac: MacAddress([2, 0, 0, 0, 0, 2]),
            vlans: [0; MAX_VLAN_TAGS],
            vlan_count: 0,
            link: &[],
            source,
            destination,
            ttl: 64,
            dscp: 0,
            identification: 0,
            dont_fragment: false,
            ipv4_options: OptionBytes::EMPTY,
            extensions: [(Extension::HopByHop, 0); MAX_EXTENSIONS],
            extension_count: 0,
            fragment: None,
            message,
            payload: Payload::Bytes(&[]),
            pad: false,
            error: None,
        }
    }

    /// Source and destination MAC addresses.
    #[must_use]
    pub const fn macs(mut self, source: MacAddress, destination: MacAddress) -> Self {
        self.source_mac = source;
        self.destination_mac = destination;
        self
    }

    /// Adds a VLAN tag inside those already there. The innermost tag is announced as 802.1Q, those
    /// around it as 802.1ad.
    #[must_use]
    pub fn vlan(mut self, id: u16) -> Self {
        if id > vlan::MAX_VLAN_ID {
            return self.fail(BuildError::FieldRange);
        }
        let Some(slot) = self.vlans.get_mut(self.vlan_count) else {
            return self.fail(BuildError::TooManyVlanTags);
        };
        *slot = id;
        self.vlan_count += 1;
        self
    }

    /// What stands between the MAC addresses and the IP packet, in place of an EtherType and tags:
    /// as another frame has it, up to its [`l3`](crate::Layout::l3), or labels, a session, or LLC with
    /// SNAP. Lengths in it are set.
    #[must_use]
    pub const fn link(mut self, link: &'a [u8]) -> Self {
        self.link = link;
        self
    }

    /// The source address; the port stays. For an ICMP error from a router on the way.
    #[must_use]
    pub const fn source_address(mut self, address: Address) -> Self {
        self.source.address = address;
        self
    }

    /// Time to live or hop limit.
    #[must_use]
    pub const fn ttl(mut self, ttl: u8) -> Self {
        self.ttl = ttl;
        self
    }

    /// Differentiated services code point, 0 to 63.
    #[must_use]
    pub fn dscp(mut self, dscp: u8) -> Self {
        if dscp > 63 {
            return self.fail(BuildError::FieldRange);
        }
        self.dscp = dscp;
        self
    }

    /// The identification that ties fragments together. IPv4 takes the low 16 bits; IPv6 has one
    /// in fragments only.
    #[must_use]
    pub const fn identification(mut self, identification: u32) -> Self {
        self.identification = identification;
        self
    }

    /// Forbids routers to fragment the packet, if it is IPv4; IPv6 never lets them.
    #[must_use]
    pub const fn dont_fragment(mut self) -> Self {
        self.dont_fragment = true;
        self
    }

    /// IPv4 options, at most 40 bytes, padded to whole words.
    #[must_use]
    pub fn ipv4_options(mut self, options: &[u8]) -> Self {
        match OptionBytes::from_slice(options) {
            Ok(options) => self.ipv4_options = options,
            Err(why) => return self.fail(why),
        }
        self
    }

    /// Adds an IPv6 extension header of `units` 8-byte units (at least 1; a routing header 3 for
    /// one address; an authentication header 2). They stand in the order of the calls, before
    /// the fragment header if there is one.
    #[must_use]
    pub fn ipv6_extension(mut self, kind: Extension, units: u8) -> Self {
        if units == 0 || (kind == Extension::Authentication && units < 2) {
            return self.fail(BuildError::FieldRange);
        }
        let Some(slot) = self.extensions.get_mut(self.extension_count) else {
            return self.fail(BuildError::Extensions);
        };
        *slot = (kind, units);
        self.extension_count += 1;
        self
    }

    /// Makes this a fragment. At offset 0 the transport header is written before the payload and
    /// its length and checksum count this fragment only; at other offsets (multiples of 8) the
    /// packet carries nothing but the payload.
    #[must_use]
    pub const fn fragment(mut self, offset_bytes: u32, more: bool) -> Self {
        self.fragment = Some((offset_bytes, more));
        self
    }

    /// TCP sequence number, or an echo's.
    #[must_use]
    pub fn seq(mut self, number: u32) -> Self {
        match &mut self.message {
            Message::Tcp(header) => header.sequence = number,
            Message::Icmp(IcmpMessage::Echo { sequence, .. }) => *sequence = number as u16,
            _ => return self.fail(BuildError::WrongKind),
        }
        self
    }

    /// TCP acknowledgement number. The ACK flag is set by [`flags`](Self::flags).
    #[must_use]
    pub fn ack(self, number: u32) -> Self {
        self.with_tcp(|header| header.acknowledgement = number)
    }

    /// TCP flags, see [`tcp::flags`].
    #[must_use]
    pub fn flags(self, flags: u8) -> Self {
        self.with_tcp(|header| header.flags = flags)
    }

    /// TCP window, not scaled.
    #[must_use]
    pub fn window(self, window: u16) -> Self {
        self.with_tcp(|header| header.window = window)
    }

    /// TCP options, at most 40 bytes together.
    #[must_use]
    pub fn tcp_options(self, options: &[TcpOption<'_>]) -> Self {
        match tcp::encode_options(options) {
            Ok(options) => self.with_tcp(|header| header.options = options),
            Err(why) => self.fail(why),
        }
    }

    /// Makes an echo the reply. Swap the endpoints yourself; the identifier is still the source's
    /// port.
    #[must_use]
    pub fn echo_reply(mut self) -> Self {
        match &mut self.message {
            Message::Icmp(IcmpMessage::Echo { reply, .. }) => *reply = true,
            _ => return self.fail(BuildError::WrongKind),
        }
        self
    }

    /// The payload.
    #[must_use]
    pub const fn payload(mut self, payload: &'a [u8]) -> Self {
        self.payload = Payload::Bytes(payload);
        self
    }

    /// A payload of `bytes` bytes counting 0, 1, ... 250, 0, 1, ...
    #[must_use]
    pub const fn payload_len(mut self, bytes: usize) -> Self {
        self.payload = Payload::Pattern(bytes);
        self
    }

    /// Pads the frame with zeros to 60 bytes, as a network card does.
    #[must_use]
    pub const fn padded(mut self) -> Self {
        self.pad = true;
        self
    }

    fn with_tcp(mut self, change: impl FnOnce(&mut TcpRepr)) -> Self {
        match &mut self.message {
            Message::Tcp(header) => change(header),
            _ => return self.fail(BuildError::WrongKind),
        }
        self
    }

    /// Keeps the first error for [`write`](Self::write).
    fn fail(mut self, why: BuildError) -> Self {
        self.error = self.error.or(Some(why));
        self
    }
}

#[cfg(test)]
mod tests;
