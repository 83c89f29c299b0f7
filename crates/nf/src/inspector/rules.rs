//! The rules file and its checked form. [The module above](super) says how it is written.

mod continued;
mod draft;
mod item;
mod left_out;
mod native;
#[cfg(test)]
mod native_tests;
mod scope;
mod suricata;

pub(super) use draft::KEPT_BYTES;
pub use item::{Item, ItemIndex, Sought};
pub(super) use item::{ItemBounds, ItemKind, Number};
pub use left_out::{LeftOut, Summary};

use super::error::{Problem, RulesError};
pub use super::gate_literals::GateLiterals;
use super::limits::{MAX_ITEMS, MAX_PATTERN_BYTES, MAX_RULES};
use super::line::{At, Line};
use crate::mistakes::Mistakes;
use continued::{Entries, Entry};
use scope::Scope;
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use suricata::Refusal;
use twinpath_core::Packet;

const MAX_NAME_BYTES: usize = 64;

/// A rule's position in its file, from 0; below [`MAX_RULES`].
pub type RuleIndex = u16;

/// What stands for addresses and ports in rules, by name without `$`.
pub type Variables = BTreeMap<String, String>;

/// What happens to a packet in which a rule is met.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Action {
    /// Drop the packet and the rest of its flow.
    Ban,
    /// Count the packet and forward it.
    Alert,
}

/// What is looked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Pattern {
    /// These bytes.
    Literal(Vec<u8>),
    /// Whatever this regular expression matches, as written in the file.
    Regex(String),
}

/// One rule of a file.
#[derive(Debug, Clone)]
pub struct Rule {
    name: String,
    action: Action,
    scope: Scope,
    items: Range<usize>,
    line: u32,
    column: u32,
    /// What it says, without its name.
    text: String,
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

    /// The rule's line in its file, from 1.
    pub fn line(&self) -> u32 {
        self.line
    }

    /// What it says, on one line and without its name.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// Whether it was written in Suricata's words.
    pub(super) fn is_foreign(&self) -> bool {
        suricata::is_rule(&self.text)
    }

    /// Whether it is for packets like this one.
    pub(super) fn is_for(&self, packet: &Packet) -> bool {
        self.scope.has(packet)
    }
}

/// A checked rules file.
#[derive(Debug, Clone)]
pub struct Rules {
    file: String,
    rules: Vec<Rule>,
    items: Vec<Item>,
    /// Those that begin to be looked for with a stream.
    openers: Vec<ItemIndex>,
    left_out: Vec<LeftOut>,
}

impl Rules {
    /// Whether these rules do the same as others, in the same order.
    pub(super) fn do_as(&self, others: &Self) -> bool {
        let what = |rule: &Rule| (rule.action, rule.scope.clone(), rule.text.clone());
        let mine = self.rules.iter().map(what);
        mine.eq(others.rules.iter().map(what))
    }

    /// Reads the text of a rules file without variables; `file_name` is for messages only.
    ///
    /// # Errors
    ///
    /// As [`Self::parse_with`].
    pub fn parse(text: &str, file_name: &str) -> Result<Self, Mistakes<RulesError>> {
        Self::parse_with(text, file_name, &Variables::new())
    }

