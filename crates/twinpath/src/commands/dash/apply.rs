//! `twinpath dash apply`: a DPU's configuration changes while it runs.

use super::super::apply::told;
use super::config_files;
use crate::error::CommandError;
use crate::{Outcome, output};
use std::path::PathBuf;
use std::sync::Arc;
use twinpath_control::operator::{Answer, Request, ask};
use twinpath_nf::files::{Disk, Files};

/// Changes the configuration of a running DPU
///
/// The objects that the files set and delete are put in force together, between two packets; what
/// refers to something that is not there waits, as everywhere, and is told. Exit code 0, whatever waits; what
/// `twinpath dash check` would warn of since this change is a warning. Flows stay: one whose ENI or mapping was
/// touched is judged anew with its next packet. If anything is wrong in the files, nothing changes.
/// `twinpath apply` with the service file goes back to what the files say that it names.
#[derive(clap::Args)]
#[command(after_help = output::examples!(
    "twinpath dash apply more-routes.json --control /run/dpu.sock",
))]
pub struct Arguments {
    /// Files in SONiC's JSON; of a folder all that end with .json
    #[arg(required = true, value_name = "CONFIG.json")]
    files: Vec<PathBuf>,
    /// The socket that the service was given with --control
    #[arg(long, value_name = "SOCKET", env = crate::look::CONTROL, hide_env = true)]
    control: PathBuf,
}

/// Changes it. Files are read here, with the rights of whoever asks.
pub fn execute(arguments: &Arguments) -> Result<Outcome, CommandError> {
    let mut files: Vec<(PathBuf, Arc<str>)> = Vec::new();
    for path in config_files(&arguments.files) {
        let text = Disk.read(&path);
        let text = text.map_err(|source| twinpath_dash::FileError {
            path: path.clone(),
            source,
        })?;
        files.push((path, text));
    }
    match ask(&arguments.control, &Request::DashApply { files })? {
        Answer::Applied(applied) => {
            output::print(&told(&applied))?;
            applied.warnings.iter().for_each(output::warning);
            Ok(Outcome::Good)
        }
        other => Err(CommandError::unexpected(other)),
    }
}
