//! A number and where it comes from.

use serde::Deserialize;

/// A constant of a testbed. It can only be read with its evidence beside it.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(try_from = "Written")]
pub struct Constant {
    value: f64,
    evidence: Evidence,
}

/// Why a constant is what it is.
#[derive(Clone, Debug, PartialEq)]
pub enum Evidence {
    /// A paper gives it.
    Source(String),
    /// It follows from what a paper gives.
    Derived(String),
    /// No paper gives it.
    Assumption(String),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    value: f64,
    source: Option<String>,
    derived: Option<String>,
    assumption: Option<String>,
}

/// A constant without exactly one reason, or out of any range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConstantError {
    /// None, or several.
    #[error("expected one of source, derived and assumption beside the value")]
    Evidence,
    /// Negative, or no number.
    #[error("expected a value that is not negative")]
    Value,
}

impl TryFrom<Written> for Constant {
    type Error = ConstantError;

    fn try_from(written: Written) -> Result<Self, ConstantError> {
        let evidence = match (written.source, written.derived, written.assumption) {
            (Some(text), None, None) => Evidence::Source(text),
            (None, Some(text), None) => Evidence::Derived(text),
            (None, None, Some(text)) => Evidence::Assumption(text),
            _ => return Err(ConstantError::Evidence),
        };
        match written.value.is_finite() && written.value >= 0.0 {
            true => Ok(Self {
                value: written.value,
                evidence,
            }),
            false => Err(ConstantError::Value),
        }
    }
}

impl Constant {
    /// What a plan says instead of a testbed's number.
    pub(super) fn of_plan(value: f64) -> Self {
        Self {
            value,
            evidence: Evidence::Assumption("set by the plan".into()),
        }
    }

    /// The number, in the unit that its name ends with.
    pub fn value(&self) -> f64 {
        self.value
    }

    /// The number as a count.
    pub fn count(&self) -> usize {
        self.value as usize
    }

    /// Why it is this.
    pub fn evidence(&self) -> &Evidence {
        &self.evidence
    }
}

impl Evidence {
    /// What kind of evidence it is, in a word.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Source(_) => "source",
            Self::Derived(_) => "derived",
            Self::Assumption(_) => "assumption",
        }
    }

    /// What it says.
    pub fn text(&self) -> &str {
        let (Self::Source(text) | Self::Derived(text) | Self::Assumption(text)) = self;
        text
    }
}
