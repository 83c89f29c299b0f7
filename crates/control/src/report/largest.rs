//! The flows that had most bytes.

use super::units;
use serde::{Deserialize, Serialize};

/// The largest flows, as a function has counted them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LargestFlows {
    /// The function's name in the service file.
    pub function: String,
    /// The flows, the largest first.
    pub flows: Vec<LargeFlow>,
}

/// A flow, with all its records.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LargeFlow {
    /// The IP protocol number.
    pub protocol: u8,
    /// Its ends, the lower first.
    pub ends: [String; 2],
    /// Packets, both ways.
    pub packets: u64,
    /// Bytes of their IP packets, never too few.
    pub bytes: u64,
    /// So many of them may be other flows'.
    pub excess_bytes: u64,
}

impl LargeFlow {
    /// It in words.
    pub(super) fn text(&self) -> String {
        let Self { protocol, ends, .. } = self;
        let excess = match self.excess_bytes {
            0 => String::new(),
            excess => format!(", of which up to {} may be others'", units::bytes(excess)),
        };
        format!(
            "{} - {} protocol {protocol}: {}, {}{excess}",
            ends[0],
            ends[1],
            units::counted(self.packets, "packet"),
            units::bytes(self.bytes)
        )
    }
}
