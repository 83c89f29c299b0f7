//! What the catalogue knows of access lists.

use super::{AccessList, Config, NAME, NewList, Prepared};
use crate::catalogue::{self, Descriptor, Form, Function, FunctionConfig, FunctionError};
use std::path::Path;
use twinpath_rulecache::Change;

/// The function.
pub const FUNCTION: Descriptor = Descriptor {
    name: NAME,
    form: Form::Rules,
    placement: "addresses, ports and protocol decide, and the list, which seldom changes",
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
        let prepared = Prepared::new(self).map_err(FunctionError::of)?;
        Ok(Function::rules(AccessList::new(prepared)))
    }

    fn change(&self, _folder: &Path, _seed: u64) -> Result<Option<Change>, FunctionError> {
        let prepared = Prepared::new(self).map_err(FunctionError::of)?;
        let list = NewList::Whole(Box::new(prepared));
        Ok(Some(Change::of::<AccessList>(list)))
    }
}
