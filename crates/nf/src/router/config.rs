//! The router's configuration.

use super::group::NextHopGroup;
use super::kernel::{KernelSource, KernelTable, WrittenRoutes};
use super::numbers::DISCARD_NAME;
use super::route::Route;
use crate::checked;
use crate::descriptor::{ConfigWarning, Reception};
use crate::schema::TextOr;
use crate::text::Text;
use crate::unicast::{HostAddress, StationMac};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;
use twinpath_classify::lpm::MAX_ROUTES;
use twinpath_classify::{Prefix, Versions};
use twinpath_core::adjacency::BACK;
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
    /// Next hops that share the flows of a route.
    pub(super) groups: Vec<NextHopGroup>,
    pub(super) routes: Vec<Route>,
    /// Where routes come from in place of `routes`.
    pub(super) kernel: Option<KernelSource>,
    /// Whether a table of the kernel's was named without need.
    pub(super) has_stray_table: bool,
    pub(super) routes_file: Option<PathBuf>,
    /// What the file said when it was read: prefixes, and numbers of next hops in their order.
    pub(super) file_routes: Option<Arc<Vec<(Prefix, u32)>>>,
    /// Those of the node's ports.
    pub(super) networks: Vec<Prefix>,
    /// Those of the ports in the service file, which are its own, too.
    pub(super) port_addresses: Vec<Address>,
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
    /// The neighbours that packets are sent to.
    pub fn next_hops(&self) -> &[NextHop] {
        &self.next_hops
    }

    /// The prefixes of the routes that are written in its table.
    pub fn written_prefixes(&self) -> impl Iterator<Item = Prefix> {
        self.routes.iter().map(|route| route.to.0)
    }

    /// The addresses from which it tells of errors, of IPv4 and of IPv6.
    pub fn own_error_addresses(&self) -> [Option<Address>; 2] {
        [self.address, self.address6]
    }

    /// All addresses of its own.
    pub fn own_addresses(&self) -> impl Iterator<Item = Address> {
        let first = self.address.into_iter().chain(self.address6);
        let more = self.addresses.iter().chain(&self.port_addresses);
        first.chain(more.copied())
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
        let is_known = is_known && self.kernel.is_none();
        let hops = self.next_hops.iter().enumerate();
        let unused = hops.filter(move |(_, hop)| is_known && !used.contains(&*hop.name));
        unused.map(|(place, hop)| {
            let keys = entry("next_hops", place);
            let message = format!("no route goes via {:?}: nothing is sent there", hop.name);
            ConfigWarning::new(keys, message)
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
            let keys = |place: usize| entry("routes", place);
            (*later != place).then(|| ConfigWarning {
                keys: keys(place),
                message: format!(
                    "route {} to {} goes via {via:?} in place of this one",
                    later + 1,
                    route.to.0
                ),
                because: vec![keys(*later)],
                elsewhere: None,
            })
        })
    }

    /// Routes of one IP version by a neighbour that is known by an address of the other.
    pub(super) fn routes_by_other_version(&self) -> impl Iterator<Item = ConfigWarning> + '_ {
        let hops = self.next_hops.iter();
        let gateways: HashMap<&str, Address> = hops
            .filter_map(|hop| Some((&*hop.name, hop.gateway()?)))
            .collect();
        let routes = self.routes.iter().enumerate();
        routes.filter_map(move |(place, route)| {
            let gateway = gateways.get(&*route.via)?;
            let (to, [version, other]) = match (route.to.0.versions(), gateway.is_v4()) {
                (Versions::V4, false) => (route.to.0, [4, 6]),
                (Versions::V6, true) => (route.to.0, [6, 4]),
                _ => return None,
            };
            let message = format!(
                "the route to {to} is one of IPv{version}, and {gateway} is an address of IPv{other}: expected a next hop of IPv{version}"
            );
            Some(ConfigWarning::new(entry("routes", place), message))
        })
    }

    /// What of the frames that arrive it takes.
    pub(super) fn reception(&self) -> Reception {
        let source_mac = |hop: &NextHop| match hop.reached {
            Reached::ByMac { source_mac, .. } => Some(source_mac),
            Reached::ByAddress { .. } => None,
        };
        Reception {
            macs: self.macs.clone(),
            source_macs: self.next_hops.iter().filter_map(source_mac).collect(),
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
        // Nobody knows what the kernel's routes will be; some are there to be answered about.
        self.kernel.is_some()
            || self.no_route == NoRoute::Unreachable
                && (lacks_route(self.address) || lacks_route(self.address6))
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Written {
    /// The neighbours that packets are sent to, at least one unless routes are the kernel's.
    #[serde(default)]
    #[schemars(length(max = MAX_NEXT_HOPS))]
    next_hops: Vec<NextHop>,
    /// Where packets to a prefix go; the longest prefix counts, and of two routes to one prefix the
    /// later. Or `"kernel"`: links, addresses, routes and neighbours are those of this host's
    /// kernel, and their changes are followed.
    #[serde(default)]
    routes: WrittenRoutes,
    /// The kernel's table of routes, by number: the main one (254) without this. It goes with
    /// `routes = "kernel"`.
    kernel_table: Option<KernelTable>,
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
    address: Option<Text<HostAddress>>,
    /// The same for IPv6.
    address6: Option<Text<HostAddress>>,
    /// Further addresses of its own, beside those of the ports in `[ports]`. Packets to its own addresses
    /// are for the router itself.
    #[serde(default)]
    addresses: Vec<Text<HostAddress>>,
    /// Its own MAC addresses: a frame to another station is dropped in front of the chain
    /// (`other_station`, RFC 1812 §5.3.4). Without them those of the network interfaces in `[ports]`
    /// are its own, and each `source_mac`; where packets come from a capture or a generator frames to
    /// any station are taken. Those to groups never are.
    #[serde(default)]
    macs: Vec<Text<StationMac>>,
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
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema)]
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

impl<'de> Deserialize<'de> for NextHop {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        checked::table::<D, WrittenNextHop, Self>(deserializer)
    }
}

