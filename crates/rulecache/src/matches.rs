//! How often each entry was matched, by window.
//!
//! Entries' numbers say nothing but which entry it is, so they are found by a hash. An entry that
//! was not matched in this window or the one before counts as one that never was, and gives its
//! place to another: nothing has to be cleared.

use crate::recording::EntryId;

/// Matches of one entry.
#[derive(Copy, Clone, Default)]
struct Matches {
    /// The entry, plus one; 0 for none.
    entry: u64,
    /// The window that `current` counts.
    window: u32,
    current: u32,
    previous: u32,
}

impl Matches {
    /// Whether the next match can be counted as if there had never been any.
    fn is_past(&self, window: u32) -> bool {
        self.entry == 0 || window.wrapping_sub(self.window) > 1
    }

    /// Counts a match in a window; returns the count of the window before.
    #[inline]
    fn count(&mut self, window: u32) -> u32 {
        if self.window != window {
            let follows = self.window.wrapping_add(1) == window;
            self.previous = if follows { self.current } else { 0 };
            (self.window, self.current) = (window, 0);
        }
        self.current = self.current.saturating_add(1);
        self.previous
    }
}

/// Places that one entry may have.
const WAYS: usize = 8;

/// Places at first.
const FIRST: usize = 1024;

/// Counters of entries, as many as are matched within two windows.
pub(crate) struct EntryMatches {
    places: Vec<Matches>,
    most: usize,
}

impl EntryMatches {
    /// At most so many places, rounded up to a power of two.
    pub fn new(most: usize) -> Self {
        let most = most.max(WAYS).next_power_of_two();
        Self {
            places: vec![Matches::default(); most.min(FIRST)],
            most,
        }
    }

    /// Counts a match of an entry in a window; returns the count of the window before, or `None`
    /// if there is no room to count it.
    #[inline]
    pub fn count(&mut self, entry: EntryId, window: u32) -> Option<u32> {
        let name = (u64::from(entry.function) << 32 | u64::from(entry.entry)) + 1;
        loop {
            if let Some(place) = self.place(name, window) {
                return Some(self.places[place].count(window));
            }
            if !self.grow(window) {
                return None;
            }
        }
    }

    fn home(&self, name: u64) -> usize {
        let hash = name.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (hash >> 32) as usize & (self.places.len() - 1) & !(WAYS - 1)
    }

    /// The entry's place; if it has none, one that is free from now on.
    #[inline]
    fn place(&mut self, name: u64, window: u32) -> Option<usize> {
        let home = self.home(name);
        let ways = &mut self.places[home..home + WAYS];
        if let Some(way) = ways.iter().position(|matches| matches.entry == name) {
            return Some(home + way);
        }
        let way = ways.iter().position(|matches| matches.is_past(window))?;
        ways[way] = Matches {
            entry: name,
            window,
            ..Matches::default()
        };
        Some(home + way)
    }

    /// Makes twice as many places; returns whether there may be so many. An entry that finds none
    /// among them begins anew.
    #[cold]
    fn grow(&mut self, window: u32) -> bool {
        if self.places.len() >= self.most {
            return false;
        }
        let twice = vec![Matches::default(); 2 * self.places.len()];
        let before = std::mem::replace(&mut self.places, twice);
        for matches in before
            .into_iter()
            .filter(|matches| !matches.is_past(window))
        {
            if let Some(place) = self.place(matches.entry, window) {
                self.places[place] = matches;
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    proptest! {
        /// While there is room, counts are those of a map that never forgets.
        #[test]
        fn counts_are_exact_while_there_is_room(
            matches in prop::collection::vec((0..3u8, 0..4000u32, 0..4u32), 1..3000),
        ) {
            let (mut counted, mut window) = (EntryMatches::new(1 << 16), 7);
            let mut all: HashMap<(EntryId, u32), u32> = HashMap::new();
            for (function, number, later) in matches {
                window += u32::from(later == 3);
                let entry = EntryId { function, entry: number.wrapping_mul(0x8000_0001) };
                let before = all.get(&(entry, window - 1)).copied().unwrap_or(0);
                prop_assert_eq!(counted.count(entry, window), Some(before));
                *all.entry((entry, window)).or_default() += 1;
            }
        }
    }

    #[test]
    fn what_finds_no_room_is_not_counted() {
        let mut counted = EntryMatches::new(64);
        let entry = |entry| EntryId { function: 0, entry };
        let room = (0..1000).filter(|&number| counted.count(entry(number), 1).is_some());
        assert!((1..=64).contains(&room.count()));
        assert_eq!(
            counted.count(entry(5000), 3),
            Some(0),
            "two windows later all is past"
        );
    }
}
