//! Routes that this host's kernel has: `routes = "kernel"`.
//!
//! The configuration says so, and whoever follows the kernel makes of it the configuration with what
//! has been [learned](Config::learning): next hops, addresses of its own, and the table of routes. That
//! table is one for all configurations that follow each other, for it may have a million routes;
//! each configuration says in which state it is, and which prefixes differ from the state before.

use super::change::{MOST_CHANGES, RouteChange};
use super::config::{Config, NextHop, Route};
use super::group::NextHopGroup;
use super::routes::{NOWHERE, Target};
use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::value::SeqAccessDeserializer;
use serde::de::{Deserializer, Error, SeqAccess, Visitor};
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use twinpath_classify::{Prefix, Versions};
use twinpath_core::wire::Address;

/// The table of routes that Linux has unless somebody says otherwise.
const MAIN_TABLE: u32 = 254;
/// The table of the host's own addresses.
const LOCAL_TABLE: u32 = 255;

/// Where the routes of a router come from that are the kernel's.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct KernelSource {
    /// The number of the kernel's table.
    pub table: u32,
    /// What the file says of what the kernel says, too.
    written: Option<OfFile>,
    /// The routes, when they are known.
    pub routes: Option<KernelRoutes>,
}

/// What a file says of addresses and networks.
#[derive(Clone, Debug, Default, PartialEq)]
struct OfFile {
    addresses: Vec<Address>,
    /// Those that errors are told from.
    errors: [Option<Address>; 2],
    networks: Vec<Prefix>,
}

impl KernelSource {
    pub fn new(table: Option<KernelTable>) -> Self {
        Self {
            table: table.map_or(MAIN_TABLE, |KernelTable(number)| number),
            written: None,
            routes: None,
        }
    }
}

/// The number of a table of the kernel's.
#[derive(Copy, Clone, Debug, JsonSchema)]
#[schemars(with = "u32")]
pub(super) struct KernelTable(u32);

impl<'de> Deserialize<'de> for KernelTable {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match u32::deserialize(deserializer)? {
            0 | LOCAL_TABLE => Err(D::Error::custom(
                "expected the number of a table with routes, such as 254 (main) or that of a VRF",
            )),
            number => Ok(Self(number)),
        }
    }
}

/// `routes` as it is written.
#[derive(JsonSchema)]
#[serde(untagged)]
pub(super) enum WrittenRoutes {
    /// Those of the list.
    List(Vec<Route>),
    /// Those of the kernel.
    #[schemars(with = "String", title = "\"kernel\"")]
    Kernel,
}

impl Default for WrittenRoutes {
    fn default() -> Self {
        Self::List(Vec::new())
    }
}

impl<'de> Deserialize<'de> for WrittenRoutes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(RoutesVisitor)
    }
}

struct RoutesVisitor;

impl<'de> Visitor<'de> for RoutesVisitor {
    type Value = WrittenRoutes;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a list of routes, or \"kernel\"")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<WrittenRoutes, E> {
        match text {
            "kernel" => Ok(WrittenRoutes::Kernel),
            other => Err(E::custom(format_args!(
                "{other:?}: expected a list of routes, or \"kernel\""
            ))),
        }
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<WrittenRoutes, A::Error> {
        let routes = Vec::deserialize(SeqAccessDeserializer::new(list))?;
        Ok(WrittenRoutes::List(routes))
    }
}

/// What becomes of packets by a route of the kernel's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Learned {
    /// They go to the next hop or group of this name.
    Via(Arc<str>),
    /// They are dropped without a word.
    Discard,
    /// They are dropped, and their senders told that there is no way.
    Unreachable,
    /// They are dropped, and their senders told that it is prohibited.
    Prohibited,
    /// They have no route.
    NoRoute,
}

impl fmt::Display for Learned {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Via(name) => write!(formatter, "via {name}"),
            Self::Discard => formatter.write_str("via discard"),
            Self::Unreachable => formatter.write_str("is unreachable"),
            Self::Prohibited => formatter.write_str("is prohibited"),
            Self::NoRoute => formatter.write_str("has no route"),
        }
    }
}

