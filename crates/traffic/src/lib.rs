//! Traffic to try network functions with: made up, but as real as it needs to be.
//!
//! A [`TrafficConfig`] says what kind of traffic: how many flows and how popular
//! each is, how long packets and flows are, how many new flows replace old ones
//! per minute, what share of the TCP segments come out of order, when packets
//! arrive. A [`Generator`] made from it and a seed then writes one Ethernet frame
//! after the other into the caller's buffer and tells its time, its flow and what
//! it is. The same configuration and seed give the same bytes, on every machine.
//!
//! How a packet comes about: the [`arrivals`] clock says when. Who is next is the
//! [`generator`]'s to decide, mostly by drawing a flow with the distribution of
//! [`popularity`]; flows that begin, end or have a late segment due go first. The
//! flow says what it sends next: for TCP both ends of the connection are acted
//! out, so that handshake, windows, acknowledgements and the end are as a strict
//! stateful firewall expects them, and streams are complete even where segments
//! overtake each other. The payload depends on flow, direction and place in the
//! stream alone ([`Payload`]), so that a receiver can check each byte.
//!
//! Three things it is used for: capture files (`twinpath generate`), live traffic
//! with a clock beside it (`twinpath run`), and traces in memory for benches, for
//! which `tcp.handshake = false` gives flows that are established from the start.
//!
//! [`open`] has the other way to look at traffic: flows begin at random, each with a size and a rate of
//! its own, as on a link of the Internet.
//!
//! The generator sends what a network without losses would carry; it does not
//! react to what becomes of its packets.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod agenda;
pub mod arrivals;
mod cdf;
mod churn;
pub mod config;
mod error;
mod flow;
mod frames;
pub mod generator;
mod hosts;
mod kv;
mod limits;
mod oddities;
pub mod open;
mod packet;
mod payload;
pub mod popularity;
pub mod random;
mod sizes;
mod tcp_flow;
mod validate;

pub use cdf::Cdf;
pub use config::TrafficConfig;
pub use error::{CdfExpected, TrafficError};
pub use generator::{Generator, GeneratorCounters};
pub use kv::key_bytes;
pub use packet::{Direction, Generated, PacketKind};
pub use payload::Payload;
