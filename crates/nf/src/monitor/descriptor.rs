//! What the catalogue knows of monitors.

use super::{Config, Monitor, NAME, NewMonitor};
use crate::catalogue::{self, Descriptor, Form, Function, FunctionConfig, FunctionError};
use std::path::Path;
use twinpath_rulecache::Change;

/// The function.
pub const FUNCTION: Descriptor = Descriptor {
    name: NAME,
    form: Form::Rules,
    placement: "it only counts, and what rules handle is reported to it",
    needs_section: false,
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
        Ok(Function::rules(Monitor::new(self, seed)))
    }

    fn change(&self, _folder: &Path, seed: u64) -> Result<Option<Change>, FunctionError> {
        Ok(Some(Change::of::<Monitor>(NewMonitor::new(self, seed))))
    }
}
