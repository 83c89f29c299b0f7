//! The log of a run.

use super::happened::{Happened, Microseconds};
use std::collections::VecDeque;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};

/// Something that happened in a run, and when.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub struct Event {
    at_ns: u64,
    happened: Happened,
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (at, happened) = (Microseconds(self.at_ns), self.happened);
        write!(f, "{at:>13} us  {happened}")
    }
}

/// The log of a run: all of it, or its end.
pub struct Log {
    events: VecDeque<Event>,
    keeps: usize,
    digest: DefaultHasher,
}

impl Log {
    /// A log that keeps so many events.
    pub fn new(keeps: usize) -> Self {
        Self {
            events: VecDeque::new(),
            keeps,
            digest: DefaultHasher::new(),
        }
    }

    /// Keeps all events.
    pub fn keep_all(&mut self) {
        self.keeps = usize::MAX;
    }

    /// Something happened.
    pub fn add(&mut self, at_ns: u64, happened: Happened) {
        let event = Event { at_ns, happened };
        event.hash(&mut self.digest);
        if self.events.len() >= self.keeps {
            self.events.pop_front();
        }
        self.events.push_back(event);
    }

    /// The events kept, and a digest of all there were.
    pub fn close(self) -> (Vec<Event>, u64) {
        (self.events.into(), self.digest.finish())
    }
}
