//! What can be wrong with a rules file, and where.

use std::fmt;

use regex_syntax::{ast, hir};

use super::limits::{MAX_PATTERN_BYTES, MAX_RULES, MIN_LITERAL_BYTES};

/// A rules file that cannot be used. Displays as `file:line:column: problem`.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{file}:{line}:{column}: {problem}")]
pub struct RulesError {
    /// The file's name as the caller gave it.
    pub file: String,
    /// Line, counted from 1.
    pub line: u32,
    /// Column in characters, counted from 1.
    pub column: u32,
    /// What is wrong there.
    pub problem: Problem,
}

/// What is wrong at one place of a rules file.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Problem {
    /// The line ends too early, or something else stands there.
    #[error("expected {0}")]
    Expected(Expected),
    /// Two rules of one name.
    #[error("a rule named '{name}' is already in line {first_line}; expected another name")]
    DuplicateName {
        /// The name.
        name: String,
        /// Where it was first used.
        first_line: u32,
    },
    /// An option stands twice on one line.
    #[error("the option '{0}' is already set; expected the end of the line or another option")]
    RepeatedOption(&'static str),
    /// A literal rule has a `gate` option.
    #[error("a literal is its own gate; expected no 'gate' option here")]
    GateOnLiteral,
    /// A literal that nearly every packet contains.
    #[error("this literal has {bytes} byte(s); expected at least {MIN_LITERAL_BYTES}")]
    ShortLiteral {
        /// Its length in bytes.
        bytes: usize,
    },
    /// The regular expression is not well formed.
    #[error("the regular expression is wrong here: {0}")]
    RegexSyntax(ast::ErrorKind),
    /// The regular expression is well formed but has no meaning over bytes.
    #[error(
        "the regular expression cannot be used here: {0}; patterns match bytes, not characters"
    )]
    RegexMeaning(hir::ErrorKind),
    /// `^`, `$`, `\b` and the like.
    #[error(
        "'^', '$', '\\A', '\\z' and word boundaries have no meaning here, since inspection may \
         begin and end in the middle of a stream; expected a pattern without them"
    )]
    LookAround,
    /// `(?u)` asks for characters.
    #[error("patterns match bytes, so Unicode mode cannot be switched on; expected no flag 'u'")]
    UnicodeMode,
    /// `a*` occurs everywhere.
    #[error(
        "this regular expression matches the empty string, so it would match everywhere; expected one that needs at least one byte"
    )]
    MatchesEmpty,
    /// `[a&&b]` occurs nowhere.
    #[error("this regular expression can never match; expected one that can")]
    NeverMatches,
    /// No literal can be read off a regular expression.
    #[error(
        "no text of at least {MIN_LITERAL_BYTES} bytes is part of everything that this regular \
         expression matches, so the fast path cannot tell when to escalate a packet; expected \
         gate=\"TEXT\" with a text that comes with every match, or gate=always, which escalates \
         every packet with a payload"
    )]
    NoGate,
    /// More rules than [`MAX_RULES`].
    #[error("more than {MAX_RULES} rules; expected fewer")]
    TooManyRules,
    /// More pattern bytes than [`MAX_PATTERN_BYTES`].
    #[error(
        "the patterns up to here are longer than {MAX_PATTERN_BYTES} bytes together; expected fewer or shorter ones"
    )]
    TooManyBytes,
    /// One rule's automaton alone is above the limit.
    #[error(
        "the automaton of rule '{rule}' alone needs more than {limit_bytes} bytes; expected a \
         simpler pattern (large counted repeats and several unbounded ones multiply)"
    )]
    RuleTooLarge {
        /// The rule.
        rule: String,
        /// The limit of one table.
        limit_bytes: usize,
    },
    /// The rules up to this one fit, with this one they do not.
    #[error(
        "with rule '{rule}' the automata of all rules up to it need more than {tables} tables of \
         {limit_bytes} bytes; expected fewer or simpler patterns (unbounded repeats such as .* \
         in several rules multiply)"
    )]
    RulesTooLarge {
        /// The first rule that does not fit.
        rule: String,
        /// How many tables there may be.
        tables: usize,
        /// The limit of one table.
        limit_bytes: usize,
    },
    /// Hyperscan does not take the rule, or failed altogether.
    #[cfg(feature = "hyperscan")]
    #[error("Hyperscan refuses this rule: {0}")]
    Hyperscan(HyperscanError),
}

/// What Hyperscan could not do.
#[cfg(feature = "hyperscan")]
#[derive(Debug, Clone, thiserror::Error)]
pub enum HyperscanError {
    /// The library says no.
    #[error("{0}")]
    Library(std::sync::Arc<::hyperscan::Error>),
    /// A pattern that is not over bytes; the rules file lets none through.
    #[error("the pattern cannot be written for Hyperscan")]
    NotBytes,
    /// A scan was started from within another one's `on_match`.
    #[error("the matcher is in the middle of another scan")]
    Busy,
    /// The state was made by a matcher of other rules.
    #[error("the stream state belongs to another matcher")]
    ForeignState,
}

#[cfg(feature = "hyperscan")]
impl From<::hyperscan::Error> for HyperscanError {
    fn from(error: ::hyperscan::Error) -> Self {
        Self::Library(std::sync::Arc::new(error))
    }
}

/// What the reader of a rules file was looking for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expected {
    /// A rule's name.
    Name,
    /// `ban` or `alert`.
    Action,
    /// `literal` or `regex`.
    Kind,
    /// An opening quote and a pattern.
    Pattern,
    /// A closing quote.
    ClosingQuote,
    /// A known escape in a literal.
    Escape,
    /// An option, a comment or the end of the line.
    Option,
    /// `always` or a quoted text after `gate=`.
    Gate,
    /// A space between two words.
    Space,
}

impl fmt::Display for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Name => "a rule name of 1 to 64 letters, digits, '-', '_' or '.'",
            Self::Action => "the action 'ban' or 'alert'",
            Self::Kind => "the kind of pattern, 'literal' or 'regex'",
            Self::Pattern => "a pattern in double quotes",
            Self::ClosingQuote => "a closing double quote before the line ends",
            Self::Escape => r#"one of the escapes \xHH, \n, \r, \t, \\ and \""#,
            Self::Option => {
                "'nocase', 'gate=\"TEXT\"', 'gate=always', a '#' comment or the end of the line"
            }
            Self::Gate => "'always' or a text in double quotes after 'gate='",
            Self::Space => "a space before the next word",
        })
    }
}
