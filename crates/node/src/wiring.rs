//! A service becomes a node: the packet's walk on one screen.
//!
//! ```text
//!  Source ── rx ──► FastPath::process ── emit ────────────────────────► Sink
//!                     parse (wire::dissect)      ▲
//!                     steer (Steering::key)      │ returned packets leave,
//!                     state (StateStage::packet) │ messages meet the state stage
//!                     apply, depart or punt      │ (FastPath::returned)
//!                          │                     │
//!                 PLAIN, PULL(g), WB(g, v)   RETURN, STATE(g, v), DECLINE, ACK(g)
//!                          ▼                     │
//!                       link: numbered, bounded, FIFO per flow
//!                          │                     ▲
//!                          ▼                     │
//!                  Worker::receive ─► Cores ─► Chain ─► NetworkFunction::handle
//! ```

use crate::fast_path::FastPath;
use crate::worker::Worker;
use twinpath_coherence::fsm::Backoff;
use twinpath_coherence::{Config as CoherenceConfig, Cores, StateStage};
use twinpath_control::service::{Device, Paths, Service};
use twinpath_core::Pools;
use twinpath_core::steering::{Steering, SteeringError};
use twinpath_fastpath::interpreter::CompileError;
use twinpath_fastpath::{Budget, BudgetError, Interpreter, Placement};
use twinpath_nf::inspector::InspectorError;
use twinpath_slowpath::Chain;

/// Why a service cannot be built.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// A file that a function needs.
    #[error(transparent)]
    Function(#[from] InspectorError),
    /// Functions whose flows do not go together.
    #[error(transparent)]
    Steering(#[from] SteeringError),
    /// Programs that do not go together.
    #[error(transparent)]
    Programs(#[from] CompileError),
    /// The device is too small.
    #[error("the chain does not fit the fast path: {0}")]
    Budget(#[from] BudgetError),
}

/// A fast path and its workers.
pub struct Node {
    /// The fast path.
    pub fast_path: FastPath,
    /// The workers, by number.
    pub workers: Vec<Worker>,
    /// Buffers of the fast path: packets that arrive.
    pub pools: Pools,
    /// Buffers of each worker: messages and packets made on the cores.
    pub worker_pools: Vec<Pools>,
}

/// Frames in flight on the fast path itself: batches in hand, buffers of its own messages.
const FRAMES_IN_HAND: usize = 4096;

/// Long frames, for captures taken in front of segmentation offload.
const LONG_FRAMES: usize = 1024;

/// The device's limits.
pub fn budget(service: &Service) -> Budget {
    match service.fast_path.device {
        Device::Software => Budget::software(),
        Device::Asic => Budget::asic(),
    }
}

/// The chain of a service, as each worker has one.
///
/// # Errors
/// A file that a function needs cannot be read.
pub fn chain(service: &Service) -> Result<Chain, BuildError> {
    let functions = service
        .chain
        .iter()
        .map(|function| function.build(&service.folder))
        .collect::<Result<_, _>>()?;
    Ok(Chain::new(functions))
}

/// Checks the chain against the device.
///
/// # Errors
/// The first limit it exceeds.
pub fn place(service: &Service, chain: &Chain) -> Result<Placement, BudgetError> {
    budget(service).place(&chain.programs(), service.fast_path.slots)
}

/// Builds a node.
///
/// # Errors
/// The service is sound as a file, but its parts do not go together.
pub fn build(service: &Service, paths: Paths) -> Result<Node, BuildError> {
    let chain = chain(service)?;
    let steering = chain.steering(service.seed)?;
    let stage = match paths {
        Paths::Both => Some(state_stage(service, &chain)?),
        Paths::Slow => None,
    };
    let held = chain.most_held_frames();
    let (workers, worker_pools) = workers(service)?;
    let in_flight = workers.len() * (2 * service.link.ring_frames + held);
    Ok(Node {
        fast_path: FastPath::new(steering, stage, workers.len()),
        workers,
        pools: Pools::new(
            FRAMES_IN_HAND + in_flight,
            LONG_FRAMES + held.min(8 * LONG_FRAMES),
        ),
        worker_pools,
    })
}

/// The state stage of the fast path.
///
/// # Errors
/// The programs do not fit the device or each other.
pub fn state_stage(service: &Service, chain: &Chain) -> Result<StateStage, BuildError> {
    place(service, chain)?;
    let interpreter = Interpreter::new(&chain.programs())?;
    Ok(StateStage::new(
        coherence(service),
        interpreter,
        service.seed,
    ))
}

fn workers(service: &Service) -> Result<(Vec<Worker>, Vec<Pools>), BuildError> {
    let mut workers = Vec::new();
    let mut pools = Vec::new();
    for _ in 0..service.slow_path.workers {
        workers.push(Worker::new(cores(service, 1)?));
        pools.push(Pools::new(2 * service.link.ring_frames + 1024, 16));
    }
    Ok((workers, pools))
}

/// A worker's flows and functions, in their `epoch`-th incarnation.
///
/// # Errors
/// A file that a function needs cannot be read.
pub fn cores(service: &Service, epoch: u32) -> Result<Cores, BuildError> {
    Ok(Cores::new(
        chain(service)?,
        service.slow_path.flows,
        epoch,
        service.seed,
    ))
}

/// The mechanism's settings.
pub fn coherence(service: &Service) -> CoherenceConfig {
    let fast = &service.fast_path;
    CoherenceConfig {
        slots: fast.slots,
        ways: fast.ways.map_or(default_ways(fast.device), |ways| ways.0),
        hot_packets: fast.hot_packets,
        sketch_window: fast.sketch_window.duration(),
        sketch_width: fast.sketch_width,
        time_to_live: fast.time_to_live.duration(),
        incomplete_timeout: service.link.incomplete_timeout.duration(),
        write_back_timeout: service.link.write_back_timeout.duration(),
        backoff: Backoff {
            rearms: fast.rearms,
        },
        sweep_slots: fast.sweep_slots,
    }
}

const fn default_ways(device: Device) -> usize {
    match device {
        Device::Software => 8,
        Device::Asic => 1,
    }
}

/// A steering that belongs to no node, for tools that only want flow keys.
///
/// # Errors
/// As for a node.
pub fn steering(service: &Service) -> Result<Steering, BuildError> {
    Ok(chain(service)?.steering(service.seed)?)
}
