//! The firewall's configuration, checked while it is read.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::num::NonZeroU32;

use super::rule::{Action, NoPort, Rule, port_number};
use crate::duration::Human;
use crate::hosts::{HostLimit, PrefixLength};

/// Most rules in one firewall.
pub const MAX_RULES: usize = 10_000;

/// What a firewall is told; see the [module](super) for what the settings mean.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// What happens to a connection that no rule matches.
    pub default: Action,
    /// Whether a TCP connection may be met in mid-stream: after a restart, or a silence longer than
    /// its time-out. The rules see its first packet as it is. If `false`, only a SYN opens a
    /// connection, and an echo reply opens none.
    pub pick_up: bool,
    /// Whether segments outside the windows are forwarded and counted instead of dropped: for
    /// networks where the firewall sees only some of the packets.
    pub liberal: bool,
    /// Whether ICMP redirects pass, of either IP version: only hosts of one link should hear them.
    pub redirects: bool,
    /// Which checksums of TCP, UDP, ICMP and ICMPv6 are verified.
    pub verify_checksums: Verify,
    /// How long connections may be idle before they are forgotten.
    pub timeouts: Timeouts,
    /// Connections that one host may have opened at a time: those that are still remembered,
    /// by all workers together. If absent, there is no limit, for behind one address may be one host,
    /// or a proxy or translation with thousands; half-open ones are limited in all by `half_open` of
    /// `[slow_path]`. On network interfaces a file without a limit is warned of: established connections
    /// are never forgotten for want of room, so that one host could take all that there is.
    #[schemars(range(min = 1))]
    pub per_host_connections: Option<NonZeroU32>,
    /// Leading bits of an IPv6 address that tell one host from another: a host may take any address
    /// of its network.
    #[schemars(range(min = 1, max = 128))]
    pub per_host_v6_prefix: PrefixLength,
    /// The rules, in order: the first that matches a connection's first packet decides.
    #[schemars(length(max = MAX_RULES))]
    pub rules: Rules,
    /// The names of the node's ports, by number.
    #[serde(skip)]
    pub ports: Vec<String>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            default: Action::Deny,
            pick_up: true,
            liberal: false,
            redirects: false,
            verify_checksums: Verify::State,
            timeouts: Timeouts::default(),
            per_host_connections: None,
            per_host_v6_prefix: PrefixLength::NETWORK,
            rules: Rules::default(),
            ports: Vec::new(),
        }
    }
}

/// Which packets a firewall verifies the checksums of. One whose checksum is wrong where it is verified is
/// dropped as `bad_checksum`, and changes nothing.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Verify {
    /// ICMP errors alone. For captures of hosts that leave checksums to their network card, and
    /// where a network card has verified them.
    None,
    /// Packets that open a connection or change its state otherwise than data and acknowledgements do.
    /// These move windows unverified: their receiver drops them if they are broken, and who sees no
    /// packets of a connection gains nothing by a wrong checksum.
    #[default]
    State,
    /// All, on the fast path too, which reads each packet to its end for it: for networks that damage
    /// packets. Fragments are excepted.
    All,
}

impl Verify {
    /// Whether packets that change state are verified.
    pub(super) const fn of_state(self) -> bool {
        !matches!(self, Self::None)
    }

    /// Whether data and acknowledgements are, too.
    pub(super) const fn of_all(self) -> bool {
        matches!(self, Self::All)
    }
}

/// How long a connection may be idle before it is forgotten.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Timeouts {
    /// TCP connections in which both ends may send.
    pub tcp_established: Timeout,
    /// TCP connections of which the opener alone was heard, or whose opener has not acknowledged the
    /// answer.
    pub tcp_half_open: Timeout,
    /// TCP connections that close.
    pub tcp_transitory: Timeout,
    /// TCP connections that were reset.
    pub tcp_closed: Timeout,
    /// UDP without an answer.
    pub udp_unreplied: Timeout,
    /// UDP with an answer.
    pub udp_replied: Timeout,
    /// ICMP echoes and whatever else in ICMP is no error.
    pub icmp: Timeout,
    /// Any other protocol between two addresses.
    pub other: Timeout,
}

impl Default for Timeouts {
    fn default() -> Self {
        let seconds = |count| Timeout(Human::seconds(count));
        Self {
            tcp_established: seconds(3600),
            tcp_half_open: seconds(30),
            tcp_transitory: seconds(240),
            tcp_closed: seconds(10),
            udp_unreplied: seconds(30),
            udp_replied: seconds(180),
            icmp: seconds(30),
            other: seconds(600),
        }
    }
}

/// An idle time-out: not less than the clock of flow state can tell, not more than a month.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(try_from = "Human")]
#[schemars(title = format!("time, {MIN_TIMEOUT} to {MAX_TIMEOUT}"))]
pub struct Timeout(Human);

/// The shortest time-out.
pub const MIN_TIMEOUT: Human = Human::milliseconds(100);
/// The longest time-out.
pub const MAX_TIMEOUT: Human = Human::seconds(30 * 86_400);

impl Timeout {
    /// The time-out in ticks of flow state.
    pub fn ticks(self) -> u32 {
        self.0.ticks()
    }
}

/// A list of at most [`MAX_RULES`] rules.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(try_from = "Vec<Rule>")]
pub struct Rules(Vec<Rule>);

impl Rules {
    /// The rules, in order.
    pub fn as_slice(&self) -> &[Rule] {
        &self.0
    }
}

impl Config {
    /// The rules, in order.
    pub fn rules(&self) -> &[Rule] {
        &self.rules.0
    }

    /// The limit of each host's connections, if there is one.
    pub(super) fn host_limit(&self) -> Option<HostLimit> {
        let connections = self.per_host_connections?;
        Some(HostLimit::new(connections, self.per_host_v6_prefix))
    }

    /// The same with other rules.
    ///
    /// # Errors
    /// Too many rules, or a rule that names no port of the node.
    pub fn with_rules(&self, rules: Vec<Rule>) -> Result<Self, ConfigError> {
        let config = Self {
            rules: rules.try_into()?,
            ..self.clone()
        };
        config.check_ingress()?;
        Ok(config)
    }

    /// Checks that rules name ports of the node.
    ///
    /// # Errors
    /// One does not.
    pub(super) fn check_ingress(&self) -> Result<(), ConfigError> {
        let mut named = self.rules().iter().filter_map(|rule| rule.ingress.as_ref());
        Ok(named.try_for_each(|name| port_number(name, &self.ports).map(drop))?)
    }
}

/// What is wrong with a configuration besides its single values.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// A time-out that is too short or too long.
    #[error("a time-out of {0} is not between {MIN_TIMEOUT} and {MAX_TIMEOUT}")]
    Timeout(Human),
    /// Too many rules.
    #[error("{0} rules are more than {MAX_RULES}")]
    TooManyRules(usize),
    /// A rule for packets of a port that there is not.
    #[error(transparent)]
    NoPort(#[from] NoPort),
}

impl TryFrom<Human> for Timeout {
    type Error = ConfigError;

    fn try_from(duration: Human) -> Result<Self, ConfigError> {
        let possible = (MIN_TIMEOUT..=MAX_TIMEOUT).contains(&duration);
        if possible {
            Ok(Self(duration))
        } else {
            Err(ConfigError::Timeout(duration))
        }
    }
}

impl TryFrom<Vec<Rule>> for Rules {
    type Error = ConfigError;

    fn try_from(rules: Vec<Rule>) -> Result<Self, ConfigError> {
        if rules.len() > MAX_RULES {
            Err(ConfigError::TooManyRules(rules.len()))
        } else {
            Ok(Self(rules))
        }
    }
}
