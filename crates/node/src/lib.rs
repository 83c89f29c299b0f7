//! Composition: a service file becomes a fast path, workers and the link between them.
//!
//! A packet's walk is in [`FastPath::process`]. The same [`Machine`] and [`Worker`]s are
//! driven under [`virtual_time`], in one thread and perfectly repeatable, and on [`threads`], each
//! on one of its own. [`run`] is one run, from packets in to report out,
//! and [`trace`] one packet's walk with everything that it meets, as the walk itself tells whoever
//! [watches](watch).
#![forbid(unsafe_code)]

pub mod admission;
pub mod arrivals;
mod build_error;
pub mod causality;
mod client_slots;
pub mod command;
mod counted;
pub mod deferred_free;
pub mod departure;
pub mod egress;
pub mod exit;
pub mod fast_path;
pub mod figures;
pub mod health;
mod http;
pub mod ingress;
mod ipfix;
mod kept_neighbors;
pub mod kernel;
mod late;

pub mod live_drops;
pub mod live_ports;
pub mod machine;
mod metrics;
pub mod mirror;
pub mod mtu;
pub mod observe;
pub mod operator;
pub(crate) mod pinning;
mod port_warnings;
pub mod position;
pub mod replacement;
pub mod run;
pub mod shards;
pub mod sink;
pub mod source;
mod thread_name;
pub mod threads;
pub mod trace;
pub mod udp_port;
mod under_way;
pub mod virtual_time;
pub mod watch;
pub mod wiring;
pub mod worker;

pub use departure::{Departure, Via};
pub use fast_path::{
    BATCH, BURST, DashStage, FETCHED_AHEAD, FastElement, FastOutput, FastPath, RuleStage,
};
pub use machine::{Limits, Machine, Output};
pub use run::{Finished, OpenPorts, Ports, RunError, run, run_opened};
pub use wiring::{Node, NodeConfig, build};
pub use worker::{SlowElement, Worker};
