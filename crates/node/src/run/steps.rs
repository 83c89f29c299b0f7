//! A run in steps: a DPU's configuration changes, packets come, and so on. The device goes on from step
//! to step, with all its flows.

use super::{Ports, RunError, drive};
use crate::command::no_commands;
use crate::exit::Exit;
use crate::figures::WorkerFigures;
use crate::machine::{Machine, Outcome, Output, Refusal};
use crate::observe::Observer;
use crate::replacement::{ReplaceError, Replacement};
use crate::source::Source;
use crate::wiring::{Node, NodeConfig};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use twinpath_coherence::Clock;
use twinpath_control::live::Live;
use twinpath_control::report::Dash;
use twinpath_control::service::Service;
use twinpath_dash::{FileError, Files};
use twinpath_nf::dash;

/// A step.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Step {
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
        why: Refusal,
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

/// Runs a service in steps. `each` is told what came of each, with its number from 1.
///
/// # Errors
/// See [`StepError`]: what steps before have written stays.
pub fn run_steps(
    service: &Service,
    steps: &[Step],
    is_stopped: &AtomicBool,
    mut each: impl FnMut(usize, StepFigures),
) -> Result<(), StepError> {
    let mut node = NodeConfig::of(service, service.run.paths)?.build()?;
    let mut service = service.clone();
    for (number, step) in (1..).zip(steps) {
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
            },
        );
    }
    Ok(())
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

fn waiting(service: &Service) -> Vec<String> {
    let configs = service.chain.iter();
    let configs = configs.filter_map(|instance| instance.config.of::<dash::Config>());
    let waiting = configs.flat_map(|config| config.store().waiting());
    waiting
        .map(|(key, waiting)| format!("{key}: {}", waiting.obstacle))
        .collect()
}

/// Applies what files say to the device. Returns how many objects changed.
fn configure(
    service: &mut Service,
    node: &mut Node,
    number: usize,
    step: &Step,
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
        let change = Box::new(replacement);
        change_at_rest(node, change).map_err(|why| StepError::Refused { step: number, why })?;
    }
    *service = next;
    Ok(changed)
}

/// So often the machine is told the time before a change is given up that does not come.
const MOST_TURNS: usize = 1 << 16;

/// Another chain for a node that no packets are in: no driver is needed for that.
fn change_at_rest(node: &mut Node, replacement: Box<Replacement>) -> Result<(), Refusal> {
    let mut out = Output::default();
    if node.machine.change(replacement).is_err() {
        return Err(Refusal::Busy);
    }
    let now = node.machine.oldest();
    let mut clock = Clock {
        packet: now,
        link: now,
    };
    let mut returns = Vec::new();
    for _ in 0..MOST_TURNS {
        node.machine.advance(clock, &mut out);
        for (worker, frame) in std::mem::take(&mut out.frames) {
            let one = &mut node.workers[worker];
            one.receive(frame, &mut node.worker_pools[worker], &mut returns);
            let machine = &mut node.machine;
            machine.returned(worker, &mut returns, clock, &mut out);
            machine.progress(worker, one.progress(), &mut out);
        }
        for (worker, command) in std::mem::take(&mut out.commands) {
            let one = &mut node.workers[worker];
            let answer = one.execute(command, &mut node.worker_pools[worker], &mut returns);
            let machine = &mut node.machine;
            machine.returned(worker, &mut returns, clock, &mut out);
            machine.progress(worker, one.progress(), &mut out);
            machine.answered(worker, answer, clock, &mut out);
        }
        for outcome in out.outcomes.drain(..) {
            match outcome {
                Outcome::Changed(_) => return Ok(()),
                Outcome::Refused(_, why) => return Err(why),
                Outcome::Stopped { .. } => {}
            }
        }
        clock.link = clock.link + Duration::from_millis(1);
    }
    Err(Refusal::NotQuiet)
}

fn pass_packets(
    service: &Service,
    node: &mut Node,
    step: &Step,
    is_stopped: &AtomicBool,
) -> Result<(), StepError> {
    let Some(input) = &step.input else {
        return Ok(());
    };
    let mut exit = match &step.output {
        Some(path) => Exit::capture(path, service)?,
        None => Exit::Nowhere,
    };
    let mut source = Source::capture(input, service)?;
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
