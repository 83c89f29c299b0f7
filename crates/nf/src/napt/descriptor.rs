//! What the catalogue knows of address translations.

use super::{Config, NAME, Napt, NewNapt};
use crate::catalogue::{
    self, Descriptor, Form, Function, FunctionConfig, FunctionError, Translation,
};
use std::path::Path;
use twinpath_rulecache::Change;

/// The function.
pub const FUNCTION: Descriptor = Descriptor {
    name: NAME,
    form: Form::Rules,
    placement: "a session's entry decides; what opens or ends a session, and ICMP errors, are for the cores",
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

    fn build(&self, _folder: &Path, seed: u64) -> Result<Function, FunctionError> {
        Ok(Function::rules(Napt::new(self, seed)))
    }

    fn change(&self, _folder: &Path, seed: u64) -> Result<Option<Change>, FunctionError> {
        Ok(Some(Change::of::<Napt>(NewNapt::new(self, seed))))
    }

    fn translation(&self) -> Option<Translation<'_>> {
        Some(Translation {
            inside: self.inside(),
            external: self.external(),
        })
    }
}
