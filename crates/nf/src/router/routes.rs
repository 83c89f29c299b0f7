//! The table of routes as it is first filled.

use super::config::{Config, DISCARD_NAME};
use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use twinpath_classify::lpm::{RouteError, RouteLimits, RouteTable};
use twinpath_classify::{Prefix, PrefixError};

/// The next hop that is none.
pub(super) const DISCARD: u32 = u32::MAX >> 1;

/// What no router forwards to (RFC 1812 §5.3.7, RFC 4291 §2.4).
const NOWHERE: [&str; 9] = [
    "0.0.0.0/8",
    "127.0.0.0/8",
    "169.254.0.0/16",
    "224.0.0.0/4",
    "240.0.0.0/4",
    "::/128",
    "::1/128",
    "fe80::/10",
    "ff00::/8",
];

/// Why a router could not be built or changed.
#[derive(Debug, thiserror::Error)]
pub enum RouterError {
    /// The table takes no more routes.
    #[error("route to {prefix}: {source}")]
    Route {
        /// The route's prefix.
        prefix: Prefix,
        /// Why.
        source: RouteError,
    },
    /// A change of a next hop that is not there.
    #[error("there is no next hop {0}")]
    NoSuchNextHop(u32),
    /// The file of routes cannot be read.
    #[error("cannot read routes from {path}: {source}")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A line of the file of routes is wrong.
    #[error("{path}:{line}: {source}")]
    Line {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What is wrong.
        source: RouteFileError,
    },
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
    /// The second word names nothing.
    #[error("{0:?} is no next hop and not \"discard\"")]
    NoSuchNextHop(String),
}

/// All routes of a configuration; relative paths start from `folder`.
pub(super) fn fill(config: &Config, folder: &Path) -> Result<RouteTable, RouterError> {
    let mut numbers: HashMap<&str, u32> = (0..)
        .zip(&config.next_hops)
        .map(|(number, hop)| (hop.name.as_str(), number))
        .collect();
    numbers.insert(DISCARD_NAME, DISCARD);
    let mut table = RouteTable::new(RouteLimits {
        v4: config.most_routes,
        v6: config.most_routes,
    });
    for text in NOWHERE {
        let prefix = text.parse().unwrap_or(Prefix::ANY);
        insert(&mut table, prefix, DISCARD)?;
    }
    for route in &config.routes {
        let number = numbers.get(route.via.as_str()).copied();
        insert(&mut table, route.to.0, number.unwrap_or(DISCARD))?;
    }
    if let Some(file) = &config.routes_file {
        fill_from_file(&mut table, &folder.join(file), &numbers)?;
    }
    Ok(table)
}

/// Adds a route; returns the next hop that the prefix had.
pub(super) fn insert(
    table: &mut RouteTable,
    prefix: Prefix,
    number: u32,
) -> Result<Option<u32>, RouterError> {
    let inserted = table.insert(prefix, number);
    inserted.map_err(|source| RouterError::Route { prefix, source })
}

fn fill_from_file(
    table: &mut RouteTable,
    path: &Path,
    numbers: &HashMap<&str, u32>,
) -> Result<(), RouterError> {
    let text = std::fs::read_to_string(path).map_err(|source| RouterError::Unreadable {
        path: path.to_owned(),
        source,
    })?;
    for (line, text) in (1..).zip(text.lines()) {
        let route = read_line(text, numbers).map_err(|source| RouterError::Line {
            path: path.to_owned(),
            line,
            source,
        })?;
        if let Some((prefix, number)) = route {
            insert(table, prefix, number)?;
        }
    }
    Ok(())
}

pub(super) fn read_line(
    text: &str,
    numbers: &HashMap<&str, u32>,
) -> Result<Option<(Prefix, u32)>, RouteFileError> {
    let content = text.split('#').next().unwrap_or("");
    let mut words = content.split_whitespace();
    let (prefix, name) = match (words.next(), words.next(), words.next()) {
        (None, ..) => return Ok(None),
        (Some(prefix), Some(name), None) => (prefix, name),
        _ => return Err(RouteFileError::Words(content.trim().to_owned())),
    };
    let number = numbers.get(name).copied();
    let prefix = prefix.parse().map_err(|source| RouteFileError::Prefix {
        text: prefix.to_owned(),
        source,
    })?;
    match number {
        Some(number) => Ok(Some((prefix, number))),
        None => Err(RouteFileError::NoSuchNextHop(name.to_owned())),
    }
}
