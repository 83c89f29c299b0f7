//! The configuration, checked while it is read.

use super::error::ConfigError;
use super::limits::{MAX_BACKENDS, MAX_CHANGES, MAX_SERVICES, MAX_TABLE_ENTRIES, MAX_TABLE_SIZE};
use super::protocol::Protocol;
use super::schedule::{self, Backend, ChangeKind, Epoch, PlannedBackend, ScheduledChange};
use super::values::{EndpointText, TableSize, Timeout};
use crate::checksums::VerifyChecksums;
use crate::descriptor::Placed;
use crate::hosts::{HostLimit, PrefixLength};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::{HashMap, HashSet};
use std::num::NonZeroU32;
use twinpath_wire::Endpoint;

/// A load balancer's configuration.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(try_from = "RawConfig")]
#[schemars(with = "RawConfig")]
pub struct Config {
    pub(super) table_size: TableSize,
    pub(super) seed: Option<u64>,
    pub(super) pick_up: bool,
    pub(super) verify_checksums: VerifyChecksums,
    pub(super) tcp_timeout: Timeout,
    pub(super) closing_timeout: Timeout,
    pub(super) udp_timeout: Timeout,
    pub(super) half_open_timeout: Timeout,
    pub(super) host_limit: Option<HostLimit>,
    pub(super) services: Vec<Service>,
}

impl Config {
    /// Whether packets of connections that there are get the same treatment: the same services
    /// and backends, in the same order and for the same time, and the same time-outs.
    pub fn has_same_table(&self, former: &Self) -> bool {
        let table = |service: &Service| {
            let end = (service.vip, service.protocol, service.return_path);
            (end, service.backends.clone())
        };
        let tables = |config: &Self| config.services.iter().map(table).collect::<Vec<_>>();
        self.timeouts() == former.timeouts() && tables(self) == tables(former)
    }

    fn timeouts(&self) -> [Timeout; 4] {
        [
            self.tcp_timeout,
            self.closing_timeout,
            self.udp_timeout,
            self.half_open_timeout,
        ]
    }

    /// The services, in the order of the configuration.
    pub fn services(&self) -> &[Service] {
        &self.services
    }
}

/// A virtual endpoint and the backends behind it.
#[derive(Clone, Debug, PartialEq, JsonSchema)]
#[schemars(with = "RawService")]
pub struct Service {
    /// What the rest was made of.
    pub(super) written: RawService,
    pub(super) vip: Endpoint,
    pub(super) protocol: Protocol,
    pub(super) return_path: ReturnPath,
    pub(super) backends: Vec<PlannedBackend>,
    pub(super) epochs: Vec<Epoch>,
}

impl Service {
    /// The endpoint that clients talk to.
    pub fn vip(&self) -> Endpoint {
        self.vip
    }

    /// Its transport protocol.
    pub fn protocol(&self) -> Protocol {
        self.protocol
    }

    /// How answers reach the client.
    pub fn return_path(&self) -> ReturnPath {
        self.return_path
    }

    /// Every endpoint that is a backend at some time, in the order of the table's rows.
    pub fn backends(&self) -> impl Iterator<Item = Endpoint> + '_ {
        self.backends.iter().map(|backend| backend.endpoint)
    }
}

/// How a backend's answers reach the client.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ReturnPath {
    /// Through Twinpath: addresses and ports are rewritten both ways.
    #[default]
    Through,
    /// Straight from the backend, which has the service's address itself: only the destination
    /// MAC address is rewritten.
    Direct,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RawConfig {
    /// Entries of a lookup table: a prime, best at least a hundred times the number of a service's
    /// backends, and at least the sum of their weights.
    #[serde(default)]
    #[schemars(range(min = 2, max = MAX_TABLE_SIZE))]
    table_size: TableSize,
    /// Of the hashes: the service's own unless said. Balancers that share connections need the same,
    /// which clients should not know.
    seed: Option<u64>,
    /// TCP packets in mid-connection are given to the backend that a new connection would get; a
    /// restarted balancer keeps its connections by it. If `false` they are dropped
    /// (`invalid_state`).
    #[serde(default = "default_pick_up")]
    pick_up: bool,
    /// Which transport checksums are verified: of packets to a service that open a connection, and of
    /// TCP packets with SYN, FIN or RST.
    #[serde(default)]
    verify_checksums: VerifyChecksums,
    /// Silence after which a TCP connection is forgotten.
    #[serde(default = "default_tcp_timeout")]
    tcp_timeout: Timeout,
    /// The same after a reset, or when both ends have sent FIN (for direct return: the client).
    #[serde(default = "default_closing_timeout")]
    closing_timeout: Timeout,
    /// The same for UDP, and for flows to no service.
    #[serde(default = "default_udp_timeout")]
    udp_timeout: Timeout,
    /// The same for a connection of which one packet of the client alone was heard, or whose client
    /// has not answered the server's SYN.
    #[serde(default = "default_half_open_timeout")]
    half_open_timeout: Timeout,
    /// Connections to services that one client may have at a time: those that are still remembered,
    /// by all workers together. If absent, there is no limit: whoever forges a client's address could
    /// use up what that client may have, and behind one address may be thousands of clients. Half-open
    /// ones are limited in all by `half_open` of `[slow_path]`. On network interfaces a file without a
    /// limit is warned of: established connections are never forgotten for want of room, so that one
    /// client could take all that there is.
    #[schemars(range(min = 1))]
    per_host_connections: Option<NonZeroU32>,
    /// Leading bits of an IPv6 address that tell one client from another: a host may take any address
    /// of its network.
    #[serde(default = "default_per_host_v6_prefix")]
    #[schemars(range(min = 1, max = 128))]
    per_host_v6_prefix: PrefixLength,
    /// What clients talk to, and who serves them; at least one.
    #[serde(default)]
    #[schemars(length(min = 1, max = MAX_SERVICES))]
    services: Vec<RawService>,
}

