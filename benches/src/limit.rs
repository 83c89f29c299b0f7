//! What the machine allows: a loop that touches the same memory and does nothing else.

use std::hint::black_box;
use twinpath_core::Frame;
use twinpath_core::memory::{CacheLine, ZeroedArray, prefetch};

/// A table of as many cache lines as a state table has slots.
pub struct Lines(ZeroedArray<CacheLine>);

impl Lines {
    /// A table whose pages have all been touched.
    pub fn new(slots: usize) -> Self {
        let mut lines = ZeroedArray::new(slots);
        lines
            .iter_mut()
            .for_each(|line: &mut CacheLine| line.0[0] = 1);
        Self(lines)
    }

    /// Reads every frame's bookkeeping and bytes and, for each, one line of the table that the
    /// packet's own bytes choose, fetching the next batch ahead as a driver does.
    pub fn touch(&self, frames: &[Frame]) -> u64 {
        let mut sum = 0u64;
        let mut places = [0usize; 32];
        for (number, batch) in frames.chunks(32).enumerate() {
            let next = frames.iter().skip(32 * (number + 1)).take(32);
            next.for_each(Frame::prefetch);
            for (place, frame) in places.iter_mut().zip(batch) {
                *place = self.place(frame);
                prefetch(&self.0[*place]);
            }
            sum = places[..batch.len()]
                .iter()
                .fold(sum, |sum, &place| sum.wrapping_add(self.0[place].0[0]));
        }
        black_box(sum)
    }

    fn place(&self, frame: &Frame) -> usize {
        let mixed = frame
            .bytes()
            .get(26..38)
            .and_then(|bytes| bytes.first_chunk())
            .map_or(0, |bytes| u64::from_le_bytes(*bytes));
        let hash = mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        ((hash * self.0.len() as u64) >> 32) as usize
    }
}
