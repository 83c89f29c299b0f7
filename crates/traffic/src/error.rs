//! What can be wrong with a configuration or a distribution file.

use std::path::PathBuf;

use thiserror::Error;

/// Why no generator could be made. Generating itself cannot fail.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TrafficError {
    /// A number outside its range, or not a number at all.
    #[error("{field} is {found}: expected a number from {low} to {high}")]
    OutOfRange {
        /// The field's path in the configuration, as in `arrivals.rate_pps`.
        field: &'static str,
        /// What it is.
        found: f64,
        /// The least value that is accepted.
        low: f64,
        /// The greatest value that is accepted.
        high: f64,
    },
    /// A list that needs at least one entry.
    #[error("{field} is empty: expected at least one entry")]
    Empty {
        /// The field's path in the configuration.
        field: &'static str,
    },
    /// Two settings that cannot be had together.
    #[error("{field} contradicts {other}: {rule}")]
    Contradiction {
        /// The field's path in the configuration.
        field: &'static str,
        /// The other field's path.
        other: &'static str,
        /// What must hold between the two.
        rule: &'static str,
    },
    /// A setting that breaks a rule of its own.
    #[error("{field}: {rule}")]
    Refused {
        /// The field's path in the configuration.
        field: &'static str,
        /// What must hold.
        rule: &'static str,
    },
    /// A distribution file that cannot be read.
    #[error("cannot read the distribution file {}", file.display())]
    CdfRead {
        /// The file as named in the configuration.
        file: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A distribution file that is not one.
    #[error("{}, line {line}: expected {expected}", file.display())]
    CdfSyntax {
        /// The file as named in the configuration.
        file: PathBuf,
        /// The line, counted from 1.
        line: usize,
        /// What the line should have held.
        expected: CdfExpected,
    },
}

impl TrafficError {
    /// The path in the configuration of the field that is wrong, if one is.
    pub const fn field(&self) -> Option<&'static str> {
        match self {
            Self::OutOfRange { field, .. }
            | Self::Empty { field }
            | Self::Contradiction { field, .. }
            | Self::Refused { field, .. } => Some(field),
            Self::CdfRead { .. } | Self::CdfSyntax { .. } => None,
        }
    }
}

/// What a line of a distribution file should have held.
#[derive(Debug, Clone, Copy, PartialEq, Error)]
#[non_exhaustive]
pub enum CdfExpected {
    /// Two columns of numbers.
    #[error("two numbers, a size and its cumulative share")]
    TwoNumbers,
    /// A named column of a comma-separated file.
    #[error("a comma-separated line with the column `{0}`")]
    Column(&'static str),
    /// A row for this kind of size.
    #[error("at least two rows of kind `{0}`")]
    Series(&'static str),
    /// A size that does not fall.
    #[error("a size that is not negative and not below {0} of the line before")]
    RisingSize(f64),
    /// A share that does not fall.
    #[error("a cumulative share not below {0} of the line before")]
    RisingShare(f64),
    /// A share below everything.
    #[error("a cumulative share between 0 and 1, or 0 and 100 percent")]
    ShareInRange,
    /// More points.
    #[error("at least two points")]
    TwoPoints,
    /// A last point at 100 percent.
    #[error(
        "a last share of 1 or 100 percent, but the file ends at {0} \
         (set `partial = true` to draw from the part that it covers)"
    )]
    WholeDistribution(f64),
}
