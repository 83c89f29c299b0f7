//! What the catalogue knows of key-value stores.

use super::{Config, KvStore, NAME};
use crate::descriptor::{self, Descriptor, Form, Function, FunctionConfig, FunctionError};
use crate::schema;
use std::path::Path;

/// The function.
pub const FUNCTION: Descriptor = Descriptor {
    name: NAME,
    form: Form::Flow,
    placement: "a key's value changes with requests, so both paths hold it",
    needs_section: false,
    decides_last: false,
    read: descriptor::read::<Config>,
    schema: schema::of::<Config>,
};

impl FunctionConfig for Config {
    fn descriptor(&self) -> &'static Descriptor {
        &FUNCTION
    }

    fn needs_payload(&self) -> Option<&'static str> {
        Some("reads requests and writes answers")
    }

    fn is_same(&self, other: &dyn FunctionConfig) -> bool {
        other.of() == Some(self)
    }

    fn build(&self, _folder: &Path, _seed: u64) -> Result<Function, FunctionError> {
        Ok(Function::flow(KvStore::new(self)))
    }
}
