//! DASH: what a cloud configures on a DPU.
//!
//! A DPU carries many ENIs (network interfaces of virtual machines), each with tables of its own:
//! access lists, routes, mappings of customer addresses to physical ones, meters. [`objects`] are
//! these tables' entries as types, with the names, references and meanings that SONiC's DASH gives
//! them; they know nothing of how they are written down. [`json`] reads them as SONiC writes them,
//! with errors that name file, line, object and field. [`config`] holds them together: objects come
//! in any order, and what is in force is whole at every moment.
//!
//! [`tables`] are what packets meet, compiled from what is in force; the [`pipeline`] is the row of
//! stages that judge a packet, and what is done to it; [`flows`] is what was decided for connections.
//! A [`Dpu`] holds them together: [`Dpu::process`] is one packet's walk.
#![forbid(unsafe_code)]

pub mod config;
mod cost;
pub mod counters;
mod dpu;
mod files;
pub mod flows;
pub mod headers;
pub mod json;
pub mod messages;
pub mod objects;
pub mod pipeline;
mod reason;
#[cfg(feature = "samples")]
pub mod samples;
pub mod settings;
pub mod source;
pub mod steering;
pub mod tables;

pub use cost::Cost;
pub use dpu::{Answer, Dpu, DpuStep, FlowView, Question, Verdict, WaitingDatagrams};
pub use files::{FileError, Files, is_json, json_in};
pub use reason::Reason;
pub use settings::Settings;
pub use source::ObjectSource;
