//! How often entries were used in this window and in the last.
//!
//! Functions number their entries as they like, so the counts lie in a hash table of fixed size,
//! four entries to a cache line. Two with numbers side by side share a line: what came into being
//! together is used together. What finds its line full goes to the neighbor (the other line of an
//! aligned pair): with a sixteenth of all places in use, one or more of a thousand entries would find no
//! place in one line of four, and hardly any of a hundred thousand does in two.
//!
//! Where more entries are in use than both have places, a use of one that has none costs the
//! least used of them one of its matches, and at zero its place. So entries that are used
//! often get a place and keep it, whatever there is besides; the counts of others are too low.

use crate::recording::EntryId;
use twinpath_core::HashKey;
use twinpath_core::memory::{CacheLine, ZeroedArray, prefetch};

/// Entries in a line, two words each: name 32 bits and window 32, current count 32 and previous.
const WAYS: usize = 4;

/// How many windows a match may be late; matches are as late as packets wait.
const MOST_WINDOWS_LATE: u32 = 1 << 16;

/// One match in the word of counts.
const ONE: u64 = 1 << 32;

/// Counts of a fixed number of entries.
pub(crate) struct MatchCounts {
    lines: ZeroedArray<CacheLine>,
    hash_key: HashKey,
}

/// Where an entry is counted, and under which name; no name is 0, which is that of a free place.
#[derive(Copy, Clone)]
struct Location {
    line: usize,
    name: u32,
}

/// The counts of one entry.
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

    const fn words(self) -> [u64; 2] {
        [
            Self::who(self.name, self.window),
            (self.current as u64) << 32 | self.previous as u64,
        ]
    }

    /// The first word.
    #[inline(always)]
    const fn who(name: u32, window: u32) -> u64 {
        (name as u64) << 32 | window as u64
    }

    /// As it stands in a window; of a match that is a little late it stands as in the latest.
    const fn in_window(self, window: u32) -> Self {
        // Numbers of windows wrap, so one that is far ahead is from long ago; nothing was ever
        // counted in number 0.
        if self.window != 0 && self.window.wrapping_sub(window) <= MOST_WINDOWS_LATE {
            return self;
        }
        let follows = self.window.wrapping_add(1) == window;
        Self {
            name: self.name,
            window,
            current: 0,
            previous: if follows { self.current } else { 0 },
        }
    }

    /// How often it was used lately.
    const fn uses(self) -> u64 {
        self.current as u64 + self.previous as u64
    }

    /// One match less.
    const fn less(mut self) -> Self {
        if self.current > 0 {
            self.current -= 1;
        } else {
            self.previous = self.previous.saturating_sub(1);
        }
        self
    }
}

impl MatchCounts {
    /// Room for so many entries.
    pub fn new(entries: usize, seed: u64) -> Self {
        Self {
            // Each line has a neighbor.
            lines: ZeroedArray::new(2 * entries.div_ceil(2 * WAYS).clamp(1, u32::MAX as usize / 2)),
            hash_key: HashKey::new(seed),
        }
    }

    /// Takes the memory now.
    pub fn touch(&mut self) {
        self.lines.touch();
    }

    #[inline(always)]
    fn place(&self, EntryId { function, entry }: EntryId) -> Location {
        let number = u64::from(function) << 32 | u64::from(entry >> 1);
        let mixed = self.hash_key.hash([number]);
        let line = ((mixed >> 32) * self.lines.len() as u64) >> 32;
        Location {
            line: line as usize,
            // Two bits for the number's lowest, so that there is always one.
            name: mixed as u32 & !0b11 | 0b10 >> (entry & 1),
        }
    }

    /// An entry will be counted soon.
    #[inline(always)]
    pub fn prefetch(&self, entry: EntryId) {
        prefetch(&self.lines[self.place(entry).line]);
    }

    /// Counts a match of an entry in a window (not 0); returns the count of the window before, or
    /// `None` if there is no place for the entry.
    #[inline(always)]
    pub fn count(&mut self, entry: EntryId, window: u32) -> Option<u32> {
        let Location { line, name } = self.place(entry);
        let words = &mut self.lines[line].0;
        // Nearly always it has been used in this window before.
        let usual = Count::who(name, window);
        for way in 0..WAYS {
            if words[2 * way] == usual {
                let counts = &mut words[2 * way + 1];
                *counts = counts.checked_add(ONE).unwrap_or(*counts);
                return Some(*counts as u32);
            }
        }
        self.count_seldom(line, name, window)
    }

    /// Counts a match of an entry that was not used in this window, does not lie where it belongs, or is
    /// not there.
    #[inline(never)]
    fn count_seldom(&mut self, line: usize, name: u32, window: u32) -> Option<u32> {
        let at = |place: usize| self.read(line, place).in_window(window);
        let Some(place) = (0..2 * WAYS).find(|&place| at(place).name == name) else {
            return self.admit(line, name, window);
        };
        let mut count = at(place);
        count.current = count.current.saturating_add(1);
        self.write(line, place, count);
        Some(count.previous)
    }