/// The kernel's routes in one of their states. All states share one table, which is always that of
/// the newest.
#[derive(Clone, Debug)]
pub struct KernelRoutes {
    table: Arc<Mutex<HashMap<Prefix, Learned>>>,
    state: u64,
    /// The state that `changed` lead from; `None` if they were too many to be kept.
    before: Option<u64>,
    changed: Arc<[Prefix]>,
}

impl PartialEq for KernelRoutes {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.table, &other.table) && self.state == other.state
    }
}

impl Default for KernelRoutes {
    /// None.
    fn default() -> Self {
        Self {
            table: Arc::default(),
            state: 0,
            before: None,
            changed: Arc::default(),
        }
    }
}

impl KernelRoutes {
    /// The next state: to these prefixes the routes are these.
    #[must_use]
    pub fn with(&self, changes: Vec<(Prefix, Option<Learned>)>) -> Self {
        let mut table = self.table();
        let mut changed = Vec::with_capacity(changes.len());
        for (prefix, learned) in changes {
            changed.push(prefix);
            match learned {
                Some(learned) => drop(table.insert(prefix, learned)),
                None => drop(table.remove(&prefix)),
            }
        }
        drop(table);
        // A router with more changes is built anew, and the list may be as long as the table.
        let is_kept = changed.len() <= MOST_CHANGES;
        Self {
            table: Arc::clone(&self.table),
            state: self.state + 1,
            before: is_kept.then_some(self.state),
            changed: changed.into_iter().filter(|_| is_kept).collect(),
        }
    }

    /// The route to a prefix, in the newest state.
    pub fn route(&self, prefix: Prefix) -> Option<Learned> {
        self.table().get(&prefix).cloned()
    }

    /// How many routes there are in the newest state.
    pub fn count(&self) -> usize {
        self.table().len()
    }

    /// Looks at each route of the newest state.
    pub(super) fn for_each(&self, mut each: impl FnMut(Prefix, &Learned)) {
        let table = self.table();
        table
            .iter()
            .for_each(|(prefix, learned)| each(*prefix, learned));
    }

    fn table(&self) -> MutexGuard<'_, HashMap<Prefix, Learned>> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a router has learned of the kernel.
#[derive(Clone, Debug)]
pub struct Learning {
    /// The neighbours that routes lead to.
    pub next_hops: Vec<NextHop>,
    /// Those of them that share the flows of a route.
    pub groups: Vec<NextHopGroup>,
    /// The host's own addresses.
    pub addresses: Vec<Address>,
    /// The addresses that errors are told from if the file names none, of IPv4 and IPv6.
    pub error_addresses: [Option<Address>; 2],
    /// The networks on the cables of the ports.
    pub networks: Vec<Prefix>,
    /// The routes.
    pub routes: KernelRoutes,
}

impl Config {
    /// The number of the kernel's table that routes come from, if they do.
    pub fn kernel_table(&self) -> Option<u32> {
        self.kernel.as_ref().map(|kernel| kernel.table)
    }

    /// How many routes of each IP version there may be.
    pub fn most_routes(&self) -> usize {
        self.most_routes
    }

    /// The kernel's routes, if they are known.
    pub fn kernel_routes(&self) -> Option<&KernelRoutes> {
        self.kernel.as_ref()?.routes.as_ref()
    }

    /// The same with what the kernel says now.
    #[must_use]
    pub fn learning(&self, learning: Learning) -> Self {
        let mut config = self.clone();
        let Some(kernel) = &mut config.kernel else {
            return config;
        };
        let own = kernel.written.get_or_insert_with(|| OfFile {
            addresses: self.addresses.clone(),
            errors: [self.address, self.address6],
            networks: self.networks.clone(),
        });
        config.addresses.clone_from(&own.addresses);
        config.addresses.extend(learning.addresses);
        let networks = own.networks.iter().copied();
        config.networks = some_once(networks.chain(learning.networks));
        let [v4, v6] = learning.error_addresses;
        config.address = own.errors[0].or(v4);
        config.address6 = own.errors[1].or(v6);
        config.next_hops = learning.next_hops;
        config.groups = learning.groups;
        kernel.routes = Some(learning.routes);
        config
    }

