//! What the benches share: packets of many flows, cold in memory, and a node to send them through.
#![forbid(unsafe_code)]

pub mod bench_node;
pub mod chains;
pub mod limit;
pub mod measured;
pub mod packets;
pub mod rule_bench;
pub mod table;
