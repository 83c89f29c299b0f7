//! Settings of the two paths. All have defaults.

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::num::{NonZeroU32, NonZeroU64};
use std::time::Duration;
use twinpath_core::Share;
use twinpath_nf::duration::Human;
use twinpath_nf::shard::MAX_SHARDS;

/// Most slots of a state table.
const MOST_SLOTS: u64 = 1 << 26;
/// Most counters per row of a sketch.
const MOST_COUNTERS: u64 = 1 << 24;
const MOST_WAITING: u64 = 1 << 16;
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
    /// Each path on threads of its own, as fast as the machine allows.
    #[default]
    Threads,
    /// All in one thread under virtual time, the packets' own: the same every time.
    Virtual,
}

/// What happens when the workers cannot follow.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Pace {
    /// Packets come at the speed of the capture or generator; at a full ring they are dropped and counted.
    Live,
    /// Packets come as fast as they can be taken; full rings push back, and nothing is lost.
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
    /// How fast packets come, and what happens when the workers cannot follow; if absent, captures are
    /// lossless and generated traffic is live.
    pub pace: Option<Pace>,
    /// Over how many shards the service is spread: nodes with threads of their own, of which each has
    /// some of the connections. Slots, flows, rules for whole connections and a translation's
    /// sessions and ports are divided among them; all other sizes are each shard's. More shards than
    /// processors gain nothing and start slowly, which a run warns of.
    pub shards: Shards,
    /// The processors, by number, that the data plane's threads stay on, lowest first and each in turn:
    /// for each shard first the thread of its fast path, then its workers. Memory is taken where
    /// a shard's fast path is. If there are none, the system places threads.
    pub cpus: Cpus,
}

/// A set of processors.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(try_from = "Vec<u16>", into = "Vec<u16>")]
pub struct Cpus([u128; Cpus::MOST / 128]);

impl Cpus {
    /// One more than the highest number.
    const MOST: usize = 1024;

    /// The processors that there are.
    pub fn list(self) -> Vec<u16> {
        let has = |number: &u16| self.0[usize::from(*number) / 128] >> (number % 128) & 1 == 1;
        (0..Self::MOST as u16).filter(has).collect()
    }
}

impl From<Cpus> for Vec<u16> {
    fn from(cpus: Cpus) -> Self {
        cpus.list()
    }
}

impl TryFrom<Vec<u16>> for Cpus {
    type Error = String;
    fn try_from(numbers: Vec<u16>) -> Result<Self, String> {
        let mut cpus = Self::default();
        for number in numbers {
            let most = Self::MOST - 1;
            let place = cpus.0.get_mut(usize::from(number) / 128);
            let place = place.ok_or(format!("processor {number}: expected 0 to {most}"))?;
            let bit = 1 << (number % 128);
            if *place & bit != 0 {
                return Err(format!(
                    "processor {number} is named twice: expected each once"
                ));
            }
            *place |= bit;
        }
        Ok(cpus)
    }
}

impl JsonSchema for Cpus {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "numbers of processors".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        Vec::<u16>::json_schema(generator)
    }
}

/// How many shards.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(try_from = "u64")]
pub struct Shards(#[schemars(range(min = 1, max = MAX_SHARDS))] pub u16);

impl TryFrom<u64> for Shards {
    type Error = String;
    fn try_from(shards: u64) -> Result<Self, String> {
        match u16::try_from(shards) {
            Ok(count @ 1..=MAX_SHARDS) => Ok(Self(count)),
            _ => Err(format!("{shards} shards: expected 1 to {MAX_SHARDS}")),
        }
    }
}

impl Default for Shards {
    fn default() -> Self {
        Self(1)
    }
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

/// What somebody would wait for between two paths: a run's end waits for it, too.
fn round_trip<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Human, D::Error> {
    const MOST: Human = Human(Duration::from_secs(10));
    let round_trip = Human::deserialize(deserializer)?;
    if round_trip.duration() > MOST.duration() {
        return Err(serde::de::Error::custom(format!(
            "a round trip of {round_trip} is longer than {MOST}"
        )));
    }
    Ok(round_trip)
}

/// A time in which something can happen.
fn lasting<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Human, D::Error> {
    let time = Human::deserialize(deserializer)?;
    match time.duration().is_zero() {
        true => Err(serde::de::Error::custom("expected a time above zero")),
        false => Ok(time),
    }
}

/// A rate, above zero.
pub(super) fn positive<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    NonZeroU64::deserialize(deserializer).map(NonZeroU64::get)
}

/// `[fast_path]`
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct FastPath {
    /// The kind of device, whose limits the chain must fit; `twinpath explain` shows both.
    pub device: Device,
    /// Slots of the state table of each element with flow state: how many flows the fast path can have
    /// at a time, rounded up to whole buckets. `twinpath explain` tells what share of so many flows finds one,
    /// and the memory.
    #[serde(deserialize_with = "count::<_, MOST_SLOTS>")]
    #[schemars(range(min = 1, max = MOST_SLOTS))]
    pub slots: usize,
    /// Slots per bucket, of which a flow may take any. If absent, what the device has: with more of them
    /// fewer flows find none, and an ASIC has one.
    pub ways: Option<Ways>,
    /// Packets within a sketch window that make a flow worth a slot; 0 and 1 take every flow.
    pub hot_packets: u16,
    /// Window of the sketch that counts packets of flows: counts halve once in it.
    #[serde(deserialize_with = "lasting")]
    pub sketch_window: Human,
    /// Counters per row of the sketch. With fewer than there are flows at a time, flows are taken for
    /// hot that are not.
    #[serde(deserialize_with = "count::<_, MOST_COUNTERS>")]
    #[schemars(range(min = 1, max = MOST_COUNTERS))]
    pub sketch_width: usize,
    /// Idle time after which a flow's state goes back to its worker and its slot is free.
    #[serde(deserialize_with = "lasting")]
    pub time_to_live: Human,
    /// Slots looked at for timers after each batch of packets: with more of them idle slots are found
    /// sooner, and each batch takes longer.
    #[serde(deserialize_with = "count::<_, MOST_SWEPT>")]
    #[schemars(range(min = 1, max = MOST_SWEPT))]
    pub sweep_slots: usize,
    /// How often a cancelled pull is repeated at once before packets wait for the answer, or the flow is
    /// left alone for a while. A pull is cancelled when a packet of its flow overtakes the answer.
    pub rearms: u8,
    /// Packets that may wait for the state of their flow at each element with flow state, of all flows
    /// together; one flow may have a quarter of them. With 0 none waits, and a flow whose packets follow
    /// each other faster than workers answer stays on the slow path. If absent, what the device has: an
    /// ASIC keeps no packets.
    pub waiting: Option<Waiting>,
}

/// Packets that may wait for the state of their flow.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(try_from = "u64")]
#[schemars(extend("maximum" = MOST_WAITING))]
pub struct Waiting(pub usize);

impl TryFrom<u64> for Waiting {
    type Error = String;
    fn try_from(packets: u64) -> Result<Self, String> {
        match packets {
            0..=MOST_WAITING => Ok(Self(packets as usize)),
            _ => Err(format!(
                "{packets} packets are too many: at most {MOST_WAITING}"
            )),
        }
    }
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
            waiting: None,
        }
    }
}

