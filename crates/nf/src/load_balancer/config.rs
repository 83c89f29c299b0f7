//! The configuration, checked while it is read.

use super::error::ConfigError;
use super::schedule::{self, Epoch, PlannedBackend};
use super::values::{EndpointText, TableSize, Timeout, Weight};
use crate::checked;
use crate::duration::Human;
use crate::text::Text;
use serde::{Deserialize, Deserializer};
use std::collections::HashMap;
use std::fmt;
use twinpath_wire::{Endpoint, MacAddress, protocol};

/// Most rows of the backend table: backends of all services, those added later too. A state word
/// has 16 bits for a row, and the last number would look like no row at all.
pub const MAX_BACKENDS: usize = 65_535;
/// Most services.
pub const MAX_SERVICES: usize = 1024;
/// Most changes of one service's backends.
pub const MAX_CHANGES: usize = 1024;
/// Most entries of all lookup tables together: one table for each service and each of its
/// changes. Two bytes each.
pub const MAX_TABLE_ENTRIES: u64 = 1 << 26;
/// Largest lookup table.
pub const MAX_TABLE_SIZE: u32 = 655_373;
/// Largest weight.
pub const MAX_WEIGHT: u32 = 1000;

/// A load balancer's configuration.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "RawConfig")]
pub struct Config {
    pub(super) table_size: TableSize,
    pub(super) seed: u64,
    pub(super) pick_up: bool,
    pub(super) tcp_timeout: Timeout,
    pub(super) closing_timeout: Timeout,
    pub(super) udp_timeout: Timeout,
    pub(super) services: Vec<Service>,
}

impl Config {
    /// The services, in the order of the configuration.
    pub fn services(&self) -> &[Service] {
        &self.services
    }
}

/// A virtual endpoint and the backends behind it.
#[derive(Clone, Debug)]
pub struct Service {
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

/// A transport protocol that can be balanced.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
}

impl Protocol {
    /// The IP protocol number.
    pub const fn number(self) -> u8 {
        match self {
            Self::Tcp => protocol::TCP,
            Self::Udp => protocol::UDP,
        }
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
        })
    }
}

/// How a backend's answers reach the client.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ReturnPath {
    /// Through Twinpath: addresses and ports are rewritten both ways.
    #[default]
    Through,
    /// Straight from the backend, which has the service's address itself: only the destination
    /// MAC address is rewritten.
    Direct,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawConfig {
    #[serde(default)]
    table_size: TableSize,
    #[serde(default = "default_seed")]
    seed: u64,
    #[serde(default = "default_pick_up")]
    pick_up: bool,
    #[serde(default = "default_tcp_timeout")]
    tcp_timeout: Timeout,
    #[serde(default = "default_closing_timeout")]
    closing_timeout: Timeout,
    #[serde(default = "default_udp_timeout")]
    udp_timeout: Timeout,
    #[serde(default)]
    services: Vec<Service>,
}

