//! What a configuration becomes with what the kernel says.
//!
//! Whoever follows the kernel makes of a configuration the one with what has been
//! [learned](Config::learning): next hops, addresses of its own, and the table of routes.

use super::change::RouteChange;
use super::config::{Config, NextHop};
use super::group::NextHopGroup;
use super::kernel::{KernelRoutes, Learned, OfFile};
use super::numbers::{DISCARD_NAME, NOWHERE};
use super::routes::Target;
use std::collections::HashSet;
use twinpath_classify::{Prefix, Versions};
use twinpath_core::wire::Address;

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
        let changed = now.changed_since(before)?;
        let broadcasts: HashSet<Prefix> = self.directed_broadcasts().collect();
        let change = |(prefix, learned)| match learned {
            Some(learned) => RouteChange::SetLearned(prefix, learned),
            None if broadcasts.contains(&prefix) => RouteChange::SetBroadcast(prefix),
            None if is_nowhere(prefix) => RouteChange::SetRoute(prefix, None),
            None => RouteChange::RemoveRoute(prefix),
        };
        Some(changed.into_iter().map(change).collect())
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
            Learned::Discard => Self::Via(DISCARD_NAME),
            Learned::Unreachable => Self::Unreachable,
            Learned::Prohibited => Self::Prohibited,
            Learned::NoRoute => Self::NoRoute,
        }
    }
}
