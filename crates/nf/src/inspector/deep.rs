//! The workers' look at a stream: every byte, every rule, across packets.

use std::array;
use std::convert::Infallible;

use super::automaton::Automaton;
use super::error::RulesError;
use super::expressions;
use super::limits::TABLES;
use super::literals::{self, Literals};
use super::rules::{ItemIndex, Pattern, Rules};

pub use super::rule_set::RuleSet;

/// How large the table of one group of regular expressions may become.
pub const DEFAULT_TABLE_BYTES: usize = 8 * 1024 * 1024;

/// Finds rules in one direction of a flow, chunk by chunk.
///
/// The state belongs to the flow and is what makes an occurrence that spans
/// chunks found: with any cutting of a stream into chunks, the same rules are
/// reported at the same bytes.
pub trait StreamMatcher {
    /// What must be kept from one chunk of a stream to the next. Its default
    /// is the beginning of a stream.
    type State: Default + Clone;
    /// Why a scan can fail.
    type Error: std::error::Error;

    /// Reads the next chunk and calls `on_match` with every pattern of which an
    /// occurrence ends in it, and after how many of the chunk's bytes, for each
    /// place at which one ends; in no particular order.
    ///
    /// # Errors
    ///
    /// Those of the matcher. The state is then the beginning of a stream.
    fn scan(
        &self,
        state: &mut Self::State,
        chunk: &[u8],
        on_match: impl FnMut(ItemIndex, u32),
    ) -> Result<(), Self::Error>;

    /// Whether the next bytes of the stream would be judged as if it began
    /// with them, so that nothing is lost by forgetting the state. A matcher
    /// that cannot tell says no.
    fn is_idle(&self, state: &Self::State) -> bool;
}

/// Where a stream stands in each of a [`DeepMatcher`]'s tables.
///
/// The default is the beginning of a stream. A state means something only to
/// the matcher that made it; another one takes a number that it does not know
/// for the beginning.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct DeepState([u32; TABLES]);

impl DeepState {
    /// Whether no occurrence of any rule may be in progress: the matcher
    /// would go on exactly as from the beginning.
    pub fn is_idle(self) -> bool {
        self == Self::default()
    }
}

/// The matcher in Rust: dense automata, one step for each byte and table.
///
/// A regular expression that can always go on, such as `key=.*`, keeps a
/// stream from being idle from its first match to where it can match no
/// longer (for `.`, the end of the line), and is reported at each byte.
#[derive(Debug, Clone)]
pub struct DeepMatcher {
    /// At most [`TABLES`].
    tables: Vec<Automaton>,
}

impl DeepMatcher {
    /// Builds the automata of all rules, with [`DEFAULT_TABLE_BYTES`].
    ///
    /// # Errors
    ///
    /// As [`DeepMatcher::with_table_limit`].
    pub fn new(rules: &Rules) -> Result<Self, RulesError> {
        Self::with_table_limit(rules, DEFAULT_TABLE_BYTES)
    }

    /// Builds the automata with a limit in bytes on each table of regular
    /// expressions (literals are bounded by `MAX_PATTERN_BYTES` already).
    ///
    /// # Errors
    ///
    /// `RuleTooLarge` or `RulesTooLarge` with the first rule that does not
    /// fit, and its place in the file.
    pub fn with_table_limit(rules: &Rules, table_bytes: usize) -> Result<Self, RulesError> {
        let literals =
            [false, true].map(|nocase| literals::automaton(&literals_where(rules, nocase), nocase));
        let mut tables: Vec<Automaton> = literals.into_iter().flatten().collect();
        tables.extend(expressions::automata(rules, table_bytes)?);
        Ok(Self { tables })
    }

    /// Reads the next chunk of a stream that stands at `state` and gives the
    /// state after it. `on_match` hears every pattern of which an occurrence ends
    /// in the chunk, and after how many of its bytes, for each byte at which one ends.
    pub fn scan(
        &self,
        state: DeepState,
        chunk: &[u8],
        mut on_match: impl FnMut(ItemIndex, u32),
    ) -> DeepState {
        let mut after = DeepState::default();
        let used = self.tables.len();
        after.0[..used].copy_from_slice(&state.0[..used]);
        let (pairs, rest) = self.tables.as_chunks::<2>();
        let (for_pairs, for_rest) = after.0.split_at_mut(2 * pairs.len());
        for (tables, states) in pairs.iter().zip(for_pairs.as_chunks_mut::<2>().0) {
            scan_together(tables, states, chunk, &mut on_match);
        }
        for (table, state) in rest
            .as_chunks::<1>()
            .0
            .iter()
            .zip(for_rest.as_chunks_mut::<1>().0)
        {
            scan_together(table, state, chunk, &mut on_match);
        }
        after
    }

