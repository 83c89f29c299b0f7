//! All functions that a service can name.

use crate::{firewall, inspector, kv_store, load_balancer, reassembler};
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
    /// [`inspector`]
    Inspector,
    /// [`load_balancer`]
    LoadBalancer,
    /// [`kv_store`]
    KvStore,
}

impl fmt::Display for FunctionName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Firewall => "firewall",
            Self::Reassembler => "reassembler",
            Self::Inspector => "inspector",
            Self::LoadBalancer => "load_balancer",
            Self::KvStore => "kv_store",
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
}

impl FunctionConfig {
    /// Builds the function; each worker needs one of its own. Relative paths in the configuration
    /// start from `folder`.
    ///
    /// # Errors
    /// A file that the configuration names cannot be read or is wrong.
    pub fn build(
        &self,
        folder: &Path,
    ) -> Result<Box<dyn NetworkFunction>, inspector::InspectorError> {
        Ok(match self {
            Self::Firewall(config) => Box::new(firewall::Firewall::new(config)),
            Self::Reassembler(config) => Box::new(reassembler::Reassembler::new(config)),
            Self::Inspector(config) => inspector::inspector(config, folder)?,
            Self::LoadBalancer(config) => Box::new(load_balancer::LoadBalancer::new(config)),
            Self::KvStore(config) => Box::new(kv_store::KvStore::new(config)),
        })
    }
}
