//! How long an entry of a table may be idle, as configuration says it.

use crate::duration::Human;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// An idle time: a second to 30 days.
#[derive(
    Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize, JsonSchema,
)]
#[serde(try_from = "Human")]
#[schemars(title = format!("time, {MIN_IDLE_TIME} to {MAX_IDLE_TIME}"))]
pub struct IdleTime(Human);

/// The shortest.
pub const MIN_IDLE_TIME: Human = Human::seconds(1);
/// The longest.
pub const MAX_IDLE_TIME: Human = Human::seconds(30 * 86_400);

/// An idle time out of range.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an idle time of {0} is not between {MIN_IDLE_TIME} and {MAX_IDLE_TIME}")]
pub struct IdleTimeError(Human);

impl IdleTime {
    pub(crate) const fn seconds(count: u64) -> Self {
        Self(Human::seconds(count))
    }

    /// The time.
    pub const fn duration(self) -> Duration {
        self.0.duration()
    }
}

impl std::fmt::Display for IdleTime {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(formatter)
    }
}

impl TryFrom<Human> for IdleTime {
    type Error = IdleTimeError;

    fn try_from(time: Human) -> Result<Self, IdleTimeError> {
        match (MIN_IDLE_TIME..=MAX_IDLE_TIME).contains(&time) {
            true => Ok(Self(time)),
            false => Err(IdleTimeError(time)),
        }
    }
}
