//! DASH: what a cloud configures on a DPU.
//!
//! A DPU carries many ENIs (network interfaces of virtual machines), each with tables of its own:
//! access lists, routes, mappings of customer addresses to physical ones, meters. [`objects`] are
//! these tables' entries as types, with the names, references and meanings that SONiC's DASH gives
//! them; they know nothing of how they are written down.
#![forbid(unsafe_code)]

pub mod objects;
