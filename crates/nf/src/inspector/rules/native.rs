//! Rules in the inspector's own words, one a line.

use super::draft::{Draft, Follows, What, anchored};
use super::item::{ItemBounds, ItemKind};
use super::suricata::numbers;
use super::{Action, MAX_NAME_BYTES};
use crate::inspector::error::{Expected, Problem};
use crate::inspector::line::{At, Line, unescape};
use crate::inspector::words::Edge;

/// What a line says.
pub(super) struct Written {
    pub name: String,
    /// Where the name stands.
    pub name_at: usize,
    pub action: Action,
    /// Where the first item stands.
    pub at: usize,
    pub drafts: Vec<Draft>,
    /// How long the patterns are, as they are written.
    pub pattern_bytes: usize,
}

/// Reads a line that is not empty.
pub(super) fn read(line: &mut Line<'_>) -> At<Written> {
    let name_at = line.offset();
    let name = name(line)?;
    let action = action(line)?;
    let mut written = Written {
        name,
        name_at,
        action,
        at: line.offset(),
        drafts: Vec::new(),
        pattern_bytes: 0,
    };
    loop {
        let negated = line.take_word("not");
        let (draft, edge) = item(line, negated, &mut written.pattern_bytes)?;
        written.at = written.drafts.first().map_or(draft.at, |first| first.at);
        let behind = edge.map(|edge| Draft::behind(&draft, edge));
        written.drafts.extend([draft].into_iter().chain(behind));
        if !line.take_word("and") {
            break;
        }
    }
    match line.is_done() {
        true => Ok(written),
        false => Err((line.offset(), Problem::Expected(Expected::Option))),
    }
}

fn name(line: &mut Line<'_>) -> At<String> {
    let start = line.offset();
    let name = line.word();
    let is_good = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if name.len() > MAX_NAME_BYTES || !name.chars().all(is_good) {
        return Err((start, Problem::Expected(Expected::Name)));
    }
    Ok(name.to_owned())
}

fn action(line: &mut Line<'_>) -> At<Action> {
    let start = line.offset();
    match line.word() {
        "ban" => Ok(Action::Ban),
        "alert" => Ok(Action::Alert),
        _ => Err((start, Problem::Expected(Expected::Action))),
    }
}

/// An item, and what has to be behind it.
fn item(
    line: &mut Line<'_>,
    negated: bool,
    pattern_bytes: &mut usize,
) -> At<(Draft, Option<Edge>)> {
    let start = line.offset();
    let kind = line.word();
    if !["literal", "regex", "byte_test", "byte_jump"].contains(&kind) {
        return Err((start, Problem::Expected(Expected::Kind)));
    }
    let (at, text) = line.quoted(Expected::Pattern)?;
    *pattern_bytes += text.len();
    let located = |(offset, problem)| (at + offset, problem);
    let (mut options, mut edge) = (Options::default(), None);
    let what = match kind {
        "byte_test" => What::Bytes(number(numbers::test(text), Expected::ByteTest, line, at)?),
        "byte_jump" => What::Bytes(number(numbers::jump(text), Expected::ByteJump, line, at)?),
        "literal" => {
            options = Options::read(line)?;
            let bytes = unescape(text).map_err(located)?;
            if bytes.is_empty() {
                return Err((at, Problem::EmptyLiteral));
            }
            let nocase = options.nocase;
            options.fit(bytes.len() as u32);
            What::Literal { bytes, nocase }
        }
        _ => {
            options = Options::read(line)?;
            let (text, place, behind) = anchored(text, str::to_owned);
            edge = behind;
            options.place.depth = place.depth.or(options.place.depth);
            options.place.ends_with |= place.ends_with;
            What::Regex {
                text,
                nocase: options.nocase,
                follows: Follows::Behind,
            }
        }
    };
    let draft = Draft {
        relative: options.relative || matches!(what, What::Bytes(_)),
        what,
        place: options.place,
        negated,
        at,
    };
    Ok((draft, edge))
}

/// A number whose text is at a place. Nothing is left out here, so that what is not honoured is wrong;
/// and behind it is no option.
fn number(
    read: Result<ItemKind, Problem>,
    expected: Expected,
    line: &Line<'_>,
    at: usize,
) -> At<ItemKind> {
    let kind = read.map_err(|problem| match problem {
        Problem::Unsupported(_) => (at, Problem::Expected(expected)),
        problem => (at, problem),
    })?;
    match line.is_done() || line.is_next_word("and") {
        true => Ok(kind),
        false => Err((line.offset(), Problem::Expected(Expected::End))),
    }
}

/// What stands behind a pattern.
#[derive(Default)]
struct Options {
    nocase: bool,
    relative: bool,
    starts_with: bool,
    place: ItemBounds,
    seen: Vec<&'static str>,
}

const NAMES: [&str; 7] = [
    "nocase",
    "startswith",
    "endswith",
    "offset=",
    "depth=",
    "distance=",
    "within=",
];

impl Options {
    fn read(line: &mut Line<'_>) -> At<Self> {
        let mut options = Self::default();
        while !line.is_done() && !line.is_next_word("and") {
            options.read_one(line)?;
        }
        Ok(options)
    }

    fn read_one(&mut self, line: &mut Line<'_>) -> At<()> {
        let start = line.offset();
        let word = line.word();
        let name = NAMES.into_iter().find(|name| match name.strip_suffix('=') {
            Some(_) => word.starts_with(name),
            None => word == *name,
        });
        let Some(name) = name else {
            return Err((start, Problem::Expected(Expected::Option)));
        };
        if self.seen.contains(&name) {
            let name = name.trim_end_matches('=');
            return Err((start, Problem::RepeatedOption(name)));
        }
        self.seen.push(name);
        let value = &word[name.len()..];
        let wrong = (start, Problem::Expected(Expected::Number));
        let unsigned = || value.parse::<u32>().ok().filter(|value| *value <= 1 << 24);
        match name {
            "nocase" => self.nocase = true,
            "startswith" => self.starts_with = true,
            "endswith" => self.place.ends_with = true,
            "offset=" => self.place.offset = unsigned().ok_or(wrong)?,
            "depth=" => self.place.depth = Some(unsigned().ok_or(wrong)?),
            "within=" => {
                self.place.within = Some(unsigned().ok_or(wrong)?);
                self.relative = true;
            }
            _ => {
                let value = value.parse::<i32>().ok();
                let value = value.filter(|value| value.unsigned_abs() <= 1 << 24);
                self.place.distance = value.ok_or(wrong)?;
                self.relative = true;
            }
        }
        Ok(())
    }

    /// `startswith` is a place: the first bytes.
    fn fit(&mut self, bytes: u32) {
        if self.starts_with {
            self.place.depth = Some(bytes);
        }
    }
}
