//! Which external ports are given out, and how many a host may have.

use super::ConfigError;
use serde::Deserialize;

/// The external ports to give out.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(in super::super) struct PortsText {
    pub first: u16,
    pub last: u16,
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
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Deserialize)]
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
#[derive(Copy, Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Blocks {
    /// Ports of a block, 1 to 32768.
    pub size: u16,
    /// How hosts come to theirs.
    pub assignment: BlockAssignment,
}

/// How hosts come to their blocks of ports.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BlockAssignment {
    /// A host's block follows from its address (RFC 7422).
    Deterministic,
}

impl Blocks {
    /// Most ports of a block.
    pub const MOST: u16 = 1 << 15;
}
