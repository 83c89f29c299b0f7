//! Twinpath between cables: real programs on real interfaces, in network namespaces.

mod announced;
mod applications;
mod balanced;
mod banned;
mod bump;
mod claimed;
mod faults;
mod garbage;
mod gateway;
mod hairpin;
mod jumbo;
mod kernel;
mod local;
mod memory_server;
mod middle;
mod one_armed;
mod programs;
mod queues;
mod raw;
mod restarted;
mod routed;
mod shards;
mod shells;
mod soak;
mod split;
mod start;
mod tagged;
mod tunnelled;
#[cfg(feature = "verbs")]
mod verbs;
mod warned;
mod watched;

/// How packets are exchanged with interfaces. By `auto` it is AF_PACKET on virtual cables, and the kernel does
/// not see what is the node's.
const DRIVERS: [&str; 2] = ["auto", "af_xdp"];
