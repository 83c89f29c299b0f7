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
//! chain = ["guard", "edge", "monitor"]
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
//! Packets from the networks `inside` pass a chain in order, all others in reverse. Functions side by
//! side that share flow state are told direction by each connection's opener: what that sends passes
//! them in order, from whichever side it comes, and answers in reverse. Of those one that needs what
//! another does stays behind it either way: a firewall in front of a reassembler, and both in front of
//! an inspector. `twinpath explain` tells all of these orders. `inside` is asked for in chains with
//! functions whose decisions are cached (`acl`, `napt`, `nat64`, `nptv6`, `router`, `monitor`); an
//! address translation's own is taken if there is none, and without either all packets pass in order.
//!
//! `ports` names the node's ports, numbered from 0 in their order: `ports = ["site", "uplink"]`. Functions
//! then know them by name: a next hop of a router has one as `port`, and a rule of an access list or
//! a firewall may be for packets that come in by one, its `ingress`. Each packet leaves by one: that which a router has
//! chosen, for an answer the one that the request came in by, else the other of two.
//!
//! `inside_ports` tells which way packets go by the port that they come in by. Without it the
//! source address tells, which is only what a sender claims: a packet from outside with a source
//! inside then passes for one from inside. Where both `inside` and `inside_ports` are said, sources
//! are checked against the port in front of the chain (`source_check`; RFC 2827, RFC 3704): with
//! `"strict"`, which is the default there, a source inside that comes in outside is dropped
//! (`source_inside`), and so is one of the addresses that translations of the chain put in the
//! place of others; and a source that is not inside but comes in inside (`source_outside`). With
//! `"loose"` only sources inside are looked for outside. Sources of a link (`0.0.0.0`, `169.254.0.0/16`, `::`, `fe80::/10`) may be on
//! both sides. A capture that does not say by which ports its packets came in has its
//! packets come in where their sources belong, so there nothing is checked.
//!
//! IP packets are found behind up to four VLAN tags (EtherTypes 0x8100, 0x88a8, 0x9100, 0x9200,
//! 0x9300), and there behind up to eight MPLS labels, in PPPoE sessions, and behind LLC with SNAP.
//! Functions know no VLANs: addresses, ports and protocol name a flow, whatever tags its packets have.
//! A host in one VLAN of a trunk that sends as a host in another is taken for that: where VLANs are not
//! to trust each other, each needs ports of its own (VLAN interfaces of the kernel).
//! Frames in which none is found, as ARP, never enter the chain: with `unparsed = "drop"`, the
//! default, they are dropped and counted by kind (`unparsed_arp`, `unparsed_llc`, `unparsed_mpls`,
//! `unparsed_pppoe`, `unparsed_ether_type`), but for the EtherTypes that `forward_ether_types` has;
//! with `"forward"` all pass by the chain, whatever its functions deny. What claims to be an IP
//! packet and is malformed is dropped always. With `verify_ipv4_checksum`, which is the default
//! where the chain has a router, wrong checksums of IPv4 headers are malformed, too (RFC 1812
//! §5.2.2).
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
mod devices;
mod differences;
mod edit;
mod entrance;
mod error;
mod faults;
mod guarantees;
mod kernel;
mod parking;
mod places;
mod port_address;
mod ports;
mod rule_lines;
pub mod schema;
mod sections;
mod split;
mod telemetry;
mod warnings;

pub use chain::{Instance, MAX_CHAIN, MAX_NAME};
pub use devices::{PortDevice, PortDriver};
pub use differences::differing_keys;
pub use edit::ServiceEditError;
pub use entrance::{Entrance, EtherType, SourceCheck, UnparsedFate};
pub use error::{Fault, ServiceError};
pub use parking::{Late, Mode, Multicast, Overflow, Parking};
pub use port_address::PortAddress;
pub use ports::MAX_PORTS;
pub use rule_lines::RuleLines;
pub use sections::{
    Cpus, Device, Execution, FastPath, Link, Pace, Paths, RuleCache, Run, Shards, SlowPath,
    Waiting, Ways,
};
pub use split::{BackOff, BackOffMode, Class, MemoryServer, Split, Store};
pub use telemetry::{Ipfix, Metrics};
pub use warnings::{Host, HostAddress, HostInterface, host_warnings, warnings};

