//! Service files: what an operator writes down once.
//!
//! A service is a chain of network functions, each with a table of its own, and settings of the
//! two paths that all have defaults. What is wrong in a file is told with its line and column, what was
//! wrong and what was expected.
//!
//! ```toml
//! [service]
//! name  = "edge"
//! chain = ["firewall", "load_balancer"]
//!
//! [firewall]
//! default = "deny"
//! rules = [{ action = "allow", protocol = "tcp", to_port = "80,443" }]
//!
//! [[load_balancer.services]]
//! vip = "192.0.2.1:80"
//! protocol = "tcp"
//! backends = [{ endpoint = "10.1.0.2:8080" }, { endpoint = "10.1.0.3:8080" }]
//! ```
//!
//! # The chain
//! Each name in the chain is that of a [function](twinpath_nf::catalogue), or any other name, whose table then says
//! what function it is: `function = "acl"`. So a chain may have several of a kind, each with a
//! configuration, counters and rules of its own:
//!
//! ```toml
//! [service]
//! chain = ["guard", "monitor", "edge"]
//!
//! [guard]
//! function = "acl"
//! rules = [{ action = "allow", from = "10.0.0.0/8" }]
//!
//! [edge]
//! function = "acl"
//! rules = [{ action = "allow", protocol = "tcp", to_port = "80,443" }]
//! ```
//!
//! # Directions and ports
//! Packets from the networks `inside` pass a chain in order, all others in reverse. It is asked
//! for in chains with functions whose decisions are cached (`acl`, `napt`, `router`, `monitor`); an
//! address translation's own is taken if there is none, and without either all packets pass in
//! order. Functions that share flow state are told direction by each connection's opener.
//!
//! `ports` names the node's ports, numbered from 0 in their order: `ports = ["site", "uplink"]`. Functions
//! then know them by name: a next hop of a router has one as `port`, and a rule of an access list may be
//! for packets that come in by one, its `ingress`. Each packet leaves by one: that which a router has
//! chosen, for an answer the one that the request came in by, else the other of two. `inside_ports`
//! tells which way packets go by the port that they come in by, in place of `inside`.
//!
//! # How values are written
//! | value | how it is written |
//! |---|---|
//! | time | a whole number and a unit, in quotes: `"250ms"`, `"30s"`, `"5m"`, `"2h"`; units are `ns`, `us`, `ms`, `s`, `m`, `h` and `d` |
//! | address | `"192.0.2.1"` or `"2001:db8::1"` |
//! | prefix | `"10.0.0.0/8"`, `"2001:db8::/32"`, one address, or `"any"`; no bits beyond its length |
//! | endpoint | address and port: `"192.0.2.1:80"` or `"[2001:db8::1]:80"` |
//! | ports | a number, `"any"`, or a text such as `"80,443,8000-8100"` with up to 64 ranges |
//! | MAC address | `"02:00:00:00:00:01"` |
//! | port of the node | its name in quotes, as `ports` in `[service]` has it, or its number |
//! | number | `1000000` or `1_000_000` |
//!
//! # Tables
//! The keys are those of [`schema::settings`].
//!
//! # In the code
//! Parsing is checking: a [`Service`] that exists can be built.

mod chain;
mod edit;
mod error;
mod parking;
mod ports;
pub mod schema;
mod sections;

pub use chain::{Instance, MAX_CHAIN, MAX_NAME};
pub use edit::ServiceEditError;
pub use error::ServiceError;
pub use parking::{Late, Mode, Multicast, Overflow, Parking};
pub use ports::MAX_PORTS;
pub use sections::{
    Device, Execution, FastPath, Link, Pace, Paths, RuleCache, Run, SlowPath, Ways,
};

use chain::Names;
use schemars::JsonSchema;
use serde::Deserialize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use toml::Spanned;
use toml::de::{DeTable, DeValue};
use twinpath_classify::Prefix;
use twinpath_nf::descriptor::Surroundings;
use twinpath_nf::text::Text;
use twinpath_traffic::TrafficConfig;

/// The tables of a service file that configure no function.
pub const SETTINGS: [&str; 8] = [
    "service",
    "run",
    "fast_path",
    "slow_path",
    "rule_cache",
    "parking",
    "link",
    "traffic",
];

/// A service file, read and checked.
#[derive(Clone, Debug)]
pub struct Service {
    /// Its name, as reports show it.
    pub name: String,
    /// Seed of the flow hash and of everything drawn at random.
    pub seed: u64,
    /// The functions, in the order that packets of a flow's opener pass them.
    pub chain: Vec<Instance>,
    /// Packets from these networks pass the chain in order, others in reverse; if empty, all do.
    pub inside: Vec<Prefix>,
    /// The names of the node's ports, by number; if empty, nothing was said of ports.
    pub ports: Vec<String>,
    /// Packets that come in by these ports pass the chain in order, others in reverse; if empty,
    /// `inside` tells.
    pub inside_ports: Vec<u16>,
    /// How to run.
    pub run: Run,
    /// The fast path.
    pub fast_path: FastPath,
    /// The workers.
    pub slow_path: SlowPath,
    /// Cached rules.
    pub rule_cache: RuleCache,
    /// Payloads that wait on the fast path's side, if they do.
    pub parking: Option<Parking>,
    /// Between them.
    pub link: Link,
    /// Generated traffic, if the file describes any.
    pub traffic: Option<TrafficConfig>,
    /// The folder that relative paths in the file start from.
    pub folder: PathBuf,
    /// What the file said of the run, whatever a command line says.
    pub written: Written,
    /// The file itself, for errors that are found later.
    pub file: FileText,
}

