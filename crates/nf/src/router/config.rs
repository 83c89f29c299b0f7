//! The router's configuration.

use crate::descriptor::{ConfigWarning, Reception};
use crate::schema::TextOr;
use crate::text::Text;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;
use twinpath_classify::Prefix;
use twinpath_classify::lpm::MAX_ROUTES;
use twinpath_core::wire::{Address, MacAddress};
use twinpath_core::{Adjacencies, Adjacency};

/// Most next hops.
pub const MAX_NEXT_HOPS: usize = 65_536;

/// A router's configuration; see the [module](super).
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(try_from = "Written")]
#[schemars(with = "Written")]
pub struct Config {
    pub(super) next_hops: Vec<NextHop>,
    pub(super) routes: Vec<Route>,
    pub(super) routes_file: Option<PathBuf>,
    /// What the file said when it was read: prefixes, and numbers of next hops in their order.
    pub(super) file_routes: Option<Arc<Vec<(Prefix, u32)>>>,
    pub(super) most_routes: usize,
    pub(super) no_route: NoRoute,
    pub(super) address: Option<Address>,
    pub(super) address6: Option<Address>,
    pub(super) addresses: Vec<Address>,
    pub(super) macs: Vec<MacAddress>,
    pub(super) martians: Martians,
    pub(super) errors_per_second: u32,
    pub(super) errors_per_source: u32,
}

impl Config {
    /// All addresses of its own.
    pub fn own_addresses(&self) -> impl Iterator<Item = Address> {
        let first = self.address.into_iter().chain(self.address6);
        first.chain(self.addresses.iter().copied())
    }

    /// The same with the numbers that neighbours have in a list.
    pub(super) fn numbered(mut self, adjacencies: &Adjacencies) -> Result<Self, ConfigError> {
        let mut hops = self.next_hops.iter_mut();
        hops.try_for_each(|hop| hop.number(adjacencies))?;
        Ok(self)
    }

    /// By which ports packets leave to the prefixes of the routes that are written in its table.
    pub(super) fn routed_ports(&self) -> Vec<(Prefix, u16)> {
        let port = |route: &Route| {
            let hop = self.next_hops.iter().find(|hop| hop.name == route.via)?;
            Some((route.to.0, hop.port))
        };
        self.routes.iter().filter_map(port).collect()
    }

