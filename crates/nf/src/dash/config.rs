//! A DPU's configuration: the settings of its table, and what the files say that it names.

use crate::descriptor::{ConfigWarning, ReadError, SectionContext};
use crate::duration::Human;
use crate::shard::Shard;
use crate::text::Text;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::hash_map::RandomState;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::hash::BuildHasher;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use twinpath_core::hash::seed_for;
use twinpath_core::wire::MacAddress;
use twinpath_dash::config::{Applied, Origin, Store, Warning};
use twinpath_dash::json::Problem;
use twinpath_dash::objects::Key;
use twinpath_dash::settings::{self, IdleTimes, Settings};
use twinpath_dash::tables::Tables;
use twinpath_dash::{Dpu, Files};

/// Most flows that a DPU can be told to know.
pub const MAX_FLOWS: usize = 1 << 25;

/// Routes and mappings with which it would take seconds to look for what will not work.
const MOST_LOOKED_AT: usize = 1_000_000;

/// How many things are told of those that wait.
const MOST_TOLD: usize = 20;

/// A file, and a line of it.
type Line = (PathBuf, u32);

/// A DPU's configuration; see the [module](super).
#[derive(Clone)]
pub struct Config {
    settings: Settings,
    /// The files that were read, as the table has them.
    files: Vec<PathBuf>,
    store: Arc<Store>,
    /// What waits, in words, each with the number of the table's text that names its file, and where it is.
    waiting: Arc<[(usize, String, Line)]>,
    /// Where objects are that are warned of, likewise.
    warned: Arc<HashMap<Key, (usize, Line)>>,
    /// What packets meet: made when it is first asked for.
    tables: Arc<OnceLock<Arc<Tables>>>,
}

/// The table `[dash]`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Written {
    /// Files in SONiC's JSON, read in this order, of a folder all that end with .json, by name; what they
    /// say is put in force together.
    config: Vec<PathBuf>,
    /// Most flows of all ENIs. A connection is one flow.
    #[schemars(range(min = 1, max = MAX_FLOWS))]
    flows: usize,
    /// An open TCP connection without packets for longer than this is over.
    tcp_idle: Human,
    /// One that has seen packets of one end only, or a reset, or the last segments of both.
    tcp_transitory_idle: Human,
    /// A flow of UDP.
    udp_idle: Human,
    /// A flow of any other protocol.
    other_idle: Human,
    /// What becomes of a TCP segment that opens no connection and belongs to none.
    stray_tcp: Stray,
    /// How outer headers get their DSCP; of a packet that leaves without a tunnel (a direct route) its own
    /// header is the outer one.
    dscp: Dscp,
    /// The DSCP of outer headers with `dscp = "pipe"`.
    #[schemars(range(max = 63))]
    pipe_dscp: u8,
    /// Time to live of outer headers.
    #[schemars(range(min = 1))]
    ttl: u8,
    /// The longest outer IP packet, in bytes. A machine whose packet would become longer is told.
    #[schemars(range(min = 1280, max = 65535))]
    mtu: usize,
    /// Whether VXLAN over IPv6 has UDP checksums.
    udp_checksum_v6: bool,
    /// The DPU's own MAC address in the underlay; without it packets leave from the address that they were
    /// sent to.
    #[schemars(with = "Option<Text<MacAddress>>")]
    underlay_mac: Option<Text<MacAddress>>,
    /// The next hop's; without it packets go back to the station that they came from.
    #[schemars(with = "Option<Text<MacAddress>>")]
    next_hop_mac: Option<Text<MacAddress>>,
    /// Whether an access list without rules that is bound denies all; else it is skipped.
    empty_acl_denies: bool,
    /// Whether a destination port in no range of a port map is dropped; else the mapping's endpoint
    /// stays.
    port_map_must_match: bool,
    /// Whether packets of a machine must come from its ENI's `underlay_ip`.
    check_outbound_source: bool,
    /// Whether frames with VLAN tags may be inside.
    inner_vlan: bool,
    /// How much an ENI with a bandwidth limit may send at once, as time at its limit.
    burst: Human,
}

#[derive(Copy, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Stray {
    /// It is dropped.
    Drop,
    /// Policies judge it as if it opened one, and nothing is remembered.
    Judge,
}

#[derive(Copy, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Dscp {
    /// That of the outer header that the packet came with.
    Preserve,
    /// That of the inner packet (RFC 2983).
    Uniform,
    /// Always `pipe_dscp`.
    Pipe,
}

