//! What a collector was told.

use serde::{Deserialize, Serialize};

/// Records that were sent by IPFIX.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExportCounters {
    /// Parts of flows: each time that one was told.
    pub flows: u64,
    /// Bindings that began or ended.
    pub bindings: u64,
    /// Those that were not told because too many waited.
    pub bindings_lost: u64,
    /// Messages that were sent.
    pub messages: u64,
    /// Messages that the system did not take.
    pub messages_lost: u64,
}
