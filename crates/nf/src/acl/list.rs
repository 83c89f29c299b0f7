//! Rules as written, and the classifiers made of them.

use super::config::{Config, Fragments, MAX_EXPANDED, MAX_RULES};
use super::expand::{expand, expand_portless};
use crate::firewall::rule::{Action, Rule};
use twinpath_classify::acl::{Acl, Examined, Headers, Rule as Expanded};

/// Why a list cannot be prepared.
#[derive(Copy, Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ListError {
    /// It holds as many rules as it may.
    #[error("a list of {MAX_RULES} rules, or {MAX_EXPANDED} pairs of port ranges, is full")]
    Full,
}

/// A list that is ready to take the place of another.
#[derive(Debug)]
pub struct Prepared {
    pub(super) default: Action,
    pub(super) fragments: Fragments,
    pub(super) rules: Vec<Rule>,
    /// For packets with ports, or with a protocol that has none.
    whole: Classifier,
    /// For packets that may lack their ports.
    portless: Classifier,
}

/// A classifier, and which rule each of its own came from.
#[derive(Debug)]
struct Classifier {
    acl: Acl,
    owners: Vec<u32>,
}

impl Classifier {
    fn new(rules: &[Rule], expand: impl Fn(&Rule) -> Vec<Expanded>) -> Result<Self, ListError> {
        let (mut all, mut owners) = (Vec::new(), Vec::new());
        for (index, rule) in (0..).zip(rules) {
            all.extend(expand(rule));
            owners.resize(all.len(), index);
        }
        let acl = Acl::new(&all, MAX_EXPANDED).map_err(|_| ListError::Full)?;
        Ok(Self { acl, owners })
    }

    fn rule(&self, headers: &Headers, examined: &mut Examined) -> Option<u32> {
        let index = self.acl.lookup_examined(headers, examined)?;
        self.owners.get(index).copied()
    }
}

impl Prepared {
    /// Builds the classifiers for a list.
    ///
    /// # Errors
    /// Too many rules; a configuration that was read has no more than there may be.
    pub fn new(config: &Config) -> Result<Self, ListError> {
        let rules = config.rules.0.clone();
        let fragments = config.fragments;
        // On the side of the policy.
        let opened = match fragments {
            Fragments::Strict => Action::Deny,
            Fragments::Lenient => Action::Allow,
        };
        Ok(Self {
            default: config.default,
            fragments,
            whole: Classifier::new(&rules, expand)?,
            portless: Classifier::new(&rules, |rule| expand_portless(rule, opened))?,
            rules,
        })
    }

    /// The first rule that matches a packet, and the bits that decided.
    pub(super) fn rule(&self, headers: &Headers, examined: &mut Examined) -> Option<u32> {
        self.whole.rule(headers, examined)
    }

    /// The first rule that matches a fragment.
    pub(super) fn rule_of_fragment(&self, headers: &Headers, is_first: bool) -> Option<u32> {
        let classifier = match (self.fragments, is_first) {
            (Fragments::Lenient, true) => &self.whole,
            _ => &self.portless,
        };
        classifier.rule(headers, &mut Examined::default())
    }
}
