//! Values of the configuration that are checked on their own.

use super::error::ConfigError;
use super::limits::{MAX_TABLE_SIZE, MAX_WEIGHT};
use super::maglev::is_prime;
use crate::duration::Human;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use twinpath_wire::Endpoint;

/// The size of a lookup table: a prime.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(try_from = "i64")]
pub(super) struct TableSize(pub u32);

impl Default for TableSize {
    fn default() -> Self {
        Self(65_537)
    }
}

impl TryFrom<i64> for TableSize {
    type Error = ConfigError;

    fn try_from(number: i64) -> Result<Self, ConfigError> {
        match u32::try_from(number) {
            Ok(size) if size <= MAX_TABLE_SIZE && is_prime(size) => Ok(Self(size)),
            _ => Err(ConfigError::TableSize(number)),
        }
    }
}

/// A time-out: longer than nothing, and short enough for differences of ticks.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(try_from = "Human")]
#[schemars(title = "time above 0, below four years")]
pub(super) struct Timeout(Human);

impl Timeout {
    /// So many seconds.
    pub const fn seconds(seconds: u64) -> Self {
        Self(Human::seconds(seconds))
    }

    /// In ticks, at least 1.
    pub fn ticks(self) -> u32 {
        self.0.ticks()
    }
}

impl TryFrom<Human> for Timeout {
    type Error = ConfigError;

    fn try_from(duration: Human) -> Result<Self, ConfigError> {
        match duration.ticks() {
            1..=0x7fff_ffff => Ok(Self(duration)),
            _ => Err(ConfigError::Timeout(duration)),
        }
    }
}

/// A backend's weight.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(try_from = "i64")]
pub(super) struct Weight(pub u32);

impl Default for Weight {
    fn default() -> Self {
        Self(1)
    }
}

impl TryFrom<i64> for Weight {
    type Error = ConfigError;

    fn try_from(number: i64) -> Result<Self, ConfigError> {
        match u32::try_from(number) {
            Ok(weight @ 1..=MAX_WEIGHT) => Ok(Self(weight)),
            _ => Err(ConfigError::Weight(number)),
        }
    }
}

/// An endpoint as a string, with a port that is not 0.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(try_from = "String")]
#[schemars(with = "String", title = "endpoint")]
pub(super) struct EndpointText(pub Endpoint);

impl TryFrom<String> for EndpointText {
    type Error = ConfigError;

    fn try_from(text: String) -> Result<Self, ConfigError> {
        match text.parse::<Endpoint>() {
            Ok(endpoint) if endpoint.port != 0 => Ok(Self(endpoint)),
            Ok(endpoint) => Err(ConfigError::PortZero(endpoint)),
            Err(source) => Err(ConfigError::Text { text, source }),
        }
    }
}
