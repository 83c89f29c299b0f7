//! What a collector was told.

use serde::{Deserialize, Serialize};
use twinpath_core::counted;

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

impl ExportCounters {
    /// What of it did not come to the collector, in words; nothing if nothing is known to be lost.
    pub fn losses(&self) -> Option<String> {
        let parts = [
            (
                self.messages_lost,
                "message",
                "that the system did not take",
            ),
            (
                self.bindings_lost,
                "event",
                "of bindings, of which too many waited",
            ),
        ];
        let parts = parts.into_iter().filter(|(count, ..)| *count > 0);
        let parts: Vec<_> = parts
            .map(|(count, what, how)| format!("{} {how}", counted(count, what)))
            .collect();
        (!parts.is_empty()).then(|| {
            format!(
                "[ipfix] the collector does not hear all; lost since the start: {}",
                parts.join(", and ")
            )
        })
    }
}
