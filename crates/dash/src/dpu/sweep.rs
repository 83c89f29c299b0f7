//! Flows end when time has ended them, whether packets ask for them or not.

use twinpath_core::Instant;

use super::Dpu;

/// How long a sweep over the whole table of flows takes, in nanoseconds.
const SWEEP_NS: u64 = 5_000_000_000;

/// Most places of it that are looked at in one go.
const AGED_AT_ONCE: usize = 64;

impl Dpu {
    /// Lets time pass: looks at as many places of the table of flows as are due, and ends flows that
    /// time has ended. All places are due once in [`SWEEP_NS`], and no more than [`AGED_AT_ONCE`] at once.
    pub fn tick(&mut self, now: Instant) {
        let elapsed = now.0.saturating_sub(self.swept_until.0);
        let due = u128::from(elapsed) * self.flows.places() as u128 / u128::from(SWEEP_NS);
        if due > 0 {
            self.swept_until = now;
            self.age(due.min(AGED_AT_ONCE as u128) as usize, now);
        }
        self.go_on_learning();
    }

    /// Looks at the next `count` places of the table of flows, and ends those that time has ended.
    pub fn age(&mut self, count: usize, now: Instant) {
        let mut places = std::mem::take(&mut self.aged);
        self.flows.under_the_hand(count, &mut places);
        for place in places.drain(..) {
            if self.is_over(
                &self.flows.get(place),
                self.flows.key(place).protocol(),
                now,
            ) {
                self.end(place, |counters| counters.flows_aged += 1);
            }
        }
        self.aged = places;
    }
}