    /// Reads the text of a rules file; `file_name` is for messages only.
    ///
    /// # Errors
    ///
    /// Each [`Problem`] with its place.
    pub fn parse_with(
        text: &str,
        file_name: &str,
        variables: &Variables,
    ) -> Result<Self, Mistakes<RulesError>> {
        let (mut reader, mut mistakes) = (Reader::default(), Mistakes::none());
        for entry in Entries::of(text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text)) {
            if let Err((at, problem)) = reader.entry(&entry, file_name, variables) {
                let is_end = problem.is_limit();
                mistakes.push(error(file_name, &entry, at, problem));
                if is_end {
                    break;
                }
            }
        }
        let rules = Self {
            file: file_name.to_owned(),
            rules: reader.rules,
            items: reader.items,
            openers: Vec::new(),
            left_out: reader.left_out,
        };
        mistakes.or(rules.with_openers())
    }

    fn with_openers(mut self) -> Self {
        let items = self
            .rules
            .iter()
            .map(|rule| &self.items[rule.items.clone()]);
        self.openers = Item::openers(items);
        self
    }

    /// Items that begin to be looked for with a stream, whatever is in it.
    pub(super) fn openers(&self) -> &[ItemIndex] {
        &self.openers
    }

    /// Whether the first bytes of a TCP stream have to be known, whatever is in them.
    pub(super) fn begin_with_streams(&self) -> bool {
        let mut openers = self.openers.iter();
        openers.any(|opener| {
            let rule = self.rule(self.rule_of(*opener));
            rule.is_some_and(|rule| rule.scope.is_for_streams())
        })
    }

    /// Whether packets in which no pattern begins may meet a rule, other than the first of a stream.
    pub(super) fn may_be_met_by_anything(&self) -> bool {
        self.iter().any(|(index, rule)| {
            let is_positive = |item: &Item| item.begins && item.is_pattern() && !item.negated;
            rule.scope.is_for_packets() && !self.items_of(index).iter().any(is_positive)
        })
    }

    /// Whether a rule names nothing but what must not be there.
    pub(super) fn names_only_absence(&self, rule: RuleIndex) -> bool {
        item::names_only_absence(self.items_of(rule))
    }

    /// Whether a rule looks at packets of TCP one by one.
    pub(super) fn is_by_packet(&self, rule: RuleIndex) -> bool {
        self.rule(rule).is_some_and(|rule| rule.scope.by_packet)
    }

    /// Whether any rule does, for packets like this one.
    pub(super) fn any_by_packet(&self, packet: &Packet) -> bool {
        let mut rules = self.rules.iter();
        rules.any(|rule| rule.scope.by_packet && rule.is_for(packet))
    }

    /// How many rules there are; a file of comments has none.
    pub fn len(&self) -> usize {
        self.rules.len()
    }

    /// Whether there is no rule at all.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// The rule at an index that an inspector reported.
    pub fn rule(&self, index: RuleIndex) -> Option<&Rule> {
        self.rules.get(usize::from(index))
    }

    /// All rules with their indexes, in the file's order.
    pub fn iter(&self) -> impl Iterator<Item = (RuleIndex, &Rule)> {
        (0..).zip(&self.rules)
    }

    /// All patterns of rules, by the indexes that matchers report.
    pub fn patterns(&self) -> impl Iterator<Item = (ItemIndex, &Sought)> {
        let items = (0..).zip(&self.items);
        items.filter_map(|(index, item)| match &item.kind {
            ItemKind::Pattern(sought) => Some((index, sought)),
            _ => None,
        })
    }

    /// The patterns with which rules begin to be met.
    pub(super) fn first_patterns(&self) -> impl Iterator<Item = (ItemIndex, &Sought)> {
        self.patterns()
            .filter(|(index, _)| self.items[usize::from(*index)].begins)
    }

    /// All items, by index.
    pub(super) fn items(&self) -> &[Item] {
        &self.items
    }

    /// The rule that a pattern alone is, wherever it is found.
    pub(super) fn rule_of_one(&self, index: ItemIndex) -> Option<RuleIndex> {
        let item = self.items.get(usize::from(index))?;
        let is_all = self.rule(item.rule)?.items.len() == 1;
        let is_anywhere = item.place == ItemBounds::ANYWHERE && !item.negated;
        (is_all && is_anywhere).then_some(item.rule)
    }

    /// The items of a rule.
    pub(super) fn items_of(&self, rule: RuleIndex) -> &[Item] {
        self.rule(rule)
            .map_or(&[][..], |rule| &self.items[rule.items.clone()])
    }

    /// Whether a rule is for all packets.
    pub(super) fn is_for_all(&self, rule: RuleIndex) -> bool {
        self.rule(rule).is_some_and(|rule| rule.scope.is_any())
    }

    /// Rules in Suricata's words that say what cannot be honoured.
    pub fn left_out(&self) -> &[LeftOut] {
        &self.left_out
    }

    /// The same without a rule, which is left out for a problem.
    pub(super) fn without(&self, index: RuleIndex, error: RulesError) -> Self {
        let mut rest = Self {
            file: self.file.clone(),
            rules: Vec::new(),
            items: Vec::new(),
            openers: Vec::new(),
            left_out: self.left_out.clone(),
        };
        for (_, rule) in self.iter().filter(|(other, _)| *other != index) {
            let first = rest.items.len();
            let number = rest.rules.len() as RuleIndex;
            let items = self.items[rule.items.clone()].iter().cloned();
            rest.items.extend(items.map(|item| Item {
                rule: number,
                ..item
            }));
            rest.rules.push(Rule {
                items: first..rest.items.len(),
                ..rule.clone()
            });
        }
        let keyword = error.problem.keyword().to_owned();
        rest.left_out.push(LeftOut { keyword, error });
        rest.with_openers()
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

    /// The rule of an item.
    pub(super) fn rule_of(&self, index: ItemIndex) -> RuleIndex {
        self.items
            .get(usize::from(index))
            .map_or(0, |item| item.rule)
    }

    /// An error at the first item of one rule.
    pub(super) fn error_at(&self, index: RuleIndex, problem: Problem) -> RulesError {
        let rule = self.rule(index);
        RulesError {
            file: self.file.clone(),
            line: rule.map_or(1, |rule| rule.line),
            column: rule.map_or(1, |rule| rule.column),
            problem,
        }
    }
}

