//! The configuration of an address translation.

mod deterministic;
mod dynamic;
mod forward;
mod ports;

use crate::checksums::VerifyChecksums;
use crate::descriptor::Placed;
use crate::firewall::Opening;
use crate::hosts::PrefixLength;
use crate::idle_time::IdleTime;
use crate::shard::OtherShards;
use crate::text::Text;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use twinpath_classify::Prefix;
use twinpath_core::Share;
use twinpath_core::wire::Address;
use twinpath_core::wire::unicast::check_host;

pub(crate) use deterministic::{Block, Deterministic};
pub(crate) use dynamic::Dynamic;
pub use forward::ForwardError;
pub(crate) use forward::MAX_FORWARDS;
pub(crate) use forward::Written as ForwardText;
pub(crate) use forward::{Forward, ForwardEnds, Forwards};
pub use ports::{Assignment, BlockAssignment, Blocks};
pub(crate) use ports::{LOW, PortsText};

/// Most external addresses.
pub const MAX_ADDRESSES: usize = 4096;
/// Most prefixes of hosts inside.
pub const MAX_INSIDE: usize = 65_536;
/// Most sessions of one binding that can be asked for.
pub const MAX_SESSIONS_PER_BINDING: u32 = 65_536;
/// Most sessions that a translation can be told to know.
pub const MAX_SESSIONS: usize = 16_000_000;

/// The configuration of an address translation; see the [module](super).
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(try_from = "Written")]
#[schemars(with = "Written")]
pub struct Config {
    pub(crate) inside: Vec<Prefix>,
    /// Where hosts appear with their own addresses.
    pub(crate) untranslated: Vec<Prefix>,
    /// Those that are shared come first, then those of forwards alone.
    pub(crate) external: Vec<Address>,
    /// How many of them are shared.
    pub(crate) shared: usize,
    /// All of them.
    prefixes: Vec<Prefix>,
    /// Whether hosts have IPv6, and what stands for them IPv4.
    pub(crate) between_versions: bool,
    pub(crate) forwards: Forwards,
    pub(crate) ports: PortsText,
    /// Of the ports below 1024, those that ports below 1024 inside may get.
    pub(crate) low_ports: (u16, u16),
    /// Which other shards have other external endpoints, if there are some.
    pub(crate) other_shards: Option<OtherShards>,
    /// Which identifications are drawn on the slow path.
    pub(crate) identifications: Share,
    pub(crate) assignment: Assignment,
    pub(crate) deterministic: Option<Deterministic>,
    pub(crate) dynamic: Option<Dynamic>,
    pub(crate) ports_per_host: u32,
    pub(crate) sessions_per_host: u32,
    pub(crate) per_host_v6_prefix: PrefixLength,
    pub(crate) sessions_per_binding: u32,
    pub(crate) errors_per_second: u32,
    pub(crate) filtering: Filtering,
    pub(crate) pooling: Pooling,
    pub(crate) sessions: usize,
    pub(crate) pick_up: bool,
    pub(crate) verify_checksums: VerifyChecksums,
    pub(crate) timeouts: Timeouts,
}

impl Config {
    /// The prefixes of the hosts inside.
    pub fn inside(&self) -> &[Prefix] {
        &self.inside
    }

    /// The addresses that stand for them.
    pub fn external(&self) -> &[Prefix] {
        &self.prefixes
    }