    /// The same with what a running router has learned of the kernel.
    pub(super) fn learning_from(&self, running: &Self) -> Option<Self> {
        let (kernel, theirs) = (self.kernel.as_ref()?, running.kernel.as_ref()?);
        let routes = theirs.routes.clone().filter(|_| kernel.routes.is_none())?;
        let own = theirs.written.clone().unwrap_or_default();
        let more = running.addresses.iter().skip(own.addresses.len());
        let of_cables = running.networks.iter().copied();
        Some(
            self.learning(Learning {
                next_hops: running.next_hops.clone(),
                groups: running.groups.clone(),
                addresses: more.copied().collect(),
                error_addresses: [running.address, running.address6],
                networks: of_cables
                    .filter(|one| !own.networks.contains(one))
                    .collect(),
                routes,
            }),
        )
    }

    /// Looks at each route of the kernel's.
    pub(super) fn for_each_learned(&self, each: impl FnMut(Prefix, &Learned)) {
        if let Some(routes) = self.kernel_routes() {
            routes.for_each(each);
        }
    }

    /// The changes of the kernel's routes since a former configuration; `None` if nobody knows.
    pub(super) fn changed_learned_routes(&self, former: &Self) -> Option<Vec<RouteChange>> {
        let (now, before) = match (self.kernel_routes(), former.kernel_routes()) {
            (None, None) => return Some(Vec::new()),
            (Some(now), Some(before)) => (now, before),
            _ => return None,
        };
        match now == before {
            true => Some(Vec::new()),
            false
                if !Arc::ptr_eq(&now.table, &before.table) || now.before != Some(before.state) =>
            {
                None
            }
            false => Some(self.learned_changes(now)),
        }
    }

    fn learned_changes(&self, routes: &KernelRoutes) -> Vec<RouteChange> {
        let broadcasts: HashSet<Prefix> = self.directed_broadcasts().collect();
        let table = routes.table();
        let change = |prefix: &Prefix| match table.get(prefix) {
            Some(learned) => RouteChange::SetLearned(*prefix, learned.clone()),
            None if broadcasts.contains(prefix) => RouteChange::SetBroadcast(*prefix),
            None if is_nowhere(*prefix) => RouteChange::SetRoute(*prefix, None),
            None => RouteChange::RemoveRoute(*prefix),
        };
        routes.changed.iter().map(change).collect()
    }
}

/// Whether a route to a prefix can be taken from the kernel: groups, and addresses that are of a link
/// alone, have none.
#[must_use]
pub fn is_routable(prefix: Prefix) -> bool {
    let network = prefix.network();
    match prefix.versions() {
        Versions::V4 => network.octets4()[0] < 224 || prefix.length() < 4,
        _ => {
            prefix.length() < 8
                || network.word(0) >> 22 != 0xfe80 >> 6 && network.octets16()[0] != 0xff
        }
    }
}

fn is_nowhere(prefix: Prefix) -> bool {
    NOWHERE.iter().any(|text| text.parse() == Ok(prefix))
}

fn some_once(prefixes: impl Iterator<Item = Prefix>) -> Vec<Prefix> {
    let mut known = HashSet::new();
    prefixes.filter(|prefix| known.insert(*prefix)).collect()
}

impl<'c> From<&'c Learned> for Target<'c> {
    fn from(learned: &'c Learned) -> Self {
        match learned {
            Learned::Via(name) => Self::Via(name),
            Learned::Discard => Self::Via(super::config::DISCARD_NAME),
            Learned::Unreachable => Self::Unreachable,
            Learned::Prohibited => Self::Prohibited,
            Learned::NoRoute => Self::NoRoute,
        }
    }
}
