//! What nearly all packets are: TCP or UDP over IPv4 without options and tags, in VXLAN over the same. All
//! headers but the last begin at fixed places, so that one look at each is enough.

use std::ops::Range;

use twinpath_core::wire::layout::{Plain, PlainEnds};
use twinpath_core::wire::tunnel::{Encapsulation, Tunnel};
use twinpath_core::wire::{Address, udp};

use crate::headers::Headers;

/// The VXLAN header.
const VXLAN: usize = Plain::UNTAGGED_L4 + udp::HEADER_BYTES;
/// The inner frame.
const INNER: usize = VXLAN + 8;
/// The flag of a VXLAN header that says that it has a VNI.
const HAS_VNI: u8 = 0x08;

/// Such a packet, taken apart.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct PlainPacket {
    /// Where the headers of the inner frame are.
    pub inside: Plain,
    /// Addresses and ports of the inner packet.
    pub ends: PlainEnds,
    /// VNI.
    pub key: u32,
    /// DSCP and ECN of the outer header.
    pub outer_class: u8,
    /// The UDP port that it was sent from.
    pub(super) source_port: u16,
    /// Outer source and destination.
    outer: u64,
    end: u32,
}

impl PlainPacket {
    /// Looks whether a frame is such a packet, and whole. `None` means "look closer", not that
    /// anything is wrong.
    #[inline(always)]
    #[must_use]
    pub fn of(frame: &[u8], vxlan_port: u16) -> Option<Self> {
        let outer = Plain::untagged(frame).filter(|outer| outer.is_udp())?;
        let head: &[u8; INNER] = frame.first_chunk()?;
        let short = |at: usize| u16::from_be_bytes([head[at], head[at + 1]]);
        let is_vxlan = short(Plain::UNTAGGED_L4 + 2) == vxlan_port && head[VXLAN] & HAS_VNI != 0;
        let end = Plain::UNTAGGED_L4 + usize::from(short(Plain::UNTAGGED_L4 + 4));
        if !is_vxlan || end != outer.layout().end as usize {
            return None;
        }
        let inside = frame.get(INNER..end)?;
        let inner = Plain::untagged(inside)?;
        if !outer.has_valid_checksum(frame) || !inner.has_valid_checksum(inside) {
            return None;
        }
        let key = [0, head[VXLAN + 4], head[VXLAN + 5], head[VXLAN + 6]];
        Some(Self {
            inside: inner,
            ends: inner.ends(inside),
            key: u32::from_be_bytes(key),
            outer_class: head[outer.l3() + 1],
            source_port: short(Plain::UNTAGGED_L4),
            outer: outer.addresses(frame),
            end: end as u32,
        })
    }

    /// Where the inner frame lies.
    #[inline(always)]
    #[must_use]
    pub const fn inner(&self) -> Range<usize> {
        INNER..self.end as usize
    }

    /// The tunnel that it came by.
    #[inline(always)]
    #[must_use]
    pub const fn tunnel(&self) -> Tunnel {
        Tunnel {
            encapsulation: Encapsulation::Vxlan,
            key: self.key,
            flow: 0,
            inner_at: INNER as u16,
            inner_end: self.end,
        }
    }

    /// Outer source and destination.
    #[inline(always)]
    #[must_use]
    pub const fn outer(&self) -> [Address; 2] {
        v4_pair(self.outer)
    }

    /// What policies look at of the inner packet.
    #[inline(always)]
    #[must_use]
    pub const fn headers(&self) -> Headers {
        let [source, destination] = v4_pair(self.ends.addresses);
        let ports = self.ends.ports;
        Headers {
            source,
            destination,
            ports: Some([(ports >> 16) as u16, ports as u16]),
            protocol: self.inside.protocol(),
        }
    }
}

#[inline(always)]
const fn v4_pair(addresses: u64) -> [Address; 2] {
    let [source, destination] = [(addresses >> 32) as u32, addresses as u32];
    [
        Address::from_v4(source.to_be_bytes()),
        Address::from_v4(destination.to_be_bytes()),
    ]
}
