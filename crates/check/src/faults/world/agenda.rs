//! What is to happen, in order of time.

use super::line_id::LineId;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Something that is to happen.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Next {
    Arrival,
    Frame {
        line: LineId,
        ticket: u64,
    },
    /// The machine is told the time.
    Tick,
    /// Memory servers, and the links to them.
    Servers,
    Wake {
        worker: usize,
    },
    Pause {
        worker: usize,
    },
    Resume {
        worker: usize,
    },
    Crash {
        worker: usize,
    },
    Calm,
    Command {
        worker: usize,
    },
    Stop,
    LateArrival,
}

/// The agenda. What is planned for the same time happens in the order in which it was planned.
#[derive(Default)]
pub struct Agenda {
    queue: BinaryHeap<Reverse<(u64, u64, Next)>>,
    planned: u64,
    next_tick: Option<u64>,
    next_servers: Option<u64>,
    next_wakes: Vec<Option<u64>>,
}

impl Agenda {
    /// Plans something.
    pub fn add(&mut self, at: u64, next: Next) {
        self.planned += 1;
        self.queue.push(Reverse((at, self.planned, next)));
    }

    /// Plans a tick, unless there is one before that.
    pub fn add_tick(&mut self, at: u64) {
        if self.next_tick.is_none_or(|planned| planned > at) {
            self.next_tick = Some(at);
            self.add(at, Next::Tick);
        }
    }

    /// Plans that something happens at memory servers, unless something does before.
    pub fn add_servers(&mut self, at: u64) {
        if self.next_servers.is_none_or(|planned| planned > at) {
            self.next_servers = Some(at);
            self.add(at, Next::Servers);
        }
    }

    /// Plans a worker's wake-up, unless there is one before that.
    pub fn add_wake(&mut self, worker: usize, at: u64) {
        if self.next_wakes.len() <= worker {
            self.next_wakes.resize(worker + 1, None);
        }
        if self.next_wakes[worker].is_none_or(|planned| planned > at) {
            self.next_wakes[worker] = Some(at);
            self.add(at, Next::Wake { worker });
        }
    }

    /// How much is planned; what was planned twice for the same time may be counted twice.
    pub fn len(&self) -> usize {
        let planned = self.queue.iter();
        planned
            .filter(|Reverse((at, _, next))| self.is_planned(*at, *next))
            .count()
    }

    /// What happens next.
    pub fn pop(&mut self) -> Option<(u64, Next)> {
        loop {
            let Reverse((at, _, next)) = self.queue.pop()?;
            if self.is_planned(at, next) {
                if let Some(planned) = self.only_plan(next) {
                    *planned = None;
                }
                return Some((at, next));
            }
        }
    }

    /// What is behind so many others, or the last there is, happens before them.
    pub fn pop_behind(&mut self, others: usize) -> Option<(u64, Next)> {
        let mut others: Vec<_> = (0..others).map_while(|_| self.pop()).collect();
        let popped = self.pop().or_else(|| others.pop());
        for (at, next) in others {
            if let Some(planned) = self.only_plan(next) {
                *planned = Some(at);
            }
            self.add(at, next);
        }
        popped
    }

    /// Ticks and wake-ups that an earlier one has replaced do not happen.
    fn is_planned(&self, at: u64, next: Next) -> bool {
        match next {
            Next::Tick => self.next_tick == Some(at),
            Next::Servers => self.next_servers == Some(at),
            Next::Wake { worker } => self.next_wakes[worker] == Some(at),
            _ => true,
        }
    }

    /// When something happens that is planned once at a time.
    fn only_plan(&mut self, next: Next) -> Option<&mut Option<u64>> {
        match next {
            Next::Tick => Some(&mut self.next_tick),
            Next::Servers => Some(&mut self.next_servers),
            Next::Wake { worker } => self.next_wakes.get_mut(worker),
            _ => None,
        }
    }
}
