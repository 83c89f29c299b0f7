//! `twinpath dash`: what a cloud configures on a DPU.

mod apply;
mod causes;
mod check;
mod findings;
mod looks;
mod text;

use crate::error::CommandError;
use crate::{Outcome, output};
use std::path::PathBuf;
use std::sync::Arc;
use twinpath_control::service::Service;
use twinpath_nf::dash::Config;
use twinpath_node::run::StepError;

/// Looks at the configuration of a DPU, as SONiC writes it for DASH, and at a DPU that runs
#[derive(clap::Args)]
#[command(after_help = output::examples!(
    "twinpath dash check examples/dpu.json        # a small appliance: two networks, six ENIs",
    "twinpath dash check dpu0/ --json             # all files of a folder, for programs",
))]
pub struct Arguments {
    #[command(subcommand)]
    subject: Subject,
}

#[derive(clap::Subcommand)]
enum Subject {
    Check(check::Arguments),
    Apply(apply::Arguments),
    Flows(looks::FlowArguments),
    Enis(looks::EniArguments),
    Counters(looks::CounterArguments),
    Meters(looks::MeterArguments),
}

/// The files that paths stand for, of a folder those in it that end with .json, by name.
pub fn config_files(paths: &[PathBuf]) -> Vec<PathBuf> {
    let inside =
        |path: &PathBuf| twinpath_dash::json_in(path).unwrap_or_else(|_| vec![path.clone()]);
    paths.iter().flat_map(inside).collect()
}

/// A service's DPU has what these files say, if there are any, and not what the service file names.
pub fn replace_config(paths: &[PathBuf], service: &mut Service) -> Result<(), CommandError> {
    if paths.is_empty() {
        return Ok(());
    }
    let files = twinpath_dash::Files::read(paths)?;
    let mut instances = service.chain.iter_mut();
    let dpu = instances.find(|instance| instance.config.of::<Config>().is_some());
    let instance = dpu.ok_or(StepError::NoDash)?;
    let config = instance.config.of::<Config>();
    let config = config.ok_or(StepError::NoDash)?.with_files(files);
    instance.config = Arc::new(config.map_err(StepError::from)?);
    Ok(())
}

/// Does what it was asked.
pub fn execute(arguments: &Arguments) -> Result<Outcome, CommandError> {
    match &arguments.subject {
        Subject::Check(arguments) => check::execute(arguments),
        Subject::Apply(arguments) => apply::execute(arguments),
        Subject::Flows(arguments) => looks::flows(arguments),
        Subject::Enis(arguments) => looks::enis(arguments),
        Subject::Counters(arguments) => looks::counters(arguments),
        Subject::Meters(arguments) => looks::meters(arguments),
    }
}
