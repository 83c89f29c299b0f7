//! The configuration, checked while it is read.

use super::rules::Variables;
use crate::duration::Human;
use crate::files::Files;
use crate::hosts::{HostLimit, PrefixLength};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::io;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use twinpath_core::Guarantees;
use twinpath_core::guarantee::{Demand, Guarantee, Need};

/// A packet inspector's configuration.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The rules file; a relative path starts from the service file's folder. Each line is a rule in
    /// the inspector's own words, or in Suricata's.
    #[schemars(title = "file")]
    pub rules: PathBuf,
    /// What addresses and ports stand for `$NAME` in Suricata's rules. `HOME_NET` and `EXTERNAL_NET`
    /// are `any` unless they are said.
    #[serde(default)]
    pub variables: Variables,
    /// Whether a rule in Suricata's words that says what cannot be honoured is an error; else it is
    /// left out, counted (`rules_left_out`) and told as a warning.
    #[serde(default)]
    pub strict: bool,
    /// How many bytes of each direction of a flow are inspected, from its first on: what comes
    /// behind them passes on the fast path. At least 64, below 2^31.
    #[serde(default = "one_mebibyte")]
    pub depth: Depth,
    /// What becomes of bytes of a TCP stream that cannot be inspected in their order.
    #[serde(default)]
    pub gaps: Gaps,
    /// What becomes of fragments of packets that a rule is for. With `gaps = "inspect"` they pass.
    #[serde(default)]
    pub fragments: Fragments,
    /// How long a banned flow must be silent before it is a new one.
    #[serde(default = "five_minutes")]
    pub ban_timeout: Timeout,
    /// How long a TCP connection must be silent until what is known of it is forgotten, half-seen
    /// occurrences too: it is picked up in mid-stream then.
    #[serde(default = "two_hours")]
    pub stream_timeout: Timeout,
    /// The same while the connection is half-open: only one end was heard, or nobody has acknowledged
    /// what the other end has sent.
    #[serde(default = "half_a_minute")]
    pub half_open_timeout: Timeout,
    /// The same of what is no TCP: how much of such a flow has been inspected.
    #[serde(default = "five_minutes")]
    pub datagram_timeout: Timeout,
    /// Flows of which something half seen is remembered at the same time, per worker: half-open ones
    /// take a quarter at most. A packet that would need more is dropped, to be sent again
    /// (`stream_table_full`); with `gaps = "inspect"` it passes, and what was half seen is forgotten.
    #[serde(default = "many_streams")]
    pub streams: u32,
    /// How many of these flows one host may have opened, by all workers together; a network of IPv6 of
    /// 64 bits counts as one host. A packet that would need more is treated in the same way
    /// (`host_limit`). If absent, there is no limit, for behind one address may be thousands.
    #[serde(default)]
    #[schemars(range(min = 1))]
    pub streams_per_host: Option<NonZeroU32>,
    /// What inspects streams on the slow path.
    #[serde(default)]
    pub matcher: Matcher,
    /// What the rules file said when it was read.
    #[serde(skip)]
    pub(super) text: Option<Arc<str>>,
}

impl Config {
    /// Reads the rules file, so that the inspector will be what the file says now.
    pub(super) fn read_file(&mut self, folder: &Path, files: &dyn Files) -> io::Result<()> {
        self.text = Some(self.read_rules(folder, files)?);
        Ok(())
    }

    /// What stands for addresses and ports in rules.
    pub(super) fn variables(&self) -> Variables {
        let mut variables = self.variables.clone();
        for name in ["HOME_NET", "EXTERNAL_NET"] {
            let value = || "any".to_owned();
            variables.entry(name.to_owned()).or_insert_with(value);
        }
        variables
    }

    /// It needs streams in order, unless it takes them as they come, and nobody behind it who refuses
    /// what it has inspected.
    pub(super) fn guarantees(&self) -> Guarantees {
        let [order, checks] = match self.gaps {
            Gaps::Inspect => [Demand::Preferred; 2],
            Gaps::Drop | Gaps::Ban => [Demand::Always, Demand::IfGiven],
        };
        let ordered = Need {
            guarantee: Guarantee::Ordered,
            demand: order,
            reason: "looks for what spans segments, so it needs them in order, in both directions: expected a reassembler in front of it, or gaps = \"inspect\" in its table, which takes them as they come",
        };
        let checked = Need {
            guarantee: Guarantee::Checked,
            demand: checks,
            reason: "looks at each byte once, so functions that refuse segments have to stand in front of it in both directions, or other bytes could be sent in the place of refused ones: expected a firewall in front of it, or gaps = \"inspect\" in its table",
        };
        Guarantees {
            gives: None,
            needs: [Some(ordered), Some(checked)],
        }
    }

