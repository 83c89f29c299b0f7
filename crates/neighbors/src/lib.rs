//! Neighbours: hosts and routers on the cables of a node's ports.
//!
//! A packet that leaves for a neighbour needs its MAC address. [`Neighbors`] asks for it (ARP, RFC
//! 826, for IPv4; neighbour discovery, RFC 4861, for IPv6), remembers it, and keeps packets while an
//! answer is awaited; and it answers questions about the node's own addresses. It reads no clock and
//! opens no socket: frames and time go in, frames come out.
//!
//! It stands between the ports and the chain. A frame that comes in is shown to
//! [`Neighbors::arrived`] first, which takes those that are about neighbours. A packet that leaves
//! goes through [`Neighbors::leaves`]. Those that nobody takes come back by
//! [`Neighbors::take_undelivered`].
//!
//! Where the kernel has the addresses of a port, it asks ([`Resolver::Kernel`]): the same states,
//! time-outs and queues, but questions go to whoever speaks with the kernel, and answers come from
//! there ([`Neighbors::kernel_says`]).
//!
//! What an attacker can do is bounded: at most [`Limits::neighbors`] are known, of which
//! [`Limits::unresolved`] of each IP version at each port may have no MAC address yet, each with
//! [`Limits::waiting_each`] packets. Where whoever scans a network fills that, the one that has waited
//! longest gives way to a newcomer once it has had 20 ms for its answer (RFC 6583), so that hosts which are
//! there are found, and other cables notice nothing. Answers that nobody asked for make no neighbour known,
//! and where they tell another MAC address than the known one, all are asked at once; and addresses that no
//! neighbour has cost three questions in three seconds each, however many packets are for them.
#![forbid(unsafe_code)]

mod config;
mod state;
mod table;

pub use config::{Limits, OwnAddress, PortAddresses, Resolver};
pub use state::State;
pub use table::{Counters, Leaving, Neighbor, Neighbors};
