//! A switch with DPUs in one box: the production pipeline of `twinpath-dash` on the devices of a paper.
//!
//! One packet's walk: the switch finds by the ENI's MAC address which DPU the ENI is on
//! ([`DpuSteering`](twinpath_dash::steering::DpuSteering)); the packet queues for that DPU's port; the DPU's pipeline looks
//! for its flow. A packet of a known flow is rewritten and leaves. One that opens a connection goes to one of the
//! DPU's cores, whose policies judge it, and enters the pipeline again with what they say. What a DPU does with a
//! packet is the production [`Dpu`](twinpath_dash::Dpu); how long it takes is the testbed's.
//!
//! Configurations are [written](configuration) as SONiC writes them, read by the production reader, and have the
//! size that a plan asks for; what they and the flows take of a DPU's memory is the production tables' own count.
//!
//! | `pipeline` | packets of known flows | connections |
//! |---|---|---|
//! | `asic` | as fast as the testbed's DPU | as fast as the testbed's cores; if `costs` are given, slower by what the same takes our code more in a fuller table |
//! | `software` | on the DPU's cores, as long as our code was measured to take | the same |

mod configuration;
mod costs;
mod dpu;
mod frames;
mod measures;
mod parameters;
mod world;

pub use parameters::{Arrivals, Parameters, Pipeline};

use crate::model::{Column, Model, ParameterError};
use std::path::Path;
use toml::Table;

/// The model.
#[derive(Clone, Copy, Debug)]
pub struct SmartSwitch;

impl Model for SmartSwitch {
    fn name(&self) -> &'static str {
        "smart_switch"
    }

    fn columns(&self) -> &'static [Column] {
        &measures::COLUMNS
    }

    fn check(&self, parameters: &Table, folder: &Path) -> Result<(), ParameterError> {
        Parameters::read(parameters, folder)?.setting().map(drop)
    }

    fn run(&self, parameters: &Table, folder: &Path) -> Result<Vec<f64>, ParameterError> {
        world::run(&Parameters::read(parameters, folder)?.setting()?)
    }

    fn remarks(&self, parameters: &Table, folder: &Path) -> Vec<String> {
        let setting = Parameters::read(parameters, folder).and_then(Parameters::setting);
        let told = setting
            .ok()
            .and_then(|setting| setting.costs.map(|costs| costs.told()));
        told.into_iter().collect()
    }
}
