//! Routes of this host's kernel for a router: `routes = "kernel"`.
//!
//! ```text
//!            netlink                 changes of the service          packets
//!  kernel ◄────────► KernelFollower ─────────────────► Control ──► Machine
//!                     │   ▲  told: addresses, neighbours
//!                     ▼   │  questions: who has this address?
//!                    LivePorts ◄─────────────────────────────────► ports
//! ```
//! A thread of its own follows the kernel, for lists of a million routes take seconds, and packets
//! wait for none. All that is known when a run begins is in its first chain; what changes then is a
//! change of the service as an operator's is, so of cached rules those go that came from the route
//! which changed. Changes are gathered: a burst of a routing protocol is one, and packets
//! wait for changes one part in [`PAUSE_SHARE`] of the time at most, however much flaps.
//!
//! Where the host has the addresses of a port, it resolves its neighbours, too. Its table is what is
//! right: two clients on one cable would ask twice and might disagree, and with AF_XDP answers come
//! to the kernel alone. But the kernel does not see the packets that Twinpath sends, so it is told
//! now and then that a neighbour is used, and asks it again (RFC 4861 §7.3).

mod change_log;
mod figures;
mod follower;
mod host;
mod mailbox;
mod route_importer;

pub use host::HostAddresses;
pub use mailbox::{KernelNews, Mailbox};

pub(crate) use follower::{KernelFollower, ServiceEditor};

/// Packets wait for changes one part in so many of the time at most.
pub const PAUSE_SHARE: u32 = 20;

/// Why the kernel cannot be followed.
#[derive(Debug, thiserror::Error)]
pub enum KernelError {
    /// The system does not let us.
    #[error("cannot ask the kernel for its routes: {0}")]
    Netlink(#[from] std::io::Error),
    /// It does not answer.
    #[error("the kernel has not told its routes within {} s", follower::FIRST_TIME.as_secs())]
    Silent,
    /// There is nobody whose routes these would be.
    #[error(
        "routes = \"kernel\" is for the network interfaces in [ports]: expected a list of routes for packets from elsewhere"
    )]
    NoPorts,
}
