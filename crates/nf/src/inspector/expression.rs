//! Regular expressions: which ones can be matched on a stream of bytes, and
//! which literals every match of one must contain.

use std::collections::BTreeSet;

use regex_syntax::ast::{self, Ast};
use regex_syntax::hir::literal::{ExtractKind, Extractor, Seq};
use regex_syntax::hir::translate::TranslatorBuilder;
use regex_syntax::hir::{Hir, HirKind};

use super::error::Problem;
use super::limits::{MIN_LITERAL_BYTES, MIN_PARTIAL_BYTES};
use super::line::At;
use twinpath_core::program::WINDOW_BYTES;

/// How many literals one regular expression may put into the gate.
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
    match hir.properties().minimum_len() {
        None => Err((0, Problem::NeverMatches)),
        Some(0) => Err((0, Problem::MatchesEmpty)),
        Some(_) => Ok(hir),
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
        match tree {
            Ast::Assertion(assertion) => Err(at(&assertion.span, Problem::LookAround)),
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

/// Literals of which every match of `hir` contains at least one; none if
/// there is no useful set. Of several sets the first one whose literals are
/// long enough for [`MIN_PARTIAL_BYTES`] is taken, since what stands early in
/// a match is more likely to lie in the window; failing that, the one whose
/// shortest literal is longest.
pub(super) fn required_literals(hir: &Hir) -> Vec<Vec<u8>> {
    let mut best = Vec::new();
    for literals in required_sets(hir) {
        if shortest(&literals) > shortest(&best) {
            best = literals;
        }
        if shortest(&best) >= MIN_PARTIAL_BYTES {
            break;
        }
    }
    best
}

fn shortest(literals: &[Vec<u8>]) -> usize {
    literals.iter().map(Vec::len).min().unwrap_or(0)
}

/// One set for each part that every match goes through, in their order. Only as many parts behind
/// it are looked at as may put a byte into the window: a pattern may have tens of thousands.
fn required_sets(hir: &Hir) -> impl Iterator<Item = Vec<Vec<u8>>> {
    let parts = required_parts(hir);
    (0..parts.len()).filter_map(move |first| {
        let near = parts[first..].iter().take(WINDOW_BYTES);
        usable(prefixes(&Hir::concat(near.cloned().collect())))
    })
}

/// The parts of a concatenation, with groups and required repetitions opened
/// as far as the order of the parts allows.
fn required_parts(hir: &Hir) -> Vec<Hir> {
    match hir.kind() {
        HirKind::Capture(group) => required_parts(&group.sub),
        HirKind::Concat(parts) => parts.iter().flat_map(required_parts).collect(),
        _ => vec![hir.clone()],
    }
}

fn prefixes(hir: &Hir) -> Seq {
    Extractor::new()
        .kind(ExtractKind::Prefix)
        .limit_class(16)
        .limit_repeat(16)
        .limit_literal_len(WINDOW_BYTES)
        .limit_total(MAX_GATES)
        .extract(hir)
}

fn usable(literals: Seq) -> Option<Vec<Vec<u8>>> {
    let distinct: BTreeSet<&[u8]> = literals.literals()?.iter().map(|l| l.as_bytes()).collect();
    let found: Vec<Vec<u8>> = distinct.into_iter().map(<[u8]>::to_vec).collect();
    (shortest(&found) >= MIN_LITERAL_BYTES && found.len() <= MAX_GATES).then_some(found)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use proptest::string::bytes_regex;

    use super::*;

    fn gates(text: &str) -> Vec<String> {
        let literals = required_literals(&parse(text, false).unwrap());
        let readable = |l: Vec<u8>| String::from_utf8(l).unwrap();
        literals.into_iter().map(readable).collect()
    }

    #[test]
    fn literals_are_read_off_the_pattern() {
        assert_eq!(
            gates("/bin/(ba)?sh -[ic]"),
            ["/bin/bash -c", "/bin/bash -i", "/bin/sh -c", "/bin/sh -i"]
        );
        assert_eq!(gates("(foo|bar)+x"), ["bar", "foo"]);
        assert_eq!(
            gates(r"\w+ union\s"),
            [
                " union\t",
                " union\n",
                " union\x0b",
                " union\x0c",
                " union\r",
                " union "
            ]
        );
        assert_eq!(gates("ab.*longer"), ["longer"]);
        assert_eq!(gates("abcd.*longer"), ["abcd"]);
    }

    #[test]
    fn patterns_without_text_have_no_gate() {
        for text in ["a+", "[0-9]{16}", "a|bcd", ".*x", "(ab)?c"] {
            assert!(gates(text).is_empty(), "{text}: {:?}", gates(text));
        }
    }

    #[test]
    fn what_a_stream_cannot_give_is_refused() {
        for (text, offset) in [
            ("^a", 0),
            ("ab$", 2),
            (r"a\bb", 1),
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
        fn every_match_contains_a_required_literal(
            (text, sample) in prop::sample::select(vec![
                "(foo|bar)+[0-9]?", "/bin/(ba)?sh -[ic]", r"\w+=(union|select)\s+[a-f]{2,5}",
                "[xy]?ab.cd*e", "(?:ab|cd){2,3}z", "(ab|(c|d)e)[0-9]*(xyz|uvw)", "a{3}b|[cd]{2}e",
                "(?i)get /[a-z]+", "(x|yz)abc?d", "(ab)*cd(ef)?gh",
            ])
            .prop_flat_map(|text| (Just(text), bytes_regex(&format!("(?-u){text}")).unwrap()))
        ) {
            let literals = required_literals(&parse(text, false).unwrap());
            prop_assert!(!literals.is_empty(), "{text}");
            let within = |l: &Vec<u8>| sample.windows(l.len()).any(|part| part == &l[..]);
            prop_assert!(literals.iter().any(within), "{text} {sample:?} {literals:?}");
        }
    }
}
