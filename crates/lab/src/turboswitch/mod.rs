//! TurboSwitch §IV: a switch with an input, an output and a port that congests itself.
//!
//! The mechanism is the one of production, [`twinpath_parking::PayloadBuffer`]; it parks sizes here and frames
//! there. Around it are packets that arrive at random, cores that answer after their latency, and
//! the port that drains the queue.
//!
//! Where the paper leaves things open: sizes are drawn from an exponential distribution, clipped to
//! its limits, whose mean is chosen so that the *clipped* sizes have the mean that the paper gives;
//! the switch itself takes no time unless told; the queue is looked at when a packet has joined it, and
//! does not include the packet on the wire; whether a payload leaves is decided when the port takes
//! it from the queue, before it is sent.

mod measures;
mod parameters;
mod sizes;
mod world;

pub use parameters::{
    Arrivals, ControllerName, CoresLatency, LateName, Parameters, SizesName, VariantName,
};

use crate::model::{Column, Model, ParameterError};
use std::path::Path;
use toml::Table;

/// The model.
#[derive(Clone, Copy, Debug)]
pub struct TurboSwitch;

impl Model for TurboSwitch {
    fn name(&self) -> &'static str {
        "turboswitch"
    }

    fn columns(&self) -> &'static [Column] {
        &measures::COLUMNS
    }

    fn check(&self, parameters: &Table, _folder: &Path) -> Result<(), ParameterError> {
        Parameters::read(parameters).map(|_| ())
    }

    fn run(&self, parameters: &Table, _folder: &Path) -> Result<Vec<f64>, ParameterError> {
        let parameters = Parameters::read(parameters)?;
        let world = world::run(&parameters)?;
        Ok(measures::row(&parameters, &world).to_vec())
    }
}
