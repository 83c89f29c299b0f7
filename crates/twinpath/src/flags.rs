//! Flags that override what a service file says.

use clap::ValueEnum;
use twinpath_control::service;

/// `--paths`
#[derive(Copy, Clone, Debug, PartialEq, Eq, ValueEnum)]
pub enum Paths {
    /// Fast where possible
    Both,
    /// Everything on the slow path: the oracle
    Slow,
}

impl From<Paths> for service::Paths {
    fn from(paths: Paths) -> Self {
        match paths {
            Paths::Both => Self::Both,
            Paths::Slow => Self::Slow,
        }
    }
}

/// `--execution`
#[derive(Copy, Clone, Debug, PartialEq, Eq, ValueEnum)]
pub enum Execution {
    /// Each path on threads of its own
    Threads,
    /// All in one thread under virtual time: the same every time
    Virtual,
}

impl From<Execution> for service::Execution {
    fn from(execution: Execution) -> Self {
        match execution {
            Execution::Threads => Self::Threads,
            Execution::Virtual => Self::Virtual,
        }
    }
}

/// `--pace`
#[derive(Copy, Clone, Debug, PartialEq, Eq, ValueEnum)]
pub enum Pace {
    /// At the speed of the capture or generator, as on a wire: where the workers are behind, packets are dropped
    /// and counted. Of a capture an answer also waits until its question has left
    Live,
    /// As fast as they can be taken: where the workers are behind, packets wait, and none is lost
    Lossless,
}

impl From<Pace> for service::Pace {
    fn from(pace: Pace) -> Self {
        match pace {
            Pace::Live => Self::Live,
            Pace::Lossless => Self::Lossless,
        }
    }
}
