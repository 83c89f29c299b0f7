//! What the catalogue knows of routers.

use super::config::{Misplaced, Written};
use super::{Config, ConfigError, NAME, NewRoutes, RouteFileError, Router, RouterError};
use crate::descriptor::{
    ConfigWarning, Descriptor, Form, Function, FunctionConfig, FunctionError, MigrationError,
    ReadError, Reception, SectionContext,
};
use crate::edit::{Edit, EditError, Object};
use crate::memory::TableMemory;
use crate::rate_limit::RateLimit;
use crate::records::{EntryHits, Page};
use crate::schema;
use crate::undelivered::Undelivered;
use serde::Deserialize;
use std::any::Any;
use std::path::Path;
use std::sync::Arc;
use toml::de::ValueDeserializer;
use twinpath_classify::Prefix;
use twinpath_core::Adjacencies;
use twinpath_rulecache::Reconfiguration;
use twinpath_rulecache::RuleFunction;

/// The function.
pub const FUNCTION: Descriptor = Descriptor {
    name: NAME,
    form: Form::Rules,
    placement: "a prefix of the destination address decides; packets that end here are for the slow path, which answer",
    needs_section: true,
    decides_last: true,
    read,
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
        self.quotes_payloads().then_some(
            "answers packets without a route, and quotes them (with a default route, or with no_route = \"drop\", it would not)",
        )
    }

    fn does_with_headers(&self) -> &'static str {
        "decides by the destination, and rewrites MAC addresses and the time to live"
    }

    fn routed_ports(&self) -> Option<Vec<(Prefix, u16)>> {
        Some(self.routed_ports())
    }

    fn warnings(&self) -> Vec<ConfigWarning> {
        self.unused_next_hops()
            .chain(self.replaced_routes())
            .chain(self.routes_by_other_version())
            .collect()
    }

    fn reception(&self) -> Option<Reception> {
        Some(self.reception())
    }

    fn undelivered(&self, seed: u64) -> Option<Undelivered> {
        let limit = RateLimit::new(self.errors_per_second, self.errors_per_source, seed);
        Some(Undelivered::new([self.address, self.address6], limit))
    }

    /// The routes that there are: those that are added later come one by one.
    fn memory(&self, _flows: usize) -> Vec<TableMemory> {
        vec![self.routes_memory()]
    }

    fn is_same(&self, other: &dyn FunctionConfig) -> bool {
        other.of() == Some(self)
    }

    fn with_adjacencies(
        &self,
        adjacencies: &Adjacencies,
    ) -> Result<Option<Arc<dyn FunctionConfig>>, FunctionError> {
        let config = self.clone().numbered(adjacencies);
        Ok(Some(Arc::new(config.map_err(FunctionError::of)?)))
    }

    fn learning_from(&self, running: &dyn FunctionConfig) -> Option<Arc<dyn FunctionConfig>> {
        let learned = self.learning_from(running.of()?)?;
        Some(Arc::new(learned))
    }

    fn check_migration(&self, former: &dyn FunctionConfig) -> Result<(), MigrationError> {
        let former = former.of::<Self>();
        match former.is_none_or(|former| former.kernel_table() == self.kernel_table()) {
            true => Ok(()),
            false => Err(MigrationError {
                key: "routes",
                why: "whose routes these are cannot change while it runs: expected the same routes = \"kernel\" or list, and the same kernel_table (or another start)".into(),
            }),
        }
    }

    fn build(&self, folder: &Path, seed: u64) -> Result<Function, FunctionError> {
        let router = Router::new(self, folder, seed).map_err(FunctionError::of)?;
        Ok(Function::rules(router))
    }

    fn change_from(
        &self,
        former: &dyn FunctionConfig,
        folder: &Path,
        seed: u64,
    ) -> Result<Option<Reconfiguration>, FunctionError> {
        let changes = former.of().and_then(|former| self.changes_from(former));
        let routes = match changes {
            Some(changes) => NewRoutes::Changes(changes, Box::new(self.clone())),
            None => {
                let router = Router::new(self, folder, seed).map_err(FunctionError::of)?;
                NewRoutes::Whole(Box::new(router))
            }
        };
        Ok(Some(Reconfiguration::of::<Router>(routes)))
    }

    fn changes_in_place(&self, former: &dyn FunctionConfig) -> bool {
        let former = former.of();
        former.is_some_and(|former| self.changes_from(former).is_some())
    }

    fn has(&self, object: Object) -> bool {
        object == Object::Route
    }

    fn hits(&self, function: &dyn RuleFunction, from: u32, most: u32) -> Option<Page<EntryHits>> {
        let function: &dyn Any = function;
        let router: &Router = function.downcast_ref()?;
        Some(Page::of(from, most, router.hop_bound(), |number| {
            router.hop_hits(number as usize)
        }))
    }

    fn listed(&self, _object: Object) -> Vec<String> {
        self.routes().collect()
    }

    fn edited(&self, edit: &Edit) -> Result<Arc<dyn FunctionConfig>, EditError> {
        Ok(Arc::new(self.after(edit)?))
    }
}

