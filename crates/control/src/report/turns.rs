//! Packets that took turns, as the report has them.

use serde::{Deserialize, Serialize};

/// What happened to packets of one connection that crossed in opposite directions, in a chain of
/// several elements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Turns {
    /// Packets that waited until one from the other end, which had arrived earlier, had passed.
    pub waited: u64,
    /// Packets dropped because too many waited, or were expected.
    pub overflowed: u64,
    /// Probes that asked the cores after packets that somebody waited for.
    pub probes: u64,
}
