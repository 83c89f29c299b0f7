//! Errors that say where.

use std::ops::Range;
use std::path::{Path, PathBuf};
use twinpath_control::text_place::TextPlace;

/// Why a plan cannot be run.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// It cannot be read.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// It is wrong.
    #[error("{}:{}:{}: {message}\n{}", path.display(), place.line, place.column, place.excerpt)]
    Wrong {
        /// The file.
        path: PathBuf,
        /// Where.
        place: TextPlace,
        /// What is wrong, with the field's name, and what was expected.
        message: String,
    },
}

/// Something wrong at a place of a plan's text.
pub(crate) type Misplaced = (Range<usize>, String);

impl PlanError {
    /// A file's text.
    pub(crate) fn read(path: &Path) -> Result<String, Self> {
        std::fs::read_to_string(path).map_err(|source| Self::File {
            path: path.into(),
            source,
        })
    }

    pub(crate) fn of_toml(error: &toml::de::Error, text: &str, path: &Path) -> Self {
        let span = error.span().unwrap_or(0..0);
        Self::at((span, error.message().trim().to_owned()), text, path)
    }

    pub(crate) fn at((span, message): Misplaced, text: &str, path: &Path) -> Self {
        Self::Wrong {
            path: path.into(),
            place: TextPlace::of(span.start, text),
            message,
        }
    }
}

/// Why an experiment gave no result.
#[derive(Debug, thiserror::Error)]
pub enum ExperimentError {
    /// The plan.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// A file cannot be written or read.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// A table of results cannot be read.
    #[error("{}: {source}", path.display())]
    Table {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: csv::Error,
    },
    /// A table has rows that its plan does not have.
    #[error("{}: row {row} is no point of the plan beside it", path.display())]
    ForeignRow {
        /// The file.
        path: PathBuf,
        /// The row, from 1.
        row: usize,
    },
    /// Directories of different plans.
    #[error("{} and {} are shards of different plans", first.display(), other.display())]
    DifferentPlans {
        /// One.
        first: PathBuf,
        /// The other.
        other: PathBuf,
    },
    /// Two shards have the same point.
    #[error("point {0} is in two shards")]
    DoubledPoint(usize),
    /// A shard is missing.
    #[error("point {point} of {points} is in no shard")]
    MissingPoint {
        /// The first that is missing.
        point: usize,
        /// How many there should be.
        points: usize,
    },
    /// No plans where plans should be.
    #[error("{}: no plans (*.toml) here", .0.display())]
    NoPlans(PathBuf),
    /// A figure; drawing into memory gives no cause.
    #[error("cannot draw a figure: {0}")]
    Figure(String),
}

impl ExperimentError {
    pub(crate) fn file(path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_path_buf();
        |source| Self::File { path, source }
    }

    pub(crate) fn table(path: &Path) -> impl Fn(csv::Error) -> Self {
        let path = path.to_path_buf();
        move |source| Self::Table {
            path: path.clone(),
            source,
        }
    }
}
