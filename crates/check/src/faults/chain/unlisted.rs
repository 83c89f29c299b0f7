//! Functions that no service file can name.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use toml::de::ValueDeserializer;
use twinpath_control::service::Instance;
use twinpath_nf::descriptor::{
    Descriptor, Form, Function, FunctionConfig, FunctionError, Surroundings,
};
use twinpath_slowpath::NetworkFunction;

/// A function that no service file can name.
#[derive(Clone)]
struct Unlisted {
    /// What tells its configurations apart.
    setting: u32,
    make: Arc<dyn Fn() -> Result<Box<dyn NetworkFunction>, FunctionError> + Send + Sync>,
}

const UNLISTED: Descriptor = Descriptor {
    name: "unlisted",
    form: Form::Flow,
    placement: "made to be checked",
    needs_section: true,
    read: |_: ValueDeserializer<'_>, _: Surroundings<'_>| {
        Err(serde::de::Error::custom("made to be checked"))
    },
};

impl fmt::Debug for Unlisted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.setting)
    }
}

impl FunctionConfig for Unlisted {
    fn descriptor(&self) -> &'static Descriptor {
        &UNLISTED
    }

    fn needs_payload(&self) -> Option<&'static str> {
        None
    }

    fn build(&self, _folder: &Path, _seed: u64) -> Result<Function, FunctionError> {
        Ok(Function::Flow((self.make)()?))
    }

    fn is_same(&self, other: &dyn FunctionConfig) -> bool {
        other.of::<Self>().map(|other| other.setting) == Some(self.setting)
    }
}

/// Such a function, in a chain.
pub fn unlisted<M>(name: &str, setting: u32, make: M) -> Instance
where
    M: Fn() -> Result<Box<dyn NetworkFunction>, FunctionError> + Send + Sync + 'static,
{
    let make = Arc::new(make);
    Instance {
        name: name.into(),
        config: Arc::new(Unlisted { setting, make }),
    }
}