    /// Counts the first match of an entry, if there is a place or comes to be one.
    fn admit(&mut self, line: usize, name: u32, window: u32) -> Option<u32> {
        let (place, least) = (0..2 * WAYS)
            .map(|place| (place, self.read(line, place).in_window(window)))
            .min_by_key(|(_, count)| count.uses())?;
        if least.uses() > 0 {
            self.write(line, place, least.less());
            return None;
        }
        let (current, previous) = (1, 0);
        let new = Count {
            name,
            window,
            current,
            previous,
        };
        self.write(line, place, new);
        Some(0)
    }

    /// What lies at one of the places for entries of a line: its own, then those of its neighbor.
    fn read(&self, line: usize, place: usize) -> Count {
        let words = &self.lines[line ^ (place / WAYS)].0;
        let first = 2 * (place % WAYS);
        Count::read([words[first], words[first + 1]])
    }

    fn write(&mut self, line: usize, place: usize, count: Count) {
        let first = 2 * (place % WAYS);
        self.lines[line ^ (place / WAYS)].0[first..first + 2].copy_from_slice(&count.words());
    }
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
        let mut counts = MatchCounts::new(1024, 1);
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
        let mut counts = MatchCounts::new(2 * WAYS, 1);
        (0..8).for_each(|entry| assert_eq!(counts.count(id(0, entry), 1), Some(0)));
        // Each is one match away from losing its place.
        assert_eq!(counts.count(id(0, 8), 1), None);
        assert_eq!(counts.count(id(0, 8), 1), Some(0));
        (0..8).for_each(|entry| _ = counts.count(id(0, entry), 5));
        assert_eq!(
            counts.count(id(0, 9), 7),
            Some(0),
            "nobody was there in window 6"
        );
    }

    #[test]
    fn entries_in_use_keep_their_places_among_many_others() {
        let mut counts = MatchCounts::new(WAYS, 1);
        for window in 1..4 {
            for round in 0..100 {
                for entry in 0..3 {
                    let previous = counts.count(id(0, entry), window);
                    assert!(window == 1 || previous >= Some(50), "{previous:?}");
                }
                counts.count(id(1, window * 1000 + round), window);
            }
        }
    }

    #[test]
    fn a_late_match_takes_nothing_away() {
        let mut counts = MatchCounts::new(WAYS, 1);
        for (window, previous) in [(5, 0), (6, 1), (5, 1), (6, 1), (7, 3)] {
            assert_eq!(counts.count(id(0, 0), window), Some(previous), "{window}");
        }
    }

    #[test]
    fn numbers_of_windows_wrap() {
        let mut counts = MatchCounts::new(WAYS, 1);
        for (window, previous) in [(u32::MAX, 0), (1, 0), (2, 1), (3, 1)] {
            assert_eq!(counts.count(id(0, 0), window), Some(previous), "{window}");
        }
    }

    /// Whoever was silent while half of all numbers passed is counted again.
    #[test]
    fn windows_from_long_ago_are_forgotten() {
        let mut counts = MatchCounts::new(WAYS, 1);
        assert_eq!(counts.count(id(0, 0), 7), Some(0));
        let much_later = (1 << 31) + 100;
        for (window, previous) in [(much_later, 0), (much_later + 1, 1)] {
            assert_eq!(counts.count(id(0, 0), window), Some(previous), "{window}");
        }
    }

    /// As many as a cache counts for each of its rules. With a single line for each, 307 had none.
    #[test]
    fn with_a_sixteenth_of_all_places_in_use_hardly_an_entry_has_none() {
        let mut uncounted = 0;
        for seed in 0..8 {
            let mut counts = MatchCounts::new(16 * 32_000, seed);
            let all = (0..32_000).map(|number| id(1, 1 << 31 | number));
            uncounted += all
                .filter(|&entry| counts.count(entry, 1).is_none())
                .count();
        }
        assert!(uncounted < 32, "{uncounted} of 256,000");
    }

    /// Numbers as functions give them, dense and with large gaps, fall on lines as by chance.
    #[test]
    fn entries_spread_over_lines() {
        let counts = MatchCounts::new(4 * 4096, 1);
        let patterns: [fn(u32) -> EntryId; 4] = [
            |n| id(1, 2 * n),
            |n| id(2, (1 << 31) | (2 * n)),
            |n| id(3, n << 16 | 5000),
            |n| id((n % 8) as u8, n / 8 * 2),
        ];
        for pattern in patterns {
            let mut load = vec![0u32; 4096];
            (0..16_384).for_each(|n| load[counts.place(pattern(n)).line] += 1);
            let most = load.iter().max();
            assert!(most.is_some_and(|&most| most < 20), "{most:?}");
            let empty = load.iter().filter(|&&load| load == 0).count();
            assert!(empty < 200, "{empty} of 4096, by chance 75");
        }
        let names: std::collections::HashSet<(usize, u32)> = (0..100_000)
            .map(|n| counts.place(id(1, n)))
            .map(|place| (place.line, place.name))
            .collect();
        assert_eq!(names.len(), 100_000);
    }

    proptest! {
        #[test]
        fn counts_as_a_map_would(steps in prop::collection::vec((0u8..3, 0u32..6, 0u32..3), 1..300)) {
            let mut counts = MatchCounts::new(256, 1);
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
