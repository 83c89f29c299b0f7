//! The rules file and its checked form.
//!
//! The file is text, one rule a line: `NAME ACTION KIND PATTERN OPTIONS`.
//!
//! ```text
//! # name    action kind    pattern                  options
//! sql-union ban    literal "UNION SELECT"           nocase
//! shell     ban    regex   "/bin/(ba)?sh -[ic]"
//! card      alert  regex   "[0-9]{16}"              gate="card="
//! ```
//!
//! * `NAME`: 1 to 64 letters, digits, `-`, `_` or `.`; each name once.
//! * `ACTION`: `ban` drops the packet and the rest of its flow, `alert`
//!   counts the packet and lets it pass.
//! * `KIND`: `literal` with the escapes `\xHH`, `\n`, `\r`, `\t`, `\\` and
//!   `\"`, or `regex` in the syntax of the regex crate over bytes, without
//!   look-around and Unicode mode; `\"` is a quote there too.
//! * `nocase`: ASCII letters match in either case, in the pattern and its gate.
//! * `gate="TEXT"`: for a regular expression, the text that must be seen in
//!   the window for the packet to be escalated; without it the gate is read
//!   off the pattern. `gate=always` escalates every packet with a payload.
//!
//! A `#` outside a pattern begins a comment. A rule's index is its position
//! in the file, counted from 0; a lower index wins where one must.

use std::collections::HashMap;

use regex_syntax::hir::Hir;

use super::error::{Expected, Problem, RulesError};
use super::expression;
use super::limits::{MAX_PATTERN_BYTES, MAX_RULES, MIN_LITERAL_BYTES};
use super::line::{At, Line, unescape};

const MAX_NAME_BYTES: usize = 64;

/// A rule's position in its file, from 0; below [`MAX_RULES`].
pub type RuleIndex = u16;

/// What happens to a packet in which a rule's pattern ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Action {
    /// Drop the packet and the rest of its flow.
    Ban,
    /// Count the packet and forward it.
    Alert,
}

/// What a rule looks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Pattern {
    /// These bytes.
    Literal(Vec<u8>),
    /// Whatever this regular expression matches, as written in the file.
    Regex(String),
}

/// What the fast path must see in the window to escalate a packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GateLiterals {
    /// One of these, in either case if the rule is `nocase`.
    AnyOf(Vec<Vec<u8>>),
    /// Nothing in particular: every packet with a payload is escalated.
    Always,
}

/// One line of a rules file.
#[derive(Debug, Clone)]
pub struct Rule {
    name: String,
    action: Action,
    pattern: Pattern,
    nocase: bool,
    gate: GateLiterals,
    expression: Option<Hir>,
    line: u32,
    column: u32,
}

impl Rule {
    /// The name, unique in the file.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What to do on a match.
    pub fn action(&self) -> Action {
        self.action
    }

    /// What to look for.
    pub fn pattern(&self) -> &Pattern {
        &self.pattern
    }

    /// Whether ASCII letters match in either case.
    pub fn is_nocase(&self) -> bool {
        self.nocase
    }

    /// What escalates a packet to the slow path: the literal itself, or the
    /// literals of which every match of the regular expression has one.
    pub fn gate(&self) -> &GateLiterals {
        &self.gate
    }

    /// The rule's line in its file, from 1.
    pub fn line(&self) -> u32 {
        self.line
    }

    /// Whether it does the same as another; names and places do not matter.
    fn does_as(&self, other: &Self) -> bool {
        let what = |rule: &Self| (rule.action, rule.nocase);
        what(self) == what(other) && self.pattern == other.pattern && self.gate == other.gate
    }

    /// The checked regular expression; none for a literal.
    pub(super) fn expression(&self) -> Option<&Hir> {
        self.expression.as_ref()
    }
}

/// A checked rules file.
#[derive(Debug, Clone)]
pub struct Rules {
    file: String,
    rules: Vec<Rule>,
}

impl Rules {
    /// Whether these rules do the same as others, in the same order.
    pub(super) fn do_as(&self, others: &Self) -> bool {
        let mut pairs = self.rules.iter().zip(&others.rules);
        self.len() == others.len() && pairs.all(|(one, other)| one.does_as(other))
    }

