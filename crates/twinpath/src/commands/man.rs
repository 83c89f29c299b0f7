//! `twinpath man`: the command's help as man pages.

use crate::error::CommandError;
use crate::{Outcome, command, output};
use std::path::PathBuf;

/// Writes a man page for each command to a folder
#[derive(clap::Args)]
#[command(after_help = output::examples!(
    "twinpath man /usr/local/share/man/man1 && man twinpath-run",
))]
pub struct Arguments {
    /// The folder, which is made if it is not there
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

/// Writes them.
pub fn execute(arguments: &Arguments) -> Result<Outcome, CommandError> {
    let folder = &arguments.folder;
    let written = std::fs::create_dir_all(folder)
        .and_then(|()| clap_mangen::generate_to(plain(command()), folder));
    written.map_err(|source| CommandError::Write {
        path: folder.clone(),
        source,
    })?;
    Ok(Outcome::Good)
}

/// Without colours, for which man pages have no place.
fn plain(command: clap::Command) -> clap::Command {
    let examples = command.get_after_help().map(ToString::to_string);
    let command = match examples {
        Some(examples) => command.after_help(examples),
        None => command,
    };
    command.mut_subcommands(plain)
}
