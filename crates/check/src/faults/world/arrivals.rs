//! Packets that are to arrive.

use super::datagrams::Datagrams;
use super::source::Source;
use crate::faults::draw::{self, Draw};
use crate::faults::scenario::Scenario;
use twinpath_control::service::Service;
use twinpath_traffic::TrafficError;

/// Where packets come from, and when the next do.
pub struct Arrivals {
    pub source: Source,
    pub draw: Draw,
    /// Datagrams in fragments that have arrived.
    pub datagrams: Datagrams,
    /// When the next packets arrive, or all calms down.
    pub next: u64,
    /// Packets have arrived while the machine took none.
    pub are_waiting: bool,
    /// Packets sent after all others.
    pub late: u32,
}

impl Arrivals {
    /// The packets of a scenario.
    ///
    /// # Errors
    /// The generator does not like its configuration.
    pub fn new(seed: u64, scenario: &Scenario, service: &Service) -> Result<Self, TrafficError> {
        Ok(Self {
            source: Source::new(seed, scenario, service)?,
            draw: Draw::new(seed, draw::ARRIVALS + 100),
            datagrams: Datagrams::default(),
            next: 0,
            are_waiting: false,
            late: 0,
        })
    }
}
