//! What operators asked.

use serde::{Deserialize, Serialize};

/// Clients of the control socket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ControlCounters {
    /// Connections.
    pub clients: u64,
    /// Requests that were granted.
    pub answered: u64,
    /// Requests that were refused with a reason.
    pub refused: u64,
    /// Connections of users who may not ask.
    pub not_permitted: u64,
    /// Connections that were refused because too many others were served.
    pub too_many: u64,
    /// Sent away to make room for others, for they had not said what they want.
    pub shed: u64,
    /// Requests that were none, or too long.
    pub unreadable: u64,
    /// Requests that did not come in time, and answers that were not taken in time.
    pub too_slow: u64,
    /// Requests whose answering failed by a defect.
    pub panics: u64,
}

impl ControlCounters {
    /// What the socket kept out, and what went wrong: in words, if there is anything.
    pub fn troubles(&self) -> Option<String> {
        let counts = [
            ("of other users", self.not_permitted),
            ("too many at a time", self.too_many),
            ("silent, made room", self.shed),
            ("unreadable", self.unreadable),
            ("too slow", self.too_slow),
            ("failed by a defect", self.panics),
        ];
        let counts = counts.into_iter().filter(|(_, count)| *count > 0);
        let words: Vec<String> = counts
            .map(|(name, count)| format!("{count} {name}"))
            .collect();
        (!words.is_empty()).then(|| words.join(", "))
    }
}
