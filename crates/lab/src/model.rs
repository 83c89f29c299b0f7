//! What a model is: a testbed with parameters and measurements.

use std::borrow::Cow;
use std::path::Path;

/// A testbed under virtual time.
pub trait Model: Sync {
    /// What plans call it.
    fn name(&self) -> &'static str;

    /// What it measures, in the order of [`Self::run`]'s answer.
    fn columns(&self) -> &'static [Column];

    /// Whether it can run with these parameters, any of which may be missing. Files that they name are
    /// as seen from `folder`, the plan's.
    ///
    /// # Errors
    /// What is wrong, and with which.
    fn check(&self, parameters: &toml::Table, folder: &Path) -> Result<(), ParameterError>;

    /// Runs one point of a sweep.
    ///
    /// # Errors
    /// As [`Self::check`].
    fn run(&self, parameters: &toml::Table, folder: &Path) -> Result<Vec<f64>, ParameterError>;

    /// What a reader of the results should know of what runs at this point, in sentences.
    fn remarks(&self, _parameters: &toml::Table, _folder: &Path) -> Vec<String> {
        Vec::new()
    }
}

/// One thing that a model measures.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    /// Its name in plans and tables; the unit is its last part.
    pub name: &'static str,
    /// What it is, in words.
    pub meaning: &'static str,
}

/// Parameters that a model cannot run with.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ParameterError {
    /// The parameter, if it is one alone.
    pub field: Option<Cow<'static, str>>,
    /// What is wrong.
    pub message: String,
}

impl ParameterError {
    /// A parameter that is out of range.
    pub fn new(field: impl Into<Cow<'static, str>>, message: impl Into<String>) -> Self {
        Self {
            field: Some(field.into()),
            message: message.into(),
        }
    }
}

impl From<toml::de::Error> for ParameterError {
    fn from(error: toml::de::Error) -> Self {
        Self {
            field: None,
            message: error.message().trim().to_owned(),
        }
    }
}