impl Default for Written {
    fn default() -> Self {
        let Settings {
            ttl,
            udp_checksum_v6,
            mtu,
            empty_acl_denies,
            port_map_must_match,
            check_outbound_source,
            inner_vlan,
            flows,
            idle,
            burst,
            ..
        } = Settings::default();
        Self {
            config: Vec::new(),
            flows,
            tcp_idle: Human(idle.tcp),
            tcp_transitory_idle: Human(idle.tcp_transitory),
            udp_idle: Human(idle.udp),
            other_idle: Human(idle.other),
            stray_tcp: Stray::Drop,
            dscp: Dscp::Preserve,
            pipe_dscp: 0,
            ttl,
            mtu,
            udp_checksum_v6,
            underlay_mac: None,
            next_hop_mac: None,
            empty_acl_denies,
            port_map_must_match,
            check_outbound_source,
            inner_vlan,
            burst: Human(burst),
        }
    }
}

/// Why a DPU cannot be configured so.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// A number out of range.
    #[error("{key} = {found} is not from {least} to {most}")]
    Range {
        /// The key.
        key: &'static str,
        /// What is there.
        found: usize,
        /// The least that it may be.
        least: usize,
        /// The most.
        most: usize,
    },
    /// A file that cannot be read.
    #[error("cannot read {}: {why}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why not.
        why: String,
    },
    /// A folder without files.
    #[error("{}: expected a file, or a folder with files whose names end with .json; there is none in it", .0.display())]
    NoFile(PathBuf),
    /// What files say: a line for each mistake, with its file, line, object and field.
    #[error("{}", .0.join("\n"))]
    Problems(Vec<String>),
    /// More objects wait for others than may.
    #[error(
        "{0} objects more wait for others than may: expected what they refer to in the same files, or before them"
    )]
    TooManyWait(usize),
}

impl Written {
    fn settings(&self) -> Result<Settings, (&'static str, ConfigError)> {
        let ranges = [
            ("flows", self.flows, 1, MAX_FLOWS),
            ("pipe_dscp", self.pipe_dscp.into(), 0, 63),
            ("ttl", self.ttl.into(), 1, 255),
            ("mtu", self.mtu, 1280, 65_535),
        ];
        for (key, found, least, most) in ranges {
            if !(least..=most).contains(&found) {
                let error = ConfigError::Range {
                    key,
                    found,
                    least,
                    most,
                };
                return Err((key, error));
            }
        }
        Ok(Settings {
            underlay_mac: self.underlay_mac.map(|text| text.0),
            next_hop_mac: self.next_hop_mac.map(|text| text.0),
            ttl: self.ttl,
            dscp: match self.dscp {
                Dscp::Preserve => settings::Dscp::Preserve,
                Dscp::Uniform => settings::Dscp::Uniform,
                Dscp::Pipe => settings::Dscp::Pipe(self.pipe_dscp),
            },
            udp_checksum_v6: self.udp_checksum_v6,
            mtu: self.mtu,
            stray_tcp: match self.stray_tcp {
                Stray::Drop => settings::Stray::Drop,
                Stray::Judge => settings::Stray::Judge,
            },
            empty_acl_denies: self.empty_acl_denies,
            port_map_must_match: self.port_map_must_match,
            check_outbound_source: self.check_outbound_source,
            inner_vlan: self.inner_vlan,
            flows: self.flows,
            idle: IdleTimes {
                tcp: self.tcp_idle.0,
                tcp_transitory: self.tcp_transitory_idle.0,
                udp: self.udp_idle.0,
                other: self.other_idle.0,
            },
            burst: self.burst.0,
            caching: true,
            shards: 1,
            shard: 0,
        })
    }
}

