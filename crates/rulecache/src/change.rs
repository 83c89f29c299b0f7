//! Another configuration for a function, while packets flow.
//!
//! 1. Whoever reads configurations prepares what is slow to build, on a thread of its own
//!    ([`Reconfigure::New`]), and sends it to the worker as a [`Change`].
//! 2. The worker asks which entries the change concerns and takes out the rules that came from
//!    them: [`RuleCores::begin_change`](crate::RuleCores::begin_change). Packets of these rules
//!    are decided on the cores from then on, still as before.
//! 3. When those rules are gone the change is made:
//!    [`RuleCores::finish_change`](crate::RuleCores::finish_change). No packet taken up later
//!    meets an old decision, and none was lost or overtaken.

use crate::function::RuleFunction;
use crate::recording::EntryId;
use std::any::Any;
use std::error::Error;

/// Which cached rules a change concerns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Affected {
    /// Those that came from these entries of the function; none if there are none.
    Entries(Vec<u32>),
    /// Any: the change may concern packets of which the function has no entry.
    Everything,
}

/// A function whose configuration can change while packets flow.
pub trait Reconfigure: RuleFunction {
    /// The new configuration, with whatever takes long to build.
    type New: Any + Send;

    /// Which rules must be gone before the change is made. All others are as right after it.
    fn affected_by(&self, new: &Self::New) -> Affected;

    /// Makes the change; what it affects is free. It takes effect at once and in short time: what
    /// was replaced may be left in `new`, to be freed elsewhere.
    ///
    /// # Errors
    /// Why it cannot be made.
    fn apply(&mut self, new: &mut Self::New) -> Result<(), Box<dyn Error + Send + Sync>>;
}

/// Why a change was not made.
#[derive(Debug, thiserror::Error)]
pub enum ChangeError {
    /// There is no function at this place.
    #[error("there is no function at place {0} of the chain")]
    NoFunction(u8),
    /// The change is for another kind of function.
    #[error("{0} cannot take a configuration of another function")]
    OtherFunction(&'static str),
    /// The function refuses it.
    #[error("{function}: {source}")]
    Refused {
        /// The function's name.
        function: &'static str,
        /// Why.
        source: Box<dyn Error + Send + Sync>,
    },
}

/// A change for a function of some kind.
pub struct Change(Box<dyn AnyChange>);

trait AnyChange: Send {
    fn affected(&self, function: &dyn RuleFunction) -> Option<Affected>;
    fn apply(
        &mut self,
        function: &mut dyn RuleFunction,
    ) -> Option<Result<(), Box<dyn Error + Send + Sync>>>;
}

struct For<F: Reconfigure>(F::New);

impl<F: Reconfigure> AnyChange for For<F> {
    fn affected(&self, function: &dyn RuleFunction) -> Option<Affected> {
        let function = (function as &dyn Any).downcast_ref::<F>()?;
        Some(function.affected_by(&self.0))
    }

    fn apply(
        &mut self,
        function: &mut dyn RuleFunction,
    ) -> Option<Result<(), Box<dyn Error + Send + Sync>>> {
        let function = (function as &mut dyn Any).downcast_mut::<F>()?;
        Some(function.apply(&mut self.0))
    }
}

impl Change {
    /// A new configuration for a function of the kind `F`.
    pub fn of<F: Reconfigure>(new: F::New) -> Self {
        Self(Box::new(For::<F>(new)))
    }

    /// The entries that must be free before the change is made, of a function at this place.
    ///
    /// # Errors
    /// The function is of another kind.
    pub fn entries(
        &self,
        place: u8,
        function: &dyn RuleFunction,
    ) -> Result<Vec<EntryId>, ChangeError> {
        let other = ChangeError::OtherFunction(function.name());
        let entry = |entry| EntryId {
            function: place,
            entry,
        };
        Ok(match self.0.affected(function).ok_or(other)? {
            Affected::Everything => vec![EntryId::EVERYTHING],
            Affected::Entries(entries) => entries.into_iter().map(entry).collect(),
        })
    }

    /// Makes the change, whose entries are free. What was replaced is freed with the change
    /// itself: let that happen where it disturbs nobody.
    ///
    /// # Errors
    /// The function is of another kind, or refuses.
    pub fn apply(&mut self, function: &mut dyn RuleFunction) -> Result<(), ChangeError> {
        let name = function.name();
        let made = self.0.apply(function);
        made.ok_or(ChangeError::OtherFunction(name))?
            .map_err(|source| ChangeError::Refused {
                function: name,
                source,
            })
    }
}
