//! The configuration of an address translation.

use crate::idle_time::IdleTime;
use crate::text::Text;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use twinpath_classify::Prefix;
use twinpath_core::wire::Address;

/// Most external addresses.
pub const MAX_ADDRESSES: usize = 4096;
/// Most prefixes of hosts inside.
pub const MAX_INSIDE: usize = 65_536;
/// Most sessions that a translation can be told to know.
pub const MAX_SESSIONS: usize = 16_000_000;

/// The configuration of an address translation; see the [module](super).
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(try_from = "Written")]
#[schemars(with = "Written")]
pub struct Config {
    pub(super) inside: Vec<Prefix>,
    pub(super) external: Vec<Address>,
    pub(super) ports: PortsText,
    pub(super) filtering: Filtering,
    pub(super) pooling: Pooling,
    pub(super) sessions: usize,
    pub(super) pick_up: bool,
    pub(super) timeouts: Timeouts,
}

impl Config {
    /// The prefixes of the hosts inside.
    pub fn inside(&self) -> &[Prefix] {
        &self.inside
    }

    /// The addresses that they share.
    pub fn external(&self) -> &[Address] {
        &self.external
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Written {
    /// The networks whose hosts are hidden.
    #[schemars(length(min = 1, max = MAX_INSIDE))]
    inside: Vec<Text<Prefix>>,
    /// The addresses that they share: IPv4, IPv6 or both, none of them inside. Hosts of a version
    /// without an external address are not translated.
    #[schemars(length(min = 1, max = MAX_ADDRESSES))]
    external: Vec<Text<Address>>,
    /// The external ports to give out, as `"FIRST-LAST"`, from 1 to 65535.
    #[serde(default)]
    ports: PortsText,
    /// Who outside may send to a binding (RFC 4787 §5).
    #[serde(default)]
    filtering: Filtering,
    /// Which external address a binding gets (RFC 4787 §4.1).
    #[serde(default)]
    pooling: Pooling,
    /// Most sessions at a time.
    #[serde(default = "default_sessions")]
    #[schemars(range(min = 1, max = MAX_SESSIONS))]
    sessions: usize,
    /// Whether a TCP connection may be met in mid-stream, as after a restart. If `false`, only a SYN
    /// opens one.
    #[serde(default = "default_pick_up")]
    pick_up: bool,
    /// How long sessions may be idle; they end with the tick of 67 ms in which that has passed.
    #[serde(default)]
    timeouts: Timeouts,
}

fn default_sessions() -> usize {
    1_000_000
}

fn default_pick_up() -> bool {
    true
}

/// Who outside may send to a binding (RFC 4787 §5).
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Filtering {
    /// Anyone.
    #[default]
    EndpointIndependent,
    /// Addresses that it has sent to.
    AddressDependent,
    /// Endpoints that it has sent to.
    AddressAndPortDependent,
}

/// Which external address a binding gets (RFC 4787 §4.1).
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Pooling {
    /// All of a host's bindings have the same.
    #[default]
    Paired,
    /// A host gets another one when the ports of that one are used up.
    Arbitrary,
}

/// How long sessions may be idle.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Timeouts {
    /// UDP (RFC 4787 REQ-5: two minutes at least).
    pub udp: IdleTime,
    /// TCP connections in which both ends may send (RFC 5382 REQ-5).
    pub tcp_established: IdleTime,
    /// TCP connections that open or close; not longer than `tcp_established`.
    pub tcp_transitory: IdleTime,
    /// ICMP echoes (RFC 5508 REQ-2).
    pub icmp: IdleTime,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            udp: IdleTime::seconds(300),
            tcp_established: IdleTime::seconds(7440),
            tcp_transitory: IdleTime::seconds(240),
            icmp: IdleTime::seconds(60),
        }
    }
}

/// The external ports to give out.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(try_from = "String")]
#[schemars(with = "String", title = "range of ports")]
pub(super) struct PortsText {
    pub first: u16,
    pub last: u16,
}

impl Serialize for PortsText {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{}-{}", self.first, self.last))
    }
}

impl Default for PortsText {
    fn default() -> Self {
        Self {
            first: 1024,
            last: u16::MAX,
        }
    }
}

/// What is wrong with a configuration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// A text that is no range of ports.
    #[error("ports = {0:?}: expected a range from 1 to 65535 such as \"1024-65535\"")]
    Ports(String),
    /// No inside, or too many prefixes.
    #[error("{0} prefixes in inside: expected 1 to {MAX_INSIDE}")]
    InsideCount(usize),
    /// No external address, or too many.
    #[error("{0} addresses in external: expected 1 to {MAX_ADDRESSES}")]
    ExternalCount(usize),
    /// An external address twice.
    #[error("{0} is in external twice")]
    Twice(Address),
    /// An external address that is a host's inside.
    #[error("{address} in external lies within {prefix} in inside")]
    ExternalInside {
        /// The address.
        address: Address,
        /// The prefix.
        prefix: Prefix,
    },
    /// A number of sessions out of range.
    #[error("sessions = {0} is not from 1 to {MAX_SESSIONS}")]
    Sessions(usize),
    /// A transitory time-out beyond the established one.
    #[error("tcp_transitory = {transitory} is longer than tcp_established = {established}")]
    Timeouts {
        /// Of connections that open or close.
        transitory: IdleTime,
        /// Of others.
        established: IdleTime,
    },
}

impl TryFrom<Written> for Config {
    type Error = ConfigError;

    fn try_from(written: Written) -> Result<Self, ConfigError> {
        let config = Self {
            inside: written.inside.into_iter().map(|text| text.0).collect(),
            external: written.external.into_iter().map(|text| text.0).collect(),
            ports: written.ports,
            filtering: written.filtering,
            pooling: written.pooling,
            sessions: written.sessions,
            pick_up: written.pick_up,
            timeouts: written.timeouts,
        };
        config.check_addresses()?;
        if !(1..=MAX_SESSIONS).contains(&config.sessions) {
            return Err(ConfigError::Sessions(config.sessions));
        }
        let Timeouts {
            tcp_established: established,
            tcp_transitory: transitory,
            ..
        } = config.timeouts;
        if transitory > established {
            return Err(ConfigError::Timeouts {
                transitory,
                established,
            });
        }
        Ok(config)
    }
}

impl Config {
    fn check_addresses(&self) -> Result<(), ConfigError> {
        if !(1..=MAX_INSIDE).contains(&self.inside.len()) {
            return Err(ConfigError::InsideCount(self.inside.len()));
        }
        if !(1..=MAX_ADDRESSES).contains(&self.external.len()) {
            return Err(ConfigError::ExternalCount(self.external.len()));
        }
        let mut seen = std::collections::HashSet::new();
        for &address in &self.external {
            if !seen.insert(address) {
                return Err(ConfigError::Twice(address));
            }
            let around = self.inside.iter().find(|prefix| prefix.includes(address));
            if let Some(&prefix) = around {
                return Err(ConfigError::ExternalInside { address, prefix });
            }
        }
        Ok(())
    }
}

impl TryFrom<String> for PortsText {
    type Error = ConfigError;

    fn try_from(text: String) -> Result<Self, ConfigError> {
        let bounds = text.split_once('-').and_then(|(first, last)| {
            let first: u16 = first.trim().parse().ok()?;
            let last: u16 = last.trim().parse().ok()?;
            (1 <= first && first <= last).then_some(Self { first, last })
        });
        bounds.ok_or(ConfigError::Ports(text))
    }
}