use chain::Names;
use faults::{Faults, Gone};
use places::Places;
use schemars::JsonSchema;
use serde::Deserialize;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use toml::Spanned;
use toml::de::{DeTable, DeValue};
use twinpath_classify::Prefix;
use twinpath_core::Adjacencies;
use twinpath_nf::descriptor::{FunctionError, SectionContext};
use twinpath_nf::files::{Disk, Files};
use twinpath_nf::text::Text;
use twinpath_traffic::TrafficConfig;

/// The tables of a service file that configure no function.
pub const SETTINGS: [&str; 12] = [
    "service",
    "ports",
    "run",
    "fast_path",
    "slow_path",
    "rule_cache",
    "parking",
    "split",
    "link",
    "traffic",
    "metrics",
    "ipfix",
];

/// A service file, read and checked.
#[derive(Clone, Debug)]
pub struct Service {
    /// Its name, as reports show it.
    pub name: String,
    /// Seed of the flow hash and of everything drawn at random.
    pub seed: u64,
    /// What tells a live run from others under the same seed, to memory servers; 0 in replays.
    pub life: u64,
    /// The functions, in the order that packets of a flow's opener pass them.
    pub chain: Vec<Instance>,
    /// Packets from these networks pass the chain in order, others in reverse; if empty, all do.
    pub inside: Vec<Prefix>,
    /// The names of the node's ports, by number; if empty, nothing was said of ports.
    pub ports: Vec<String>,
    /// The network interfaces that the ports are, by number; empty if the file names none.
    pub devices: Vec<PortDevice>,
    /// The neighbours that functions send packets to, by number.
    pub adjacencies: Adjacencies,
    /// Packets that come in by these ports pass the chain in order, others in reverse; if empty,
    /// `inside` tells.
    pub inside_ports: Vec<u16>,
    /// What of the frames that arrive is let into the chain.
    pub entrance: Entrance,
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
    /// Payloads that wait in remote memory, if they do.
    pub split: Option<Split>,
    /// Between them.
    pub link: Link,
    /// Generated traffic, if the file describes any.
    pub traffic: Option<TrafficConfig>,
    /// Where figures are told.
    pub metrics: Metrics,
    /// Who is told of flows and bindings.
    pub ipfix: Ipfix,
    /// The folder that relative paths in the file start from.
    pub folder: PathBuf,
    /// What the file said of the run, whatever a command line says.
    pub written: Written,
    /// The functions as the file has them, whatever changed since.
    pub written_chain: Vec<Instance>,
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

/// The tables of a service file that configure no function, as they look together. Each is read for
/// itself ([`Settings`]), so that all that is wrong is found.
#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "what it looks like is wanted, no value")]
struct File {
    /// What the service is: its functions, its ports, and which way packets go.
    service: Head,
    /// The network interfaces that the ports are. Without it packets come from a capture or a
    /// generator, and with it, too, where the command line says so.
    #[schemars(with = "Option<std::collections::BTreeMap<String, PortDevice>>")]
    ports: Option<Spanned<devices::Written>>,
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
    /// With this table, even an empty one, payloads of packets for the slow path wait in remote memory,
    /// and only headers cross the link (Ribosome): in memory of this process, or on memory servers
    /// over RoCEv2. Of a chain with a function that needs payloads no packet is split, and
    /// `twinpath explain` says which that is.
    #[schemars(with = "Option<Split>")]
    split: Option<Spanned<Split>>,
    /// What lies between the two paths.
    #[serde(default)]
    link: Link,
    /// What to generate when no capture is given; for a DPU, what its ENIs' tunnels carry.
    #[schemars(with = "Option<TrafficConfig>")]
    traffic: Option<Spanned<TrafficConfig>>,
    /// Figures for Prometheus, and whether the service is well.
    #[serde(default)]
    metrics: Metrics,
    /// Who is told of a monitor's flows, of telemetry's records, and of a translation's bindings or blocks of
    /// ports, by IPFIX over UDP.
    #[serde(default)]
    ipfix: Ipfix,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Head {
    /// The service's name, as reports show it.
    #[serde(default = "unnamed")]
    name: String,
    /// The functions, in the order in which packets from inside pass them; all others pass them in
    /// reverse, but that a firewall, a reassembler and an inspector side by side keep their order.
    /// Each name is that of a function, or any other name, whose table then says what
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
    /// Ports whose packets pass the chain in order, all others in reverse. Without them the source
    /// address tells by `inside`, which anybody can forge. Said together with `inside`, sources are
    /// checked against the port (`source_check`).
    #[schemars(with = "Option<Vec<String>>")]
    inside_ports: Option<Spanned<ports::Names>>,
    /// Whether the source of a packet must be on the side that it came in from (RFC 2827, RFC
    /// 3704). It is for services that say both `inside` and `inside_ports`, and there `"strict"` if
    /// nothing is said.
    #[schemars(with = "Option<SourceCheck>")]
    source_check: Option<Spanned<SourceCheck>>,
    /// What becomes of frames in which no IP packet is found, as of ARP. IP packets are found behind
    /// up to four VLAN tags, and there behind up to eight MPLS labels, in PPPoE sessions, and behind
    /// LLC with SNAP. What claims to be an IP packet and is malformed is dropped in any case.
    #[serde(default)]
    unparsed: UnparsedFate,
    /// EtherTypes of frames without an IP packet that are forwarded though others are dropped: by
    /// name (`arp`, `lldp`, `lacp`, `eapol`, `ptp`, `llc` for spanning trees and the like), or by
    /// number, such as `0x88cc`.
    #[serde(default)]
    forward_ether_types: Vec<EtherType>,
    /// Whether IPv4 packets are dropped whose header's checksum is wrong (RFC 1812 §5.2.2): true
    /// where the chain has a router if nothing is said, else false. Hosts that leave checksums to
    /// their cards are captured with wrong ones.
    verify_ipv4_checksum: Option<bool>,
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
        Self::load_with(path, &Disk)
    }

