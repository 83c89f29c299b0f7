//! What every room of Twinpath shares.
//!
//! A packet lives in a [`Frame`] taken from a bounded [`Pool`]; it belongs to a flow named by a
//! [`FlowKey`], the same for both directions; it carries its arrival [`Instant`]; and it leaves
//! or is dropped for a [`DropReason`]. What a network function does on the fast path is a
//! [`program::FastProgram`]: data that the fast path interprets, not code.
//!
//! Nothing here reads a clock, draws a random number or starts a thread: time and seeds are
//! arguments, so that the same code runs live, under virtual time and in the model checker.
//!
//! `unsafe` is confined to [`memory`], [`memory_file`], [`pool`] and [`time_slice`].
#![deny(unsafe_op_in_unsafe_fn)]

pub mod adjacency;
pub mod counted;
pub mod counters;
mod dash_reason;
pub mod decision;
mod direction;
pub mod drop_reason;
mod fragment_place;
pub mod fragments;
pub mod guarantee;
pub mod hash;
pub mod icmp_errors;
pub mod identifications;
pub mod key;
pub mod key_value;
pub mod memory;
pub mod memory_file;
mod named;
pub mod number_index;
pub mod packet;
pub mod pool;
pub mod probing;
pub mod program;
pub mod split;
pub mod steering;
pub mod time;
pub mod time_slice;

pub use adjacency::{Adjacencies, Adjacency};
pub use counted::counted;
pub use counters::DropCounters;
pub use dash_reason::DashReason;
pub use decision::Decision;
pub use direction::Direction;
pub use drop_reason::DropReason;
pub use fragment_place::FragmentPlace;
pub use fragments::Fragments;
pub use guarantee::Guarantees;
pub use hash::HashKey;
pub use identifications::{Identifications, Share};
pub use key::{FlowKey, Keyed, Side, V4Key};
pub use named::Named;
pub use number_index::NumberIndex;
pub use packet::Packet;
pub use pool::{Frame, Metadata, Pool, Pools, Ticket};
pub use steering::Steering;
pub use time::Instant;
pub use twinpath_wire as wire;
