//! Reframer: deliberate reordering, so that packets of one flow come in runs (Ribosome §4).
//!
//! Packets of many flows come mixed, and whatever stands behind (a function, a host, its caches) meets
//! another flow with each. This function holds the packets of each flow and direction for some tens of
//! microseconds, and lets them go together. Packets of *one* flow and direction keep their order; those
//! of different flows do not.
//!
//! # Configuration
//! The keys are the fields of [`Config`].
//!
//! ```toml
//! [reframer]
//! window = "50us"
//! batch = 32
//! ```
//!
//! # What leaves when
//! The first packet of a flow and direction opens a window. What comes within it joins the line, and when it
//! ends all of them leave, stamped with that time. They leave sooner when there are `batch` of them, when
//! the flow holds as many bytes as it may, or when all flows together hold as many packets as they may: then the line of
//! the packet that found no room leaves, and that packet with it. So nothing waits for longer than
//! `window`, and nothing is lost for want of room.
//!
//! Fragments belong to the flow that the first of their datagram tells; ICMP errors do not wait.
//!
//! Where packets are split (`[split]`) it is headers that wait here, while their payloads wait in remote
//! memory. When they leave together so do the reads of their payloads.
//!
//! # On the fast path
//! Nothing: all packets go to the slow path, where they wait. Of a chain with this function no
//! packet passes on the fast path alone, so it belongs where the slow path does the work anyway, as in
//! the paper. Functions in other elements of the chain keep their fast paths.
//!
//! # Changes
//! What waits leaves before the chain becomes another.
//!
//! # Counters
//! | counter | meaning |
//! |---|---|
//! | `packets` | packets that waited |
//! | `runs` | times that a line left |
//! | `full_runs` | of these, because there were `batch` of them |
//! | `early_runs` | of these, because there was no room for another packet |
//! | `passed` | packets that did not wait: ICMP errors |
//! | `forgotten` | packets in line that were lost with their flow when the workers were reset |
//!
//! `packets` divided by `runs` is how long runs are.

mod config;
mod descriptor;
mod function;
#[cfg(test)]
mod tests;

pub use config::{Config, WindowError};
pub use descriptor::FUNCTION;
pub use function::Reframer;

/// The function's name.
pub const NAME: &str = "reframer";
