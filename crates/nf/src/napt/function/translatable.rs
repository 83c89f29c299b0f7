//! What of a packet can be translated.

use super::fragments::Part;
use crate::records::Kind;
use twinpath_core::Packet;
use twinpath_core::wire::{Fragment, Network, Transport, fields, icmp, protocol};
use twinpath_rulecache::Recorded;

/// What of a packet can be translated.
pub(crate) enum Translatable {
    /// It has ports.
    Ports(Kind),
    /// An ICMP error about one that may have.
    Error,
    /// One that can be translated once its datagram's first is known.
    Part(Part),
    /// One that cannot.
    Fragment,
    Other,
    NotIp,
}

/// Whether a packet is a request for an echo.
pub(crate) fn is_echo_request(packet: &Packet) -> bool {
    let kind = fields::icmp_kind(packet.bytes(), &packet.layout);
    match (packet.layout.network, kind) {
        (Network::V4, Some((kind, _))) => kind == icmp::v4::ECHO_REQUEST,
        (Network::V6, Some((kind, _))) => kind == icmp::v6::ECHO_REQUEST,
        _ => false,
    }
}

/// The protocol is examined always, the rest only of packets that no rule meets.
pub(crate) fn translatable(packet: &mut Recorded<'_>) -> Translatable {
    let protocol = packet.protocol();
    let kind = kind_of(protocol);
    if packet.is_plain() {
        return kind.map_or(Translatable::Other, Translatable::Ports);
    }
    let packet = packet.quote();
    let layout = &packet.layout;
    let icmp_kind = fields::icmp_kind(packet.bytes(), layout);
    let is_echo = icmp_kind.is_some_and(|(kind, _)| icmp::is_echo(layout.network, kind));
    let is_error = icmp_kind.is_some_and(|(kind, _)| {
        let is_redirect = layout.network == Network::V6 && kind == icmp::v6::REDIRECT;
        is_redirect || icmp::is_error(layout.network, kind)
    });
    match (layout.network, layout.fragment, layout.transport, kind) {
        (Network::None, ..) => Translatable::NotIp,
        _ if is_error => Translatable::Error,
        (_, Fragment::First | Fragment::Later, ..) => {
            Part::of(packet, kind).map_or(Translatable::Fragment, Translatable::Part)
        }
        (_, _, Transport::Tcp | Transport::Udp, Some(kind)) => Translatable::Ports(kind),
        (_, _, _, Some(Kind::Icmp)) if is_echo => Translatable::Ports(Kind::Icmp),
        _ => Translatable::Other,
    }
}

pub(crate) const fn kind_of(number: u8) -> Option<Kind> {
    match number {
        protocol::TCP => Some(Kind::Tcp),
        protocol::UDP => Some(Kind::Udp),
        protocol::ICMP | protocol::ICMP6 => Some(Kind::Icmp),
        _ => None,
    }
}
