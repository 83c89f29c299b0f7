//! `twinpath dash`: what a cloud configures on a DPU.

mod check;
mod findings;
mod text;

use crate::error::CommandError;
use crate::{Outcome, output};

/// Looks at the configuration of a DPU, as SONiC writes it for DASH
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
}

/// Does what it was asked.
pub fn execute(arguments: &Arguments) -> Result<Outcome, CommandError> {
    match &arguments.subject {
        Subject::Check(arguments) => check::execute(arguments),
    }
}