    /// The memory of all transition tables, in bytes.
    pub fn table_bytes(&self) -> usize {
        self.tables.iter().map(Automaton::table_bytes).sum()
    }
}

/// Takes the tables through the chunk side by side: each step of one waits
/// for the memory of its last, so a second one is nearly free.
fn scan_together<const N: usize>(
    tables: &[Automaton; N],
    states: &mut [u32; N],
    chunk: &[u8],
    on_match: &mut impl FnMut(ItemIndex, u32),
) {
    let mut at: [u32; N] = array::from_fn(|i| tables[i].checked(states[i]));
    for (end, &byte) in (1..).zip(chunk) {
        for (table, state) in tables.iter().zip(&mut at) {
            *state = table.step(*state, byte);
            for &pattern in table.reported(*state) {
                on_match(pattern, end);
            }
        }
    }
    *states = array::from_fn(|i| tables[i].settled(at[i]));
}

fn literals_where(rules: &Rules, nocase: bool) -> Literals<'_> {
    let patterns = rules.patterns();
    let wanted = patterns.filter(|(_, sought)| sought.is_nocase() == nocase);
    wanted
        .filter_map(|(index, sought)| match sought.pattern() {
            Pattern::Literal(bytes) => Some((index, &bytes[..])),
            Pattern::Regex(_) => None,
        })
        .collect()
}

impl StreamMatcher for DeepMatcher {
    type State = DeepState;
    type Error = Infallible;

    fn scan(
        &self,
        state: &mut DeepState,
        chunk: &[u8],
        on_match: impl FnMut(ItemIndex, u32),
    ) -> Result<(), Infallible> {
        *state = DeepMatcher::scan(self, *state, chunk, on_match);
        Ok(())
    }

    fn is_idle(&self, state: &DeepState) -> bool {
        state.is_idle()
    }
}

#[cfg(test)]
pub(super) mod tests {
    use proptest::prelude::*;
    use regex::bytes::RegexBuilder;
    use std::collections::BTreeSet;

    use super::super::error::Problem;
    use super::*;

    fn rules(text: &str) -> Rules {
        Rules::parse(text, "test").unwrap()
    }

    fn matcher(text: &str) -> DeepMatcher {
        DeepMatcher::new(&rules(text)).unwrap()
    }

    /// For each chunk of a stream, the rules it reports.
    pub(in super::super) fn reports<M: StreamMatcher>(
        matcher: &M,
        chunks: &[&[u8]],
    ) -> Vec<Vec<ItemIndex>> {
        let mut state = M::State::default();
        let mut scan = |chunk: &&[u8]| {
            let mut set = BTreeSet::new();
            let heard = |pattern, end| {
                assert!((1..=chunk.len() as u32).contains(&end));
                set.insert(pattern);
            };
            matcher.scan(&mut state, chunk, heard).unwrap();
            set.into_iter().collect()
        };
        chunks.iter().map(&mut scan).collect()
    }

    /// The same by the regex crate: a rule is reported in each chunk in which
    /// some occurrence of it ends.
    pub(in super::super) fn reference(rules: &Rules, chunks: &[&[u8]]) -> Vec<Vec<ItemIndex>> {
        let stream = chunks.concat();
        let mut found = vec![BTreeSet::new(); chunks.len()];
        for (index, rule) in rules.patterns() {
            let source = match rule.pattern() {
                Pattern::Literal(bytes) => bytes.iter().map(|b| format!(r"\x{b:02x}")).collect(),
                Pattern::Regex(source) => source.clone(),
            };
            let ends_here = RegexBuilder::new(&format!(r"(?:{source})\z"))
                .unicode(false)
                .case_insensitive(rule.is_nocase())
                .build()
                .unwrap();
            let mut end = 0;
            for (chunk, found) in chunks.iter().zip(&mut found) {
                for _ in *chunk {
                    end += 1;
                    if ends_here.is_match(&stream[..end]) {
                        found.insert(index);
                    }
                }
            }
        }
        found
            .into_iter()
            .map(|set| set.into_iter().collect())
            .collect()
    }

