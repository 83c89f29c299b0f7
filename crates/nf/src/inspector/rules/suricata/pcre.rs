//! A `pcre`: an expression between slashes, and letters that say how it is meant.

use crate::inspector::rules::draft::{Follows, What, anchored};
use crate::inspector::rules::item::ItemBounds;
use crate::inspector::words::Edge;

pub(super) struct Expression {
    pub what: What,
    /// It is looked for behind the item before it.
    pub relative: bool,
    /// Where `^` and `$` say that it is.
    pub place: ItemBounds,
    /// What has to be behind it.
    pub edge: Option<Edge>,
}

/// The expression, and whether it must not match. An error is the letter that cannot be honoured,
/// if there is one.
pub(super) fn read(value: &str) -> Result<(Expression, bool), Option<char>> {
    let (value, negated) = match value.strip_prefix('!') {
        Some(rest) => (rest.trim_start(), true),
        None => (value, false),
    };
    let whole = value
        .strip_prefix("\"/")
        .and_then(|rest| rest.strip_suffix('"'));
    let (mut text, letters) = whole.and_then(|whole| whole.rsplit_once('/')).ok_or(None)?;
    let (mut nocase, mut relative, mut flags) = (false, false, String::new());
    let (mut by_line, mut ends_alone) = (false, false);
    for letter in letters.chars() {
        match letter {
            'i' => nocase = true,
            'R' => relative = true,
            's' | 'x' => flags.push(letter),
            'm' => by_line = true,
            'D' => ends_alone = true,
            // Any match will do.
            'G' | 'B' | 'O' => {}
            _ => return Err(Some(letter)),
        }
    }
    let follows = match text.strip_prefix('^') {
        Some(rest) if relative => {
            text = rest;
            Follows::At
        }
        _ => Follows::Behind,
    };
    let flagged = |text: &str| match flags.is_empty() {
        true => text.to_owned(),
        false => format!("(?{flags}:{text})"),
    };
    // Lines begin and end anywhere; what is relative to something is one expression with it.
    let (mut text, place, edge) = match by_line || relative {
        true => (flagged(text), ItemBounds::ANYWHERE, None),
        false => anchored(text, flagged),
    };
    if place.ends_with && !ends_alone {
        // The last line may have its end.
        if place.depth.is_some() {
            return Err(None);
        }
        text = format!("(?:{text})\\n?");
    }
    let what = What::Regex {
        text,
        nocase,
        follows,
    };
    let expression = Expression {
        what,
        relative,
        place,
        edge,
    };
    Ok((expression, negated))
}
