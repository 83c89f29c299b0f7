//! How often entries were used in this window and in the last.
//!
//! Functions number their entries as they like, so the counts lie in a hash table of fixed size:
//! four entries to a cache line, found by a mixed number of which no two entries share more than
//! a few bits.

use crate::recording::EntryId;
use twinpath_core::memory::{CacheLine, ZeroedArray};

/// Entries in a line, two lanes each: name 32 bits and window 32, current count 32 and previous.
const WAYS: usize = 4;

/// A count that was never used has this window.
const NEVER: u32 = 0;

/// Counts of a fixed number of entries.
pub(crate) struct MatchCounts {
    lines: ZeroedArray<CacheLine>,
}

/// One entry's place.
#[derive(Copy, Clone)]
struct Count {
    name: u32,
    window: u32,
    current: u32,
    previous: u32,
}

impl Count {
    const fn read([who, counts]: [u64; 2]) -> Self {
        Self {
            name: (who >> 32) as u32,
            window: who as u32,
            current: (counts >> 32) as u32,
            previous: counts as u32,
        }
    }

    fn lanes(self) -> [u64; 2] {
        let pair = |high: u32, low: u32| u64::from(high) << 32 | u64::from(low);
        [
            pair(self.name, self.window),
            pair(self.current, self.previous),
        ]
    }

    /// Whether its counts still say something in a window.
    const fn is_live(self, window: u32) -> bool {
        self.window != NEVER && self.window.saturating_add(1) >= window
    }

    /// The place after one more match in a window; a match that is a little late counts as one in
    /// the latest.
    fn after(mut self, window: u32) -> Self {
        if self.window < window {
            let follows = self.is_live(window);
            self.previous = if follows { self.current } else { 0 };
            (self.window, self.current) = (window, 0);
        }
        self.current = self.current.saturating_add(1);
        self
    }
}

impl MatchCounts {
    /// Room for so many entries, rounded up to a power of two.
    pub fn new(entries: usize) -> Self {
        let lines = entries.div_ceil(WAYS).next_power_of_two();
        Self {
            lines: ZeroedArray::new(lines),
        }
    }

    /// Counts a match of an entry in a window (not 0); returns the count of the window before, or
    /// `None` if there is no place for the entry.
    #[inline]
    pub fn count(&mut self, entry: EntryId, window: u32) -> Option<u32> {
        let mixed = mix(u64::from(entry.function) << 32 | u64::from(entry.entry));
        let (name, line) = (
            (mixed >> 32) as u32,
            mixed as usize & (self.lines.len() - 1),
        );
        let lanes = &mut self.lines[line].0;
        let at = |way: usize| Count::read([lanes[2 * way], lanes[2 * way + 1]]);
        let known = (0..WAYS).find(|&way| at(way).name == name && at(way).window != NEVER);
        let way = known.or_else(|| (0..WAYS).find(|&way| !at(way).is_live(window)))?;
        let before = match known {
            Some(way) => at(way),
            None => Count {
                name,
                window,
                current: 0,
                previous: 0,
            },
        };
        let after = before.after(window);
        lanes[2 * way..2 * way + 2].copy_from_slice(&after.lanes());
        Some(after.previous)
    }
}

/// Spreads a number over 64 bits; no two numbers become one.
const fn mix(mut number: u64) -> u64 {
    number = (number ^ number >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
    number = (number ^ number >> 33).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    number ^ number >> 33
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    const fn id(function: u8, entry: u32) -> EntryId {
        EntryId { function, entry }
    }

    #[test]
    fn entries_of_any_number_are_counted() {
        let mut counts = MatchCounts::new(1024);
        let sparse = [0, 1, 1 << 22, 1 << 31, u32::MAX >> 1, u32::MAX];
        for window in 1..4 {
            for _ in 0..7 {
                for entry in sparse {
                    let previous = if window == 1 { 0 } else { 7 };
                    assert_eq!(counts.count(id(3, entry), window), Some(previous));
                }
            }
        }
    }

    #[test]
    fn a_place_goes_to_another_entry_when_it_says_nothing_any_more() {
        let mut counts = MatchCounts::new(WAYS);
        (0..4).for_each(|entry| assert_eq!(counts.count(id(0, entry), 1), Some(0)));
        assert_eq!(counts.count(id(0, 4), 2), None);
        assert_eq!(counts.count(id(0, 0), 2), Some(1));
        assert_eq!(counts.count(id(0, 4), 3), Some(0));
        assert_eq!(counts.count(id(0, 0), 3), Some(1));
    }

    #[test]
    fn a_late_match_takes_nothing_away() {
        let mut counts = MatchCounts::new(WAYS);
        for (window, previous) in [(5, 0), (6, 1), (5, 1), (6, 1), (7, 3)] {
            assert_eq!(counts.count(id(0, 0), window), Some(previous), "{window}");
        }
    }

    proptest! {
        #[test]
        fn counts_as_a_map_would(steps in prop::collection::vec((0u8..3, 0u32..6, 0u32..3), 1..300)) {
            let mut counts = MatchCounts::new(256);
            let mut reference: HashMap<(u8, u32, u32), u32> = HashMap::new();
            let mut window = 1;
            for (function, entry, more) in steps {
                window += u32::from(more == 0);
                *reference.entry((function, entry, window)).or_default() += 1;
                let previous = reference.get(&(function, entry, window - 1)).copied();
                prop_assert_eq!(counts.count(id(function, entry), window), Some(previous.unwrap_or(0)));
            }
        }
    }
}
