//! Seeded draws.

use twinpath_traffic::random::{Random, RandomSource};

/// Streams of a run: what one draws never shifts another.
pub const SCENARIO: u64 = 1_000_001;
pub const ARRIVALS: u64 = 1_000_002;
pub const WORKERS: u64 = 1_000_003;
pub const SABOTAGE: u64 = 1_000_004;
pub const CHANGES: u64 = 1_000_005;
pub const RULES: u64 = 1_000_006;
pub const PARKING: u64 = 1_000_007;
pub const SPLIT: u64 = 1_000_008;
pub const SERVERS: u64 = 1_000_009;
/// The first line's; each line has one of its own.
pub const LINES: u64 = 1_000_100;

/// Draws for one purpose.
#[derive(Clone, Debug)]
pub struct Draw(Random);

impl Draw {
    /// Draws of this stream.
    pub fn new(seed: u64, stream: u64) -> Self {
        Self(Random::stream(seed, stream))
    }

    /// A number in `0..bound`; 0 if there is none.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0.below(bound)
    }

    /// A number from `least` to `most`.
    pub fn between(&mut self, least: u64, most: u64) -> u64 {
        least + self.below(most.saturating_sub(least) + 1)
    }

    /// True or false.
    pub fn flip(&mut self) -> bool {
        self.below(2) == 0
    }

    /// True once in so many times.
    pub fn one_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    /// True this many times in a thousand. Draws nothing if that is never.
    pub fn permille(&mut self, times: u64) -> bool {
        times > 0 && self.below(1000) < times
    }

    /// One of these.
    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize]
    }

    /// One of these once in so many times, otherwise zero.
    pub fn sometimes(&mut self, one_in: u64, from: &[u64]) -> u64 {
        let value = self.pick(from);
        if self.one_in(one_in) { value } else { 0 }
    }
}
