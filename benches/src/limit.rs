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
    /// packet's own bytes choose, fetching ahead in batches as the fast path does.
    pub fn touch(&self, frames: &[Frame]) -> u64 {
        let mut sum = 0u64;
        let mut places = [0usize; 32];
        for batch in frames.chunks(32) {
            for (index, (place, frame)) in places.iter_mut().zip(batch).enumerate() {
                if let Some(ahead) = batch.get(index + 4) {
                    ahead.prefetch();
                }
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
