//! Any text: a file of inspector rules is taken or refused with its place. Where it is taken, both
//! matchers see each literal, the gate sees what the file says it looks for, no match that lies in
//! the gate's window escapes it, and a stream's state does not depend on how it is cut.
#![no_main]
use libfuzzer_sys::fuzz_target;
use twinpath_core::program::WINDOW_BYTES;
use twinpath_nf::inspector::{
    DeepMatcher, DeepState, Gate, GateLiterals, GateOutcome, Pattern, Rule, RuleSet, Rules,
};

/// Small, so that a regular expression costs little.
const TABLE_BYTES: usize = 16 << 10;

fn scan(matcher: &DeepMatcher, chunks: &[&[u8]]) -> (RuleSet, DeepState) {
    let (mut found, mut state) = (RuleSet::new(), DeepState::default());
    for chunk in chunks {
        state = matcher.scan(state, chunk, |rule| _ = found.insert(rule));
    }
    (found, state)
}

/// Whether what a rule's gate looks for is in a window.
fn opens(rule: &Rule, window: &[u8]) -> bool {
    let is = |part: &[u8], literal: &[u8]| match rule.is_nocase() {
        true => part.eq_ignore_ascii_case(literal),
        false => part == literal,
    };
    match rule.gate() {
        GateLiterals::Always => !window.is_empty(),
        GateLiterals::AnyOf(literals) => {
            literals.iter().any(|literal| window.windows(literal.len()).any(|part| is(part, literal)))
        }
    }
}

/// Whether a rule's gate was read off its pattern.
fn has_own_gate(rule: &Rule, text: &str) -> bool {
    let line = text.lines().nth(rule.line() as usize - 1);
    line.is_some_and(|line| !line.contains("gate="))
}

fuzz_target!(|text: &str| {
    let rules = match Rules::parse(text, "fuzz.rules") {
        Ok(rules) => rules,
        Err(error) => return assert!(error.to_string().starts_with("fuzz.rules:")),
    };
    let gate = Gate::new(&rules);
    let Ok(matcher) = DeepMatcher::with_table_limit(&rules, TABLE_BYTES) else { return };
    for (index, rule) in rules.iter() {
        let Pattern::Literal(literal) = rule.pattern() else { continue };
        assert!(scan(&matcher, &[literal]).0.iter().any(|found| found == index));
        assert_ne!(gate.inspect(literal), GateOutcome::None);
    }
    for window in text.as_bytes().chunks(WINDOW_BYTES) {
        let (found, _) = scan(&matcher, &[window]);
        let is_found = |index| found.iter().any(|found| found == index);
        for (index, rule) in rules.iter() {
            let opened = opens(rule, window);
            assert!(!opened || gate.inspect(window) != GateOutcome::None, "{}", rule.name());
            assert!(opened || !is_found(index) || !has_own_gate(rule, text), "{}", rule.name());
        }
    }
    let (one, two) = text.as_bytes().split_at(text.len() / 2);
    assert_eq!(scan(&matcher, &[text.as_bytes()]), scan(&matcher, &[one, two]));
});
