//! What testbeds are made of.
//!
//! | device | what it takes a packet |
//! |---|---|
//! | [`Link`] | its length in time, if it is not too long for it |
//! | [`Port`] | a queue of bytes with a limit, drained at a rate |
//! | [`Switch`] | a pipeline's latency; ports, some in loopback mode; copies, truncation |
//! | [`Nic`] | packets a second, a bus to the host, and the latency of that |
//! | [`Cores`] | service time, a queue for each core |
//! | [`Agent`] | entries a second that a control plane can install, and how late |
//! | [`Power`] | none: it tells what devices draw |
//!
//! Each answers at once with the time at which a packet is through, or says that it is dropped, and
//! counts both. They are asked in order of time. What a testbed is made of is a matter of handing
//! one's answer to the next; see the tests in `tests/queueing.rs`.

mod agent;
mod core;
mod link;
mod nic;
mod port;
mod power;
mod server;
mod switch;

pub use self::core::{Cores, Service};
pub use agent::Agent;
pub use link::Link;
pub use nic::Nic;
pub use port::{Port, PortStats};
pub use power::{Draw, Power};
pub use server::Server;
pub use switch::{Copies, Switch};

use crate::time::Time;

/// A packet that a device dropped.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Lost {
    /// The queue is full.
    QueueFull,
    /// The packet is longer than the link's largest.
    TooLong,
    /// There is no such port.
    NoPort,
}

/// When a packet is through, unless it is lost.
pub type Through = Result<Time, Lost>;
