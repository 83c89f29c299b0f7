//! What nearly all packets are: TCP or UDP over IPv4 without options and tags, in VXLAN over the same. All
//! headers but the last begin at fixed places, so that one look at each is enough.

use twinpath_core::wire::layout::{Layout, Plain};
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
pub(super) struct Opened {
    pub tunnel: Tunnel,
    pub inner: Layout,
    pub headers: Headers,
    /// Outer source and destination.
    pub outer: [Address; 2],
    /// The UDP port that it was sent from.
    pub source_port: u16,
    /// DSCP and ECN of the outer header.
    pub outer_class: u8,
}

impl Opened {
    /// Looks whether a frame is such a packet, and whole. `None` means "look closer", not that
    /// anything is wrong.
    #[inline]
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
        let [source, destination] = v4_pair(inner.addresses(inside));
        let ports = inner.ports(inside);
        Some(Self {
            tunnel: Tunnel {
                encapsulation: Encapsulation::Vxlan,
                key: u32::from_be_bytes(key),
                flow: 0,
                inner_at: INNER as u16,
                inner_end: end as u32,
            },
            inner: inner.layout(),
            headers: Headers {
                source,
                destination,
                ports: Some([(ports >> 16) as u16, ports as u16]),
                protocol: inner.protocol(),
            },
            outer: v4_pair(outer.addresses(frame)),
            source_port: short(Plain::UNTAGGED_L4),
            outer_class: head[outer.l3() + 1],
        })
    }
}

#[inline]
const fn v4_pair(addresses: u64) -> [Address; 2] {
    let [source, destination] = [(addresses >> 32) as u32, addresses as u32];
    [
        Address::from_v4(source.to_be_bytes()),
        Address::from_v4(destination.to_be_bytes()),
    ]
}