    /// Reads the text of a rules file; `file_name` is for messages only.
    ///
    /// # Errors
    ///
    /// The first [`Problem`] and its place.
    pub fn parse(text: &str, file_name: &str) -> Result<Self, RulesError> {
        let mut reader = Reader::default();
        for (number, line) in (1..).zip(text.lines()) {
            reader
                .read(line, number)
                .map_err(|(offset, problem)| RulesError {
                    file: file_name.to_owned(),
                    line: number,
                    column: column(line, offset),
                    problem,
                })?;
        }
        Ok(Self {
            file: file_name.to_owned(),
            rules: reader.rules,
        })
    }

    /// How many rules there are; a file of comments has none.
    pub fn len(&self) -> usize {
        self.rules.len()
    }

    /// Whether there is no rule at all.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// The rule at an index that a matcher reported.
    pub fn rule(&self, index: RuleIndex) -> Option<&Rule> {
        self.rules.get(usize::from(index))
    }

    /// All rules with their indexes, in the file's order.
    pub fn iter(&self) -> impl Iterator<Item = (RuleIndex, &Rule)> {
        (0..).zip(&self.rules)
    }

    /// The file's name as given to [`Rules::parse`].
    pub fn file_name(&self) -> &str {
        &self.file
    }

    /// An error that belongs to no rule.
    #[cfg(feature = "hyperscan")]
    pub(super) fn error_at_start(&self, problem: Problem) -> RulesError {
        RulesError {
            file: self.file.clone(),
            line: 1,
            column: 1,
            problem,
        }
    }

    /// An error at the pattern of one rule.
    pub(super) fn error_at(&self, rule: &Rule, problem: Problem) -> RulesError {
        RulesError {
            file: self.file.clone(),
            line: rule.line,
            column: rule.column,
            problem,
        }
    }
}

/// The column, in characters from 1, of a byte offset.
fn column(line: &str, offset: usize) -> u32 {
    let before = line
        .char_indices()
        .take_while(|(at, _)| *at < offset)
        .count();
    u32::try_from(before + 1).unwrap_or(u32::MAX)
}

/// The rules read so far.
#[derive(Default)]
struct Reader {
    rules: Vec<Rule>,
    first_lines: HashMap<String, u32>,
    pattern_bytes: usize,
}

impl Reader {
    fn read(&mut self, text: &str, number: u32) -> At<()> {
        let mut line = Line::new(text);
        if line.is_done() {
            return Ok(());
        }
        if self.rules.len() == MAX_RULES {
            return Err((line.offset(), Problem::TooManyRules));
        }
        let name = self.name(&mut line, number)?;
        let action = action(&mut line)?;
        let is_literal = is_literal(&mut line)?;
        let pattern = line.quoted(Expected::Pattern)?;
        let options = Options::read(&mut line)?;
        self.count_bytes(pattern.0, pattern.1.len() + options.gate_bytes())?;
        let body = if is_literal {
            literal(pattern, options)?
        } else {
            regex(pattern, options)?
        };
        let column = column(text, pattern.0);
        self.rules
            .push(body.into_rule(name, action, number, column));
        Ok(())
    }

    fn name(&mut self, line: &mut Line<'_>, number: u32) -> At<String> {
        let start = line.offset();
        let name = line.word();
        let is_good = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        if name.len() > MAX_NAME_BYTES || !name.chars().all(is_good) {
            return Err((start, Problem::Expected(Expected::Name)));
        }
        if let Some(first_line) = self.first_lines.insert(name.to_owned(), number) {
            return Err((
                start,
                Problem::DuplicateName {
                    name: name.to_owned(),
                    first_line,
                },
            ));
        }
        Ok(name.to_owned())
    }

    fn count_bytes(&mut self, start: usize, bytes: usize) -> At<()> {
        self.pattern_bytes += bytes;
        if self.pattern_bytes > MAX_PATTERN_BYTES {
            return Err((start, Problem::TooManyBytes));
        }
        Ok(())
    }
}

