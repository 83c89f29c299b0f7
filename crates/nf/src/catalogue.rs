//! All functions that a service can name.

use crate::{firewall, load_balancer, reassembler};
use serde::Deserialize;
use std::fmt;
use std::path::Path;
use twinpath_slowpath::NetworkFunction;

/// A function's name in service files, reports and messages.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FunctionName {
    /// [`firewall`]
    Firewall,
    /// [`reassembler`]
    Reassembler,
    /// [`load_balancer`]
    LoadBalancer,
}

impl fmt::Display for FunctionName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Firewall => "firewall",
            Self::Reassembler => "reassembler",
            Self::LoadBalancer => "load_balancer",
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
    /// An L4 load balancer.
    LoadBalancer(load_balancer::Config),
}

impl FunctionConfig {
    /// Builds the function; each worker needs one of its own. Relative paths in the configuration
    /// start from `folder`.
    ///
    /// # Errors
    /// A file that the configuration names cannot be read or is wrong.
    pub fn build(&self, folder: &Path) -> Result<Box<dyn NetworkFunction>, std::io::Error> {
        Ok(match self {
            Self::Firewall(config) => Box::new(firewall::Firewall::new(config)),
            Self::Reassembler(config) => Box::new(reassembler::Reassembler::new(config)),
            Self::LoadBalancer(config) => Box::new(load_balancer::LoadBalancer::new(config)),
        })
    }
}
