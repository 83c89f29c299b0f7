//! What can be wrong with a rules file, and where.

use std::fmt;

use regex_syntax::{ast, hir};

use super::limits::{MAX_CHAINS, MAX_ITEMS, MAX_PATTERN_BYTES, MAX_RULES};
use crate::similar::did_you_mean;

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
    /// A literal without bytes.
    #[error("this literal is empty; expected at least one byte")]
    EmptyLiteral,
    /// A literal that is longer than where it has to be.
    #[error(
        "this literal is longer than its depth or within; expected a shorter one, or a larger number"
    )]
    NeverFits,
    /// A rule that looks for nothing.
    #[error("this rule looks for nothing; expected a pattern, or a size")]
    Nothing,
    /// An item far in front of the end of the one before it.
    #[error("this lies in front of the item before it; bytes that have passed are not kept")]
    TooFarBack,
    /// An item behind a negated one.
    #[error("nothing can be placed behind a negated item; expected it last")]
    BehindNegated,
    /// An item that is placed by one at the end.
    #[error("nothing can be placed behind an item at the end of the stream; expected it last")]
    BehindEnd,
    /// An expression that is placed by what is before it, which cannot be one with it.
    #[error(
        "where an occurrence of a regular expression begins cannot be told, so it can be placed \
         behind literals with short gaps alone"
    )]
    RelativeExpression,
    /// An expression with an offset or the like.
    #[error(
        "where a match of this regular expression begins cannot be told, for its length may differ; \
         expected no place for it"
    )]
    PlacedExpression,
    /// A number that is negated.
    #[error("a number cannot be negated; expected the opposite comparison")]
    NegatedNumber,
    /// A negated item at the end.
    #[error("an item that must not be there has no place at the end")]
    NegatedEnd,
    /// More chains than a rule may have.
    #[error("more than {MAX_CHAINS} items of this rule are placed independently; expected fewer")]
    TooManyItems,
    /// More items than a file may have.
    #[error("more than {MAX_ITEMS} patterns and numbers in all; expected fewer")]
    TooManyItemsInAll,
    /// A line in Suricata's words that begins with something else than an action.
    #[error(
        "expected the action alert, drop, reject or pass in front of a rule in Suricata's words, found {0:?}{meant}",
        meant = did_you_mean(.0, ["alert", "drop", "reject", "pass"])
    )]
    ForeignAction(String),
    /// A keyword, or part of one, that is not honoured.
    #[error("{0} is not honoured, so this rule is left out")]
    Unsupported(String),
    /// A keyword's value cannot be read.
    #[error("the value of {0} cannot be read")]
    Value(String),
    /// A variable that the configuration does not define.
    #[error("nothing says what ${0} is; expected it among the variables of the inspector")]
    Undefined(String),
    /// The regular expression is not well formed.
    #[error("the regular expression is wrong here: {0}")]
    RegexSyntax(ast::ErrorKind),
    /// The regular expression is well formed but has no meaning over bytes.
    #[error(
        "the regular expression cannot be used here: {0}; patterns match bytes, not characters"
    )]
    RegexMeaning(hir::ErrorKind),
    /// `^` and `$` within a pattern, `\b` behind a part of it, and the like.
    #[error(
        "'^', '$', '\\A' and '\\z' that are not about the whole pattern cannot be told along a stream, \
         nor a word boundary behind a part of it with which it may end, nor where a match begins whose \
         length may differ; expected '^' in front of a pattern all of whose matches are as long, or '$' or \
         '\\b' behind the whole"
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

impl Problem {
    /// Whether it is one of the whole file, so that what follows would say the same.
    pub(super) const fn is_limit(&self) -> bool {
        matches!(
            self,
            Self::TooManyRules | Self::TooManyBytes | Self::TooManyItemsInAll
        )
    }

    /// By what rules that are left out for this are counted.
    pub(super) const fn keyword(&self) -> &'static str {
        match self {
            Self::RegexSyntax(_)
            | Self::RegexMeaning(_)
            | Self::LookAround
            | Self::UnicodeMode
            | Self::MatchesEmpty
            | Self::NeverMatches
            | Self::RelativeExpression
            | Self::PlacedExpression
            | Self::RuleTooLarge { .. }
            | Self::RulesTooLarge { .. } => "pcre",
            Self::NegatedNumber => "byte_test",
            Self::Nothing => "nothing to look for",
            Self::BehindNegated | Self::BehindEnd | Self::NegatedEnd => "negation",
            Self::TooFarBack => "distance",
            _ => "content",
        }
    }
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
    /// `literal`, `regex`, `byte_test` or `byte_jump`.
    Kind,
    /// An opening quote and a pattern.
    Pattern,
    /// A closing quote.
    ClosingQuote,
    /// A known escape in a literal.
    Escape,
    /// An option, a comment or the end of the line.
    Option,
    /// What may stand behind a number.
    End,
    /// A number after an option's `=`.
    Number,
    /// A space between two words.
    Space,
    /// What a `byte_test` says.
    ByteTest,
    /// What a `byte_jump` says.
    ByteJump,
    /// What stands before a rule's options.
    Header,
    /// Addresses or ports.
    Ends,
    /// The end of a rule's options.
    ClosingParenthesis,
}

impl fmt::Display for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Name => "a rule name of 1 to 64 letters, digits, '-', '_' or '.'",
            Self::Action => "the action 'ban' or 'alert'",
            Self::Kind => "the kind of item, 'literal', 'regex', 'byte_test' or 'byte_jump'",
            Self::Pattern => "a pattern in double quotes",
            Self::ClosingQuote => "a closing double quote before the line ends",
            Self::Escape => r#"one of the escapes \xHH, \n, \r, \t, \\ and \""#,
            Self::Option => {
                "'nocase', 'offset=N', 'depth=N', 'distance=N', 'within=N', 'startswith', 'endswith', 'and', a '#' comment or the end of the line"
            }
            Self::Number => "a number of at most 16777216 after '='",
            Self::Space => "a space before the next word",
            Self::End => "'and', a '#' comment or the end of the line",
            Self::ByteTest => {
                "\"BYTES,OPERATOR,VALUE,OFFSET\": 1 to 8 bytes (of digits 1 to 23), one of < <= = >= > & ^ (with ! in front: not so), a number, and -65535 to 65535; and behind them, if wanted, relative, big, little, string, dec, hex or oct, each after a comma"
            }
            Self::ByteJump => {
                "\"BYTES,OFFSET\": 1 to 8 bytes (of digits 1 to 23), and -65535 to 65535; and behind them, if wanted, relative, big, little, string, dec, hex, oct, align, multiplier N or post_offset N, each after a comma"
            }
            Self::Header => "action, protocol, source, port, '->' or '<>', destination, port",
            Self::Ends => "addresses, ports, lists of them in brackets, or variables",
            Self::ClosingParenthesis => "a closing parenthesis at the end of the line",
        })
    }
}
