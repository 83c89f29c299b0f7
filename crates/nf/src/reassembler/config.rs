//! What an operator can set.

use crate::checksums::VerifyChecksums;
use crate::duration::Human;
use schemars::JsonSchema;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};
use twinpath_core::Guarantees;
use twinpath_core::guarantee::{Demand, Guarantee, Need};

/// Largest window and per-flow byte limit: well below the half of the sequence space in which
/// "ahead" and "behind" can be told apart.
const MOST_BYTES: u32 = 1 << 30;

/// Most held segments, per flow and in all: frames of 2 KiB for two gigabytes.
const MOST_SEGMENTS: u32 = 1 << 20;

/// The reassembler's configuration; the [module](super) has a table of it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(remote = "Self", default, deny_unknown_fields)]
pub struct Config {
    /// Which bytes win where segments overlap.
    pub overlap: Overlap,
    /// What becomes of segments whose data was all delivered before.
    pub retransmissions: Retransmissions,
    /// Which checksums are verified. Each segment with data moves its connection on, so here
    /// `"state"` is all of TCP: one that no receiver takes must not stand for one that it does.
    pub verify_checksums: VerifyChecksums,
    /// What becomes of urgent data.
    pub urgent: Urgent,
    /// How far from the next expected byte a segment may start, in bytes: farther ones no receiver
    /// takes.
    #[serde(deserialize_with = "bytes")]
    #[schemars(range(min = 1, max = MOST_BYTES))]
    pub window_bytes: u32,
    /// How long a segment is held at most while bytes before it are missing; above 0.
    pub gap_timeout: Human,
    /// How long a connection may be silent before it is forgotten; longer than `gap_timeout`.
    pub idle_timeout: Human,
    /// The same while the connection is half-open: only one end was heard, or nobody has acknowledged
    /// what the other end has sent.
    pub half_open_timeout: Human,
    /// Segments held for one connection, both directions together.
    #[serde(deserialize_with = "segments")]
    #[schemars(range(min = 1, max = MOST_SEGMENTS))]
    pub most_segments_per_flow: u32,
    /// Bytes of TCP data held for one connection, both directions together.
    #[serde(deserialize_with = "bytes")]
    #[schemars(range(min = 1, max = MOST_BYTES))]
    pub most_bytes_per_flow: u32,
    /// Segments held in all, on one worker.
    #[serde(deserialize_with = "segments")]
    #[schemars(range(min = 1, max = MOST_SEGMENTS))]
    pub most_segments: u32,
    /// Of these, segments too long for an
    /// [ordinary buffer](twinpath_core::pool::SMALL_PACKET_BYTES), of which captures from hosts with
    /// segmentation offload have some: buffers for them are few.
    #[serde(deserialize_with = "segments")]
    #[schemars(range(min = 1, max = MOST_SEGMENTS))]
    pub most_long_segments: u32,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            overlap: Overlap::First,
            retransmissions: Retransmissions::Forward,
            verify_checksums: VerifyChecksums::State,
            urgent: Urgent::Inline,
            window_bytes: 4 << 20,
            gap_timeout: Human::milliseconds(500),
            // Longer than a host takes to send the first keep-alive (RFC 5382 §5).
            idle_timeout: Human::seconds(2 * 3600 + 4 * 60),
            half_open_timeout: Human::seconds(30),
            most_segments_per_flow: 1024,
            most_bytes_per_flow: 2 << 20,
            most_segments: 16_384,
            most_long_segments: 1024,
        }
    }
}

/// Which of two copies of a byte is delivered, when both come before either is.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Overlap {
    /// The one that came first.
    #[default]
    First,
    /// The one that came last, as long as the earlier one has not been delivered.
    Last,
}

/// What becomes of a segment all of whose data was delivered before.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Retransmissions {
    /// It is forwarded: the receiver may have lost the earlier copy.
    #[default]
    Forward,
    /// It is dropped and counted.
    Drop,
}

/// What becomes of urgent data: a receiver may take its byte out of the stream or leave it there,
/// and nobody else can tell (RFC 6093 §3).
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Urgent {
    /// It becomes data like other: the mark is taken off, so that every receiver leaves it where it
    /// is.
    #[default]
    Inline,
    /// Segments with the mark are dropped and counted.
    Drop,
}

/// Why a configuration makes no sense.
#[derive(Copy, Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// A limit that is none, or beyond what is provided for.
    #[error("expected a number from 1 to {most}, found {found}")]
    Limit {
        /// The largest that is accepted.
        most: u32,
        /// What was written.
        found: u32,
    },
    /// No time to wait.
    #[error("expected a gap_timeout above 0")]
    NoGapTimeout,
    /// A flow would be idle before its gaps are given up.
    #[error(
        "expected an idle_timeout above the gap_timeout of {gap_timeout}, found {idle_timeout}"
    )]
    IdleBeforeGap {
        /// The gap time-out.
        gap_timeout: Human,
        /// The idle time-out.
        idle_timeout: Human,
    },
}

