//! What the programs of a chain decide about a packet.

use twinpath_core::DropReason;

/// What the programs decide.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Out, after [`Interpreter::commit`](crate::Interpreter::commit).
    Forward,
    /// Back to the sender, after [`Interpreter::commit`](crate::Interpreter::commit).
    Reply,
    /// Dropped; the state words of [`Interpreter::words`](crate::Interpreter::words) count.
    Drop(DropReason),
    /// To the slow path; nothing has changed.
    Complex,
}