    /// As [`Self::load`]; files that it names come from `files`.
    ///
    /// # Errors
    /// As [`Self::load`].
    pub fn load_with(path: &Path, files: &dyn Files) -> Result<Self, ServiceError> {
        let text = Disk.read(path);
        let text = text.map_err(|source| ServiceError::unreadable(path, source))?;
        Self::parse_with(&text, path, files)
    }

    /// Reads a service file's text; `path` is for messages and for relative paths in it.
    ///
    /// # Errors
    /// As [`Self::load`].
    pub fn parse(text: &str, path: &Path) -> Result<Self, ServiceError> {
        Self::parse_with(text, path, &Disk)
    }

    /// As [`Self::parse`]; files that it names come from `files`.
    ///
    /// # Errors
    /// As [`Self::load`].
    pub fn parse_with(text: &str, path: &Path, files: &dyn Files) -> Result<Self, ServiceError> {
        let mut faults = Faults::default();
        let service = read(text, path, files, &mut faults);
        match service.filter(|_| faults.is_empty()) {
            Some(service) => Ok(service),
            None => Err(ServiceError::wrong(faults.in_order(), text, path)),
        }
    }

    /// Takes the place of a running service: neighbours have the numbers that they have there.
    ///
    /// # Errors
    /// There have been too many since that service started.
    pub fn adopt_adjacencies(&mut self, running: &Self) -> Result<(), FunctionError> {
        self.adjacencies = running.adjacencies.clone();
        for instance in self.chain.iter_mut().chain(&mut self.written_chain) {
            if let Some(config) = instance.config.with_adjacencies(&self.adjacencies)? {
                instance.config = config;
            }
        }
        self.learn_from(running);
        Ok(())
    }

