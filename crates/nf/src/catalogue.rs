//! All functions that a service can name.

use crate::{
    acl, firewall, inspector, kv_store, load_balancer, monitor, napt, reassembler, router,
};
use serde::Deserialize;
use std::fmt;
use std::path::Path;
use twinpath_rulecache::{Change, RuleFunction};
use twinpath_slowpath::NetworkFunction;

/// A function's name in service files, reports and messages.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FunctionName {
    /// [`firewall`]
    Firewall,
    /// [`reassembler`]
    Reassembler,
    /// [`inspector`]
    Inspector,
    /// [`load_balancer`]
    LoadBalancer,
    /// [`kv_store`]
    KvStore,
    /// [`acl`]
    Acl,
    /// [`napt`]
    Napt,
    /// [`router`]
    Router,
    /// [`monitor`]
    Monitor,
}

impl fmt::Display for FunctionName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Firewall => "firewall",
            Self::Reassembler => "reassembler",
            Self::Inspector => "inspector",
            Self::LoadBalancer => "load_balancer",
            Self::KvStore => "kv_store",
            Self::Acl => acl::NAME,
            Self::Napt => napt::NAME,
            Self::Router => router::NAME,
            Self::Monitor => monitor::NAME,
        })
    }
}

/// A function and its configuration.
#[derive(Clone, Debug)]
pub enum FunctionConfig {
    /// A stateful firewall.
    Firewall(firewall::Config),
    /// A TCP reassembler.
    Reassembler(reassembler::Config),
    /// A packet inspector.
    Inspector(inspector::Config),
    /// An L4 load balancer.
    LoadBalancer(load_balancer::Config),
    /// A key-value store.
    KvStore(kv_store::Config),
    /// An access control list.
    Acl(acl::Config),
    /// An address translation.
    Napt(napt::Config),
    /// A router.
    Router(router::Config),
    /// A traffic monitor.
    Monitor(monitor::Config),
    /// An L4 load balancer that makes rules.
    RuleBalancer(load_balancer::Config),
}

/// A function, by what its decisions depend on.
pub enum Function {
    /// State that packets change: both paths share it.
    Flow(Box<dyn NetworkFunction>),
    /// Header bits and table entries: decisions are cached as rules.
    Rules(Box<dyn RuleFunction>),
}

/// Why a function cannot go on with another configuration.
#[derive(Copy, Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SuccessionError {
    /// A balancer that made rules and would share flow state, or the other way round.
    #[error(
        "load_balancer: its connections are {before} and would be {after}: expected a chain in which they stay what they are, or one without load_balancer in between"
    )]
    OtherForm {
        /// What they are.
        before: &'static str,
        /// What they would be.
        after: &'static str,
    },
    /// Another implementation of an inspector's search.
    #[error(
        "inspector: its matcher cannot change, because what it has half seen means nothing to another: expected the same matcher, or a chain without inspector in between"
    )]
    OtherMatcher,
}

