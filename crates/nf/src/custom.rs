//! Functions that no service file names: whoever builds a service in code puts them into its chain.

use crate::descriptor::{
    Descriptor, Form, Function, FunctionConfig, FunctionError, Read, SectionContext,
};
use crate::schema;
use serde::de::Error;
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use toml::de::ValueDeserializer;

/// Makes a function; it is given what [`FunctionConfig::build`] is.
type Make = dyn Fn(&Path, u64) -> Result<Function, FunctionError> + Send + Sync;

struct Custom {
    descriptor: &'static Descriptor,
    /// What tells its configurations apart.
    setting: u64,
    make: Box<Make>,
}

const READ: Read = |_: ValueDeserializer<'_>, _: SectionContext<'_>| {
    Err(toml::de::Error::custom("no service file names it").into())
};

const fn descriptor(form: Form) -> Descriptor {
    Descriptor {
        name: "custom",
        form,
        placement: "made in code",
        needs_section: true,
        decides_last: false,
        read: READ,
        schema: schema::of::<()>,
    }
}

static FLOW: Descriptor = descriptor(Form::Flow);
static RULES: Descriptor = descriptor(Form::Rules);

/// The configuration of a function that `make` makes, and that does without payloads. Two of them say
/// the same if their settings are equal.
pub fn custom(
    form: Form,
    setting: u64,
    make: impl Fn(&Path, u64) -> Result<Function, FunctionError> + Send + Sync + 'static,
) -> Arc<dyn FunctionConfig> {
    Arc::new(Custom {
        descriptor: match form {
            Form::Flow => &FLOW,
            Form::Rules | Form::Dash => &RULES,
        },
        setting,
        make: Box::new(make),
    })
}

impl fmt::Debug for Custom {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "custom {}", self.setting)
    }
}

impl FunctionConfig for Custom {
    fn descriptor(&self) -> &'static Descriptor {
        self.descriptor
    }

    fn needs_payload(&self) -> Option<&'static str> {
        None
    }

    fn build(&self, folder: &Path, seed: u64) -> Result<Function, FunctionError> {
        (self.make)(folder, seed)
    }

    fn is_same(&self, other: &dyn FunctionConfig) -> bool {
        let other = other.of::<Self>();
        other.is_some_and(|other| other.setting == self.setting)
    }
}
