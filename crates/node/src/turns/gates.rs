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

/// A gate, and the first run of those on their way to it: some of one kind who arrived after one
/// another. It is their turn.
#[derive(Copy, Clone, Default)]
struct Gate {
    kind: u32,
    coming: u32,
    /// The number of that run.
    first: u32,
    /// Whether somebody waits, or others are on their way behind the first run: there is a crowd.
    is_crowded: bool,
}

/// Those at a gate besides the first run's who are on their way.
struct Crowd<T> {
    /// Those of the first run who have come before it was their turn, or behind such.
    here: VecDeque<T>,
    /// The runs behind the first.
    runs: VecDeque<Run<T>>,
}

/// Some of one kind who arrived after one another, behind others.
struct Run<T> {
    kind: u32,
    /// Those still on their way.
    coming: u32,
    /// Those who have come, and wait.
    here: VecDeque<T>,
}

impl<T> Default for Crowd<T> {
    fn default() -> Self {
        Self {
            here: VecDeque::new(),
            runs: VecDeque::new(),
        }
    }
}

impl<T> Crowd<T> {
    /// The run that one of this kind joins who arrives now; `None` if that is the first, whose
    /// kind is given.
    fn join(&mut self, kind: u32, first_kind: u32) -> Option<&mut Run<T>> {
        let last = self.runs.back().map_or(first_kind, |run| run.kind);
        if last != kind {
            self.runs.push_back(Run {
                kind,
                coming: 0,
                here: VecDeque::new(),
            });
        }
        self.runs.back_mut()
    }
}

/// All gates in front of one element.
pub(super) struct Gates<T> {
    gates: Box<[Gate; GATES]>,
    /// By gate.
    crowds: HashMap<u16, Crowd<T>>,
    /// Where it is the turn of somebody who waits.
    ready: VecDeque<u16>,
    coming: usize,
    waiting: usize,
}