impl Config {
    /// Reads what a table says, and the files that it names.
    pub(super) fn read(written: Written, context: SectionContext<'_>) -> Result<Self, ReadError> {
        let settings = written.settings();
        let settings = settings.map_err(|(key, error)| ReadError::named(key, error))?;
        let (mut files, mut mistakes) = (Files::default(), Vec::new());
        // By which of the table's texts a file is there.
        let mut named_by = Vec::new();
        for (number, path) in written.config.iter().enumerate() {
            let path = context.folder.join(path);
            let inside = context.files.json_in(&path);
            if inside.as_ref().is_some_and(Vec::is_empty) {
                mistakes.push(at_file(number, ConfigError::NoFile(path.clone())));
            }
            for path in inside.unwrap_or_else(|| vec![path]) {
                match context.files.read(&path) {
                    Ok(text) => {
                        files.add_text(path, text.as_bytes());
                        named_by.push(number);
                    }
                    Err(source) => mistakes.push(at_file(number, unreadable(path, &source))),
                }
            }
        }
        let name_of = |file: u32| named_by.get(file as usize).copied().unwrap_or_default();
        // What one text names is told together: it has one place in the table.
        let mut problems: BTreeMap<usize, Vec<String>> = BTreeMap::new();
        for (file, problem) in wrong(&files) {
            let told = problems.entry(name_of(*file)).or_default();
            told.push(problem_in(&files, *file, problem));
        }
        for (number, lines) in problems {
            let lines = bounded(lines, files.more_errors);
            mistakes.push(at_file(number, ConfigError::Problems(lines)));
        }
        ReadError::all(mistakes)?;
        let made = Self::of_files(settings, files, name_of);
        made.map_err(|error| ReadError::named("config", error))
    }

    /// What files say, each named by one of the table's texts.
    fn of_files(
        settings: Settings,
        mut files: Files,
        name_of: impl Fn(u32) -> usize,
    ) -> Result<Self, ConfigError> {
        let origins = Origins::of(&files);
        let mut store = Store::default();
        kept(&store.apply(std::mem::take(&mut files.changes)))?;
        let line = |origin: Origin| {
            let path = files.paths.get(origin.file as usize);
            (path.cloned().unwrap_or_default(), origin.line)
        };
        let waiting = store.waiting().map(|(key, waiting)| {
            let text = format!("{key}: {}", store.why(waiting));
            let origin = waiting.origin;
            (name_of(origin.file), text, line(origin))
        });
        let warned = doubts(&store).into_iter().filter_map(|warning| {
            let first = warning.examples.into_iter().next()?;
            let origin = origins.get(&first)?;
            Some((first, (name_of(origin.file), line(origin))))
        });
        Ok(Self {
            settings,
            waiting: waiting.collect(),
            warned: Arc::new(warned.collect()),
            store: Arc::new(store),
            tables: Arc::default(),
            files: files.paths,
        })
    }

    /// The same settings with what these files say in place of all that was said before.
    ///
    /// # Errors
    /// What is wrong in them.
    pub fn with_files(&self, files: Files) -> Result<Self, ConfigError> {
        check(&files)?;
        Self::of_files(self.settings.clone(), files, |file| file as usize)
    }

    /// The same with changes made, as they come to a device that runs, and what became of them.
    ///
    /// # Errors
    /// What is wrong in the files.
    pub fn with_changes(&self, files: Files) -> Result<(Self, Applied), ConfigError> {
        check(&files)?;
        let mut store = (*self.store).clone();
        let applied = store.apply(files.changes);
        kept(&applied)?;
        let changed = Self {
            settings: self.settings.clone(),
            files: self.files.clone(),
            waiting: Arc::clone(&self.waiting),
            warned: Arc::clone(&self.warned),
            store: Arc::new(store),
            tables: Arc::default(),
        };
        Ok((changed, applied))
    }

    /// What was asked for, and what of it is in force.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// The settings of the table.
    pub const fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The files that were read.
    pub fn files(&self) -> &[PathBuf] {
        &self.files
    }

    /// What packets meet. What hashes are keyed with follows from the seed where nothing was there
    /// before.
    pub fn tables(&self, seed: u64) -> Arc<Tables> {
        let compile = || {
            let mut tables = Tables::new(seed_for(seed, "dash tables"));
            let snapshot = self.store.snapshot();
            let nothing = twinpath_dash::config::Configuration::default();
            let all = snapshot.configuration.changed_since(&nothing);
            tables.update(&snapshot.configuration, &all);
            tables.tell_from(Arc::new(snapshot.configuration.clone()));
            Arc::new(tables)
        };
        Arc::clone(self.tables.get_or_init(compile))
    }

    /// What packets meet, made of what they met under another configuration: flows go on.
    pub fn tables_after(&self, former: &Self, seed: u64) -> Arc<Tables> {
        let change = || {
            let before = former.tables(seed);
            let changed = self.changed_since(former);
            if changed.is_empty() {
                return before;
            }
            let mut tables = (*before).clone();
            let snapshot = self.store.snapshot();
            tables.update(&snapshot.configuration, &changed);
            tables.tell_from(Arc::new(snapshot.configuration.clone()));
            Arc::new(tables)
        };
        Arc::clone(self.tables.get_or_init(change))
    }

