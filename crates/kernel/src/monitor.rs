//! When what is asked of the kernel.
//!
//! Messages about changes come by themselves, by the same socket as the lists that are asked for, so
//! in one order. Everything is asked for at the beginning, one list after the other; again when
//! messages were lost (ENOBUFS), and when routes may have gone without a word; not more often than
//! once a second, however many interfaces flap. And when there is room again for routes that there was
//! none for, which may be often where routes come and go at the limit: once in ten seconds at most.

use crate::event::Event;
use crate::messages;
use crate::requests::{List, use_neighbor};
use crate::view::{Interest, View};
use std::time::Duration;
use twinpath_core::wire::Address;

/// The least time between two times that all is asked for.
const RESYNC_INTERVAL: Duration = Duration::from_secs(1);

/// The least time from when all was asked for until that is done for routes that there is room for again.
const ROOM_INTERVAL: Duration = Duration::from_secs(10);

/// How long a change is waited for to be over.
const SETTLE_TIME: Duration = Duration::from_millis(100);

/// A list that does not come within this time is asked for again.
const LIST_TIME: Duration = Duration::from_secs(30);

/// What is counted.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Times that all was asked for, but for the first.
    pub resyncs: u64,
    /// Times that messages were lost.
    pub overruns: u64,
    /// Messages that made no sense.
    pub malformed: u64,
    /// Messages about changes.
    pub events: u64,
}

/// Follows a kernel. Times are such as pass since any moment that does not change.
pub struct KernelMonitor {
    view: View,
    /// What is being asked for.
    asking: Option<Asking>,
    /// When all is to be asked for.
    due: Option<Duration>,
    last_begin: Option<Duration>,
    sequence: u32,
    is_complete: bool,
    counters: Counters,
}

/// A list that is being asked for.
struct Asking {
    list: usize,
    sequence: u32,
    since: Duration,
}

impl KernelMonitor {
    /// Nothing is known, and all is to be asked for.
    pub fn new(interest: Interest) -> Self {
        Self {
            view: View::new(interest),
            asking: None,
            due: Some(Duration::ZERO),
            last_begin: None,
            sequence: 0,
            is_complete: false,
            counters: Counters::default(),
        }
    }

    /// What is known.
    pub fn view(&self) -> &View {
        &self.view
    }

    /// The same, to take changes from.
    pub fn view_mut(&mut self) -> &mut View {
        &mut self.view
    }

    /// What was counted.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Whether all has been told at least once.
    pub fn is_complete(&self) -> bool {
        self.is_complete
    }

    /// Whether lists are being asked for.
    pub fn is_asking(&self) -> bool {
        self.asking.is_some()
    }

    /// What is to be sent now, if anything is.
    pub fn question(&mut self, now: Duration) -> Option<Vec<u8>> {
        if let Some(asking) = &self.asking
            && now.saturating_sub(asking.since) > LIST_TIME
        {
            self.resync(now);
        }
        if self.asking.is_some() || self.due.is_none_or(|due| due > now) {
            return None;
        }
        self.due = None;
        self.counters.resyncs += u64::from(self.last_begin.is_some());
        self.last_begin = Some(now);
        self.view.begin_round();
        Some(self.ask(0, now))
    }

    /// Datagrams have come. Returns what is to be sent next, if anything is.
    pub fn take(&mut self, datagram: &[u8], now: Duration) -> Option<Vec<u8>> {
        let mut ended = None;
        let malformed = messages::read(datagram, &mut |event| {
            self.counters.events += 1;
            match event {
                Event::Done {
                    sequence,
                    was_interrupted,
                } => ended = Some((sequence, was_interrupted)),
                // A kernel that does not know what is asked for has none of it.
                Event::Refused { sequence, .. } => ended = Some((sequence, false)),
                event => self.view.hear(event),
            }
        });
        self.counters.malformed += malformed as u64;
        if self.view.take_doubt() {
            self.ask_again(now, RESYNC_INTERVAL);
        }
        if self.view.has_room_again() {
            self.ask_again(now, ROOM_INTERVAL);
        }
        let (sequence, was_interrupted) = ended?;
        self.end_list(sequence, was_interrupted, now)
    }

    /// Messages were lost.
    pub fn overrun(&mut self, now: Duration) {
        self.counters.overruns += 1;
        self.resync(now);
    }

    /// When something is to be sent, whatever comes.
    pub fn next_deadline(&self) -> Option<Duration> {
        let list = self.asking.as_ref().map(|asking| asking.since + LIST_TIME);
        list.or(self.due)
    }

    /// What has the kernel find out who a neighbour at a port is.
    pub fn neighbor_question(&mut self, port: u16, address: Address) -> Option<Vec<u8>> {
        let interface = self.view.interface_of(port)?;
        Some(use_neighbor(interface, address, 0))
    }

    /// All is asked for again, when what happens is over, and so long after the last time at the earliest:
    /// routes may be gone without a word, or have room.
    fn ask_again(&mut self, now: Duration, interval: Duration) {
        let earliest = self.last_begin.unwrap_or_default() + interval;
        let due = (now + SETTLE_TIME).max(earliest);
        self.due = Some(self.due.map_or(due, |other| other.min(due)));
    }

    /// What is being asked for is given up, and all asked for again.
    fn resync(&mut self, now: Duration) {
        self.asking = None;
        let earliest = self.last_begin.map(|begin| begin + RESYNC_INTERVAL);
        self.due = Some(earliest.map_or(now, |earliest| earliest.max(now)));
    }

    fn ask(&mut self, list: usize, now: Duration) -> Vec<u8> {
        // Zero is the number of what nobody waits for.
        self.sequence = self.sequence.wrapping_add(1).max(1);
        self.asking = Some(Asking {
            list,
            sequence: self.sequence,
            since: now,
        });
        List::ALL[list].question(self.sequence)
    }

    fn end_list(&mut self, sequence: u32, was_interrupted: bool, now: Duration) -> Option<Vec<u8>> {
        let asking = self.asking.take_if(|asking| asking.sequence == sequence)?;
        if was_interrupted {
            return Some(self.ask(asking.list, now));
        }
        self.view.end_list(List::ALL[asking.list]);
        match asking.list + 1 {
            next if next < List::ALL.len() => Some(self.ask(next, now)),
            _ => {
                self.is_complete = true;
                None
            }
        }
    }
}

#[cfg(test)]
mod tests;
