//! Single changes of a translation: forwards that are added and deleted.

use super::config::{Config, ConfigError, Forward, ForwardEnds, ForwardError};
use crate::edit::{Edit, EditError, word};
use crate::records::Kind;

/// Why a forward is not changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ForwardEditError {
    /// It cannot be read.
    #[error(transparent)]
    Unreadable(#[from] ForwardError),
    /// What the configuration would be is wrong.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// Deleted twice.
    #[error("there is no forward of {0}")]
    NotThere(String),
}

impl Config {
    /// The same after a single change.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn after(&self, edit: &Edit) -> Result<Self, EditError> {
        let kind = |protocol: &Option<String>| protocol.as_deref().map(word::<Kind>).transpose();
        let edited = match edit {
            Edit::AddForward {
                protocol,
                external,
                to,
            } => self.with_forward(kind(protocol)?, external, to),
            Edit::DeleteForward { protocol, external } => {
                self.without_forward(kind(protocol)?, external)
            }
            other => return Err(EditError::Object(other.object())),
        };
        edited.map_err(EditError::of)
    }

    /// # Errors
    /// It cannot be, or contradicts another.
    fn with_forward(
        &self,
        kind: Option<Kind>,
        external: &str,
        to: &str,
    ) -> Result<Self, ForwardEditError> {
        let mut forwards = self.forwards.written().to_vec();
        forwards.push(Forward::new(kind, external, to)?);
        Ok(self.with_forwards(&forwards)?)
    }

    /// Without the forward of these external ports, or of this address; of both protocols if none
    /// is said.
    ///
    /// # Errors
    /// There is none.
    fn without_forward(
        &self,
        kind: Option<Kind>,
        external: &str,
    ) -> Result<Self, ForwardEditError> {
        let which: ForwardEnds = external.parse()?;
        let is_it =
            |forward: &Forward| which.are_of(forward) && (kind.is_none() || forward.kind == kind);
        let mut forwards = self.forwards.written().to_vec();
        let before = forwards.len();
        forwards.retain(|forward| !is_it(forward));
        match forwards.len() == before {
            true => Err(ForwardEditError::NotThere(external.to_owned())),
            false => Ok(self.with_forwards(&forwards)?),
        }
    }

    /// The forwards as `change` takes them.
    pub fn listed_forwards(&self) -> Vec<String> {
        let forwards = self.forwards.written();
        forwards.iter().map(ToString::to_string).collect()
    }
}
