//! Where payloads wait: one of production's stages, or none.

use super::link_use::SharedLink;
use super::memory;
use super::parameters::{BackOffName, Setting, System};
use super::sram::Sram;
use crate::model::ParameterError;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;
use twinpath_core::split::PayloadStage;
use twinpath_parking::{self as parking, Order, PortConfig};
use twinpath_remote::back_off::{self, Mode};
use twinpath_remote::fast::{Config, Server};
use twinpath_remote::{PayloadMemory, Requester, SplitStage};

/// Ports that lead to memory servers are numbered from here on.
pub(super) const FIRST_PORT: u16 = 100;

/// Where payloads wait.
#[expect(clippy::large_enum_variant, reason = "there is one per run")]
pub(super) enum PayloadPlace {
    Nowhere,
    Remote(SplitStage),
    Sram(Sram),
    /// Each takes the flows of a hash.
    Loopback(Vec<parking::ParkingStage>),
}

impl PayloadPlace {
    pub(super) fn new(setting: &Setting, others: &Arc<AtomicU64>) -> Result<Self, ParameterError> {
        let sram = &setting.sram;
        Ok(match setting.parameters.system {
            System::Whole => Self::Nowhere,
            System::Split => Self::Remote(remote(setting, others)),
            System::Sram => Self::Sram(Sram::new(sram.payload_bytes.count(), sram.slots.count())),
            System::Parking => {
                let ports = 0..setting.parameters.loopback_ports;
                let stages: Result<_, _> = ports.map(|_| loopback(setting)).collect();
                Self::Loopback(stages.map_err(|error: parking::ConfigError| {
                    ParameterError::new("system", error.to_string())
                })?)
            }
        })
    }

    /// The stage of a flow with this hash.
    pub(super) fn stage(&mut self, hash: u64) -> Option<&mut dyn PayloadStage> {
        match self {
            Self::Nowhere => None,
            Self::Remote(stage) => Some(stage),
            Self::Sram(sram) => Some(sram),
            Self::Loopback(stages) => {
                let index = ((hash >> 32) * stages.len() as u64) >> 32;
                Some(&mut stages[index as usize])
            }
        }
    }

    pub(super) fn remote(&mut self) -> Option<&mut SplitStage> {
        match self {
            Self::Remote(stage) => Some(stage),
            _ => None,
        }
    }

    /// All stages from which packets may come without anything going in.
    pub(super) fn waiting(&mut self) -> impl Iterator<Item = &mut dyn PayloadStage> {
        let (remote, loopback) = match self {
            Self::Remote(stage) => (Some(stage as &mut dyn PayloadStage), Default::default()),
            Self::Loopback(stages) => (None, stages.iter_mut()),
            _ => (None, Default::default()),
        };
        let loopback = loopback.map(|stage| stage as &mut dyn PayloadStage);
        remote.into_iter().chain(loopback)
    }
}

fn remote(setting: &Setting, others: &Arc<AtomicU64>) -> SplitStage {
    let parameters = &setting.parameters;
    let seed = parameters.traffic.seed;
    let server = |number: usize| {
        let requester = Requester::new(memory::requester_config(number, &setting.rdma, seed));
        let memory: Box<dyn PayloadMemory + Send> = match number {
            0 => Box::new(SharedLink::new(requester, others)),
            _ => Box::new(requester),
        };
        Server {
            name: format!("server{}", number + 1),
            port: Some(FIRST_PORT + number as u16),
            memory,
        }
    };
    let config = Config {
        threshold_bytes: parameters.threshold_bytes,
        header_slots: parameters.header_slots,
        header_timeout: Duration::from_nanos((parameters.header_timeout_us * 1e3) as u64),
        back_off: back_off(setting),
        ..Config::default()
    };
    let mut stage = SplitStage::new(config, (0..setting.servers()).map(server).collect());
    // Nobody here looks at checksums of headers.
    stage.set_verifying(false);
    stage
}

fn back_off(setting: &Setting) -> Option<back_off::Config> {
    let parameters = &setting.parameters;
    let mode = match parameters.back_off {
        BackOffName::Never => return None,
        BackOffName::OnOff => Mode::OnOff,
        BackOffName::Proportional => Mode::Proportional,
    };
    Some(back_off::Config {
        threshold_bps: (parameters.back_off_gbps * 1e9) as u64,
        hysteresis_bps: (parameters.hysteresis_gbps * 1e9) as u64,
        interval: Duration::from_nanos((parameters.second_ms * 1e6) as u64),
        mode,
        latency: None,
    })
}

/// A port of the switch that payloads go round by, and its queue.
fn loopback(setting: &Setting) -> Result<parking::ParkingStage, parking::ConfigError> {
    let switch = &setting.testbed.switch;
    let parameters = &setting.parameters;
    let config = parking::Config {
        order: Order::AsReturned,
        limit_bytes: (switch.port_queue_kb.value() * 1e3) as u64,
        header_timeout: Duration::from_nanos((parameters.header_timeout_us * 1e3) as u64),
        ..parking::Config::default()
    };
    let port = PortConfig {
        rate_bps: (switch.port_gbps.value() * 1e9) as u64,
        reading_interval: Duration::from_micros(1),
        drops_overflow: false,
    };
    let mut stage = parking::ParkingStage::new(config, port)?;
    stage.set_verifying(false);
    Ok(stage)
}
