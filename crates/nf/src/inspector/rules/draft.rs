//! From what a rule says to items that a stream can be searched for.

use super::item::{Item, ItemBounds, ItemKind, Sought};
use super::{GateLiterals, Pattern, RuleIndex};
use crate::inspector::error::Problem;
use crate::inspector::expression;
use crate::inspector::limits::MAX_CHAINS;
use crate::inspector::line::At;
use crate::inspector::words::Edge;
use std::fmt::Write as _;

/// The longest gap of a known length that becomes part of a regular expression: each byte of it
/// may double the automaton.
const LONGEST_GAP: u32 = 32;
/// How many of the last bytes are kept where a number may have begun in them: more than it has.
pub(in crate::inspector) const KEPT_BYTES: usize = 64;

/// One item as it is written.
#[derive(Debug, Clone)]
pub(super) struct Draft {
    pub what: What,
    pub place: ItemBounds,
    /// It is placed by the item before it.
    pub relative: bool,
    pub negated: bool,
    /// Where it stands on its line.
    pub at: usize,
}

impl Draft {
    /// What has to be right behind another item.
    pub fn behind(draft: &Self, edge: Edge) -> Self {
        Self {
            what: What::Bytes(ItemKind::Edge(edge)),
            place: ItemBounds::ANYWHERE,
            relative: true,
            negated: false,
            at: draft.at,
        }
    }
}

/// What is looked for.
#[derive(Debug, Clone)]
pub(super) enum What {
    Literal {
        bytes: Vec<u8>,
        nocase: bool,
    },
    Regex {
        text: String,
        nocase: bool,
        follows: Follows,
    },
    /// [`ItemKind::Test`], [`ItemKind::Jump`], [`ItemKind::DataAt`] or [`ItemKind::Edge`].
    Bytes(ItemKind),
}

/// Where an expression begins that is relative to what is before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Follows {
    /// Right behind it.
    At,
    /// Anywhere behind it.
    Behind,
}

/// Makes items of drafts. An error has the place of the draft that cannot be.
pub(super) fn items(mut drafts: Vec<Draft>, rule: RuleIndex) -> At<Vec<Item>> {
    if drafts.is_empty() {
        return Err((0, Problem::Nothing));
    }
    let is_edge = |draft: &Draft| matches!(draft.what, What::Bytes(ItemKind::Edge(_)));
    let mut pairs = drafts.windows(2);
    if let Some(pair) = pairs.find(|pair| pair[0].negated && is_edge(&pair[1])) {
        return Err((pair[0].at, Problem::BehindNegated));
    }
    begin_at_start(&mut drafts)?;
    place_numbers(&mut drafts);
    // Nothing is relative to what is not there, nor to a number that is looked for from the beginning.
    drafts.sort_by_key(|draft| !draft.relative && (draft.negated || !moves(&draft.what)));
    sort_conditions(&mut drafts);
    let mut items: Vec<Item> = Vec::new();
    // Behind the place that a row of conditions looks from: until where they wait.
    let mut known = 0;
    for draft in fused(drafts)? {
        let after = items.last().filter(|_| draft.relative);
        check(&draft, after)?;
        if draft.relative && known > 0 && first_behind(&draft) <= known {
            return Err((draft.at, Problem::TooFarBack));
        }
        known = match is_condition(&draft) {
            true => known.max(known_behind(&draft.what)),
            false => 0,
        };
        let chain = match items.last() {
            None => 0,
            Some(last) if draft.relative => last.chain,
            Some(last) => last.chain + 1,
        };
        if usize::from(chain) >= MAX_CHAINS {
            return Err((draft.at, Problem::TooManyItems));
        }
        if let Some(last) = items.last_mut().filter(|_| draft.relative) {
            last.ends = false;
        }
        items.push(Item {
            rule,
            kind: kind(draft.what, draft.at)?,
            place: draft.place,
            negated: draft.negated,
            begins: !draft.relative,
            ends: true,
            chain,
        });
    }
    Ok(items)
}

/// Whether what is relative to an item behind it is looked for from there on.
fn moves(what: &What) -> bool {
    !matches!(what, What::Bytes(ItemKind::Test(_) | ItemKind::DataAt(_)))
}

/// A number at a fixed place is relative to a pattern that can be at one place alone.
fn place_numbers(drafts: &mut [Draft]) {
    // Where the last pattern ends.
    let mut end = None;
    for draft in drafts {
        match &mut draft.what {
            What::Bytes(ItemKind::Test(test)) => {
                let is_behind = |end: &i32| test.number.offset >= *end;
                if let Some(end) = end.filter(is_behind).filter(|_| !draft.relative) {
                    (test.number.offset, draft.relative) = (test.number.offset - end, true);
                }
            }
            What::Bytes(ItemKind::DataAt(_) | ItemKind::Edge(_)) => {}
            What::Literal { .. } if draft.negated => {}
            What::Literal { bytes, .. } => end = fixed_end(bytes.len() as i32, draft, end),
            _ => end = None,
        }
    }
}

