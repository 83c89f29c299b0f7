//! Time that is not real: a deterministic event simulation and models of devices.
//!
//! A [`World`] is whatever changes when something happens. What will happen, and when, is on its
//! [`Agenda`]; [`run`] takes one event after the other off it and hands it to the world, which may
//! put others on. Time is a whole number of picoseconds ([`Time`]), events at the same time happen
//! in the order in which they were put on, and randomness comes from seeded streams. So a run is
//! the same to the last bit on every machine.
//!
//! [`devices`] has the parts that testbeds are made of: ports, servers, control agents. They need no
//! events: asked at what time a packet will be through, they answer at once, since nothing that comes
//! later can change it. [`stats`] measures.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod agenda;
pub mod devices;
pub mod stats;
pub mod time;

pub use agenda::{Agenda, World, run, run_until};
pub use time::{Rate, Time};
