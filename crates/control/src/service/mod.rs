//! Service files: what an operator writes down once.
//!
//! A service is a chain of network functions, each with a table of its own, and settings of the
//! two paths that all have defaults. Parsing is checking: a [`Service`] that exists can be built.
//!
//! ```toml
//! [service]
//! name  = "edge"
//! chain = ["firewall", "load_balancer"]
//!
//! [firewall]
//! default = "deny"
//! rules = [{ action = "allow", protocol = "tcp", to_port = "80,443" }]
//! ```
//!
//! | table | keys |
//! |---|---|
//! | `[service]` | `name`, `chain`, `ports`, `inside`, `inside_ports`, `seed` |
//! | `[ports]` | one per port: `device`, `driver` ("auto", "af_xdp", "af_packet", "tap") |
//! | `[run]` | `paths` ("both", "slow"), `execution` ("threads", "virtual"), `pace` ("live", "lossless") |
//! | `[fast_path]` | `device` ("software", "asic"), `slots`, `ways`, `hot_packets`, `sketch_window`, `sketch_width`, `time_to_live`, `sweep_slots`, `rearms` |
//! | `[slow_path]` | `workers`, `flows` |
//! | `[rule_cache]` | `enabled`, `exact`, `masked`, `masks`, `held`, `window`, `threshold`, `idle_windows` |
//! | `[parking]` | `mode` ("recirculate", "recirculate_ordered", "multicast"), `limit_bytes`, `slots`, `port_bps`, `partitions`, `least_payload_bytes`, `header_timeout`, `overflow` ("send_whole", "drop"), `port_pass`, `multicast` (`target_bytes`, `quantile`, `margin_bytes`, `first_bytes`, `gain`, `most_copies`, `reading_interval`, `late`) |
//! | `[link]` | `ring_frames`, `round_trip`, `incomplete_timeout`, `write_back_timeout` |
//! | `[traffic]` | what to generate when no capture is given (see the traffic generator) |
//! | one per function | `function` (what it is; may be absent if the table is called like the function), and what the function has |
//!
//! Each name in the chain is that of a function (`acl`, `firewall`, `inspector`, `kv_store`,
//! `load_balancer`, `monitor`, `napt`, `reassembler`, `router`), or any other name, whose table then
//! says what function it is. So a chain may have several of a kind, each with a configuration, counters
//! and rules of its own:
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
//! With `[parking]`, even an empty one, payloads of packets for the slow path wait in a queue of the
//! fast path's device, and only headers cross the link (TurboSwitch; see the parking crate). It is
//! for chains of functions that do without payloads. Packets that are too small, fragments, what is
//! neither TCP nor UDP, and packets whose time to live ends cross whole. With `recirculate` alone
//! packets of a flow may overtake each other.

mod chain;
mod devices;
mod edit;
mod error;
mod parking;
mod ports;
mod sections;

pub use chain::{Instance, MAX_CHAIN, MAX_NAME};
pub use devices::{PortDevice, PortDriver};
pub use edit::ServiceEditError;
pub use error::ServiceError;
pub use parking::{Late, Mode, Multicast, Overflow, Parking};
pub use ports::MAX_PORTS;
pub use sections::{
    Device, Execution, FastPath, Link, Pace, Paths, RuleCache, Run, SlowPath, Ways,
};

use chain::Names;
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
pub const SETTINGS: [&str; 9] = [
    "service",
    "ports",
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
    /// The network interfaces that the ports are, by number; empty if the file names none.
    pub devices: Vec<PortDevice>,
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

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    service: Head,
    ports: Option<Spanned<devices::Written>>,
    #[serde(default)]
    run: Run,
    #[serde(default)]
    fast_path: FastPath,
    slow_path: Option<Spanned<SlowPath>>,
    #[serde(default)]
    rule_cache: RuleCache,
    parking: Option<Spanned<Parking>>,
    #[serde(default)]
    link: Link,
    traffic: Option<Spanned<TrafficConfig>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Head {
    #[serde(default = "unnamed")]
    name: String,
    seed: Option<u64>,
    chain: Names,
    inside: Option<Spanned<Vec<Text<Prefix>>>>,
    ports: Option<Spanned<ports::Names>>,
    inside_ports: Option<Spanned<ports::Names>>,
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
        let (ports, devices) = devices::checked(self.service.ports.take(), self.ports.take())?;
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
            devices,
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
