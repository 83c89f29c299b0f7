//! The configuration of an access control list.

use crate::firewall::rule::{Action, Rule};
use serde::Deserialize;

/// Most rules in a list, as written.
pub const MAX_RULES: usize = 100_000;
/// Most rules in the classifier, one for each pair of port ranges.
pub const MAX_EXPANDED: usize = 1_000_000;

/// What an access control list is told; see the [module](super).
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// What happens to packets that no rule matches.
    pub default: Action,
    /// How rules with ports meet fragments.
    pub fragments: Fragments,
    /// The rules, in order.
    pub rules: Rules,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            default: Action::Deny,
            fragments: Fragments::Strict,
            rules: Rules::default(),
        }
    }
}

/// How rules with ports meet fragments.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Fragments {
    /// A rule with ports denies any fragment of its protocol and addresses, or allows none.
    Strict,
    /// First fragments are judged by their ports; others pass if an allowed packet may have them.
    Lenient,
}

/// A list of at most [`MAX_RULES`] rules.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Vec<Rule>")]
pub struct Rules(pub(super) Vec<Rule>);

impl Config {
    /// The rules, in order.
    pub fn rules(&self) -> &[Rule] {
        &self.rules.0
    }

    /// The same with other rules.
    ///
    /// # Errors
    /// Too many rules.
    pub fn with_rules(&self, rules: Vec<Rule>) -> Result<Self, ConfigError> {
        Ok(Self {
            rules: rules.try_into()?,
            ..self.clone()
        })
    }
}

/// What can be wrong with a list besides its rules.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// Too many rules.
    #[error("{0} rules: at most {MAX_RULES}")]
    TooManyRules(usize),
    /// Too many pairs of port ranges.
    #[error(
        "the rules make {0} pairs of port ranges: at most {MAX_EXPANDED}; write fewer lists of ports"
    )]
    TooManyPairs(usize),
}

impl TryFrom<Vec<Rule>> for Rules {
    type Error = ConfigError;

    fn try_from(rules: Vec<Rule>) -> Result<Self, ConfigError> {
        let pairs = rules.iter().map(super::expand::expanded_count).sum();
        if rules.len() > MAX_RULES {
            Err(ConfigError::TooManyRules(rules.len()))
        } else if pairs > MAX_EXPANDED {
            Err(ConfigError::TooManyPairs(pairs))
        } else {
            Ok(Self(rules))
        }
    }
}
