//! Rules as written, and the classifiers made of them.

use super::config::{Config, ConfigError, Fragments, MAX_EXPANDED, MAX_RULES};
use super::expand::{expand, expand_portless, expanded_count, portless_count};
use crate::firewall::rule::{Action, Rule};
use twinpath_classify::acl::{Acl, Examined, Headers, Rule as Expanded};

/// Why a list cannot be prepared.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ListError {
    /// It holds as many rules as it may.
    #[error("a list of {MAX_RULES} rules, or {MAX_EXPANDED} pairs of port ranges, is full")]
    Full,
    /// A rule names no port of the node.
    #[error(transparent)]
    Config(#[from] ConfigError),
}

/// A list that is ready to take the place of another.
#[derive(Debug)]
pub struct Prepared {
    pub(super) default: Action,
    pub(super) rules: Vec<Rule>,
    /// The rules for packets that come in by ports of which rules speak.
    by_ingress: Vec<(u16, Classifiers)>,
    /// Those for all other packets.
    elsewhere: Classifiers,
}

/// How many rules the classifiers of a list have together: those for each port that rules name, and
/// those for all others.
pub(super) fn classified_rules(config: &Config) -> usize {
    let ports = config.ingress_ports().map_or(0, |ports| ports.len());
    let opened = opened(config.fragments);
    let each = config.rules().iter().map(|rule| {
        let lists = if rule.ingress.is_some() { 1 } else { ports + 1 };
        lists * (expanded_count(rule) + portless_count(rule, opened))
    });
    each.sum()
}

/// What happens to a packet whose ports are not known.
const fn opened(fragments: Fragments) -> Action {
    match fragments {
        Fragments::Strict => Action::Deny,
        Fragments::Lenient => Action::Allow,
    }
}

/// Rules for packets that come in by the same port.
#[derive(Debug)]
pub(super) struct Classifiers {
    fragments: Fragments,
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
    fn new(
        rules: &[(u32, &Rule)],
        expand: impl Fn(&Rule) -> Vec<Expanded>,
    ) -> Result<Self, ListError> {
        let (mut all, mut owners) = (Vec::new(), Vec::new());
        for &(index, rule) in rules {
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
    /// Too many rules, or a port that there is not; a configuration that was read has neither.
    pub fn new(config: &Config) -> Result<Self, ListError> {
        let by_ingress = config.ingress_ports()?.into_iter().map(|number| {
            let name = config.ports.get(usize::from(number));
            Ok((number, Classifiers::new(config, name.map(String::as_str))?))
        });
        Ok(Self {
            default: config.default,
            by_ingress: by_ingress.collect::<Result<_, ListError>>()?,
            elsewhere: Classifiers::new(config, None)?,
            rules: config.rules.0.clone(),
        })
    }

    /// Whether rules speak of ports that packets come in by.
    pub(super) fn has_ingress(&self) -> bool {
        !self.by_ingress.is_empty()
    }

    /// The rules for packets that come in by a port.
    pub(super) fn at(&self, ingress: u16) -> &Classifiers {
        let mut by_ingress = self.by_ingress.iter();
        let own = by_ingress.find(|(number, _)| *number == ingress);
        own.map_or(&self.elsewhere, |(_, classifiers)| classifiers)
    }
}

impl Classifiers {
    /// Of the rules that match packets that come in by the port of this name, or by one that no rule
    /// names.
    fn new(config: &Config, port: Option<&str>) -> Result<Self, ListError> {
        let is_for = |(_, rule): &(u32, &Rule)| {
            let ingress = rule.ingress.as_deref();
            ingress.is_none() || ingress == port
        };
        let rules: Vec<_> = (0..).zip(&config.rules.0).filter(is_for).collect();
        let fragments = config.fragments;
        // On the side of the policy.
        let opened = opened(fragments);
        Ok(Self {
            fragments,
            whole: Classifier::new(&rules, expand)?,
            portless: Classifier::new(&rules, |rule| expand_portless(rule, opened))?,
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
