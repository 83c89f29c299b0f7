//! Telemetry: a record of each flow, of every packet, on whichever path it passes.
//!
//! It looks and never touches: every packet passes. Where a [monitor](crate::monitor) hears of packets
//! that cached rules handled when the fast path reports, this function counts in the flow's state, which
//! both paths share: a flow's numbers are exact at any moment, with the TCP flags of both ends.
//!
//! # Configuration
//! The keys are the fields of [`Config`].
//!
//! ```toml
//! [telemetry]
//! idle = "30s"
//! active = "5m"
//! ```
//!
//! # Records
//! A record has, for each direction, packets, the bytes of their IP packets and the TCP flags of all of them, and the times
//! of the first and the last packet, to a millisecond or two. It ends when the flow was idle for longer
//! than `idle`, when it has gone on for `active` (another one begins with the next packet), or when the
//! flow gives its place to another. Fragments belong to the flow that the first of their datagram
//! tells; ICMP errors belong to none and are counted apart.
//!
//! `[ipfix]` exports records as they end (RFC 7011), and what is left when the run ends. Until then up to 65,536 of
//! them wait on each worker; if nobody takes them the oldest are let go (`records_lost`).
//!
//! # The largest flows
//! `twinpath flows --largest 10` tells the flows that have most bytes at the moment, on either path. The
//! report of a run tells the `top` largest of all its flows, those that have ended too: each worker keeps
//! 16 times as many candidates, and where there are more flows one that is new takes the place of the
//! smallest and what that had (Space-Saving). So none is left out that has more than its share of all
//! bytes, and what a flow is said to have may be too much by that share, never too little.
//!
//! How long packets take through the node is measured where they leave, for all of them: the report
//! and `twinpath top` have it by path. A function does not see that.
//!
//! # On the fast path
//! Seven state words. Every packet of a known flow is counted there and passes; the first of a record is
//! for the slow path, and the one that ends a record.
//!
//! # Changes
//! Flows and their records go on.
//!
//! # Counters
//! | counter | meaning |
//! |---|---|
//! | `records_started`, `records_ended` | records that began and ended |
//! | `records_lost` | ended records that nobody took |
//! | `ended_packets`, `ended_bytes` | packets and bytes of records that have ended |
//! | `errors` | ICMP errors, which belong to no record |

mod config;
mod descriptor;
mod function;
mod program;
mod state;
#[cfg(test)]
mod tests;

pub use config::Config;
pub use descriptor::FUNCTION;
pub use function::Telemetry;

/// The function's name.
pub const NAME: &str = "telemetry";
