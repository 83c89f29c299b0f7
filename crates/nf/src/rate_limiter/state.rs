//! The flow's state words, by name.

use twinpath_core::{Direction, Instant};

/// Which directions have been seen, and which have packets in line: see [`seen`] and [`waiting`].
pub(super) const FLAGS: usize = 0;
/// How many words there are.
pub(super) const WORDS: usize = 5;

/// The word with the time at which a direction's bucket will be full, in units.
pub(super) const fn full_at(way: Direction) -> usize {
    1 + 2 * way.index()
}

/// The word with the time at which a direction was last seen, in ticks.
pub(super) const fn last_seen(way: Direction) -> usize {
    2 + 2 * way.index()
}

/// The bit that says that a direction has a bucket.
pub(super) const fn seen(way: Direction) -> u32 {
    1 << way.index()
}

/// The bit that says that packets of a direction wait.
pub(super) const fn waiting(way: Direction) -> u32 {
    4 << way.index()
}

/// The words of one flow.
pub(super) struct State<'a>(pub &'a mut [u32]);

impl State<'_> {
    /// When a direction's bucket will be full, if it has not been silent for so long that it is.
    pub fn full_at(&self, way: Direction, now: Instant, full_ticks: u32) -> Option<u32> {
        let has_bucket = self.0[FLAGS] & seen(way) != 0;
        let silent = now.ticks_since(self.0[last_seen(way)]);
        (has_bucket && silent <= full_ticks).then_some(self.0[full_at(way)])
    }

    /// Its bucket will be full at `full`, as of now. A packet that another one of the direction has
    /// overtaken does not make it older.
    pub fn set(&mut self, way: Direction, full: u32, now: Instant) {
        let (ticks, before) = (now.ticks(), self.0[last_seen(way)]);
        let is_late = self.0[FLAGS] & seen(way) != 0 && now.ticks_since(before) == 0;
        if !is_late {
            self.0[last_seen(way)] = ticks;
        }
        self.0[FLAGS] |= seen(way);
        self.0[full_at(way)] = full;
    }

    pub fn set_waiting(&mut self, way: Direction, waits: bool) {
        let flag = if waits { waiting(way) } else { 0 };
        self.0[FLAGS] = self.0[FLAGS] & !waiting(way) | flag;
    }
}

/// Whether packets of either direction wait.
pub(super) const fn any_waits(words: &[u32]) -> bool {
    words[FLAGS] & (waiting(Direction::Original) | waiting(Direction::Reply)) != 0
}

/// Whether all directions that have buckets have been silent for more than so many ticks.
pub(super) fn is_silent(words: &[u32], now: Instant, ticks: u32) -> bool {
    let is_silent = |way: Direction| {
        words[FLAGS] & seen(way) == 0 || now.ticks_since(words[last_seen(way)]) > ticks
    };
    Direction::BOTH.into_iter().all(is_silent)
}
