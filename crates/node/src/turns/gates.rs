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
    /// Those that have come before it was their turn, or behind such.
    here: VecDeque<T>,
}

/// Those who share a gate, in order of arrival. It is the turn of the first run.
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

    /// Whether nobody stands between the first run and the gate.
    fn is_clear(&self) -> bool {
        self.runs.front().is_none_or(|first| first.here.is_empty())
    }

    /// If all of the first run have passed, or never will, it is the turn of the next.
    fn advance(&mut self) {
        let is_over = |run: &mut Run<T>| run.coming == 0 && run.here.is_empty();
        while self.runs.pop_front_if(is_over).is_some() {
            self.first = self.first.wrapping_add(1);
        }
    }
}

/// All gates in front of one element.
pub(super) struct Gates<T> {
    /// Which gates anybody is on the way to, or waits at.
    taken: Box<[bool]>,
    queues: HashMap<u16, Queue<T>>,
    /// Where it is the turn of somebody who waits.
    ready: VecDeque<u16>,
    coming: usize,
    waiting: usize,
}

impl<T> Default for Gates<T> {
    fn default() -> Self {
        Self {
            taken: vec![false; GATES].into(),
            queues: HashMap::new(),
            ready: VecDeque::new(),
            coming: 0,
            waiting: 0,
        }
    }
}

impl<T> Gates<T> {
    /// Whether nobody is on the way, or waits.
    #[inline]
    pub fn is_idle(&self) -> bool {
        self.coming + self.waiting == 0
    }

    /// How many are on their way.
    pub fn coming(&self) -> usize {
        self.coming
    }

    /// How many wait.
    pub fn waiting(&self) -> usize {
        self.waiting
    }

    /// All that wait.
    pub fn each_waiting(&self) -> impl Iterator<Item = &T> {
        let runs = self.queues.values().flat_map(|queue| &queue.runs);
        runs.flat_map(|run| &run.here)
    }

    /// Whether one that has just arrived overtakes nobody here.
    #[inline]
    pub fn admits(&self, claim: Claim) -> bool {
        !self.taken[usize::from(claim.gate) % GATES] || self.admits_to(claim)
    }

    fn admits_to(&self, Claim { gate, kind }: Claim) -> bool {
        let queue = self.queues.get(&gate);
        queue.is_none_or(|queue| {
            queue.runs.len() == 1 && queue.runs[0].kind == kind && queue.is_clear()
        })
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
        queue.is_none_or(|queue| queue.first == pass.run && queue.is_clear())
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
        let was_clear = queue.is_clear();
        queue.advance();
        if was_clear && !queue.is_clear() {
            self.ready.push_back(gate);
        }
        self.close_if_over(gate);
    }

    fn close_if_over(&mut self, gate: u16) {
        if self
            .queues
            .get(&gate)
            .is_some_and(|queue| queue.runs.is_empty())
        {
            self.queues.remove(&gate);
            self.taken[usize::from(gate)] = false;
        }
    }

    fn queue(&mut self, gate: u16) -> &mut Queue<T> {
        self.taken[usize::from(gate)] = true;
        self.queues.entry(gate).or_default()
    }

