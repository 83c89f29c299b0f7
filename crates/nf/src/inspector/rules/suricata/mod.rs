//! Rules as Suricata writes them, each on a line or on several: the part of that language that speaks
//! of payloads.
//!
//! What a rule says that cannot be honoured leaves the whole rule out, with its line and the
//! keyword: half a rule would find what it was not meant for.

mod content;
mod header;
pub(super) mod numbers;
mod options;
mod pcre;
#[cfg(test)]
mod tests;

use super::draft::{Draft, What};
use super::item::{ItemBounds, ItemKind};
use super::scope::{Scope, Sizes};
use super::{Action, Variables};
use crate::inspector::error::Problem;
use crate::inspector::line::At;
use header::Header;
use options::{RuleOption, options};
use twinpath_core::Direction;

/// What a line says.
pub(super) struct Written {
    /// The rule's number, if it has one.
    pub sid: Option<String>,
    pub action: Action,
    pub scope: Scope,
    pub drafts: Vec<Draft>,
    pub pattern_bytes: usize,
}

/// Why a line is left out, or is none.
pub(super) type Line = Result<Written, Refusal>;

/// Why a rule cannot be taken.
#[derive(Debug)]
pub(super) struct Refusal {
    pub at: usize,
    /// The keyword, or what stands in its place, by which such rules are counted.
    pub keyword: String,
    pub problem: Problem,
}

impl Refusal {
    fn new(at: usize, keyword: &str, problem: Problem) -> Self {
        Self {
            at,
            keyword: keyword.to_owned(),
            problem,
        }
    }

    fn unknown(at: usize, keyword: &str) -> Self {
        Self::new(at, keyword, Problem::Unsupported(keyword.to_owned()))
    }
}

/// Actions that begin a rule.
const ACTIONS: [&str; 7] = [
    "alert",
    "drop",
    "reject",
    "rejectsrc",
    "rejectdst",
    "rejectboth",
    "pass",
];

/// Whether a line begins as one in this language: with an action, and none of the inspector's own behind
/// it, as behind a name.
pub(super) fn is_begun(line: &str) -> bool {
    let mut words = line.split_ascii_whitespace();
    let acts = words.next().is_some_and(|word| ACTIONS.contains(&word));
    acts && !words
        .next()
        .is_some_and(|word| ["ban", "alert"].contains(&word))
}

/// Whether a line begins so and has a direction.
pub(super) fn has_direction(line: &str) -> bool {
    let mut words = line.split_ascii_whitespace();
    is_begun(line) && words.any(|word| word == "->" || word == "<>")
}

/// Whether a line is in this language: it begins with an action, and has a direction in front of
/// options in parentheses.
pub(super) fn is_rule(line: &str) -> bool {
    let header = line.split_once('(');
    header.is_some_and(|(header, _)| has_direction(header))
}

/// Why a line is refused that looks like one in this language but for its action, if it does: it has a
/// direction in front of options in parentheses.
pub(super) fn wrong_action(line: &str) -> Option<Problem> {
    let (header, _) = line.split_once('(')?;
    let mut words = header.split_ascii_whitespace();
    let action = words.next()?;
    let is_direction = |word| word == "->" || word == "<>";
    let is_alike = !header.contains('"') && words.any(is_direction);
    (is_alike && !ACTIONS.contains(&action)).then(|| Problem::ForeignAction(action.to_owned()))
}

/// Reads a line.
pub(super) fn read(text: &str, variables: &Variables) -> Line {
    let header = Header::read(text, variables)?;
    let mut body = Body::default();
    for option in options(text, header.options_at)? {
        body.take(&option)?;
    }
    let mut scope = header.scope;
    scope.direction = body.direction;
    scope.sizes = body.sizes;
    scope.by_packet |= body.sizes.is_some();
    if let (Some(at), []) = (body.sized_at, &body.drafts[..]) {
        // Whatever is in it: packets without a payload are not looked at.
        body.push(What::Bytes(ItemKind::DataAt(1)), false, false, at);
    }
    body.count_within_from_distance();
    Ok(Written {
        sid: body.sid,
        action: header.action,
        scope,
        drafts: body.drafts,
        pattern_bytes: body.pattern_bytes,
    })
}

/// A rule's options, as far as they are read.
#[derive(Default)]
struct Body {
    sid: Option<String>,
    direction: Option<Direction>,
    sizes: Option<Sizes>,
    sized_at: Option<usize>,
    drafts: Vec<Draft>,
    pattern_bytes: usize,
}

/// They say nothing of what is looked for.
const REMARKS: [&str; 13] = [
    "msg",
    "rev",
    "gid",
    "classtype",
    "reference",
    "metadata",
    "priority",
    "target",
    "rawbytes",
    "fast_pattern",
    "tag",
    "logto",
    "requires",
];

