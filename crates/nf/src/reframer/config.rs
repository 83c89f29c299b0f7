//! What an operator can set.

use crate::duration::Human;
use schemars::JsonSchema;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};
use std::num::NonZeroU32;
use std::time::Duration;
use twinpath_slowpath::buffer::{Limits, Load};

/// The longest window.
pub const LONGEST_WINDOW: Human = Human::milliseconds(10);

/// The reframer's configuration; the [module](super) has a table of it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// How long packets wait for others of their flow and direction.
    pub window: Window,
    /// So many packets of a flow and direction leave without waiting for more.
    #[schemars(range(min = 1))]
    pub batch: NonZeroU32,
    /// Bytes of one flow that may wait, both directions together.
    #[schemars(range(min = 1))]
    pub most_bytes_per_flow: NonZeroU32,
    /// Packets that may wait in all, on one worker.
    #[schemars(range(min = 1, max = MOST_PACKETS))]
    #[serde(deserialize_with = "packets")]
    pub most_packets: NonZeroU32,
    /// Of these, packets too long for an
    /// [ordinary buffer](twinpath_core::pool::SMALL_PACKET_BYTES): buffers for them are few.
    #[schemars(range(min = 1, max = MOST_PACKETS))]
    #[serde(deserialize_with = "packets")]
    pub most_long_packets: NonZeroU32,
}

/// Most packets that can be said to wait.
const MOST_PACKETS: u32 = 1 << 20;

fn packets<'de, D: Deserializer<'de>>(deserializer: D) -> Result<NonZeroU32, D::Error> {
    let packets = NonZeroU32::deserialize(deserializer)?;
    match packets.get() <= MOST_PACKETS {
        true => Ok(packets),
        false => Err(Error::custom(format!(
            "{packets} packets are too many: at most {MOST_PACKETS}"
        ))),
    }
}

/// A number that is not 0.
const fn number(number: u32) -> NonZeroU32 {
    match NonZeroU32::new(number) {
        Some(number) => number,
        None => NonZeroU32::MIN,
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            window: Window(Human(Duration::from_micros(30))),
            batch: number(32),
            most_bytes_per_flow: number(131_072),
            most_packets: number(8192),
            most_long_packets: number(512),
        }
    }
}

impl Config {
    /// What may wait.
    pub(super) const fn limits(&self) -> Limits {
        let packets = self.most_packets.get() as usize;
        Limits {
            flow: Load {
                packets,
                bytes: self.most_bytes_per_flow.get() as usize,
                long_packets: packets,
            },
            all: Load {
                packets,
                bytes: usize::MAX / 2,
                long_packets: self.most_long_packets.get() as usize,
            },
        }
    }
}

/// A window: more than nothing, up to [`LONGEST_WINDOW`].
#[derive(Copy, Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(try_from = "Human")]
#[schemars(title = format!("time above 0, up to {LONGEST_WINDOW}"))]
pub struct Window(Human);

/// A window out of range.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a window of {0}: expected more than 0, up to {LONGEST_WINDOW}")]
pub struct WindowError(Human);

impl Window {
    /// The time.
    pub const fn duration(self) -> Duration {
        self.0.duration()
    }
}

impl TryFrom<Human> for Window {
    type Error = WindowError;

    fn try_from(time: Human) -> Result<Self, WindowError> {
        match time.duration().is_zero() || time > LONGEST_WINDOW {
            true => Err(WindowError(time)),
            false => Ok(Self(time)),
        }
    }
}
