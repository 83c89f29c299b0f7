//! Rates: so many units in a second, and so many at once.

use twinpath_core::Instant;

/// A rate that is kept: the generic cell rate algorithm. What has been let through would, at the
/// rate, take until a time that lies ahead of now by no more than a burst.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Rate {
    busy_until_ns: u64,
}

impl Rate {
    /// Lets `units` through at `per_second` if it may; 0 a second is no limit. A burst is given as the
    /// time that it takes at the rate; a first unit always passes. More than 18 billion units at once
    /// count as so many.
    #[must_use]
    #[inline]
    pub fn take(&mut self, units: u64, per_second: u64, burst_ns: u64, now: Instant) -> bool {
        if per_second == 0 {
            return true;
        }
        let ahead = self.busy_until_ns.saturating_sub(now.0);
        let passes = ahead <= burst_ns;
        if passes {
            let cost = units.saturating_mul(1_000_000_000) / per_second;
            self.busy_until_ns = self.busy_until_ns.max(now.0).saturating_add(cost);
        }
        passes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_kept_and_never_undercut() {
        let mut rate = Rate::default();
        let burst_ns = 100_000_000;
        let passed = (0..10_000u64)
            .filter(|step| rate.take(1, 100, burst_ns, Instant(step * 1_000_000)))
            .count();
        // Ten seconds at a hundred, and the burst.
        assert!((1_000..=1_012).contains(&passed), "{passed}");
        let mut unlimited = Rate::default();
        assert!((0..10).all(|_| unlimited.take(u64::MAX, 0, 0, Instant::ZERO)));
        let mut slow = Rate::default();
        assert!(slow.take(1, 1, 0, Instant::ZERO), "a first one passes");
        assert!(!slow.take(1, 1, 0, Instant(999_999_999)));
        assert!(slow.take(1, 1, 0, Instant(1_000_000_000)));
    }
}
