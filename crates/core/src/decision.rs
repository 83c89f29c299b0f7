//! What becomes of a packet at an element of the chain.

use crate::drop_reason::DropReason;

/// What an element of the chain decides about a packet on the fast path.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// It has been rewritten and goes on to the next element, or leaves behind the last.
    Forward {
        /// The port that it leaves by, if a function said so.
        egress: Option<u16>,
    },
    /// It has been turned into an answer to its sender, and leaves at once.
    Reply,
    /// It is dropped.
    Drop(DropReason),
    /// It waits until a rule becomes active.
    Hold,
    /// It is for a worker.
    Punt,
}

impl Decision {
    /// It goes on; no function has chosen a port.
    pub const FORWARD: Self = Self::Forward { egress: None };
}
