//! What a router says about packets that it could not deliver: they are too long for the link that they are to
//! leave by, or nobody there has the address of the next hop.

use crate::icmp_messages::{Cause, Icmp};
use crate::rate_limit::RateLimit;
use twinpath_core::Instant;
use twinpath_core::wire::{Address, Layout};

/// Writes "fragmentation needed" (RFC 1191 §4) and "packet too big" (RFC 4443 §3.2), "host unreachable"
/// (RFC 1812 §5.2.7.1) and "address unreachable" (RFC 4443 §3.1), from the
/// router's own addresses and at most as many in a second as it sends of other errors.
///
/// A node asks for them when a packet has passed the whole chain, on either path, or has left. The error enters
/// the chain where an answer to the packet would, as if the next router had sent it: so translations
/// give the sender inside its own addresses back, and firewalls know what it quotes.
#[derive(Debug)]
pub struct Undelivered {
    icmp: Icmp,
}

impl Undelivered {
    /// Errors from these addresses, of IPv4 and IPv6.
    pub(crate) fn new(addresses: [Option<Address>; 2], limit: RateLimit) -> Self {
        Self {
            icmp: Icmp::new(addresses, limit),
        }
    }

    /// The frame with the error about a packet that is too long, from whom that leaves for to whom it
    /// leaves from; `None` if none may be sent. `mtu` is how long an IP packet there may be.
    pub fn too_long(
        &mut self,
        packet: &[u8],
        layout: &Layout,
        mtu: u16,
        now: Instant,
    ) -> Option<&[u8]> {
        let cause = Cause::TooLong { mtu: mtu.into() };
        self.icmp.error_about(packet, layout, cause, now)
    }

    /// The same about a packet whose next hop does not answer.
    pub fn unreachable(&mut self, packet: &[u8], layout: &Layout, now: Instant) -> Option<&[u8]> {
        self.icmp
            .error_about(packet, layout, Cause::Unreachable, now)
    }
}
