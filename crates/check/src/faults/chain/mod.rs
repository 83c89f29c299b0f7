//! The chains of a run, as production builds them, and what they should do.

pub mod reference;
pub mod service;
pub mod unlisted;
pub mod variant;

use twinpath_control::service::Service;
use variant::Variant;

/// What the chain is, and what it becomes.
pub struct Chain {
    pub variant: Variant,
    pub service: Service,
    /// What it is to become.
    pub next: Option<NextChain>,
}

/// What the chain is to become.
pub struct NextChain {
    pub variant: Variant,
    pub service: Service,
    /// All flows have to come home before.
    pub brings_flows_home: bool,
}
