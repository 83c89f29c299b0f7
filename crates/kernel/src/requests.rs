//! What the kernel is asked.

use crate::messages::{family, kind};
use twinpath_core::wire::{Address, MacAddress};

const REQUEST: u16 = 0x1;
const ANSWER: u16 = 0x4;
const REPLACE: u16 = 0x100;
const DUMP: u16 = 0x300;
const CREATE: u16 = 0x400;

/// A list that the kernel is asked for.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum List {
    /// Interfaces.
    Links,
    /// The host's own addresses.
    Addresses,
    /// Next hop objects.
    NextHops,
    /// Routes of IPv4.
    RoutesV4,
    /// Routes of IPv6.
    RoutesV6,
    /// Neighbours of both versions.
    Neighbors,
}

impl List {
    /// All lists, each behind those that it speaks of.
    pub const ALL: [Self; 6] = [
        Self::Links,
        Self::Addresses,
        Self::NextHops,
        Self::RoutesV4,
        Self::RoutesV6,
        Self::Neighbors,
    ];

    /// The question for it.
    pub fn question(self, sequence: u32) -> Vec<u8> {
        // The length of the structure that each begins with.
        let (kind, family, len) = match self {
            Self::Links => (kind::GET_LINK, family::ANY, 16),
            Self::Addresses => (kind::GET_ADDRESS, family::ANY, 8),
            Self::NextHops => (kind::GET_NEXT_HOP, family::ANY, 8),
            Self::RoutesV4 => (kind::GET_ROUTE, family::V4, 12),
            Self::RoutesV6 => (kind::GET_ROUTE, family::V6, 12),
            Self::Neighbors => (kind::GET_NEIGHBOR, family::ANY, 12),
        };
        let mut body = vec![0; len];
        body[0] = family;
        message(kind, REQUEST | DUMP, sequence, &body)
    }
}

/// Has the kernel find out who a neighbour is, or whether it still is there: as if a packet of its
/// own went there (`ip neigh replace ... use`).
pub fn use_neighbor(interface: u32, address: Address, sequence: u32) -> Vec<u8> {
    const USE: u8 = 1;
    let body = neighbor(interface, address, 0, USE);
    message(kind::NEW_NEIGHBOR, REQUEST | CREATE, sequence, &body)
}

/// Tells the kernel who a neighbour is, for good (`ip neigh replace ... permanent`); it answers.
pub fn set_neighbor(interface: u32, address: Address, mac: MacAddress, sequence: u32) -> Vec<u8> {
    const LINK_ADDRESS: u16 = 2;
    const PERMANENT: u16 = 0x80;
    let mut body = neighbor(interface, address, PERMANENT, 0);
    attribute(LINK_ADDRESS, &mac.0, &mut body);
    let flags = REQUEST | CREATE | REPLACE | ANSWER;
    message(kind::NEW_NEIGHBOR, flags, sequence, &body)
}

/// Has the kernel forget what it was told of a neighbour (`ip neigh del`); it answers.
pub fn remove_neighbor(interface: u32, address: Address, sequence: u32) -> Vec<u8> {
    let body = neighbor(interface, address, 0, 0);
    message(kind::DEL_NEIGHBOR, REQUEST | ANSWER, sequence, &body)
}

/// What a message about a neighbour begins with, and its address.
fn neighbor(interface: u32, address: Address, state: u16, flags: u8) -> Vec<u8> {
    const ADDRESS: u16 = 1;
    let (family, octets) = match address.is_v4() {
        true => (family::V4, address.octets4().to_vec()),
        false => (family::V6, address.octets16().to_vec()),
    };
    let mut body = vec![family, 0, 0, 0];
    body.extend(interface.to_ne_bytes());
    body.extend(state.to_ne_bytes());
    body.extend([flags, 0]);
    attribute(ADDRESS, &octets, &mut body);
    body
}

/// Appends an attribute.
fn attribute(kind: u16, value: &[u8], body: &mut Vec<u8>) {
    const HEADER: usize = 4;
    body.extend(((HEADER + value.len()) as u16).to_ne_bytes());
    body.extend(kind.to_ne_bytes());
    body.extend(value);
    body.resize(body.len().next_multiple_of(4), 0);
}

/// A message with its header: length, type, flags, number, and whose it is, which the kernel knows.
fn message(kind: u16, flags: u16, sequence: u32, body: &[u8]) -> Vec<u8> {
    const HEADER: usize = 16;
    let mut bytes = Vec::with_capacity(HEADER + body.len());
    bytes.extend(((HEADER + body.len()) as u32).to_ne_bytes());
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(flags.to_ne_bytes());
    bytes.extend(sequence.to_ne_bytes());
    bytes.extend([0; 4]);
    bytes.extend(body);
    bytes
}
