//! `twinpath dash check`: what is wrong with a configuration, and what it holds.

use super::findings::{Finding, Findings};
use super::text::FindingsText;
use crate::error::CommandError;
use crate::{Outcome, output};
use std::path::PathBuf;
use twinpath_control::report::units;
use twinpath_dash::Files;
use twinpath_dash::config::Store;

/// Tells all that is wrong with a DPU's configuration, what it holds and what it costs
///
/// Reads SONiC's JSON for DASH: lists of objects with SET or DEL, in any order, from as many files as
/// there are. Every error is told with its file, line, object and field; so is every object that
/// refers to something that is not there and therefore waits, with all that it waits for, every one that cannot be together
/// with another, and every one that is deleted although others refer to it. What is right and will not
/// work is a warning: an appliance or routes that are missing, an ENI that is not enabled, an address at
/// which no answer is taken, a rule that never decides. Then it tells what is
/// in force, for each table and each ENI, and the memory that it takes to keep it. Exit code 1 if
/// anything is wrong or waits, 0 if there are warnings at most. The keys of --json are on a page of the
/// manual: docs/dash-check.md.
#[derive(clap::Args)]
#[command(after_help = output::examples!(
    "twinpath dash check dpu0/*.json",
    "twinpath dash check dpu0/ --memory 16",
    "twinpath dash check dpu0/ --json | jq -r '.errors[] | \"\\(.file):\\(.line): \\(.object): \\(.field): \\(.message)\"'",
))]
pub struct Arguments {
    /// Files in SONiC's JSON; of a folder all that end with .json, by name
    #[arg(required = true, value_name = "CONFIG.json")]
    files: Vec<PathBuf>,
    /// For how much memory of a DPU, in GB, it is told how many of each would fit
    #[arg(long, value_name = "GB", default_value_t = 32, value_parser = clap::value_parser!(u64).range(1..=1 << 20))]
    memory: u64,
    /// As JSON, for programs
    #[arg(long)]
    json: bool,
}

/// Checks.
pub fn execute(arguments: &Arguments) -> Result<Outcome, CommandError> {
    let mut files = Files::read(&arguments.files)?;
    let changes = std::mem::take(&mut files.changes);
    let mut store = Store::default();
    let applied = store.apply(changes);
    let memory_bytes = arguments.memory * 1_000_000_000;
    let findings = Findings::new(&files, &store, &applied, memory_bytes);
    if arguments.json {
        output::print(&(serde_json::to_string_pretty(&findings)? + "\n"))?;
    } else {
        findings.warnings.iter().for_each(output::warning);
        findings.errors.iter().for_each(output::wrong);
        output::print(&FindingsText(&findings).to_string())?;
    }
    Ok(match findings.is_complete {
        true => Outcome::Good,
        false => Outcome::Bad,
    })
}

impl std::fmt::Display for Finding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if !self.file.is_empty() {
            write!(f, "{}:{}: ", self.file, self.line)?;
        }
        for part in [&self.object, &self.field].into_iter().flatten() {
            write!(f, "{part}: ")?;
        }
        f.write_str(&self.message)?;
        match (&self.second, self.objects) {
            (None, _) => Ok(()),
            (Some(second), 2) => write!(f, " (likewise {second})"),
            (Some(second), objects) => {
                let more = units::count(objects as u64 - 2);
                write!(f, " (likewise {second} and {more} more)")
            }
        }
    }
}
