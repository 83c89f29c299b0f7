//! DASH: what a cloud configures on a DPU.
//!
//! A DPU carries many ENIs (network interfaces of virtual machines), each with tables of its own:
//! access lists, routes, mappings of customer addresses to physical ones, meters. [`objects`] are
//! these tables' entries as types, with the names, references and meanings that SONiC's DASH gives
//! them; they know nothing of how they are written down.
//!
//! [`tables`] are what packets meet, compiled from objects through [`configuration`]; the
//! [`pipeline`] is the row of stages that judge a packet, and what is done to it; [`flows`] is what
//! was decided for connections. A [`Dpu`] holds them together: [`Dpu::process`] is one packet's walk.
#![forbid(unsafe_code)]

pub mod configuration;
pub mod counters;
mod dpu;
pub mod flows;
pub mod headers;
pub mod objects;
pub mod pipeline;
pub mod reason;
#[cfg(feature = "samples")]
pub mod samples;
pub mod settings;
pub mod tables;

pub use dpu::{Dpu, FlowView, Verdict};
pub use reason::Reason;
pub use settings::Settings;
