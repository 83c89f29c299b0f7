//! Identifications of IPv4 packets that leave with the address of a NAT gateway. Other ENIs have it,
//! too, and number their packets as they like: parts of two datagrams must not be put together
//! (RFC 6864 §5.3.1, RFC 7857 §10).

use twinpath_core::Instant;
use twinpath_core::wire::layout::{Fragment, Network};
use twinpath_core::wire::{fields, rewrite};

use super::Dpu;
use super::asking::datagram_of;
use crate::pipeline::{Action, Received};

impl Dpu {
    /// Gives an inner packet that is to leave so another identification, unless it is atomic. All
    /// fragments of a datagram get the one that was drawn for the first.
    pub(super) fn number(
        &mut self,
        inside: &mut [u8],
        received: &Received,
        action: &Action,
        now: Instant,
    ) {
        let (layout, headers) = (&received.inner, &received.arrival.headers);
        let Some([source, destination]) = action.addresses else {
            return;
        };
        if layout.network != Network::V4 || fields::is_atomic(inside, layout) {
            return;
        }
        let datagram = datagram_of(inside, received);
        let fragments = &mut self.enis[usize::from(received.arrival.eni)].fragments;
        let fragments = &mut fragments[received.arrival.way as usize];
        let known = datagram
            .filter(|_| layout.fragment == Fragment::Later)
            .and_then(|datagram| fragments.drawn(&datagram, now));
        let drawn = known.unwrap_or_else(|| {
            self.identifications
                .draw(source, destination, headers.protocol)
        });
        if let Some(datagram) = datagram.filter(|_| layout.fragment == Fragment::First) {
            fragments.draw(&datagram, drawn);
        }
        // It is IPv4, and whole: nothing else can be wrong.
        let _ = rewrite::set_identification(inside, layout, drawn);
    }
}