/// Where a literal ends that can be at one place alone, behind one that ends at `before`.
fn fixed_end(bytes: i32, draft: &Draft, before: Option<i32>) -> Option<i32> {
    let place = draft.place;
    let (begin, room) = match draft.relative {
        true => (before? + place.distance, place.within?),
        false => (i32::try_from(place.offset).ok()?, place.depth?),
    };
    let taken = match draft.relative {
        true => place.distance.checked_add(bytes)?,
        false => bytes,
    };
    (u32::try_from(taken) == Ok(room)).then_some(begin + bytes)
}

/// An expression, which flags may be about, where `^` and `$` say that it is, and what `\b` says has to
/// be behind it.
pub(super) fn anchored(
    text: &str,
    whole: impl Fn(&str) -> String,
) -> (String, ItemBounds, Option<Edge>) {
    let anchored = expression::anchored(text);
    let inner = whole(anchored.text);
    let length = expression::parse(&inner, false).ok();
    let length = length.and_then(|parsed| expression::length(&parsed));
    let place = ItemBounds {
        depth: length.filter(|_| anchored.begins),
        ends_with: anchored.ends,
        ..ItemBounds::ANYWHERE
    };
    match anchored.begins && length.is_none() {
        // It is refused where it stands.
        true => (whole(text), ItemBounds::ANYWHERE, None),
        false => (inner, place, anchored.edge),
    }
}

/// Conditions in a row all look from the same place, so they are looked at in the order in which what
/// they need to know comes: numbers, what must not be there, and whether more comes.
fn sort_conditions(drafts: &mut [Draft]) {
    for run in drafts.chunk_by_mut(|one, other| is_condition(one) && is_condition(other)) {
        run.sort_by_key(|draft| match &draft.what {
            What::Bytes(ItemKind::Edge(_)) => (0, 1),
            What::Bytes(ItemKind::Test(test)) => (0, test.number.end()),
            What::Bytes(_) if draft.negated => (3, 0),
            What::Bytes(_) => (2, 0),
            _ => (1, 0),
        });
    }
}

/// Whether what comes next is looked for from the same place as this.
fn is_condition(draft: &Draft) -> bool {
    let moves = matches!(draft.what, What::Bytes(ItemKind::Jump(_)));
    let is_number = matches!(draft.what, What::Bytes(_));
    draft.relative && !moves && (is_number || draft.negated)
}

/// How far behind the place that a condition looks from it is known whether it holds.
fn known_behind(what: &What) -> i64 {
    match what {
        What::Bytes(ItemKind::Test(test)) => test.number.end(),
        What::Bytes(ItemKind::DataAt(more)) => i64::from(*more),
        What::Bytes(ItemKind::Edge(_)) => 1,
        _ => 0,
    }
}

/// How far behind that place the first byte comes by which an item is known.
fn first_behind(draft: &Draft) -> i64 {
    match &draft.what {
        What::Literal { bytes, .. } => i64::from(draft.place.distance) + bytes.len() as i64,
        What::Bytes(ItemKind::Test(test)) => test.number.end() + 1,
        What::Bytes(ItemKind::Jump(jump)) => jump.number.end() + 1,
        // Whether more comes is as well known later.
        _ => i64::MAX,
    }
}

fn kind(what: What, at: usize) -> At<ItemKind> {
    let located = |(offset, problem)| (at + offset, problem);
    Ok(match what {
        What::Bytes(kind) => kind,
        What::Literal { bytes, nocase } => ItemKind::Pattern(Sought {
            gate: GateLiterals::AnyOf(vec![bytes.clone()]),
            pattern: Pattern::Literal(bytes),
            nocase,
            expression: None,
            looks_back: false,
        }),
        What::Regex { text, nocase, .. } => {
            let gate = expression::beginnings(&expression::parse(&text, false).map_err(located)?);
            let parsed = expression::parse(&text, nocase).map_err(located)?;
            ItemKind::Pattern(Sought {
                gate,
                looks_back: expression::looks_back(&parsed),
                expression: Some(parsed),
                pattern: Pattern::Regex(text),
                nocase,
            })
        }
    })
}

/// What is relative to nothing is relative to the beginning, and so is what has nothing before it but
/// conditions: they are looked at from there, and move nothing.
fn begin_at_start(drafts: &mut [Draft]) -> At<()> {
    for draft in drafts {
        let moves = moves(&draft.what) && !draft.negated;
        if draft.relative {
            from_start(draft)?;
        }
        if moves {
            break;
        }
    }
    Ok(())
}

fn from_start(draft: &mut Draft) -> At<()> {
    if matches!(draft.what, What::Regex { .. }) {
        return Err((draft.at, Problem::RelativeExpression));
    }
    let ItemBounds {
        distance, within, ..
    } = draft.place;
    let Ok(offset) = u32::try_from(distance) else {
        return Err((draft.at, Problem::TooFarBack));
    };
    draft.relative = false;
    draft.place = ItemBounds {
        offset,
        depth: within.map(|within| within.saturating_sub(offset)),
        distance: 0,
        within: None,
        ..draft.place
    };
    Ok(())
}

