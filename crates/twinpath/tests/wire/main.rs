//! Twinpath between cables: real programs on real interfaces, in network namespaces.

mod bump;
mod kernel;
mod memory_server;
mod middle;
mod programs;
mod routed;
mod watched;

/// How packets are exchanged with interfaces.
const DRIVERS: [&str; 2] = ["af_packet", "af_xdp"];