fn action(line: &mut Line<'_>) -> At<Action> {
    let start = line.offset();
    match line.word() {
        "ban" => Ok(Action::Ban),
        "alert" => Ok(Action::Alert),
        _ => Err((start, Problem::Expected(Expected::Action))),
    }
}

fn is_literal(line: &mut Line<'_>) -> At<bool> {
    let start = line.offset();
    match line.word() {
        "literal" => Ok(true),
        "regex" => Ok(false),
        _ => Err((start, Problem::Expected(Expected::Kind))),
    }
}

/// What stands behind a pattern.
#[derive(Default)]
struct Options {
    nocase: bool,
    gate: Option<(usize, GateLiterals)>,
}

impl Options {
    fn read(line: &mut Line<'_>) -> At<Self> {
        let mut options = Self::default();
        while !line.is_done() {
            let start = line.offset();
            let repeated = if line.take("gate=") {
                options
                    .gate
                    .replace((start, written_gate(line)?))
                    .map(|_| "gate")
            } else if line.word() == "nocase" {
                std::mem::replace(&mut options.nocase, true).then_some("nocase")
            } else {
                return Err((start, Problem::Expected(Expected::Option)));
            };
            if let Some(name) = repeated {
                return Err((start, Problem::RepeatedOption(name)));
            }
        }
        Ok(options)
    }

    fn gate_bytes(&self) -> usize {
        match &self.gate {
            Some((_, GateLiterals::AnyOf(literals))) => literals.iter().map(Vec::len).sum(),
            _ => 0,
        }
    }
}

fn written_gate(line: &mut Line<'_>) -> At<GateLiterals> {
    let start = line.offset();
    if line.is_next("\"") {
        return Ok(GateLiterals::AnyOf(vec![literal_bytes(
            line.quoted(Expected::Gate)?,
        )?]));
    }
    match line.word() {
        "always" => Ok(GateLiterals::Always),
        _ => Err((start, Problem::Expected(Expected::Gate))),
    }
}

fn literal_bytes((start, text): (usize, &str)) -> At<Vec<u8>> {
    let bytes = unescape(text).map_err(|(offset, problem)| (start + offset, problem))?;
    if bytes.len() < MIN_LITERAL_BYTES {
        return Err((start, Problem::ShortLiteral { bytes: bytes.len() }));
    }
    Ok(bytes)
}

/// A rule without its name, action and place.
struct Body {
    pattern: Pattern,
    nocase: bool,
    gate: GateLiterals,
    expression: Option<Hir>,
}

impl Body {
    fn into_rule(self, name: String, action: Action, line: u32, column: u32) -> Rule {
        let Self {
            pattern,
            nocase,
            gate,
            expression,
        } = self;
        Rule {
            name,
            action,
            pattern,
            nocase,
            gate,
            expression,
            line,
            column,
        }
    }
}

fn literal(quoted: (usize, &str), options: Options) -> At<Body> {
    if let Some((start, _)) = options.gate {
        return Err((start, Problem::GateOnLiteral));
    }
    let bytes = literal_bytes(quoted)?;
    Ok(Body {
        gate: GateLiterals::AnyOf(vec![bytes.clone()]),
        pattern: Pattern::Literal(bytes),
        nocase: options.nocase,
        expression: None,
    })
}

fn regex((start, text): (usize, &str), options: Options) -> At<Body> {
    let located = |(offset, problem)| (start + offset, problem);
    let gate = match options.gate {
        Some((_, gate)) => gate,
        None => extracted_gate(text).map_err(located)?,
    };
    Ok(Body {
        gate,
        pattern: Pattern::Regex(text.to_owned()),
        nocase: options.nocase,
        expression: Some(expression::parse(text, options.nocase).map_err(located)?),
    })
}

/// The gate is read off the pattern as written, `nocase` or not: what is in
/// every match is, in one case or the other, in every caseless match.
fn extracted_gate(text: &str) -> At<GateLiterals> {
    let literals = expression::required_literals(&expression::parse(text, false)?);
    if literals.is_empty() {
        return Err((0, Problem::NoGate));
    }
    Ok(GateLiterals::AnyOf(literals))
}

#[cfg(test)]
mod tests;
