//! Messages as a kernel makes them, for tests.

use crate::event::Event;
use crate::messages;
use twinpath_core::wire::Address;

/// A message of a type, with flags, whose body is a structure and attributes.
pub fn message(kind: u16, flags: u16, sequence: u32, head: &[u8], attributes: &[u8]) -> Vec<u8> {
    let body = [head, attributes].concat();
    let mut bytes = ((16 + body.len()) as u32).to_ne_bytes().to_vec();
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(flags.to_ne_bytes());
    bytes.extend(sequence.to_ne_bytes());
    bytes.extend([0; 4]);
    bytes.extend(body);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

/// An attribute, padded.
pub fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let mut bytes = (value.len() as u16 + 4).to_ne_bytes().to_vec();
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

/// An attribute with a number.
pub fn number(kind: u16, value: u32) -> Vec<u8> {
    attribute(kind, &value.to_ne_bytes())
}

/// An attribute with an address.
pub fn address(kind: u16, text: &str) -> Vec<u8> {
    let address = ip(text);
    match address.is_v4() {
        true => attribute(kind, &address.octets4()),
        false => attribute(kind, &address.octets16()),
    }
}

pub fn ip(text: &str) -> Address {
    text.parse().expect(text)
}

/// `struct rtmsg` of a route in the main table.
pub fn route_head(text: &str, kind: u8) -> Vec<u8> {
    let (network, bits) = text.split_once('/').expect("a prefix");
    let family = if ip(network).is_v4() { 2 } else { 10 };
    let bits: u8 = bits.parse().expect("a length");
    vec![family, bits, 0, 0, 254, 3, 0, kind, 0, 0, 0, 0]
}

/// A message about a route by one next hop, without it if the interface is 0.
pub fn route(kind: u16, flags: u16, to: &str, via: Option<&str>, interface: u32) -> Vec<u8> {
    let (network, _) = to.split_once('/').expect("a prefix");
    let mut attributes = address(1, network);
    if interface != 0 {
        attributes.extend(number(4, interface));
    }
    attributes.extend(via.map_or(Vec::new(), |via| address(5, via)));
    message(kind, flags, 0, &route_head(to, 1), &attributes)
}

/// A message about an interface, whose link is there if it is up.
pub fn link(kind: u16, index: u32, name: &str, is_up: bool) -> Vec<u8> {
    /// `IFF_UP`, `IFF_RUNNING`, `IFF_LOWER_UP`.
    const ALL: u32 = 0x1_0041;
    link_with_flags(kind, index, name, if is_up { ALL } else { 0 })
}

/// A message about an interface with flags.
pub fn link_with_flags(kind: u16, index: u32, name: &str, flags: u32) -> Vec<u8> {
    let mut head = vec![0; 16];
    head[4..8].copy_from_slice(&index.to_ne_bytes());
    head[8..12].copy_from_slice(&flags.to_ne_bytes());
    let name = [name.as_bytes(), &[0]].concat();
    let attributes = [attribute(3, &name), number(4, 1500)].concat();
    message(kind, 0, 0, &head, &attributes)
}

/// A message about an address.
pub fn own_address(kind: u16, text: &str, interface: u32) -> Vec<u8> {
    let (own, bits) = text.split_once('/').expect("an address");
    let family = if ip(own).is_v4() { 2 } else { 10 };
    let mut head = vec![family, bits.parse().expect("a length"), 0, 0];
    head.extend(interface.to_ne_bytes());
    message(kind, 0, 0, &head, &address(1, own))
}

/// A message about a neighbour in a state.
pub fn neighbor(
    kind: u16,
    text: &str,
    interface: u32,
    state: u16,
    mac: Option<[u8; 6]>,
) -> Vec<u8> {
    let family = if ip(text).is_v4() { 2 } else { 10 };
    let mut head = vec![family, 0, 0, 0];
    head.extend(interface.to_ne_bytes());
    head.extend(state.to_ne_bytes());
    head.extend([0, 1]);
    let mut attributes = address(1, text);
    attributes.extend(mac.map_or(Vec::new(), |mac| attribute(2, &mac)));
    message(kind, 0, 0, &head, &attributes)
}

/// A message about a next hop object.
pub fn next_hop(kind: u16, attributes: &[Vec<u8>]) -> Vec<u8> {
    message(kind, 0, 0, &[0; 8], &attributes.concat())
}

/// The end of a list.
pub fn done(sequence: u32, flags: u16) -> Vec<u8> {
    message(3, 2 | flags, sequence, &[0; 4], &[])
}

/// One entry of a multipath route.
pub fn path(flags: u8, weight: u8, interface: u32, gateway: Option<&str>) -> Vec<u8> {
    let attributes = gateway.map_or(Vec::new(), |gateway| address(5, gateway));
    let mut bytes = ((8 + attributes.len()) as u16).to_ne_bytes().to_vec();
    bytes.extend([flags, weight - 1]);
    bytes.extend(interface.to_ne_bytes());
    bytes.extend(attributes);
    bytes
}

/// The events of a datagram, and how many messages made no sense.
pub fn read(datagram: &[u8]) -> (Vec<Event>, usize) {
    let mut events = Vec::new();
    let malformed = messages::read(datagram, &mut |event| events.push(event));
    (events, malformed)
}

/// The only event of a datagram.
pub fn one(datagram: &[u8]) -> Event {
    let (mut events, malformed) = read(datagram);
    assert_eq!((events.len(), malformed), (1, 0), "{events:?}");
    events.remove(0)
}
