//! The monitor's configuration.

use crate::idle_time::IdleTime;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Most flows that a monitor can be told to know.
pub const MAX_FLOWS: usize = 16_000_000;

/// A monitor's configuration; see the [module](super).
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// What tells flows apart. The fewer bits do, the fewer cached rules the chain needs.
    pub by: By,
    /// Most flows at a time; packets of others are counted together.
    #[schemars(range(min = 1, max = MAX_FLOWS))]
    pub(super) flows: Limit,
    /// A flow without packets for longer than this has ended.
    pub(super) idle: IdleTime,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            by: By::Connection,
            flows: Limit(1_000_000),
            idle: IdleTime::seconds(300),
        }
    }
}

/// What tells flows apart.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum By {
    /// Both endpoints and the protocol.
    Connection,
    /// Both addresses.
    Hosts,
    /// The source address.
    Source,
    /// The destination address.
    Destination,
}

/// How many flows there may be.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(try_from = "i64")]
pub(super) struct Limit(pub usize);

/// What can be wrong with the configuration besides idle times.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// A number of flows out of range.
    #[error("flows = {0} is not from 1 to {MAX_FLOWS}")]
    Flows(i64),
}

impl TryFrom<i64> for Limit {
    type Error = ConfigError;

    fn try_from(number: i64) -> Result<Self, ConfigError> {
        match usize::try_from(number) {
            Ok(limit @ 1..=MAX_FLOWS) => Ok(Self(limit)),
            _ => Err(ConfigError::Flows(number)),
        }
    }
}