impl<T> Default for Gates<T> {
    fn default() -> Self {
        Self {
            gates: Box::new([Gate::default(); GATES]),
            crowds: HashMap::new(),
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

    /// All who wait.
    pub fn each_waiting(&self) -> impl Iterator<Item = &T> {
        self.crowds.values().flat_map(|crowd| {
            let behind = crowd.runs.iter().flat_map(|run| &run.here);
            crowd.here.iter().chain(behind)
        })
    }

    /// Whether one who has just arrived overtakes nobody here.
    #[inline]
    pub fn admits(&self, Claim { gate, kind }: Claim) -> bool {
        let gate = &self.gates[usize::from(gate) % GATES];
        !gate.is_crowded && (gate.coming == 0 || gate.kind == kind)
    }

    /// One who has just arrived is on the way here.
    pub fn expect(&mut self, Claim { gate: number, kind }: Claim) -> Pass {
        self.coming += 1;
        let gate = &mut self.gates[usize::from(number)];
        let pass = |run| Pass { gate: number, run };
        if !gate.is_crowded && (gate.coming == 0 || gate.kind == kind) {
            gate.kind = kind;
            gate.coming += 1;
            return pass(gate.first);
        }
        let crowd = crowd(gate, &mut self.crowds, number);
        match crowd.join(kind, gate.kind) {
            Some(run) => {
                run.coming += 1;
                pass(gate.first.wrapping_add(crowd.runs.len() as u32))
            }
            None => {
                gate.coming += 1;
                pass(gate.first)
            }
        }
    }

    /// One who has just arrived, and is [not admitted](Self::admits), waits.
    pub fn wait(&mut self, Claim { gate: number, kind }: Claim, item: T) {
        self.waiting += 1;
        let gate = &mut self.gates[usize::from(number)];
        let crowd = crowd(gate, &mut self.crowds, number);
        match crowd.join(kind, gate.kind) {
            Some(run) => run.here.push_back(item),
            None => crowd.here.push_back(item),
        }
    }

    /// Whether it is the turn of one who was on the way.
    #[inline]
    pub fn is_turn(&self, pass: Pass) -> bool {
        let gate = &self.gates[usize::from(pass.gate)];
        let crowd = || self.crowds.get(&pass.gate);
        gate.first == pass.run
            && (!gate.is_crowded || crowd().is_none_or(|crowd| crowd.here.is_empty()))
    }

    /// One who was on the way has come before it is their turn, and waits.
    pub fn wait_as_expected(&mut self, pass: Pass, item: T) {
        (self.coming, self.waiting) = (self.coming - 1, self.waiting + 1);
        let gate = &mut self.gates[usize::from(pass.gate)];
        let crowd = crowd(gate, &mut self.crowds, pass.gate);
        let (coming, here) = match crowd.runs.get_mut(behind(gate, pass)) {
            Some(run) => (&mut run.coming, &mut run.here),
            None => (&mut gate.coming, &mut crowd.here),
        };
        *coming -= 1;
        here.push_back(item);
    }

    /// One who was on the way has passed, or never will.
    #[inline]
    pub fn forget(&mut self, pass: Pass) {
        self.coming -= 1;
        let gate = &mut self.gates[usize::from(pass.gate)];
        match gate.is_crowded {
            false => gate.coming -= 1,
            true => self.forget_in_crowd(pass),
        }
    }

    fn forget_in_crowd(&mut self, pass: Pass) {
        let gate = &mut self.gates[usize::from(pass.gate)];
        let crowd = crowd(gate, &mut self.crowds, pass.gate);
        match crowd.runs.get_mut(behind(gate, pass)) {
            Some(run) => run.coming -= 1,
            None => gate.coming -= 1,
        }
        let was_ready = !crowd.here.is_empty();
        self.advance(pass.gate);
        let is_ready = |crowd: &Crowd<T>| !crowd.here.is_empty();
        if !was_ready && self.crowds.get(&pass.gate).is_some_and(is_ready) {
            self.ready.push_back(pass.gate);
        }
    }

    /// If all of the first run have passed, or never will, it is the turn of the next.
    fn advance(&mut self, number: u16) {
        let gate = &mut self.gates[usize::from(number)];
        let Some(crowd) = self.crowds.get_mut(&number) else {
            return;
        };
        while gate.coming == 0 && crowd.here.is_empty() {
            let Some(run) = crowd.runs.pop_front() else {
                break;
            };
            gate.first = gate.first.wrapping_add(1);
            (gate.kind, gate.coming, crowd.here) = (run.kind, run.coming, run.here);
        }
        if crowd.here.is_empty() && crowd.runs.is_empty() {
            self.crowds.remove(&number);
            gate.is_crowded = false;
        }
    }

    /// The next whose turn has come, of those who wait.
    pub fn next(&mut self) -> Option<T> {
        let gate = *self.ready.front()?;
        let next = self.crowds.get_mut(&gate)?.here.pop_front();
        self.advance(gate);
        let is_over = |crowd: &Crowd<T>| crowd.here.is_empty();
        if self.crowds.get(&gate).is_none_or(is_over) {
            self.ready.pop_front();
        }
        self.waiting -= usize::from(next.is_some());
        next
    }
}

/// The crowd at a gate, which there is from now on.
fn crowd<'a, T>(
    gate: &mut Gate,
    crowds: &'a mut HashMap<u16, Crowd<T>>,
    number: u16,
) -> &'a mut Crowd<T> {
    gate.is_crowded = true;
    crowds.entry(number).or_default()
}

/// How many runs there are between the first and one behind it; for the first more than there are.
const fn behind(gate: &Gate, pass: Pass) -> usize {
    pass.run.wrapping_sub(gate.first).wrapping_sub(1) as usize
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
            prop_assert!(bench.gates.crowds.is_empty());
            prop_assert!(bench.gates.gates.iter().all(|gate| !gate.is_crowded && gate.coming == 0));
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