fn default_pick_up() -> bool {
    true
}

fn default_tcp_timeout() -> Timeout {
    Timeout::seconds(900)
}

fn default_closing_timeout() -> Timeout {
    Timeout::seconds(30)
}

fn default_udp_timeout() -> Timeout {
    Timeout::seconds(60)
}

fn default_half_open_timeout() -> Timeout {
    Timeout::seconds(30)
}

fn default_per_host_v6_prefix() -> PrefixLength {
    PrefixLength::NETWORK
}

impl TryFrom<RawConfig> for Config {
    type Error = ConfigError;

    fn try_from(raw: RawConfig) -> Result<Self, ConfigError> {
        let first = |mistakes: Vec<Misplaced>| mistakes.into_iter().next();
        raw.checked().map_err(|mistakes| match first(mistakes) {
            Some(mistake) => mistake.error,
            None => ConfigError::ServiceCount(0),
        })
    }
}

impl RawConfig {
    /// What it says.
    ///
    /// # Errors
    /// All that is wrong, each mistake at its place; none follows from another.
    pub(super) fn checked(mut self) -> Result<Config, Vec<Misplaced>> {
        let written = std::mem::take(&mut self.services);
        let mut mistakes: Vec<_> = same_services(&written).collect();
        let mut services = Vec::new();
        for (entry, service) in written.into_iter().enumerate() {
            match Service::try_from(service) {
                Ok(service) => services.push(service),
                Err(error) => mistakes.push(Placed::within(SERVICES, entry, error)),
            }
        }
        let are_all_there = mistakes.iter().all(|mistake| is_twice(&mistake.error));
        let config = self.with_services(services);
        if are_all_there {
            mistakes.extend(config.mistakes());
        }
        match mistakes.is_empty() {
            true => Ok(config),
            false => Err(mistakes),
        }
    }

    fn with_services(self, services: Vec<Service>) -> Config {
        let Self {
            table_size,
            seed,
            pick_up,
            verify_checksums,
            tcp_timeout,
            closing_timeout,
            udp_timeout,
            half_open_timeout,
            per_host_connections,
            per_host_v6_prefix,
            services: _,
        } = self;
        let host_limit = |connections| HostLimit::new(connections, per_host_v6_prefix);
        Config {
            table_size,
            seed,
            pick_up,
            verify_checksums,
            tcp_timeout,
            closing_timeout,
            udp_timeout,
            half_open_timeout,
            host_limit: per_host_connections.map(host_limit),
            services,
        }
    }
}

/// A mistake, and where it is.
pub(super) type Misplaced = Placed<ConfigError>;

/// The key of the list of services.
const SERVICES: &str = "services";

impl Config {
    /// Whether a client may have only so many connections.
    pub const fn limits_hosts(&self) -> bool {
        self.host_limit.is_some()
    }

    /// Checks that its services go together.
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        match self.mistakes().into_iter().next() {
            Some(mistake) => Err(mistake.error),
            None => Ok(()),
        }
    }

    /// Why its services do not go together, each reason at its place; none follows from another.
    fn mistakes(&self) -> Vec<Misplaced> {
        let limits = wrong_number(&self.services).or_else(|| wrong_tables(self));
        let mut mistakes: Vec<_> = limits.into_iter().collect();
        mistakes.extend(ambiguous_backends(&self.services));
        mistakes
    }
}

/// Too many services or backends, or none.
fn wrong_number(services: &[Service]) -> Option<Misplaced> {
    let backends = services.iter().map(|service| service.backends.len()).sum();
    let error = match services.len() {
        0 => ConfigError::ServiceCount(0),
        count if count > MAX_SERVICES => ConfigError::ServiceCount(count),
        _ if backends > MAX_BACKENDS => ConfigError::TooManyBackends(backends),
        _ => return None,
    };
    Some(Placed::at(SERVICES, error))
}