/// `[slow_path]`
#[derive(Copy, Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SlowPath {
    /// Workers, each a thread with flows of its own. Chains with functions whose decisions are cached
    /// have one.
    #[serde(deserialize_with = "count::<_, MOST_WORKERS>")]
    #[schemars(range(min = 1, max = MOST_WORKERS))]
    pub workers: usize,
    /// Flows that each worker may know; packets of others are dropped (`flow_table_full`).
    #[serde(deserialize_with = "count::<_, MOST_FLOWS>")]
    #[schemars(range(min = 1, max = MOST_FLOWS))]
    pub flows: usize,
    /// Flows of those that may be half-open: nobody has answered yet, or whoever asked has not shown
    /// that it hears the answer. With more, those that have been silent for longest are forgotten,
    /// so that a flood of openings takes no place from established connections. Where there is no room
    /// for a flow at all, those that have expired or are over are forgotten first. At 500,000 openings
    /// a second an answer may then take 0.5 s for each 250,000. If absent, a quarter of `flows`.
    #[schemars(range(min = 1))]
    pub half_open: Option<NonZeroU32>,
}

impl SlowPath {
    /// Flows of each worker that may be half-open.
    #[must_use]
    pub fn most_half_open(&self) -> usize {
        let quarter = self.flows.div_ceil(4);
        self.half_open.map_or(quarter, |most| most.get() as usize)
    }
}

impl Default for SlowPath {
    fn default() -> Self {
        Self {
            workers: 1,
            flows: 1 << 20,
            half_open: None,
        }
    }
}

/// `[link]`
#[derive(Copy, Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Link {
    /// Frames that each ring between the paths holds; beyond it packets for the slow path are dropped
    /// (`punt_ring_full`). A worker that shares its core may not run for 10 ms; at a million
    /// packets a second for the slow path that is as many as the default.
    #[serde(deserialize_with = "count::<_, MOST_RING_FRAMES>")]
    #[schemars(range(min = 1, max = MOST_RING_FRAMES))]
    pub ring_frames: usize,
    /// From the fast path to the slow path and back: what virtual time assumes, and how far a replay
    /// lets the capture's clock run ahead of packets on the slow path: at most 10s. "0s" does not bound it.
    #[serde(deserialize_with = "round_trip")]
    pub round_trip: Human,
    /// How long a pull may go unanswered. Nothing but a lost frame is found out by it, so the default is
    /// longer than a thread waits for its turn on a busy core.
    pub incomplete_timeout: Human,
    /// How long a write-back may go unacknowledged before it is sent again: as long as a pull, for the
    /// same reason.
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
    /// Whether rules are made at all; without them every packet of these functions goes to a worker.
    pub enabled: bool,
    /// Most rules that match all addresses and ports, in each element of the chain: one for each
    /// direction of a connection.
    #[serde(deserialize_with = "count::<_, MOST_EXACT>")]
    #[schemars(range(min = 1, max = MOST_EXACT))]
    pub exact: usize,
    /// Most rules with other masks, which match prefixes or single fields, in each element.
    #[serde(deserialize_with = "count::<_, MOST_MASKED>")]
    #[schemars(range(min = 1, max = MOST_MASKED))]
    pub masked: usize,
    /// Most distinct masks of those. A packet that none of the others matches is tried with each.
    #[serde(deserialize_with = "count::<_, MOST_MASKS>")]
    #[schemars(range(min = 1, max = MOST_MASKS))]
    pub masks: usize,
    /// Most packets that may wait, for one or two round trips of the link, while rules become active. If there are
    /// more, a rule is let go before it is used.
    #[serde(deserialize_with = "count::<_, MOST_HELD>")]
    #[schemars(range(min = 1, max = MOST_HELD))]
    pub held: usize,
    /// Length of a window in which uses are counted: what is hot in one becomes a rule in the next.
    #[serde(deserialize_with = "lasting")]
    pub window: Human,
    /// A rule is made of what more packets than this had in common in the previous window.
    pub threshold: u32,
    /// A rule is taken out after so many windows without use.
    pub idle_windows: u8,
    /// Which identifications rules draw.
    #[serde(skip)]
    pub identifications: Share,
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
            identifications: Share::FAST_PATH,
        }
    }
}