    /// Functions go on with what those of the running service have learned.
    fn learn_from(&mut self, running: &Self) {
        for instance in &mut self.chain {
            let former = running.chain.iter().find(|one| instance.is_heir_of(one));
            let learned = former.and_then(|one| instance.config.learning_from(&*one.config));
            if let Some(config) = learned {
                instance.config = config;
            }
        }
    }

    /// What turned out to be wrong when the service was built of the file, at a place there: that of
    /// a key, by its table and its name, or of what encloses it as far as that is there.
    pub fn wrong_at(&self, keys: &[&str], message: String) -> Fault {
        let FileText { path, text } = &self.file;
        Fault::at(place_of(keys.iter().copied(), text), message, text, path)
    }
}

/// What is wrong, and where in the file.
type Misplaced = (std::ops::Range<usize>, String);

fn of_toml(error: &toml::de::Error) -> Misplaced {
    let span = error.span().unwrap_or(0..0);
    (span, faults::in_words(error.message()))
}

/// Where the last of nested keys is in a text; entries of lists go by their numbers.
fn place_of<'k>(keys: impl IntoIterator<Item = &'k str>, text: &str) -> usize {
    let (mut place, mut values) = (0, DeTable::parse(text).ok().map(of_table));
    for key in keys {
        let Some((at, value)) = values.and_then(|values| entry(values, key)) else {
            break;
        };
        (place, values) = (at, Some(value));
    }
    place
}

fn of_table(table: Spanned<DeTable<'_>>) -> DeValue<'_> {
    DeValue::Table(table.into_inner())
}

/// Where a key's value, or a list's entry, begins to be told of, and what it is.
fn entry<'t>(values: DeValue<'t>, key: &str) -> Option<(usize, DeValue<'t>)> {
    match values {
        DeValue::Table(mut table) => {
            let (name, value) = table.remove_entry(key)?;
            Some((name.span().start, value.into_inner()))
        }
        DeValue::Array(list) => {
            let value = list.into_iter().nth(key.parse().ok()?)?;
            Some((value.span().start, value.into_inner()))
        }
        _ => None,
    }
}

/// Nothing if the service cannot be told because of what is wrong.
fn read(text: &str, path: &Path, files: &dyn Files, faults: &mut Faults) -> Option<Service> {
    let texts = ports::number_texts();
    let (tables, errors) = DeTable::parse_recoverable(text);
    // What a missing bracket or quote makes of the rest of the text is nobody's mistake.
    let place = |error: &&toml::de::Error| error.span().map_or(0, |span| span.start);
    if let Some(first) = errors.iter().min_by_key(place) {
        faults.push(of_toml(first));
        return None;
    }
    let mut tables = tables.into_inner();
    let sections = take_sections(&mut tables);
    let file = FileText {
        path: path.into(),
        text: text.into(),
    };
    let settings = Settings::take(&mut tables, faults);
    settings.into_service(sections, file, &texts, files, faults)
}

/// Takes out the tables of functions.
fn take_sections<'i>(file: &mut DeTable<'i>) -> DeTable<'i> {
    let all = std::mem::take(file).into_iter();
    let (settings, sections) =
        all.partition(|(name, _)| SETTINGS.contains(&name.get_ref().as_ref()));
    *file = settings;
    sections
}

/// The tables that configure no function; nothing where one is wrong.
struct Settings {
    service: Option<Head>,
    /// What was wrong in `[service]`.
    gone: Gone,
    ports: Option<Option<Spanned<devices::Written>>>,
    run: Option<Run>,
    fast_path: Option<FastPath>,
    slow_path: Option<Option<Spanned<SlowPath>>>,
    rule_cache: Option<RuleCache>,
    parking: Option<Option<Spanned<Parking>>>,
    split: Option<Option<Spanned<Split>>>,
    link: Option<Link>,
    traffic: Option<Option<Spanned<TrafficConfig>>>,
    traffic_places: Places,
    metrics: Option<Metrics>,
    ipfix: Option<Ipfix>,
}

