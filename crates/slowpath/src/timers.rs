//! Deadlines of flows, in order.

use crate::store::{FlowId, FlowStore};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use twinpath_core::Instant;

/// A deadline of a flow. It counts only while the flow says so, too: what a flow wants instead is
/// added beside it.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Deadline {
    /// When.
    pub at: Instant,
    /// Whose.
    pub flow: FlowId,
    /// Of which incarnation.
    pub incarnation: u32,
}

impl Deadline {
    fn counts<T: Default>(&self, store: &FlowStore<T>) -> bool {
        store.deadline(self.flow, self.incarnation) == self.at
    }
}

/// A queue of deadlines, earliest first, the first of which counts. The others that no longer do
/// are swept out when they are most.
#[derive(Debug, Default)]
pub struct Timers {
    deadlines: BinaryHeap<Reverse<Deadline>>,
    /// When there are so many they are looked through.
    most: usize,
}

/// So few deadlines are never looked through.
const FEW: usize = 64;

impl Timers {
    /// Adds a deadline, which its flow knows of already.
    pub fn add<T: Default>(&mut self, deadline: Deadline, store: &FlowStore<T>) {
        self.deadlines.push(Reverse(deadline));
        if self.deadlines.len() > self.most.max(FEW) {
            self.deadlines
                .retain(|Reverse(deadline)| deadline.counts(store));
            self.most = 2 * self.deadlines.len();
        }
    }

    /// Takes out deadlines in front that no longer count: one has passed, or a flow wants another.
    pub fn settle<T: Default>(&mut self, store: &FlowStore<T>) {
        let is_over = |Reverse(first): &Reverse<Deadline>| !first.counts(store);
        while self.deadlines.peek().is_some_and(is_over) {
            self.deadlines.pop();
        }
    }

    /// The earliest deadline.
    pub fn first(&self) -> Option<Deadline> {
        self.deadlines.peek().map(|Reverse(deadline)| *deadline)
    }

    /// When it is; [`Instant::NEVER`] if there is none.
    pub fn next(&self) -> Instant {
        self.first().map_or(Instant::NEVER, |deadline| deadline.at)
    }
}
