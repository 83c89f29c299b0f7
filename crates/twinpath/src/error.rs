//! Why a command gave no answer.

mod kv;
mod memory_server;

pub use kv::KvError;
pub use memory_server::MemoryServerError;

use crate::hex::HexError;
use std::io;
use std::path::PathBuf;
use twinpath_check::faults::SetupError;
use twinpath_control::operator::{Answer, AskError};
use twinpath_control::report::ReportError;
use twinpath_control::service::{Service, ServiceError};
use twinpath_core::DropReason;
use twinpath_io::CaptureError;
use twinpath_lab::{ExperimentError, PlanError};
use twinpath_nf::similar::did_you_mean;
use twinpath_node::RunError;
use twinpath_node::run::StepError;
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
    /// The memory server.
    #[error(transparent)]
    MemoryServer(#[from] MemoryServerError),
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
    /// Nobody is there any more to follow.
    #[error("the service has ended, or has closed the connection: nothing more is told")]
    NothingMore,
    /// Packets are dropped for no such reason.
    #[error(
        "no reason for drops is called {0:?}{meant}\nexpected one of: {known}",
        meant = did_you_mean(.0, DropReason::all().map(DropReason::name)),
        known = DropReason::all().map(DropReason::name).collect::<Vec<_>>().join(", ")
    )]
    NoDropReason(String),
    /// A running service has no such function.
    #[error(
        "the chain has no function called {name:?}{}\nexpected one of: {}",
        did_you_mean(name, known.iter().map(String::as_str)),
        known.join(", ")
    )]
    NoFunction {
        /// What was asked for.
        name: String,
        /// The functions that it has.
        known: Vec<String>,
    },
    /// A file that cannot be written.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// The file, or its folder.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// Packets of a running service that cannot be written down.
    #[error("cannot write the captured packets to {}: {source}", path.display())]
    WriteCaptured {
        /// The capture.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// A capture would take the place of a file.
    #[error(
        "cannot write the captured packets to {}: it is there already, and no file is replaced; expected another --out, or a named pipe",
        .0.display()
    )]
    CaptureIsThere(PathBuf),
    /// A file to start from would take the place of one.
    #[error(
        "cannot write {}: it is there already, and no file is replaced; expected another --out",
        .0.display()
    )]
    IsThere(PathBuf),
    /// Ports cannot be called so.
    #[error("INSIDE and OUTSIDE: {0}")]
    PortNames(String),
    /// Nobody said which interfaces, and it is not clear.
    #[error(
        "{why}: expected twinpath init INSIDE OUTSIDE, with the interface towards hosts inside and the one towards all others{}",
        of_these(names)
    )]
    Interfaces {
        /// Why nobody knows.
        why: &'static str,
        /// Those that there are.
        names: Vec<String>,
    },
    /// A file of a DPU's configuration.
    #[error(transparent)]
    Dash(#[from] twinpath_dash::FileError),
    /// A file that says what of packets counts.
    #[error("{}: {why}", path.display())]
    Counting {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// A list of steps.
    #[error(transparent)]
    Steps(#[from] StepsError),
    /// A run in steps.
    #[error(transparent)]
    Step(Box<StepError>),
    /// Data that has no form as JSON.
    #[error("cannot write JSON: {0}")]
    Json(#[from] serde_json::Error),
}

impl From<StepError> for CommandError {
    fn from(error: StepError) -> Self {
        Self::Step(Box::new(error))
    }
}

impl From<SetupError> for CommandError {
    fn from(error: SetupError) -> Self {
        Self::Simulation(Box::new(error))
    }
}

impl CommandError {
    /// What turned out to be wrong with a service when a node was built of it, told with its place in
    /// the file.
    pub fn placed(self, service: &Service) -> Self {
        match &self {
            Self::Build(error)
            | Self::Run(RunError::Build(error))
            | Self::Trace(TraceError::Build(error)) => {
                let fault = service.wrong_at(&error.keys(), error.to_string());
                Self::File(ServiceError::Wrong(vec![fault]))
            }
            Self::Run(RunError::Port(error)) => {
                let mut ports = service.ports.iter().zip(&service.devices);
                let port = ports.find(|(_, one)| one.device == error.device());
                let Some((port, _)) = port else { return self };
                let message = format!("port {port}: {error}");
                let fault = service.wrong_at(&["ports", port, "device"], message);
                Self::File(ServiceError::Wrong(vec![fault]))
            }
            _ => self,
        }
    }

    /// An answer to a request that was not refused would be another.
    pub fn unexpected(answer: Answer) -> Self {
        match answer {
            Answer::Refused { message } => Self::Declined(message),
            other => Self::Declined(format!("expected another answer than {other:?}")),
        }
    }
}

/// Why a list of steps is none.
#[derive(Debug, thiserror::Error)]
pub enum StepsError {
    /// It cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// It says something else.
    #[error(
        "{}:{line}:{column}: {what}: expected a list such as [{{\"config\": \"a.json\", \"in\": \"a.pcap\", \"out\": \"b.pcap\"}}]", path.display()
    )]
    Wrong {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The column, from 1.
        column: usize,
        /// What is wrong.
        what: String,
    },
}

/// Flags that do not go together with the service.
#[derive(Debug, thiserror::Error)]
pub enum RunRefusal {
    /// Virtual time has no place for clients that wait.
    #[error(
        "--listen needs threads: clients do not live in virtual time (leave out --execution virtual)"
    )]
    ListenInVirtualTime,
    /// Nor for an operator.
    #[error(
        "--control needs threads: nobody can ask in virtual time (leave out --execution virtual)"
    )]
    ControlInVirtualTime,
    /// Nobody would answer.
    #[error("--listen needs a function that answers datagrams: the chain has no key-value store")]
    NothingAnswers,
    /// A file that is read, or written otherwise, would be gone.
    #[error("{} is {flag} and {other}: expected different files", path.display())]
    SameFile {
        /// The file.
        path: PathBuf,
        /// What would write it.
        flag: &'static str,
        /// What else it is for.
        other: &'static str,
    },
    /// Braces in the name of a file.
    #[error(
        "{flag} {}: {place} stands for nothing: expected {{port}}, of which there is a file for each", path.display()
    )]
    UnknownPlace {
        /// The flag.
        flag: &'static str,
        /// What it was given.
        path: PathBuf,
        /// The word, with its braces.
        place: String,
    },
    /// A capture to or from a person.
    #[error("{0} is a terminal: expected a pipe or a file there")]
    Terminal(&'static str),
    /// The store would not know its requests.
    #[error(
        "--listen has port {listen}, but the key-value store answers on port {store} (set port = {listen} in [kv_store])"
    )]
    OtherPort {
        /// The port to listen on.
        listen: u16,
        /// The store's port.
        store: u16,
    },
}

/// Why there is nothing to generate.
#[derive(Debug, thiserror::Error)]
pub enum NoTraffic {
    /// The service file describes none.
    #[error("{}: the file describes no traffic: it needs a table [traffic]", .0.display())]
    NotDescribed(PathBuf),
    /// Packets without end.
    #[error("the traffic has no end: give --packets, or set packets or duration_ns in the file")]
    Endless,
    /// A traffic file that is no service, and a service file that is no traffic, look alike.
    #[error("{}: this is a service file: give it with --service", .0.display())]
    IsService(PathBuf),
    /// Values that are wrong, or do not go together.
    #[error("{}: {source}", path.display())]
    Invalid {
        /// The traffic file.
        path: PathBuf,
        /// What is wrong.
        source: TrafficError,
    },
}

/// What there is to choose from.
fn of_these(names: &[String]) -> String {
    match names.is_empty() {
        true => String::new(),
        false => format!(", of {}", names.join(", ")),
    }
}
