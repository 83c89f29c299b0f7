//! Which packets a rule is for.

use twinpath_classify::Prefix;
use twinpath_core::wire::layout::Fragment;
use twinpath_core::wire::{Endpoint, protocol};
use twinpath_core::{Direction, Packet};

/// Which packets a rule is for: a rule file's headers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in crate::inspector) struct Scope {
    /// IP protocol; any if absent.
    pub protocol: Option<Protocol>,
    pub source: Ends,
    pub destination: Ends,
    /// Source and destination may be the other way round.
    pub either_way: bool,
    /// Packets from a connection's opener alone, or towards it alone.
    pub direction: Option<Direction>,
    /// It is about packets of TCP as they come, each by itself, not about the stream.
    pub by_packet: bool,
    /// How large payloads are.
    pub sizes: Option<Sizes>,
}

/// Sizes of payloads, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::inspector) struct Sizes {
    pub least: u32,
    pub most: u32,
    /// All others.
    pub inverted: bool,
}

impl Sizes {
    /// Whether payloads of so many bytes are among them.
    pub fn have(self, bytes: u32) -> bool {
        (self.least..=self.most).contains(&bytes) != self.inverted
    }
}

/// What a rule's header says of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::inspector) enum Protocol {
    Tcp,
    Udp,
    /// ICMP and ICMPv6.
    Icmp,
}

/// Addresses and ports of one end. An empty list says anything.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in crate::inspector) struct Ends {
    pub networks: Vec<Prefix>,
    pub not_networks: Vec<Prefix>,
    pub ports: Vec<(u16, u16)>,
    pub not_ports: Vec<(u16, u16)>,
}

impl Scope {
    /// Whether it is all packets.
    pub fn is_any(&self) -> bool {
        *self == Self::default()
    }

    /// Whether it has a packet. A later fragment has no ports: where these matter the first one
    /// tells, without which nobody can make use of the others.
    pub fn has(&self, packet: &Packet) -> bool {
        if self.is_any() {
            return true;
        }
        if packet.layout.fragment == Fragment::Later && self.names_ports() {
            return false;
        }
        let (source, destination) = (packet.source(), packet.destination());
        let forth = self.source.have(source) && self.destination.have(destination);
        let back = || self.source.have(destination) && self.destination.have(source);
        let has_size = |sizes: Sizes| sizes.have(packet.layout.payload_bytes() as u32);
        self.has_protocol(packet.layout.protocol)
            && self.sizes.is_none_or(has_size)
            && self.direction.is_none_or(|way| way == packet.direction)
            && (forth || self.either_way && back())
    }

    /// Whether it is about streams of TCP.
    pub fn is_for_streams(&self) -> bool {
        !self.by_packet && matches!(self.protocol, None | Some(Protocol::Tcp))
    }

    /// Whether it is about packets by themselves.
    pub fn is_for_packets(&self) -> bool {
        self.by_packet || self.protocol != Some(Protocol::Tcp)
    }

    fn names_ports(&self) -> bool {
        let mut ends = [&self.source, &self.destination].into_iter();
        ends.any(|end| !end.ports.is_empty() || !end.not_ports.is_empty())
    }

    fn has_protocol(&self, number: u8) -> bool {
        match self.protocol {
            None => true,
            Some(Protocol::Tcp) => number == protocol::TCP,
            Some(Protocol::Udp) => number == protocol::UDP,
            Some(Protocol::Icmp) => number == protocol::ICMP || number == protocol::ICMP6,
        }
    }
}

impl Ends {
    fn have(&self, end: Endpoint) -> bool {
        let within = |networks: &[Prefix]| networks.iter().any(|one| one.includes(end.address));
        let among = |ports: &[(u16, u16)]| {
            ports
                .iter()
                .any(|(low, high)| (*low..=*high).contains(&end.port))
        };
        (self.networks.is_empty() || within(&self.networks))
            && !within(&self.not_networks)
            && (self.ports.is_empty() || among(&self.ports))
            && !among(&self.not_ports)
    }
}
