//! What the catalogue knows of firewalls.

use super::edit::edited_rules;
use super::program::GUARANTEES;
use super::{Config, Firewall, NAME};
use crate::descriptor::{self, Descriptor, Form, Function, FunctionConfig, FunctionError};
use crate::edit::{Edit, EditError, Object};
use std::path::Path;
use std::sync::Arc;
use twinpath_core::Guarantees;

/// The function.
pub const FUNCTION: Descriptor = Descriptor {
    name: NAME,
    form: Form::Flow,
    placement: "each packet may move its connection's state on, so both paths hold the state",
    needs_section: true,
    read: descriptor::read::<Config>,
};

impl FunctionConfig for Config {
    fn descriptor(&self) -> &'static Descriptor {
        &FUNCTION
    }

    fn needs_payload(&self) -> Option<&'static str> {
        None
    }

    fn guarantees(&self) -> Guarantees {
        GUARANTEES
    }

    fn is_same(&self, other: &dyn FunctionConfig) -> bool {
        other.of() == Some(self)
    }

    fn build(&self, _folder: &Path, _seed: u64) -> Result<Function, FunctionError> {
        Ok(Function::flow(Firewall::new(self)))
    }

    /// Rules see packets of connections that are unknown, which are all on the slow path.
    fn changes_in_place(&self, former: &dyn FunctionConfig) -> bool {
        let former = former.of::<Self>();
        former.is_some_and(|former| former.timeouts == self.timeouts)
    }

    fn has(&self, object: Object) -> bool {
        object == Object::Rule
    }

    fn listed(&self, _object: Object) -> Vec<String> {
        self.rules().iter().map(ToString::to_string).collect()
    }

    fn edited(&self, edit: &Edit) -> Result<Arc<dyn FunctionConfig>, EditError> {
        let edited = self.with_rules(edited_rules(self.rules(), edit)?);
        Ok(Arc::new(edited.map_err(EditError::of)?))
    }
}
