//! Twinpath between cables: real programs on real interfaces, in network namespaces.

mod bump;
mod middle;
mod programs;