impl Body {
    fn take(&mut self, option: &RuleOption) -> Result<(), Refusal> {
        let RuleOption { name, value, at } = *option;
        let refuse = |problem| Refusal::new(at, name, problem);
        let wrong = || refuse(Problem::Value(name.to_owned()));
        match name {
            _ if REMARKS.contains(&name) => {}
            "sid" => self.sid = Some(value.to_owned()),
            "flow" => self
                .flow(value)
                .ok_or_else(|| Refusal::unknown(at, &format!("flow:{value}")))?,
            "content" => {
                let (bytes, negated) = content::read(value).ok_or_else(wrong)?;
                self.pattern_bytes += bytes.len();
                let nocase = false;
                self.push(What::Literal { bytes, nocase }, false, negated, at);
            }
            "pcre" => {
                let (expression, negated) = pcre::read(value).map_err(|flag| match flag {
                    Some(flag) => Refusal::unknown(at, &format!("pcre/{flag}")),
                    None => wrong(),
                })?;
                self.pattern_bytes += value.len();
                self.push(expression.what, expression.relative, negated, at);
                if let Some(last) = self.drafts.last_mut() {
                    last.place = expression.place;
                }
                let behind = |draft| Some(Draft::behind(draft, expression.edge?));
                let edge = self.drafts.last().and_then(behind);
                self.drafts.extend(edge);
            }
            "dsize" => {
                let sizes = numbers::sizes(value).ok_or_else(wrong)?;
                if self.sizes.is_some() {
                    return Err(refuse(Problem::RepeatedOption("dsize")));
                }
                (self.sizes, self.sized_at) = (Some(sizes), Some(at));
            }
            "byte_test" | "byte_jump" => {
                let read = if name == "byte_test" {
                    numbers::test
                } else {
                    numbers::jump
                };
                let kind = read(value).map_err(refuse)?;
                let relative = value.split(',').any(|word| word.trim() == "relative");
                self.push(What::Bytes(kind), relative, false, at);
            }
            "isdataat" => self.data_at(value, at)?,
            _ => self
                .modify(name, value)
                .ok_or_else(|| Refusal::unknown(at, name))?
                .ok_or_else(wrong)?,
        }
        Ok(())
    }

    /// Here `within` counts from where `distance` lets a content begin, in an item's bounds from the end
    /// of the item before it.
    fn count_within_from_distance(&mut self) {
        for draft in &mut self.drafts {
            let place = &mut draft.place;
            let within = place.within.filter(|_| draft.relative);
            place.within = within.map(|within| within.saturating_add_signed(place.distance));
        }
    }

    fn push(&mut self, what: What, relative: bool, negated: bool, at: usize) {
        self.drafts.push(Draft {
            what,
            place: ItemBounds::ANYWHERE,
            relative,
            negated,
            at,
        });
    }

    fn flow(&mut self, value: &str) -> Option<()> {
        for word in value.split(',') {
            match word.trim() {
                // Segments are inspected in the order of their connection, which is how it is known.
                "established" | "stateless" | "only_stream" => {}
                "to_server" | "from_client" => self.direction = Some(Direction::Original),
                "to_client" | "from_server" => self.direction = Some(Direction::Reply),
                _ => return None,
            }
        }
        Some(())
    }

    fn data_at(&mut self, value: &str, at: usize) -> Result<(), Refusal> {
        let mut words = value.split(',').map(str::trim);
        let number = words.next().unwrap_or_default();
        let relative = words.any(|word| word == "relative");
        let (number, negated) = match number.strip_prefix('!') {
            Some(number) => (number.trim(), true),
            None => (number, false),
        };
        let number = number.parse().ok().filter(|number| *number <= 65_535);
        let number: u32 = number.ok_or_else(|| Refusal::unknown(at, "isdataat"))?;
        let is_pattern = |draft: &&mut Draft| !matches!(draft.what, What::Bytes(_));
        let is_end = (relative, negated, number) == (true, true, 1);
        if let Some(last) = self.drafts.last_mut().filter(|_| is_end).filter(is_pattern) {
            last.place.ends_with = true;
            return Ok(());
        }
        // From the beginning the number is that of a byte, from 0; else bytes are counted.
        let more = number + u32::from(!relative);
        self.push(What::Bytes(ItemKind::DataAt(more)), relative, negated, at);
        Ok(())
    }

    /// What stands behind a content; `None` if it is no modifier, `Some(None)` if its value is wrong.
    fn modify(&mut self, name: &str, value: &str) -> Option<Option<()>> {
        const MODIFIERS: [&str; 7] = [
            "nocase",
            "offset",
            "depth",
            "distance",
            "within",
            "startswith",
            "endswith",
        ];
        if !MODIFIERS.contains(&name) {
            return None;
        }
        Some(self.modify_last(name, value))
    }

    fn modify_last(&mut self, name: &str, value: &str) -> Option<()> {
        let last = self.drafts.last_mut()?;
        let What::Literal { bytes, nocase } = &mut last.what else {
            return None;
        };
        let unsigned = || value.parse::<u32>().ok().filter(|value| *value <= 1 << 24);
        match name {
            "nocase" => *nocase = true,
            "startswith" => last.place.depth = Some(bytes.len() as u32),
            "endswith" => last.place.ends_with = true,
            "offset" => last.place.offset = unsigned()?,
            "depth" => last.place.depth = Some(unsigned()?),
            "within" => (last.place.within, last.relative) = (Some(unsigned()?), true),
            _ => {
                let value = value.parse::<i32>().ok();
                last.place.distance = value.filter(|value| value.unsigned_abs() <= 1 << 24)?;
                last.relative = true;
            }
        }
        Some(())
    }
}

/// A refusal as an error of its line.
impl From<Refusal> for (usize, Problem) {
    fn from(refusal: Refusal) -> Self {
        (refusal.at, refusal.problem)
    }
}

/// Items of drafts, or the keyword that cannot be.
pub(super) fn located<T>(items: At<T>) -> Result<T, Refusal> {
    items.map_err(|(at, problem)| Refusal::new(at, problem.keyword(), problem))
}
