//! Single changes of a configuration.

use super::config::{Config, ConfigError};
use super::numbers::DISCARD_NAME;
use super::route::{GroupRoute, Route, check_destination};
use crate::edit::{Edit, EditError, Object, word};
use crate::text::Text;
use std::sync::Arc;
use twinpath_classify::Prefix;

/// Why a route is not changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum RouteEditError {
    /// Via nobody.
    #[error("{0}; the next hops are {1}")]
    NextHop(ConfigError, String),
    /// To a group.
    #[error(transparent)]
    Group(#[from] GroupRoute),
    /// It would be gone with the kernel's next change.
    #[error("routes are the kernel's (routes = \"kernel\"): change them there, with `ip route`")]
    Kernel,
    /// Added twice.
    #[error("there is a route to {to} via {via} already: replace it, or delete it first")]
    There {
        /// The prefix.
        to: Prefix,
        /// Where it goes.
        via: String,
    },
    /// Deleted twice.
    #[error("there is no route to {0}")]
    NotThere(Prefix),
}

impl Config {
    /// The same after a single change.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn after(&self, edit: &Edit) -> Result<Self, EditError> {
        let edited = match edit {
            _ if edit.object() == Object::Route && self.kernel.is_some() => {
                Err(RouteEditError::Kernel)
            }
            Edit::AddRoute { to, via } => self.with_new_route(word(to)?, via),
            Edit::ReplaceRoute { to, via } => self.with_route(word(to)?, via),
            Edit::DeleteRoute { to } => self.without_route(word(to)?),
            other => return Err(EditError::Object(other.object())),
        };
        edited.map_err(EditError::of)
    }

    /// The same with another route; one to the same prefix may not be there.
    ///
    /// # Errors
    /// It is there, or goes via nobody.
    fn with_new_route(&self, to: Prefix, via: &str) -> Result<Self, RouteEditError> {
        match self.route(to) {
            Some(via) => Err(RouteEditError::There {
                to,
                via: via.to_owned(),
            }),
            None => self.with_route(to, via),
        }
    }

    /// The same with a route, in place of one to the same prefix if there is one.
    ///
    /// # Errors
    /// It goes via nobody.
    pub(super) fn with_route(&self, to: Prefix, via: &str) -> Result<Self, RouteEditError> {
        if via != DISCARD_NAME && !self.next_hops.iter().any(|hop| hop.name == via) {
            let names: Vec<&str> = self.next_hops.iter().map(|hop| hop.name.as_str()).collect();
            let via = via.to_owned();
            let wrong = ConfigError::NoSuchNextHop { to, via };
            return Err(RouteEditError::NextHop(wrong, names.join(", ")));
        }
        check_destination(to, via == DISCARD_NAME)?;
        let mut config = self.clone();
        config.forget_route(to);
        let via = via.to_owned();
        config.routes.push(Route { to: Text(to), via });
        Ok(config)
    }

    /// The same without the route to a prefix.
    ///
    /// # Errors
    /// There is none.
    pub(super) fn without_route(&self, to: Prefix) -> Result<Self, RouteEditError> {
        let mut config = self.clone();
        match config.forget_route(to) {
            true => Ok(config),
            false => Err(RouteEditError::NotThere(to)),
        }
    }

    /// Where the routes go that were configured, or learned, in words.
    pub fn routes(&self) -> impl Iterator<Item = String> {
        let mut learned = Vec::new();
        self.for_each_learned(|to, how| learned.push((to, how.to_string())));
        learned.sort_unstable_by_key(|(to, _)| (to.network(), to.length()));
        let routes = self.configured_routes();
        let routes = routes.map(|(to, via)| format!("{to} via {via}"));
        routes.chain(learned.into_iter().map(|(to, how)| format!("{to} {how}")))
    }

    /// The configured route to a prefix.
    fn route(&self, to: Prefix) -> Option<&str> {
        let mut routes = self.configured_routes().filter(|(prefix, _)| *prefix == to);
        let first = routes.next();
        routes.last().or(first).map(|(_, via)| via)
    }

    /// Returns whether there was one, here or in the file.
    fn forget_route(&mut self, to: Prefix) -> bool {
        let before = self.routes.len();
        self.routes.retain(|route| route.to.0 != to);
        let is_to = |(prefix, _): &(Prefix, u32)| *prefix == to;
        let in_file = match &mut self.file_routes {
            Some(routes) if routes.iter().any(is_to) => {
                Arc::make_mut(routes).retain(|route| !is_to(route));
                true
            }
            _ => false,
        };
        in_file || self.routes.len() < before
    }
}
