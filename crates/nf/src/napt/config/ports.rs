//! Which external ports are given out, and how many a host may have.

use super::ConfigError;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The ports below 1024, which stand for one another.
pub(crate) const LOW: (u16, u16) = (1, 1023);

/// The external ports to give out.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(try_from = "String")]
#[schemars(with = "String", title = "range of ports")]
pub(crate) struct PortsText {
    pub first: u16,
    pub last: u16,
}

impl Serialize for PortsText {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{}-{}", self.first, self.last))
    }
}

impl PortsText {
    /// How many there are.
    pub const fn count(self) -> u32 {
        self.last as u32 - self.first as u32 + 1
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

/// Which of the free ports a new binding gets.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Assignment {
    /// Any, which outsiders cannot foresee (RFC 7857 §9, RFC 6056 §3.3.3).
    #[default]
    Random,
    /// Any of the same parity as the one inside, if there is one (RFC 4787 REQ-4).
    Parity,
    /// The one inside if it is free, else one of its parity (RFC 4787 §4.2.1).
    Preserve,
}

/// Each host has blocks of ports of its own.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Blocks {
    /// Ports of a block.
    #[schemars(range(min = 1, max = Self::MOST))]
    pub size: u16,
    /// How hosts come to theirs.
    pub assignment: BlockAssignment,
    /// Most blocks of a host, with `assignment = "dynamic"`; without it as many as `ports_per_host` take.
    #[schemars(range(min = 1))]
    pub per_host: Option<u32>,
}

/// How hosts come to their blocks of ports.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum BlockAssignment {
    /// A host's block follows from its address (RFC 7422): hosts in the order of `inside` have blocks
    /// of `ports` in order, as many as fit of the first address in `external`, then of the next. Who
    /// had a port can be computed, and nothing has to be logged.
    Deterministic,
    /// A host is given a block with its first binding, and another one when it has none left in those that
    /// it has (RFC 6888 REQ-14); a block comes back with the last binding in it. It is the host's for TCP,
    /// UDP and echoes. Exported are blocks that are given and come back, instead of bindings.
    Dynamic,
}

impl Blocks {
    /// Fewest ports of a block that hosts are given as they need it.
    pub const LEAST_DYNAMIC: u16 = 16;
    /// Most ports of a block.
    pub const MOST: u16 = 1 << 15;
}