/// The same for all balancers unless one asks otherwise, so that they agree.
fn default_seed() -> u64 {
    0x6d61_676c_6576
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

impl TryFrom<RawConfig> for Config {
    type Error = ConfigError;

    fn try_from(raw: RawConfig) -> Result<Self, ConfigError> {
        let RawConfig {
            table_size,
            seed,
            pick_up,
            tcp_timeout,
            closing_timeout,
            udp_timeout,
            services,
        } = raw;
        check_limits(&services, table_size)?;
        check_services_differ(&services)?;
        check_backends_are_unambiguous(&services)?;
        Ok(Self {
            table_size,
            seed,
            pick_up,
            tcp_timeout,
            closing_timeout,
            udp_timeout,
            services,
        })
    }
}

fn check_limits(services: &[Service], table_size: TableSize) -> Result<(), ConfigError> {
    let backends = services.iter().map(|service| service.backends.len()).sum();
    let tables = services
        .iter()
        .map(|service| service.epochs.len() as u64)
        .sum::<u64>();
    if services.is_empty() || services.len() > MAX_SERVICES {
        return Err(ConfigError::ServiceCount(services.len()));
    }
    if backends > MAX_BACKENDS {
        return Err(ConfigError::TooManyBackends(backends));
    }
    if tables * u64::from(table_size.0) > MAX_TABLE_ENTRIES {
        return Err(ConfigError::TablesTooLarge {
            tables,
            size: table_size.0,
        });
    }
    let total_weight = |epoch: &Epoch| {
        epoch
            .members
            .iter()
            .map(|member| u64::from(member.weight))
            .sum::<u64>()
    };
    match services
        .iter()
        .flat_map(|service| &service.epochs)
        .map(total_weight)
        .max()
    {
        Some(weights) if weights > u64::from(table_size.0) => Err(ConfigError::TableTooSmall {
            weights,
            size: table_size.0,
        }),
        _ => Ok(()),
    }
}

fn check_services_differ(services: &[Service]) -> Result<(), ConfigError> {
    let mut known = HashMap::new();
    for service in services {
        if known.insert((service.vip, service.protocol), ()).is_some() {
            return Err(ConfigError::DuplicateService {
                vip: service.vip,
                protocol: service.protocol,
            });
        }
    }
    Ok(())
}

/// Packets from a backend must tell which service they belong to.
fn check_backends_are_unambiguous(services: &[Service]) -> Result<(), ConfigError> {
    let through = || {
        services
            .iter()
            .filter(|service| service.return_path == ReturnPath::Through)
    };
    let mut owners = HashMap::new();
    for (service, endpoint) in
        through().flat_map(|service| service.backends().map(move |endpoint| (service, endpoint)))
    {
        let Service { vip, protocol, .. } = *service;
        match owners.insert((endpoint, protocol), vip) {
            Some(first) if first != vip => {
                return Err(ConfigError::Ambiguous {
                    endpoint,
                    protocol,
                    first,
                    second: vip,
                });
            }
            _ => {}
        }
    }
    for Service { vip, protocol, .. } in services {
        if owners.contains_key(&(*vip, *protocol)) {
            return Err(ConfigError::BackendIsService {
                vip: *vip,
                protocol: *protocol,
            });
        }
    }
    Ok(())
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawService {
    vip: EndpointText,
    protocol: Protocol,
    #[serde(default, rename = "return")]
    return_path: ReturnPath,
    #[serde(default)]
    backends: Vec<Backend>,
    #[serde(default)]
    changes: Vec<Change>,
}

impl<'de> Deserialize<'de> for Service {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        checked::table::<_, RawService, _>(deserializer)
    }
}

impl TryFrom<RawService> for Service {
    type Error = ConfigError;

    fn try_from(raw: RawService) -> Result<Self, ConfigError> {
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

/// A backend as the configuration names it.
#[derive(Copy, Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Backend {
    pub endpoint: EndpointText,
    #[serde(default)]
    pub weight: Weight,
    pub mac: Option<Text<MacAddress>>,
    /// It gets no new connections from the start on.
    #[serde(default)]
    pub drained: bool,
}

/// A change of the backends at some time of the run.
#[derive(Copy, Clone, Debug)]
pub(super) struct Change {
    /// Since the start of the run.
    pub at: Human,
    pub kind: ChangeKind,
}

/// What changes.
#[derive(Copy, Clone, Debug)]
pub(super) enum ChangeKind {
    /// No new connections for this one.
    Drain(Endpoint),
    /// This one is gone.
    Remove(Endpoint),
    /// Another one, or one that was drained again.
    Add(Backend),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawChange {
    at: Human,
    drain: Option<EndpointText>,
    remove: Option<EndpointText>,
    add: Option<EndpointText>,
    weight: Option<Weight>,
    mac: Option<Text<MacAddress>>,
}

impl<'de> Deserialize<'de> for Change {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        checked::table::<_, RawChange, _>(deserializer)
    }
}

impl TryFrom<RawChange> for Change {
    type Error = ConfigError;

    fn try_from(raw: RawChange) -> Result<Self, ConfigError> {
        let RawChange {
            at,
            drain,
            remove,
            add,
            weight,
            mac,
        } = raw;
        let kind = match (drain, remove, add) {
            (Some(drain), None, None) => ChangeKind::Drain(drain.0),
            (None, Some(remove), None) => ChangeKind::Remove(remove.0),
            (None, None, Some(endpoint)) => ChangeKind::Add(Backend {
                endpoint,
                weight: weight.unwrap_or_default(),
                mac,
                drained: false,
            }),
            _ => return Err(ConfigError::ChangeKind),
        };
        match kind {
            ChangeKind::Add(_) => Ok(Self { at, kind }),
            _ if weight.is_none() && mac.is_none() => Ok(Self { at, kind }),
            _ => Err(ConfigError::OnlyWithAdd),
        }
    }
}
