//! Regular expressions: which ones can be matched on a stream of bytes, and
//! what every match of one begins with.

use std::collections::BTreeSet;

use regex_syntax::ast::{self, Ast};
use regex_syntax::hir::literal::{ExtractKind, Extractor, Seq};
use regex_syntax::hir::translate::TranslatorBuilder;
use regex_syntax::hir::{Hir, HirKind};

use super::error::Problem;
use super::gate_literals::GateLiterals;
use super::line::At;
use super::words::Edge;
use twinpath_core::program::WINDOW_BYTES;

/// How many beginnings one regular expression may put into the gate.
const MAX_GATES: usize = 64;
/// How deep groups may nest.
const NEST_LIMIT: u32 = 64;

/// Reads `text` as a regular expression over bytes. Errors carry the offset
/// in `text`.
pub(super) fn parse(text: &str, nocase: bool) -> At<Hir> {
    let tree = ast::parse::ParserBuilder::new()
        .nest_limit(NEST_LIMIT)
        .build()
        .parse(text)
        .map_err(|error| at(error.span(), Problem::RegexSyntax(error.kind().clone())))?;
    ast::visit(&tree, Restrictions)?;
    let hir = translate(text, &tree, nocase)?;
    if looks_ahead(&hir) {
        return Err((0, Problem::LookAround));
    }
    match hir.properties().minimum_len() {
        None => Err((0, Problem::NeverMatches)),
        Some(0) => Err((0, Problem::MatchesEmpty)),
        Some(_) => Ok(hir),
    }
}

/// Whether a match may depend on the byte behind it: `\b` may stand at its end.
fn looks_ahead(hir: &Hir) -> bool {
    at_an_end(hir, &|parts| Box::new(parts.iter().rev()))
}

/// Whether a match may depend on the byte in front of it: `\b` may stand at its beginning.
pub(super) fn looks_back(hir: &Hir) -> bool {
    at_an_end(hir, &|parts| Box::new(parts.iter()))
}

/// The parts of a concatenation, from the end that is asked about.
type FromEnd = dyn Fn(&[Hir]) -> Box<dyn Iterator<Item = &Hir> + '_>;

/// Whether an assertion may be met before any byte is, from one end.
fn at_an_end(hir: &Hir, from_end: &FromEnd) -> bool {
    match hir.kind() {
        HirKind::Look(_) => true,
        HirKind::Empty | HirKind::Literal(_) | HirKind::Class(_) => false,
        HirKind::Repetition(repetition) => at_an_end(&repetition.sub, from_end),
        HirKind::Capture(group) => at_an_end(&group.sub, from_end),
        HirKind::Alternation(parts) => parts.iter().any(|part| at_an_end(part, from_end)),
        HirKind::Concat(parts) => {
            let is_empty = |part: &Hir| part.properties().minimum_len() == Some(0);
            for part in from_end(parts) {
                if at_an_end(part, from_end) || !is_empty(part) {
                    return at_an_end(part, from_end);
                }
            }
            false
        }
    }
}

/// How long every match is; `None` if they differ.
pub(super) fn length(hir: &Hir) -> Option<u32> {
    let properties = hir.properties();
    let (least, most) = (properties.minimum_len()?, properties.maximum_len()?);
    (least == most).then(|| u32::try_from(least).ok()).flatten()
}

/// An expression without the `^` in front of it, and the `$` or `\b` behind it.
pub(super) struct Anchored<'t> {
    pub text: &'t str,
    pub begins: bool,
    pub ends: bool,
    /// What has to be behind it, if it ends with `\b` or `\B`.
    pub edge: Option<Edge>,
}

