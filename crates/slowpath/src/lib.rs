//! The slow path: general-purpose processing of whatever the fast path cannot do.
//!
//! A [`NetworkFunction`] is ordinary Rust over the flow's state words (the part it shares with
//! its fast program) and whatever private state it keeps beside them. A [`Chain`] fuses several
//! functions into one composite flow state and runs packets through them, in reverse order for
//! replies. The [`FlowStore`] owns the flows of one worker.
#![forbid(unsafe_code)]

pub mod buffer;
pub mod chain;
pub mod common;
pub mod function;
pub mod migration;
pub mod slab;
pub mod store;
pub mod timers;

pub use buffer::PacketBuffer;
pub use chain::Chain;
pub use common::Common;
pub use function::{DropNote, Eviction, Flow, NetworkFunction, Outbox};
pub use migration::{Migration, NextFunction};
pub use slab::Slab;
pub use store::{FlowId, FlowStore};
