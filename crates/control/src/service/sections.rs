//! Settings of the two paths. All have defaults.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::num::NonZeroU64;
use std::time::Duration;
use twinpath_nf::duration::Human;

/// Most slots of a state table.
const MOST_SLOTS: u64 = 1 << 26;
/// Most counters per row of a sketch.
const MOST_COUNTERS: u64 = 1 << 24;
/// Most slots looked at after a batch.
const MOST_SWEPT: u64 = 1 << 16;
/// Most workers.
const MOST_WORKERS: u64 = 64;
/// Most flows of a worker.
const MOST_FLOWS: u64 = 1 << 28;
/// Most frames of a ring.
const MOST_RING_FRAMES: u64 = 1 << 20;
/// Most rules that match whole keys.
const MOST_EXACT: u64 = 1 << 26;
/// Most rules with other masks.
const MOST_MASKED: u64 = 1 << 24;
/// Most distinct masks.
const MOST_MASKS: u64 = 1 << 16;
/// Most packets that wait for rules.
const MOST_HELD: u64 = 1 << 16;

/// Which paths packets may take.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Paths {
    /// Fast where possible.
    #[default]
    Both,
    /// Everything on the slow path: the oracle.
    Slow,
}

/// How the paths are run.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Execution {
    /// Each on a thread of its own.
    #[default]
    Threads,
    /// In one thread, under virtual time.
    Virtual,
}

/// What happens when the workers cannot follow.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Pace {
    /// Packets come when they come; at a full ring they are dropped and counted.
    Live,
    /// Rings push back: nothing is lost.
    Lossless,
}

/// `[run]`
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Run {
    /// Which paths packets may take.
    pub paths: Paths,
    /// How the paths are run.
    pub execution: Execution,
    /// What happens when the workers cannot follow; if absent, captures are lossless and generated
    /// traffic is live.
    pub pace: Option<Pace>,
}

/// The kind of device that the fast programs must fit.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Device {
    /// A general-purpose core.
    #[default]
    Software,
    /// A switch ASIC: one way per bucket, few words and stages.
    Asic,
}

/// A number of things, from 1 to a limit.
pub(super) fn count<'de, D: serde::Deserializer<'de>, const MOST: u64>(
    deserializer: D,
) -> Result<usize, D::Error> {
    let count = NonZeroU64::deserialize(deserializer)?.get();
    if count > MOST {
        return Err(serde::de::Error::custom(format!(
            "{count} is too many: at most {MOST}"
        )));
    }
    Ok(count as usize)
}

/// A rate, above zero.
pub(super) fn positive<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    NonZeroU64::deserialize(deserializer).map(NonZeroU64::get)
}

/// `[fast_path]`
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct FastPath {
    /// The kind of device.
    pub device: Device,
    /// Slots of the state table.
    #[serde(deserialize_with = "count::<_, MOST_SLOTS>")]
    #[schemars(range(min = 1, max = MOST_SLOTS))]
    pub slots: usize,
    /// Slots per bucket: 1, 2, 4 or 8. If absent, what the device has.
    pub ways: Option<Ways>,
    /// Packets within a sketch window that make a flow worth a slot; 0 and 1 take every flow.
    pub hot_packets: u16,
    /// Window of the sketch: counts halve once in it.
    pub sketch_window: Human,
    /// Counters per row of the sketch.
    #[serde(deserialize_with = "count::<_, MOST_COUNTERS>")]
    #[schemars(range(min = 1, max = MOST_COUNTERS))]
    pub sketch_width: usize,
    /// Idle time after which a slot is written back.
    pub time_to_live: Human,
    /// Slots looked at for timers after each batch.
    #[serde(deserialize_with = "count::<_, MOST_SWEPT>")]
    #[schemars(range(min = 1, max = MOST_SWEPT))]
    pub sweep_slots: usize,
    /// How often a cancelled pull is repeated at once before the flow is left alone for a while.
    pub rearms: u8,
}

/// Slots per bucket.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(try_from = "u64")]
#[schemars(extend("enum" = [1, 2, 4, 8]))]
pub struct Ways(pub usize);

