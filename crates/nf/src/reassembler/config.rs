//! What an operator can set.

use crate::duration::Human;
use serde::Deserialize;

/// Largest window and per-flow byte limit: well below the half of the sequence space in which
/// "ahead" and "behind" can be told apart.
const MOST_BYTES: u32 = 1 << 30;

/// Most held segments, per flow and in all: frames of 2 KiB for two gigabytes.
const MOST_SEGMENTS: u32 = 1 << 20;

/// The reassembler's configuration; the [module](super) has a table of it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Unchecked")]
pub struct Config {
    /// Which bytes win where segments overlap.
    pub overlap: Overlap,
    /// What becomes of segments whose data was all delivered before.
    pub retransmissions: Retransmissions,
    /// How far from the next expected byte a segment may start.
    pub window_bytes: u32,
    /// How long a segment waits at most for the bytes before it.
    pub gap_timeout: Human,
    /// How long a connection may be silent before it is forgotten.
    pub idle_timeout: Human,
    /// Segments held for one connection, both directions together.
    pub most_segments_per_flow: u32,
    /// Bytes of TCP data held for one connection, both directions together.
    pub most_bytes_per_flow: u32,
    /// Segments held in all.
    pub most_segments: u32,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            overlap: Overlap::First,
            retransmissions: Retransmissions::Forward,
            window_bytes: 4 << 20,
            gap_timeout: Human::milliseconds(500),
            idle_timeout: Human::seconds(300),
            most_segments_per_flow: 1024,
            most_bytes_per_flow: 2 << 20,
            most_segments: 16_384,
        }
    }
}

/// Which of two copies of a byte is delivered, when both come before either is.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Overlap {
    /// The one that came first.
    #[default]
    First,
    /// The one that came last.
    Last,
}

/// What becomes of a segment all of whose data was delivered before.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Retransmissions {
    /// It is forwarded: the receiver may have lost the earlier copy.
    #[default]
    Forward,
    /// It is dropped and counted.
    Drop,
}

/// Why values that are readable one by one make no configuration.
#[derive(Copy, Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// The window.
    #[error("expected window_bytes from 1 to 1073741824, found {0}")]
    Window(u32),
    /// A limit in segments.
    #[error("expected {name} from 1 to 1048576, found {found}")]
    Segments {
        /// The key.
        name: &'static str,
        /// Its value.
        found: u32,
    },
    /// The limit in bytes.
    #[error("expected most_bytes_per_flow from 1 to 1073741824, found {0}")]
    Bytes(u32),
    /// No time to wait.
    #[error("expected a gap_timeout above 0")]
    NoGapTimeout,
    /// A flow would be idle before its gaps are given up.
    #[error("expected an idle_timeout above the gap_timeout of {gap_timeout}, found {idle_timeout}")]
    IdleBeforeGap {
        /// The gap time-out.
        gap_timeout: Human,
        /// The idle time-out.
        idle_timeout: Human,
    },
}

/// The same fields before they are checked together.
#[derive(Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Unchecked {
    overlap: Overlap,
    retransmissions: Retransmissions,
    window_bytes: u32,
    gap_timeout: Human,
    idle_timeout: Human,
    most_segments_per_flow: u32,
    most_bytes_per_flow: u32,
    most_segments: u32,
}

impl Default for Unchecked {
    fn default() -> Self {
        let config = Config::default();
        Self {
            overlap: config.overlap,
            retransmissions: config.retransmissions,
            window_bytes: config.window_bytes,
            gap_timeout: config.gap_timeout,
            idle_timeout: config.idle_timeout,
            most_segments_per_flow: config.most_segments_per_flow,
            most_bytes_per_flow: config.most_bytes_per_flow,
            most_segments: config.most_segments,
        }
    }
}

impl TryFrom<Unchecked> for Config {
    type Error = ConfigError;

    fn try_from(read: Unchecked) -> Result<Self, ConfigError> {
        let config = Self {
            overlap: read.overlap,
            retransmissions: read.retransmissions,
            window_bytes: read.window_bytes,
            gap_timeout: read.gap_timeout,
            idle_timeout: read.idle_timeout,
            most_segments_per_flow: read.most_segments_per_flow,
            most_bytes_per_flow: read.most_bytes_per_flow,
            most_segments: read.most_segments,
        };
        config.check()?;
        Ok(config)
    }
}

impl Config {
    fn check(&self) -> Result<(), ConfigError> {
        if !(1..=MOST_BYTES).contains(&self.window_bytes) {
            return Err(ConfigError::Window(self.window_bytes));
        }
        if !(1..=MOST_BYTES).contains(&self.most_bytes_per_flow) {
            return Err(ConfigError::Bytes(self.most_bytes_per_flow));
        }
        check_segments("most_segments_per_flow", self.most_segments_per_flow)?;
        check_segments("most_segments", self.most_segments)?;
        self.check_timeouts()
    }

    fn check_timeouts(&self) -> Result<(), ConfigError> {
        let Self { gap_timeout, idle_timeout, .. } = *self;
        if gap_timeout == Human::default() {
            return Err(ConfigError::NoGapTimeout);
        }
        if idle_timeout <= gap_timeout {
            return Err(ConfigError::IdleBeforeGap { gap_timeout, idle_timeout });
        }
        Ok(())
    }
}

fn check_segments(name: &'static str, found: u32) -> Result<(), ConfigError> {
    if (1..=MOST_SEGMENTS).contains(&found) { Ok(()) } else { Err(ConfigError::Segments { name, found }) }
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
            window_bytes = 65536
            gap_timeout = "20ms"
            idle_timeout = "1m"
            most_segments_per_flow = 3
            most_bytes_per_flow = 4
            most_segments = 5
        "#;
        let expected = Config {
            overlap: Overlap::Last,
            retransmissions: Retransmissions::Drop,
            window_bytes: 65536,
            gap_timeout: Human::milliseconds(20),
            idle_timeout: Human::seconds(60),
            most_segments_per_flow: 3,
            most_bytes_per_flow: 4,
            most_segments: 5,
        };
        assert_eq!(toml::from_str::<Config>(text), Ok(expected));
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_what_was_expected() {
        let cases = [
            ("window_bytes = 0", "expected window_bytes from 1 to 1073741824, found 0"),
            ("window_bytes = 2000000000", "expected window_bytes from 1 to 1073741824"),
            ("most_bytes_per_flow = 0", "expected most_bytes_per_flow from 1"),
            ("most_segments_per_flow = 0", "expected most_segments_per_flow from 1 to 1048576, found 0"),
            ("most_segments = 2000000", "expected most_segments from 1 to 1048576, found 2000000"),
            ("gap_timeout = \"0s\"", "expected a gap_timeout above 0"),
            ("gap_timeout = \"10m\"", "expected an idle_timeout above the gap_timeout of 10m, found 5m"),
            ("overlap = \"middle\"", "expected `first` or `last`"),
            ("windows = 1", "unknown field `windows`"),
        ];
        for (text, expected) in cases {
            let message = toml::from_str::<Config>(text).expect_err(text).to_string();
            assert!(message.contains(expected) && message.contains("line 1, column"), "{text}: {message}");
        }
    }
}
