//! What an operator is told of many things.

use twinpath_control::look::{Part, Query};
use twinpath_control::service::Service;
use twinpath_nf::edit::Object;

/// Of how many at least the largest are looked for at once.
const SEVERAL: usize = 1024;

/// What is told, up to as much as is wanted.
pub(super) struct Listing<T> {
    told: Vec<T>,
    most: usize,
    /// Whether there is more than is told.
    pub has_more: bool,
    /// Whether there was no time to look at all.
    pub is_cut: bool,
    is_without: bool,
    /// Of all those are told that have most of this; else those that come first.
    pub by_size: Option<fn(&T) -> u64>,
}

impl<T> Listing<T> {
    pub fn new(query: &Query) -> Self {
        Self::at_most(query.most())
    }

    pub fn at_most(most: usize) -> Self {
        Self {
            told: Vec::new(),
            most,
            has_more: false,
            is_cut: false,
            is_without: false,
            by_size: None,
        }
    }

    /// Of what functions have that operators may change.
    pub fn where_any_has(mut self, service: &Service, object: Object) -> Self {
        let mut chain = service.chain.iter();
        self.is_without = !chain.any(|one| one.config.has(object));
        self
    }

    pub fn push(&mut self, one: T) {
        match (self.told.len() < self.most, self.by_size) {
            (true, _) => self.told.push(one),
            (false, None) => self.has_more = true,
            (false, Some(size)) => {
                self.told.push(one);
                // So seldom that each costs the same, however many are told.
                if self.told.len() >= 2 * self.most.max(SEVERAL) {
                    self.keep_largest(size);
                }
            }
        }
    }

    fn keep_largest(&mut self, size: fn(&T) -> u64) {
        self.told.sort_by_key(|one| std::cmp::Reverse(size(one)));
        self.has_more |= self.told.len() > self.most;
        self.told.truncate(self.most);
    }

    /// Whether it is known that there is more.
    pub fn is_full(&self) -> bool {
        self.has_more && self.by_size.is_none()
    }

    pub fn finish(mut self) -> Part<T> {
        if let Some(size) = self.by_size {
            self.keep_largest(size);
        }
        Part {
            told: self.told,
            has_more: self.has_more,
            is_cut: self.is_cut,
            is_without: self.is_without,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The largest are told however many there are, and in whichever order they come.
    #[test]
    fn the_largest_of_many_are_told() {
        for most in [0, 1, 5, 3_000] {
            let mut listing = Listing::at_most(most);
            listing.by_size = Some(|size| *size);
            // Each once, in no order.
            (0..10_007u64).for_each(|at| listing.push(at * 7_919 % 10_007));
            let part = listing.finish();
            let largest: Vec<u64> = (0..10_007).rev().take(most).collect();
            assert_eq!((part.told, part.has_more), (largest, true));
        }
    }

    #[test]
    fn all_of_few_are_told_and_nobody_says_that_there_are_more() {
        let mut listing = Listing::at_most(5);
        listing.by_size = Some(|size| *size);
        [3, 1, 2].into_iter().for_each(|size| listing.push(size));
        let part = listing.finish();
        assert_eq!((part.told, part.has_more), (vec![3, 2, 1], false));
    }
}
