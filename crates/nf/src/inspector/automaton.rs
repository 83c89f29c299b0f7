//! A dense automaton over bytes that reports rules as it enters states.
//!
//! Everything that matches here ends up in this one form: a *table* is made
//! from another crate's automaton by walking it, and an [`Automaton`] is a
//! table laid out for scanning.

use std::collections::HashMap;
use std::hash::Hash;

use super::rules::ItemIndex;

/// The state that has seen nothing. No other state is equivalent to it,
/// unless it reports.
pub(super) const START: u32 = 0;

/// Bytes that no state tells apart, numbered from 0.
#[derive(Debug, Clone)]
pub(super) struct ByteClasses {
    class_of: Box<[u8; 256]>,
    /// One byte of each class.
    pub(super) representatives: Vec<u8>,
}

impl ByteClasses {
    /// Two bytes are in one class if `label` gives them the same value.
    pub(super) fn new(label: impl Fn(u8) -> usize) -> Self {
        let mut class_of = Box::new([0; 256]);
        let mut representatives = Vec::new();
        let mut seen = HashMap::new();
        for byte in 0..=u8::MAX {
            class_of[usize::from(byte)] = *seen.entry(label(byte)).or_insert_with(|| {
                representatives.push(byte);
                // At most 256 classes are numbered, the last one 255.
                (representatives.len() - 1) as u8
            });
        }
        Self {
            class_of,
            representatives,
        }
    }

    pub(super) fn of(&self, byte: u8) -> usize {
        usize::from(self.class_of[usize::from(byte)])
    }
}

/// States by number, the start first: where each class of bytes leads and
/// which rules end on entering.
#[derive(Debug, Clone)]
pub(super) struct Table {
    pub(super) classes: ByteClasses,
    /// One row of as many states as there are classes for each state.
    pub(super) next: Vec<u32>,
    /// Sorted, each rule once.
    pub(super) reports: Vec<Vec<ItemIndex>>,
}

impl Table {
    /// Walks an automaton breadth first from `start`; none if the transitions
    /// would need more than `limit_bytes`.
    pub(super) fn explore<S: Copy + Eq + Hash>(
        classes: ByteClasses,
        start: S,
        limit_bytes: usize,
        step: impl Fn(S, u8) -> S,
        reports: impl Fn(S) -> Vec<ItemIndex>,
    ) -> Option<Self> {
        let most = limit_bytes / classes.representatives.len() / size_of::<u32>();
        let mut states = vec![start];
        let mut numbers = HashMap::from([(start, START)]);
        let mut next = Vec::new();
        let mut done = 0;
        while let Some(&state) = states.get(done) {
            for &byte in &classes.representatives {
                let target = step(state, byte);
                next.push(*numbers.entry(target).or_insert_with(|| {
                    states.push(target);
                    (states.len() - 1) as u32
                }));
            }
            done += 1;
            if states.len() > most {
                return None;
            }
        }
        let reports = states
            .into_iter()
            .map(|state| sorted(reports(state)))
            .collect();
        Some(Self {
            classes,
            next,
            reports,
        })
    }

    pub(super) fn step(&self, state: u32, byte: u8) -> u32 {
        self.row(state)[self.classes.of(byte)]
    }

    pub(super) fn reported(&self, state: u32) -> &[ItemIndex] {
        &self.reports[state as usize]
    }

    pub(super) fn bytes(&self) -> usize {
        self.next.len() * size_of::<u32>()
    }

    pub(super) fn states(&self) -> u32 {
        self.reports.len() as u32
    }

    pub(super) fn row(&self, state: u32) -> &[u32] {
        let width = self.classes.representatives.len();
        &self.next[state as usize * width..][..width]
    }

    /// The length of the shortest input that leads to each state.
    pub(super) fn depths(&self) -> Vec<u32> {
        let mut depths = vec![u32::MAX; self.reports.len()];
        depths[START as usize] = 0;
        let mut queue = vec![START];
        let mut done = 0;
        while let Some(&state) = queue.get(done) {
            for &target in self.row(state) {
                if depths[target as usize] == u32::MAX {
                    depths[target as usize] = depths[state as usize] + 1;
                    queue.push(target);
                }
            }
            done += 1;
        }
        depths
    }
}

fn sorted(mut rules: Vec<ItemIndex>) -> Vec<ItemIndex> {
    rules.sort_unstable();
    rules.dedup();
    rules
}

/// A table laid out for scanning. A state is the offset of its row. Reporting
/// states come last, and among them those that behave like the start from
/// there on, so that one comparison each tells.
#[derive(Debug, Clone)]
pub(super) struct Automaton {
    class_of: Box<[u8; 256]>,
    width: u32,
    next: Vec<u32>,
    first_reporting: u32,
    first_settled: u32,
    /// For each reporting state, where its rules end in `rules`.
    report_ends: Vec<u32>,
    rules: Vec<ItemIndex>,
    /// The depth of each row, up to 255.
    depths: Vec<u8>,
}

