//! Gates: who shares one passes it in order of arrival.

use std::collections::{BTreeMap, HashMap, VecDeque};

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
    /// Its place in the order of all.
    order: u64,
}

/// Who has passed a gate and is about to meet the element.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct AtElement {
    gate: u16,
    /// A place in the order of all; `None` is the last.
    order: Option<u64>,
}

/// Those who have not yet met the element, of all connections, in order of arrival.
#[derive(Default)]
struct Unmet {
    /// The first one's place.
    first: u64,
    /// Whether each has yet to meet it.
    has_yet_to: VecDeque<bool>,
}

impl Unmet {
    fn begin(&mut self) -> u64 {
        self.has_yet_to.push_back(true);
        self.first + self.has_yet_to.len() as u64 - 1
    }

    fn end(&mut self, order: u64) {
        let place = order.wrapping_sub(self.first) as usize;
        if let Some(has_yet_to) = self.has_yet_to.get_mut(place) {
            *has_yet_to = false;
        }
        while self.has_yet_to.front() == Some(&false) {
            self.has_yet_to.pop_front();
            self.first += 1;
        }
    }
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
    here: VecDeque<Here<T>>,
    /// The runs behind the first.
    runs: VecDeque<Run<T>>,
}

/// One who waits, with a place in the order of all.
struct Here<T> {
    item: T,
    order: u64,
}

/// Some of one kind who arrived after one another, behind others.
struct Run<T> {
    kind: u32,
    /// Those still on their way.
    coming: u32,
    /// Those who have come, and wait.
    here: VecDeque<Here<T>>,
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
    /// Gates where the first who waits has passed them, but may meet the element only as the first
    /// of all, in that order.
    barred: BTreeMap<u64, u16>,
    unmet: Unmet,
    coming: usize,
    waiting: usize,
}