    /// The limit of each host's streams, if there is one.
    pub(super) fn host_limit(&self) -> Option<HostLimit> {
        let streams = self.streams_per_host?;
        Some(HostLimit::new(streams, PrefixLength::NETWORK))
    }

    /// Whether fragments that cannot be inspected are dropped.
    pub(super) fn drops_fragments(&self) -> bool {
        self.gaps != Gaps::Inspect && self.fragments == Fragments::Drop
    }

    /// The text of the rules file as it is now.
    pub(super) fn read_rules(&self, folder: &Path, files: &dyn Files) -> io::Result<Arc<str>> {
        files.read(&folder.join(&self.rules))
    }
}

/// What becomes of bytes of a TCP stream that cannot be inspected in their order: bytes in front of
/// them are missing, or came too late.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Gaps {
    /// They are dropped, until their sender has sent what is missing. What the receiver acknowledges
    /// although it never came by is passed over.
    #[default]
    Drop,
    /// Their flow is banned.
    Ban,
    /// They pass, and are inspected apart from what is missing: what spans a gap is not found.
    Inspect,
}

/// What becomes of fragments of packets that a rule is for.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Fragments {
    /// They are dropped: whether a receiver takes them follows from a checksum that no fragment
    /// tells, so what they say cannot be part of what is inspected.
    #[default]
    Drop,
    /// They pass uninspected, and so does whatever somebody cuts to pieces.
    Forward,
}

/// What inspects streams on the slow path.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Matcher {
    /// The matcher written in Rust.
    #[default]
    Rust,
    /// Hyperscan; needs the program to be built with the feature `hyperscan`.
    Hyperscan,
}

/// How much of a direction is inspected.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(try_from = "u32")]
pub struct Depth(#[schemars(range(min = 64, max = 0x7fff_ffff))] u32);

impl Depth {
    /// In bytes.
    pub const fn bytes(self) -> u32 {
        self.0
    }
}

/// A depth that is none.
#[derive(Copy, Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected a depth of 64 bytes or more, and below 2147483648")]
pub struct DepthError;

impl TryFrom<u32> for Depth {
    type Error = DepthError;

    fn try_from(bytes: u32) -> Result<Self, DepthError> {
        match bytes {
            64..=0x7fff_ffff => Ok(Self(bytes)),
            _ => Err(DepthError),
        }
    }
}

/// A time-out of at least one tick, short enough for differences of ticks.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(try_from = "Human")]
#[schemars(title = "time above 0, below four years")]
pub struct Timeout(Human);

impl Timeout {
    /// In ticks of 67 ms.
    pub fn ticks(self) -> u32 {
        self.0.ticks()
    }
}

/// A time-out that cannot be measured.
#[derive(Copy, Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected a time-out longer than 0 and shorter than four years")]
pub struct TimeoutError;

impl TryFrom<Human> for Timeout {
    type Error = TimeoutError;

    fn try_from(duration: Human) -> Result<Self, TimeoutError> {
        match duration.ticks() {
            1..=0x7fff_ffff => Ok(Self(duration)),
            _ => Err(TimeoutError),
        }
    }
}

fn five_minutes() -> Timeout {
    Timeout(Human::seconds(300))
}

fn half_a_minute() -> Timeout {
    Timeout(Human::seconds(30))
}

/// More than the two hours and four minutes that a host takes to send the first keep-alive (RFC 5382
/// §5, RFC 9293 §3.8.4), so that it comes in time.
fn two_hours() -> Timeout {
    Timeout(Human::seconds(2 * 3600 + 4 * 60))
}

fn one_mebibyte() -> Depth {
    Depth(1 << 20)
}

fn many_streams() -> u32 {
    65_536
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_rules_file_must_be_named() {
        let config: Config = toml::from_str("rules = \"a.rules\"").expect("valid");
        assert_eq!(config.streams, 65_536);
        let error = toml::from_str::<Config>("rules = \"a\"\nban_timeout = \"0s\"")
            .expect_err("no time at all")
            .to_string();
        assert!(
            error.contains("line 2") && error.contains("expected a time-out"),
            "{error}"
        );
    }
}
