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
use super::rules::{ItemIndex, Pattern, Rules, Sought};

/// Where a stream stands. The default is its beginning.
#[derive(Clone, Default)]
pub struct HyperscanState {
    /// The compressed stream and the database that it is a stream of; none
    /// before the first byte.
    saved: Option<(Arc<StreamingDatabase>, Vec<u8>)>,
    /// How many bytes it has read.
    read: u64,
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
        let patterns = rules.patterns().map(|(index, sought)| {
            let text = expression(sought).ok_or(HyperscanError::NotBytes);
            let pattern = text.and_then(|text| Ok(::hyperscan::Pattern::new(text)?));
            let mut pattern = pattern
                .map_err(|error| rules.error_at(rules.rule_of(index), Problem::Hyperscan(error)))?;
            pattern.id = Some(usize::from(index));
            Ok(pattern)
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
        on_match: impl FnMut(ItemIndex, u32),
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
        on_match: impl FnMut(ItemIndex, u32),
    ) -> Result<(), HyperscanError> {
        let (saved, before) = (state.saved.take(), std::mem::take(&mut state.read));
        let (Some(stream), Ok(mut room)) = (&self.stream, self.room.try_borrow_mut()) else {
            return Err(HyperscanError::Busy);
        };
        self.restore(stream, saved.as_ref())?;
        self.read(stream, chunk, before, on_match)?;
        let length = stream.compress(&mut room)?;
        let (database, mut bytes) = saved.unwrap_or_else(|| (self.database.clone(), Vec::new()));
        bytes.clear();
        bytes.extend_from_slice(&room[..length]);
        state.saved = Some((database, bytes));
        state.read = before + chunk.len() as u64;
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
        before: u64,
        mut on_match: impl FnMut(ItemIndex, u32),
    ) -> Result<(), HyperscanError> {
        let report = |id: u32, _: u64, end: u64, _: u32| {
            // Patterns are numbered as the items are, and those fit.
            on_match(id as ItemIndex, end.saturating_sub(before) as u32);
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
    let pattern = number.and_then(|number| rules.patterns().nth(number));
    let problem = Problem::Hyperscan(error.into());
    match pattern {
        Some((index, _)) => rules.error_at(rules.rule_of(index), problem),
        None => rules.error_at_start(problem),
    }
}

/// A rule's pattern in the syntax that both libraries share: bytes, sets of
/// bytes, groups, alternatives and counted repetitions.
fn expression(sought: &Sought) -> Option<String> {
    let mut text = String::new();
    match (sought.pattern(), sought.expression()) {
        (_, Some(hir)) => write(hir, &mut text)?,
        (Pattern::Literal(bytes), None) => bytes
            .iter()
            .for_each(|b| write_byte(*b, sought.is_nocase(), &mut text)),
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
        one.scan(&mut state, b"need", |_, _| ()).unwrap();
        let mut copy = state.clone();
        let mut found = Vec::new();
        other
            .scan(&mut state, b"le", |pattern, end| found.push((pattern, end)))
            .unwrap();
        assert_eq!(found, [(0, 2)]);
        assert!(matches!(
            foreign.scan(&mut copy, b"le", |_, _| ()),
            Err(HyperscanError::ForeignState)
        ));
        assert!(foreign.is_idle(&copy));
    }

    #[test]
    fn a_scan_within_a_scan_is_refused() {
        let matcher = HyperscanMatcher::new(&rules("a ban literal \"ab\"")).unwrap();
        let mut inner = None;
        let again =
            |_, _| inner = Some(matcher.scan(&mut HyperscanState::default(), b"ab", |_, _| ()));
        matcher
            .scan(&mut HyperscanState::default(), b"ab", again)
            .unwrap();
        assert!(matches!(inner, Some(Err(HyperscanError::Busy))));
    }

    #[test]
    fn no_rules_find_nothing() {
        let matcher = HyperscanMatcher::new(&rules("")).unwrap();
        assert_eq!(reports(&matcher, &[b"abc"]), [Vec::<u16>::new()]);
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
