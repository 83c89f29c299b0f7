//! What an operator can set.

use super::meter::{Meter, Rate};
use super::prefixes::{End, Prefixes};
use crate::descriptor::{ConfigWarning, Placed};
use crate::duration::Human;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::time::Duration;
use twinpath_core::Direction;
use twinpath_slowpath::buffer::{Limits, Load};

/// Rates in bits a second: below, a packet takes seconds, above, less than a unit of time a byte.
const BITS: [u64; 2] = [1_000, 100_000_000_000];
/// Rates in packets a second.
const PACKETS: [u64; 2] = [1, 100_000_000];
/// Bytes of a burst: from the smallest packet to a gibibyte.
const BURST_BYTES: [u64; 2] = [64, 1 << 30];
/// Packets of a burst.
const BURST_PACKETS: [u64; 2] = [1, 1 << 20];
/// Packets that may be in line.
const LINES: [u64; 2] = [1, 1 << 20];
/// Prefixes that have buckets of their own.
const PREFIXES: [u64; 2] = [1, 1 << 20];
/// Leading bits of addresses.
const V4_BITS: [u64; 2] = [0, 32];
const V6_BITS: [u64; 2] = [0, 128];
/// The longest that a packet may wait.
const LONGEST_DELAY: Duration = Duration::from_secs(10);

/// The burst is what a rate gives in a hundredth of a second, but not less than this.
const LEAST_BURST_BYTES: u64 = 65_536;
const LEAST_BURST_PACKETS: u64 = 32;

/// The rate limiter's configuration; the [module](super) has a table of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    pub(super) rate: Rate,
    /// Whose a bucket is: `None` if each flow and direction has its own.
    pub(super) prefixes: Option<Prefixes>,
    /// What becomes of excess.
    pub excess: Excess,
    /// Which packets are limited.
    pub directions: Directions,
    /// How long excess waits at most.
    pub longest_delay: Human,
    /// How long a flow may be silent before it is forgotten.
    pub idle_timeout: Human,
    pub(super) lines: Limits,
}

/// What becomes of packets for which a bucket does not have enough.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Excess {
    /// They are dropped.
    #[default]
    Drop,
    /// They wait until it has.
    Delay,
}

/// Whose a bucket is.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Per {
    /// A flow's and direction's.
    #[default]
    Flow,
    /// That of the network that a packet comes from.
    Source,
    /// That of the network that a packet goes to.
    Destination,
}

/// Which packets of a flow are limited, each direction by a bucket of its own.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Directions {
    /// All.
    #[default]
    Both,
    /// Those of the flow's opener.
    FromOpener,
    /// Those that go to its opener.
    ToOpener,
}

