//! Routes that this host's kernel has: `routes = "kernel"`.
//!
//! Their table is one for all configurations that follow each other, for it may have a million routes;
//! each configuration says in which state it is, and which prefixes differ from the state before.

use super::route::Route;
use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::value::SeqAccessDeserializer;
use serde::de::{Deserializer, Error, SeqAccess, Visitor};
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use twinpath_classify::Prefix;
use twinpath_core::wire::Address;

/// The table of routes that Linux has unless somebody says otherwise.
const MAIN_TABLE: u32 = 254;
/// The table of the host's own addresses.
const LOCAL_TABLE: u32 = 255;

/// More changes than this take longer than the packets that wait for them should wait.
pub(super) const MOST_CHANGES: usize = 1000;

/// Where the routes of a router come from that are the kernel's.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct KernelSource {
    /// The number of the kernel's table.
    pub table: u32,
    /// What the file says of what the kernel says, too.
    pub written: Option<OfFile>,
    /// The routes, when they are known.
    pub routes: Option<KernelRoutes>,
}

/// What a file says of addresses and networks.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct OfFile {
    pub addresses: Vec<Address>,
    /// Those that errors are told from.
    pub errors: [Option<Address>; 2],
    pub networks: Vec<Prefix>,
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

    /// The prefixes that differ from a former state, with the routes to them now; `None` if nobody
    /// knows.
    pub(super) fn changed_since(&self, former: &Self) -> Option<Vec<(Prefix, Option<Learned>)>> {
        if self == former {
            return Some(Vec::new());
        }
        if !Arc::ptr_eq(&self.table, &former.table) || self.before != Some(former.state) {
            return None;
        }
        let table = self.table();
        let changed = self.changed.iter();
        Some(
            changed
                .map(|prefix| (*prefix, table.get(prefix).cloned()))
                .collect(),
        )
    }

    fn table(&self) -> MutexGuard<'_, HashMap<Prefix, Learned>> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
