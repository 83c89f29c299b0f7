//! The fast path's look at a payload: stateless, bounded, and what a TCAM
//! could do (SwitchNIC appendix A.1).

use std::collections::BTreeSet;

use super::automaton::{Automaton, START};
use super::filter::{Filter, GRAM_BYTES};
use super::literals::{self, Literals};
use super::rules::{Action, GateLiterals, ItemIndex, Pattern, RuleIndex, Rules, Sought};
use super::words::is_of_word;
use twinpath_core::program::WINDOW_BYTES;

/// What the gate says of one packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum GateOutcome {
    /// Nothing seen: forward or drop by the flow's state.
    None,
    /// Something that the workers must look at.
    Partial,
    /// A whole literal that alone is a `ban` rule for all packets: ban the flow. The number is that
    /// of the first such item in the file.
    Full(ItemIndex),
}

/// What a literal reports that only escalates. It is above every item's
/// index, so that the lowest report is the outcome.
const ESCALATE: ItemIndex = ItemIndex::MAX;

/// Entries that tell whether a window ends with a letter (either case is one), a digit or `_`: bytes that
/// share all but some bits are one.
const WORD_ENTRIES: usize = 9;

/// The gates of all patterns with which rules begin, as one matcher.
///
/// A window of ordinary traffic costs one look at each fourth place if no
/// literal is shorter than 7 bytes, at each second one from 5 bytes on, and at
/// each place below. Only from the first place where a literal seems to begin
/// is the window read byte by byte, so the worst window costs
/// [`WINDOW_BYTES`] steps more, whatever the rules are.
#[derive(Debug, Clone)]
pub struct Gate {
    filter: Filter,
    /// One for the literals as they are, one for those in either case.
    automata: Vec<Automaton>,
    /// The rule of each item.
    rules: Vec<RuleIndex>,
    /// Whether some rule wants every packet with a payload.
    always: bool,
    /// Whether it counts that a payload ends within a word.
    after_words: bool,
    tcam_entries: usize,
}

impl Gate {
    /// Builds the gate of a rules file.
    pub fn new(rules: &Rules) -> Self {
        let cased = literals_where(rules, false);
        let caseless = literals_where(rules, true);
        let bytes = cased.iter().chain(&caseless).map(|(_, bytes)| *bytes);
        let always = rules.may_be_met_by_anything()
            || rules
                .first_patterns()
                .any(|(_, sought)| *sought.gate() == GateLiterals::Always);
        let after_words = rules
            .first_patterns()
            .any(|(_, sought)| sought.looks_back());
        let exact = literals::automaton(&cased, false);
        Self {
            filter: Filter::new(bytes),
            automata: exact
                .into_iter()
                .chain(literals::automaton(&caseless, true))
                .collect(),
            rules: rules.items().iter().map(|item| item.rule).collect(),
            always,
            after_words,
            tcam_entries: tcam_entries(rules)
                + usize::from(always)
                + usize::from(after_words) * WORD_ENTRIES,
        }
    }

    /// Looks at the first [`WINDOW_BYTES`] bytes of a payload.
    ///
    /// * `Full`: a whole literal that alone is a `ban` rule lies in the window; of several such
    ///   rules, the first in the file.
    /// * `Partial`: another pattern begins in the window, as far as can be seen, or the window ends
    ///   within one, be it behind its first byte; or a pattern may begin with anything, and there is
    ///   a payload at all; or the window ends within a word, and a pattern begins with `\b`.
    ///
    /// `None` says that whoever reads these bytes as the first of a stream finds nothing, and
    /// knows no more behind them than before.
    #[inline]
    pub fn inspect(&self, payload: &[u8]) -> GateOutcome {
        let window = &payload[..payload.len().min(WINDOW_BYTES)];
        // What the filter cannot see: that the window ends within a first gram.
        let tail = window.len().saturating_sub(GRAM_BYTES - 1);
        let place = self.filter.first_place(window).unwrap_or(tail);
        let seen = self.walk(&window[place.min(tail)..]);
        let is_in_word = self.after_words && window.last().is_some_and(|last| is_of_word(*last));
        let escalates = is_in_word || self.always && !window.is_empty();
        match seen.or(escalates.then_some(ESCALATE)) {
            None => GateOutcome::None,
            Some(ESCALATE) => GateOutcome::Partial,
            Some(rule) => GateOutcome::Full(rule),
        }
    }

