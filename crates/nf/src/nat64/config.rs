//! The configuration of a translation between IP versions.

use super::prefix::Embedding;
use crate::checksums::VerifyChecksums;
use crate::descriptor::Placed;
use crate::firewall::Opening;
use crate::hosts::PrefixLength;
use crate::napt::config::{self as napt, Filtering, ForwardText, Pooling, PortsText, Timeouts};
use crate::napt::{Assignment, ConfigError as NaptError};
use crate::text::Text;
use schemars::JsonSchema;
use serde::Deserialize;
use twinpath_classify::{Prefix, Versions};
use twinpath_core::wire::Address;

/// The smallest MTU of IPv6, and the largest that can be said.
const MTUS: [u16; 2] = [1280, 9000];

/// The configuration of a translation between IP versions; see the [module](super).
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(try_from = "Written")]
#[schemars(with = "Written")]
pub struct Config {
    pub(super) napt: napt::Config,
    pub(super) embedding: Embedding,
    pub(super) mtu: u16,
    pub(super) lowest_mtu: u16,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Written {
    /// The networks of IPv6 whose hosts are translated.
    #[schemars(length(min = 1, max = napt::MAX_INSIDE))]
    inside: Vec<Text<Prefix>>,
    /// The IPv4 addresses that they share, or prefixes of them; with those of `forward` 1 to 4096
    /// addresses.
    #[schemars(length(max = napt::MAX_ADDRESSES))]
    external: Vec<Text<Prefix>>,
    /// External ports, or whole addresses, that stand for the same hosts inside in any case.
    #[serde(default)]
    #[schemars(length(max = napt::MAX_FORWARDS))]
    forward: Vec<ForwardText>,
    /// Behind what IPv4 addresses are: a prefix of IPv6 with 32, 40, 48, 56, 64 or 96 bits (RFC 6052
    /// §2.2).
    #[serde(default = "well_known")]
    prefix: Text<Prefix>,
    /// How long packets to hosts inside may be, in bytes: 1280 to 9000.
    #[serde(default = "default_mtu")]
    #[schemars(range(min = MTUS[0], max = MTUS[1]))]
    mtu: u16,
    /// How long packets to hosts inside are made at most that may be fragmented, in bytes; not
    /// more than `mtu` (RFC 7915 §4).
    #[serde(default = "default_lowest_mtu")]
    #[schemars(range(min = MTUS[0], max = MTUS[1]))]
    lowest_mtu: u16,
    /// The external ports to give out, as `"FIRST-LAST"`, from 1 to 65535.
    #[serde(default)]
    ports: PortsText,
    /// Which of the free ports a binding gets.
    #[serde(default)]
    assignment: Assignment,
    /// Most external ports that a host has at a time, of each of TCP, UDP and echoes; without it a
    /// quarter of `ports`, but 64 at least.
    #[schemars(range(min = 1))]
    ports_per_host: Option<u32>,
    /// Most sessions of a host at a time, those that others have opened included: it opens no more.
    /// Without it a quarter of `sessions`, but 64 at least.
    #[schemars(range(min = 1))]
    sessions_per_host: Option<u32>,
    /// Leading bits of an address that tell one host from another for these limits: a host may take
    /// any address of its network.
    #[serde(default)]
    per_host_v6_prefix: PrefixLength,
    /// Others open no more TCP connections to a binding once it has so many sessions.
    #[serde(default = "napt::default_sessions_per_binding")]
    #[schemars(range(min = 1, max = napt::MAX_SESSIONS_PER_BINDING))]
    sessions_per_binding: u32,
    /// Most ICMP errors in a second, of each IP version; 0 for none.
    #[serde(default = "napt::default_errors_per_second")]
    errors_per_second: u32,
    /// Who outside may send to a binding (RFC 6146 §3.5.1).
    #[serde(default)]
    filtering: Filtering,
    /// Which external address a binding gets.
    #[serde(default)]
    pooling: Pooling,
    /// Most sessions at a time.
    #[serde(default = "napt::default_sessions")]
    #[schemars(range(min = 1, max = napt::MAX_SESSIONS))]
    sessions: usize,
    /// Whether a TCP connection may be met in mid-stream, as after a restart. If `false`, only a SYN
    /// opens one.
    #[serde(default = "napt::default_pick_up")]
    pick_up: bool,
    /// Which checksums are verified: with `"state"` those of packets that open a session, and of
    /// TCP segments with SYN, FIN or RST.
    #[serde(default)]
    verify_checksums: VerifyChecksums,
    /// How long sessions may be idle (RFC 6146 §4).
    #[serde(default)]
    timeouts: Timeouts,
}

/// 64:ff9b::/96.
fn well_known() -> Text<Prefix> {
    Text(Prefix::covering(Address(0x0064_ff9b << 96), 96))
}

fn default_mtu() -> u16 {
    1500
}

fn default_lowest_mtu() -> u16 {
    MTUS[0]
}

/// What is wrong with a configuration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// Not a prefix that IPv4 addresses can be behind.
    #[error(
        "prefix = {0}: expected IPv6 with 32, 40, 48, 56, 64 or 96 bits, of which those from 64 to 71 are zero"
    )]
    Prefix(Prefix),
    /// A prefix inside of another version.
    #[error("{0} in inside: expected IPv6")]
    Inside(Prefix),
    /// Hosts inside with addresses that stand for IPv4's.
    #[error(
        "{0} in inside: its addresses are within prefix = {1}, where they stand for those of IPv4"
    )]
    Own(Prefix, Prefix),
    /// An external address of another version.
    #[error("{0} in external: expected IPv4")]
    External(Prefix),
    /// An MTU out of range.
    #[error("{name} = {mtu}: expected {} to {}", MTUS[0], MTUS[1])]
    Mtu {
        /// Which.
        name: &'static str,
        /// What it is.
        mtu: u16,
    },
    /// Two MTUs the wrong way round.
    #[error("lowest_mtu = {0} is larger than mtu = {1}")]
    Mtus(u16, u16),
    /// What is wrong with the rest.
    #[error(transparent)]
    Napt(NaptError),
}

