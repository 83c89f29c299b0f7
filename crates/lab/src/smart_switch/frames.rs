//! Frames in their tunnels, as hosts send them.

use super::configuration::{MACHINE, VIP, VM_VNI, host, mac, peer, peer_host, peer_mac, vni};
use super::parameters::PORTS;
use twinpath_core::wire::tcp::flags;
use twinpath_core::wire::tunnel::{Encapsulation, Outer, VXLAN_PORT, Varying};
use twinpath_core::wire::{Address, Endpoint, MacAddress, PacketBuilder};

/// Room in front of a frame: for two tunnels.
pub(super) const HEADROOM: usize = 128;
/// Headers of an inner UDP datagram.
const UDP_BYTES: usize = 14 + 20 + 8;
/// What a request and its answer carry.
const REQUEST_BYTES: usize = 100;

/// One conversation of an ENI's machine with one of its peers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Conversation {
    eni: u32,
    peer: u32,
    port: u16,
}

impl Conversation {
    /// The one with this number, where a network has so many peers.
    pub(super) fn new(eni: u32, number: u32, peers: u32) -> Self {
        Self {
            eni,
            peer: number / PORTS % peers,
            port: (1024 + number % PORTS) as u16,
        }
    }

    /// A datagram of the machine; the outer frame has so many bytes.
    pub(super) fn datagram(self, outer_bytes: u32) -> Vec<u8> {
        let inner = outer_bytes.saturating_sub(self.outer(true).header_bytes() as u32) as usize;
        let payload = inner.saturating_sub(UDP_BYTES);
        let [from, to] = self.ends(4000);
        let packet = PacketBuilder::udp(from, to).payload_len(payload);
        self.in_tunnel(packet, true)
    }

    /// The packet of a connection that comes at this step, from its SYN, 0, to its last ACK, 7; the machine
    /// asks and its peer answers.
    pub(super) fn segment(self, step: u32) -> Vec<u8> {
        let (is_outbound, tcp_flags, payload) = match step {
            0 => (true, flags::SYN, 0),
            1 => (false, flags::SYN | flags::ACK, 0),
            2 => (true, flags::ACK, 0),
            3 => (true, flags::PSH | flags::ACK, REQUEST_BYTES),
            4 => (false, flags::PSH | flags::ACK, REQUEST_BYTES),
            5 => (true, flags::FIN | flags::ACK, 0),
            6 => (false, flags::FIN | flags::ACK, 0),
            _ => (true, flags::ACK, 0),
        };
        let [machine, peer] = self.ends(80);
        let (from, to) = if is_outbound {
            (machine, peer)
        } else {
            (peer, machine)
        };
        let packet = PacketBuilder::tcp(from, to)
            .flags(tcp_flags)
            .payload_len(payload)
            .padded();
        self.in_tunnel(packet, is_outbound)
    }

    fn ends(self, server_port: u16) -> [Endpoint; 2] {
        [
            Endpoint::new(Address::from(MACHINE), self.port),
            Endpoint::new(Address::from(peer(self.peer)), server_port),
        ]
    }

    /// What the machine's host puts around its frames, or its peer's host around those to it.
    fn outer(self, is_outbound: bool) -> Outer {
        let (source, key) = match is_outbound {
            true => (host(self.eni), VM_VNI),
            false => (peer_host(self.peer), vni(self.eni)),
        };
        Outer {
            source_mac: MacAddress([2, 0, 0, 0, 0, 1]),
            destination_mac: MacAddress([2, 0, 0, 0, 0, 2]),
            source: Address::from(source),
            destination: Address::from(VIP),
            encapsulation: Encapsulation::Vxlan,
            key,
            vxlan_port: VXLAN_PORT,
            ttl: 64,
        }
    }

    /// A buffer with room in front, and the frame in its tunnel.
    fn in_tunnel(self, packet: PacketBuilder<'_>, is_outbound: bool) -> Vec<u8> {
        let (eni, peer) = (mac(self.eni), peer_mac(self.peer));
        let (from, to) = if is_outbound {
            (eni, peer)
        } else {
            (peer, eni)
        };
        let outer = self.outer(is_outbound);
        let inner = packet
            .macs(from, to)
            .to_vec()
            .expect("the sizes are in range");
        let mut buffer = vec![0; HEADROOM + outer.header_bytes()];
        buffer.extend_from_slice(&inner);
        let varying = Varying {
            source_port: 0xc000 | self.port,
            ..Varying::default()
        };
        let frame = &mut buffer[HEADROOM..];
        outer.emit(&varying, frame).expect("there is room for it");
        buffer
    }
}
