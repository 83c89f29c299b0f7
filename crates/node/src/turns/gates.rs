//! Gates: who shares one passes it in order of arrival.

use std::collections::{HashMap, VecDeque};

/// What a packet claims.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    gate: u16,
    kind: u32,
}

/// Gates that there are. Connections that share one wait for each other without need, never
/// wrongly.
const GATES: usize = 4096;

impl Claim {
    /// A claim of packets with this hash, of this kind. Those with equal hashes and other kinds
    /// must not overtake each other.
    #[inline]
    pub const fn new(hash: u64, kind: u32) -> Self {
        let gate = (hash >> 20) as usize % GATES;
        Self {
            gate: gate as u16,
            kind,
        }
    }
}

/// The place of somebody who is still on the way to a gate.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct Pass {
    gate: u16,
    run: u32,
}

/// Some of one kind that arrived after one another, none of another kind in between.
struct Run<T> {
    kind: u32,
    /// Those still on their way.
    coming: u32,
    /// Those that have come before it was their turn.
    here: VecDeque<T>,
}

/// Those who share a gate, in order of arrival. None of the first run is here: it is their turn.
struct Queue<T> {
    /// The number of the first run.
    first: u32,
    runs: VecDeque<Run<T>>,
}

impl<T> Default for Queue<T> {
    fn default() -> Self {
        Self {
            first: 0,
            runs: VecDeque::new(),
        }
    }
}

impl<T> Queue<T> {
    /// The number of the run that one of this kind joins who arrives now.
    fn join(&mut self, kind: u32) -> u32 {
        if self.runs.back().is_none_or(|last| last.kind != kind) {
            self.runs.push_back(Run {
                kind,
                coming: 0,
                here: VecDeque::new(),
            });
        }
        self.first.wrapping_add(self.runs.len() as u32 - 1)
    }

    fn run(&mut self, number: u32) -> Option<&mut Run<T>> {
        self.runs.get_mut(number.wrapping_sub(self.first) as usize)
    }

    /// If all of the first run have passed, or never will, it is the turn of the next.
    fn advance(&mut self, admitted: &mut VecDeque<T>) {
        while self.runs.front().is_some_and(|first| first.coming == 0) {
            self.runs.pop_front();
            self.first = self.first.wrapping_add(1);
            if let Some(first) = self.runs.front_mut() {
                admitted.append(&mut first.here);
            }
        }
    }
}

/// All gates in front of one element.
pub(super) struct Gates<T> {
    /// Which gates anybody is on the way to, or waits at.
    taken: Box<[bool]>,
    queues: HashMap<u16, Queue<T>>,
    /// Whose turn has come, of those that waited.
    admitted: VecDeque<T>,
    coming: usize,
    waiting: usize,
}

impl<T> Default for Gates<T> {
    fn default() -> Self {
        Self {
            taken: vec![false; GATES].into(),
            queues: HashMap::new(),
            admitted: VecDeque::new(),
            coming: 0,
            waiting: 0,
        }
    }
}

impl<T> Gates<T> {
    /// How many are on their way.
    pub fn coming(&self) -> usize {
        self.coming
    }

    /// How many wait, those included whose turn has come and who have not been taken yet.
    pub fn waiting(&self) -> usize {
        self.waiting
    }

    /// All that wait.
    pub fn each_waiting(&self) -> impl Iterator<Item = &T> {
        let runs = self.queues.values().flat_map(|queue| &queue.runs);
        runs.flat_map(|run| &run.here).chain(&self.admitted)
    }

    /// Whether one that has just arrived overtakes nobody here.
    #[inline]
    pub fn admits(&self, claim: Claim) -> bool {
        !self.taken[usize::from(claim.gate) % GATES] || self.admits_to(claim)
    }

    fn admits_to(&self, Claim { gate, kind }: Claim) -> bool {
        let queue = self.queues.get(&gate);
        queue.is_none_or(|queue| queue.runs.len() == 1 && queue.runs[0].kind == kind)
    }

    /// One that has just arrived is on its way here.
    pub fn expect(&mut self, Claim { gate, kind }: Claim) -> Pass {
        let queue = self.queue(gate);
        let run = queue.join(kind);
        if let Some(run) = queue.run(run) {
            run.coming += 1;
        }
        self.coming += 1;
        Pass { gate, run }
    }

    /// One that has just arrived, and is [not admitted](Self::admits), waits.
    pub fn wait(&mut self, Claim { gate, kind }: Claim, item: T) {
        let queue = self.queue(gate);
        let run = queue.join(kind);
        if let Some(run) = queue.run(run) {
            run.here.push_back(item);
        }
        self.waiting += 1;
    }

    /// Whether it is the turn of one that was on its way.
    pub fn is_turn(&self, pass: Pass) -> bool {
        let queue = self.queues.get(&pass.gate);
        queue.is_none_or(|queue| queue.first == pass.run)
    }

    /// One that was on its way has come before its turn, and waits.
    pub fn wait_as_expected(&mut self, pass: Pass, item: T) {
        if let Some(run) = self.queue(pass.gate).run(pass.run) {
            run.coming -= 1;
            run.here.push_back(item);
        }
        self.coming -= 1;
        self.waiting += 1;
    }

    /// One that was on its way has passed, or never will.
    pub fn forget(&mut self, Pass { gate, run }: Pass) {
        let Some(queue) = self.queues.get_mut(&gate) else {
            return;
        };
        if let Some(run) = queue.run(run) {
            run.coming -= 1;
            self.coming -= 1;
        }
        queue.advance(&mut self.admitted);
        if queue.runs.is_empty() {
            self.queues.remove(&gate);
            self.taken[usize::from(gate)] = false;
        }
    }

    fn queue(&mut self, gate: u16) -> &mut Queue<T> {
        self.taken[usize::from(gate)] = true;
        self.queues.entry(gate).or_default()
    }

    /// The next whose turn has come.
    #[inline]
    pub fn next(&mut self) -> Option<T> {
        let next = self.admitted.pop_front()?;
        self.waiting -= 1;
        Some(next)
    }
}
