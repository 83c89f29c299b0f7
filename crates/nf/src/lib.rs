//! The network functions.
//!
//! Each is a folder with its configuration, its fast program (what it does on the fast path, as
//! data) and its slow function (what it does on the slow path, as code). A property test holds each
//! to the rule that where the program does not escalate, the slow function would have done the
//! same to the flow's state words and to the packet.
//!
//! Functions whose decisions depend on header bits and table entries alone (access lists, address
//! translation, routers, monitors) have no fast program: what they do
//! is recorded and cached as rules. A property test holds each to the rule that what was recorded
//! decides.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod acl;
pub mod bindings;
pub mod catalogue;
mod checked;
pub mod checksums;
pub mod custom;
pub mod dash;
pub mod descriptor;
pub mod duration;
pub mod edit;
pub mod files;
pub mod firewall;
mod hosts;
mod icmp_messages;
mod idle_time;
pub mod inspector;
pub mod kv_store;
pub mod largest_flows;
pub mod load_balancer;
pub mod memory;
pub mod mistakes;
pub mod monitor;
pub mod napt;
pub mod nat64;
pub mod nptv6;
mod rate_limit;
pub mod rate_limiter;
pub mod reassembler;
pub mod records;
#[cfg(test)]
mod reference;
pub mod reframer;
pub mod router;
pub mod schema;
mod seeded;
pub mod shard;
pub mod similar;
pub mod telemetry;
pub mod text;
#[cfg(test)]
mod two_caches;
#[cfg(test)]
mod two_paths;
pub mod undelivered;
mod unicast;

pub use twinpath_core::icmp_errors;
