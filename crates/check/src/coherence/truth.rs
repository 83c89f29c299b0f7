//! What a bystander who sees everything knows of a flow: the yardstick for both paths.

use super::value::Value;

/// Whether the value of the generation last installed has been imported.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) enum Imported {
    #[default]
    No,
    /// By these workers.
    Now,
    /// By workers that have crashed since.
    Formerly,
}

/// The truth about a flow.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Truth {
    /// Everything applied to the flow, in the order in which it was, wherever that was.
    pub history: Value,
    /// The workers crashed while the value was theirs. What they held is lost, and with it this
    /// history, unless a copy of the value is still on the link or frozen in the slot. The next
    /// one to touch the flow decides.
    pub is_open: bool,
    /// The generation that was last installed.
    pub installed: u32,
    /// What became of its value.
    pub imported: Imported,
    /// The last packet applied.
    pub applied: u8,
    /// The last packet that left.
    pub left: u8,
}

impl Truth {
    /// Whether these workers have imported this generation: done(g) of the design.
    pub fn is_done(&self, generation: u32) -> bool {
        self.installed == generation && self.imported == Imported::Now
    }

    pub fn was_ever_done(&self, generation: u32) -> bool {
        self.installed == generation && self.imported != Imported::No
    }

    /// The workers touched a flow of which nothing was certain: it goes on from `value`.
    pub fn decide(&mut self, value: Value) {
        if self.is_open {
            (self.history, self.is_open) = (value, false);
        }
    }

    pub fn install(&mut self, generation: u32) {
        (self.installed, self.imported) = (generation, Imported::No);
        // What was granted before a crash arrived: nothing is lost after all.
        self.is_open = false;
    }

    /// The workers crash; `keeps_value` if the value is the fast path's.
    pub fn crash(&mut self, keeps_value: bool) {
        self.is_open |= !keeps_value;
        if self.imported == Imported::Now {
            self.imported = Imported::Formerly;
        }
    }
}
