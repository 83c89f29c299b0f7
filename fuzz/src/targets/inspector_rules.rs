//! Any text: a file of inspector rules, in its own words or Suricata's, is taken or refused with its
//! place. Where it is taken, both matchers see each literal, what the gate lets pass leaves nothing
//! half seen, and a stream's state does not depend on how it is cut.

use std::collections::BTreeSet;
use twinpath_core::program::WINDOW_BYTES;
use twinpath_nf::inspector::{
    DeepMatcher, DeepState, Gate, GateLiterals, GateOutcome, ItemIndex, Pattern, Rules,
};

/// Small, so that a regular expression costs little.
const TABLE_BYTES: usize = 16 << 10;

fn scan(matcher: &DeepMatcher, chunks: &[&[u8]]) -> (BTreeSet<ItemIndex>, DeepState) {
    let (mut found, mut state) = (BTreeSet::new(), DeepState::default());
    for chunk in chunks {
        state = matcher.scan(state, chunk, |pattern, _| _ = found.insert(pattern));
    }
    (found, state)
}

/// One input.
pub fn run(text: &str) {
    let rules = match Rules::parse(text, "fuzz.rules") {
        Ok(rules) => rules,
        Err(error) => return assert!(error.to_string().starts_with("fuzz.rules:")),
    };
    for left in rules.left_out() {
        assert!(left.error.to_string().starts_with("fuzz.rules:"));
    }
    let gate = Gate::new(&rules);
    let Ok(matcher) = DeepMatcher::with_table_limit(&rules, TABLE_BYTES) else {
        return;
    };
    for (index, sought) in rules.patterns() {
        let Pattern::Literal(literal) = sought.pattern() else {
            continue;
        };
        assert!(scan(&matcher, &[literal]).0.contains(&index));
        assert!(
            matches!(sought.gate(), GateLiterals::AnyOf(literals) if literals == std::slice::from_ref(literal))
        );
    }
    // Patterns that are relative to others are no one's concern before those.
    let begin_alone = rules.len() == rules.patterns().count();
    for window in text.as_bytes().chunks(WINDOW_BYTES).filter(|_| begin_alone) {
        let (found, state) = scan(&matcher, &[window]);
        let is_clean = gate.inspect(window) == GateOutcome::None;
        assert!(!is_clean || found.is_empty() && state.is_idle());
    }
    let (one, two) = text.as_bytes().split_at(text.len() / 2);
    assert_eq!(
        scan(&matcher, &[text.as_bytes()]),
        scan(&matcher, &[one, two])
    );
}
