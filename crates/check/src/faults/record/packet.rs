//! What is known of a packet.

use crate::faults::scenario::Kind;
use twinpath_core::wire::Endpoint;
use twinpath_core::{Direction, Instant, Side};

/// Where a packet is, or what became of it.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum PacketState {
    FastPath,
    ToWorker,
    AtWorker,
    Back,
    Left,
    Dropped,
    Lost,
}

/// What is known of one packet.
pub struct PacketHistory {
    /// Its flow at the first element with flow state, or at the only one; none if it is no IP.
    pub flow: Option<usize>,
    /// Its flow at each element with flow state, in the order of their numbers.
    pub flows: Vec<usize>,
    pub kind: Kind,
    pub side: Side,
    /// When it arrived; in a chain with flow state in several elements, when a function let it go
    /// that had kept it.
    pub at: Instant,
    pub bytes: Vec<u8>,
    /// What the functions with rules that it had passed when it was last seen make of it, as they
    /// were configured then.
    pub made: Vec<u8>,
    pub state: PacketState,
    /// Frames under way that carry it and may still be received.
    pub copies: usize,
    /// The elements at which it was applied, a bit each.
    pub applied: u32,
    /// Which way it goes through a chain with rules.
    pub direction: Direction,
    /// How many elements it had passed when it was last seen.
    pub passed: usize,
    /// The client's end as it was last seen: with another one outside it is of another flow there.
    pub client: Option<Endpoint>,
    /// Its payload was parked when it was last seen.
    pub is_parked: bool,
    /// A function kept it for a while.
    pub was_held: bool,
    /// Its place in the order of arrival at the machine.
    pub ordinal: u64,
    /// The turn in which it was last seen.
    pub seen: u64,
}

impl PacketHistory {
    /// Whether it was applied at this element.
    pub fn is_applied(&self, element: u8) -> bool {
        self.applied >> element & 1 == 1
    }

    /// It is applied at this element. Returns whether it was before.
    pub fn apply(&mut self, element: u8) -> bool {
        let was_applied = self.is_applied(element);
        self.applied |= 1 << element;
        was_applied
    }
}
