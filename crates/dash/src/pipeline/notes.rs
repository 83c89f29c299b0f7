//! What stages say about a packet, for whoever follows it.

use std::cell::RefCell;

/// What one stage has found and decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// The stage, or its table.
    pub stage: &'static str,
    /// What was looked up there, and the entry that was found.
    pub entry: String,
    /// What follows.
    pub action: String,
}

impl Note {
    /// What follows from all stages is told under this name.
    pub const DECISION: &'static str = "decision";

    /// A stage's note.
    pub fn new(stage: &'static str, entry: impl Into<String>, action: impl Into<String>) -> Self {
        Self {
            stage,
            entry: entry.into(),
            action: action.into(),
        }
    }
}

/// Notes of all stages, in order.
#[derive(Debug, Default)]
pub struct Notes(RefCell<Vec<Note>>);

impl Notes {
    /// One more.
    pub(crate) fn add(&self, note: Note) {
        self.0.borrow_mut().push(note);
    }

    /// All of them.
    #[must_use]
    pub fn into_list(self) -> Vec<Note> {
        self.0.into_inner()
    }
}
