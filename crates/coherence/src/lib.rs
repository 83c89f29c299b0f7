//! One flow state, two paths that both write it, strongly consistent (SwitchNIC).
//!
//! The fast path is on the path to the slow path: it sees every packet of a flow first and last, so
//! it always knows where the valid state is, and moves the state on the packets themselves. At
//! any moment exactly one side may write.
//!
//! One flow's life, as its packets see it:
//! 1. Its first packets go to the slow path as PLAIN; the workers make the state.
//! 2. When the sketch finds the flow worth it, a packet takes a slot and goes as PULL(g). The
//!    workers apply it, remember that they granted generation g, and answer STATE(g, v) on the same
//!    packet. If another packet of the flow passed meanwhile the pull is cancelled: the answer
//!    would be stale.
//! 3. While the slot is ACTIVE, packets that the fast program calls simple never see the workers.
//! 4. A complex packet, or idleness, freezes the slot at once: WB(g, v) goes with this packet and
//!    with every later one, until the workers acknowledge g. They import v once per generation.
//!
//! [`fsm`] is the fast path's transition function, [`grant`] that of the slow path: both pure, both
//! what the model checker drives. [`fast`] and [`slow`] wrap them around the state table and the
//! flow store.
//!
//! Beyond the paper: **generations** tell an answer to an old pull from that to the current one
//! (the paper's protocol can install a stale value after a time-out); **epochs** tell a worker's
//! crash from a duplicate, so that a frozen value survives the crash and is never imported twice;
//! **numbered links** detect the reordering that would break everything; and a pull that keeps
//! being cancelled backs off.
#![forbid(unsafe_code)]

pub mod config;
pub mod counters;
pub mod fast;
pub mod fsm;
pub mod grant;
pub mod safeguards;
pub mod slow;

pub use config::Config;
pub use counters::CoherenceCounters;
pub use fast::{Clock, Parsed, StateStage};
pub use grant::Grant;
pub use safeguards::{All, Safeguard, Safeguards};
pub use slow::SlowFlows;
