//! Deadlines of flows, in order.

use crate::store::FlowId;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use twinpath_core::Instant;

/// A deadline of a flow; it counts only while the flow's incarnation lives.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Deadline {
    /// When.
    pub at: Instant,
    /// Whose.
    pub flow: FlowId,
    /// Of which incarnation.
    pub incarnation: u32,
}

/// A queue of deadlines, earliest first. Deadlines are never taken back; a wake-up that is no
/// longer needed does nothing.
#[derive(Debug, Default)]
pub struct Timers(BinaryHeap<Reverse<Deadline>>);

impl Timers {
    /// Adds a deadline.
    pub fn add(&mut self, deadline: Deadline) {
        self.0.push(Reverse(deadline));
    }

    /// Takes out the earliest deadline that is not after `now`.
    pub fn due(&mut self, now: Instant) -> Option<Deadline> {
        if self.0.peek()?.0.at > now {
            return None;
        }
        self.0.pop().map(|Reverse(deadline)| deadline)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The earliest deadline.
    pub fn next(&self) -> Option<Instant> {
        self.0.peek().map(|Reverse(deadline)| deadline.at)
    }
}
