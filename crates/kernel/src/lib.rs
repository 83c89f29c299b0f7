//! What the kernel knows of links, addresses, routes and neighbours, and every change of it: the
//! kernel of a Linux host, with whatever routing daemon writes its routes, is the control plane.
//!
//! Nothing here starts a thread or reads a clock. Bytes that a [`Socket`] has received go into a
//! [`KernelMonitor`], which asks for all that there is when it begins, and again when the kernel says that
//! messages were lost or does not tell what has become of routes (it tells of no route of IPv4 that
//! went with its link). The [`View`] beneath is what is known: of each prefix the best route that can
//! be used, as a [`Target`]; what changed since somebody looked is kept as prefixes alone, so that a
//! route that comes and goes a hundred times is one change.
//!
//! | file | what is in it |
//! |---|---|
//! | [`messages`] | bytes become [`Event`]s; what is malformed becomes none, and is counted |
//! | [`requests`] | what the kernel is asked |
//! | [`view`] | what is known |
//! | [`monitor`] | when what is asked |
//! | [`socket`] | the socket |
//! | [`neighbors_now`] | the kernel's neighbours, asked for once |
//! | [`static_neighbors`] | neighbours that the kernel is told of |
//!
//! Everything is bounded: routes by a limit, neighbours by [`view::MOST_NEIGHBORS`], next hops of a
//! route by [`messages::MOST_HOPS`].
#![forbid(unsafe_code)]

pub mod event;
pub mod messages;
pub mod monitor;
mod neighbors;
pub mod requests;
pub mod socket;
pub mod static_neighbors;
#[cfg(test)]
mod testing;
pub mod view;

pub use event::{Event, Hop, Kind, Link, Neighbor, NextHopObject, Route};
pub use monitor::KernelMonitor;
pub use neighbors::neighbors_now;
pub use socket::Socket;
pub use static_neighbors::StaticNeighbors;
pub use view::{Egress, NeighborChange, SetId, Target, View};

/// The table of routes that hosts have unless somebody says otherwise.
pub const MAIN_TABLE: u32 = 254;
