//! A run in steps: a DPU's configuration changes, packets come, and so on. The device goes on from step
//! to step, with all its flows.

use super::{Ports, RunError, drive};
use crate::command::{Command, no_commands};
use crate::exit::Exit;
use crate::figures::WorkerFigures;
use crate::machine::{ChangeRefusal, Machine};
use crate::observe::Observer;
use crate::replacement::{ReplaceError, Replacement};
use crate::source::Source;
use crate::virtual_time::VirtualRun;
use crate::wiring::{Node, NodeConfig};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;
use twinpath_control::live::Live;
use twinpath_control::report::Dash;
use twinpath_control::service::Service;
use twinpath_dash::{FileError, Files};
use twinpath_io::PortPattern;
use twinpath_nf::dash;

/// A step.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunStep {
    /// Files of configuration that are applied to the device before packets come.
    pub config: Vec<PathBuf>,
    /// The packets.
    pub input: Option<PathBuf>,
    /// Where those go that leave.
    pub output: Option<PathBuf>,
}

/// What came of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepFigures {
    /// Packets that came.
    pub packets_in: u64,
    /// Of these, those that did not go to the slow path.
    pub fast_packets: u64,
    /// Packets that left.
    pub packets_out: u64,
    /// Objects in force that changed before.
    pub changed: usize,
    /// Objects that wait for others, in words.
    pub waiting: Vec<String>,
    /// What the DPU has counted up to here, all steps together.
    pub dash: Dash,
    /// What was dropped up to here, by reason, in front of the DPU and in it.
    pub drops: BTreeMap<String, u64>,
}