impl NextHop {
    /// What packets to it have as egress.
    pub const fn egress(&self) -> u16 {
        match self.reached {
            Reached::ByMac { .. } => self.port,
            Reached::ByAddress { egress, .. } => egress,
        }
    }

    /// Its address, if it is asked for.
    pub const fn gateway(&self) -> Option<Address> {
        match self.reached {
            Reached::ByAddress { gateway, .. } => gateway,
            Reached::ByMac { .. } => None,
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
    address: Option<Text<HostAddress>>,
    /// Its MAC address, for who does not answer, or a cable without questions.
    mac: Option<Text<StationMac>>,
    /// The router's own MAC address on that link; it goes with `mac`.
    source_mac: Option<Text<StationMac>>,
    /// The port to it: by the name that `ports` in `[service]` gives it, or by number.
    #[schemars(with = "TextOr<u16>", title = "port of the node")]
    port: u16,
}

impl TryFrom<WrittenNextHop> for NextHop {
    type Error = NextHopError;

    fn try_from(written: WrittenNextHop) -> Result<Self, NextHopError> {
        if written.port >= BACK {
            return Err(NextHopError::NoSuchPort(written.port));
        }
        let gateway = written.address.map(|Text(address)| address.0);
        let reached = match (written.mac, written.source_mac, gateway) {
            (Some(mac), Some(source_mac), None) => Reached::ByMac {
                mac: mac.0.0,
                source_mac: source_mac.0.0,
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
    /// A number that no port can have.
    #[error("port {0}: expected a number below {BACK}")]
    NoSuchPort(u16),
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
    /// What the kernel says is said here, too.
    #[error(
        "{0} beside routes = \"kernel\": expected no {0}, because the kernel says where packets go (`ip route`)"
    )]
    BesideKernel(&'static str),
    /// A table of a kernel whose routes are not wanted.
    #[error("kernel_table without routes = \"kernel\": expected both, or none of them")]
    TableAlone,
}

impl TryFrom<Written> for Config {
    type Error = ConfigError;

    fn try_from(written: Written) -> Result<Self, ConfigError> {
        let config = written.unchecked();
        match config.mistakes().into_iter().next() {
            Some((_, error)) => Err(error),
            None => Ok(config),
        }
    }
}

/// A mistake, and the keys that lead to it.
pub(super) type Misplaced = (Vec<String>, ConfigError);

impl Written {
    /// What it says, each value for itself.
    pub(super) fn unchecked(self) -> Config {
        let address = |written: Option<Text<HostAddress>>| written.map(|Text(address)| address.0);
        let (routes, kernel) = match self.routes {
            WrittenRoutes::List(routes) => (routes, None),
            WrittenRoutes::Kernel => (Vec::new(), Some(KernelSource::new(self.kernel_table))),
        };
        Config {
            address: address(self.address),
            address6: address(self.address6),
            next_hops: self.next_hops,
            groups: Vec::new(),
            has_stray_table: kernel.is_none() && self.kernel_table.is_some(),
            routes,
            kernel,
            routes_file: self.routes_file,
            file_routes: None,
            networks: Vec::new(),
            port_addresses: Vec::new(),
            most_routes: self.most_routes,
            no_route: self.no_route,
            addresses: self.addresses.into_iter().map(|Text(one)| one.0).collect(),
            macs: self.macs.into_iter().map(|Text(one)| one.0).collect(),
            martians: self.martians,
            errors_per_second: self.errors_per_second,
            errors_per_source: self.errors_per_source,
        }
    }
}

impl Config {
    /// What is wrong with what values say together, each with its place; none follows from another.
    pub(super) fn mistakes(&self) -> Vec<Misplaced> {
        let mut mistakes = match self.kernel {
            Some(_) => self.beside_kernel(),
            None => wrong_next_hops(&self.next_hops),
        };
        if mistakes.is_empty() {
            mistakes.extend(self.routes_to_nobody());
        }
        if self.has_stray_table {
            mistakes.push((vec!["kernel_table".to_owned()], ConfigError::TableAlone));
        }
        if self.most_routes > MAX_ROUTES {
            let error = ConfigError::MostRoutes(self.most_routes);
            mistakes.push((vec!["most_routes".to_owned()], error));
        }
        mistakes.extend(self.wrong_versions());
        mistakes
    }

    /// What the kernel says.
    fn beside_kernel(&self) -> Vec<Misplaced> {
        let said = [
            ("next_hops", !self.next_hops.is_empty()),
            ("routes_file", self.routes_file.is_some()),
        ];
        let said = said.into_iter().filter(|(_, is_said)| *is_said);
        said.map(|(key, _)| (vec![key.to_owned()], ConfigError::BesideKernel(key)))
            .collect()
    }

    /// Routes via names that no next hop has, the first of each name.
    fn routes_to_nobody(&self) -> impl Iterator<Item = Misplaced> {
        let names = self.next_hops.iter().map(|hop| &*hop.name);
        let mut known: HashSet<&str> = names.chain([DISCARD_NAME]).collect();
        let routes = self.routes.iter().enumerate();
        let wrong = routes.filter(move |(_, route)| known.insert(&route.via));
        wrong.map(|(place, Route { to, via })| {
            let (to, via) = (to.0, via.clone());
            (
                entry("routes", place),
                ConfigError::NoSuchNextHop { to, via },
            )
        })
    }

    /// Own addresses of the other version.
    fn wrong_versions(&self) -> impl Iterator<Item = Misplaced> {
        let own = [("address", self.address, 4), ("address6", self.address6, 6)];
        own.into_iter().filter_map(|(key, address, version)| {
            let address = address.filter(|one| one.is_v4() != (version == 4))?;
            let error = ConfigError::Version {
                key,
                address,
                version,
            };
            Some((vec![key.to_owned()], error))
        })
    }
}

/// The keys of an entry of a list.
fn entry(key: &str, place: usize) -> Vec<String> {
    vec![key.to_owned(), place.to_string()]
}

/// A wrong number of them, or names that are taken.
fn wrong_next_hops(next_hops: &[NextHop]) -> Vec<Misplaced> {
    if next_hops.is_empty() || next_hops.len() > MAX_NEXT_HOPS {
        let error = ConfigError::NextHopCount(next_hops.len());
        return vec![(vec!["next_hops".to_owned()], error)];
    }
    let mut names = HashSet::from([DISCARD_NAME]);
    let hops = next_hops.iter().enumerate();
    let taken = hops.filter(|(_, hop)| !names.insert(&hop.name));
    let taken = taken.map(|(place, hop)| {
        let error = ConfigError::NameTaken(hop.name.clone());
        (entry("next_hops", place), error)
    });
    taken.collect()
}