/// What some editors write in front of a text.
const BYTE_ORDER_MARK: char = '\u{feff}';

/// A problem at a byte of an entry.
fn error(file: &str, entry: &Entry<'_>, at: usize, problem: Problem) -> RulesError {
    let (line, column) = entry.place(at);
    RulesError {
        file: file.to_owned(),
        line,
        column,
        problem,
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
    items: Vec<Item>,
    left_out: Vec<LeftOut>,
    first_lines: HashMap<String, u32>,
    pattern_bytes: usize,
}

impl Reader {
    /// Reads an entry of a file. What cannot be honoured of a rule in Suricata's words leaves that out.
    fn entry(&mut self, entry: &Entry<'_>, file: &str, variables: &Variables) -> At<()> {
        if !suricata::is_rule(&entry.text) {
            return self.native(entry);
        }
        if let Err(refusal) = self.suricata(entry, variables) {
            let Refusal {
                at,
                keyword,
                problem,
            } = refusal;
            let error = error(file, entry, at, problem);
            self.left_out.push(LeftOut { keyword, error });
        }
        Ok(())
    }

    fn native(&mut self, entry: &Entry<'_>) -> At<()> {
        let text = &*entry.text;
        let mut line = Line::new(text);
        if line.is_done() {
            return Ok(());
        }
        self.check_room(line.offset())?;
        let begin = line.offset();
        let written = native::read(&mut line).map_err(|wrong| {
            suricata::wrong_action(text).map_or(wrong, |problem| (begin, problem))
        })?;
        self.check_name(&written.name, written.name_at, entry.line)?;
        self.count_bytes(written.at, written.pattern_bytes)?;
        let items = draft::items(written.drafts, self.rules.len() as RuleIndex)?;
        let says = text[begin + written.name.len()..].trim().to_owned();
        self.push(
            (written.name, written.action, Scope::default()),
            items,
            says,
        )
        .map_err(|problem| (written.at, problem))?
        .place(entry.place(written.at));
        Ok(())
    }

    fn suricata(&mut self, entry: &Entry<'_>, variables: &Variables) -> Result<(), Refusal> {
        let text = &*entry.text;
        let written = suricata::read(text, variables)?;
        let at = written.drafts.first().map_or(0, |draft| draft.at);
        let name = written
            .sid
            .unwrap_or_else(|| format!("line-{}", entry.line));
        suricata::located(self.check_room(at))?;
        suricata::located(self.count_bytes(at, written.pattern_bytes))?;
        let items = draft::items(written.drafts, self.rules.len() as RuleIndex);
        let items = suricata::located(items)?;
        suricata::located(self.check_name(&name, at, entry.line))?;
        let what = (name, written.action, written.scope);
        let pushed = self.push(what, items, text.trim().to_owned());
        let pushed = suricata::located(pushed.map_err(|problem| (at, problem)))?;
        pushed.place(entry.place(at));
        Ok(())
    }

    fn check_room(&self, at: usize) -> At<()> {
        match self.rules.len() == MAX_RULES {
            true => Err((at, Problem::TooManyRules)),
            false => Ok(()),
        }
    }

    fn check_name(&mut self, name: &str, at: usize, number: u32) -> At<()> {
        if let Some(&first_line) = self.first_lines.get(name) {
            let name = name.to_owned();
            return Err((at, Problem::DuplicateName { name, first_line }));
        }
        self.first_lines.insert(name.to_owned(), number);
        Ok(())
    }

    fn count_bytes(&mut self, start: usize, bytes: usize) -> At<()> {
        if self.pattern_bytes + bytes > MAX_PATTERN_BYTES {
            return Err((start, Problem::TooManyBytes));
        }
        self.pattern_bytes += bytes;
        Ok(())
    }

    fn push(
        &mut self,
        (name, action, scope): (String, Action, Scope),
        items: Vec<Item>,
        text: String,
    ) -> Result<&mut Rule, Problem> {
        let first = self.items.len();
        if first + items.len() > MAX_ITEMS {
            return Err(Problem::TooManyItemsInAll);
        }
        self.items.extend(items);
        self.rules.push(Rule {
            name,
            action,
            scope,
            items: first..self.items.len(),
            line: 0,
            column: 0,
            text,
        });
        self.rules.last_mut().ok_or(Problem::TooManyRules)
    }
}

impl Rule {
    fn place(&mut self, place: (u32, u32)) {
        (self.line, self.column) = place;
    }
}
