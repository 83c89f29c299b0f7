//! `twinpath completions`: what a shell needs to complete the command's arguments.

use crate::error::CommandError;
use crate::{Outcome, command, output};
use clap_complete::Shell;

/// Prints a script by which a shell completes commands and flags
#[derive(clap::Args)]
#[command(after_help = output::examples!(
    "twinpath completions bash > /etc/bash_completion.d/twinpath",
    "twinpath completions zsh > /usr/local/share/zsh/site-functions/_twinpath",
    "twinpath completions fish > ~/.config/fish/completions/twinpath.fish",
))]
pub struct Arguments {
    /// The shell
    shell: Shell,
}

/// Prints it.
pub fn execute(arguments: &Arguments) -> Result<Outcome, CommandError> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut command(), "twinpath", &mut script);
    output::print(&String::from_utf8_lossy(&script))?;
    Ok(Outcome::Good)
}