/// Takes the anchors off that are about the whole of an expression.
pub(super) fn anchored(text: &str) -> Anchored<'_> {
    use ast::AssertionKind::{EndLine, EndText, StartLine, StartText};
    use ast::AssertionKind::{NotWordBoundary, WordBoundary};
    let tree = ast::parse::Parser::new().parse(text);
    let parts = match &tree {
        Ok(Ast::Concat(concat)) => &concat.asts[..],
        _ => &[],
    };
    let kind_of = |part: Option<&Ast>| match part {
        Some(Ast::Assertion(assertion)) => Some(assertion.kind.clone()),
        _ => None,
    };
    let begins = matches!(kind_of(parts.first()), Some(StartLine | StartText));
    let ends = matches!(kind_of(parts.last()), Some(EndLine | EndText));
    let edge = match kind_of(parts.last()) {
        Some(WordBoundary) => Some(Edge::Boundary),
        Some(NotWordBoundary) => Some(Edge::Within),
        _ => None,
    };
    let from = parts.first().filter(|_| begins);
    let to = parts.last().filter(|_| ends || edge.is_some());
    let from = from.map_or(0, |part| part.span().end.offset);
    let to = to.map_or(text.len(), |part| part.span().start.offset);
    Anchored {
        text: text.get(from..to).unwrap_or(text),
        begins,
        ends,
        edge,
    }
}

fn translate(text: &str, tree: &Ast, nocase: bool) -> At<Hir> {
    TranslatorBuilder::new()
        .unicode(false)
        .utf8(false)
        .case_insensitive(nocase)
        .build()
        .translate(text, tree)
        .map_err(|error| at(error.span(), Problem::RegexMeaning(error.kind().clone())))
}

fn at(span: &ast::Span, problem: Problem) -> (usize, Problem) {
    (span.start.offset, problem)
}

/// Finds what a stream of bytes cannot give: look-around and characters.
struct Restrictions;

impl ast::Visitor for Restrictions {
    type Output = ();
    type Err = (usize, Problem);

    fn finish(self) -> Result<(), Self::Err> {
        Ok(())
    }

    fn visit_pre(&mut self, tree: &Ast) -> Result<(), Self::Err> {
        use ast::AssertionKind::{NotWordBoundary, WordBoundary};
        match tree {
            Ast::Assertion(assertion) => match assertion.kind {
                WordBoundary | NotWordBoundary => Ok(()),
                _ => Err(at(&assertion.span, Problem::LookAround)),
            },
            Ast::Flags(set) => without_unicode(&set.flags),
            Ast::Group(group) => group.flags().map_or(Ok(()), without_unicode),
            _ => Ok(()),
        }
    }
}

fn without_unicode(flags: &ast::Flags) -> At<()> {
    match flags.flag_state(ast::Flag::Unicode) {
        Some(true) => Err(at(&flags.span, Problem::UnicodeMode)),
        _ => Ok(()),
    }
}

/// What every match of `hir` begins with.
pub(super) fn beginnings(hir: &Hir) -> GateLiterals {
    let prefixes = Extractor::new()
        .kind(ExtractKind::Prefix)
        .limit_class(16)
        .limit_repeat(16)
        .limit_literal_len(WINDOW_BYTES)
        .limit_total(MAX_GATES)
        .extract(hir);
    usable(&prefixes).map_or(GateLiterals::Always, GateLiterals::AnyOf)
}

