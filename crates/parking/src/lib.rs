//! Payload parking (TurboSwitch): headers go to the slow path, payloads wait in a queue of the switch.
//!
//! A switch has no memory that a program could keep a payload in, but every port has a queue. So
//! the packet is split; its header, with a [`Ticket`], goes to the slow path; its payload joins a queue
//! that is kept long enough for the header to be back when the payload comes out. One packet's walk:
//!
//! ```text
//!  packet ── ParkingStage::send ──► header with ticket ──► workers ────────────────┐
//!                │                                                         │ the rest of the chain
//!                ▼                                                         ▼
//!            PayloadBuffer::park                                     ParkingStage::leave, PayloadBuffer::answered_for
//!                │   ┌──────────── again, through loopback ◄──────────┐
//!                ▼   ▼                                                │
//!             byte queue ──► ParkingStage::pass ── header here, its turn? ───┴─► joined packet leaves
//! ```
//!
//! There are two ways to keep the queue long enough ([`Variant`]):
//! * **Recirculation**: a payload whose header is not back goes to the tail of the queue again.
//!   The queue finds the right length by itself ([`facts`] says which).
//! * **Multicast**: a proportional [`controller`] puts copies, which are thrown away at the other
//!   end, in front of a packet, as many as the queue is short of its target.
//!
//! What is modelled: the queue, the tickets, the numbers and the controller, as registers and
//! tables that a switch has. The [`PayloadBuffer`] knows no ports, rates or time: whoever owns the device
//! calls [`PayloadBuffer::dequeue`] when its port is free. It is generic over what is parked, so that the
//! laboratory parks sizes where production parks frames. Production has a [`ParkingStage`], with a
//! [`port`] of its own: time passes in it when its owner says so, and rounds of the queue in which
//! nothing can happen are counted and not made.
//!
//! What becomes of a packet that goes to the slow path through a [`ParkingStage`]:
//!
//! | what happens | what becomes of it | counted |
//! |---|---|---|
//! | too little payload; a fragment; neither TCP nor UDP; a time to live that may end in the chain, whose end quotes it; no buffer | crosses whole | [`StageCounters`](fast::StageCounters) |
//! | no room in the queue, no slot | crosses whole, or is dropped, as the operator chose; with flow state it always crosses | there |
//! | the header comes back | leaves with its payload | `departed` |
//! | a function drops the packet | the payload is freed by a notice | `declined` |
//! | the header is lost, or late | the payload is dropped when its header timeout ends | `expired`, `late` |
//! | a late or doubled header | freed; it never meets another payload | `headers_stale`, `headers_doubled` |
//! | the header has grown beyond the room in front of its payload | both are dropped | `header_too_long` |
//! | a whole packet would overtake a parked one of its flow | waits in the queue; without room it is dropped, unless the run must lose nothing or `overflow` says that packets cross whole | `followers`, `followers_refused` |
//!
//! What was added to the paper:
//! * **Tickets** have a generation. A header that was lost, doubled, or came back after its payload
//!   was given up can never be joined with another payload.
//! * **Header timeout** bounds how long a payload waits for its header each time that the workers have it: a
//!   header that is lost costs one packet, one that waits for others between two visits none.
//! * **Numbers at return** ([`Order::AsReturned`]): the paper numbers packets when they arrive, so
//!   that the lost and the dropped leave gaps, and says nothing of packets that never see the workers.
//!   In production a packet gets its number when its header has passed the chain, and so does a
//!   whole one that finds others of its flow before it. Flows leave in the order in which they
//!   would have left without parking, whatever became of others.
//! * **A target that follows the workers' latency** ([`latency`]): the paper takes it for constant.
//!   When the buffer is too small for the latency seen, [`PayloadBuffer::fit`] says so.
//! * **Every end of a packet is counted** ([`BufferCounters`]), and the counts add up.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod buffer;
pub mod config;
pub mod controller;
pub mod counters;
pub mod facts;
pub mod fast;
mod followers;
pub mod latency;
pub mod order;
pub mod port;
mod queue;
mod slots;

pub use buffer::{
    Answer, Dequeued, End, Followed, Load, ParkedPayload, PayloadBuffer, Received, Refusal, Refused,
};
pub use config::{Config, ConfigError, Correction, Late, Multicast, Order, Small, Target, Variant};
pub use controller::Reading;
pub use counters::BufferCounters;
pub use fast::ParkingStage;
pub use latency::Fit;
pub use port::PortConfig;
pub use twinpath_core::Ticket;