impl Automaton {
    /// No pattern may match the empty string: the start must not report.
    pub(super) fn new(table: &Table) -> Self {
        let order = layout(table);
        let width = table.classes.representatives.len() as u32;
        let mut offset_of = vec![0; order.len()];
        for (position, state) in (0..).zip(&order) {
            offset_of[*state as usize] = position * width;
        }
        let rows = order.iter().flat_map(|state| table.row(*state));
        let count = |rank| order.iter().filter(|s| rank_of(table, **s) < rank).count() as u32;
        let (report_ends, rules) = reports(table, &order);
        let depths = table.depths();
        Self {
            class_of: table.classes.class_of.clone(),
            width,
            next: rows.map(|target| offset_of[*target as usize]).collect(),
            first_reporting: count(Rank::Reporting) * width,
            first_settled: count(Rank::Settled) * width,
            report_ends,
            rules,
            depths: order
                .iter()
                .map(|s| depths[*s as usize].min(255) as u8)
                .collect(),
        }
    }

    /// The state after one more byte. `state` must be one of this automaton.
    #[inline]
    pub(super) fn step(&self, state: u32, byte: u8) -> u32 {
        let class = self.class_of[usize::from(byte)];
        self.next[state as usize + usize::from(class)]
    }

    /// The rules that end on entering `state`.
    #[inline]
    pub(super) fn reported(&self, state: u32) -> &[ItemIndex] {
        if state < self.first_reporting {
            &[]
        } else {
            self.reports_at(state)
        }
    }

    #[cold]
    fn reports_at(&self, state: u32) -> &[ItemIndex] {
        let position = ((state - self.first_reporting) / self.width) as usize;
        let begin = position
            .checked_sub(1)
            .map_or(0, |before| self.report_ends[before]);
        &self.rules[begin as usize..self.report_ends[position] as usize]
    }

    /// A state to go on from instead of `state`, after its report was heard:
    /// the start, if nothing tells them apart any more.
    pub(super) fn settled(&self, state: u32) -> u32 {
        if state < self.first_settled {
            state
        } else {
            START
        }
    }

    /// `state` if it is one of this automaton, otherwise the start.
    pub(super) fn checked(&self, state: u32) -> u32 {
        let is_row = (state as usize) < self.next.len() && state.is_multiple_of(self.width);
        if is_row { state } else { START }
    }

    /// The length of the shortest input that leads to `state`, up to 255.
    pub(super) fn depth(&self, state: u32) -> u8 {
        self.depths[(state / self.width) as usize]
    }

    /// The memory of the transitions.
    pub(super) fn table_bytes(&self) -> usize {
        self.next.len() * size_of::<u32>()
    }
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    Start,
    Silent,
    Reporting,
    Settled,
}

fn rank_of(table: &Table, state: u32) -> Rank {
    match state {
        START => Rank::Start,
        _ if table.reports[state as usize].is_empty() => Rank::Silent,
        _ if table.row(state) == table.row(START) => Rank::Settled,
        _ => Rank::Reporting,
    }
}

/// The states in the order of their rows.
fn layout(table: &Table) -> Vec<u32> {
    let mut order: Vec<u32> = (0..table.states()).collect();
    order.sort_by_key(|state| rank_of(table, *state));
    order
}

fn reports(table: &Table, order: &[u32]) -> (Vec<u32>, Vec<ItemIndex>) {
    let mut rules = Vec::new();
    let mut ends = Vec::new();
    for state in order
        .iter()
        .filter(|s| rank_of(table, **s) >= Rank::Reporting)
    {
        rules.extend(&table.reports[*state as usize]);
        ends.push(rules.len() as u32);
    }
    (ends, rules)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts bytes 'a' up to three; reports rule 7 at two and 8 at three,
    /// after which it begins anew.
    fn counter() -> Automaton {
        let classes = ByteClasses::new(|byte| usize::from(byte == b'a'));
        let step = |seen: u32, byte| if byte == b'a' { seen % 3 + 1 } else { 0 };
        let reports = |seen| match seen {
            2 => vec![7],
            3 => vec![8],
            _ => vec![],
        };
        Automaton::new(&Table::explore(classes, 0, 1000, step, reports).unwrap())
    }

    #[test]
    fn entering_states_reports_rules() {
        let automaton = counter();
        let mut state = START;
        let mut heard = Vec::new();
        for &byte in b"aabaaab" {
            state = automaton.step(state, byte);
            heard.extend_from_slice(automaton.reported(state));
        }
        assert_eq!(heard, [7, 7, 8]);
        assert_eq!(state, START);
    }

    #[test]
    fn a_state_settles_once_it_behaves_like_the_start() {
        let automaton = counter();
        let states: Vec<u32> = b"aaa"
            .iter()
            .scan(START, |s, b| {
                *s = automaton.step(*s, *b);
                Some(*s)
            })
            .collect();
        let settled: Vec<bool> = states
            .iter()
            .map(|s| automaton.settled(*s) == START)
            .collect();
        assert_eq!(settled, [false, false, true]);
        let depths: Vec<u8> = states.iter().map(|s| automaton.depth(*s)).collect();
        assert_eq!(depths, [1, 2, 3]);
    }

    #[test]
    fn foreign_states_become_the_start() {
        let automaton = counter();
        assert_eq!(automaton.checked(4), 4);
        assert_eq!(automaton.checked(3), START);
        assert_eq!(automaton.checked(8), START);
        assert_eq!(automaton.checked(u32::MAX), START);
    }
}