fn usable(literals: &Seq) -> Option<Vec<Vec<u8>>> {
    let distinct: BTreeSet<&[u8]> = literals.literals()?.iter().map(|l| l.as_bytes()).collect();
    let is_some = distinct.iter().all(|literal| !literal.is_empty());
    (is_some && distinct.len() <= MAX_GATES)
        .then(|| distinct.into_iter().map(<[u8]>::to_vec).collect())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use proptest::string::bytes_regex;

    use super::*;

    fn gates(text: &str) -> Vec<String> {
        let readable = |l: Vec<u8>| String::from_utf8(l).unwrap();
        match beginnings(&parse(text, false).unwrap()) {
            GateLiterals::AnyOf(literals) => literals.into_iter().map(readable).collect(),
            GateLiterals::Always => Vec::new(),
        }
    }

    #[test]
    fn beginnings_are_read_off_the_pattern() {
        assert_eq!(
            gates("/bin/(ba)?sh -[ic]"),
            ["/bin/bash -c", "/bin/bash -i", "/bin/sh -c", "/bin/sh -i"]
        );
        assert_eq!(gates("(foo|bar)+x"), ["bar", "foo"]);
        assert_eq!(gates("ab.*longer"), ["ab"]);
        assert_eq!(gates("[xy]+z"), ["x", "y"]);
    }

    #[test]
    fn patterns_that_begin_with_anything_have_none() {
        for text in ["[^a]b", ".*x", r"\w+ union\s", r"[\x00-\xff]{4}x"] {
            assert!(gates(text).is_empty(), "{text}: {:?}", gates(text));
        }
    }

    #[test]
    fn anchors_of_the_whole_are_taken_off() {
        let taken = |text| {
            let anchored = anchored(text);
            (anchored.text, anchored.begins, anchored.ends)
        };
        assert_eq!(anchored(r"ab\b").edge, Some(Edge::Boundary));
        assert_eq!(anchored(r"ab\B").edge, Some(Edge::Within));
        assert_eq!(anchored(r"\bab").edge, None);
        assert_eq!(taken(r"^ab\b"), ("ab", true, false));
        assert_eq!(taken("^ab$"), ("ab", true, true));
        assert_eq!(taken(r"\A(a|b)"), ("(a|b)", true, false));
        assert_eq!(taken("a$"), ("a", false, true));
        for text in ["^a|b", "a", "^", "(^a)", r"\bab", "a(", r"a\$"] {
            assert_eq!(taken(text), (text, false, false));
        }
    }

    #[test]
    fn the_length_is_known_where_all_matches_have_one() {
        let length = |text| length(&parse(text, true).expect("sound"));
        assert_eq!(length("a[bc]{3}(de|fg)"), Some(6));
        assert_eq!((length("ab?"), length("a+")), (None, None));
    }

    #[test]
    fn what_lies_in_front_of_a_match_may_count() {
        for text in [r"\bab", r"(\bab|c)", r"x*\ba", r"(?:\b)a"] {
            assert!(looks_back(&parse(text, false).expect("sound")), "{text}");
        }
        for text in [r"a\bb", r"a\b-\bb", r"ab"] {
            assert!(!looks_back(&parse(text, false).expect("sound")), "{text}");
        }
    }

    #[test]
    fn what_a_stream_cannot_give_is_refused() {
        for (text, offset) in [
            ("x|^a", 2),
            ("ab$", 2),
            (r"a(b\b)?", 0),
            (r"a\b", 0),
            (r"(ab\b|c)x*", 0),
            (r"(x|\z)", 3),
            (r"\Aa", 0),
        ] {
            let (at, problem) = parse(text, false).unwrap_err();
            assert!(
                matches!(problem, Problem::LookAround) && at == offset,
                "{text}: {at}"
            );
        }
        assert!(matches!(
            parse("(?u:é)", false),
            Err((2, Problem::UnicodeMode))
        ));
        assert!(matches!(
            parse("a(?iu)b", false),
            Err((3, Problem::UnicodeMode))
        ));
        assert!(matches!(
            parse("a*", false),
            Err((_, Problem::MatchesEmpty))
        ));
        assert!(matches!(
            parse("[a&&b]", false),
            Err((_, Problem::NeverMatches))
        ));
        assert!(matches!(
            parse("ab(c", false),
            Err((2, Problem::RegexSyntax(_)))
        ));
        assert!(matches!(
            parse("x[é]", false),
            Err((2, Problem::RegexMeaning(_)))
        ));
    }

    proptest! {
        #[test]
        fn every_match_begins_with_a_beginning(
            (text, sample) in prop::sample::select(vec![
                "(foo|bar)+[0-9]?", "/bin/(ba)?sh -[ic]", r"\w+=(union|select)\s+[a-f]{2,5}",
                "[xy]?ab.cd*e", "(?:ab|cd){2,3}z", "(ab|(c|d)e)[0-9]*(xyz|uvw)", "a{3}b|[cd]{2}e",
                "(?i)get /[a-z]+", "(x|yz)abc?d", "(ab)*cd(ef)?gh",
            ])
            .prop_flat_map(|text| (Just(text), bytes_regex(&format!("(?-u){text}")).unwrap()))
        ) {
            if let GateLiterals::AnyOf(literals) = beginnings(&parse(text, false).unwrap()) {
                let begins = |l: &Vec<u8>| sample.starts_with(l);
                prop_assert!(literals.iter().any(begins), "{text} {sample:?} {literals:?}");
            }
        }
    }
}
