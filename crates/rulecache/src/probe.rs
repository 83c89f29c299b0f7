//! Seeing a packet on its way through an element, for whoever wants to tell it.

use crate::function::Verdict;
use crate::manager::Offer;
use crate::recording::Recording;
use twinpath_core::{DropReason, Instant, Packet};

/// Sees a packet and its recording at each step. What it says nothing about costs nothing.
pub trait Probe {
    /// The packet is about to meet the first function.
    fn begins(&mut self, _packet: &Packet, _recording: &Recording) {}

    /// The function at this place of the element has handled the packet. The difference to what
    /// was seen before is what it looked at and did.
    fn handled(
        &mut self,
        _place: u8,
        _name: &str,
        _packet: &Packet,
        _recording: &Recording,
        _verdict: Verdict,
    ) {
    }

    /// The packet goes on, or is dropped; [`synthesise`](crate::synthesise) makes the rule.
    fn ends(&mut self, _recording: &Recording, _drop: Option<DropReason>, _now: Instant) {}

    /// The packet makes a rule that is hot: so often did its entries match in the last window.
    fn selected(&mut self, _hotness: u32, _offer: Offer) {}
}

/// Sees nothing.
pub struct NoProbe;

impl Probe for NoProbe {}