impl Settings {
    fn take(tables: &mut DeTable<'_>, faults: &mut Faults) -> Self {
        let (service, gone) = match tables.remove("service") {
            Some(table) => faults.read_rest(table, Head::deserialize),
            None => {
                let message = "expected a table [service] with chain = [...]";
                faults.push((0..0, message.into()));
                (None, Gone::default())
            }
        };
        let traffic_places = tables
            .get("traffic")
            .map(|table| Places::of(table.get_ref()));
        Self {
            service,
            gone,
            traffic_places: traffic_places.unwrap_or_default(),
            ports: faults.settings(tables, "ports"),
            run: faults.settings_or_default(tables, "run"),
            fast_path: faults.settings_or_default(tables, "fast_path"),
            slow_path: faults.settings(tables, "slow_path"),
            rule_cache: faults.settings_or_default(tables, "rule_cache"),
            parking: faults.settings(tables, "parking"),
            split: faults.settings(tables, "split"),
            link: faults.settings_or_default(tables, "link"),
            traffic: faults.settings(tables, "traffic"),
            metrics: faults.settings_or_default(tables, "metrics"),
            ipfix: faults.settings_or_default(tables, "ipfix"),
        }
    }

    fn into_service<'i>(
        mut self,
        mut sections: DeTable<'i>,
        file: FileText,
        texts: &'i [String],
        files: &dyn Files,
        faults: &mut Faults,
    ) -> Option<Service> {
        let folder = file.path.parent().unwrap_or(Path::new(".")).to_path_buf();
        let traffic = self.take_traffic(&folder, faults);
        let mut service = self.service.take()?;
        let ports_at = service.ports.as_ref().map(Spanned::span);
        // Of ports that are wrong nobody can say more, nor of what names them.
        let named = (!self.gone.has("ports")).then(|| service.ports.take());
        let ports = named.zip(self.ports.take());
        let ports = ports.and_then(|(names, devices)| devices::checked(names, devices, faults));
        let known = ports.as_ref().map(|(ports, _)| ports.as_slice());
        ports::number(&mut sections, known, texts, faults);
        let are_known = ports.is_some();
        let (ports, devices) = ports.unwrap_or_default();
        let names = &service.chain;
        let adjacencies = Adjacencies::default();
        let addresses = devices::addresses(&devices);
        let networks = devices::networks(&devices);
        let context = SectionContext {
            folder: &folder,
            addresses: &addresses,
            networks: &networks,
            ports: &ports,
            files,
            adjacencies: &adjacencies,
        };
        let inside_ports = service.inside_ports.take();
        let inside_ports = are_known.then(|| ports::numbers_of(inside_ports, &ports, faults));
        let functions = chain::read(names, sections, context, faults);
        let functions = functions.filter(|_| are_known)?;
        guarantees::check(&functions, names, faults);
        check_egress(&functions, &ports, ports_at, faults);
        kernel::check(&functions, &ports, &devices, &file.text, faults);
        let parking = self.take_parking(&functions, names.get_ref(), faults);
        let split = self.take_split(matches!(parking, Some(Some(_))), &devices, faults);
        let inside_ports = inside_ports.flatten();
        let (inside, entrance) = sides(
            &mut service,
            inside_ports.as_deref(),
            &self.gone,
            &functions,
            faults,
        );
        let written = self.slow_path.take();
        let slow_path = written.and_then(|written| faults.take(slow_path(written, &functions)));
        let run = self.run?;
        Some(Service {
            name: service.name,
            seed: service.seed.unwrap_or_default(),
            life: 0,
            written_chain: functions.clone(),
            chain: functions,
            inside: inside?,
            ports,
            devices,
            adjacencies,
            inside_ports: inside_ports?,
            entrance: entrance?,
            run,
            fast_path: self.fast_path?,
            slow_path: slow_path?,
            rule_cache: self.rule_cache?,
            metrics: self.metrics?,
            ipfix: self.ipfix?,
            parking: parking?,
            split: split?,
            link: self.link?,
            traffic: traffic?,
            folder,
            written: Written {
                run,
                seed: service.seed,
            },
            file,
        })
    }

    fn take_traffic(
        &mut self,
        folder: &Path,
        faults: &mut Faults,
    ) -> Option<Option<TrafficConfig>> {
        let traffic = self.traffic.take()?;
        let traffic = traffic.map(|traffic| checked_traffic(traffic, &self.traffic_places, folder));
        faults.take(traffic.transpose())
    }

    fn take_parking(
        &mut self,
        functions: &[Instance],
        names: &[Spanned<String>],
        faults: &mut Faults,
    ) -> Option<Option<Parking>> {
        let parking = self.parking.take()?;
        faults.take(parking::checked(parking, functions, names))
    }

    fn take_split(
        &mut self,
        is_parking: bool,
        devices: &[PortDevice],
        faults: &mut Faults,
    ) -> Option<Option<Split>> {
        let context = split::SplitContext {
            is_parking,
            devices,
            shards: self.run.as_ref().map_or(1, |run| run.shards.0),
        };
        faults.take(split::checked(self.split.take()?, &context))
    }
}

