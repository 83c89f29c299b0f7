//! The same matching by Hyperscan, the library that the paper used (feature
//! `hyperscan`; it needs Debian's `libhyperscan-dev`).
//!
//! Hyperscan compiles all rules into one database and keeps a *stream* for
//! each flow direction. Streams of the Rust binding are not freed when they
//! are dropped, so a flow does not hold one: each matcher has a single stream
//! to work in, and a flow holds its compressed form, which is plain bytes.

use std::cell::RefCell;
use std::fmt;
use std::sync::Arc;

use ::hyperscan::{Builder, HsError, Matching, Patterns, Scratch, Stream, StreamingDatabase};
use regex_syntax::hir::{Class, ClassBytes, ClassUnicode, Hir, HirKind, Repetition};

use super::deep::StreamMatcher;
use super::error::{HyperscanError, Problem, RulesError};
use super::rules::{Pattern, RuleIndex, Rules};

/// Where a stream stands. The default is its beginning.
#[derive(Clone, Default)]
pub struct HyperscanState {
    /// The compressed stream and the database that it is a stream of; none
    /// before the first byte.
    saved: Option<(Arc<StreamingDatabase>, Vec<u8>)>,
}

impl fmt::Debug for HyperscanState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.saved.as_ref().map(|(_, bytes)| bytes.len());
        f.debug_struct("HyperscanState")
            .field("bytes", &bytes)
            .finish()
    }
}

/// A matcher on Hyperscan. Each worker needs one of its own, which
/// [`HyperscanMatcher::another`] makes cheaply; states may move between them.
///
/// Hyperscan does not tell whether a pattern is in progress, so a stream is
/// idle only before its first byte: a flow that was escalated once stays with
/// the workers. They may thus find *more* than with `DeepMatcher`, which lets
/// go of a flow that the gate alone then watches.
pub struct HyperscanMatcher {
    /// None if there are no rules, which Hyperscan cannot compile.
    engine: Option<Engine>,
}

impl HyperscanMatcher {
    /// Compiles all rules.
    ///
    /// # Errors
    ///
    /// `Problem::Hyperscan` at the rule that the library refuses, or at the
    /// file's beginning if it does not say which.
    pub fn new(rules: &Rules) -> Result<Self, RulesError> {
        if rules.is_empty() {
            return Ok(Self { engine: None });
        }
        let patterns = rules.iter().map(|(index, rule)| {
            let text = expression(rules, index).ok_or(HyperscanError::NotBytes);
            text.and_then(|text| Ok(::hyperscan::Pattern::new(text)?))
                .map_err(|error| rules.error_at(rule, Problem::Hyperscan(error)))
        });
        let patterns: Patterns = patterns.collect::<Result<_, _>>()?;
        let database = patterns.build().map_err(|error| located(rules, error))?;
        let engine = Engine::new(Arc::new(database))
            .map_err(|error| rules.error_at_start(Problem::Hyperscan(error)))?;
        Ok(Self {
            engine: Some(engine),
        })
    }

    /// A matcher of the same rules for another thread.
    ///
    /// # Errors
    ///
    /// If there is no memory for it.
    pub fn another(&self) -> Result<Self, HyperscanError> {
        let engine = self
            .engine
            .as_ref()
            .map(|engine| Engine::new(engine.database.clone()));
        Ok(Self {
            engine: engine.transpose()?,
        })
    }
}

impl fmt::Debug for HyperscanMatcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HyperscanMatcher").finish_non_exhaustive()
    }
}

impl StreamMatcher for HyperscanMatcher {
    type State = HyperscanState;
    type Error = HyperscanError;

    fn scan(
        &self,
        state: &mut HyperscanState,
        chunk: &[u8],
        on_match: impl FnMut(RuleIndex),
    ) -> Result<(), HyperscanError> {
        match &self.engine {
            Some(engine) if !chunk.is_empty() => engine.scan(state, chunk, on_match),
            _ => Ok(()),
        }
    }

    fn is_idle(&self, state: &HyperscanState) -> bool {
        state.saved.is_none()
    }
}

/// A database with what one thread needs to scan with it.
struct Engine {
    database: Arc<StreamingDatabase>,
    scratch: Scratch,
    /// Always there until the engine is dropped.
    stream: Option<Stream>,
    /// Room for the largest compressed stream, borrowed during a scan.
    room: RefCell<Vec<u8>>,
}

