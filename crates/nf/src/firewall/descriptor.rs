//! What the catalogue knows of firewalls.

use super::{Config, Firewall, NAME};
use crate::catalogue::{self, Descriptor, Form, Function, FunctionConfig, FunctionError};
use std::path::Path;

/// The function.
pub const FUNCTION: Descriptor = Descriptor {
    name: NAME,
    form: Form::Flow,
    placement: "each packet may move its connection's state on, so both paths hold the state",
    needs_section: true,
    read: catalogue::read::<Config>,
};

impl FunctionConfig for Config {
    fn descriptor(&self) -> &'static Descriptor {
        &FUNCTION
    }

    fn needs_payload(&self) -> Option<&'static str> {
        None
    }

    fn build(&self, _folder: &Path, _seed: u64) -> Result<Function, FunctionError> {
        Ok(Function::flow(Firewall::new(self)))
    }
}
