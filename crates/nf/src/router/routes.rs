//! The table of routes as it is first filled.

use super::config::Config;
use super::numbers::{
    BROADCAST, DISCARD, DISCARD_NAME, LOCAL, NO_ROUTE, NOWHERE, PROHIBITED, UNREACHABLE,
};
use super::route::LIMITED;
use super::route_file::{NextHopNames, RouteFileError, WrongRoute, read_routes};
use crate::files::Files;
use crate::memory::TableMemory;
use crate::mistakes::Mistakes;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use twinpath_classify::Prefix;
use twinpath_classify::lpm::{ROUTE_BYTES_V4, ROUTE_BYTES_V6, RouteError, RouteLimits, RouteTable};

/// Where packets to a prefix go.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Target<'c> {
    /// To the next hop of this name, or to nowhere.
    Via(&'c str),
    /// To nowhere, for the prefix is that of a broadcast address.
    Broadcast,
    /// To nowhere, and their senders are told so.
    Unreachable,
    /// To nowhere, and their senders are told that it is prohibited.
    Prohibited,
    /// They have no route, whatever a shorter prefix has.
    NoRoute,
}

impl Target<'_> {
    /// What a table of routes has for it; `number` knows next hops and groups by name.
    pub fn number(self, number: impl Fn(&str) -> Option<u32>) -> u32 {
        match self {
            Self::Via(name) => number(name).unwrap_or(DISCARD),
            Self::Broadcast => BROADCAST,
            Self::Unreachable => UNREACHABLE,
            Self::Prohibited => PROHIBITED,
            Self::NoRoute => NO_ROUTE,
        }
    }
}

/// Why a router could not be built.
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
    /// The file of routes cannot be read.
    #[error("cannot read routes from {path}: {source}")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Lines of the file of routes are wrong.
    #[error(transparent)]
    Lines(#[from] Mistakes<WrongLine>),
}

/// A line of a file of routes is wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path}:{line}: {source}")]
pub struct WrongLine {
    /// The file.
    pub path: PathBuf,
    /// The line, from 1.
    pub line: usize,
    /// What is wrong.
    pub source: RouteFileError,
}

/// The table of all routes of a configuration, whose file has been read; `number` knows next hops
/// by name.
pub(super) fn fill(
    config: &Config,
    number: impl Fn(&str) -> Option<u32>,
) -> Result<RouteTable, RouterError> {
    let mut table = RouteTable::new(RouteLimits {
        v4: config.most_routes,
        v6: config.most_routes,
    });
    let mut failed = None;
    let mut insert = |prefix, target: Target<'_>| {
        if let Err(source) = table.insert(prefix, target.number(&number)) {
            failed.get_or_insert(RouterError::Route { prefix, source });
        }
    };
    for (prefix, target) in config.all_routes(true) {
        insert(prefix, target);
    }
    config.for_each_learned(|prefix, learned| insert(prefix, learned.into()));
    if let Some(error) = failed {
        return Err(error);
    }
    let own = config.own_addresses().map(|own| (own, LOCAL));
    for (address, number) in own.chain([(LIMITED, BROADCAST)]) {
        let prefix = Prefix::from(address);
        let inserted = table.insert(prefix, number);
        inserted.map_err(|source| RouterError::Route { prefix, source })?;
    }
    Ok(table)
}

impl Config {
    /// Routes to nowhere, routes of the configuration and, if wanted, of its file: of those to one
    /// prefix the last counts. What follows from routes of the file is always there.
    pub(super) fn all_routes(&self, with_file: bool) -> impl Iterator<Item = (Prefix, Target<'_>)> {
        let nowhere = NOWHERE.iter();
        let nowhere = nowhere.map(|text| (text.parse().unwrap_or(Prefix::ANY), DISCARD_NAME));
        let broadcasts = self.directed_broadcasts();
        let own = if with_file {
            usize::MAX
        } else {
            self.routes.len()
        };
        let via = |(prefix, name)| (prefix, Target::Via(name));
        let broadcasts = broadcasts.map(|prefix| (prefix, Target::Broadcast));
        let configured = self.configured_routes().take(own).map(via);
        nowhere.map(via).chain(broadcasts).chain(configured)
    }

    /// What the table of these routes takes, and the list that its file was read into.
    pub(super) fn routes_memory(&self) -> TableMemory {
        let (mut v4, mut v6) = (0, 0);
        for (prefix, _) in self.all_routes(true) {
            v4 += usize::from(prefix.versions().includes(true));
            v6 += usize::from(prefix.versions().includes(false));
        }
        self.for_each_learned(|prefix, _| {
            v4 += usize::from(prefix.versions().includes(true));
            v6 += usize::from(prefix.versions().includes(false));
        });
        let in_file = self.file_routes.as_ref().map_or(0, |routes| routes.len());
        let list = in_file * size_of::<(Prefix, u32)>();
        TableMemory {
            count: (v4 + v6) as u64,
            of: "routes",
            bytes: (v4 * ROUTE_BYTES_V4 + v6 * ROUTE_BYTES_V6 + list) as u64,
            key: match in_file {
                0 => "routes",
                _ => "routes_file",
            },
        }
    }

    /// Those of the configuration, and then those of its file.
    pub(super) fn configured_routes(&self) -> impl Iterator<Item = (Prefix, &str)> {
        let own = self
            .routes
            .iter()
            .map(|route| (route.to.0, route.via.as_str()));
        let of_file = self.file_routes.iter().flat_map(|routes| routes.iter());
        let of_file = of_file.map(|&(prefix, number)| (prefix, self.next_hop_name(number)));
        own.chain(of_file)
    }

    /// What the next hop with this number in the file of routes is called.
    fn next_hop_name(&self, number: u32) -> &str {
        let hop = self.next_hops.get(number as usize);
        hop.map_or(DISCARD_NAME, |hop| &hop.name)
    }

    /// The numbers of next hops in their order.
    pub(super) fn next_hop_names(&self) -> NextHopNames<'_> {
        NextHopNames::new(self.next_hops.iter().map(|hop| hop.name.as_str()))
    }

    /// Reads the file of routes, so that the configuration is whole.
    ///
    /// # Errors
    /// The file cannot be read, or lines of it are wrong.
    pub fn read_file(&mut self, folder: &Path, files: &dyn Files) -> Result<(), RouterError> {
        *self = with_file(self, folder, files)?;
        Ok(())
    }
}

/// The configuration with the routes of its file.
pub(super) fn with_file(
    config: &Config,
    folder: &Path,
    files: &dyn Files,
) -> Result<Config, RouterError> {
    let mut config = config.clone();
    if let (Some(file), None) = (&config.routes_file, &config.file_routes) {
        let routes = read_file(&folder.join(file), files, &config.next_hop_names())?;
        config.file_routes = Some(Arc::new(routes));
    }
    Ok(config)
}

fn read_file(
    path: &Path,
    files: &dyn Files,
    next_hops: &NextHopNames<'_>,
) -> Result<Vec<(Prefix, u32)>, RouterError> {
    let text = files.read(path).map_err(|source| RouterError::Unreadable {
        path: path.to_owned(),
        source,
    })?;
    let (mut routes, mut mistakes) = (Vec::new(), Mistakes::none());
    for route in read_routes(&text, next_hops) {
        match route {
            Ok(route) => routes.push(route),
            Err(WrongRoute { line, problem }) => mistakes.push(WrongLine {
                path: path.to_owned(),
                line,
                source: problem,
            }),
        }
    }
    Ok(mistakes.or(routes)?)
}