impl Engine {
    fn new(database: Arc<StreamingDatabase>) -> Result<Self, HyperscanError> {
        // A stream does not grow much when it is compressed.
        let room = RefCell::new(vec![0; 2 * database.stream_size()? + 1024]);
        let (scratch, stream) = (database.alloc_scratch()?, Some(database.open_stream()?));
        Ok(Self {
            database,
            scratch,
            stream,
            room,
        })
    }

    fn scan(
        &self,
        state: &mut HyperscanState,
        chunk: &[u8],
        on_match: impl FnMut(RuleIndex),
    ) -> Result<(), HyperscanError> {
        let saved = state.saved.take();
        let (Some(stream), Ok(mut room)) = (&self.stream, self.room.try_borrow_mut()) else {
            return Err(HyperscanError::Busy);
        };
        self.restore(stream, saved.as_ref())?;
        self.read(stream, chunk, on_match)?;
        let length = stream.compress(&mut room)?;
        let (database, mut bytes) = saved.unwrap_or_else(|| (self.database.clone(), Vec::new()));
        bytes.clear();
        bytes.extend_from_slice(&room[..length]);
        state.saved = Some((database, bytes));
        Ok(())
    }

    /// Makes the stream stand where a flow's stands.
    fn restore(
        &self,
        stream: &Stream,
        saved: Option<&(Arc<StreamingDatabase>, Vec<u8>)>,
    ) -> Result<(), HyperscanError> {
        // Patterns without `$` match nothing at a stream's end.
        match saved {
            None => stream.reset(&self.scratch, ())?,
            // The library cannot check bytes of another database.
            Some((owner, _)) if !Arc::ptr_eq(owner, &self.database) => {
                return Err(HyperscanError::ForeignState);
            }
            Some((_, bytes)) => stream.reset_and_expand(bytes, &self.scratch, ())?,
        }
        Ok(())
    }

    fn read(
        &self,
        stream: &Stream,
        chunk: &[u8],
        mut on_match: impl FnMut(RuleIndex),
    ) -> Result<(), HyperscanError> {
        let report = |id: u32, _: u64, _: u64, _: u32| {
            // Patterns are numbered as the rules are, and those fit.
            on_match(id as RuleIndex);
            Matching::Continue
        };
        Ok(stream.scan(chunk, &self.scratch, report)?)
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        if let Some(stream) = self.stream.take() {
            // It can fail only for a bad handle, which this one is not.
            let _ = stream.close(&self.scratch, ());
        }
    }
}

/// Puts an error of the library where it belongs in the file.
fn located(rules: &Rules, error: ::hyperscan::Error) -> RulesError {
    let number = match &error {
        ::hyperscan::Error::Hyperscan(HsError::CompileError(error)) => error.expression(),
        _ => None,
    };
    let rule = number.and_then(|number| rules.rule(RuleIndex::try_from(number).ok()?));
    let problem = Problem::Hyperscan(error.into());
    match rule {
        Some(rule) => rules.error_at(rule, problem),
        None => rules.error_at_start(problem),
    }
}

/// A rule's pattern in the syntax that both libraries share: bytes, sets of
/// bytes, groups, alternatives and counted repetitions.
fn expression(rules: &Rules, index: RuleIndex) -> Option<String> {
    let rule = rules.rule(index)?;
    let mut text = String::new();
    match (rule.pattern(), rule.expression()) {
        (_, Some(hir)) => write(hir, &mut text)?,
        (Pattern::Literal(bytes), None) => bytes
            .iter()
            .for_each(|b| write_byte(*b, rule.is_nocase(), &mut text)),
        (Pattern::Regex(_), None) => return None,
    }
    Some(text)
}

fn write(hir: &Hir, text: &mut String) -> Option<()> {
    match hir.kind() {
        HirKind::Empty => text.push_str("(?:)"),
        HirKind::Literal(literal) => literal
            .0
            .iter()
            .for_each(|byte| write_byte(*byte, false, text)),
        HirKind::Class(class) => write_class(class, text),
        HirKind::Look(_) => return None,
        HirKind::Repetition(repetition) => write_repetition(repetition, text)?,
        HirKind::Capture(group) => write(&group.sub, text)?,
        HirKind::Concat(parts) => parts.iter().try_for_each(|part| write(part, text))?,
        HirKind::Alternation(parts) => write_alternatives(parts, text)?,
    }
    Some(())
}

fn write_byte(byte: u8, nocase: bool, text: &mut String) {
    if nocase && byte.is_ascii_alphabetic() {
        let (lower, upper) = (byte.to_ascii_lowercase(), byte.to_ascii_uppercase());
        text.extend(['[', char::from(lower), char::from(upper), ']']);
    } else if byte.is_ascii_alphanumeric() {
        text.push(char::from(byte));
    } else {
        text.push_str(&format!(r"\x{byte:02x}"));
    }
}

