//! DASH: what a cloud configures on a DPU.
//!
//! A DPU carries many ENIs (network interfaces of virtual machines), each with tables of its own:
//! access lists, routes, mappings of customer addresses to physical ones, meters. [`objects`] are
//! these tables' entries as types, with the names, references and meanings that SONiC's DASH gives
//! them; they know nothing of how they are written down. [`json`] reads them as SONiC writes them,
//! with errors that name file, line, object and field. [`config`] holds them together: objects come
//! in any order, and what is in force is whole at every moment.
#![forbid(unsafe_code)]

pub mod config;
mod files;
pub mod json;
pub mod objects;
pub mod steering;

pub use files::{FileError, Files};
