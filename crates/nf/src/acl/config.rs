//! The configuration of an access control list.

use crate::firewall::rule::{Action, NoPort, Rule, port_number};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// Most rules in a list, as written.
pub const MAX_RULES: usize = 100_000;
/// Most rules in the classifier, one for each pair of port ranges.
pub const MAX_EXPANDED: usize = 1_000_000;

/// What an access control list is told; see the [module](super).
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// What happens to a packet that no rule matches.
    pub default: Action,
    /// How rules with ports meet fragments, of which only the first has ports.
    pub fragments: Fragments,
    /// The rules, in order: the first that matches a packet decides. Lists of ports make several
    /// rules of one in the classifier, one for each pair of ranges and each protocol; there may be
    /// a million of those.
    #[schemars(length(max = MAX_RULES))]
    pub rules: Rules,
    /// The names of the node's ports, by number.
    #[serde(skip)]
    pub ports: Vec<String>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            default: Action::Deny,
            fragments: Fragments::Strict,
            rules: Rules::default(),
            ports: Vec::new(),
        }
    }
}

/// How rules with ports meet fragments.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Fragments {
    /// All fragments are treated alike: a rule with ports denies any fragment of its protocol and
    /// addresses, or allows none.
    Strict,
    /// First fragments are judged by their ports; others pass if an allowed packet may have them.
    Lenient,
}

/// A list of at most [`MAX_RULES`] rules.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
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
    /// Too many rules, or a rule that names no port of the node.
    pub fn with_rules(&self, rules: Vec<Rule>) -> Result<Self, ConfigError> {
        let config = Self {
            rules: rules.try_into()?,
            ..self.clone()
        };
        config.ingress_ports()?;
        Ok(config)
    }

    /// The numbers of the ports that rules name, each once, in order.
    ///
    /// # Errors
    /// A rule names no port of the node.
    pub(super) fn ingress_ports(&self) -> Result<Vec<u16>, ConfigError> {
        let named = self.rules().iter().filter_map(|rule| rule.ingress.as_ref());
        let numbers = named.map(|name| port_number(name, &self.ports));
        let numbers: BTreeSet<u16> = numbers.collect::<Result<_, _>>()?;
        Ok(numbers.into_iter().collect())
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
    /// A rule for packets of a port that there is not.
    #[error(transparent)]
    NoPort(#[from] NoPort),
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
