//! What time it is for a worker.
//!
//! A worker sees packets one way behind the machine, and those of some flows sooner than those of
//! others: the newest packet does not tell the time. So the machine does, for it alone knows what is
//! still under way.

use twinpath_core::Instant;

/// A point in the order in which deadlines come: by time, and of the same time by element.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment {
    /// The time.
    pub at: Instant,
    /// The element of the chain.
    pub element: u8,
}

impl Moment {
    /// Before all deadlines.
    pub const START: Self = Self {
        at: Instant::ZERO,
        element: 0,
    };

    /// The deadline of what has none.
    pub const NEVER: Self = Self::end_of(Instant::NEVER);

    /// When all deadlines of this time have come.
    pub const fn end_of(at: Instant) -> Self {
        let element = u8::MAX;
        Self { at, element }
    }

    /// The time by which deadlines of this element have come.
    pub const fn at_element(self, element: u8) -> Instant {
        match element <= self.element {
            true => self.at,
            false => Instant(self.at.0.saturating_sub(1)),
        }
    }
}

/// What a machine tells its workers.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Time {
    /// Packets that are older have all come to their end, or are kept by functions: deadlines up to
    /// this one are to come.
    pub passed: Moment,
    /// The packet clock, for what has to be asked again. It goes on while packets wait.
    pub now: Instant,
}

impl Default for Time {
    fn default() -> Self {
        Self {
            passed: Moment::START,
            now: Instant::ZERO,
        }
    }
}