    /// The connections from outside that each forward is for, in the order in which they are written:
    /// as they look outside and inside.
    pub fn forwarded(&self) -> impl Iterator<Item = [Opening; 2]> {
        self.forwards
            .written()
            .iter()
            .map(forward::Forward::openings)
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Written {
    /// The networks whose hosts are hidden.
    #[schemars(length(min = 1, max = MAX_INSIDE))]
    pub inside: Vec<Text<Prefix>>,
    /// Destinations that they reach with their own addresses (RFC 6888 REQ-6); none of them is inside.
    #[serde(default)]
    #[schemars(length(max = MAX_INSIDE))]
    pub untranslated: Vec<Text<Prefix>>,
    /// The addresses that they share, or prefixes of them (RFC 6888 REQ-3): IPv4, IPv6 or both, none
    /// of them inside; with those of `forward` 1 to 4096 addresses. Hosts of a version without an
    /// external address are not translated.
    #[schemars(length(max = MAX_ADDRESSES))]
    pub external: Vec<Text<Prefix>>,
    /// External ports, or whole addresses, that stand for the same hosts inside in any case.
    #[serde(default)]
    #[schemars(length(max = MAX_FORWARDS))]
    pub forward: Vec<ForwardText>,
    /// The external ports to give out, as `"FIRST-LAST"`, from 1 to 65535.
    #[serde(default)]
    pub ports: PortsText,
    /// Which of the free ports a binding gets.
    #[serde(default)]
    pub assignment: Assignment,
    /// Each host has a block of ports of its own.
    pub blocks: Option<Blocks>,
    /// Most external ports that a host has at a time, of each of TCP, UDP and echoes (RFC 6888
    /// REQ-4); without it a quarter of `ports`, but 64 at least, so that no host inside can take
    /// all ports from the others.
    #[schemars(range(min = 1))]
    pub ports_per_host: Option<u32>,
    /// Most sessions of a host at a time, those that others have opened included: it opens no more.
    /// Without it a quarter of `sessions`, but 64 at least, so that no host inside can fill the table.
    #[schemars(range(min = 1))]
    pub sessions_per_host: Option<u32>,
    /// Leading bits of an IPv6 address that tell one host from another for these limits: a host may
    /// take any address of its network.
    #[serde(default)]
    pub per_host_v6_prefix: PrefixLength,
    /// Others open no more TCP connections to a binding once it has so many sessions.
    #[serde(default = "default_sessions_per_binding")]
    #[schemars(range(min = 1, max = MAX_SESSIONS_PER_BINDING))]
    pub sessions_per_binding: u32,
    /// Most ICMP errors in a second to hosts inside that get no port or session (RFC 5508 REQ-8); 0
    /// for none.
    #[serde(default = "default_errors_per_second")]
    pub errors_per_second: u32,
    /// Who outside may send to a binding (RFC 4787 §5).
    #[serde(default)]
    pub filtering: Filtering,
    /// Which external address a binding gets (RFC 4787 §4.1).
    #[serde(default)]
    pub pooling: Pooling,
    /// Most sessions at a time.
    #[serde(default = "default_sessions")]
    #[schemars(range(min = 1, max = MAX_SESSIONS))]
    pub sessions: usize,
    /// Whether a TCP connection may be met in mid-stream, as after a restart. If `false`, only a SYN
    /// opens one.
    #[serde(default = "default_pick_up")]
    pub pick_up: bool,
    /// Which checksums are verified: with `"state"` those of packets that open a session, and of
    /// TCP segments with SYN, FIN or RST.
    #[serde(default)]
    pub verify_checksums: VerifyChecksums,
    /// How long sessions may be idle; they end with the tick of 67 ms in which that has passed.
    #[serde(default)]
    pub timeouts: Timeouts,
}

pub(crate) fn default_sessions() -> usize {
    1_000_000
}

pub(crate) fn default_sessions_per_binding() -> u32 {
    1024
}

/// A quarter of the sessions, but not so few that it is felt where there are few of them.
fn default_sessions_per_host(sessions: usize) -> u32 {
    u32::try_from(sessions / 4).unwrap_or(u32::MAX).max(64)
}

pub(crate) fn default_errors_per_second() -> u32 {
    100
}

/// A quarter of the ports, but not so few that it is felt where there are few of them.
fn default_ports_per_host(ports: PortsText) -> u32 {
    (ports.count() / 4).max(64)
}

pub(crate) fn default_pick_up() -> bool {
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
pub(crate) struct Timeouts {
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

/// What is wrong with a configuration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// A text that is no range of ports.
    #[error("ports = {0:?}: expected a range from 1 to 65535 such as \"1024-65535\"")]
    Ports(String),
    /// No inside, or too many prefixes.
    #[error("{0} prefixes in inside: expected 1 to {MAX_INSIDE}")]
    InsideCount(usize),
    /// Too many destinations.
    #[error("{0} prefixes in untranslated: expected at most {MAX_INSIDE}")]
    UntranslatedCount(usize),
    /// A destination that is a host inside.
    #[error(
        "{destination} in untranslated overlaps {inside} in inside, whose hosts reach each other as they are"
    )]
    UntranslatedInside {
        /// The destination.
        destination: Prefix,
        /// The prefix inside.
        inside: Prefix,
    },
    /// No external address, or too many.
    #[error("{0} addresses in external: expected 1 to {MAX_ADDRESSES}")]
    ExternalCount(usize),
    /// An external address twice.
    #[error("{0} is in external twice")]
    Twice(Address),
    /// An external address that no host can have.
    #[error(
        "{0} in external: expected the address of a host, not one that is unspecified, loopback, multicast, reserved or broadcast"
    )]
    Impossible(Address),
    /// An external address that is a host's inside.
    #[error("{address} in external lies within {prefix} in inside")]
    ExternalInside {
        /// The address.
        address: Address,
        /// The prefix.
        prefix: Prefix,
    },
    /// A prefix in external with more addresses than there may be.
    #[error("{0} in external has more than {MAX_ADDRESSES} addresses")]
    Pool(Prefix),
    /// A forward that cannot be.
    #[error("forward: {0}")]
    Forward(ForwardError),
    /// Blocks of no port, or of more than there are.
    #[error("blocks of {0} ports: expected 1 to 32768, and no more than there are in ports")]
    BlockSize(u16),
    /// Blocks with few ports that hosts are given as they need them.
    #[error(
        "dynamic blocks of {0} ports: expected 16 to 32768, and no more than there are in ports"
    )]
    DynamicBlockSize(u16),
    /// What is not said of blocks that follow from the host.
    #[error(
        "per_host: a host has one deterministic block; expected assignment = \"dynamic\" with it"
    )]
    BlocksOfHost,
    /// Not enough blocks.
    #[error(
        "blocks: {hosts} hosts inside, but {most} blocks: expected larger external, or smaller blocks or inside"
    )]
    TooManyHosts {
        /// Hosts inside, of one IP version.
        hosts: u128,
        /// Blocks for them.
        most: u128,
    },
    /// No port, or session, for anybody.
    #[error("{0} = 0: expected at least 1")]
    Nothing(&'static str),
    /// More sessions of a binding than are looked at.
    #[error("sessions_per_binding = {0}: expected at most {MAX_SESSIONS_PER_BINDING}")]
    SessionsPerBinding(u32),
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

/// What is wrong with a configuration, and where.
type Misplaced = Placed<ConfigError>;

impl TryFrom<Written> for Config {
    type Error = Misplaced;

    fn try_from(written: Written) -> Result<Self, Misplaced> {
        Self::new(written, false)
    }
}

/// All addresses of prefixes, each with the number of its prefix.
fn pool(prefixes: &[Prefix]) -> Result<Vec<(usize, Address)>, Misplaced> {
    let mut addresses = Vec::new();
    for (entry, &prefix) in prefixes.iter().enumerate() {
        let count = deterministic::count(&prefix);
        if count > MAX_ADDRESSES as u128 {
            let pool = ConfigError::Pool(prefix);
            return Err(Placed::within(EXTERNAL, entry, pool));
        }
        let all = (0..count).map(|more| Address(prefix.network().0 + more));
        addresses.extend(all.map(|address| (entry, address)));
        if addresses.len() > MAX_ADDRESSES {
            return Err(count_of(&addresses));
        }
    }
    Ok(addresses)
}

fn check_untranslated(untranslated: &[Prefix], inside: &[Prefix]) -> Result<(), Misplaced> {
    const KEY: &str = "untranslated";
    if untranslated.len() > MAX_INSIDE {
        let count = ConfigError::UntranslatedCount(untranslated.len());
        return Err(Placed::at(KEY, count));
    }
    for (entry, &destination) in untranslated.iter().enumerate() {
        let overlaps = |inside: &&Prefix| {
            inside.includes(destination.network()) || destination.includes(inside.network())
        };
        if let Some(&inside) = inside.iter().find(overlaps) {
            let error = ConfigError::UntranslatedInside {
                destination,
                inside,
            };
            return Err(Placed::within(KEY, entry, error));
        }
    }
    Ok(())
}

fn count_of(external: &[(usize, Address)]) -> Misplaced {
    Placed::at(EXTERNAL, ConfigError::ExternalCount(external.len()))
}

const fn at_blocks(error: ConfigError) -> Misplaced {
    Placed::at(BLOCKS, error)
}

fn deterministic_blocks(
    blocks: Blocks,
    inside: &[Prefix],
    shared: &[Address],
    ports: PortsText,
) -> Result<Deterministic, ConfigError> {
    match blocks.per_host {
        None => Deterministic::new(inside, shared, ports, blocks.size),
        Some(_) => Err(ConfigError::BlocksOfHost),
    }
}

fn dynamic_blocks(
    Blocks { size, per_host, .. }: Blocks,
    ports: PortsText,
    ports_per_host: u32,
    v6_prefix: PrefixLength,
) -> Result<Dynamic, ConfigError> {
    let sizes = Blocks::LEAST_DYNAMIC..=Blocks::MOST;
    if !sizes.contains(&size) || u32::from(size) > ports.count() {
        return Err(ConfigError::DynamicBlockSize(size));
    }
    if per_host == Some(0) {
        return Err(ConfigError::Nothing("per_host"));
    }
    Ok(Dynamic {
        ports,
        size,
        per_host: per_host.unwrap_or(ports_per_host.div_ceil(u32::from(size)).max(1)),
        v6_prefix,
    })
}

/// Keys of the table.
const EXTERNAL: &str = "external";
const FORWARD: &str = "forward";
const BLOCKS: &str = "blocks";

/// What stands for hosts inside: see the fields of [`Config`].
struct External {
    prefixes: Vec<Prefix>,
    addresses: Vec<Address>,
    shared: usize,
    forwards: Forwards,
}

impl External {
    fn new(
        prefixes: Vec<Text<Prefix>>,
        forwards: Vec<ForwardText>,
        inside: &[Prefix],
        between_versions: bool,
    ) -> Result<Self, Misplaced> {
        let mut prefixes: Vec<Prefix> = prefixes.into_iter().map(|text| text.0).collect();
        let pool = pool(&prefixes)?;
        check_addresses(EXTERNAL, &pool, inside)?;
        let mut addresses: Vec<Address> = pool.iter().map(|(_, address)| *address).collect();
        let shared = addresses.len();
        let in_forward = |error: Placed<ForwardError>| error.map(ConfigError::Forward);
        let written_forwards = forward::read(forwards).map_err(in_forward)?;
        let forwards = Forwards::new(&written_forwards, inside, &addresses, between_versions);
        let forwards = forwards.map_err(in_forward)?;
        let others = forward::other_addresses(&written_forwards, &addresses);
        check_addresses(FORWARD, &others, inside)?;
        let others = others.into_iter().map(|(_, address)| address);
        prefixes.extend(others.clone().map(Prefix::from));
        addresses.extend(others);
        if !(1..=MAX_ADDRESSES).contains(&addresses.len()) {
            let count = ConfigError::ExternalCount(addresses.len());
            return Err(Placed::at(EXTERNAL, count));
        }
        Ok(Self {
            prefixes,
            addresses,
            shared,
            forwards,
        })
    }
}

impl Config {
    /// What a table says, of hosts that have IPv4 and IPv6, or else IPv6 behind addresses of IPv4.
    pub(crate) fn new(written: Written, between_versions: bool) -> Result<Self, Misplaced> {
        let inside: Vec<Prefix> = written.inside.into_iter().map(|text| text.0).collect();
        if !(1..=MAX_INSIDE).contains(&inside.len()) {
            let count = ConfigError::InsideCount(inside.len());
            return Err(Placed::at("inside", count));
        }
        let untranslated = written.untranslated.into_iter().map(|text| text.0);
        let untranslated: Vec<Prefix> = untranslated.collect();
        check_untranslated(&untranslated, &inside)?;
        let external = External::new(written.external, written.forward, &inside, between_versions)?;
        let default = default_ports_per_host(written.ports);
        let ports_per_host = written.ports_per_host.unwrap_or(default);
        let blocks = written.blocks.map(|blocks| (blocks, blocks.assignment));
        let (deterministic, dynamic) = match blocks {
            None => (None, None),
            Some((blocks, BlockAssignment::Deterministic)) => {
                let shared = &external.addresses[..external.shared];
                let deterministic = deterministic_blocks(blocks, &inside, shared, written.ports);
                (Some(deterministic.map_err(at_blocks)?), None)
            }
            Some((blocks, BlockAssignment::Dynamic)) => {
                let prefix = written.per_host_v6_prefix;
                let dynamic = dynamic_blocks(blocks, written.ports, ports_per_host, prefix);
                (None, Some(dynamic.map_err(at_blocks)?))
            }
        };
        let config = Self {
            inside,
            untranslated,
            external: external.addresses,
            shared: external.shared,
            prefixes: external.prefixes,
            between_versions,
            forwards: external.forwards,
            ports: written.ports,
            low_ports: LOW,
            other_shards: None,
            identifications: Share::SLOW_PATH,
            assignment: written.assignment,
            deterministic,
            dynamic,
            ports_per_host,
            sessions_per_host: written
                .sessions_per_host
                .unwrap_or_else(|| default_sessions_per_host(written.sessions)),
            per_host_v6_prefix: written.per_host_v6_prefix,
            sessions_per_binding: written.sessions_per_binding,
            errors_per_second: written.errors_per_second,
            filtering: written.filtering,
            pooling: written.pooling,
            sessions: written.sessions,
            pick_up: written.pick_up,
            verify_checksums: written.verify_checksums,
            timeouts: written.timeouts,
        };
        config.check_numbers()?;
        Ok(config)
    }

    /// The same with other forwards.
    ///
    /// # Errors
    /// They cannot be, or contradict each other.
    pub(crate) fn with_forwards(&self, forwards: &[Forward]) -> Result<Self, ConfigError> {
        if forwards.len() > MAX_FORWARDS {
            return Err(ForwardError::Count(forwards.len()).into());
        }
        let own = self.prefixes.len() - (self.external.len() - self.shared);
        let shared = &self.external[..self.shared];
        let all = Forwards::new(forwards, &self.inside, shared, self.between_versions);
        let mut config = Self {
            forwards: all.map_err(|placed| placed.error)?,
            prefixes: self.prefixes[..own].to_vec(),
            external: shared.to_vec(),
            ..self.clone()
        };
        let others = forward::other_addresses(forwards, shared);
        check_addresses(FORWARD, &others, &self.inside).map_err(|placed| placed.error)?;
        let others = others.into_iter().map(|(_, address)| address);
        config.prefixes.extend(others.clone().map(Prefix::from));
        config.external.extend(others);
        match config.external.len() {
            1..=MAX_ADDRESSES => Ok(config),
            count => Err(ConfigError::ExternalCount(count)),
        }
    }

    /// The first of the addresses that hosts share.
    pub(crate) fn first_external(&self) -> Option<Address> {
        self.external[..self.shared].first().copied()
    }

    fn check_numbers(&self) -> Result<(), Misplaced> {
        if !(1..=MAX_SESSIONS).contains(&self.sessions) {
            let sessions = ConfigError::Sessions(self.sessions);
            return Err(Placed::at("sessions", sessions));
        }
        for (key, number) in [
            ("ports_per_host", self.ports_per_host),
            ("sessions_per_host", self.sessions_per_host),
            ("sessions_per_binding", self.sessions_per_binding),
        ] {
            if number == 0 {
                return Err(Placed::at(key, ConfigError::Nothing(key)));
            }
        }
        if self.sessions_per_binding > MAX_SESSIONS_PER_BINDING {
            let most = ConfigError::SessionsPerBinding(self.sessions_per_binding);
            return Err(Placed::at("sessions_per_binding", most));
        }
        let Timeouts {
            tcp_established: established,
            tcp_transitory: transitory,
            ..
        } = self.timeouts;
        if transitory > established {
            let error = ConfigError::Timeouts {
                transitory,
                established,
            };
            return Err(Placed::at("timeouts", error));
        }
        Ok(())
    }
}

/// Checks external addresses, each with the number of its entry in the list at a key.
fn check_addresses(
    key: &'static str,
    external: &[(usize, Address)],
    inside: &[Prefix],
) -> Result<(), Misplaced> {
    let mut seen = std::collections::HashSet::new();
    for &(entry, address) in external {
        let around = inside.iter().find(|prefix| prefix.includes(address));
        let error = match around {
            _ if check_host(address).is_err() => ConfigError::Impossible(address),
            Some(&prefix) => ConfigError::ExternalInside { address, prefix },
            None if !seen.insert(address) => ConfigError::Twice(address),
            None => continue,
        };
        return Err(Placed::within(key, entry, error));
    }
    Ok(())
}
