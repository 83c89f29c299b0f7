//! What the catalogue knows of routers.

use super::{Config, NAME, NewRoutes, Router};
use crate::catalogue::{self, Descriptor, Form, Function, FunctionConfig, FunctionError};
use std::path::Path;
use twinpath_rulecache::Change;

/// The function.
pub const FUNCTION: Descriptor = Descriptor {
    name: NAME,
    form: Form::Rules,
    placement: "a prefix of the destination address decides; packets that end here are for the cores, which answer",
    needs_section: true,
    read: catalogue::read::<Config>,
};

impl FunctionConfig for Config {
    fn descriptor(&self) -> &'static Descriptor {
        &FUNCTION
    }

    fn needs_payload(&self) -> Option<&'static str> {
        self.quotes_payloads().then_some(
            "answers packets without a route, and quotes them (with a default route, or with no_route = \"drop\", it would not)",
        )
    }

    fn build(&self, folder: &Path, _seed: u64) -> Result<Function, FunctionError> {
        let router = Router::new(self, folder).map_err(FunctionError::of)?;
        Ok(Function::rules(router))
    }

    fn change(&self, folder: &Path, _seed: u64) -> Result<Option<Change>, FunctionError> {
        let router = Router::new(self, folder).map_err(FunctionError::of)?;
        let routes = NewRoutes::Whole(Box::new(router));
        Ok(Some(Change::of::<Router>(routes)))
    }

    /// A file of routes is read when the router is built.
    fn has_same_files(&self, _former: &dyn FunctionConfig) -> bool {
        !self.has_routes_file()
    }
}
