//! `twinpath dash`: what a cloud configures on a DPU.

mod apply;
mod check;
mod findings;
mod looks;
mod text;

use crate::error::CommandError;
use crate::{Outcome, output};
use std::path::PathBuf;

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
    let mut files = Vec::new();
    for path in paths {
        match path.read_dir() {
            Ok(entries) => {
                let paths = entries.flatten().map(|entry| entry.path());
                let is_json = |path: &PathBuf| path.extension().is_some_and(|end| end == "json");
                let mut inside: Vec<_> = paths.filter(is_json).collect();
                inside.sort();
                files.extend(inside);
            }
            Err(_) => files.push(path.clone()),
        }
    }
    files
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
