//! What was followed of the kernel's routes.

use serde::{Deserialize, Serialize};

/// What is known of the kernel, and what became of its changes.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KernelFigures {
    /// Routes that the router has of the kernel.
    pub routes: u64,
    /// Of those, routes by interfaces that are no ports, whose packets are dropped.
    pub elsewhere: u64,
    /// Next hops that routes lead to.
    pub next_hops: u64,
    /// Groups of next hops that share flows (ECMP).
    pub groups: u64,
    /// Neighbours at ports that the kernel knows.
    pub neighbors: u64,
    /// Changes of the chain that were made.
    pub changes: u64,
    /// Routes that were others in those.
    pub changed_routes: u64,
    /// Changes that could not be made then; they were tried again.
    pub refused_changes: u64,
    /// The longest that packets waited for a change, in nanoseconds.
    pub longest_pause_ns: u64,
    /// When the last change was made, in nanoseconds since the start; 0 if none was.
    pub last_change_ns: u64,
    /// Times that all was asked for again.
    pub resyncs: u64,
    /// Times that the kernel's messages were lost.
    pub overruns: u64,
    /// Messages that made no sense.
    pub malformed: u64,
    /// Times that the kernel could not be asked.
    pub errors: u64,
    /// Routes that there is no room for, as far as is known.
    pub ignored_routes: u64,
    /// Frames that were left to the kernel: for the host's own addresses, groups, and what is no IP
    /// packet. With AF_XDP they never come to the node.
    pub host_packets: u64,
}
