//! Why a command gave no answer.

use crate::commands::kv::KvError;
use crate::commands::run::RunRefusal;
use crate::commands::trace::HexError;
use crate::traffic::NoTraffic;
use std::io;
use twinpath_check::faults::SetupError;
use twinpath_control::operator::{Answer, AskError};
use twinpath_control::report::ReportError;
use twinpath_control::service::ServiceError;
use twinpath_io::CaptureError;
use twinpath_lab::{ExperimentError, PlanError};
use twinpath_node::RunError;
use twinpath_node::trace::TraceError;
use twinpath_node::wiring::BuildError;
use twinpath_traffic::TrafficError;

/// Everything that ends a command with exit code 2.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    /// A service or traffic file.
    #[error(transparent)]
    File(#[from] ServiceError),
    /// Traffic that cannot be generated.
    #[error(transparent)]
    Traffic(#[from] TrafficError),
    /// Nothing to generate, or no end to it.
    #[error(transparent)]
    NoTraffic(#[from] NoTraffic),
    /// A service whose parts do not go together.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// Flags that do not go together with the service.
    #[error(transparent)]
    Refused(#[from] RunRefusal),
    /// A run that could not begin or go on.
    #[error(transparent)]
    Run(#[from] RunError),
    /// A capture.
    #[error(transparent)]
    Capture(#[from] CaptureError),
    /// Text that is no packet.
    #[error(transparent)]
    Hex(#[from] HexError),
    /// A packet that cannot be traced.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// A report.
    #[error(transparent)]
    Report(#[from] ReportError),
    /// The key-value client.
    #[error(transparent)]
    Kv(#[from] KvError),
    /// Standard output is closed or full.
    #[error("cannot write to standard output: {0}")]
    Output(#[source] io::Error),
    /// Signals cannot be caught.
    #[error("cannot catch Ctrl-C: {0}")]
    Signals(#[source] io::Error),
    /// A search that came to its limit.
    #[error(
        "there is more to search than the scope's limit of steps allows; choose a smaller --scope"
    )]
    Unfinished,
    /// A plan of an experiment.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// An experiment.
    #[error(transparent)]
    Experiment(#[from] ExperimentError),
    /// A simulation that cannot be set up.
    #[error(transparent)]
    Simulation(Box<SetupError>),
    /// A running service that cannot be asked.
    #[error(transparent)]
    Ask(#[from] AskError),
    /// Nothing says which.
    #[error(
        "which service? expected --control SOCKET, the path that `twinpath run --control` was given"
    )]
    NoControl,
    /// A running service that does not do what it was asked.
    #[error("the service refuses: {0}")]
    Declined(String),
    /// Data that has no form as JSON.
    #[error("cannot write JSON: {0}")]
    Json(#[from] serde_json::Error),
}

impl From<SetupError> for CommandError {
    fn from(error: SetupError) -> Self {
        Self::Simulation(Box::new(error))
    }
}

impl CommandError {
    /// An answer to a request that was not refused would be another.
    pub fn unexpected(answer: Answer) -> Self {
        match answer {
            Answer::Refused { message } => Self::Declined(message),
            other => Self::Declined(format!("expected another answer than {other:?}")),
        }
    }
}
