//! `twinpath validate`: what is wrong with a service file.

use super::dash::replace_config;
use crate::checks::{absent_devices, check, host_doubts, unsent_traffic};
use crate::error::CommandError;
use crate::{Outcome, output};
use serde::Serialize;
use std::path::PathBuf;
use twinpath_control::service::{Fault, Service, ServiceError, warnings};

/// Tells all that is wrong with a service file
///
/// Finds what a run would find, and runs nothing: mistakes in the file and in the files that it names,
/// functions that do not go together or do not fit the device, and sizes that the machine has no memory
/// for. Everything is told at once, each at its line; so is what is sound and yet probably not meant
/// so, as a warning, an interface that this machine does not have, and addresses of this machine that
/// would be cut off, or are taken for the service's. Exit code 1 if anything is wrong, 0 if there are
/// warnings at most.
#[derive(clap::Args)]
#[command(after_help = output::examples!(
    "twinpath validate /etc/twinpath/edge.toml && systemctl reload twinpath@edge    # this service alone",
    "twinpath validate edge.toml && twinpath apply edge.toml --control edge.sock     # without systemd",
    "twinpath validate service.toml --json | jq -r '.errors[] | \"\\(.file):\\(.line): \\(.message)\"'",
))]
pub struct Arguments {
    /// The service file
    service: PathBuf,
    /// A DPU's configuration, in place of what the service file's [dash] names: files in SONiC's JSON, of a
    /// folder all that end with .json
    #[arg(long, value_name = "CONFIG.json", num_args = 1..)]
    dash: Vec<PathBuf>,
    /// As JSON, for programs
    #[arg(long)]
    json: bool,
}

/// What was found.
#[derive(Serialize)]
struct Findings {
    is_valid: bool,
    errors: Vec<Finding>,
    warnings: Vec<Finding>,
}

#[derive(Serialize)]
struct Finding {
    file: PathBuf,
    line: usize,
    column: usize,
    message: String,
}

impl From<&Fault> for Finding {
    fn from(fault: &Fault) -> Self {
        Self {
            file: fault.path.clone(),
            line: fault.place.line,
            column: fault.place.column,
            message: fault.message.clone(),
        }
    }
}

/// Validates.
pub fn execute(arguments: &Arguments) -> Result<Outcome, CommandError> {
    let mut warned = Vec::new();
    let errors = match checked(arguments, &mut warned) {
        Ok(()) => Vec::new(),
        Err(CommandError::File(ServiceError::Wrong(faults))) => faults,
        Err(error) => return Err(error),
    };
    let is_valid = errors.is_empty();
    if arguments.json {
        let findings = |faults: &[Fault]| faults.iter().map(Finding::from).collect();
        let findings = Findings {
            is_valid,
            errors: findings(&errors),
            warnings: findings(&warned),
        };
        output::print(&(serde_json::to_string_pretty(&findings)? + "\n"))?;
    } else {
        warned.iter().for_each(output::warning);
        errors.iter().for_each(output::mistake);
        let path = arguments.service.display();
        let found = match errors.len() {
            0 => "nothing is wrong".into(),
            count => counted(count, "mistake"),
        };
        let warned = match warned.len() {
            0 => String::new(),
            count => format!(", {}", counted(count, "warning")),
        };
        output::print(&format!("{path}: {found}{warned}\n"))?;
    }
    Ok(if is_valid {
        Outcome::Good
    } else {
        Outcome::Bad
    })
}

fn counted(count: usize, what: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {what}{plural}")
}

/// Warnings are found once the file can be read, whatever else is wrong with the service.
fn checked(arguments: &Arguments, warned: &mut Vec<Fault>) -> Result<(), CommandError> {
    let mut service = Service::load(&arguments.service)?;
    replace_config(&arguments.dash, &mut service)?;
    *warned = warnings(&service);
    warned.extend(absent_devices(&service));
    warned.extend(host_doubts(&service));
    warned.extend(unsent_traffic(&service));
    check(&service)
}