    /// The objects in force that differ.
    pub fn changed_since(&self, former: &Self) -> Vec<Key> {
        let (new, old) = (self.store.snapshot(), former.store.snapshot());
        match Arc::ptr_eq(&new, &old) {
            true => Vec::new(),
            false => new.configuration.changed_since(&old.configuration),
        }
    }

    /// The keys of the table that say something else than those of another configuration.
    pub(super) fn differing_keys(&self, other: &Self) -> Vec<&'static str> {
        // Each setting has its key, but for those that no table sets.
        let Settings {
            underlay_mac,
            next_hop_mac,
            ttl,
            dscp,
            udp_checksum_v6,
            mtu,
            stray_tcp,
            empty_acl_denies,
            port_map_must_match,
            check_outbound_source,
            inner_vlan,
            flows,
            shards: _,
            shard: _,
            caching: _,
            idle,
            burst,
        } = &self.settings;
        let than = &other.settings;
        let is_pipe = |dscp| matches!(dscp, settings::Dscp::Pipe(_));
        let same_kind = is_pipe(*dscp) && is_pipe(than.dscp);
        let keys = [
            ("flows", *flows != than.flows),
            ("tcp_idle", idle.tcp != than.idle.tcp),
            (
                "tcp_transitory_idle",
                idle.tcp_transitory != than.idle.tcp_transitory,
            ),
            ("udp_idle", idle.udp != than.idle.udp),
            ("other_idle", idle.other != than.idle.other),
            ("stray_tcp", *stray_tcp != than.stray_tcp),
            ("dscp", *dscp != than.dscp && !same_kind),
            ("pipe_dscp", *dscp != than.dscp && same_kind),
            ("ttl", *ttl != than.ttl),
            ("mtu", *mtu != than.mtu),
            ("udp_checksum_v6", *udp_checksum_v6 != than.udp_checksum_v6),
            ("underlay_mac", *underlay_mac != than.underlay_mac),
            ("next_hop_mac", *next_hop_mac != than.next_hop_mac),
            (
                "empty_acl_denies",
                *empty_acl_denies != than.empty_acl_denies,
            ),
            (
                "port_map_must_match",
                *port_map_must_match != than.port_map_must_match,
            ),
            (
                "check_outbound_source",
                *check_outbound_source != than.check_outbound_source,
            ),
            ("inner_vlan", *inner_vlan != than.inner_vlan),
            ("burst", *burst != than.burst),
        ];
        let differs = |(key, differs): (&'static str, bool)| differs.then_some(key);
        keys.into_iter().filter_map(differs).collect()
    }

    /// What a shard has: a part of the flows, and the same tables as all.
    pub(super) fn of_shard(&self, shard: Shard) -> Self {
        let settings = Settings {
            flows: shard.share(self.settings.flows),
            shards: shard.of.into(),
            shard: shard.number,
            ..self.settings.clone()
        };
        Self {
            settings,
            ..self.clone()
        }
    }

    /// The DPU for a node's fast path, whose policies are on the slow one.
    pub fn fast(&self, seed: u64) -> Dpu {
        Dpu::with_policies_elsewhere(self.settings.clone(), self.tables(seed), seed)
    }

    /// The DPU for the slow path.
    pub fn slow(&self, seed: u64) -> Dpu {
        let settings = Settings {
            caching: false,
            ..self.settings.clone()
        };
        Dpu::with_tables(settings, self.tables(seed), seed)
    }

    /// Whether both say the same.
    pub(super) fn says_the_same(&self, other: &Self) -> bool {
        self.settings == other.settings
            && (Arc::ptr_eq(&self.store, &other.store)
                || self.store.snapshot().configuration == other.store.snapshot().configuration)
    }

