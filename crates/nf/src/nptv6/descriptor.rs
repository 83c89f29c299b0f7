//! What the catalogue knows of translations of prefixes.

use super::mapping::Mapping;
use super::{Config, NAME, NewPrefixes, Nptv6};
use crate::descriptor::{
    self, Descriptor, Form, Function, FunctionConfig, FunctionError, Translation,
};
use crate::schema;
use crate::shard::{Owner, Owners};
use std::path::Path;
use twinpath_core::wire::Endpoint;
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

    fn asks_for_checksums(&self) -> bool {
        false
    }

    fn needs_payload(&self) -> Option<&'static str> {
        None
    }

    fn does_with_headers(&self) -> &'static str {
        "rewrites prefixes so that checksums stay right"
    }

    fn is_same(&self, other: &dyn FunctionConfig) -> bool {
        other.of() == Some(self)
    }

    fn build(&self, _folder: &Path, _seed: u64) -> Result<Function, FunctionError> {
        Ok(Function::rules(Nptv6::new(self)))
    }

    fn owners(&self, _shards: u16) -> Option<Box<dyn Owners>> {
        Some(Box::new(PrefixOwners(self.mappings.clone())))
    }

    fn translation(&self) -> Option<Translation<'_>> {
        Some(Translation {
            inside: self.inside(),
            external: self.external(),
            outside: &[],
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

/// The host inside is the one that an external address stands for.
#[derive(Debug)]
struct PrefixOwners(Vec<Mapping>);

impl Owners for PrefixOwners {
    fn owner(&self, external: Endpoint, _protocol: u8) -> Owner {
        let mut mappings = self.0.iter();
        let mapping = mappings.find(|mapping| mapping.external.includes(external.address));
        let host = mapping.and_then(|mapping| mapping.inward(external.address));
        Owner::Host(host.unwrap_or(external.address))
    }
}