/// Something must say where packets leave.
fn check_egress(
    functions: &[Instance],
    ports: &[String],
    written_at: Option<Range<usize>>,
    faults: &mut Faults,
) {
    if ports.len() > 2 && !functions.iter().any(has_router) {
        let message = "nothing says by which of these packets leave: expected a router in the chain, or at most two ports";
        faults.push((written_at.unwrap_or_default(), message.into()));
    }
}

fn has_router(one: &Instance) -> bool {
    one.config.routed_ports().is_some()
}

/// The networks inside, and what is let into the chain; what is missing is among the faults.
fn sides(
    service: &mut Head,
    inside_ports: Option<&[u16]>,
    gone: &Gone,
    functions: &[Instance],
    faults: &mut Faults,
) -> (Option<Vec<Prefix>>, Option<Entrance>) {
    // What was said, and is wrong, is there.
    let by_port = inside_ports.is_none_or(|ports| !ports.is_empty()) || gone.has("inside_ports");
    let inside = faults.take(inside(service.inside.take(), by_port, functions));
    let by_network = inside.as_ref().is_none_or(|inside| !inside.is_empty());
    let has_both_sides = by_port && (by_network || gone.has("inside"));
    let written = entrance::Written {
        source_check: service.source_check.take(),
        unparsed: service.unparsed,
        forward_ether_types: std::mem::take(&mut service.forward_ether_types),
        verify_ipv4_checksum: service.verify_ipv4_checksum,
    };
    let entrance = written.checked(has_both_sides, functions.iter().any(has_router));
    (inside, faults.take(entrance))
}

/// The networks inside: those of the service, else those of its address translation.
fn inside(
    written: Option<Spanned<Vec<Text<Prefix>>>>,
    by_port: bool,
    functions: &[Instance],
) -> Result<Vec<Prefix>, Misplaced> {
    let Some(written) = written else {
        let mut translations = functions
            .iter()
            .filter_map(|function| function.config.translation());
        let own = translations.next();
        return Ok(own.map_or_else(Vec::new, |own| own.inside.to_vec()));
    };
    if !by_port && !functions.iter().any(Instance::makes_rules) {
        let message = "inside is for chains with acl, napt, nat64, nptv6, router or monitor, or for checking sources beside inside_ports; the functions of this one are told direction by each connection's opener";
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
    let makes_rules = functions.iter().find(|function| !function.shares_state());
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
    places: &Places,
    folder: &Path,
) -> Result<TrafficConfig, Misplaced> {
    let table = traffic.span();
    let mut config = traffic.into_inner();
    config.resolve_paths(folder);
    match config.validate() {
        Ok(()) => Ok(config),
        Err(error) => {
            let place = error.field().and_then(|field| places.at(field));
            Err((place.unwrap_or(table), error.to_string()))
        }
    }
}

#[cfg(test)]
mod tests;
