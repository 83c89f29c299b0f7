//! A traffic monitor: packets and bytes of each flow.
//!
//! It looks and never touches: every packet passes. Packets that a cached rule handled are
//! counted too, when the fast path reports them; so a flow's numbers may lag behind by a report,
//! but none is missing in the end.
//!
//! # Configuration
//! The keys are the fields of [`Config`].
//!
//! ```toml
//! [monitor]
//! by = "hosts"
//! idle = "1m"
//! ```
//!
//! # Flows
//! A flow is the same in both directions and has counts for each. A fragment belongs to a flow
//! with both ports 0, because not every fragment has ports; so does everything else without
//! ports. An ICMP echo's identifier stands for both ports. What is not IP is counted apart.
//!
//! A flow ends when it was idle and no cached rule counts for it any more, so it may be seen a
//! little longer than `idle` says. Records of ended flows wait in a queue of 65,536 for whoever
//! exports them; if nobody does, the oldest are let go and counted (`records_lost`).
//!
//! When there are as many flows as there may be, packets of others are counted together
//! (`overflow_packets`, `overflow_bytes`). Such a flow stays among these while a rule for it is
//! cached, even if there is room again.
//!
//! # Changes
//! The configuration can change while packets flow. All counts go on. With another `by` all flows
//! end and others begin; else flows stay, also when there are more of them than `flows` then
//! allows, and with more room those that were counted together begin.
//!
//! # Counters
//! | counter | meaning |
//! |---|---|
//! | `packets`, `bytes` | all IP packets and the bytes of their frames, with those of rules as far as reported |
//! | `flows` | flows at the moment |
//! | `flows_started`, `flows_ended` | flows that began and ended |
//! | `overflow_packets`, `overflow_bytes` | packets that found no room for their flow |
//! | `records_lost` | ended flows that nobody took |
//! | `not_ip` | frames that are not IP |
//!
//! # In the code
//! Records of ended flows are taken by [`Monitor::take_ended`].

mod change;
mod config;
mod descriptor;
mod flows;
mod function;
#[cfg(test)]
mod tests;

pub use change::NewMonitor;
pub use config::{By, Config, ConfigError, MAX_FLOWS};
pub use descriptor::FUNCTION;
pub use function::{MAX_ENDED, Monitor};

/// The function's name.
pub const NAME: &str = "monitor";
