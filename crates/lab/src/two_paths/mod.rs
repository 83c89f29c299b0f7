//! Twinpath's own two paths on a paper's devices, under virtual time.
//!
//! What decides about packets is what runs in production: the [node](twinpath_node) that a service file
//! becomes, with its state table, protocol, rule cache and functions. Around it are a
//! [testbed's](crate::testbed) devices, which say how long everything takes and what is lost:
//!
//! ```text
//!  traffic ─► switch: Machine::receive ───────────────────────────────► out
//!               │ frames         ▲ Machine::returned, Machine::progress
//!               ▼                │        (messages about rules: by the control-plane agent)
//!             port, link       link, port
//!               │                ▲
//!               ▼                │
//!             ring, core: Worker::receive, when the core is done
//! ```
//!
//! So [`world`] is another driver of the [machine](twinpath_node::machine), which also changes the chain.
//! Traffic to order is what clients send, one way: no answer can come before its question has left. With
//! `answers` an inspector sees both ways, as a capture would have them: answers come when they came there.
//! Captures come as they were captured, whatever this testbed's latency is.
//!
//! Systems that papers compare with are modes of the same mechanisms, or small models beside them:
//!
//! | `system` | what it is |
//! |---|---|
//! | `two_paths` | flow state moves on the packets (SwitchNIC) |
//! | `rule_cache` | rules are cached, written by a control-plane agent (SFCache; also NetCache's and ExoPlane's way of caching) |
//! | `read_only_cache` | flow state may be read on the switch, but each write takes it back to the cores (NetCache, TEA) |
//! | `server_only` | all packets go to the cores |
//! | `header_split` | headers alone go to the cores, payloads wait in a store (Ribosome) |

mod barrier;
mod change;
mod control_plane;
mod cores;
mod finishing;
mod measures;
mod node;
mod parameters;
mod read_only;
mod service;
mod switch;
#[cfg(test)]
mod tests;
mod throughput;
mod world;

pub use parameters::{DeviceName, Parameters, RateName, System};

use crate::model::{Column, Model, ParameterError};
use parameters::Setting;
use std::path::Path;
use toml::Table;

/// The model.
#[derive(Clone, Copy, Debug)]
pub struct TwoPaths;

impl Model for TwoPaths {
    fn name(&self) -> &'static str {
        "two_paths"
    }

    fn columns(&self) -> &'static [Column] {
        &measures::COLUMNS
    }

    fn check(&self, parameters: &Table, folder: &Path) -> Result<(), ParameterError> {
        setting(parameters, folder).map(drop)
    }

    fn run(&self, parameters: &Table, folder: &Path) -> Result<Vec<f64>, ParameterError> {
        throughput::run(&setting(parameters, folder)?)
    }

    fn remarks(&self, parameters: &Table, folder: &Path) -> Vec<String> {
        let setting = setting(parameters, folder).ok();
        setting
            .and_then(|setting| setting.remark())
            .into_iter()
            .collect()
    }
}

/// What the parameters say, if a node can be built of it.
fn setting(parameters: &Table, folder: &Path) -> Result<Setting, ParameterError> {
    let setting = Parameters::read(parameters, folder)?.setting()?;
    node::check(&setting)?;
    change::check(&setting)?;
    Ok(setting)
}
