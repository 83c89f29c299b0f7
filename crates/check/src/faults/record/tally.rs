//! Packets counted apart from production.

/// Packets by what became of them, where the simulation must count on its own.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Packets that went into the fast path and did not come out.
    pub dropped_fast: u64,
    /// Those of them that found no buffer when they arrived.
    pub turned_away: u64,
    /// Packets that each worker got and has neither let out nor dropped.
    pub inside: Vec<i64>,
    /// Packets that went into a fast path with rules and have not come out.
    pub inside_fast: i64,
    /// At the end.
    pub buffers_missing: usize,
}

impl Tally {
    /// Nothing has come yet.
    pub fn new(workers: usize) -> Self {
        Self {
            inside: vec![0; workers],
            ..Self::default()
        }
    }
}