/// What can be told of a stream whose bytes come one after the other, and are not kept.
fn check(draft: &Draft, after: Option<&Item>) -> At<()> {
    let place = draft.place;
    let problem = match (&draft.what, after) {
        (What::Bytes(ItemKind::DataAt(_)), _) => return Ok(()),
        (_, Some(before)) if before.negated => Problem::BehindNegated,
        (_, Some(before)) if before.place.ends_with => Problem::BehindEnd,
        (What::Regex { .. }, Some(_)) => Problem::RelativeExpression,
        (What::Regex { .. }, None) if is_placed(place) && bytes_of(&draft.what).is_none() => {
            Problem::PlacedExpression
        }
        (what, _) if bytes_of(what).is_some_and(|bytes| does_not_fit(bytes, place)) => {
            Problem::NeverFits
        }
        (What::Literal { bytes, .. }, Some(_)) if place.distance < -(bytes.len() as i32) => {
            Problem::TooFarBack
        }
        (What::Bytes(ItemKind::Test(test)), _) if test.number.offset < 0 => Problem::TooFarBack,
        (What::Bytes(ItemKind::Jump(jump)), _) if jump.number.offset < 0 || jump.after < 0 => {
            Problem::TooFarBack
        }
        (What::Bytes(_), _) if draft.negated => Problem::NegatedNumber,
        _ if draft.negated && place.ends_with => Problem::NegatedEnd,
        _ => return Ok(()),
    };
    Err((draft.at, problem))
}

/// Whether it matters where an item begins.
fn is_placed(place: ItemBounds) -> bool {
    let anywhere = ItemBounds {
        ends_with: place.ends_with,
        ..ItemBounds::ANYWHERE
    };
    place != anywhere
}

/// How long what is looked for is, if that is known.
fn bytes_of(what: &What) -> Option<u64> {
    match what {
        What::Literal { bytes, .. } => Some(bytes.len() as u64),
        What::Regex { text, nocase, .. } => {
            let parsed = expression::parse(text, *nocase).ok()?;
            expression::length(&parsed).map(u64::from)
        }
        What::Bytes(_) => None,
    }
}

fn does_not_fit(bytes: u64, place: ItemBounds) -> bool {
    let is_short = |room: Option<u32>| room.is_some_and(|room| u64::from(room) < bytes);
    is_short(place.depth) || is_short(place.within)
}

/// Expressions that are relative to literals become one expression with them: where an occurrence
/// of an expression begins nobody can tell.
fn fused(drafts: Vec<Draft>) -> At<Vec<Draft>> {
    let mut done: Vec<Draft> = Vec::new();
    for draft in drafts {
        let What::Regex {
            text,
            nocase,
            follows,
        } = &draft.what
        else {
            done.push(draft);
            continue;
        };
        if !draft.relative || draft.negated {
            done.push(draft);
            continue;
        }
        let first = done
            .iter()
            .rposition(|before| !before.relative)
            .unwrap_or(0);
        let mut whole = in_front(&done[first..]).ok_or((draft.at, Problem::RelativeExpression))?;
        if *follows == Follows::Behind {
            whole += ANY_BYTES;
        }
        let flag = if *nocase { "i" } else { "-i" };
        whole += &format!("(?{flag}:{text})");
        // Places in the pattern are those of the whole; the line's is near enough.
        done.truncate(first);
        done.push(Draft {
            what: What::Regex {
                text: whole,
                nocase: false,
                follows: Follows::Behind,
            },
            place: ItemBounds::ANYWHERE,
            relative: false,
            negated: false,
            at: draft.at,
        });
    }
    Ok(done)
}

const ANY_BYTES: &str = "[\\x00-\\xff]*";

/// Literals behind each other as an expression; `None` if they are none, or their gaps too long.
fn in_front(drafts: &[Draft]) -> Option<String> {
    let mut whole = String::new();
    for (number, draft) in drafts.iter().enumerate() {
        let (place, negated) = (draft.place, draft.negated);
        match &draft.what {
            What::Literal { bytes, nocase } if !negated && !place.ends_with => {
                match number {
                    0 if place != ItemBounds::ANYWHERE => return None,
                    0 => {}
                    _ => whole += &gap(place, bytes.len() as u32)?,
                }
                whole += if *nocase { "(?i:" } else { "(?-i:" };
                for byte in bytes {
                    let _ = write!(whole, "\\x{byte:02x}");
                }
                whole.push(')');
            }
            What::Regex { text, nocase, .. }
                if number == 0 && !negated && place == ItemBounds::ANYWHERE =>
            {
                let flag = if *nocase { "i" } else { "-i" };
                whole += &format!("(?{flag}:{text})");
            }
            _ => return None,
        }
    }
    (!drafts.is_empty()).then_some(whole)
}

fn gap(place: ItemBounds, bytes: u32) -> Option<String> {
    let least = u32::try_from(place.distance).ok()?;
    let most = place.within.map(|within| within - bytes.min(within));
    let longest = most.unwrap_or(least);
    if longest > LONGEST_GAP || most.is_some_and(|most| most < least) {
        return None;
    }
    Some(match most {
        Some(most) => format!("[\\x00-\\xff]{{{least},{most}}}"),
        None => format!("[\\x00-\\xff]{{{least},}}"),
    })
}
