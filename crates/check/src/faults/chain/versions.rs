//! What a translation between IP versions makes of a packet, beside that of production: headers as RFC 7915
//! says them, addresses as RFC 6052 does.

use crate::faults::functions::BEHIND_V6;
use twinpath_core::Direction;
use twinpath_core::wire::translate::{MOST_GROWTH, translate};
use twinpath_core::wire::{Address, Endpoint, dissect, fields, rewrite};

/// The bits of an address behind the prefix that are one of IPv4.
const EMBEDDED: u128 = u32::MAX as u128;

/// Makes a packet one of the other version, whose client is shown by this end, one hop further.
pub fn cross(bytes: &mut Vec<u8>, direction: Direction, shown: Endpoint) {
    let Ok(layout) = dissect(bytes) else {
        return;
    };
    let source = fields::source_address(bytes, &layout);
    let destination = fields::destination_address(bytes, &layout);
    let (source, destination) = match direction {
        Direction::Original => (shown.address, embedded(destination)),
        Direction::Reply => (behind_prefix(source), shown.address),
    };
    let mut buffer = vec![0; MOST_GROWTH];
    buffer.extend_from_slice(bytes);
    // What has no counterpart stays as it is, and is not what comes out.
    if let Ok(start) = translate(&mut buffer, MOST_GROWTH, &layout, source, destination) {
        *bytes = buffer.split_off(start);
        go_on(bytes, direction, shown);
    }
}

/// The packet has its client's port on the other side, and a hop behind it.
fn go_on(bytes: &mut [u8], direction: Direction, shown: Endpoint) {
    let Ok(layout) = dissect(bytes) else {
        return;
    };
    let hops = fields::ttl(bytes, &layout).saturating_sub(1);
    let is_written = match direction {
        Direction::Original => rewrite::set_source(bytes, &layout, shown),
        Direction::Reply => rewrite::set_destination(bytes, &layout, shown),
    };
    let is_written = is_written.and_then(|()| rewrite::set_ttl(bytes, &layout, hops));
    debug_assert!(is_written.is_ok(), "both are of one IP version");
}

/// Whether a packet is for a host behind the prefix.
pub fn is_for_v4(bytes: &[u8]) -> bool {
    let destination = dissect(bytes).map(|layout| fields::destination_address(bytes, &layout));
    destination.is_ok_and(|destination| destination.0 & !EMBEDDED == BEHIND_V6)
}

/// The address of IPv4 that is behind the prefix.
pub fn embedded(address: Address) -> Address {
    Address::from_v4(address.octets4())
}

/// An address of IPv4 behind the prefix.
pub fn behind_prefix(address: Address) -> Address {
    Address(BEHIND_V6 | address.0 & EMBEDDED)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::faults::functions::CLIENTS_V6;
    use twinpath_core::wire::{PacketBuilder, verify_transport_checksum};

    /// Behind the translation and back a packet is the same, two hops further.
    #[test]
    fn both_directions_match() {
        let server = Endpoint::v4([192, 0, 2, 1], 80);
        let client = Endpoint::new(Address(CLIENTS_V6 | 5), 1000);
        let external = Endpoint::v4([198, 51, 100, 1], 1017);
        let behind = Endpoint::new(behind_prefix(server.address), server.port);
        assert_eq!(behind.address.to_string(), "3fff:64::c000:201");
        assert_eq!(embedded(behind.address), server.address);
        let there = PacketBuilder::tcp(client, behind).payload_len(30);
        let mut packet = there.to_vec().expect("short");
        assert!(is_for_v4(&packet));
        cross(&mut packet, Direction::Original, external);
        let out = PacketBuilder::tcp(external, server).payload_len(30).ttl(63);
        assert_eq!(packet, out.to_vec().expect("short"));
        let back = PacketBuilder::tcp(server, external).payload_len(30);
        let mut packet = back.to_vec().expect("short");
        cross(&mut packet, Direction::Reply, client);
        let inside = PacketBuilder::tcp(behind, client).payload_len(30).ttl(63);
        assert_eq!(packet, inside.to_vec().expect("short"));
        let layout = dissect(&packet).expect("a packet");
        assert!(verify_transport_checksum(&packet, &layout));
    }
}
