//! Which line.

use std::fmt;

/// Which line: a worker's number, and which way.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LineId {
    pub worker: usize,
    pub is_back: bool,
}

impl LineId {
    /// The line to a worker.
    pub const fn to_worker(worker: usize) -> Self {
        Self {
            worker,
            is_back: false,
        }
    }

    /// The line from a worker.
    pub const fn from_worker(worker: usize) -> Self {
        Self {
            worker,
            is_back: true,
        }
    }
}

impl fmt::Display for LineId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.is_back {
            false => write!(f, "to worker {}", self.worker),
            true => write!(f, "from worker {}", self.worker),
        }
    }
}
