//! ICMP errors about rewritten packets: each end must see the addresses that it knows.

use twinpath_core::Packet;
use twinpath_core::wire::{fields, rewrite};
use twinpath_wire::{Endpoint, RewriteError};

/// An error on its way to the client, about a packet that the balancer had sent on to the
/// backend. The client knows only the service. Returns whether anything was changed.
pub(super) fn translate_for_client(packet: &mut Packet, vip: Endpoint, backend: Endpoint) -> bool {
    if fields::inner_destination(packet.bytes(), &packet.layout) != Some(backend) {
        return false;
    }
    let layout = packet.layout;
    let quote = rewrite::set_inner_destination(packet.frame.bytes_mut(), &layout, vip);
    let from_backend = packet.source().address == backend.address;
    quote.is_ok() && (!from_backend || packet.set_source(vip))
}

/// An error on its way to the service, about a packet of the backend that the balancer had given
/// the service's address. Only the backend can make use of it.
pub(super) fn translate_for_backend(packet: &mut Packet, vip: Endpoint, backend: Endpoint) -> bool {
    if fields::inner_source(packet.bytes(), &packet.layout) != Some(vip) {
        return false;
    }
    let layout = packet.layout;
    let quote: Result<(), RewriteError> =
        rewrite::set_inner_source(packet.frame.bytes_mut(), &layout, backend);
    let to_service = packet.destination().address == vip.address;
    quote.is_ok() && (!to_service || packet.set_destination(backend))
}
