//! Flow and direction of a packet.

use crate::names::Blanks;
use std::hash::Hash;
use twinpath_core::wire::{Layout, fragment, layout};
use twinpath_core::{FlowKey, Side, Steering};

/// A flow in one direction, as the packet itself says.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Flow {
    /// Packets over IP.
    Ip {
        /// The flow; of an ICMP error, that of the packet which it quotes.
        key: FlowKey,
        /// The end that the packet comes from.
        side: Side,
        /// Whether these are ordinary packets, fragments or ICMP errors.
        role: u8,
        /// What ties fragments to their datagram: who has seen its ports may treat each as its
        /// flow's. 0 of whole packets.
        datagram: u32,
        /// Which ends have no name any more.
        blanks: Blanks,
        /// Of a packet in a tunnel the MAC addresses; else zero.
        macs: [u8; 12],
    },
    /// Frames without IP, by EtherType.
    Other(u16),
    /// Frames whose headers are malformed, by the first EtherType.
    Malformed(u16),
}

impl Flow {
    /// Of a packet whose names are blanked.
    pub fn of(steering: &Steering, frame: &[u8], layout: &Layout, blanks: Blanks) -> Self {
        match steering.key(frame, layout) {
            Some(keyed) => Self::Ip {
                key: keyed.key,
                side: keyed.side,
                role: keyed.role as u8,
                datagram: fragment::part(frame, layout).map_or(0, |part| part.identification),
                blanks,
                macs: [0; 12],
            },
            None => Self::Other(layout::ether_type(frame, layout)),
        }
    }

    /// The same flow of a packet in a tunnel, between these stations.
    #[must_use]
    pub fn between(mut self, packet: &[u8]) -> Self {
        if let (Self::Ip { macs, .. }, Some(stations)) = (&mut self, packet.first_chunk()) {
            *macs = *stations;
        }
        self
    }

    /// The same flow, seen from one of the names in it.
    #[must_use]
    pub const fn seen_with(self, names: Blanks) -> Self {
        match self {
            Self::Ip {
                key,
                side,
                role,
                datagram,
                macs,
                ..
            } => Self::Ip {
                key,
                side,
                role,
                datagram,
                blanks: names,
                macs,
            },
            other => other,
        }
    }

    /// Of a frame that cannot be dissected.
    pub fn malformed(frame: &[u8]) -> Self {
        Self::Malformed(raw_ether_type(frame))
    }
}

/// What stands where an untagged frame has its EtherType; zero in a shorter frame.
pub(crate) fn raw_ether_type(frame: &[u8]) -> u16 {
    match frame.get(12..14) {
        Some(&[high, low]) => u16::from_be_bytes([high, low]),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use twinpath_core::wire::icmp::IcmpError;
    use twinpath_core::wire::{Endpoint, PacketBuilder, dissect};

    fn flow(packet: PacketBuilder<'_>) -> Flow {
        let frame = packet.to_vec().unwrap();
        let layout = dissect(&frame).unwrap();
        Flow::of(&Steering::new(0), &frame, &layout, Blanks::default())
    }

    #[test]
    fn directions_fragments_and_errors_are_flows_of_their_own() {
        let [a, b, c] = [1, 2, 3].map(|host| Endpoint::v4([10, 0, 0, host], 7));
        let udp = PacketBuilder::udp(a, b);
        let offending = udp.to_vec().unwrap();
        let error = PacketBuilder::icmp_error(IcmpError::Unreachable { code: 1 }, &offending);
        let flows = [
            flow(udp),
            flow(PacketBuilder::udp(b, a)),
            flow(PacketBuilder::tcp(a, b)),
            flow(udp.fragment(0, true)),
            flow(error),
            flow(PacketBuilder::raw(1, b.address, a.address).payload(&[13; 8])),
        ];
        for (index, one) in flows.iter().enumerate() {
            assert!(!flows[..index].contains(one), "{index}");
        }
        // Whoever sends the error, and whichever part of the datagram it is.
        assert_eq!(flow(error), flow(error.source_address(c.address)));
        assert_eq!(
            flow(udp.fragment(0, true)),
            flow(udp.fragment(8, false).payload_len(8))
        );
        assert_eq!(flow(udp), flow(udp.payload_len(9).ttl(3)));
    }
}
