//! ICMP errors about packets that were changed on their way: whom one is for must see the packet in it
//! as it sent it, and whom it comes from as it knows them (RFC 5508 §4).

use twinpath_core::icmp_errors::judge;
use twinpath_core::wire::layout::{Layout, Network};
use twinpath_core::wire::{Endpoint, fields, protocol, rewrite};

use crate::pipeline::Action;
use crate::reason::Reason;

/// What is done to an error, and to the packet that it quotes.
pub(super) struct Translation {
    /// What is done to the error.
    pub action: Action,
    /// Source and destination of the quoted packet, as it was before it was changed.
    quoted: [Endpoint; 2],
}

impl Translation {
    /// That of an error that goes the way of a flow and direction with this action: it quotes a packet
    /// of the other direction, so what is done to packets undoes what was done to the quoted one.
    ///
    /// # Errors
    /// It is a redirect, or of the other IP version than what it is about was.
    pub fn of(inside: &[u8], inner: &Layout, action: &Action) -> Result<Self, Reason> {
        let ends =
            fields::inner_source(inside, inner).zip(fields::inner_destination(inside, inner));
        let (source, destination) = ends.ok_or(Reason::IcmpError)?;
        let [from, to] = action
            .addresses
            .unwrap_or([destination.address, source.address]);
        let is_same_version = from.is_v4() == (inner.network == Network::V4);
        if !is_same_version || judge(inside, inner, false).is_err() {
            return Err(Reason::IcmpError);
        }
        // Routers on the way keep their addresses, but none that hides behind a gateway.
        let sender = fields::source_address(inside, inner);
        let is_end = sender == destination.address || action.hides_source();
        let sender = if is_end { from } else { sender };
        let [source_port, destination_port] = quoted_ports(inner, action);
        Ok(Self {
            action: Action {
                addresses: Some([sender, to]),
                ..*action
            },
            quoted: [
                Endpoint::new(to, source_port.unwrap_or(source.port)),
                Endpoint::new(from, destination_port.unwrap_or(destination.port)),
            ],
        })
    }

    /// Changes the quoted packet back.
    ///
    /// # Errors
    /// It is none that can be.
    pub fn requote(&self, inside: &mut [u8], inner: &Layout) -> Result<(), Reason> {
        let [source, destination] = self.quoted;
        rewrite::set_inner_source(inside, inner, source)
            .and_then(|()| rewrite::set_inner_destination(inside, inner, destination))
            .map_err(|_| Reason::IcmpError)
    }
}

/// The ports that a quoted packet had where an action changes them. An echo has one identifier.
fn quoted_ports(inner: &Layout, action: &Action) -> [Option<u16>; 2] {
    let ports = [action.destination_port, action.source_port];
    let number = inner.inner.map(|quote| quote.protocol);
    match number {
        Some(protocol::ICMP | protocol::ICMP6) => [ports[0].or(ports[1]); 2],
        _ => ports,
    }
}