    /// What waits for something else, what is to go and others refer to, and what is right and will not
    /// work.
    pub(super) fn warnings(&self) -> Vec<ConfigWarning> {
        let waiting = self.waiting.iter().cloned();
        let waiting = waiting.map(|(name, text, line)| (name, text, Some(line)));
        let leaving = self.store.leaving().map(|(key, _)| {
            let text = format!("{key}: deleted once nothing refers to it");
            (0, text, None)
        });
        let doubtful = doubts(&self.store).into_iter().map(|warning| {
            let first = warning.examples.first();
            let place = first.and_then(|key| self.warned.get(key)).cloned();
            let (name, line) = place.map_or((0, None), |(name, line)| (name, Some(line)));
            (name, warning.to_string(), line)
        });
        let mut all: Vec<_> = waiting.chain(leaving).chain(doubtful).collect();
        let more = all.len().saturating_sub(MOST_TOLD);
        all.truncate(MOST_TOLD);
        if more > 0 {
            let text = format!("{more} warnings more: twinpath dash check tells all");
            all.push((0, text, None));
        }
        let warning = |(name, text, elsewhere)| ConfigWarning {
            elsewhere,
            ..ConfigWarning::new(file_key(name), text)
        };
        all.into_iter().map(warning).collect()
    }

    /// What is right in each object, and will not work together as somebody may want it.
    pub fn doubtful(&self) -> Vec<String> {
        let warnings = doubts(&self.store);
        warnings.iter().map(ToString::to_string).collect()
    }
}

/// What is right in each object, and will not work together as somebody may want it: all of it is looked at, so
/// nothing is said of what is [very large](MOST_LOOKED_AT).
fn doubts(store: &Store) -> Vec<Warning> {
    let snapshot = store.snapshot();
    let costs = snapshot.configuration.costs();
    match costs.routes.number + costs.mappings.number >= MOST_LOOKED_AT {
        true => Vec::new(),
        false => store.warnings(),
    }
}

/// Where objects of files are set last, by their hashes; nothing of what is very large, which is not warned of.
struct Origins {
    hashes: RandomState,
    of: HashMap<u64, Origin>,
}

impl Origins {
    fn of(files: &Files) -> Self {
        let hashes = RandomState::new();
        let is_large = files.changes.len() >= 2 * MOST_LOOKED_AT;
        let changes = files.changes.iter().filter(|_| !is_large);
        let of = changes.map(|(change, origin)| (hashes.hash_one(change.key()), *origin));
        Self {
            of: of.collect(),
            hashes,
        }
    }

    fn get(&self, key: &Key) -> Option<Origin> {
        self.of.get(&self.hashes.hash_one(key)).copied()
    }
}

/// Nothing of what was asked for may be forgotten.
fn kept(applied: &Applied) -> Result<(), ConfigError> {
    match applied.dropped {
        0 => Ok(()),
        dropped => Err(ConfigError::TooManyWait(dropped)),
    }
}

/// All that is wrong in files.
fn wrong(files: &Files) -> impl Iterator<Item = &(u32, Problem)> {
    let all = files.problems.iter();
    all.filter(|(_, problem)| !problem.is_remark())
}

fn check(files: &Files) -> Result<(), ConfigError> {
    let lines = wrong(files).map(|(file, problem)| problem_in(files, *file, problem));
    let lines: Vec<_> = lines.collect();
    match lines.is_empty() {
        true => Ok(()),
        false => Err(ConfigError::Problems(bounded(lines, files.more_errors))),
    }
}

/// As many lines as are told, and how many mistakes more there are.
fn bounded(mut lines: Vec<String>, more: usize) -> Vec<String> {
    let more = more + lines.len().saturating_sub(MOST_TOLD);
    lines.truncate(MOST_TOLD);
    if more > 0 {
        lines.push(format!(
            "{more} mistakes more: twinpath dash check tells all"
        ));
    }
    lines
}

fn file_key(number: usize) -> Vec<String> {
    vec!["config".into(), number.to_string()]
}

fn at_file(number: usize, error: ConfigError) -> ReadError {
    ReadError::Named {
        keys: file_key(number),
        source: Box::new(error),
    }
}

fn unreadable(path: PathBuf, source: &std::io::Error) -> ConfigError {
    let why = source.to_string();
    ConfigError::Unreadable { path, why }
}

fn problem_in(files: &Files, file: u32, problem: &Problem) -> String {
    let path = files.paths.get(file as usize);
    let path = path.map_or_else(|| Path::new("").display(), |path| path.display());
    let parts = [&problem.object, &problem.field].into_iter().flatten();
    let parts: String = parts.map(|part| format!("{part}: ")).collect();
    format!("{path}:{}: {parts}{}", problem.line, problem.wrong)
}

impl fmt::Debug for Config {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut all = formatter.debug_struct("Config");
        all.field("settings", &self.settings);
        all.field("files", &self.files);
        all.finish_non_exhaustive()
    }
}