/// The file of routes is read too, so that the configuration is whole.
fn read(
    section: ValueDeserializer<'_>,
    context: SectionContext<'_>,
) -> Result<Arc<dyn FunctionConfig>, ReadError> {
    let mut config = Written::deserialize(section)?.unchecked();
    let mistakes = config.mistakes();
    let read = config.read_file(context.folder, context.files);
    let of_file = read.err().filter(|error| !follows_from(error, &mistakes));
    let of_table = mistakes.into_iter().map(misplaced);
    ReadError::all(of_table.chain(of_file.map(misplaced_file)).collect())?;
    let numbered = config.numbered(context.adjacencies);
    let mut config = numbered.map_err(|error| ReadError::named("next_hops", error))?;
    config.networks = context.networks.to_vec();
    config.port_addresses = context.addresses.to_vec();
    Ok(Arc::new(config))
}

/// Whether a file of routes is wrong only because of what is wrong with the table: names of no next
/// hop have been told there, or next hops are missing.
fn follows_from(error: &RouterError, mistakes: &[Misplaced]) -> bool {
    let Some(names) = unknown_next_hops(error) else {
        return false;
    };
    let is_empty = |(_, mistake): &Misplaced| matches!(mistake, ConfigError::NextHopCount(_));
    let is_told = |name: &&str| {
        let is_same = |(_, mistake): &Misplaced| match mistake {
            ConfigError::NoSuchNextHop { via, .. } => via == *name,
            _ => false,
        };
        mistakes.iter().any(is_same)
    };
    mistakes.iter().any(is_empty) || names.iter().all(is_told)
}

/// The names of no next hop in a file of routes, if nothing else is wrong with it.
fn unknown_next_hops(error: &RouterError) -> Option<Vec<&str>> {
    let RouterError::Lines(mistakes) = error else {
        return None;
    };
    let mut names = Vec::new();
    for line in mistakes.told() {
        match &line.source {
            RouteFileError::NoSuchNextHop(name) => names.push(name.as_str()),
            _ => return None,
        }
    }
    Some(names)
}

fn misplaced_file(error: RouterError) -> ReadError {
    let names = unknown_next_hops(&error).unwrap_or_default();
    match names.first().map(|name| (*name).to_owned()) {
        // It may be there, and wrong.
        Some(name) => ReadError::At {
            keys: vec!["routes_file".into()],
            word: Some(name),
            source: Box::new(error),
        },
        None => ReadError::named("routes_file", error),
    }
}

/// A next hop that is wrong by itself may be the one that a route goes by, or the only one.
fn misplaced((keys, error): Misplaced) -> ReadError {
    let word = match &error {
        ConfigError::NoSuchNextHop { via, .. } => Some(via.clone()),
        _ => None,
    };
    let depends = word.is_some() || matches!(error, ConfigError::NextHopCount(_));
    let source = Box::new(error);
    match depends {
        true => ReadError::At { keys, word, source },
        false => ReadError::Named { keys, source },
    }
}
