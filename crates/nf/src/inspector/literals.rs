//! Many literals as one automaton (Aho and Corasick 1975).

use super::automaton::{Automaton, ByteClasses, START, Table};
use super::rules::ItemIndex;

/// Literals and the rules they report.
pub(super) type Literals<'r> = Vec<(ItemIndex, &'r [u8])>;

/// An automaton that reports a literal's rule as it reads the last byte. Its
/// states are the literals' beginnings: a state's depth is the number of
/// bytes just read that begin a literal. None if there are no literals.
pub(super) fn automaton(literals: &Literals<'_>, nocase: bool) -> Option<Automaton> {
    if literals.is_empty() {
        return None;
    }
    let mut trie = Trie::new(byte_classes(literals, nocase));
    for (item, bytes) in literals {
        trie.insert(bytes, *item);
    }
    Some(Automaton::new(&trie.completed()))
}

/// The literals' beginnings, the empty one first.
struct Trie {
    classes: ByteClasses,
    /// A row for each; the first one where nothing begins with one more byte.
    next: Vec<u32>,
    reports: Vec<Vec<ItemIndex>>,
}

impl Trie {
    fn new(classes: ByteClasses) -> Self {
        Self {
            next: vec![START; classes.representatives.len()],
            reports: vec![Vec::new()],
            classes,
        }
    }

    fn width(&self) -> usize {
        self.classes.representatives.len()
    }

    fn insert(&mut self, literal: &[u8], item: ItemIndex) {
        let mut state = START;
        for &byte in literal {
            let at = state as usize * self.width() + self.classes.of(byte);
            if self.next[at] == START {
                self.next[at] = self.reports.len() as u32;
                self.next.extend(vec![START; self.width()]);
                self.reports.push(Vec::new());
            }
            state = self.next[at];
        }
        self.reports[state as usize].push(item);
    }

    /// Where nothing begins with one more byte, the longest beginning that ends with it goes on. Of each
    /// state that is the next one of a shorter state, whose row is complete already: one step for
    /// each place of the table, however literals overlap themselves.
    fn completed(mut self) -> Table {
        let width = self.width();
        let mut shorter = vec![START; self.reports.len()];
        let mut queue = vec![START];
        let mut done = 0;
        while let Some(&state) = queue.get(done) {
            let (row, other) = (state as usize * width, shorter[state as usize] as usize);
            if state != START {
                let also = self.reports[other].clone();
                self.reports[state as usize].extend(also);
            }
            for class in 0..width {
                let falls_to = match state {
                    START => START,
                    _ => self.next[other * width + class],
                };
                match self.next[row + class] {
                    START => self.next[row + class] = falls_to,
                    longer => {
                        shorter[longer as usize] = falls_to;
                        queue.push(longer);
                    }
                }
            }
            done += 1;
        }
        let step = |state: u32, byte| self.next[state as usize * width + self.classes.of(byte)];
        let reports = |state: u32| self.reports[state as usize].clone();
        let table = Table::explore(self.classes.clone(), START, usize::MAX, step, reports);
        table.expect("as many states as it takes")
    }
}

/// One class for each byte that occurs, both cases as one if `nocase`, and
/// one for all others.
fn byte_classes(literals: &Literals<'_>, nocase: bool) -> ByteClasses {
    let fold = |byte: u8| {
        if nocase {
            byte.to_ascii_lowercase()
        } else {
            byte
        }
    };
    let mut occurs = [false; 256];
    for &byte in literals.iter().flat_map(|(_, bytes)| *bytes) {
        occurs[usize::from(fold(byte))] = true;
    }
    ByteClasses::new(|byte| {
        if occurs[usize::from(fold(byte))] {
            usize::from(fold(byte))
        } else {
            256
        }
    })
}

#[cfg(test)]
mod tests {
    use super::super::limits::MAX_PATTERN_BYTES;
    use super::*;
    use proptest::prelude::*;

    /// Which literals end at each place of a text, by the book.
    fn naive(literals: &Literals<'_>, nocase: bool, text: &[u8]) -> Vec<Vec<ItemIndex>> {
        let ends_with = |read: &[u8], literal: &[u8]| match nocase {
            true => read
                .to_ascii_lowercase()
                .ends_with(&literal.to_ascii_lowercase()),
            false => read.ends_with(literal),
        };
        let at = |end: usize| {
            let there = literals
                .iter()
                .filter(|(_, bytes)| ends_with(&text[..end], bytes));
            let mut items: Vec<_> = there.map(|(item, _)| *item).collect();
            items.sort_unstable();
            items.dedup();
            items
        };
        (1..=text.len()).map(at).collect()
    }

    fn found(automaton: &Automaton, text: &[u8]) -> Vec<Vec<ItemIndex>> {
        let mut state = START;
        let step = |byte: &u8| {
            state = automaton.step(state, *byte);
            automaton.reported(state).to_vec()
        };
        text.iter().map(step).collect()
    }

    fn bytes(most: usize) -> impl Strategy<Value = Vec<u8>> {
        prop::collection::vec(prop::sample::select(b"aAb\xff".to_vec()), 1..most)
    }

    proptest! {
        #[test]
        fn literals_are_found_where_they_end(
            literals in prop::collection::vec(bytes(6), 1..8),
            text in bytes(40),
            nocase: bool,
        ) {
            let literals: Literals<'_> = (0..).zip(literals.iter().map(Vec::as_slice)).collect();
            let automaton = automaton(&literals, nocase).expect("there are some");
            prop_assert_eq!(found(&automaton, &text), naive(&literals, nocase, &text));
        }
    }

    /// As long as a file may have it; with a step for each byte and each end of the literal in itself this
    /// would take minutes.
    #[test]
    fn a_literal_may_overlap_itself_all_the_way() {
        let literal = vec![b'a'; MAX_PATTERN_BYTES];
        let automaton = automaton(&vec![(7, &literal[..])], false).expect("one");
        let text = [&literal[1..], b"b", &literal[..], b"a"].concat();
        let ends: Vec<usize> = (1..)
            .zip(found(&automaton, &text))
            .filter_map(|(end, items)| (items == [7]).then_some(end))
            .collect();
        assert_eq!(ends, [2 * MAX_PATTERN_BYTES, 2 * MAX_PATTERN_BYTES + 1]);
    }
}
