//! The configuration, checked while it is read.

use crate::duration::Human;
use crate::files::Files;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A packet inspector's configuration.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The rules file; a relative path starts from the service file's folder.
    #[schemars(title = "file")]
    pub rules: PathBuf,
    /// How long a banned flow must be silent before it is a new one.
    #[serde(default = "five_minutes")]
    pub ban_timeout: Timeout,
    /// How long a half-seen occurrence is remembered without a packet.
    #[serde(default = "one_minute")]
    pub stream_timeout: Timeout,
    /// Flows whose half-seen occurrences are remembered at the same time, per worker; beyond that
    /// they are forgotten (`forgotten_streams`).
    #[serde(default = "many_streams")]
    pub streams: u32,
    /// What inspects streams on the slow path.
    #[serde(default)]
    pub matcher: Matcher,
    /// What the rules file said when it was read.
    #[serde(skip)]
    pub(super) text: Option<Arc<str>>,
}

impl Config {
    /// Reads the rules file, so that the inspector will be what the file says now.
    pub(super) fn read_file(&mut self, folder: &Path, files: &dyn Files) -> io::Result<()> {
        self.text = Some(self.read_rules(folder, files)?);
        Ok(())
    }

    /// The text of the rules file as it is now.
    pub(super) fn read_rules(&self, folder: &Path, files: &dyn Files) -> io::Result<Arc<str>> {
        files.read(&folder.join(&self.rules))
    }
}

/// What inspects streams on the slow path.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Matcher {
    /// The matcher written in Rust.
    #[default]
    Rust,
    /// Hyperscan; needs the program to be built with the feature `hyperscan`.
    #[cfg(feature = "hyperscan")]
    Hyperscan,
}

/// A time-out of at least one tick, short enough for differences of ticks.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(try_from = "Human")]
#[schemars(title = "time above 0, below four years")]
pub struct Timeout(Human);

impl Timeout {
    /// In ticks of 67 ms.
    pub fn ticks(self) -> u32 {
        self.0.ticks()
    }
}

/// A time-out that cannot be measured.
#[derive(Copy, Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected a time-out longer than 0 and shorter than four years")]
pub struct TimeoutError;

impl TryFrom<Human> for Timeout {
    type Error = TimeoutError;

    fn try_from(duration: Human) -> Result<Self, TimeoutError> {
        match duration.ticks() {
            1..=0x7fff_ffff => Ok(Self(duration)),
            _ => Err(TimeoutError),
        }
    }
}

fn five_minutes() -> Timeout {
    Timeout(Human::seconds(300))
}

fn one_minute() -> Timeout {
    Timeout(Human::seconds(60))
}

fn many_streams() -> u32 {
    65_536
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_rules_file_must_be_named() {
        let config: Config = toml::from_str("rules = \"a.rules\"").expect("valid");
        assert_eq!(config.streams, 65_536);
        let error = toml::from_str::<Config>("rules = \"a\"\nban_timeout = \"0s\"")
            .expect_err("no time at all")
            .to_string();
        assert!(
            error.contains("line 2") && error.contains("expected a time-out"),
            "{error}"
        );
    }
}
