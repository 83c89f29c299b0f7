//! Single changes of a configuration, as an operator asks for them: one rule, one route, one
//! backend, one forward.

use serde::{Deserialize, Serialize};
use std::error::Error;
use std::fmt;
use std::str::FromStr;

/// What a function has several of.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Object {
    /// Rules of an access list or a firewall.
    Rule,
    /// Routes of a router.
    Route,
    /// Backends of a load balancer.
    Backend,
    /// Bindings of an address translation, which come and go with packets.
    Binding,
    /// Forwards of an address translation.
    Forward,
}

impl fmt::Display for Object {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Rule => "rules",
            Self::Route => "routes",
            Self::Backend => "backends",
            Self::Binding => "bindings",
            Self::Forward => "forwards",
        })
    }
}

/// A single change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "edit", rename_all = "snake_case", deny_unknown_fields)]
pub enum Edit {
    /// Another rule.
    AddRule {
        /// The rule on one line, as `deny ingress lan protocol tcp from 10.0.0.0/8 to_port 25`.
        rule: String,
        /// The number that it gets, counted from 1; it comes last without.
        number: Option<usize>,
    },
    /// A rule less.
    DeleteRule {
        /// Its number, or the rule on one line.
        rule: String,
    },
    /// Another route.
    AddRoute {
        /// The prefix.
        to: String,
        /// A next hop's name, or `discard`.
        via: String,
    },
    /// Another route, in place of that to the same prefix if there is one.
    ReplaceRoute {
        /// The prefix.
        to: String,
        /// A next hop's name, or `discard`.
        via: String,
    },
    /// A route less.
    DeleteRoute {
        /// The prefix.
        to: String,
    },
    /// Another backend, or one that was drained and gets connections again.
    AddBackend {
        /// Its service, as `192.0.2.1:80/tcp`; may be left out if there is one only.
        service: Option<String>,
        /// Where it is.
        endpoint: String,
        /// If absent 1, or what a drained one has.
        weight: Option<u32>,
        /// For direct return; if absent what a drained one has.
        mac: Option<String>,
    },
    /// A backend gets no new connections.
    DrainBackend {
        /// Its service.
        service: Option<String>,
        /// Where it is.
        endpoint: String,
    },
    /// A backend less; its connections go to others.
    RemoveBackend {
        /// Its service.
        service: Option<String>,
        /// Where it is.
        endpoint: String,
    },
    /// External ports, or an address, stand for a host inside from now on.
    AddForward {
        /// `tcp` or `udp`; without it a whole address stands for a host.
        protocol: Option<String>,
        /// The external endpoint, or several, as `192.0.2.1:8000-8010`, or an address.
        external: String,
        /// Whom it stands for; of several the first.
        to: String,
    },
    /// A forward less; what it has let in goes on until it is idle.
    DeleteForward {
        /// Its protocol; both if absent.
        protocol: Option<String>,
        /// What it is of, as it was written.
        external: String,
    },
}

/// Why a configuration is not changed.
#[derive(Debug, thiserror::Error)]
pub enum EditError {
    /// The function has nothing of the kind.
    #[error("it has no {0}")]
    Object(Object),
    /// A word that cannot be read.
    #[error("{text:?} is {why}")]
    Word {
        /// The word.
        text: String,
        /// What is wrong with it.
        why: String,
    },
    /// What the function says.
    #[error(transparent)]
    Function(Box<dyn Error + Send + Sync>),
}

impl Edit {
    /// What it changes one of.
    pub const fn object(&self) -> Object {
        match self {
            Self::AddRule { .. } | Self::DeleteRule { .. } => Object::Rule,
            Self::AddRoute { .. } | Self::ReplaceRoute { .. } | Self::DeleteRoute { .. } => {
                Object::Route
            }
            Self::AddBackend { .. } | Self::DrainBackend { .. } | Self::RemoveBackend { .. } => {
                Object::Backend
            }
            Self::AddForward { .. } | Self::DeleteForward { .. } => Object::Forward,
        }
    }
}

impl EditError {
    /// What the function says.
    pub(crate) fn of(error: impl Error + Send + Sync + 'static) -> Self {
        Self::Function(Box::new(error))
    }
}

/// Reads a word of an edit.
pub(crate) fn word<T: FromStr<Err: fmt::Display>>(text: &str) -> Result<T, EditError> {
    text.parse().map_err(|why: T::Err| EditError::Word {
        text: text.to_owned(),
        why: why.to_string(),
    })
}