/// Look-up tables that are too large together, or one that is too small.
fn wrong_tables(config: &Config) -> Option<Misplaced> {
    let size = config.table_size.0;
    let epochs = || config.services.iter().flat_map(|service| &service.epochs);
    let tables = epochs().count() as u64;
    let total_weight = |epoch: &Epoch| {
        let weights = epoch.members.iter();
        weights.map(|member| u64::from(member.weight)).sum::<u64>()
    };
    let weights = epochs().map(total_weight).max().unwrap_or(0);
    let error = if tables * u64::from(size) > MAX_TABLE_ENTRIES {
        ConfigError::TablesTooLarge { tables, size }
    } else if weights > u64::from(size) {
        ConfigError::TableTooSmall { weights, size }
    } else {
        return None;
    };
    Some(Placed::at("table_size", error))
}

/// Whether it is a service that is there already.
pub(super) const fn is_twice(error: &ConfigError) -> bool {
    matches!(error, ConfigError::DuplicateService { .. })
}

/// Services that are there already.
fn same_services(services: &[RawService]) -> impl Iterator<Item = Misplaced> {
    let mut known = HashSet::new();
    let twice = services.iter().enumerate();
    let twice = twice.filter(move |(_, one)| !known.insert((one.vip.0, one.protocol)));
    twice.map(|(entry, service)| {
        let error = ConfigError::DuplicateService {
            vip: service.vip.0,
            protocol: service.protocol,
        };
        Placed::within(SERVICES, entry, error)
    })
}

/// Packets from a backend must tell which service they belong to: of each service the first backend
/// that is another's too, or that is a service.
fn ambiguous_backends(services: &[Service]) -> Vec<Misplaced> {
    let mut owners = HashMap::new();
    let mut mistakes = Vec::new();
    let through = |(_, service): &(usize, &Service)| service.return_path == ReturnPath::Through;
    for (entry, service) in services.iter().enumerate().filter(through) {
        let Service { vip, protocol, .. } = *service;
        let mut first_of = |endpoint| *owners.entry((endpoint, protocol)).or_insert(vip);
        let owned: Vec<_> = service.backends().map(|one| (one, first_of(one))).collect();
        if let Some(&(endpoint, first)) = owned.iter().find(|(_, first)| *first != vip) {
            let error = ConfigError::Ambiguous {
                endpoint,
                protocol,
                first,
                second: vip,
            };
            mistakes.push(Placed::within(SERVICES, entry, error));
        }
    }
    let are_backends = services.iter().enumerate();
    let are_backends =
        are_backends.filter(|(_, one)| owners.contains_key(&(one.vip, one.protocol)));
    mistakes.extend(are_backends.map(|(entry, service)| {
        let error = ConfigError::BackendIsService {
            vip: service.vip,
            protocol: service.protocol,
        };
        Placed::within(SERVICES, entry, error)
    }));
    mistakes
}

/// A virtual endpoint and the backends behind it.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RawService {
    /// Address and port that clients talk to.
    vip: EndpointText,
    /// Its transport protocol.
    protocol: Protocol,
    /// How a backend's answers reach the client.
    #[serde(default, rename = "return")]
    return_path: ReturnPath,
    /// Who serves it; at least one, here or added by a change.
    #[serde(default)]
    pub backends: Vec<Backend>,
    /// Backends that come and go at times of the run.
    #[serde(default)]
    #[schemars(length(max = MAX_CHANGES))]
    changes: Vec<ScheduledChange>,
}

impl RawService {
    /// Whether it has backends, gives none of them a connection, and gets no others.
    pub fn has_drained_all(&self) -> bool {
        let Self {
            backends, changes, ..
        } = self;
        !backends.is_empty() && changes.is_empty() && backends.iter().all(|one| one.drained)
    }
}

impl TryFrom<RawService> for Service {
    type Error = ConfigError;

    fn try_from(raw: RawService) -> Result<Self, ConfigError> {
        let written = raw.clone();
        let RawService {
            vip: EndpointText(vip),
            protocol,
            return_path,
            backends,
            changes,
        } = raw;
        let added = changes.iter().filter_map(|change| match &change.kind {
            ChangeKind::Add(backend) => Some(backend),
            _ => None,
        });
        for backend in backends.iter().chain(added) {
            check_backend(vip, return_path, backend)?;
        }
        let (backends, epochs) = schedule::replay(vip, protocol, &backends, changes)?;
        if backends.is_empty() {
            return Err(ConfigError::NoBackends { vip, protocol });
        }
        Ok(Self {
            written,
            vip,
            protocol,
            return_path,
            backends,
            epochs,
        })
    }
}

fn check_backend(
    vip: Endpoint,
    return_path: ReturnPath,
    backend: &Backend,
) -> Result<(), ConfigError> {
    let endpoint = backend.endpoint.0;
    if endpoint.address.is_v4() != vip.address.is_v4() {
        return Err(ConfigError::Family { vip, endpoint });
    }
    match (return_path, backend.mac) {
        (ReturnPath::Direct, None) => Err(ConfigError::MacMissing { endpoint }),
        (ReturnPath::Through, Some(_)) => Err(ConfigError::MacUnused { endpoint }),
        _ => Ok(()),
    }
}
