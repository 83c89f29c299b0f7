//! Runs of elements that grow and shrink by one, packed in memory reserved at the start.

use twinpath_core::memory::{Zeroable, ZeroedArray};

use crate::blocks::Blocks;

/// A table of runs.
pub(super) struct Runs<T: Zeroable> {
    places: ZeroedArray<T>,
    blocks: Blocks,
}

impl<T: Zeroable> Runs<T> {
    pub fn new(places: usize) -> Self {
        Self {
            places: ZeroedArray::new(places),
            blocks: Blocks::new(places),
        }
    }

    #[inline(always)]
    pub fn at(&self, place: u32) -> &T {
        &self.places[place as usize]
    }

    pub fn at_mut(&mut self, place: u32) -> &mut T {
        &mut self.places[place as usize]
    }

    /// A new run of one element, or `None` if memory is full.
    pub fn single(&mut self, element: T) -> Option<u32> {
        self.insert(0, 0, 0, element)
    }

    /// Inserts an element into the run of `count` at `start` (which may be anything if the count
    /// is 0), before the one at position `at`. Returns where the run is now, or `None` if memory
    /// is full, and then nothing has changed.
    pub fn insert(&mut self, start: u32, count: usize, at: usize, element: T) -> Option<u32> {
        let moved = self.blocks.take(count + 1)?;
        let (from, to) = (start as usize, moved as usize);
        self.places.copy_within(from..from + at, to);
        self.places[to + at] = element;
        self.places
            .copy_within(from + at..from + count, to + at + 1);
        self.release(start, count);
        Some(moved)
    }

    /// Removes the element at position `at` of a run. Returns where the run is now.
    pub fn remove(&mut self, start: u32, count: usize, at: usize) -> u32 {
        let from = start as usize;
        self.places
            .copy_within(from + at + 1..from + count, from + at);
        let left = count - 1;
        if left > 0
            && let Some(moved) = self.blocks.take(left)
        {
            self.places.copy_within(from..from + left, moved as usize);
            self.release(start, count);
            return moved;
        }
        self.blocks.give(start + left as u32, 1);
        start
    }

    fn release(&mut self, start: u32, count: usize) {
        if count > 0 {
            self.blocks.give(start, count);
        }
    }

    /// Memory that was ever in use, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.blocks.end() * size_of::<T>()
    }

    #[cfg(test)]
    pub fn taken(&self) -> usize {
        self.blocks.taken()
    }
}
