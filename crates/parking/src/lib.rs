//! Payload parking (TurboSwitch): headers go to the cores, payloads wait in a queue of the switch.
//!
//! A switch has no memory that a program could keep a payload in, but every port has a queue. So
//! the packet is split; its header, with a [`Ticket`] in front, goes to the cores; its payload
//! joins a queue that is kept long enough for the header to be back when the payload comes out.
//! One packet's walk:
//!
//! ```text
//!  packet ── Stage::packet ──► header + tag ─────────────► cores (slow::Visitor) ──┐
//!                  │                                                              │
//!                  ▼                                                              ▼
//!             Lot::park                                              Stage::returned, Lot::header
//!                  │   ┌──────────── again, through loopback ◄──────────┐
//!                  ▼   ▼                                                │
//!               byte queue ──► Stage::dequeue ── header here, its turn? ┴─► joined packet leaves
//! ```
//!
//! There are two ways to keep the queue long enough ([`Variant`]):
//! * **Recirculation**: a payload whose header is not back goes to the tail of the queue again.
//!   The queue finds the right length by itself ([`facts`] says which).
//! * **Multicast**: a proportional [`controller`] puts copies, which are thrown away at the other
//!   end, in front of a packet, as many as the queue is short of its target.
//!
//! What is modelled: the queue, the tickets, the numbers and the controller, as registers and
//! tables that a switch has. What is not here: ports, rates and time. Whoever owns the device
//! calls [`Lot::dequeue`] when its port is free. The [`Lot`] is generic over what is
//! parked, so that the laboratory parks sizes where production parks frames.
//!
//! What was added to the paper:
//! * **Tickets** have a generation. A header that was lost, doubled, or came back after its payload
//!   was given up can never be joined with another payload.
//! * **Patience** bounds how long a payload waits: a header lost by the cores costs one packet.
//! * **A target that follows the cores' latency** ([`latency`]): the paper takes it for constant.
//!   When the buffer is too small for the latency seen, [`Lot::fit`] says so.
//! * **Every end of a packet is counted** ([`Stats`]), and the counts add up.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod config;
pub mod controller;
pub mod facts;
pub mod fast;
pub mod latency;
pub mod lot;
pub mod order;
pub mod port;
mod queue;
mod slots;
pub mod slow;
pub mod split;
pub mod stats;

pub use config::{Config, ConfigError, Correction, Late, Multicast, Order, Small, Target, Variant};
pub use controller::Reading;
pub use fast::Stage;
pub use latency::Fit;
pub use lot::{Answer, Dequeued, End, Followed, Load, Lot, Received, Refusal, Refused, Resident};
pub use port::PortConfig;
pub use stats::Stats;
pub use twinpath_core::Ticket;