impl<'de> Deserialize<'de> for Config {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // The derived function, which checks each value by itself.
        let config = Self::deserialize(deserializer)?;
        config.check_timeouts().map_err(D::Error::custom)?;
        Ok(config)
    }
}

impl Config {
    /// It puts bytes in order. What counts as delivered has to reach the receiver, so whoever
    /// refuses segments comes before it.
    pub(super) fn guarantees(&self) -> Guarantees {
        let demand = match self.retransmissions {
            Retransmissions::Forward => Demand::Preferred,
            Retransmissions::Drop => Demand::IfGiven,
        };
        Guarantees {
            gives: Some(Guarantee::Ordered),
            needs: [
                Some(Need {
                    guarantee: Guarantee::Checked,
                    demand,
                    reason: "drops what it let pass before (retransmissions = \"drop\"), so functions that refuse segments have to stand in front of it, or their sender's next try is lost",
                }),
                None,
            ],
        }
    }

    fn check_timeouts(&self) -> Result<(), ConfigError> {
        let Self {
            gap_timeout,
            idle_timeout,
            ..
        } = *self;
        if gap_timeout == Human::default() {
            return Err(ConfigError::NoGapTimeout);
        }
        if idle_timeout <= gap_timeout {
            return Err(ConfigError::IdleBeforeGap {
                gap_timeout,
                idle_timeout,
            });
        }
        Ok(())
    }
}

fn bytes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    up_to(MOST_BYTES, deserializer)
}

fn segments<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    up_to(MOST_SEGMENTS, deserializer)
}

fn up_to<'de, D: Deserializer<'de>>(most: u32, deserializer: D) -> Result<u32, D::Error> {
    let found = u32::deserialize(deserializer)?;
    if (1..=most).contains(&found) {
        Ok(found)
    } else {
        Err(D::Error::custom(ConfigError::Limit { most, found }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_table_is_the_default() {
        assert_eq!(toml::from_str::<Config>(""), Ok(Config::default()));
    }

    #[test]
    fn every_key_is_read() {
        let text = r#"
            overlap = "last"
            retransmissions = "drop"
            verify_checksums = "none"
            urgent = "drop"
            window_bytes = 65536
            gap_timeout = "20ms"
            idle_timeout = "1m"
            half_open_timeout = "9s"
            most_segments_per_flow = 3
            most_bytes_per_flow = 4
            most_segments = 5
            most_long_segments = 6
        "#;
        let expected = Config {
            overlap: Overlap::Last,
            retransmissions: Retransmissions::Drop,
            verify_checksums: VerifyChecksums::None,
            urgent: Urgent::Drop,
            window_bytes: 65536,
            gap_timeout: Human::milliseconds(20),
            idle_timeout: Human::seconds(60),
            half_open_timeout: Human::seconds(9),
            most_segments_per_flow: 3,
            most_bytes_per_flow: 4,
            most_segments: 5,
            most_long_segments: 6,
        };
        assert_eq!(toml::from_str::<Config>(text), Ok(expected));
    }

    #[derive(Debug, Deserialize)]
    struct Service {
        #[serde(rename = "reassembler")]
        _reassembler: Config,
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_its_place_and_what_was_expected() {
        let cases = [
            (
                "window_bytes = 0",
                "line 2, column 16",
                "expected a number from 1 to 1073741824, found 0",
            ),
            (
                "window_bytes = 2000000000",
                "line 2, column 16",
                "found 2000000000",
            ),
            (
                "most_bytes_per_flow = 0",
                "line 2, column 23",
                "expected a number from 1 to 1073741824",
            ),
            (
                "most_segments_per_flow = 0",
                "line 2, column 26",
                "expected a number from 1 to 1048576, found 0",
            ),
            (
                "most_segments = 2000000",
                "line 2, column 17",
                "expected a number from 1 to 1048576, found 2000000",
            ),
            (
                "gap_timeout = \"0s\"",
                "line 1, column 1",
                "expected a gap_timeout above 0",
            ),
            (
                "gap_timeout = \"3h\"",
                "line 1, column 1",
                "expected an idle_timeout above the gap_timeout of 3h, found 124m",
            ),
            (
                "overlap = \"middle\"",
                "line 2, column 11",
                "expected `first` or `last`",
            ),
            ("windows = 1", "line 2, column 1", "unknown field `windows`"),
        ];
        for (line, place, expected) in cases {
            let message = toml::from_str::<Service>(&format!("[reassembler]\n{line}\n"))
                .expect_err(line)
                .to_string();
            assert!(
                message.contains(expected) && message.contains(place),
                "{line}: {message}"
            );
        }
    }
}
