//! The configuration of a translation of prefixes.

use super::mapping::{LONGEST, Mapping};
use crate::text::Text;
use schemars::JsonSchema;
use serde::Deserialize;
use twinpath_classify::{Prefix, Versions};

/// Most pairs of prefixes.
pub const MAX_PREFIXES: usize = 64;

/// The configuration of a translation of prefixes; see the [module](super).
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(try_from = "Written")]
#[schemars(with = "Written")]
pub struct Config {
    pub(super) mappings: Vec<Mapping>,
    inside: Vec<Prefix>,
    external: Vec<Prefix>,
}

impl Config {
    /// The prefixes inside.
    pub fn inside(&self) -> &[Prefix] {
        &self.inside
    }

    /// The prefixes that stand for them, in the same order.
    pub fn external(&self) -> &[Prefix] {
        &self.external
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Written {
    /// Prefixes that stand for each other, of which none lies in another.
    #[schemars(length(min = 1, max = MAX_PREFIXES))]
    prefixes: Vec<Pair>,
}

/// Two prefixes of IPv6 that stand for each other.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Pair {
    /// The prefix of the hosts inside, of at most 64 bits. Of two lengths the longer counts for both,
    /// with zeros behind the shorter.
    inside: Text<Prefix>,
    /// What stands for it outside, of at most 64 bits.
    external: Text<Prefix>,
}

/// What is wrong with a configuration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// No pair, or too many.
    #[error("{0} prefixes: expected 1 to {MAX_PREFIXES}")]
    Count(usize),
    /// Not a prefix of IPv6 that can be translated.
    #[error("{0}: expected a prefix of IPv6 with 1 to {LONGEST} bits")]
    Prefix(Prefix),
    /// Two prefixes that have addresses in common.
    #[error("{0} and {1} have addresses in common")]
    Overlap(Prefix, Prefix),
}

impl TryFrom<Written> for Config {
    type Error = ConfigError;

    fn try_from(written: Written) -> Result<Self, ConfigError> {
        let pairs = written.prefixes;
        if !(1..=MAX_PREFIXES).contains(&pairs.len()) {
            return Err(ConfigError::Count(pairs.len()));
        }
        let mut mappings = Vec::new();
        for pair in &pairs {
            let (inside, external) = (check(pair.inside.0)?, check(pair.external.0)?);
            mappings.push(Mapping::new(inside, external));
        }
        let config = Self {
            inside: mappings.iter().map(|mapping| mapping.inside).collect(),
            external: mappings.iter().map(|mapping| mapping.external).collect(),
            mappings,
        };
        config.check_overlaps()?;
        Ok(config)
    }
}

fn check(prefix: Prefix) -> Result<Prefix, ConfigError> {
    let is_fit = prefix.versions() == Versions::V6 && (1..=LONGEST).contains(&prefix.length());
    is_fit.then_some(prefix).ok_or(ConfigError::Prefix(prefix))
}

impl Config {
    fn check_overlaps(&self) -> Result<(), ConfigError> {
        let all: Vec<Prefix> = self.inside.iter().chain(&self.external).copied().collect();
        for (place, &one) in all.iter().enumerate() {
            for &other in &all[place + 1..] {
                if one.includes(other.network()) || other.includes(one.network()) {
                    return Err(ConfigError::Overlap(one, other));
                }
            }
        }
        Ok(())
    }
}
