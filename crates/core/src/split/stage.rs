//! What the fast path asks of a place where payloads wait, whichever it is.

use super::{DepartingFrame, Left, Sent};
use crate::wire::Layout;
use crate::{DropReason, Frame, Instant, Pools, Ticket};

/// A packet that goes to the slow path.
#[derive(Debug)]
pub struct Outgoing<'a> {
    /// The packet.
    pub frame: Frame,
    /// Where its headers are.
    pub layout: &'a Layout,
    /// What its flow is known by: 64 bits of a keyed hash.
    pub flow: u64,
    /// Whether flow state travels with it, which must not be dropped.
    pub has_state: bool,
}

/// What comes out of a place where payloads wait.
#[derive(Debug)]
pub enum Output {
    /// A packet leaves; the frame, if there is one, held its header and is for its pool.
    Packet(DepartingFrame, Option<Frame>),
    /// A payload whose packet was dropped before, and counted then. The frame is for its pool.
    Freed(Frame),
    /// A packet is lost: what there is of it, for its pool, and why.
    Lost(Frame, DropReason),
    /// The new header, the first of both, did not fit in front of the payload. The frames are for their
    /// pool.
    HeaderTooLong(Frame, Frame),
}

impl Output {
    /// The number of the packet that this is about, in the order of arrival.
    #[must_use]
    pub fn ordinal(&self) -> u64 {
        match self {
            Self::Packet(departing, _) => departing.frame.ordinal(),
            Self::Freed(frame) | Self::Lost(frame, _) => frame.ordinal(),
            Self::HeaderTooLong(_, payload) => payload.ordinal(),
        }
    }
}

/// A place where payloads wait while their headers are on the slow path.
///
/// A packet's `flow` is what its flow and direction are known by. Packets of one leave in the order in
/// which [`Self::leave`] is told of them; nobody waits for another's.
pub trait PayloadStage {
    /// Whether packets must not be lost for want of room.
    fn set_lossless(&mut self, is_lossless: bool);

    /// Whether somebody may ask if the transport checksum of a packet holds: if so it is looked at before
    /// the payload is elsewhere. At first somebody may.
    fn set_verifying(&mut self, verifies: bool);

    /// A packet goes to the slow path: its payload stays here if it is worth it and there is room.
    fn send(&mut self, outgoing: Outgoing<'_>, now: Instant, pools: &mut Pools) -> Sent;

    /// A header came back from the slow path and goes on, and perhaps waits for others.
    fn came_back(&mut self, ticket: Ticket);

    /// A header goes to the slow path again.
    fn goes_again(&mut self, ticket: Ticket, now: Instant);

    /// The packet of a header was dropped somewhere.
    fn dropped(&mut self, ticket: Ticket, now: Instant);

    /// Whether packets may ever have to wait for others of their flow.
    fn may_hold_back(&self) -> bool;

    /// A fragment leaves whose datagram is not known: it keeps its place among those alone that are
    /// between the same hosts and not known either.
    fn fragment_alone(&mut self);

    /// Whether the flow matters of a frame that leaves now.
    fn asks_for_flow(&self, frame: &Frame) -> bool;

    /// A frame has passed the chain and is about to leave: the next of its flow.
    fn leave(
        &mut self,
        departing: DepartingFrame,
        flow: u64,
        now: Instant,
        pools: &mut Pools,
    ) -> Left;

    /// The next that comes out, until this time at the latest, and when it does.
    fn pass(&mut self, until: Instant) -> Option<(Instant, Output)>;
}
