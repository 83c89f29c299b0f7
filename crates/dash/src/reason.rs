//! Why packets are dropped: every drop of a node has its reason there, so they are below this crate.

pub use twinpath_core::DashReason as Reason;
