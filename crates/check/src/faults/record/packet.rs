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
    pub flow: Option<usize>,
    pub kind: Kind,
    pub side: Side,
    pub at: Instant,
    pub bytes: Vec<u8>,
    /// What the functions with rules that it had passed when it was last seen make of it, as they
    /// were configured then.
    pub made: Vec<u8>,
    pub state: PacketState,
    /// Frames under way that carry it and may still be received.
    pub copies: usize,
    pub is_applied: bool,
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
