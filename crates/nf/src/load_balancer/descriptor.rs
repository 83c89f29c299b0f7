//! What the catalogue knows of load balancers.

use super::{Config, LoadBalancer, NAME};
use crate::catalogue::{self, Descriptor, Form, Function, FunctionConfig, FunctionError};
use std::path::Path;

/// The function.
pub const FUNCTION: Descriptor = Descriptor {
    name: NAME,
    form: Form::Flow,
    placement: "a connection's backend is its state, which both paths hold; choosing one is for the cores",
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
        Ok(Function::flow(LoadBalancer::new(self)))
    }
}