    /// The rule of an item that the gate has reported.
    pub(super) fn rule_of(&self, item: ItemIndex) -> RuleIndex {
        self.rules.get(usize::from(item)).copied().unwrap_or(0)
    }

    /// The rule that alone bans a payload's flow, as far as its window tells.
    pub(super) fn banning_rule(&self, payload: &[u8]) -> Option<RuleIndex> {
        match self.inspect(payload) {
            GateOutcome::Full(item) => Some(self.rule_of(item)),
            GateOutcome::None | GateOutcome::Partial => None,
        }
    }

    /// The lowest report of any automaton from here to the window's end.
    #[inline(never)]
    fn walk(&self, window: &[u8]) -> Option<ItemIndex> {
        self.automata
            .iter()
            .filter_map(|automaton| lowest_report(automaton, window))
            .min()
    }

    /// How many ternary entries, each [`WINDOW_BYTES`] wide, a switch needs
    /// for this gate: one for each literal at each place where it fits, and
    /// one for each beginning of a literal that may stand at the window's
    /// end. A payload shorter than the window is aligned to the key's *end*,
    /// so that the same entries serve it. Both cases of a letter differ in one
    /// bit, so `nocase` costs nothing. `gate=always` is one entry.
    pub fn tcam_entries(&self) -> usize {
        self.tcam_entries
    }
}

fn lowest_report(automaton: &Automaton, window: &[u8]) -> Option<ItemIndex> {
    let mut state = START;
    let mut lowest = None;
    for &byte in window {
        state = automaton.step(state, byte);
        // Sorted, so the first one is the lowest.
        if let Some(&rule) = automaton.reported(state).first() {
            lowest = Some(lowest.map_or(rule, |before: ItemIndex| before.min(rule)));
        }
    }
    let is_cut_off = automaton.depth(state) > 0;
    lowest.or(is_cut_off.then_some(ESCALATE))
}

fn literals_where(rules: &Rules, nocase: bool) -> Literals<'_> {
    let patterns = rules.first_patterns();
    let wanted = patterns.filter(|(_, sought)| sought.is_nocase() == nocase);
    wanted
        .flat_map(|(index, sought)| gate_literals(rules, index, sought))
        .collect()
}