impl TryFrom<u64> for Ways {
    type Error = String;
    fn try_from(ways: u64) -> Result<Self, String> {
        match ways {
            1 | 2 | 4 | 8 => Ok(Self(ways as usize)),
            _ => Err(format!("{ways} ways: expected 1, 2, 4 or 8")),
        }
    }
}

impl Default for FastPath {
    fn default() -> Self {
        Self {
            device: Device::Software,
            slots: 32_768,
            ways: None,
            hot_packets: 2,
            sketch_window: Human(Duration::from_millis(100)),
            sketch_width: 16_384,
            time_to_live: Human(Duration::from_secs(1)),
            sweep_slots: 64,
            rearms: 4,
        }
    }
}

/// `[slow_path]`
#[derive(Copy, Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SlowPath {
    /// Workers, each with flows of its own.
    #[serde(deserialize_with = "count::<_, MOST_WORKERS>")]
    #[schemars(range(min = 1, max = MOST_WORKERS))]
    pub workers: usize,
    /// Flows that each worker may know.
    #[serde(deserialize_with = "count::<_, MOST_FLOWS>")]
    #[schemars(range(min = 1, max = MOST_FLOWS))]
    pub flows: usize,
}

impl Default for SlowPath {
    fn default() -> Self {
        Self {
            workers: 1,
            flows: 1 << 20,
        }
    }
}

/// `[link]`
#[derive(Copy, Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Link {
    /// Frames that each ring holds. A worker that shares its core may not run for 10 ms; at a million
    /// packets a second for the slow path that is as many as the default.
    #[serde(deserialize_with = "count::<_, MOST_RING_FRAMES>")]
    #[schemars(range(min = 1, max = MOST_RING_FRAMES))]
    pub ring_frames: usize,
    /// From the fast path to the slow path and back: what virtual time assumes, and how far a replay
    /// lets the capture's clock run ahead of packets on the slow path. "0s" does not bound it.
    pub round_trip: Human,
    /// How long a pull may go unanswered. Nothing but a lost frame is found out by it, so the default is
    /// longer than a thread waits for its turn on a busy core.
    pub incomplete_timeout: Human,
    /// How long a write-back may go unacknowledged before it is sent again.
    pub write_back_timeout: Human,
}

impl Default for Link {
    fn default() -> Self {
        Self {
            ring_frames: 8192,
            // Between a switch and workers beside it (SwitchNIC §4.2).
            round_trip: Human(Duration::from_micros(4)),
            incomplete_timeout: Human(Duration::from_millis(50)),
            write_back_timeout: Human(Duration::from_millis(50)),
        }
    }
}

/// `[rule_cache]`
#[derive(Copy, Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RuleCache {
    /// Whether rules are made at all.
    pub enabled: bool,
    /// Rules that match all addresses and ports, in each element of the chain.
    #[serde(deserialize_with = "count::<_, MOST_EXACT>")]
    #[schemars(range(min = 1, max = MOST_EXACT))]
    pub exact: usize,
    /// Rules with other masks.
    #[serde(deserialize_with = "count::<_, MOST_MASKED>")]
    #[schemars(range(min = 1, max = MOST_MASKED))]
    pub masked: usize,
    /// Distinct masks of those.
    #[serde(deserialize_with = "count::<_, MOST_MASKS>")]
    #[schemars(range(min = 1, max = MOST_MASKS))]
    pub masks: usize,
    /// Packets that may wait while rules become active.
    #[serde(deserialize_with = "count::<_, MOST_HELD>")]
    #[schemars(range(min = 1, max = MOST_HELD))]
    pub held: usize,
    /// Length of an evaluation window, and of a window of ageing.
    pub window: Human,
    /// A rule is made of what matched more often than this in the previous window.
    pub threshold: u32,
    /// A rule is taken out after so many windows without use.
    pub idle_windows: u8,
}

impl Default for RuleCache {
    fn default() -> Self {
        Self {
            enabled: true,
            exact: 32_768,
            masked: 8192,
            masks: 64,
            held: 1024,
            window: Human(Duration::from_millis(200)),
            threshold: 1,
            idle_windows: 10,
        }
    }
}