    /// A stream and the places where it is cut.
    pub(in super::super) fn chunks<'s>(
        stream: &'s [u8],
        cuts: &[prop::sample::Index],
    ) -> Vec<&'s [u8]> {
        let mut places: Vec<usize> = cuts.iter().map(|cut| cut.index(stream.len() + 1)).collect();
        places.extend([0, stream.len()]);
        places.sort_unstable();
        places
            .windows(2)
            .map(|pair| &stream[pair[0]..pair[1]])
            .collect()
    }

    /// Regular expressions over a few letters that need at least one byte.
    fn any_expression() -> impl Strategy<Value = String> {
        let leaf = prop_oneof![
            "[abc]{1,3}",
            Just("[ab]".to_owned()),
            Just("[^a]".to_owned()),
            Just(".".to_owned()),
            Just(r"\w".to_owned()),
            Just(r"\xff".to_owned()),
            Just("(?:é|è|b)".to_owned()),
            Just("(?i:b)".to_owned()),
        ];
        let tree = leaf.prop_recursive(3, 12, 3, |inner| {
            prop_oneof![
                (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("{a}{b}")),
                (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("(?:{a}|{b})")),
                inner.clone().prop_map(|a| format!("(?:{a})*")),
                inner.clone().prop_map(|a| format!("(?:{a})+?")),
                inner.clone().prop_map(|a| format!("(?:{a})?")),
                inner.prop_map(|a| format!("(?:{a}){{1,3}}")),
            ]
        });
        ("[abc]", tree, any::<bool>()).prop_map(|(sure, tree, first)| {
            if first {
                format!("{sure}(?:{tree})")
            } else {
                format!("(?:{tree}){sure}")
            }
        })
    }

    /// Rules of every kind, and a stream in which they occur.
    pub(in super::super) fn any_rules() -> impl Strategy<Value = String> {
        let literal = "[abcB]{2,6}".prop_map(|text| format!("literal \"{text}\""));
        let regex = any_expression().prop_map(|text| format!("regex \"{text}\""));
        let rule = (
            prop_oneof![literal, regex],
            prop::sample::select(vec!["", " nocase"]),
        );
        prop::collection::vec(rule, 1..5).prop_map(|rules| {
            let line = |(number, (rule, option))| format!("r{number} alert {rule}{option}\n");
            rules.into_iter().enumerate().map(line).collect()
        })
    }

    pub(in super::super) fn any_stream() -> impl Strategy<Value = Vec<u8>> {
        let piece =
            prop::sample::select(b"aaaabbbbcccABC.\n\xff".to_vec()).prop_map(|byte| vec![byte]);
        let pieces = prop_oneof![12 => piece, 1 => Just("é".as_bytes().to_vec())];
        prop::collection::vec(pieces, 0..60).prop_map(|pieces| pieces.concat())
    }

    #[test]
    fn every_kind_of_rule_is_found_across_chunks() {
        let matcher = matcher(
            "lit ban literal \"needle\"\nany ban literal \"Hay\" nocase\nre ban regex \"x[0-9]+y\"\n",
        );
        let chunks: Vec<&[u8]> = vec![b"a nee", b"d", b"le hA", b"Y x1", b"", b"23", b"y"];
        assert_eq!(
            reports(&matcher, &chunks),
            [vec![], vec![], vec![0], vec![1], vec![], vec![], vec![2]]
        );
    }

    #[test]
    fn overlapping_rules_are_all_reported() {
        let matcher = matcher(
            "a alert literal \"abcd\"\nb alert literal \"bc\"\nc alert literal \"bc\"\nd alert regex \"b.d\"\n",
        );
        assert_eq!(reports(&matcher, &[b"abcd"]), [vec![0, 1, 2, 3]]);
    }

    #[test]
    fn a_stream_is_idle_unless_something_may_be_in_progress() {
        let matcher = matcher("l alert literal \"needle\"\nr alert regex \"cmd=[a-z]+;\"\n");
        let idle_after = |text: &[u8]| {
            matcher
                .scan(DeepState::default(), text, |_, _| ())
                .is_idle()
        };
        for text in ["", "hay", "a needle", "cmd=!", "cmd=ls;", "neeedl"] {
            assert!(idle_after(text.as_bytes()), "{text}");
        }
        for text in ["n", "a needl", "needlen", "cm", "cmd=", "cmd=ls"] {
            assert!(!idle_after(text.as_bytes()), "{text}");
        }
    }

    #[test]
    fn states_of_another_matcher_are_the_beginning() {
        let matcher = matcher("l alert literal \"needle\"");
        let half = matcher.scan(DeepState::default(), b"need", |_, _| ());
        let mut found = 0;
        matcher.scan(half, b"le", |_, _| found += 1);
        assert_eq!(found, 1);
        for words in [[u32::MAX; 8], [1; 8], [7; 8]] {
            matcher.scan(DeepState(words), b"le", |_, _| found += 1);
        }
        assert_eq!(found, 1);
    }

    #[test]
    fn a_rule_that_is_too_large_is_named() {
        let rules = rules(
            "ok ban literal \"abc\"\nfine ban regex \"ab+c\"\n\nhuge ban regex \"ab[^x]{400}[a-f]{30}y\"\n",
        );
        let error = DeepMatcher::with_table_limit(&rules, 10_000).unwrap_err();
        assert!(
            matches!(&error.problem, Problem::RuleTooLarge { rule, .. } if rule == "huge"),
            "{error}"
        );
        assert_eq!((error.line, error.column), (4, 17));
    }

    #[test]
    fn rules_that_multiply_are_spread_over_tables_and_then_refused() {
        let line = |n: u8| format!("r{n} alert regex \"{0}{0}.*{0}z\"\n", char::from(b'a' + n));
        let text = |count: u8| (0..count).map(line).collect::<String>();
        let single = DeepMatcher::with_table_limit(&rules(&text(4)), 16 << 10).unwrap();
        assert_eq!(single.tables.len(), 1);
        let spread = DeepMatcher::with_table_limit(&rules(&text(8)), 64 << 10).unwrap();
        assert_eq!(spread.tables.len(), 2);
        let error = DeepMatcher::with_table_limit(&rules(&text(25)), 16 << 10).unwrap_err();
        assert!(
            matches!(&error.problem, Problem::RulesTooLarge { rule, .. } if rule == "r18"),
            "{error}"
        );
        let stream = b"aa--bb--cc--dd--ee--ff--az--hh--cz--fz--hz";
        let chunked: Vec<&[u8]> = stream.chunks(3).collect();
        assert_eq!(
            reports(&spread, &chunked),
            reference(&rules(&text(8)), &chunked)
        );
    }

    /// The matcher of rules that may be too large for it, which is no failure but no case either.
    pub(in super::super) fn accepted(
        rules: &super::super::rules::Rules,
    ) -> Result<DeepMatcher, TestCaseError> {
        DeepMatcher::new(rules).map_err(|error| {
            let too_large = matches!(
                error.problem,
                Problem::RuleTooLarge { .. } | Problem::RulesTooLarge { .. }
            );
            match too_large {
                true => TestCaseError::reject("too large"),
                false => TestCaseError::fail(error.to_string()),
            }
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1000))]

        #[test]
        fn any_chunks_report_what_the_regex_crate_finds(
            text in any_rules(),
            stream in any_stream(),
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..8),
        ) {
            let rules = rules(&text);
            let chunks = chunks(&stream, &cuts);
            let matcher = accepted(&rules)?;
            prop_assert_eq!(reports(&matcher, &chunks), reference(&rules, &chunks), "{} {:?}", text, chunks);
        }

        #[test]
        fn an_idle_stream_goes_on_as_a_new_one(text in any_rules(), before in any_stream(), after in any_stream()) {
            let matcher = accepted(&rules(&text))?;
            let state = matcher.scan(DeepState::default(), &before, |_, _| ());
            let listen = |from| {
                let mut heard = Vec::new();
                (matcher.scan(from, &after, |pattern, end| heard.push((pattern, end))), heard)
            };
            // A state that was kept and is not idle is no loss either: it is the same stream.
            if state.is_idle() {
                prop_assert_eq!(listen(state), listen(DeepState::default()));
            } else {
                let whole = matcher.scan(DeepState::default(), &[before, after.clone()].concat(), |_, _| ());
                prop_assert_eq!(listen(state).0, whole);
            }
        }

        #[test]
        fn literals_are_idle_exactly_if_none_has_begun(
            literals in prop::collection::vec("[ab]{2,5}", 1..4),
            stream in "[abc]{0,12}",
        ) {
            let line = |(n, literal): (usize, &String)| format!("r{n} alert literal \"{literal}\"\n");
            let matcher = matcher(&literals.iter().enumerate().map(line).collect::<String>());
            let has_begun = |literal: &String| (1..literal.len()).any(|k| stream.ends_with(&literal[..k]));
            let state = matcher.scan(DeepState::default(), stream.as_bytes(), |_, _| ());
            prop_assert_eq!(state.is_idle(), !literals.iter().any(has_begun));
        }
    }
}
