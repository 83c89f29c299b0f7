//! Twinpath between cables: real programs on real interfaces, in network namespaces.

mod bump;
mod kernel;
mod middle;
mod programs;
mod routed;
mod shards;
mod watched;

/// How packets are exchanged with interfaces.
const DRIVERS: [&str; 2] = ["af_packet", "af_xdp"];