    /// The next whose turn has come, of those that wait.
    pub fn next(&mut self) -> Option<T> {
        let gate = *self.ready.front()?;
        let queue = self.queues.get_mut(&gate)?;
        let next = queue.runs.front_mut()?.here.pop_front();
        queue.advance();
        if queue.is_clear() {
            self.ready.pop_front();
        }
        self.close_if_over(gate);
        self.waiting -= usize::from(next.is_some());
        next
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// What happens at the gates.
    #[derive(Copy, Clone, Debug)]
    enum Event {
        /// One arrives in front of them.
        Arrives(Claim),
        /// One arrives elsewhere, on its way here.
        IsExpected(Claim),
        /// One of those expected, by number, comes.
        Comes(usize),
        /// One of those expected, by number, never will.
        IsGone(usize),
    }

    fn event() -> impl Strategy<Value = Event> {
        // Two hashes that share a gate, and one that does not.
        let hash = prop::sample::select(vec![0, (GATES as u64) << 20, 1 << 20]);
        let claim = (hash, 0..3u32).prop_map(|(hash, kind)| Claim::new(hash, kind));
        prop_oneof![
            claim.clone().prop_map(Event::Arrives),
            claim.prop_map(Event::IsExpected),
            (0..8usize).prop_map(Event::Comes),
            (0..8usize).prop_map(Event::IsGone),
        ]
    }

    /// The gates, and who should have passed before whom.
    #[derive(Default)]
    struct Bench {
        gates: Gates<usize>,
        /// By number in order of arrival.
        claims: Vec<Claim>,
        expected: Vec<(usize, Pass)>,
        passed: Vec<usize>,
        gone: Vec<usize>,
    }

    impl Bench {
        fn arrives(&mut self, claim: Claim) -> usize {
            self.claims.push(claim);
            self.claims.len() - 1
        }

        fn happens(&mut self, event: Event) {
            match event {
                Event::Arrives(claim) => {
                    let number = self.arrives(claim);
                    match self.gates.admits(claim) {
                        true => self.passed.push(number),
                        false => self.gates.wait(claim, number),
                    }
                }
                Event::IsExpected(claim) => {
                    let number = self.arrives(claim);
                    let pass = self.gates.expect(claim);
                    self.expected.push((number, pass));
                }
                Event::Comes(which) if which < self.expected.len() => {
                    let (number, pass) = self.expected.remove(which);
                    match self.gates.is_turn(pass) {
                        true => {
                            self.gates.forget(pass);
                            self.passed.push(number);
                        }
                        false => self.gates.wait_as_expected(pass, number),
                    }
                }
                Event::IsGone(which) if which < self.expected.len() => {
                    let (number, pass) = self.expected.remove(which);
                    self.gates.forget(pass);
                    self.gone.push(number);
                }
                Event::Comes(_) | Event::IsGone(_) => {}
            }
        }

        /// Nobody has passed before one of another kind at the same gate who arrived earlier.
        fn check(&self) -> Result<(), TestCaseError> {
            for (place, &late) in self.passed.iter().enumerate() {
                for early in 0..late {
                    let (one, other) = (self.claims[early], self.claims[late]);
                    if one.gate != other.gate || one.kind == other.kind {
                        continue;
                    }
                    let was_first = self.passed[..place].contains(&early);
                    prop_assert!(
                        was_first || self.gone.contains(&early),
                        "{} passed before {}",
                        late,
                        early
                    );
                }
            }
            Ok(())
        }
    }

    proptest! {
        #[test]
        fn nobody_is_overtaken_and_nobody_waits_for_ever(
            events in prop::collection::vec((event(), any::<bool>()), 0..60),
        ) {
            let mut bench = Bench::default();
            for (event, takes_next) in events {
                bench.happens(event);
                // Others may come before those are taken whose turn it is.
                if takes_next {
                    bench.passed.extend(bench.gates.next());
                }
                bench.check()?;
            }
            while !bench.expected.is_empty() {
                bench.happens(Event::IsGone(0));
            }
            while let Some(next) = bench.gates.next() {
                bench.passed.push(next);
            }
            bench.check()?;
            prop_assert_eq!(bench.passed.len() + bench.gone.len(), bench.claims.len());
            prop_assert!(bench.gates.is_idle());
            prop_assert!(bench.gates.taken.iter().all(|taken| !taken));
        }
    }

    #[test]
    fn those_of_one_kind_do_not_wait_for_each_other() {
        let (one, other) = (Claim::new(0, 1), Claim::new(0, 2));
        let mut gates = Gates::default();
        let pass = gates.expect(one);
        assert!(gates.admits(one) && !gates.admits(other));
        gates.wait(other, "the other");
        assert!(!gates.admits(one), "it would overtake the other");
        gates.forget(pass);
        assert_eq!(gates.next(), Some("the other"));
    }
}
