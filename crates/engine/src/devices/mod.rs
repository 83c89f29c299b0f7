//! What testbeds are made of.
//!
//! | device | what it takes a packet |
//! |---|---|
//! | [`Port`] | a queue of bytes with a limit, drained at a rate |
//! | [`Server`] | one thing after the other, as a core does |
//! | [`Agent`] | entries a second that a control plane can install, and how late |
//! | [`Power`] | none: it tells what devices draw |
//!
//! Each answers at once with the time at which a packet is through, or says that it is dropped. They
//! are asked in order of time. What a testbed is made of is a matter of handing one's answer to the
//! next.

mod agent;
mod port;
mod power;
mod server;

pub use agent::Agent;
pub use port::Port;
pub use power::{Draw, Power};
pub use server::Server;

use crate::time::Time;

/// A device's queue has no room.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct QueueFull;

/// When a packet is through, unless it is lost.
pub type Through = Result<Time, QueueFull>;
