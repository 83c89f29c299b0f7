//! Many literals as one automaton.

use aho_corasick::automaton::Automaton as _;
use aho_corasick::dfa::DFA;
use aho_corasick::{Anchored, MatchKind, StartKind};

use super::automaton::{Automaton, ByteClasses, Table};
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
    let dfa = DFA::builder()
        .match_kind(MatchKind::Standard)
        .start_kind(StartKind::Unanchored)
        .ascii_case_insensitive(nocase)
        .prefilter(false)
        .build(literals.iter().map(|(_, bytes)| bytes))
        .expect("MAX_PATTERN_BYTES keeps the states far below the library's limit");
    let start = dfa
        .start_state(Anchored::No)
        .expect("it was built to start unanchored");
    let step = |state, byte| dfa.next_state(Anchored::No, state, byte);
    let reports = |state| {
        let ends = if dfa.is_match(state) {
            dfa.match_len(state)
        } else {
            0
        };
        (0..ends)
            .map(|i| literals[dfa.match_pattern(state, i).as_usize()].0)
            .collect()
    };
    let classes = byte_classes(literals, nocase);
    let table = Table::explore(classes, start, usize::MAX, step, reports);
    table.as_ref().map(Automaton::new)
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
