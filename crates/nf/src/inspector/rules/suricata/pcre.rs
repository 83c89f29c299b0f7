//! A `pcre`: an expression between slashes, and letters that say how it is meant.

use crate::inspector::rules::draft::{Follows, What};

pub(super) struct Expression {
    pub what: What,
    /// It is looked for behind the item before it.
    pub relative: bool,
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
    for letter in letters.chars() {
        match letter {
            'i' => nocase = true,
            'R' => relative = true,
            's' | 'x' => flags.push(letter),
            // Without anchors lines do not matter, and any match will do.
            'm' | 'G' | 'B' | 'O' => {}
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
    let text = match flags.is_empty() {
        true => text.to_owned(),
        false => format!("(?{flags}:{text})"),
    };
    let what = What::Regex {
        text,
        nocase,
        follows,
    };
    Ok((Expression { what, relative }, negated))
}