impl Config {
    /// The prefixes of the hosts inside.
    pub fn inside(&self) -> &[Prefix] {
        self.napt.inside()
    }

    /// The addresses that they share.
    pub fn external(&self) -> &[Prefix] {
        self.napt.external()
    }

    /// The connections from outside that each forward is for, as [there](napt::Config::forwarded).
    pub fn forwarded(&self) -> impl Iterator<Item = [Opening; 2]> {
        self.napt.forwarded()
    }

    /// The prefix that IPv4 addresses are behind.
    pub fn outside(&self) -> &[Prefix] {
        std::slice::from_ref(&self.embedding.prefix)
    }

    /// Whether IPv4 addresses are behind the well-known prefix.
    pub(super) fn is_well_known(&self) -> bool {
        self.embedding.prefix == well_known().0
    }
}

/// The number of the first prefix of another version, and the prefix.
fn of_another(prefixes: &[Text<Prefix>], version: Versions) -> Option<(usize, Prefix)> {
    let mut prefixes = prefixes.iter().map(|text| text.0).enumerate();
    prefixes.find(|(_, prefix)| prefix.versions() != version)
}

impl TryFrom<Written> for Config {
    type Error = Placed<ConfigError>;

    fn try_from(written: Written) -> Result<Self, Placed<ConfigError>> {
        let prefix = written.prefix.0;
        let wrong_prefix = Placed::at("prefix", ConfigError::Prefix(prefix));
        let embedding = Embedding::new(prefix).ok_or(wrong_prefix)?;
        if let Some((entry, other)) = of_another(&written.inside, Versions::V6) {
            return Err(Placed::within("inside", entry, ConfigError::Inside(other)));
        }
        let mut inside = written.inside.iter().map(|text| text.0).enumerate();
        let is_own =
            |other: &Prefix| prefix.includes(other.network()) && other.length() >= prefix.length();
        if let Some((entry, other)) = inside.find(|(_, other)| is_own(other)) {
            return Err(Placed::within(
                "inside",
                entry,
                ConfigError::Own(other, prefix),
            ));
        }
        if let Some((entry, other)) = of_another(&written.external, Versions::V4) {
            let error = ConfigError::External(other);
            return Err(Placed::within("external", entry, error));
        }
        let (mtu, lowest_mtu) = (written.mtu, written.lowest_mtu);
        for (name, mtu) in [("mtu", mtu), ("lowest_mtu", lowest_mtu)] {
            if !(MTUS[0]..=MTUS[1]).contains(&mtu) {
                return Err(Placed::at(name, ConfigError::Mtu { name, mtu }));
            }
        }
        if lowest_mtu > mtu {
            let error = ConfigError::Mtus(lowest_mtu, mtu);
            return Err(Placed::at("lowest_mtu", error));
        }
        let napt = napt::Written {
            inside: written.inside,
            external: written.external,
            forward: written.forward,
            ports: written.ports,
            assignment: written.assignment,
            untranslated: Vec::new(),
            blocks: None,
            ports_per_host: written.ports_per_host,
            sessions_per_host: written.sessions_per_host,
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
        let napt = napt::Config::new(napt, true);
        Ok(Self {
            napt: napt.map_err(|error| error.map(ConfigError::Napt))?,
            embedding,
            mtu,
            lowest_mtu,
        })
    }
}
