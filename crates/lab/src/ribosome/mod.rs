//! Ribosome's testbed: a switch, servers whose cores see headers, and memory servers; and beside it
//! the other ways to leave payloads behind, on the same traffic and devices.
//!
//! What decides about packets is what runs in production: the [stages](twinpath_core::split::PayloadStage) of
//! `twinpath-remote` (splitter, header slots, requester, back-off, order) and of `twinpath-parking`, and
//! at the other end of each link a [memory server](twinpath_remote::MemoryServer) that checks and executes
//! every frame. Around them are a [testbed's](crate::testbed) devices:
//!
//! ```text
//!            ┌─ header ─► port, link, bus, core (function) ─► link, port ─┐
//! traffic ─► switch: stage ◄──────────────────────────────────────────────┘ ─► out
//!            └─ WRITE, READ ─► port, card, queue pair, memory server ─► card, port ─► stage
//! ```
//!
//! | `system` | what waits where |
//! |---|---|
//! | `split` | payloads on memory servers (Ribosome) |
//! | `whole` | nothing: cores get whole packets |
//! | `sram` | the first bytes of payloads in the switch's memory (PayloadPark) |
//! | `parking` | payloads in queues of the switch (TurboSwitch) |
//!
//! How RDMA is modelled: a card takes requests one after the other as they come, moves so much payload
//! each way, and each queue pair serves its READs one after the other. A link's queue in front of the
//! card is bounded; what finds no room is lost, and production finds out. Announcements and
//! restorations take no time and are over before the first packet.
//!
//! The functions are rates: a forwarder, a limiter and a balancer differ in what a packet takes a core.
//! The reframer is production's, since it decides the order.

mod functions;
mod link_use;
mod locality;
mod measures;
mod memory;
mod parameters;
mod places;
mod sram;
#[cfg(test)]
mod tests;
mod world;

pub use parameters::{BackOffName, Parameters, System};

use crate::model::{Column, Model, ParameterError};
use parameters::Setting;
use std::path::Path;
use toml::Table;

/// The model.
#[derive(Clone, Copy, Debug)]
pub struct Ribosome;

impl Model for Ribosome {
    fn name(&self) -> &'static str {
        "ribosome"
    }

    fn columns(&self) -> &'static [Column] {
        &measures::COLUMNS
    }

    fn check(&self, parameters: &Table, folder: &Path) -> Result<(), ParameterError> {
        Setting::read(parameters, folder).map(drop)
    }

    fn run(&self, parameters: &Table, folder: &Path) -> Result<Vec<f64>, ParameterError> {
        world::run(&Setting::read(parameters, folder)?)
    }
}
