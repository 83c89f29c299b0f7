//! A packet on its way through the network functions on the slow path.

use crate::direction::Direction;
use crate::key::Role;
use crate::pool::Frame;
use crate::time::Instant;
use crate::wire::layout::{Layout, Transport};
use crate::wire::{Endpoint, fields, rewrite, verify_ipv4_checksum, verify_transport_checksum};

/// A frame whose headers have been found. Rewrites mend every checksum.
#[derive(Debug)]
pub struct Packet {
    /// The buffer.
    pub frame: Frame,
    /// Where its headers are.
    pub layout: Layout,
    /// Which way it goes.
    pub direction: Direction,
    /// What it is to its flow.
    pub role: Role,
    /// See [`Keyed::alias_row`](crate::Keyed::alias_row).
    pub alias_row: u32,
}

impl Packet {
    /// The bytes from Ethernet on.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        self.frame.bytes()
    }

    /// When the packet arrived at the fast path.
    #[inline]
    pub fn timestamp(&self) -> Instant {
        self.frame.timestamp()
    }

    /// Bytes of the IP packet, from its first header on: what
    /// [`PacketLength`](crate::program::Field::PacketLength) is.
    #[inline]
    pub fn packet_bytes(&self) -> u32 {
        self.layout.end.saturating_sub(u32::from(self.layout.l3))
    }

    /// Source address and port.
    #[inline]
    pub fn source(&self) -> Endpoint {
        fields::source(self.bytes(), &self.layout)
    }

    /// Destination address and port.
    #[inline]
    pub fn destination(&self) -> Endpoint {
        fields::destination(self.bytes(), &self.layout)
    }

    /// Whether the packet has a TCP header.
    #[inline]
    pub fn is_tcp(&self) -> bool {
        self.layout.transport == Transport::Tcp
    }

    /// TCP flags; 0 if it is no TCP.
    #[inline]
    pub fn tcp_flags(&self) -> u8 {
        fields::tcp_flags(self.bytes(), &self.layout)
    }

    /// TCP sequence number; 0 if it is no TCP.
    #[inline]
    pub fn tcp_sequence(&self) -> u32 {
        fields::tcp_seq(self.bytes(), &self.layout)
    }

    /// TCP acknowledgement number; 0 if it is no TCP.
    #[inline]
    pub fn tcp_acknowledgement(&self) -> u32 {
        fields::tcp_ack(self.bytes(), &self.layout)
    }

    /// TCP window as sent, not scaled; 0 if it is no TCP.
    #[inline]
    pub fn tcp_window(&self) -> u16 {
        fields::tcp_window(self.bytes(), &self.layout)
    }

    /// Whether the checksum of TCP, UDP, ICMP or ICMPv6 holds, as
    /// [`verify_transport_checksum`] has it. Of a packet whose payload is parked the fast path has
    /// looked while it was there.
    fn has_good_checksum(&self) -> bool {
        let metadata = self.frame.metadata();
        match metadata.parked_bytes {
            0 => verify_transport_checksum(self.bytes(), &self.layout),
            _ => !metadata.has_bad_checksum,
        }
    }

    /// What the transport header carries.
    #[inline]
    pub fn payload(&self) -> &[u8] {
        fields::payload(self.bytes(), &self.layout)
    }

    /// Whether the checksums of the IPv4 header and of what it carries hold, or there is none to
    /// hold: [`ChecksumsHold`](crate::program::Field::ChecksumsHold).
    pub fn checksums_hold(&self) -> bool {
        verify_ipv4_checksum(self.bytes(), &self.layout) && self.has_good_checksum()
    }

    /// Rewrites source address and port. Returns whether the address families agree.
    #[inline]
    pub fn set_source(&mut self, source: Endpoint) -> bool {
        rewrite::set_source(self.frame.bytes_mut(), &self.layout, source).is_ok()
    }

    /// Rewrites destination address and port. Returns whether the address families agree.
    #[inline]
    pub fn set_destination(&mut self, destination: Endpoint) -> bool {
        rewrite::set_destination(self.frame.bytes_mut(), &self.layout, destination).is_ok()
    }
}
