//! Who talks to whom.

use std::cmp::Ordering;
use twinpath_core::key::Keyed;
use twinpath_core::steering::opener;
use twinpath_core::{FlowKey, Side};
use twinpath_wire::tcp::flags::SYN;
use twinpath_wire::{Endpoint, Layout, fields};

/// Ports below this are servers'.
const FIRST_CLIENT_PORT: u16 = 1024;

/// Whole packets between two endpoints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conversation {
    /// Its name, equal for both directions.
    pub key: FlowKey,
    /// Source of its first packet, as rules of a firewall see it.
    pub source: Endpoint,
    /// Destination of its first packet.
    pub destination: Endpoint,
    /// The end that asks, as far as SYNs and port numbers tell.
    pub client: Endpoint,
    /// The end that answers.
    pub server: Endpoint,
    /// All packets.
    pub packets: u64,
}

impl Conversation {
    pub(super) fn new(frame: &[u8], layout: &Layout, keyed: &Keyed) -> Self {
        let client = client(frame, layout, keyed);
        Self {
            key: keyed.key,
            source: fields::source(frame, layout),
            destination: fields::destination(frame, layout),
            client: keyed.key.end(client),
            server: keyed.key.end(client.other()),
            packets: 0,
        }
    }

    /// The IP protocol.
    pub const fn protocol(&self) -> u8 {
        self.key.protocol()
    }

    /// Whether it is over IPv4.
    pub const fn is_v4(&self) -> bool {
        self.client.address.is_v4()
    }
}

/// The end that asks: the opener, unless the first packet is from the middle and comes from a
/// well-known port.
fn client(frame: &[u8], layout: &Layout, keyed: &Keyed) -> Side {
    let opener = opener(frame, layout, keyed);
    if fields::tcp_flags(frame, layout) & SYN != 0 {
        return opener;
    }
    let (own, other) = (
        keyed.key.end(opener).port,
        keyed.key.end(opener.other()).port,
    );
    match (own.cmp(&FIRST_CLIENT_PORT), other.cmp(&FIRST_CLIENT_PORT)) {
        (Ordering::Less, Ordering::Equal | Ordering::Greater) => opener.other(),
        _ => opener,
    }
}