/// What the gate looks for on behalf of one pattern. Of a literal longer than
/// the window only that much can ever be seen, which is a cut-off literal.
fn gate_literals<'r>(
    rules: &Rules,
    index: ItemIndex,
    sought: &'r Sought,
) -> impl Iterator<Item = (ItemIndex, &'r [u8])> + use<'r> {
    let bans = bans_alone(rules, index) && matches!(sought.pattern(), Pattern::Literal(_));
    gate_bytes(sought).iter().map(move |bytes| {
        let is_full = bans && bytes.len() <= WINDOW_BYTES;
        let report = if is_full { index } else { ESCALATE };
        (report, &bytes[..bytes.len().min(WINDOW_BYTES)])
    })
}

/// Whether a pattern alone is a `ban` rule, and for all packets.
fn bans_alone(rules: &Rules, index: ItemIndex) -> bool {
    rules.rule_of_one(index).is_some_and(|rule| {
        let action = rules.rule(rule).map(super::rules::Rule::action);
        action == Some(Action::Ban) && rules.is_for_all(rule)
    })
}

fn gate_bytes(sought: &Sought) -> &[Vec<u8>] {
    match sought.gate() {
        GateLiterals::AnyOf(literals) => literals,
        GateLiterals::Always => &[],
    }
}

fn tcam_entries(rules: &Rules) -> usize {
    let mut whole = BTreeSet::new();
    for (_, sought) in rules.first_patterns() {
        let fold = |bytes: &Vec<u8>| match sought.is_nocase() {
            true => bytes.to_ascii_lowercase(),
            false => bytes.clone(),
        };
        let literals = gate_bytes(sought).iter();
        whole.extend(literals.map(|bytes| (sought.is_nocase(), fold(bytes))));
    }
    let places = |length: usize| (WINDOW_BYTES + 1).saturating_sub(length);
    let cut_off: BTreeSet<(bool, &[u8])> = whole
        .iter()
        .flat_map(|(nocase, b)| beginnings(*nocase, b))
        .collect();
    whole
        .iter()
        .map(|(_, bytes)| places(bytes.len()))
        .sum::<usize>()
        + cut_off.len()
}

/// The proper beginnings of a literal, which count at the window's end.
fn beginnings(nocase: bool, bytes: &[u8]) -> impl Iterator<Item = (bool, &[u8])> {
    let lengths = 1..bytes.len().min(WINDOW_BYTES + 1);
    lengths.map(move |length| (nocase, &bytes[..length]))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use proptest::string::string_regex;

    use super::*;

    fn gate(text: &str) -> Gate {
        Gate::new(&Rules::parse(text, "test").unwrap())
    }

    /// The definition, written down plainly.
    fn reference(rules: &Rules, payload: &[u8]) -> GateOutcome {
        let window = &payload[..payload.len().min(WINDOW_BYTES)];
        let mut outcome = GateOutcome::None;
        for (index, rule) in rules.patterns() {
            let same = |a: &[u8], b: &[u8]| {
                if rule.is_nocase() {
                    a.eq_ignore_ascii_case(b)
                } else {
                    a == b
                }
            };
            let literals = match rule.gate() {
                GateLiterals::Always if window.is_empty() => continue,
                GateLiterals::Always => {
                    outcome = GateOutcome::Partial;
                    continue;
                }
                GateLiterals::AnyOf(literals) => literals,
            };
            for literal in literals {
                let whole = window
                    .windows(literal.len())
                    .any(|part| same(part, literal));
                let action = rules.rule(index).unwrap().action();
                let ban = action == Action::Ban && matches!(rule.pattern(), Pattern::Literal(_));
                if whole && ban {
                    return GateOutcome::Full(index);
                }
                let cut = (1..literal.len().min(window.len() + 1))
                    .any(|k| same(&window[window.len() - k..], &literal[..k]));
                if whole || cut {
                    outcome = GateOutcome::Partial;
                }
            }
        }
        outcome
    }

    #[test]
    fn a_whole_ban_literal_bans_and_the_first_rule_wins() {
        let gate = gate(
            "a alert literal \"attack\"\nb ban literal \"tack at\"\nc ban literal \"attack at\"\n",
        );
        assert_eq!(gate.inspect(b"the attack at dawn"), GateOutcome::Full(1));
        assert_eq!(gate.inspect(b"the attack."), GateOutcome::Partial);
        assert_eq!(gate.inspect(b"nothing here"), GateOutcome::None);
        assert_eq!(gate.inspect(b""), GateOutcome::None);
    }

    #[test]
    fn only_the_window_counts() {
        let gate = gate("a ban literal \"0123456789\"");
        let mut payload = vec![b' '; 200];
        payload[55..65].copy_from_slice(b"0123456789");
        assert_eq!(gate.inspect(&payload), GateOutcome::Partial);
        payload[54..65].copy_from_slice(b"0123456789 ");
        assert_eq!(gate.inspect(&payload), GateOutcome::Full(0));
        payload[54..75].copy_from_slice(b"          0123456789 ");
        assert_eq!(gate.inspect(&payload), GateOutcome::None);
    }

    #[test]
    fn a_cut_off_literal_counts_from_its_first_byte_on() {
        let gate = gate("a ban literal \"Secret\" nocase");
        assert_eq!(gate.inspect(b"a se "), GateOutcome::None);
        assert_eq!(gate.inspect(b"a s"), GateOutcome::Partial);
        assert_eq!(gate.inspect(b"S"), GateOutcome::Partial);
        assert_eq!(gate.inspect(b"a SECR"), GateOutcome::Partial);
        assert_eq!(gate.inspect(b"a secret"), GateOutcome::Full(0));
    }

    #[test]
    fn a_literal_longer_than_the_window_is_escalated() {
        let text = format!("a ban literal \"{}\"", "xy".repeat(40));
        assert_eq!(
            gate(&text).inspect("xy".repeat(40).as_bytes()),
            GateOutcome::Partial
        );
    }

    #[test]
    fn always_escalates_whatever_has_a_payload() {
        let gate = gate("a ban regex \"[^x][0-9]{16}\"\nb ban literal \"bad\"");
        assert_eq!(gate.inspect(b"x"), GateOutcome::Partial);
        assert_eq!(gate.inspect(b"bad"), GateOutcome::Full(1));
        assert_eq!(gate.inspect(b""), GateOutcome::None);
    }

    #[test]
    fn an_empty_file_sees_nothing() {
        let gate = gate("# nothing");
        assert_eq!(gate.inspect(&[0; 64]), GateOutcome::None);
        assert_eq!(gate.tcam_entries(), 0);
    }

    #[test]
    fn entries_are_literals_by_place_and_beginnings() {
        assert_eq!(gate("a ban literal \"abcd\"").tcam_entries(), 61 + 3);
        assert_eq!(gate("a ban literal \"abcdef\"").tcam_entries(), 59 + 5);
        // The same literal twice costs nothing, a shared beginning neither.
        assert_eq!(
            gate("a ban literal \"abcdef\"\nb alert literal \"abcdef\"").tcam_entries(),
            64
        );
        assert_eq!(
            gate("a ban literal \"abcdef\"\nb ban literal \"abcdex\"").tcam_entries(),
            2 * 59 + 5
        );
        let long = format!("a ban literal \"{}\"", "x".repeat(100));
        assert_eq!(gate(&long).tcam_entries(), 64);
        assert_eq!(gate("a alert regex \"[^x][0-9]{4}\"").tcam_entries(), 1);
    }

    /// Rules whose literals are at least `shortest` bytes of a few letters.
    fn any_rules(shortest: usize) -> impl Strategy<Value = String> {
        let literal = format!("[abB]{{{shortest},10}}|(ab){{30,40}}");
        let rule = (
            any::<bool>(),
            any::<bool>(),
            string_regex(&literal).unwrap(),
        );
        prop::collection::vec(rule, 1..6).prop_map(|rules| {
            let line = |(number, (ban, nocase, literal)): (usize, (bool, bool, String))| {
                let (action, option) = (
                    if ban { "ban" } else { "alert" },
                    if nocase { "nocase" } else { "" },
                );
                format!("r{number} {action} literal \"{literal}\" {option}\n")
            };
            rules.into_iter().enumerate().map(line).collect()
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1000))]

        #[test]
        fn the_gate_does_what_its_definition_says(
            text in (1..=8usize).prop_flat_map(any_rules),
            fill in "[abB]{0,12}[abBcC ]{0,70}[abB]{0,12}",
        ) {
            let rules = Rules::parse(&text, "test").unwrap();
            prop_assert_eq!(Gate::new(&rules).inspect(fill.as_bytes()), reference(&rules, fill.as_bytes()));
        }

        #[test]
        fn planted_literals_are_seen_at_every_place(
            text in (1..=8usize).prop_flat_map(any_rules),
            which in any::<prop::sample::Index>(),
            place in 0..70usize,
            length in 0..90usize,
        ) {
            let rules = Rules::parse(&text, "test").unwrap();
            let (_, rule) = rules.patterns().nth(which.index(rules.len())).unwrap();
            let Pattern::Literal(bytes) = rule.pattern() else { unreachable!() };
            let mut payload = vec![b'.'; place];
            payload.extend(bytes);
            payload.resize(payload.len().max(length), b'.');
            payload.truncate(length);
            prop_assert_eq!(Gate::new(&rules).inspect(&payload), reference(&rules, &payload));
        }
    }
}