impl<T> Default for Gates<T> {
    fn default() -> Self {
        Self {
            gates: Box::new([Gate::default(); GATES]),
            crowds: HashMap::new(),
            ready: VecDeque::new(),
            barred: BTreeMap::new(),
            unmet: Unmet::default(),
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
            crowd.here.iter().chain(behind).map(|here| &here.item)
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
        let order = self.unmet.begin();
        let gate = &mut self.gates[usize::from(number)];
        let pass = |run| Pass {
            gate: number,
            run,
            order,
        };
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
        let order = self.unmet.begin();
        let here = Here { item, order };
        let gate = &mut self.gates[usize::from(number)];
        let crowd = crowd(gate, &mut self.crowds, number);
        match crowd.join(kind, gate.kind) {
            Some(run) => run.here.push_back(here),
            None => crowd.here.push_back(here),
        }
    }

    /// Whether it is the turn of one who was on the way.
    #[inline]
    pub fn is_turn(&self, pass: Pass) -> bool {
        let gate = &self.gates[usize::from(pass.gate)];
        let crowd = || self.crowds.get(&pass.gate);
        let is_behind =
            |crowd: &Crowd<T>| crowd.here.front().is_some_and(|one| one.order < pass.order);
        gate.first == pass.run && (!gate.is_crowded || !crowd().is_some_and(is_behind))
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
        let order = pass.order;
        let place = here.partition_point(|one| one.order < order);
        here.insert(place, Here { item, order });
    }

    /// One who was on the way never will come.
    pub fn forget(&mut self, pass: Pass) {
        let passed = self.pass(pass);
        self.has_met(passed);
    }

    /// One who has passed a gate has met the element.
    #[inline]
    pub fn has_met(&mut self, one: AtElement) {
        if let Some(order) = one.order {
            self.unmet.end(order);
        }
    }

    /// One who has just arrived, and is [admitted](Self::admits), passes the gate.
    #[inline]
    pub const fn pass_straight(claim: Claim) -> AtElement {
        let (gate, order) = (claim.gate, None);
        AtElement { gate, order }
    }

    /// One who was on the way passes the gate.
    #[inline]
    pub fn pass(&mut self, pass: Pass) -> AtElement {
        self.leave_run(pass);
        AtElement {
            gate: pass.gate,
            order: Some(pass.order),
        }
    }

    #[inline]
    fn leave_run(&mut self, pass: Pass) {
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
        if !was_ready {
            self.make_ready(pass.gate);
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

    /// Whether one who has passed a gate is the first of all who have not met the element.
    pub fn is_first(&self, one: AtElement) -> bool {
        match one.order {
            Some(order) => self.unmet.first == order,
            None => self.unmet.has_yet_to.is_empty(),
        }
    }

    /// One who has passed a gate waits behind it until they are the [first](Self::is_first) of all.
    pub fn bar(&mut self, one: AtElement, item: T) {
        self.waiting += 1;
        let order = one.order.unwrap_or_else(|| self.unmet.begin());
        let gate = &mut self.gates[usize::from(one.gate)];
        let crowd = crowd(gate, &mut self.crowds, one.gate);
        crowd.here.push_front(Here { item, order });
        self.ready.retain(|ready| *ready != one.gate);
        self.barred.insert(order, one.gate);
    }

    /// The next whose turn has come, of those who wait; [`None`] beside says that it was barred,
    /// and has met the element.
    pub fn next(&mut self) -> Option<(T, Option<AtElement>)> {
        let first = self.barred.first_key_value();
        if let Some((&order, &gate)) = first.filter(|(order, _)| **order == self.unmet.first) {
            self.barred.pop_first();
            let Here { item, .. } = self.take(gate)?;
            self.make_ready(gate);
            self.unmet.end(order);
            return Some((item, None));
        }
        let gate = *self.ready.front()?;
        let Here { item, order } = self.take(gate)?;
        self.ready.pop_front();
        self.make_ready(gate);
        let order = Some(order);
        Some((item, Some(AtElement { gate, order })))
    }

    fn take(&mut self, gate: u16) -> Option<Here<T>> {
        let here = self.crowds.get_mut(&gate)?.here.pop_front()?;
        self.advance(gate);
        self.waiting -= 1;
        Some(here)
    }

    /// It is the turn of the first who waits at a gate, unless they are barred.
    fn make_ready(&mut self, gate: u16) {
        let first = self.crowds.get(&gate).and_then(|crowd| crowd.here.front());
        if first.is_some_and(|one| !self.barred.contains_key(&one.order)) {
            self.ready.push_back(gate);
        }
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

    /// One at the gates.
    #[derive(Copy, Clone, Debug)]
    struct Somebody {
        claim: Claim,
        /// Meets the element only as the first of all.
        is_strict: bool,
    }

    /// What happens at the gates.
    #[derive(Copy, Clone, Debug)]
    enum Event {
        /// One arrives in front of them.
        Arrives(Somebody),
        /// One arrives elsewhere, on its way here.
        IsExpected(Somebody),
        /// One of those expected, by number, comes.
        Comes(usize),
        /// One of those expected, by number, never will.
        IsGone(usize),
    }

    fn event() -> impl Strategy<Value = Event> {
        // Two hashes that share a gate, and one that does not.
        let hash = prop::sample::select(vec![0, (GATES as u64) << 20, 1 << 20]);
        let somebody = (hash, 0..3u32, any::<bool>()).prop_map(|(hash, kind, is_strict)| {
            let claim = Claim::new(hash, kind);
            Somebody { claim, is_strict }
        });
        prop_oneof![
            somebody.clone().prop_map(Event::Arrives),
            somebody.prop_map(Event::IsExpected),
            (0..8usize).prop_map(Event::Comes),
            (0..8usize).prop_map(Event::IsGone),
        ]
    }

    /// The gates, and who should have passed before whom.
    #[derive(Default)]
    struct Bench {
        gates: Gates<usize>,
        /// By number in order of arrival.
        all: Vec<Somebody>,
        expected: Vec<(usize, Pass)>,
        passed: Vec<usize>,
        gone: Vec<usize>,
    }

    impl Bench {
        fn arrives(&mut self, somebody: Somebody) -> usize {
            self.all.push(somebody);
            self.all.len() - 1
        }

        /// One has passed a gate, and meets the element unless others come first.
        fn meets(&mut self, number: usize, one: AtElement) {
            match self.all[number].is_strict && !self.gates.is_first(one) {
                true => self.gates.bar(one, number),
                false => {
                    self.gates.has_met(one);
                    self.passed.push(number);
                }
            }
        }

        fn happens(&mut self, event: Event) {
            match event {
                Event::Arrives(somebody) => {
                    let (number, claim) = (self.arrives(somebody), somebody.claim);
                    match self.gates.admits(claim) {
                        true => self.meets(number, Gates::<usize>::pass_straight(claim)),
                        false => self.gates.wait(claim, number),
                    }
                }
                Event::IsExpected(somebody) => {
                    let number = self.arrives(somebody);
                    let pass = self.gates.expect(somebody.claim);
                    self.expected.push((number, pass));
                }
                Event::Comes(which) if which < self.expected.len() => {
                    let (number, pass) = self.expected.remove(which);
                    match self.gates.is_turn(pass) {
                        true => {
                            let one = self.gates.pass(pass);
                            self.meets(number, one);
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

        /// The next of those who wait meets the element. Returns whether there was one.
        fn take_next(&mut self) -> bool {
            match self.gates.next() {
                None => return false,
                Some((number, Some(one))) => self.meets(number, one),
                Some((number, None)) => self.passed.push(number),
            }
            true
        }

        /// Whether one may not pass before another who arrived earlier.
        fn is_behind(&self, late: usize, early: usize) -> bool {
            let (one, other) = (self.all[late], self.all[early]);
            let crosses = one.claim.gate == other.claim.gate && one.claim.kind != other.claim.kind;
            crosses || one.is_strict
        }

        /// Nobody has passed before one of another kind at the same gate who arrived earlier, nor
        /// the strict before anybody who did.
        fn check(&self) -> Result<(), TestCaseError> {
            for (place, &late) in self.passed.iter().enumerate() {
                for early in 0..late {
                    if !self.is_behind(late, early) {
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
                    bench.take_next();
                }
                bench.check()?;
            }
            while !bench.expected.is_empty() {
                bench.happens(Event::IsGone(0));
            }
            while bench.take_next() {}
            bench.check()?;
            prop_assert_eq!(bench.passed.len() + bench.gone.len(), bench.all.len());
            prop_assert!(bench.gates.is_idle());
            prop_assert!(bench.gates.crowds.is_empty() && bench.gates.barred.is_empty());
            prop_assert!(bench.gates.unmet.has_yet_to.is_empty());
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
        assert_eq!(gates.next().map(|(next, _)| next), Some("the other"));
    }
}
