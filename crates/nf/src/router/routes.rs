//! The table of routes as it is first filled.

use super::config::Config;
use super::route_file::{DISCARD, NextHopNames, RouteFileError, read_routes};
use std::io;
use std::path::{Path, PathBuf};
use twinpath_classify::Prefix;
use twinpath_classify::lpm::{RouteError, RouteLimits, RouteTable};

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

/// All routes of a configuration; relative paths start from `folder`.
pub(super) fn fill(config: &Config, folder: &Path) -> Result<RouteTable, RouterError> {
    let next_hops = NextHopNames::new(config.next_hops.iter().map(|hop| hop.name.as_str()));
    let mut table = RouteTable::new(RouteLimits {
        v4: config.most_routes,
        v6: config.most_routes,
    });
    for text in NOWHERE {
        let prefix = text.parse().unwrap_or(Prefix::ANY);
        insert(&mut table, prefix, DISCARD)?;
    }
    for route in &config.routes {
        let number = next_hops.number(&route.via);
        insert(&mut table, route.to.0, number.unwrap_or(DISCARD))?;
    }
    if let Some(file) = &config.routes_file {
        fill_from_file(&mut table, &folder.join(file), &next_hops)?;
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
    next_hops: &NextHopNames<'_>,
) -> Result<(), RouterError> {
    let text = std::fs::read_to_string(path).map_err(|source| RouterError::Unreadable {
        path: path.to_owned(),
        source,
    })?;
    for route in read_routes(&text, next_hops) {
        let (prefix, number) = route.map_err(|wrong| RouterError::Line {
            path: path.to_owned(),
            line: wrong.line,
            source: wrong.problem,
        })?;
        insert(table, prefix, number)?;
    }
    Ok(())
}