    /// Next hops that no route goes by.
    pub(super) fn unused_next_hops(&self) -> impl Iterator<Item = ConfigWarning> + '_ {
        let used: HashSet<&str> = self.configured_routes().map(|(_, via)| via).collect();
        // A file that cannot be read is told when the router is built.
        let is_known = self.routes_file.is_none() || self.file_routes.is_some();
        let hops = self.next_hops.iter().enumerate();
        let unused = hops.filter(move |(_, hop)| is_known && !used.contains(&*hop.name));
        unused.map(|(place, hop)| ConfigWarning {
            keys: vec!["next_hops".into(), place.to_string()],
            message: format!("no route goes via {:?}: nothing is sent there", hop.name),
        })
    }

    /// Routes in whose place a later one to the same prefix stands.
    pub(super) fn replaced_routes(&self) -> impl Iterator<Item = ConfigWarning> + '_ {
        let mut last = HashMap::new();
        for (place, route) in self.routes.iter().enumerate() {
            last.insert(route.to.0, (place, &*route.via));
        }
        let routes = self.routes.iter().enumerate();
        routes.filter_map(move |(place, route)| {
            let (later, via) = last.get(&route.to.0)?;
            (*later != place).then(|| ConfigWarning {
                keys: vec!["routes".into(), place.to_string()],
                message: format!(
                    "route {} to {} goes via {via:?} in place of this one",
                    later + 1,
                    route.to.0
                ),
            })
        })
    }

    /// What of the frames that arrive it takes.
    pub(super) fn reception(&self) -> Reception {
        Reception {
            macs: self.macs.clone(),
            martians_of: match self.martians {
                Martians::Drop => Some(self.own_addresses().collect()),
                Martians::Forward => None,
            },
        }
    }

    /// Whether an ICMP error may quote a packet because it has no route: none does if errors are
    /// not wanted, or if a route for all packets is written among `routes`.
    pub fn quotes_payloads(&self) -> bool {
        let has_default = |own: Address| {
            let is_default = |prefix: &Prefix| prefix.length() == 0 && prefix.includes(own);
            self.routes.iter().any(|route| is_default(&route.to.0))
        };
        let lacks_route = |own: Option<Address>| own.is_some_and(|own| !has_default(own));
        self.no_route == NoRoute::Unreachable
            && (lacks_route(self.address) || lacks_route(self.address6))
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Written {
    /// The neighbours that packets are sent to.
    #[schemars(length(min = 1, max = MAX_NEXT_HOPS))]
    next_hops: Vec<NextHop>,
    /// Where packets to a prefix go; the longest prefix counts, and of two routes to one prefix the
    /// later.
    #[serde(default)]
    routes: Vec<Route>,
    /// A file of further routes, relative to the service file: a prefix and a name on each line, `#`
    /// begins a comment.
    #[schemars(title = "file")]
    routes_file: Option<PathBuf>,
    /// How many routes of each IP version there may be, those added later included.
    #[serde(default = "default_most_routes")]
    #[schemars(range(max = MAX_ROUTES))]
    most_routes: usize,
    /// What happens to a packet without a route.
    #[serde(default)]
    no_route: NoRoute,
    /// The router's own IPv4 address, from which it sends ICMP errors; without one it sends none.
    address: Option<Text<Address>>,
    /// The same for IPv6.
    address6: Option<Text<Address>>,
    /// Further addresses of its own. Packets to its own addresses are for the router itself.
    #[serde(default)]
    addresses: Vec<Text<Address>>,
    /// Its own MAC addresses: a frame to another station is dropped in front of the chain
    /// (`other_station`, RFC 1812 §5.3.4). Without them frames to any station are taken; those to
    /// groups never are.
    #[serde(default)]
    macs: Vec<Text<MacAddress>>,
    /// What happens to packets from addresses that nobody on a wire has (RFC 1812 §5.3.7).
    #[serde(default)]
    martians: Martians,
    /// Most ICMP errors and echo replies in a second, which may come at once (a token bucket,
    /// RFC 4443 §2.4 f).
    #[serde(default = "default_errors_per_second")]
    errors_per_second: u32,
    /// The same of each network that they go to: a /24 of IPv4, a /64 of IPv6. There are 4096
    /// buckets, so that a few networks share one.
    #[serde(default = "default_errors_per_source")]
    errors_per_source: u32,
}

fn default_most_routes() -> usize {
    2_000_000
}

fn default_errors_per_second() -> u32 {
    1000
}

fn default_errors_per_source() -> u32 {
    10
}

/// A neighbour that packets are sent to, or all those on a cable.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(try_from = "WrittenNextHop")]
#[schemars(with = "WrittenNextHop")]
pub struct NextHop {
    /// What routes call it.
    pub name: String,
    /// The port to it.
    pub port: u16,
    /// Whose MAC addresses packets get.
    pub reached: Reached,
}

/// What tells the MAC addresses of what is sent to a next hop.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Reached {
    /// The configuration does.
    ByMac {
        /// The neighbour's.
        mac: MacAddress,
        /// The router's own on that link.
        source_mac: MacAddress,
    },
    /// The neighbour is asked when a packet leaves.
    ByAddress {
        /// Its address; `None` if it is the one that a packet is for.
        gateway: Option<Address>,
        /// The [adjacency](twinpath_core::adjacency)'s number.
        egress: u16,
    },
}

impl NextHop {
    /// What packets to it have as egress.
    pub const fn egress(&self) -> u16 {
        match self.reached {
            Reached::ByMac { .. } => self.port,
            Reached::ByAddress { egress, .. } => egress,
        }
    }

    fn number(&mut self, adjacencies: &Adjacencies) -> Result<(), ConfigError> {
        let port = self.port;
        if let Reached::ByAddress { gateway, egress } = &mut self.reached {
            let gateway = *gateway;
            let number = adjacencies.egress(Adjacency { port, gateway });
            *egress = number.ok_or(ConfigError::TooManyNeighbors)?;
        }
        Ok(())
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct WrittenNextHop {
    /// What routes call it; `"discard"` is taken.
    name: String,
    /// Its IP address: its MAC address is asked for (ARP, RFC 826; neighbour discovery, RFC 4861).
    /// With neither an address nor a MAC address packets go to their own destination, which is on
    /// the cable. Both are for ports that have `addresses` in `[ports]`.
    address: Option<Text<Address>>,
    /// Its MAC address, for who does not answer, or a cable without questions.
    mac: Option<Text<MacAddress>>,
    /// The router's own MAC address on that link; it goes with `mac`.
    source_mac: Option<Text<MacAddress>>,
    /// The port to it: by the name that `ports` in `[service]` gives it, or by number.
    #[schemars(with = "TextOr<u16>", title = "port of the node")]
    port: u16,
}

impl TryFrom<WrittenNextHop> for NextHop {
    type Error = NextHopError;

    fn try_from(written: WrittenNextHop) -> Result<Self, NextHopError> {
        let gateway = written.address.map(|address| address.0);
        let reached = match (written.mac, written.source_mac, gateway) {
            (Some(mac), Some(source_mac), None) => Reached::ByMac {
                mac: mac.0,
                source_mac: source_mac.0,
            },
            (None, None, gateway) => Reached::ByAddress { gateway, egress: 0 },
            (Some(_), Some(_), Some(_)) => return Err(NextHopError::Both),
            (Some(_), None, _) => return Err(NextHopError::Alone("mac", "source_mac")),
            (None, Some(_), _) => return Err(NextHopError::Alone("source_mac", "mac")),
        };
        Ok(Self {
            name: written.name,
            port: written.port,
            reached,
        })
    }
}

/// What is wrong with a next hop.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NextHopError {
    /// It is known twice.
    #[error(
        "address and mac: expected one of them, since the address is asked for its MAC address"
    )]
    Both,
    /// One MAC address without the other.
    #[error("{0} without {1}: expected both, or an address, or none of them")]
    Alone(&'static str, &'static str),
}