/// Why a function cannot be built.
#[derive(Debug, thiserror::Error)]
pub enum FunctionError {
    /// The inspector's rules.
    #[error(transparent)]
    Inspector(#[from] inspector::InspectorError),
    /// A list.
    #[error(transparent)]
    List(#[from] acl::ListError),
    /// Routes.
    #[error(transparent)]
    Router(#[from] router::RouterError),
}

impl FunctionConfig {
    /// The function's name.
    pub const fn name(&self) -> FunctionName {
        match self {
            Self::Firewall(_) => FunctionName::Firewall,
            Self::Reassembler(_) => FunctionName::Reassembler,
            Self::Inspector(_) => FunctionName::Inspector,
            Self::LoadBalancer(_) | Self::RuleBalancer(_) => FunctionName::LoadBalancer,
            Self::KvStore(_) => FunctionName::KvStore,
            Self::Acl(_) => FunctionName::Acl,
            Self::Napt(_) => FunctionName::Napt,
            Self::Router(_) => FunctionName::Router,
            Self::Monitor(_) => FunctionName::Monitor,
        }
    }

    /// Whether the function's decisions are cached as rules; otherwise it shares flow state.
    pub const fn makes_rules(&self) -> bool {
        matches!(
            self,
            Self::Acl(_)
                | Self::Napt(_)
                | Self::Router(_)
                | Self::Monitor(_)
                | Self::RuleBalancer(_)
        )
    }

    /// The functions of a chain, each in the form that suits the others: a load balancer beside
    /// functions that share flow state shares its own, else it makes rules as they do.
    #[must_use]
    pub fn suited(chain: Vec<Self>) -> Vec<Self> {
        let is_balancer = |function: &Self| matches!(function, Self::LoadBalancer(_));
        let shares = |function: &Self| !function.makes_rules() && !is_balancer(function);
        if chain.iter().any(shares) || !chain.iter().any(Self::makes_rules) {
            return chain;
        }
        let suit = |function| match function {
            Self::LoadBalancer(config) => Self::RuleBalancer(config),
            other => other,
        };
        chain.into_iter().map(suit).collect()
    }

    /// Whether the function takes another configuration while packets flow.
    pub const fn takes_changes(&self) -> bool {
        true
    }

    /// Whether the function may go on where one of the same name with another configuration is.
    ///
    /// # Errors
    /// Why it cannot.
    pub fn check_succession(&self, former: &Self) -> Result<(), SuccessionError> {
        const RULES: &str = "entries that rules come from";
        const STATE: &str = "state of their flows";
        let other_form = |before, after| Err(SuccessionError::OtherForm { before, after });
        match (former, self) {
            (Self::LoadBalancer(_), Self::RuleBalancer(_)) => other_form(STATE, RULES),
            (Self::RuleBalancer(_), Self::LoadBalancer(_)) => other_form(RULES, STATE),
            (Self::Inspector(before), Self::Inspector(after))
                if before.matcher != after.matcher =>
            {
                Err(SuccessionError::OtherMatcher)
            }
            _ => Ok(()),
        }
    }

    /// Reads files that belong to the configuration and are small, so that it is whole.
    pub fn read_files(&mut self, folder: &Path) {
        if let Self::Inspector(config) = self {
            config.read_file(folder);
        }
    }

    /// Whether what these files said is the same for another configuration.
    pub fn has_same_files(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Inspector(one), Self::Inspector(other)) => one.has_same_file(other),
            _ => true,
        }
    }

    /// Whether it takes such a configuration from a file of its own, too.
    pub const fn takes_changes_from_file(&self) -> bool {
        matches!(self, Self::Router(config) if config.has_routes_file())
    }

    /// This configuration as a change of a function of the same name, with all that takes long
    /// done; `None` if the function takes none.
    ///
    /// # Errors
    /// As for [`Self::build`].
    pub fn change(&self, folder: &Path, seed: u64) -> Result<Option<Change>, FunctionError> {
        Ok(Some(match self {
            Self::Acl(config) => Change::of::<acl::AccessList>(acl::NewList::Whole(Box::new(
                acl::Prepared::new(config)?,
            ))),
            Self::Napt(config) => Change::of::<napt::Napt>(napt::NewNapt::new(config, seed)),
            Self::Router(config) => {
                let router = Box::new(router::Router::new(config, folder)?);
                Change::of::<router::Router>(router::NewRoutes::Whole(router))
            }
            Self::Monitor(config) => {
                Change::of::<monitor::Monitor>(monitor::NewMonitor::new(config, seed))
            }
            Self::RuleBalancer(config) => {
                Change::of::<load_balancer::RuleBalancer>(load_balancer::Prepared::new(config))
            }
            _ => return Ok(None),
        }))
    }

    /// Why the function's decisions are cached, or why it shares state, and what of it stays on
    /// the cores: for people to read.
    pub const fn placement(&self) -> &'static str {
        match self {
            Self::Firewall(_) => {
                "each packet may move its connection's state on, so both paths hold the state"
            }
            Self::Reassembler(_) => {
                "each segment moves the connection on, so both paths hold where it stands; what is out of order waits on the cores"
            }
            Self::Inspector(_) => {
                "it reads payloads and keeps where a connection's search stands, so both paths hold that; deep matches are for the cores"
            }
            Self::LoadBalancer(_) => {
                "a connection's backend is its state, which both paths hold; choosing one is for the cores"
            }
            Self::RuleBalancer(_) => {
                "a connection's entry decides, once its backend is chosen; what opens or ends one is for the cores"
            }
            Self::KvStore(_) => "a key's value changes with requests, so both paths hold it",
            Self::Acl(_) => {
                "addresses, ports and protocol decide, and the list, which seldom changes"
            }
            Self::Napt(_) => {
                "a session's entry decides; what opens or ends a session, and ICMP errors, are for the cores"
            }
            Self::Router(_) => {
                "a prefix of the destination address decides; packets that end here are for the cores, which answer"
            }
            Self::Monitor(_) => "it only counts, and what rules handle is reported to it",
        }
    }

    /// Why the function needs the payloads of packets on the cores; `None` if headers will do. Of
    /// packets whose time to live ends it may have the payload all the same.
    pub fn needs_payload(&self) -> Option<&'static str> {
        match self {
            Self::Reassembler(_) => Some("puts payloads in order"),
            Self::Inspector(_) => Some("reads payloads"),
            Self::KvStore(_) => Some("reads requests and writes answers"),
            Self::Router(config) if config.quotes_payloads() => Some(
                "answers packets without a route, and quotes them (with a default route, or with no_route = \"drop\", it would not)",
            ),
            Self::Firewall(_)
            | Self::LoadBalancer(_)
            | Self::RuleBalancer(_)
            | Self::Acl(_)
            | Self::Napt(_)
            | Self::Router(_)
            | Self::Monitor(_) => None,
        }
    }

    /// Builds the function; each worker needs one of its own. Relative paths in the configuration
    /// start from `folder`, hashes and choices from `seed`.
    ///
    /// # Errors
    /// A file that the configuration names cannot be read or is wrong.
    pub fn build(&self, folder: &Path, seed: u64) -> Result<Function, FunctionError> {
        Ok(match self {
            Self::Firewall(config) => flow(firewall::Firewall::new(config)),
            Self::Reassembler(config) => flow(reassembler::Reassembler::new(config)),
            Self::Inspector(config) => Function::Flow(inspector::inspector(config, folder)?),
            Self::LoadBalancer(config) => flow(load_balancer::LoadBalancer::new(config)),
            Self::KvStore(config) => flow(kv_store::KvStore::new(config)),
            Self::Acl(config) => rules(acl::AccessList::new(acl::Prepared::new(config)?)),
            Self::Napt(config) => rules(napt::Napt::new(config, seed)),
            Self::Router(config) => rules(router::Router::new(config, folder)?),
            Self::Monitor(config) => rules(monitor::Monitor::new(config, seed)),
            Self::RuleBalancer(config) => rules(load_balancer::RuleBalancer::new(
                load_balancer::Prepared::new(config),
                seed,
            )),
        })
    }
}

fn flow(function: impl NetworkFunction + 'static) -> Function {
    Function::Flow(Box::new(function))
}

fn rules(function: impl RuleFunction + 'static) -> Function {
    Function::Rules(Box::new(function))
}
