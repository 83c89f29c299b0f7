//! The chains of a run, as production builds them, and what they should do.

mod prefixes;
mod reference;
pub mod service;
mod variant;
mod versions;

pub use reference::{Leg, Reference};
pub use variant::Variant;
pub use versions::{cross, embedded, is_for_v4};

use twinpath_control::service::Service;

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
    /// Payloads were parked when it was asked for.
    pub has_parked: bool,
}
