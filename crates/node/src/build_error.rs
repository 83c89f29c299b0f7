//! Why there is no node.

use twinpath_classify::lpm::RouteError;
use twinpath_core::steering::SteeringError;
use twinpath_fastpath::BudgetError;
use twinpath_fastpath::interpreter::CompileError;
use twinpath_nf::descriptor::FunctionError;
use twinpath_parking::ConfigError as ParkingError;

/// Why a service cannot be built.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// A file that a function needs.
    #[error("{function}: {source}")]
    Function {
        /// The function's name in the chain.
        function: String,
        /// What it says.
        source: FunctionError,
    },
    /// Functions whose flows do not go together.
    #[error(transparent)]
    Steering(#[from] SteeringError),
    /// Programs that do not go together.
    #[error(transparent)]
    Programs(#[from] CompileError),
    /// The device is too small.
    #[error("the chain does not fit the fast path: {0}")]
    Budget(#[from] BudgetError),
    /// A function that makes rules where one was asked for that shares flow state.
    #[error("{0} makes rules: expected a function that shares flow state")]
    MakesRules(String),
    /// A queue for payloads that cannot be.
    #[error("[parking]: {0}")]
    Parking(#[from] ParkingError),
    /// Too many networks inside.
    #[error("the networks inside: {0}")]
    Inside(#[from] RouteError),
}

impl BuildError {
    /// The key of the service file that this is about, by its table and its name.
    pub fn keys(&self) -> Vec<&str> {
        match self {
            Self::Function { function, .. } | Self::MakesRules(function) => vec![function],
            Self::Steering(_) | Self::Programs(_) => vec!["service", "chain"],
            Self::Budget(_) => vec!["fast_path", "slots"],
            Self::Parking(_) => vec!["parking"],
            Self::Inside(_) => vec!["service", "inside"],
        }
    }
}
