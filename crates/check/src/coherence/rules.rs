//! What a search holds fixed.

use super::scope::{Budget, Scope};
use super::value::{FRESH, TIMER, packet_digit};
use twinpath_coherence::safeguards::{Safeguard, Safeguards, Without};

/// What a search holds fixed.
#[derive(Copy, Clone, Debug)]
pub(super) struct Rules {
    pub scope: Scope,
    pub safeguards: Without,
    /// Whether states that differ only in names are one (in a search), or every packet and
    /// generation keeps its name (when a run is told).
    pub renames: bool,
}

impl Rules {
    pub fn with_budget(mut self, budget: Budget) -> Self {
        self.scope.budget = budget;
        self
    }

    pub fn checks_numbers(&self) -> bool {
        self.safeguards.keeps(Safeguard::Fifo)
    }

    /// The digit that a packet leaves in the value.
    pub fn digit(&self, packet: u8) -> u8 {
        if self.renames {
            FRESH
        } else {
            packet_digit(packet)
        }
    }

    /// The digit that a change on the slow path's own account leaves.
    pub fn timer_digit(&self) -> u8 {
        if self.renames { FRESH } else { TIMER }
    }
}
