//! Flows end when time has ended them, whether packets ask for them or not.

use twinpath_core::Instant;

use super::Dpu;

/// How long a sweep over the whole table of flows takes, in nanoseconds.
const SWEEP_NS: u64 = 5_000_000_000;

/// Most places of it that are looked at in one go while time passes in small steps, where the table is
/// small.
const AGED_AT_ONCE: usize = 64;
/// The part of a large table that is looked at in one go then.
const PARTS: usize = 1 << 16;
/// So far behind, in nanoseconds, a sweep may be before all that is due is looked at in one go. Time makes
/// such steps where packets come from a capture, or where next to nothing happens: then nobody waits, and
/// a look takes a small part of the time that has passed.
const STEP_NS: u64 = 100_000_000;

impl Dpu {
    /// Lets time pass: looks at as many places of the table of flows as are due, and ends flows that
    /// time has ended. All places are due once in [`SWEEP_NS`]: while time passes in small steps a few at
    /// once, and the rest with the next steps; after a long step all that are due.
    pub fn tick(&mut self, now: Instant) {
        let places = match self.flows.is_empty() {
            true => 0,
            false => self.flows.places(),
        };
        let behind = now.0.saturating_sub(self.swept_until.0);
        let due = u128::from(behind) * places as u128 / u128::from(SWEEP_NS);
        let due = due.min(places as u128) as usize;
        let count = match behind < STEP_NS {
            true => due.min(AGED_AT_ONCE.max(places / PARTS)),
            false => due,
        };
        if count > 0 || places == 0 {
            self.swept_until = match count < due {
                true => Instant(self.swept_until.0 + Self::time_of(count, places)),
                false => now,
            };
            self.age(count, now);
        }
        self.go_on_learning(count);
    }

    /// How long a sweep takes over so many of all places, in nanoseconds.
    fn time_of(count: usize, places: usize) -> u64 {
        let time = u128::from(SWEEP_NS) * count as u128 / places.max(1) as u128;
        u64::try_from(time).unwrap_or(SWEEP_NS)
    }

    /// Whether time has made a long step since the last sweep.
    pub(super) fn has_made_a_step(&self, now: Instant) -> bool {
        now.0.saturating_sub(self.swept_until.0) >= STEP_NS
    }

    /// Looks at the next `count` places of the table of flows, and ends those that time has ended, or whose
    /// ENI is gone.
    pub fn age(&mut self, count: usize, now: Instant) {
        let mut places = std::mem::take(&mut self.aged);
        self.flows.under_the_hand(count, &mut places);
        for place in places.drain(..) {
            let (entry, key) = (self.flows.get(place), self.flows.key(place));
            if self.is_orphan(place) || self.is_over(&entry, key.protocol(), now) {
                self.end(place, |counters| counters.flows_aged += 1);
            }
        }
        self.aged = places;
    }
}