impl Directions {
    /// Whether packets that go this way are limited.
    pub const fn include(self, way: Direction) -> bool {
        match self {
            Self::Both => true,
            Self::FromOpener => matches!(way, Direction::Original),
            Self::ToOpener => matches!(way, Direction::Reply),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RawConfig {
    /// Whose a bucket is: each flow's and direction's, or that of a network. With another than
    /// `"flow"` all packets go to the slow path.
    #[serde(default)]
    per: Per,
    /// Leading bits of IPv4 addresses that tell one network from another; 32 if absent.
    #[schemars(range(min = V4_BITS[0], max = V4_BITS[1]))]
    v4_prefix_bits: Option<i64>,
    /// Leading bits of IPv6 addresses that tell one network from another; 64 if absent.
    #[schemars(range(min = V6_BITS[0], max = V6_BITS[1]))]
    v6_prefix_bits: Option<i64>,
    /// Networks that have buckets of their own at a time, rounded up to a power of two; 65,536 if
    /// absent. All others take from one bucket.
    #[schemars(range(min = PREFIXES[0], max = PREFIXES[1]))]
    most_prefixes: Option<i64>,
    /// Bits of IP packets that each bucket gets in a second. Either this or `rate_pps`.
    #[schemars(range(min = BITS[0], max = BITS[1]))]
    rate_bps: Option<i64>,
    /// Bytes that may come at once. If absent, what the rate gives in a hundredth of a second, at least
    /// 65,536.
    #[schemars(range(min = BURST_BYTES[0], max = BURST_BYTES[1]))]
    burst_bytes: Option<i64>,
    /// Packets that each bucket gets in a second. Either this or `rate_bps`.
    #[schemars(range(min = PACKETS[0], max = PACKETS[1]))]
    rate_pps: Option<i64>,
    /// Packets that may come at once. If absent, what the rate gives in a hundredth of a second, at least
    /// 32.
    #[schemars(range(min = BURST_PACKETS[0], max = BURST_PACKETS[1]))]
    burst_packets: Option<i64>,
    /// What becomes of excess.
    #[serde(default)]
    excess: Excess,
    /// Which packets of a flow are limited.
    #[serde(default)]
    directions: Directions,
    /// How long excess waits at most, up to ten seconds, if it is delayed: what would wait longer is
    /// dropped.
    #[serde(default = "default_longest_delay")]
    longest_delay: Human,
    /// Packets of one flow that may wait, both directions together.
    #[serde(default = "default_most_packets_per_flow")]
    #[schemars(range(min = LINES[0], max = LINES[1]))]
    most_packets_per_flow: i64,
    /// Bytes of one flow that may wait, both directions together.
    #[serde(default = "default_most_bytes_per_flow")]
    #[schemars(range(min = BURST_BYTES[0], max = BURST_BYTES[1]))]
    most_bytes_per_flow: i64,
    /// Packets that may wait in all, on one worker.
    #[serde(default = "default_most_packets")]
    #[schemars(range(min = LINES[0], max = LINES[1]))]
    most_packets: i64,
    /// Of these, packets too long for an
    /// [ordinary buffer](twinpath_core::pool::SMALL_PACKET_BYTES): buffers for them are few.
    #[serde(default = "default_most_long_packets")]
    #[schemars(range(min = LINES[0], max = LINES[1]))]
    most_long_packets: i64,
    /// How long a flow may be silent before it is forgotten: longer than an empty bucket takes to be
    /// full.
    #[serde(default = "default_idle_timeout")]
    idle_timeout: Human,
}

const fn default_longest_delay() -> Human {
    Human::milliseconds(100)
}

const fn default_most_packets_per_flow() -> i64 {
    128
}

const fn default_most_bytes_per_flow() -> i64 {
    262_144
}

const fn default_most_packets() -> i64 {
    8192
}

const fn default_most_long_packets() -> i64 {
    512
}

const fn default_idle_timeout() -> Human {
    Human::seconds(300)
}

/// What can be wrong with the configuration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// A number out of range.
    #[error("{key} = {value}: expected {least} to {most}")]
    Range {
        /// The key.
        key: &'static str,
        /// Its value.
        value: i64,
        /// The least that may be.
        least: u64,
        /// The most.
        most: u64,
    },
    /// Neither rate, or both.
    #[error("expected one of rate_bps and rate_pps")]
    Rate,
    /// A burst that is told in another measure than the rate.
    #[error("{0} goes with {1}")]
    Burst(&'static str, &'static str),
    /// What is said of prefixes, of buckets that are flows'.
    #[error("{0} goes with per = \"source\" or per = \"destination\"")]
    Prefix(&'static str),
    /// A delay out of range.
    #[error("longest_delay = \"{0}\": expected more than 0, up to 10s")]
    Delay(Human),
    /// A flow would be forgotten before its buckets are full.
    #[error(
        "idle_timeout = \"{0}\": expected more than the {1:?} after which a bucket is full, whatever waits"
    )]
    Idle(Human, Duration),
}

type Misplaced = Placed<ConfigError>;

fn within(key: &'static str, value: i64, [least, most]: [u64; 2]) -> Result<u64, Misplaced> {
    let inside = u64::try_from(value).ok();
    let inside = inside.filter(|value| (least..=most).contains(value));
    inside.ok_or_else(|| {
        let error = ConfigError::Range {
            key,
            value,
            least,
            most,
        };
        Placed::at(key, error)
    })
}

/// A burst: as told, or what the rate gives in a hundredth of a second.
fn burst(
    key: &'static str,
    told: Option<i64>,
    [usual, least]: [u64; 2],
    range: [u64; 2],
) -> Result<u64, Misplaced> {
    match told {
        Some(value) => within(key, value, range),
        None => Ok(usual.clamp(least, range[1])),
    }
}

impl RawConfig {
    fn rate(&self) -> Result<Rate, Misplaced> {
        let wrong = |key, goes_with| Err(Placed::at(key, ConfigError::Burst(key, goes_with)));
        match (self.rate_bps, self.rate_pps) {
            (Some(_), None) if self.burst_packets.is_some() => wrong("burst_packets", "rate_pps"),
            (None, Some(_)) if self.burst_bytes.is_some() => wrong("burst_bytes", "rate_bps"),
            (Some(rate), None) => {
                let per_second = within("rate_bps", rate, BITS)?;
                let usual = [per_second / 800, LEAST_BURST_BYTES];
                let burst_bytes = burst("burst_bytes", self.burst_bytes, usual, BURST_BYTES)?;
                Ok(Rate::Bits {
                    per_second,
                    burst_bytes,
                })
            }
            (None, Some(rate)) => {
                let per_second = within("rate_pps", rate, PACKETS)?;
                let usual = [per_second / 100, LEAST_BURST_PACKETS];
                let burst = burst("burst_packets", self.burst_packets, usual, BURST_PACKETS)?;
                Ok(Rate::Packets { per_second, burst })
            }
            (Some(_), Some(_)) => Err(Placed::at("rate_pps", ConfigError::Rate)),
            (None, None) => Err(Placed::at("rate_bps", ConfigError::Rate)),
        }
    }

