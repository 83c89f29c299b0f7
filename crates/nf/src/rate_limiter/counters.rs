//! What the limiter counts.

/// What the slow path's part of the limiter has seen and done.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Packets within the rate.
    pub conforming: u64,
    /// Packets of a direction that is not limited, and ICMP errors where buckets are flows'.
    pub passed: u64,
    /// Packets that began to wait.
    pub delayed: u64,
    /// Packets that had waited and left.
    pub released: u64,
    /// Excess that was dropped.
    pub dropped: u64,
    /// Of it, what would have waited longer than `longest_delay`.
    pub too_late: u64,
    /// Of it, what found its flow's line full.
    pub line_full: u64,
    /// Packets that found all lines together full, dropped for want of room.
    pub buffer_full: u64,
    /// Packets whose prefix had no bucket of its own.
    pub crowded: u64,
    /// Packets in line that were lost with their flow when the workers were reset.
    pub forgotten: u64,
}

impl Counters {
    /// Calls `each` with every counter's name and value.
    pub fn each(&self, each: &mut dyn FnMut(&'static str, u64)) {
        each("conforming", self.conforming);
        each("passed", self.passed);
        each("delayed", self.delayed);
        each("released", self.released);
        each("dropped", self.dropped);
        each("too_late", self.too_late);
        each("line_full", self.line_full);
        each("buffer_full", self.buffer_full);
        each("crowded", self.crowded);
        each("forgotten", self.forgotten);
    }
}
