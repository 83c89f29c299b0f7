//! What of an inner packet policies look at.

use twinpath_core::wire::layout::{Fragment, Layout, Network, Transport};
use twinpath_core::wire::{Address, fields};

/// A direction of packets, as an ENI's machine sees it.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Direction {
    /// From the machine.
    Outbound,
    /// To it.
    Inbound,
}

impl Direction {
    /// The other one.
    #[must_use]
    #[inline]
    pub const fn turned(self) -> Self {
        match self {
            Self::Outbound => Self::Inbound,
            Self::Inbound => Self::Outbound,
        }
    }
}

/// Addresses, ports and protocol of an inner packet. Both addresses are of the same IP version.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub struct Headers {
    /// Where it comes from.
    pub source: Address,
    /// Where it goes.
    pub destination: Address,
    /// Source port and destination port of TCP and UDP; of nothing else, and of no fragment but the
    /// first.
    pub ports: Option<[u16; 2]>,
    /// IP protocol.
    pub protocol: u8,
}

impl Headers {
    /// Those of a dissected packet; `None` if it is not IP.
    #[must_use]
    #[inline]
    pub fn of(frame: &[u8], layout: &Layout) -> Option<Self> {
        if layout.network == Network::None {
            return None;
        }
        let has_ports = matches!(layout.transport, Transport::Tcp | Transport::Udp)
            && layout.fragment != Fragment::Later;
        Some(Self {
            source: fields::source_address(frame, layout),
            destination: fields::destination_address(frame, layout),
            ports: has_ports.then(|| {
                [
                    fields::source_port(frame, layout),
                    fields::destination_port(frame, layout),
                ]
            }),
            protocol: layout.protocol,
        })
    }

    /// Whether the packet is IPv4.
    #[must_use]
    #[inline]
    pub const fn is_v4(&self) -> bool {
        self.source.is_v4()
    }

    /// Those of an answer.
    #[must_use]
    pub fn turned(&self) -> Self {
        Self {
            source: self.destination,
            destination: self.source,
            ports: self
                .ports
                .map(|[source, destination]| [destination, source]),
            protocol: self.protocol,
        }
    }
}
