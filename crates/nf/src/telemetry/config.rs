//! What an operator can set.

use crate::idle_time::IdleTime;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The telemetry's configuration; the [module](super) has a table of it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// A flow without packets for longer than this has ended.
    pub idle: IdleTime,
    /// A record ends after so long, though its flow goes on.
    pub active: IdleTime,
    /// How many of the largest flows the report of a run tells.
    #[schemars(range(min = 1, max = MOST_TOP))]
    pub top: Top,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            idle: IdleTime::seconds(60),
            active: IdleTime::seconds(300),
            top: Top(10),
        }
    }
}

/// Most flows that a report tells.
pub const MOST_TOP: usize = 1000;

/// How many flows a report tells.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(try_from = "i64")]
pub struct Top(pub usize);

/// A number of flows out of range.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("top = {0}: expected 1 to {MOST_TOP}")]
pub struct TopError(i64);

impl TryFrom<i64> for Top {
    type Error = TopError;

    fn try_from(number: i64) -> Result<Self, TopError> {
        match usize::try_from(number) {
            Ok(number @ 1..=MOST_TOP) => Ok(Self(number)),
            _ => Err(TopError(number)),
        }
    }
}