/// Where packets to a prefix go.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Route {
    /// The prefix.
    pub to: Text<Prefix>,
    /// The name of a next hop, or `"discard"` for packets that go nowhere.
    pub via: String,
}

/// What happens to a packet without a route.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum NoRoute {
    /// An ICMP error answers it.
    #[default]
    Unreachable,
    /// It is dropped without a word.
    Drop,
}

/// What happens to packets from addresses that nobody on a wire has (RFC 1812 §5.3.7).
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Martians {
    /// They are dropped in front of the chain (`martian`).
    #[default]
    Drop,
    /// They are packets like others.
    Forward,
}

/// What is wrong with a router's configuration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// No next hop, or too many.
    #[error("{0} next hops: expected 1 to {MAX_NEXT_HOPS}")]
    NextHopCount(usize),
    /// Two next hops of one name, or one called discard.
    #[error("next hop {0:?}: the name is taken")]
    NameTaken(String),
    /// A route via nobody.
    #[error("the route to {to} goes via {via:?}, which is no next hop and not \"discard\"")]
    NoSuchNextHop {
        /// The route's prefix.
        to: Prefix,
        /// The name.
        via: String,
    },
    /// An address of the other version.
    #[error("{key} = \"{address}\" is not IPv{version}")]
    Version {
        /// Where it was written.
        key: &'static str,
        /// The address.
        address: Address,
        /// The version that it should have had.
        version: u8,
    },
    /// More neighbours than have numbers.
    #[error("too many neighbours: expected fewer next hops without a MAC address since the start")]
    TooManyNeighbors,
    /// More routes than a table takes.
    #[error("most_routes = {0} is more than {MAX_ROUTES}")]
    MostRoutes(usize),
}

/// The name of the next hop that is none.
pub(super) const DISCARD_NAME: &str = "discard";

impl TryFrom<Written> for Config {
    type Error = ConfigError;

    fn try_from(written: Written) -> Result<Self, ConfigError> {
        check_next_hops(&written.next_hops)?;
        if written.most_routes > MAX_ROUTES {
            return Err(ConfigError::MostRoutes(written.most_routes));
        }
        for Route { to, via } in &written.routes {
            if !is_name(&written.next_hops, via) {
                let (to, via) = (to.0, via.clone());
                return Err(ConfigError::NoSuchNextHop { to, via });
            }
        }
        Ok(Self {
            address: of_version("address", written.address, 4)?,
            address6: of_version("address6", written.address6, 6)?,
            next_hops: written.next_hops,
            routes: written.routes,
            routes_file: written.routes_file,
            file_routes: None,
            most_routes: written.most_routes,
            no_route: written.no_route,
            addresses: written.addresses.into_iter().map(|text| text.0).collect(),
            macs: written.macs.into_iter().map(|text| text.0).collect(),
            martians: written.martians,
            errors_per_second: written.errors_per_second,
            errors_per_source: written.errors_per_source,
        })
    }
}

fn check_next_hops(next_hops: &[NextHop]) -> Result<(), ConfigError> {
    if next_hops.is_empty() || next_hops.len() > MAX_NEXT_HOPS {
        return Err(ConfigError::NextHopCount(next_hops.len()));
    }
    let mut names = std::collections::HashSet::from([DISCARD_NAME]);
    match next_hops.iter().find(|hop| !names.insert(&hop.name)) {
        Some(twice) => Err(ConfigError::NameTaken(twice.name.clone())),
        None => Ok(()),
    }
}

fn is_name(next_hops: &[NextHop], name: &str) -> bool {
    name == DISCARD_NAME || next_hops.iter().any(|hop| hop.name == name)
}

fn of_version(
    key: &'static str,
    address: Option<Text<Address>>,
    version: u8,
) -> Result<Option<Address>, ConfigError> {
    match address {
        Some(Text(address)) if address.is_v4() != (version == 4) => Err(ConfigError::Version {
            key,
            address,
            version,
        }),
        address => Ok(address.map(|address| address.0)),
    }
}
