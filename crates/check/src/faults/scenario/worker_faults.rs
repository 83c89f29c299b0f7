//! What goes wrong with the workers.

use crate::faults::draw::Draw;

/// A change of the chain is given up after this long.
const MOST_CHANGE_NS: u64 = 5_000_000_000;

/// What goes wrong with the slow path.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkerFaults {
    /// Arrivals in a thousand after which a worker crashes and starts again.
    pub crash_permille: u64,
    /// Arrivals in a thousand after which a worker pauses.
    pub pause_permille: u64,
    /// For how long at most.
    pub pause_ns: u64,
    /// Arrivals in a thousand after which the fast path begins to give everything back, for a
    /// change of the chain.
    pub change_permille: u64,
}

impl WorkerFaults {
    /// The chain changes, and a worker crashes, after so many of a thousand arrivals.
    pub(super) const fn of_changes(change_permille: u64, crash_permille: u64) -> Self {
        Self {
            crash_permille,
            pause_permille: 0,
            pause_ns: 0,
            change_permille,
        }
    }

    /// Any of them, or none.
    pub(super) fn drawn(draw: &mut Draw, delay_ns: u64) -> Self {
        Self {
            crash_permille: draw.sometimes(2, &[3, 10, 40]),
            pause_permille: draw.sometimes(3, &[3, 10, 40]),
            pause_ns: match draw.one_in(8) {
                true => 2 * MOST_CHANGE_NS,
                false => delay_ns * draw.between(2, 80),
            },
            change_permille: draw.sometimes(3, &[5, 20, 60]),
        }
    }
}
