//! A packet on its way through the network functions on the cores.

use crate::key::Role;
use crate::pool::Frame;
use crate::time::Instant;
use crate::wire::layout::{Layout, Transport};
use crate::wire::{Endpoint, fields, rewrite};

/// Which way a packet goes, as seen by its flow.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Direction {
    /// From the end that opened the flow.
    #[default]
    Original = 0,
    /// Back to it.
    Reply = 1,
}

impl Direction {
    /// Both, for tables indexed by direction.
    pub const BOTH: [Self; 2] = [Self::Original, Self::Reply];

    /// The opposite way.
    pub const fn other(self) -> Self {
        match self {
            Self::Original => Self::Reply,
            Self::Reply => Self::Original,
        }
    }

    /// 0 for original, 1 for reply.
    pub const fn index(self) -> usize {
        self as usize
    }
}

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
    pub fn timestamp(&self) -> Instant {
        self.frame.timestamp()
    }

    /// Source address and port.
    pub fn source(&self) -> Endpoint {
        fields::source(self.bytes(), &self.layout)
    }

    /// Destination address and port.
    pub fn destination(&self) -> Endpoint {
        fields::destination(self.bytes(), &self.layout)
    }

    /// Whether the packet has a TCP header.
    pub fn is_tcp(&self) -> bool {
        self.layout.transport == Transport::Tcp
    }

    /// TCP flags; 0 if it is no TCP.
    pub fn tcp_flags(&self) -> u8 {
        fields::tcp_flags(self.bytes(), &self.layout)
    }

    /// TCP sequence number; 0 if it is no TCP.
    pub fn tcp_sequence(&self) -> u32 {
        fields::tcp_seq(self.bytes(), &self.layout)
    }

    /// TCP acknowledgement number; 0 if it is no TCP.
    pub fn tcp_acknowledgement(&self) -> u32 {
        fields::tcp_ack(self.bytes(), &self.layout)
    }

    /// TCP window as sent, not scaled; 0 if it is no TCP.
    pub fn tcp_window(&self) -> u16 {
        fields::tcp_window(self.bytes(), &self.layout)
    }

    /// What the transport header carries.
    pub fn payload(&self) -> &[u8] {
        fields::payload(self.bytes(), &self.layout)
    }

    /// Rewrites source address and port. Returns whether the address families agree.
    pub fn set_source(&mut self, source: Endpoint) -> bool {
        rewrite::set_source(self.frame.bytes_mut(), &self.layout, source).is_ok()
    }

    /// Rewrites destination address and port. Returns whether the address families agree.
    pub fn set_destination(&mut self, destination: Endpoint) -> bool {
        rewrite::set_destination(self.frame.bytes_mut(), &self.layout, destination).is_ok()
    }
}