/// What a command line may say otherwise.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// How to run.
    pub run: Run,
    /// The seed, if any.
    pub seed: Option<u64>,
}

/// A service file as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileText {
    /// Where it was.
    pub path: Arc<Path>,
    /// What it said.
    pub text: Arc<str>,
}

/// The tables of a service file that configure no function.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct File {
    /// What the service is: its functions, its ports, and which way packets go.
    service: Head,
    /// How the service is run, unless the command line says otherwise.
    #[serde(default)]
    run: Run,
    /// The fast path: its device, its table of flow state, and which flows get a place there.
    #[serde(default)]
    fast_path: FastPath,
    /// The workers.
    #[schemars(with = "Option<SlowPath>")]
    slow_path: Option<Spanned<SlowPath>>,
    /// Rules that are made of what functions decide, where decisions depend on header bits and table
    /// entries alone.
    #[serde(default)]
    rule_cache: RuleCache,
    /// With this table, even an empty one, payloads of packets for the slow path wait in a queue of
    /// the fast path's device, and only headers cross the link (TurboSwitch). It is for chains of
    /// functions that do without payloads. Packets that are too small, fragments, what is neither TCP
    /// nor UDP, and packets whose time to live ends cross whole.
    #[schemars(with = "Option<Parking>")]
    parking: Option<Spanned<Parking>>,
    /// What lies between the two paths.
    #[serde(default)]
    link: Link,
    /// What to generate when no capture is given.
    #[schemars(with = "Option<TrafficConfig>")]
    traffic: Option<Spanned<TrafficConfig>>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Head {
    /// The service's name, as reports show it.
    #[serde(default = "unnamed")]
    name: String,
    /// The functions, in the order in which packets from inside pass them; all others pass them in
    /// reverse. Each name is that of a function, or any other name, whose table then says what
    /// function it is.
    #[schemars(with = "Vec<String>", length(min = 1, max = MAX_CHAIN))]
    chain: Names,
    /// The networks inside: packets from them pass the chain in order, all others in reverse. It is
    /// for chains with functions whose decisions are cached. Without it those of an address
    /// translation are taken; without either all packets pass in order.
    #[schemars(with = "Option<Vec<Text<Prefix>>>")]
    inside: Option<Spanned<Vec<Text<Prefix>>>>,
    /// The names of the node's ports, which are numbered from 0 in this order: 1 to 15 letters,
    /// digits, `_`, `-` and `.` each. With more than two ports the chain needs a router.
    #[schemars(with = "Option<Vec<String>>", length(min = 1, max = MAX_PORTS))]
    ports: Option<Spanned<ports::Names>>,
    /// Ports whose packets pass the chain in order, all others in reverse, in place of `inside`.
    #[schemars(with = "Option<Vec<String>>")]
    inside_ports: Option<Spanned<ports::Names>>,
    /// Seed of all hashes and of everything drawn at random. Without one it is 0 for captures and in
    /// virtual time; else one is drawn and told.
    seed: Option<u64>,
}

fn unnamed() -> String {
    "unnamed".into()
}

impl Service {
    /// Reads a service file.
    ///
    /// # Errors
    /// The file cannot be read, or is wrong: the message names file, line and column, and what was
    /// expected.
    pub fn load(path: &Path) -> Result<Self, ServiceError> {
        let text = std::fs::read_to_string(path).map_err(|source| ServiceError::File {
            path: path.into(),
            source,
        })?;
        Self::parse(&text, path)
    }

    /// Reads a service file's text; `path` is for messages and for relative paths in it.
    ///
    /// # Errors
    /// As [`Self::load`].
    pub fn parse(text: &str, path: &Path) -> Result<Self, ServiceError> {
        let wrong = |(span, message): Misplaced| ServiceError::at(span.start, message, text, path);
        read(text, path).map_err(wrong)
    }

    /// What turned out to be wrong when the service was built of the file, at a place there: that of
    /// a key, by its table and its name, or of what encloses it as far as that is there.
    pub fn wrong_at(&self, keys: &[&str], message: String) -> ServiceError {
        let FileText { path, text } = &self.file;
        ServiceError::at(place_of(keys, text), message, text, path)
    }
}

/// What is wrong, and where in the file.
type Misplaced = (std::ops::Range<usize>, String);

fn of_toml(error: &toml::de::Error) -> Misplaced {
    (
        error.span().unwrap_or(0..0),
        error.message().trim().to_owned(),
    )
}