/// Why a run in steps does not come to its end.
#[derive(Debug, thiserror::Error)]
pub enum StepError {
    /// There is no DPU whose configuration could change.
    #[error("the service has no DPU: expected chain = [\"dash\"]")]
    NoDash,
    /// A file of configuration cannot be read.
    #[error(transparent)]
    File(#[from] FileError),
    /// What it says is wrong.
    #[error(transparent)]
    Config(#[from] dash::ConfigError),
    /// Packets cannot be read or written.
    #[error(transparent)]
    Run(#[from] RunError),
    /// The device cannot have this configuration.
    #[error(transparent)]
    Replace(#[from] ReplaceError),
    /// The device does not take it.
    #[error("the configuration of step {step} is not taken: {why}")]
    Refused {
        /// Which step, from 1.
        step: usize,
        /// Why.
        why: ChangeRefusal,
    },
}

impl From<crate::wiring::BuildError> for StepError {
    fn from(error: crate::wiring::BuildError) -> Self {
        Self::Run(error.into())
    }
}

impl From<twinpath_io::CaptureError> for StepError {
    fn from(error: twinpath_io::CaptureError) -> Self {
        Self::Run(error.into())
    }
}

/// Runs a service in steps. `each` is told what came of each, with its number from 1. Once `is_stopped`
/// is true the step that is being run ends with the packets that have come, and no other begins.
///
/// # Errors
/// See [`StepError`]: what steps before have written stays.
pub fn run_steps(
    service: &Service,
    steps: &[RunStep],
    is_stopped: &Arc<AtomicBool>,
    mut each: impl FnMut(usize, StepFigures),
) -> Result<(), StepError> {
    check_ports(service, steps)?;
    let mut node = NodeConfig::of(service, service.run.paths)?.build()?;
    let mut service = service.clone();
    for (number, step) in (1..).zip(steps) {
        if is_stopped.load(Ordering::Relaxed) {
            break;
        }
        let changed = configure(&mut service, &mut node, number, step)?;
        let before = seen(&node.machine);
        pass_packets(&service, &mut node, step, is_stopped)?;
        let after = seen(&node.machine);
        each(
            number,
            StepFigures {
                packets_in: after[0] - before[0],
                fast_packets: after[0] - before[0] - (after[1] - before[1]),
                packets_out: after[2] - before[2],
                changed,
                waiting: waiting(&service),
                dash: counted(&node),
                drops: dropped(&node),
            },
        );
    }
    Ok(())
}

/// A file for each port takes ports.
fn check_ports(service: &Service, steps: &[RunStep]) -> Result<(), RunError> {
    let mut paths = steps.iter().flat_map(|step| [&step.input, &step.output]);
    let of_ports =
        paths.find_map(|path| path.as_ref().filter(|path| PortPattern::of(path).is_some()));
    match of_ports.filter(|_| service.ports.is_empty()) {
        Some(path) => Err(RunError::NoPorts(path.clone())),
        None => Ok(()),
    }
}

/// Packets that came, that went to the slow path, and that left.
fn seen(machine: &Machine) -> [u64; 3] {
    let counters = machine.path().counters();
    [
        counters.packets_in,
        counters.punted_packets,
        counters.fast_packets + counters.slow_packets,
    ]
}

fn counted(node: &Node) -> Dash {
    let mut all = Dash::default();
    if let Some(stage) = node.machine.path().dash() {
        all.add(&crate::figures::dash::dash(stage.dpu()));
    }
    for worker in &node.workers {
        if let Some(dash) = WorkerFigures::of(worker).dash() {
            all.add(dash);
        }
    }
    all
}

fn dropped(node: &Node) -> BTreeMap<String, u64> {
    let mut drops = node.machine.path().drops().clone();
    let workers = node.workers.iter();
    workers.for_each(|worker| drops.absorb(&worker.drops()));
    let named = drops.nonzero();
    named
        .map(|(reason, count)| (reason.name().to_owned(), count))
        .collect()
}

fn waiting(service: &Service) -> Vec<String> {
    let configs = service.chain.iter();
    let configs = configs.filter_map(|instance| instance.config.of::<dash::Config>());
    let all = configs.flat_map(|config| {
        let store = config.store();
        let waiting = store.waiting();
        let waiting = waiting.map(|(key, waiting)| format!("{key}: {}", store.why(waiting)));
        let leaving = store.leaving();
        waiting.chain(leaving.map(|(key, _)| format!("{key}: deleted once nothing refers to it")))
    });
    all.collect()
}

/// Applies what files say to the device. Returns how many objects changed.
fn configure(
    service: &mut Service,
    node: &mut Node,
    number: usize,
    step: &RunStep,
) -> Result<usize, StepError> {
    if step.config.is_empty() {
        return Ok(0);
    }
    let files = Files::read(&step.config)?;
    let mut next = service.clone();
    let mut instances = next.chain.iter_mut();
    let dash = instances.find(|instance| instance.config.of::<dash::Config>().is_some());
    let instance = dash.ok_or(StepError::NoDash)?;
    let config = instance.config.of::<dash::Config>();
    let (config, applied) = config.ok_or(StepError::NoDash)?.with_changes(files)?;
    instance.config = Arc::new(config);
    let changed = applied.changed.len();
    let replacement = Replacement::between(service, &next)?;
    if !replacement.is_empty() {
        change_at_rest(node, Box::new(replacement), number)?;
    }
    *service = next;
    Ok(changed)
}

/// Another chain for a node in which nothing is under way, asked for as an operator does.
fn change_at_rest(
    node: &mut Node,
    replacement: Box<Replacement>,
    step: usize,
) -> Result<(), StepError> {
    let (ask, commands) = mpsc::channel();
    let (tell, told) = mpsc::channel();
    // Its other end is here.
    let _ = ask.send(Command::Replace(replacement, tell));
    let (mut exit, mut observer) = (Exit::Nowhere, Observer::new(Live::hidden()));
    let mut run = VirtualRun::new(node, &mut exit, &mut observer, Duration::ZERO);
    run = run.hearing(&commands);
    run.take_commands()?;
    let why = match told.try_recv() {
        Ok(Ok(_)) => return Ok(()),
        Ok(Err((_, why))) => why,
        Err(_) => ChangeRefusal::Over,
    };
    Err(StepError::Refused { step, why })
}

fn pass_packets(
    service: &Service,
    node: &mut Node,
    step: &RunStep,
    is_stopped: &Arc<AtomicBool>,
) -> Result<(), StepError> {
    let Some(input) = &step.input else {
        return Ok(());
    };
    let mut exit = match &step.output {
        Some(path) => Exit::capture(path, service)?,
        None => Exit::Nowhere,
    };
    let mut source = Source::capture(input, service)?.until(Arc::clone(is_stopped));
    let ports = Ports {
        input: Some(input.clone()),
        ..Ports::default()
    };
    let mut observer = Observer::new(Live::hidden());
    let commands = no_commands();
    drive(
        service,
        &ports,
        node,
        &mut source,
        &mut exit,
        &mut observer,
        &commands,
        is_stopped,
    )?;
    exit.finish()?;
    Ok(())
}
