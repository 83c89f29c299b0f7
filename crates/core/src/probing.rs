//! Open addressing in which no search is long.
//!
//! What is kept under a hash lies at its home, or behind it if others lie there: in a *run* of
//! taken places, at whose end a search gives up. Removing moves back what would not be found
//! behind a free place, so that no traces are left. A run is never made longer than
//! [`LONGEST_RUN`]: what does not fit is refused, and neither a search nor a removal ever looks at
//! more places, whatever keys there are.

/// Places in a row that may be taken. By chance, in a table of a million places of which two
/// thirds are taken, the longest run has about two hundred.
pub const LONGEST_RUN: usize = 1024;

/// The places of a table; behind the last comes the first. Some are always free.
pub trait Places {
    /// How many there are.
    fn places(&self) -> usize;

    /// Whether something lies at a place.
    fn is_taken(&self, place: usize) -> bool;

    /// Where the search for what lies at a taken place begins.
    fn home_of(&self, place: usize) -> usize;

    /// What lies at a place goes to a free one; what is left of it there does not matter.
    fn move_to(&mut self, from: usize, to: usize);

    /// Whether a free place may be taken without making a run too long.
    fn may_take(&self, place: usize) -> bool {
        let count = self.places();
        let (mut behind, mut before, mut taken) = (next(place, count), last(place, count), 0);
        while taken < LONGEST_RUN && self.is_taken(behind) {
            (behind, taken) = (next(behind, count), taken + 1);
        }
        while taken < LONGEST_RUN && self.is_taken(before) {
            (before, taken) = (last(before, count), taken + 1);
        }
        taken < LONGEST_RUN
    }

    /// A place becomes free, and what lies behind it is moved back where need be. Returns the place
    /// that is to be emptied in the end.
    fn close_gap(&mut self, mut gap: usize) -> usize {
        let count = self.places();
        let distance = |from: usize, to: usize| match to.checked_sub(from) {
            Some(distance) => distance,
            None => to + count - from,
        };
        let mut place = next(gap, count);
        while self.is_taken(place) {
            if distance(self.home_of(place), place) >= distance(gap, place) {
                self.move_to(place, gap);
                gap = place;
            }
            place = next(place, count);
        }
        gap
    }
}

/// The place behind one.
#[inline(always)]
#[must_use]
pub const fn next(place: usize, count: usize) -> usize {
    if place + 1 < count { place + 1 } else { 0 }
}

/// The place before one.
const fn last(place: usize, count: usize) -> usize {
    match place.checked_sub(1) {
        Some(before) => before,
        None => count - 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Numbers, each with a home.
    struct Homes(Vec<Option<usize>>);

    impl Places for Homes {
        fn places(&self) -> usize {
            self.0.len()
        }

        fn is_taken(&self, place: usize) -> bool {
            self.0[place].is_some()
        }

        fn home_of(&self, place: usize) -> usize {
            self.0[place].expect("taken")
        }

        fn move_to(&mut self, from: usize, to: usize) {
            self.0[to] = self.0[from];
        }
    }

    impl Homes {
        fn end_of_search(&self, home: usize) -> usize {
            let mut place = home;
            while self.is_taken(place) {
                place = next(place, self.places());
            }
            place
        }

        fn insert(&mut self, home: usize) -> bool {
            let place = self.end_of_search(home);
            let may = self.may_take(place);
            if may {
                self.0[place] = Some(home);
            }
            may
        }

        /// Places from each one's home to it are taken: all are found.
        fn are_found(&self) -> bool {
            let mut taken = (0..self.places()).filter(|&place| self.is_taken(place));
            taken.all(|place| {
                let mut on_the_way = self.home_of(place);
                while on_the_way != place && self.is_taken(on_the_way) {
                    on_the_way = next(on_the_way, self.places());
                }
                on_the_way == place
            })
        }
    }

    proptest! {
        #[test]
        fn all_are_found_after_any_gap(homes in prop::collection::vec(0usize..32, 1..30), out: prop::sample::Index) {
            let mut table = Homes(vec![None; 32]);
            homes.iter().for_each(|&home| assert!(table.insert(home)));
            let taken: Vec<_> = (0..32).filter(|&place| table.is_taken(place)).collect();
            let emptied = table.close_gap(taken[out.index(taken.len())]);
            table.0[emptied] = None;
            prop_assert!(table.are_found());
            prop_assert_eq!(table.0.iter().flatten().count(), homes.len() - 1);
        }
    }

    /// Homes side by side, from either end, and one between two long runs.
    #[test]
    fn no_run_grows_too_long() {
        let count = 4 * LONGEST_RUN;
        let (middle, half) = (2 * LONGEST_RUN, LONGEST_RUN / 2);
        let mut table = Homes(vec![None; count]);
        assert!((0..LONGEST_RUN).all(|_| table.insert(7)));
        assert!(!table.insert(7), "behind");
        assert!(!table.insert(6), "before");
        assert!((0..half).all(|_| table.insert(middle)));
        assert!((0..half).all(|_| table.insert(middle + half + 1)));
        assert!(!table.insert(middle + half), "between");
        assert!(table.insert(5), "apart");
    }
}