/// Where the last of nested keys is in a text.
fn place_of(keys: &[&str], text: &str) -> usize {
    let (mut place, mut values) = (0, DeTable::parse(text).ok().map(Spanned::into_inner));
    for key in keys {
        let entry = values.and_then(|mut table| table.remove_entry(*key));
        let Some((name, value)) = entry else {
            break;
        };
        place = name.span().start;
        values = match value.into_inner() {
            DeValue::Table(table) => Some(table),
            _ => None,
        };
    }
    place
}

fn read(text: &str, path: &Path) -> Result<Service, Misplaced> {
    let wrong = |error: toml::de::Error| of_toml(&error);
    let texts = ports::number_texts();
    let mut settings = DeTable::parse(text).map_err(wrong)?;
    let sections = take_sections(settings.get_mut());
    let file = File::deserialize(toml::Deserializer::from(settings)).map_err(wrong)?;
    let origin = FileText {
        path: path.into(),
        text: text.into(),
    };
    file.into_service(sections, origin, &texts)
}

/// Takes out the tables of functions.
fn take_sections<'i>(file: &mut DeTable<'i>) -> DeTable<'i> {
    let all = std::mem::take(file).into_iter();
    let (settings, sections) =
        all.partition(|(name, _)| SETTINGS.contains(&name.get_ref().as_ref()));
    *file = settings;
    sections
}

impl File {
    fn into_service<'i>(
        mut self,
        mut sections: DeTable<'i>,
        file: FileText,
        texts: &'i [String],
    ) -> Result<Service, Misplaced> {
        let folder = file.path.parent().unwrap_or(Path::new(".")).to_path_buf();
        let ports_at = self.service.ports.as_ref().map(Spanned::span);
        let ports = ports::checked(self.service.ports.take())?;
        ports::number(&mut sections, &ports, texts)?;
        let names = &self.service.chain;
        let surroundings = Surroundings {
            folder: &folder,
            ports: &ports,
        };
        let functions = chain::read(names, sections, surroundings)?;
        let has_router = |one: &Instance| one.config.descriptor().name == "router";
        if ports.len() > 2 && !functions.iter().any(has_router) {
            let message = "nothing says by which of these packets leave: expected a router in the chain, or at most two ports";
            return Err((ports_at.unwrap_or_default(), message.into()));
        }
        let parking = parking::checked(self.parking.take(), &functions, names.get_ref())?;
        let inside_ports = self.service.inside_ports.take();
        if let (Some(by_port), Some(_)) = (&inside_ports, &self.service.inside) {
            let message = "inside says it already: expected one of inside and inside_ports";
            return Err((by_port.span(), message.into()));
        }
        let inside_ports = ports::numbers_of(inside_ports, &ports)?;
        let inside = inside(self.service.inside.take(), &functions)?;
        let slow_path = slow_path(self.slow_path.take(), &functions)?;
        let traffic = self
            .traffic
            .map(|traffic| checked_traffic(traffic, &folder))
            .transpose()?;
        Ok(Service {
            name: self.service.name,
            seed: self.service.seed.unwrap_or_default(),
            chain: functions,
            inside,
            ports,
            inside_ports,
            run: self.run,
            fast_path: self.fast_path,
            slow_path,
            rule_cache: self.rule_cache,
            parking,
            link: self.link,
            traffic,
            folder,
            written: Written {
                run: self.run,
                seed: self.service.seed,
            },
            file,
        })
    }
}

/// The networks inside: those of the service, else those of its address translation.
fn inside(
    written: Option<Spanned<Vec<Text<Prefix>>>>,
    functions: &[Instance],
) -> Result<Vec<Prefix>, Misplaced> {
    let Some(written) = written else {
        let mut translations = functions
            .iter()
            .filter_map(|function| function.config.translation());
        let own = translations.next();
        return Ok(own.map_or_else(Vec::new, |own| own.inside.to_vec()));
    };
    if !functions.iter().any(Instance::makes_rules) {
        let message = "inside is for chains with acl, napt, router or monitor; the functions of this one are told direction by each connection's opener";
        return Err((written.span(), message.into()));
    }
    let prefixes = written.into_inner();
    Ok(prefixes.into_iter().map(|text| text.0).collect())
}

/// Functions that make rules share their tables among all packets, so they have one worker.
fn slow_path(
    written: Option<Spanned<SlowPath>>,
    functions: &[Instance],
) -> Result<SlowPath, Misplaced> {
    let Some(written) = written else {
        return Ok(SlowPath::default());
    };
    let makes_rules = functions.iter().find(|function| function.makes_rules());
    match makes_rules {
        Some(function) if written.get_ref().workers > 1 => Err((
            written.span(),
            format!(
                "{} workers: expected 1, because {} has one table for all packets",
                written.get_ref().workers,
                function.name
            ),
        )),
        _ => Ok(written.into_inner()),
    }
}

fn checked_traffic(
    traffic: Spanned<TrafficConfig>,
    folder: &Path,
) -> Result<TrafficConfig, Misplaced> {
    let span = traffic.span();
    let mut config = traffic.into_inner();
    config.resolve_paths(folder);
    config
        .validate()
        .map_err(|error| (span, error.to_string()))?;
    Ok(config)
}

#[cfg(test)]
mod tests;
