//! What the catalogue knows of translations of prefixes.

use super::{Config, NAME, NewPrefixes, Nptv6};
use crate::descriptor::{
    self, Descriptor, Form, Function, FunctionConfig, FunctionError, Translation,
};
use crate::schema;
use std::path::Path;
use twinpath_rulecache::Reconfiguration;

/// The function.
pub const FUNCTION: Descriptor = Descriptor {
    name: NAME,
    form: Form::Rules,
    placement: "addresses decide; fragments and ICMP errors are for the slow path",
    needs_section: true,
    decides_last: false,
    read: descriptor::read::<Config>,
    schema: schema::of::<Config>,
};

impl FunctionConfig for Config {
    fn descriptor(&self) -> &'static Descriptor {
        &FUNCTION
    }

    fn needs_payload(&self) -> Option<&'static str> {
        None
    }

    fn is_same(&self, other: &dyn FunctionConfig) -> bool {
        other.of() == Some(self)
    }

    fn build(&self, _folder: &Path, _seed: u64) -> Result<Function, FunctionError> {
        Ok(Function::rules(Nptv6::new(self)))
    }

    fn translation(&self) -> Option<Translation<'_>> {
        Some(Translation {
            inside: self.inside(),
            external: self.external(),
        })
    }

    fn change_from(
        &self,
        _former: &dyn FunctionConfig,
        _folder: &Path,
        _seed: u64,
    ) -> Result<Option<Reconfiguration>, FunctionError> {
        let new = NewPrefixes(self.clone());
        Ok(Some(Reconfiguration::of::<Nptv6>(new)))
    }
}