fn write_class(class: &Class, text: &mut String) {
    match class {
        Class::Bytes(bytes) => write_byte_class(bytes, text),
        Class::Unicode(chars) => match chars.to_byte_class() {
            Some(bytes) => write_byte_class(&bytes, text),
            None => write_char_class(chars, text),
        },
    }
}

fn write_byte_class(class: &ClassBytes, text: &mut String) {
    text.push('[');
    for range in class.iter() {
        text.push_str(&format!(r"\x{:02x}-\x{:02x}", range.start(), range.end()));
    }
    text.push(']');
}

/// Characters that were written one by one, as in `é|è`: sets of others are
/// refused when the rules are read.
fn write_char_class(class: &ClassUnicode, text: &mut String) {
    let mut open = "(?:";
    for char in class.iter().flat_map(|range| range.start()..=range.end()) {
        text.push_str(open);
        char.encode_utf8(&mut [0; 4])
            .bytes()
            .for_each(|byte| write_byte(byte, false, text));
        open = "|";
    }
    text.push(')');
}

fn write_repetition(repetition: &Repetition, text: &mut String) -> Option<()> {
    text.push_str("(?:");
    write(&repetition.sub, text)?;
    let most = repetition
        .max
        .map(|max| max.to_string())
        .unwrap_or_default();
    text.push_str(&format!("){{{},{most}}}", repetition.min));
    Some(())
}

fn write_alternatives(parts: &[Hir], text: &mut String) -> Option<()> {
    let mut open = "(?:";
    for part in parts {
        text.push_str(open);
        write(part, text)?;
        open = "|";
    }
    text.push(')');
    Some(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::deep::tests::{accepted, any_rules, any_stream, chunks, reference, reports};
    use super::super::rule_set::RuleSet;
    use super::*;

    fn rules(text: &str) -> Rules {
        Rules::parse(text, "test").unwrap()
    }

    #[test]
    fn a_stream_may_move_to_another_matcher_of_the_same_rules() {
        let rules = rules("a ban literal \"needle\"");
        let one = HyperscanMatcher::new(&rules).unwrap();
        let other = one.another().unwrap();
        let foreign = HyperscanMatcher::new(&rules).unwrap();
        let mut state = HyperscanState::default();
        assert!(one.is_idle(&state));
        one.scan(&mut state, b"need", |_| ()).unwrap();
        let mut copy = state.clone();
        let mut found = RuleSet::new();
        other
            .scan(&mut state, b"le", |rule| assert!(found.insert(rule)))
            .unwrap();
        assert_eq!(found.iter().collect::<Vec<_>>(), [0]);
        assert!(matches!(
            foreign.scan(&mut copy, b"le", |_| ()),
            Err(HyperscanError::ForeignState)
        ));
        assert!(foreign.is_idle(&copy));
    }

    #[test]
    fn a_scan_within_a_scan_is_refused() {
        let matcher = HyperscanMatcher::new(&rules("a ban literal \"ab\"")).unwrap();
        let mut inner = None;
        let again = |_| inner = Some(matcher.scan(&mut HyperscanState::default(), b"ab", |_| ()));
        matcher
            .scan(&mut HyperscanState::default(), b"ab", again)
            .unwrap();
        assert!(matches!(inner, Some(Err(HyperscanError::Busy))));
    }

    #[test]
    fn no_rules_find_nothing() {
        let matcher = HyperscanMatcher::new(&rules("")).unwrap();
        assert_eq!(reports(&matcher, &[b"abc"]), [vec![]]);
    }

    #[test]
    fn a_refused_rule_is_located() {
        let text = format!(
            "a ban literal \"ab\"\nb ban literal \"{}\"",
            "?".repeat(5000)
        );
        let error = HyperscanMatcher::new(&rules(&text)).unwrap_err();
        assert!(
            matches!(error.problem, Problem::Hyperscan(_)) && error.line == 2,
            "{error}"
        );
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(400))]

        #[test]
        fn both_matchers_report_the_same(
            text in any_rules(),
            stream in any_stream(),
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..8),
        ) {
            let rules = rules(&text);
            let chunks = chunks(&stream, &cuts);
            let found = reports(&HyperscanMatcher::new(&rules).unwrap(), &chunks);
            prop_assert_eq!(&found, &reports(&accepted(&rules)?, &chunks), "{} {:?}", text, chunks);
            prop_assert_eq!(found, reference(&rules, &chunks));
        }
    }
}
