//! Which transport checksums a function verifies, as configuration says it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What is verified of TCP, UDP, ICMP and ICMPv6. A packet whose checksum is wrong is dropped as
/// `bad_checksum` where it is verified, and changes nothing.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum VerifyChecksums {
    /// Nothing but ICMP errors. For captures of hosts that leave checksums to their network card,
    /// and where a network card has verified them.
    None,
    /// Packets that open, close or otherwise change a flow's state beyond what data and
    /// acknowledgements do. The others are left to their receiver, who drops them if they are
    /// broken: who sees no packets of a connection gains nothing by a wrong checksum, and summing
    /// up all payloads would cost more than all else.
    #[default]
    State,
}

impl VerifyChecksums {
    /// Whether packets that change state are verified.
    pub const fn of_state(self) -> bool {
        !matches!(self, Self::None)
    }
}