    fn prefixes(&self) -> Result<Option<Prefixes>, Misplaced> {
        let keys = [
            ("v4_prefix_bits", self.v4_prefix_bits, 32, V4_BITS),
            ("v6_prefix_bits", self.v6_prefix_bits, 64, V6_BITS),
            ("most_prefixes", self.most_prefixes, 65_536, PREFIXES),
        ];
        let end = match self.per {
            Per::Source => End::Source,
            Per::Destination => End::Destination,
            Per::Flow => {
                let said = keys.into_iter().find(|(_, value, ..)| value.is_some());
                return match said {
                    Some((key, ..)) => Err(Placed::at(key, ConfigError::Prefix(key))),
                    None => Ok(None),
                };
            }
        };
        let value = |(key, value, usual, range): (_, Option<i64>, _, _)| {
            within(key, value.unwrap_or(usual), range)
        };
        Ok(Some(Prefixes {
            end,
            v4_bits: value(keys[0])? as u8,
            v6_bits: value(keys[1])? as u8,
            most: value(keys[2])? as usize,
        }))
    }

    fn lines(&self) -> Result<Limits, Misplaced> {
        let per_flow = self.most_packets_per_flow;
        let per_flow = within("most_packets_per_flow", per_flow, LINES)? as usize;
        let bytes = self.most_bytes_per_flow;
        let bytes = within("most_bytes_per_flow", bytes, BURST_BYTES)? as usize;
        let packets = within("most_packets", self.most_packets, LINES)? as usize;
        let long = within("most_long_packets", self.most_long_packets, LINES)? as usize;
        Ok(Limits {
            flow: Load {
                packets: per_flow,
                bytes,
                long_packets: per_flow,
            },
            all: Load {
                packets,
                bytes: usize::MAX / 2,
                long_packets: long,
            },
        })
    }
}

impl TryFrom<RawConfig> for Config {
    type Error = Misplaced;

    fn try_from(raw: RawConfig) -> Result<Self, Misplaced> {
        let (rate, delay) = (raw.rate()?, raw.longest_delay);
        if !(Duration::from_nanos(1)..=LONGEST_DELAY).contains(&delay.duration()) {
            return Err(Placed::at("longest_delay", ConfigError::Delay(delay)));
        }
        let config = Self {
            rate,
            prefixes: raw.prefixes()?,
            excess: raw.excess,
            directions: raw.directions,
            longest_delay: delay,
            idle_timeout: raw.idle_timeout,
            lines: raw.lines()?,
        };
        let meter = config.meter();
        match config.idle_timeout.ticks() > meter.full_ticks {
            true => Ok(config),
            false => {
                let error = ConfigError::Idle(config.idle_timeout, meter.full_after());
                Err(Placed::at("idle_timeout", error))
            }
        }
    }
}

impl Config {
    /// How long packets wait at most.
    fn wait(&self) -> Duration {
        match self.excess {
            Excess::Drop => Duration::ZERO,
            Excess::Delay => self.longest_delay.duration(),
        }
    }

    /// Its buckets.
    pub(super) fn meter(&self) -> Meter {
        Meter::new(self.rate, self.wait())
    }

    /// What may wait.
    pub(super) const fn limits(&self) -> Limits {
        self.lines
    }

    /// Whether packets of ordinary size never pass.
    pub(super) fn small_burst(&self) -> Option<ConfigWarning> {
        let Rate::Bits { burst_bytes, .. } = self.rate else {
            return None;
        };
        (burst_bytes < ORDINARY_PACKET).then(|| {
            let message = format!(
                "no packet of more than {burst_bytes} bytes ever passes: expected a burst of {ORDINARY_PACKET} bytes or more"
            );
            ConfigWarning::new(vec!["burst_bytes".into()], message)
        })
    }
}

/// Bytes of a long packet on Ethernet.
const ORDINARY_PACKET: u64 = 1500;
