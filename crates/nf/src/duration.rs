//! Durations as people write them in configuration files: `"250ms"`, `"30s"`, `"5m"`, `"2h"`.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use schemars::JsonSchema;
use serde::de::{Deserializer, Error, Visitor};
use serde::{Deserialize, Serialize};
use twinpath_core::time::ticks_of;

/// A duration that a person wrote: a whole number and a unit, from nanoseconds to days.
///
/// In configuration files it is a string; everything else is refused with a message that says
/// what a duration looks like.
#[derive(
    Copy, Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema,
)]
#[serde(into = "String")]
#[schemars(
    with = "String",
    title = "time",
    extend("pattern" = r"^\s*[0-9]+\s*(d|h|m|s|ms|us|ns)\s*$"),
)]
pub struct Human(pub Duration);

/// Units with their length in nanoseconds, the longest first.
const UNITS: [(&str, u64); 7] = [
    ("d", 86_400_000_000_000),
    ("h", 3_600_000_000_000),
    ("m", 60_000_000_000),
    ("s", 1_000_000_000),
    ("ms", 1_000_000),
    ("us", 1_000),
    ("ns", 1),
];

impl Human {
    /// So many milliseconds.
    pub const fn milliseconds(count: u64) -> Self {
        Self(Duration::from_millis(count))
    }

    /// So many seconds.
    pub const fn seconds(count: u64) -> Self {
        Self(Duration::from_secs(count))
    }

    /// The duration.
    pub const fn duration(self) -> Duration {
        self.0
    }

    /// The duration in [ticks](twinpath_core::Instant::ticks) of 67 ms, rounded up.
    pub fn ticks(self) -> u32 {
        ticks_of(self.0)
    }
}

/// A text that is no duration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DurationError {
    /// No whole number followed by a known unit.
    #[error("expected a duration such as \"250ms\", \"30s\", \"5m\" or \"2h\", found {0:?}")]
    Unreadable(String),
    /// More nanoseconds than 64 bits hold: about 584 years.
    #[error("a duration of {0:?} is too long")]
    TooLong(String),
}

impl FromStr for Human {
    type Err = DurationError;

    fn from_str(text: &str) -> Result<Self, DurationError> {
        let unreadable = || DurationError::Unreadable(text.to_owned());
        let too_long = || DurationError::TooLong(text.to_owned());
        let trimmed = text.trim();
        let unit_start = trimmed
            .find(|c: char| !c.is_ascii_digit())
            .ok_or_else(unreadable)?;
        let (digits, unit) = trimmed.split_at(unit_start);
        let (_, unit_ns) = UNITS
            .into_iter()
            .find(|&(name, _)| name == unit.trim_start())
            .ok_or_else(unreadable)?;
        if digits.is_empty() {
            return Err(unreadable());
        }
        let count: u64 = digits.parse().map_err(|_| too_long())?;
        let nanoseconds = count.checked_mul(unit_ns).ok_or_else(too_long)?;
        Ok(Self(Duration::from_nanos(nanoseconds)))
    }
}

impl<'de> Deserialize<'de> for Human {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(Written)
    }
}

/// Reads a text, and tells who wrote something else what a time looks like.
struct Written;

impl Visitor<'_> for Written {
    type Value = Human;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a time, such as \"30s\"")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Human, E> {
        text.parse().map_err(E::custom)
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Human, E> {
        let example = number.unsigned_abs();
        let message = format_args!("expected a time, such as \"{example}s\", found {number}");
        Err(E::custom(message))
    }
}

impl TryFrom<String> for Human {
    type Error = DurationError;

    fn try_from(text: String) -> Result<Self, DurationError> {
        text.parse()
    }
}

impl From<Human> for String {
    fn from(duration: Human) -> Self {
        duration.to_string()
    }
}

impl From<Human> for Duration {
    fn from(duration: Human) -> Self {
        duration.0
    }
}

impl fmt::Display for Human {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanoseconds = self.0.as_nanos();
        if nanoseconds == 0 {
            return formatter.write_str("0s");
        }
        let divides =
            |&&(_, unit_ns): &&(&str, u64)| nanoseconds.is_multiple_of(u128::from(unit_ns));
        let (name, unit_ns) = UNITS.iter().find(divides).copied().unwrap_or(("ns", 1));
        write!(formatter, "{}{name}", nanoseconds / u128::from(unit_ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Debug, Deserialize)]
    struct Holder {
        #[serde(rename = "timeout")]
        _timeout: Human,
    }

    #[test]
    fn every_unit_is_read() {
        let expected = [
            ("7ns", Duration::from_nanos(7)),
            ("15us", Duration::from_micros(15)),
            ("250ms", Duration::from_millis(250)),
            ("30s", Duration::from_secs(30)),
            ("5m", Duration::from_secs(300)),
            ("2h", Duration::from_secs(7200)),
            ("5d", Duration::from_secs(432_000)),
            (" 10 s ", Duration::from_secs(10)),
        ];
        for (text, duration) in expected {
            assert_eq!(
                text.parse::<Human>().map(Human::duration),
                Ok(duration),
                "{text}"
            );
        }
    }

    #[test]
    fn what_is_no_duration_is_refused() {
        for text in ["", "30", "s", "1.5s", "-1s", "30 parsecs", "1h30m", "30S"] {
            assert_eq!(
                text.parse::<Human>(),
                Err(DurationError::Unreadable(text.to_owned()))
            );
        }
        for text in ["99999999999999999999s", "600000d"] {
            assert_eq!(
                text.parse::<Human>(),
                Err(DurationError::TooLong(text.to_owned()))
            );
        }
    }

    #[test]
    fn the_message_names_the_place_and_what_was_expected() {
        let message = toml::from_str::<Holder>("# first line\ntimeout = \"soon\"\n")
            .expect_err("no duration")
            .to_string();
        assert!(message.contains("line 2, column 11"), "{message}");
        assert!(
            message.contains(
                "expected a duration such as \"250ms\", \"30s\", \"5m\" or \"2h\", found \"soon\""
            ),
            "{message}"
        );
    }

    #[test]
    fn ticks_are_rounded_up() {
        assert_eq!(Human::seconds(30).ticks(), 448);
        assert_eq!(Human::milliseconds(1).ticks(), 1);
        assert_eq!(Human::default().ticks(), 0);
    }

    proptest! {
        #[test]
        fn what_is_printed_reads_back(nanoseconds: u64, unit in 0..UNITS.len()) {
            let rounded = nanoseconds - nanoseconds % UNITS[unit].1;
            let duration = Human(Duration::from_nanos(rounded));
            prop_assert_eq!(duration.to_string().parse(), Ok(duration));
        }
    }
}
