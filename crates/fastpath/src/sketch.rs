//! A count-min sketch with decay: which flows are worth a slot (SwitchNIC §5.2).

use std::time::Duration;
use twinpath_core::Instant;

/// Rows of counters; a flow's count is the smallest of its counters in each row.
const ROWS: usize = 4;

/// Counts packets per flow in fixed memory; never too low for the current window, sometimes too
/// high. All counters are halved once per window: a hand moves over them continuously, so that no
/// packet ever waits for a clean-up.
pub struct Sketch {
    counters: Vec<u16>,
    width: usize,
    window: Duration,
    hand: usize,
    decayed_until: Instant,
}

impl Sketch {
    /// A sketch of `width` counters (a power of two; rounded up) in each of four rows, whose
    /// counts halve once per `window`.
    pub fn new(width: usize, window: Duration) -> Self {
        let width = width.max(16).next_power_of_two();
        Self {
            counters: vec![0; width * ROWS],
            width,
            window: window.max(Duration::from_nanos(1)),
            hand: 0,
            decayed_until: Instant::ZERO,
        }
    }

    #[inline]
    fn places(&self, hash: u64) -> [usize; ROWS] {
        let (first, step) = (hash as usize, (hash >> 32) as usize | 1);
        std::array::from_fn(|row| {
            row * self.width + (first.wrapping_add(row.wrapping_mul(step)) & (self.width - 1))
        })
    }

    /// Counts one packet of the flow with this hash; returns its count in the current window.
    #[inline]
    pub fn count(&mut self, hash: u64) -> u16 {
        let places = self.places(hash);
        let least = self.least(&places);
        let counted = least.saturating_add(1);
        // Conservative update: only counters that would be below the new count are raised.
        for place in places {
            self.counters[place] = self.counters[place].max(counted);
        }
        counted
    }

    fn least(&self, places: &[usize; ROWS]) -> u16 {
        places
            .iter()
            .map(|&place| self.counters[place])
            .min()
            .unwrap_or(0)
    }

    /// A flow's count, without counting.
    pub fn estimate(&self, hash: u64) -> u16 {
        self.least(&self.places(hash))
    }

    /// Lets time pass: halves the share of the counters that the elapsed part of a window is due.
    pub fn advance(&mut self, now: Instant) {
        let elapsed = now.since(self.decayed_until).as_nanos();
        let window = self.window.as_nanos();
        if elapsed >= 16 * window {
            // After 16 halvings nothing is left of a 16-bit counter.
            self.counters.fill(0);
            self.decayed_until = now;
            return;
        }
        let due = (self.counters.len() as u128 * elapsed / window) as usize;
        if due > 0 {
            self.decay(due);
            let paid = window * due as u128 / self.counters.len() as u128;
            self.decayed_until = self.decayed_until + Duration::from_nanos(paid as u64);
        }
    }

    fn decay(&mut self, mut due: usize) {
        while due > 0 {
            let end = (self.hand + due).min(self.counters.len());
            self.counters[self.hand..end]
                .iter_mut()
                .for_each(|counter| *counter /= 2);
            due -= end - self.hand;
            self.hand = if end == self.counters.len() { 0 } else { end };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;
    use twinpath_core::HashKey;

    const WINDOW: Duration = Duration::from_millis(100);

    fn hash(flow: u64) -> u64 {
        HashKey::new(1).hash([flow])
    }

    proptest! {
        #[test]
        fn never_counts_too_low(flows in prop::collection::vec(0u64..200, 1..2000)) {
            let mut sketch = Sketch::new(64, WINDOW);
            let mut exact: HashMap<u64, u16> = HashMap::new();
            for flow in flows {
                let count = exact.entry(flow).or_default();
                *count += 1;
                prop_assert!(sketch.count(hash(flow)) >= *count);
            }
        }
    }

    #[test]
    fn is_exact_while_it_is_nearly_empty() {
        let mut sketch = Sketch::new(4096, WINDOW);
        for round in 1..=9 {
            for flow in 0..100 {
                assert_eq!(sketch.count(hash(flow)), round);
            }
        }
    }

    #[test]
    fn counts_halve_once_per_window() {
        let mut sketch = Sketch::new(64, WINDOW);
        let hash = hash(3);
        (0..64).for_each(|_| _ = sketch.count(hash));
        // In steps much smaller than a window, so that the continuous hand is what is tested.
        for step in 0..=100u64 {
            sketch.advance(Instant(step * 1_000_000));
        }
        assert_eq!(sketch.estimate(hash), 32);
        sketch.advance(Instant(300_000_000));
        assert_eq!(sketch.estimate(hash), 8);
        sketch.advance(Instant(30_000_000_000));
        assert_eq!(sketch.estimate(hash), 0);
    }
}
