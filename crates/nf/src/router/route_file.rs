//! Files of routes: a prefix and the name of a next hop on each line, `#` begins a comment.

use super::numbers::{DISCARD, DISCARD_NAME};
use super::route::{GroupRoute, check_destination};
use std::collections::HashMap;
use twinpath_classify::{Prefix, PrefixError};

/// Numbers of next hops by name, and of `discard`.
#[derive(Clone, Debug)]
pub struct NextHopNames<'n>(HashMap<&'n str, u32>);

impl<'n> NextHopNames<'n> {
    /// Next hops that are numbered in the order of their names.
    pub fn new(names: impl IntoIterator<Item = &'n str>) -> Self {
        let mut numbers: HashMap<&str, u32> = names.into_iter().zip(0..).collect();
        numbers.insert(DISCARD_NAME, DISCARD);
        Self(numbers)
    }

    /// The number of a next hop.
    pub fn number(&self, name: &str) -> Option<u32> {
        self.0.get(name).copied()
    }
}

/// A line of a file of routes that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{line}: {problem}")]
pub struct WrongRoute {
    /// The line, from 1.
    pub line: usize,
    /// What is wrong.
    pub problem: RouteFileError,
}

/// What is wrong with a line of a file of routes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RouteFileError {
    /// Not two words.
    #[error("expected a prefix and the name of a next hop, found {0:?}")]
    Words(String),
    /// The first word is no prefix.
    #[error("{text:?} is {source}")]
    Prefix {
        /// The word.
        text: String,
        /// Why.
        source: PrefixError,
    },
    /// A group.
    #[error(transparent)]
    Group(#[from] GroupRoute),
    /// The second word names nothing.
    #[error("{0:?} is no next hop and not \"discard\"")]
    NoSuchNextHop(String),
}

/// The routes of a file's text in their order: prefixes and numbers of next hops.
pub fn read_routes<'t>(
    text: &'t str,
    next_hops: &'t NextHopNames<'_>,
) -> impl Iterator<Item = Result<(Prefix, u32), WrongRoute>> + 't {
    (1..).zip(text.lines()).filter_map(|(line, text)| {
        let route = read_line(text, next_hops);
        route
            .map_err(|problem| WrongRoute { line, problem })
            .transpose()
    })
}

fn read_line(
    text: &str,
    next_hops: &NextHopNames<'_>,
) -> Result<Option<(Prefix, u32)>, RouteFileError> {
    let content = text.split('#').next().unwrap_or("");
    let mut words = content.split_whitespace();
    let (prefix, name) = match (words.next(), words.next(), words.next()) {
        (None, ..) => return Ok(None),
        (Some(prefix), Some(name), None) => (prefix, name),
        _ => return Err(RouteFileError::Words(content.trim().to_owned())),
    };
    let number = next_hops.number(name);
    let prefix = prefix.parse().map_err(|source| RouteFileError::Prefix {
        text: prefix.to_owned(),
        source,
    })?;
    match number {
        Some(number) => {
            check_destination(prefix, number == DISCARD)?;
            Ok(Some((prefix, number)))
        }
        None => Err(RouteFileError::NoSuchNextHop(name.to_owned())),
    }
}
