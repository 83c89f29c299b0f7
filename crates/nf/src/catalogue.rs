//! All functions that a service can name. Each is declared in its folder and listed here.

use crate::{
    acl, firewall, inspector, kv_store, load_balancer, monitor, napt, reassembler, router,
};
use std::any::Any;
use std::error::Error;
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use toml::de::ValueDeserializer;
use twinpath_classify::Prefix;
use twinpath_core::wire::Address;
use twinpath_rulecache::{Change, RuleFunction};
use twinpath_slowpath::NetworkFunction;

/// The functions.
pub const FUNCTIONS: [&Descriptor; 9] = [
    &firewall::FUNCTION,
    &reassembler::FUNCTION,
    &inspector::FUNCTION,
    &load_balancer::FUNCTION,
    &kv_store::FUNCTION,
    &acl::FUNCTION,
    &napt::FUNCTION,
    &router::FUNCTION,
    &monitor::FUNCTION,
];

/// The function of this name.
pub fn function(name: &str) -> Option<&'static Descriptor> {
    let mut functions = FUNCTIONS.into_iter();
    functions.find(|function| function.name == name)
}

/// The functions' names, for messages.
pub fn names() -> String {
    FUNCTIONS.map(|function| function.name).join(", ")
}

/// What a function declares about itself.
pub struct Descriptor {
    /// Its name in service files.
    pub name: &'static str,
    /// What its decisions depend on.
    pub form: Form,
    /// Why its decisions are cached, or why it shares state, and what of it stays on the cores: for
    /// people to read.
    pub placement: &'static str,
    /// Whether a service that has the function must say how it is configured.
    pub needs_section: bool,
    /// Reads its section of a service file in this folder, where relative paths start from.
    pub read: fn(ValueDeserializer<'_>, &Path) -> Result<Arc<dyn FunctionConfig>, toml::de::Error>,
}

impl fmt::Debug for Descriptor {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name)
    }
}

/// What a function's decisions depend on.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Form {
    /// State that packets change: both paths share it.
    Flow,
    /// Header bits and table entries: decisions are cached as rules.
    Rules,
}

/// A function, by what its decisions depend on.
pub enum Function {
    /// State that packets change: both paths share it.
    Flow(Box<dyn NetworkFunction>),
    /// Header bits and table entries: decisions are cached as rules.
    Rules(Box<dyn RuleFunction>),
}

impl Function {
    /// One that shares flow state.
    pub fn flow(function: impl NetworkFunction) -> Self {
        Self::Flow(Box::new(function))
    }

    /// One that makes rules.
    pub fn rules(function: impl RuleFunction) -> Self {
        Self::Rules(Box::new(function))
    }
}

/// A function's configuration, read and checked.
pub trait FunctionConfig: Any + fmt::Debug + Send + Sync {
    /// The function.
    fn descriptor(&self) -> &'static Descriptor;

    /// Why the function needs the payloads of packets on the cores; `None` if headers will do. Of
    /// packets whose time to live ends it may have the payload all the same.
    fn needs_payload(&self) -> Option<&'static str>;

    /// Builds the function; each worker needs one of its own. Relative paths in the configuration
    /// start from `folder`, hashes and choices from `seed`.
    ///
    /// # Errors
    /// A file that the configuration names cannot be read or is wrong.
    fn build(&self, folder: &Path, seed: u64) -> Result<Function, FunctionError>;

    /// This configuration as a change of a function that makes rules, with all that takes long
    /// done; `None` if the function takes it as it is built, or begins anew.
    ///
    /// # Errors
    /// As for [`Self::build`].
    fn change(&self, _folder: &Path, _seed: u64) -> Result<Option<Change>, FunctionError> {
        Ok(None)
    }

    /// Checks that the function may go on where one with another configuration is.
    ///
    /// # Errors
    /// Why it cannot.
    fn check_succession(&self, _former: &dyn FunctionConfig) -> Result<(), SuccessionError> {
        Ok(())
    }

    /// Whether the files that belong to the configuration are known to say what they said for
    /// another one that is written alike.
    fn has_same_files(&self, _former: &dyn FunctionConfig) -> bool {
        true
    }

    /// The addresses that it translates, if it does.
    fn translation(&self) -> Option<Translation<'_>> {
        None
    }
}

/// Addresses that a function translates.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Translation<'a> {
    /// The networks whose hosts are hidden.
    pub inside: &'a [Prefix],
    /// What they are hidden behind.
    pub external: &'a [Address],
}

impl dyn FunctionConfig {
    /// Whether the function's decisions are cached as rules; otherwise it shares flow state.
    pub fn makes_rules(&self) -> bool {
        self.descriptor().form == Form::Rules
    }

    /// This as the configuration of a certain function.
    pub fn of<C: FunctionConfig>(&self) -> Option<&C> {
        (self as &dyn Any).downcast_ref()
    }
}

/// Reads a configuration to which no file belongs; for [`Descriptor::read`].
pub(crate) fn read<C>(
    section: ValueDeserializer<'_>,
    _folder: &Path,
) -> Result<Arc<dyn FunctionConfig>, toml::de::Error>
where
    C: FunctionConfig + serde::de::DeserializeOwned,
{
    Ok(Arc::new(C::deserialize(section)?))
}

/// Why a function cannot be built.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct FunctionError(#[from] Box<dyn Error + Send + Sync>);

impl FunctionError {
    /// What the function says.
    pub fn of(error: impl Error + Send + Sync + 'static) -> Self {
        Self(Box::new(error))
    }
}

/// Why a function cannot go on with another configuration, and what would do.
#[derive(Copy, Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SuccessionError(pub &'static str);
