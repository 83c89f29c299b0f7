//! `twinpath validate`: what is wrong with a service file.

use crate::checks::check;
use crate::error::CommandError;
use crate::{Outcome, output};
use serde::Serialize;
use std::path::PathBuf;
use twinpath_control::service::{Fault, Service, ServiceError};

/// Tells all that is wrong with a service file
///
/// Finds what a run would find, and runs nothing: mistakes in the file and in the files that it names,
/// functions that do not go together or do not fit the device, and sizes that the machine has no memory
/// for. Everything is told at once, each at its line. Exit code 1 if anything is wrong.
#[derive(clap::Args)]
#[command(after_help = output::examples!(
    "twinpath validate service.toml && kill -HUP $(pidof twinpath)",
    "twinpath validate service.toml --json | jq -r '.errors[] | \"\\(.file):\\(.line): \\(.message)\"'",
))]
pub struct Arguments {
    /// The service file
    service: PathBuf,
    /// As JSON, for programs
    #[arg(long)]
    json: bool,
}

/// What was found.
#[derive(Serialize)]
struct Findings {
    is_valid: bool,
    errors: Vec<Finding>,
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
    let errors = match checked(arguments) {
        Ok(_) => Vec::new(),
        Err(CommandError::File(ServiceError::Wrong(faults))) => faults,
        Err(error) => return Err(error),
    };
    let is_valid = errors.is_empty();
    if arguments.json {
        let findings = |faults: &[Fault]| faults.iter().map(Finding::from).collect();
        let findings = Findings {
            is_valid,
            errors: findings(&errors),
        };
        output::print(&(serde_json::to_string_pretty(&findings)? + "\n"))?;
    } else {
        errors.iter().for_each(output::mistake);
        let path = arguments.service.display();
        output::print(&match errors.len() {
            0 => format!("{path}: nothing is wrong\n"),
            1 => format!("{path}: 1 mistake\n"),
            many => format!("{path}: {many} mistakes\n"),
        })?;
    }
    Ok(if is_valid {
        Outcome::Good
    } else {
        Outcome::Bad
    })
}

fn checked(arguments: &Arguments) -> Result<Service, CommandError> {
    let service = Service::load(&arguments.service)?;
    check(&service)?;
    Ok(service)
}
