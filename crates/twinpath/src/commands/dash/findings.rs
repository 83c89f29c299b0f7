//! What a configuration holds, and what is wrong with it, as values.

use super::causes::Causes;
use serde::Serialize;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::PathBuf;
use twinpath_dash::config::{Applied, Configuration, EniTable, Origin, Stages, Store, Warning};
use twinpath_dash::flows::FlowTable;
use twinpath_dash::json::Problem;
use twinpath_dash::objects::{AclGroupId, AdminState, EniId, Key, Table};
use twinpath_dash::{Cost, Dpu, Files, Settings};
use twinpath_nf::dash::MAX_FLOWS;

/// How many objects are named that refer to one that is deleted.
const NAMED: usize = 3;

/// What was found.
#[derive(Serialize)]
pub(super) struct Findings {
    /// Nothing is wrong, and nothing waits.
    pub is_complete: bool,
    pub files: usize,
    pub errors: Vec<Finding>,
    /// Errors that are not told.
    pub more_errors: usize,
    /// Warnings that are not told.
    pub more_warnings: usize,
    pub warnings: Vec<Finding>,
    /// What is asked for and not in force.
    pub waiting: Vec<WaitingObject>,
    /// What is deleted and still in force.
    pub leaving: Vec<LeavingObject>,
    /// Objects that were dropped, because too many wait.
    pub dropped: usize,
    pub tables: Vec<TableObjects>,
    pub enis: Vec<EniObjects>,
    pub memory: Memory,
}

/// Something wrong, or worth a look.
#[derive(Serialize)]
pub(super) struct Finding {
    pub file: String,
    pub line: u32,
    pub object: Option<String>,
    pub field: Option<String>,
    pub message: String,
    /// How many objects it is about.
    pub objects: usize,
    /// The second of them.
    pub second: Option<String>,
}

/// An object that is not in force.
#[derive(Serialize)]
pub(super) struct WaitingObject {
    pub file: String,
    pub line: u32,
    pub object: String,
    /// The first thing that keeps it from being in force.
    #[serde(flatten)]
    pub first: Cause,
    /// It cannot be together with what the first is about; otherwise it waits.
    pub is_refused: bool,
    /// What else it waits for.
    pub also: Vec<Cause>,
}

/// What keeps an object from being in force.
#[derive(Serialize)]
pub(super) struct Cause {
    /// The object's field that it is about.
    pub field: &'static str,
    /// The other object.
    pub because_of: String,
    pub message: String,
}

/// An object that is deleted and still in force.
#[derive(Serialize)]
pub(super) struct LeavingObject {
    pub file: String,
    pub line: u32,
    pub object: String,
    /// The first of the objects that refer to it.
    pub referred_to_by: Vec<String>,
    /// Whether there are more.
    pub and_more: bool,
}

#[derive(Serialize)]
pub(super) struct TableObjects {
    pub table: &'static str,
    pub objects: usize,
}

/// An ENI, and what its packets meet.
#[derive(Serialize)]
pub(super) struct EniObjects {
    pub eni: String,
    pub vnet: String,
    pub mac_address: String,
    pub is_enabled: bool,
    pub route_group: Option<String>,
    pub routes: usize,
    /// Of all networks that its routes lead to.
    pub mappings: usize,
    /// Groups that ask inbound packets.
    pub acl_groups_in: usize,
    /// Groups that ask outbound packets.
    pub acl_groups_out: usize,
    /// Rules in all of these.
    pub acl_rules: usize,
    pub route_rules: usize,
}

/// The memory that it takes.
#[derive(Serialize)]
pub(super) struct Memory {
    /// Of all of it but flows. What each ENI has for itself is not counted.
    pub bytes: usize,
    /// The memory for which it is told how many would fit.
    pub of_bytes: u64,
    pub costs: Vec<NamedCost>,
}

#[derive(Serialize)]
pub(super) struct NamedCost {
    pub what: &'static str,
    pub number: usize,
    /// As configured.
    pub configured_bytes: usize,
    /// Of what packets meet, which is made of it.
    pub compiled_bytes: usize,
    /// Of one, both together.
    pub bytes_each: Option<f64>,
    /// How many would fit, if nothing else were there.
    pub would_fit: Option<u64>,
}

impl Findings {
    pub fn new(files: &Files, store: &Store, applied: &Applied, memory_bytes: u64) -> Self {
        let (warnings, errors): (Vec<_>, Vec<_>) = files
            .problems
            .iter()
            .partition(|(_, problem)| problem.is_remark());
        let findings = |problems: Vec<&(u32, Problem)>| -> Vec<Finding> {
            let problems = problems.into_iter();
            problems
                .map(|(file, problem)| Finding::of(files, *file, problem))
                .collect()
        };
        let mut causes = Causes::new(files);
        let waiting = store.waiting();
        let waiting: Vec<_> = waiting
            .filter_map(|(key, waiting)| {
                let obstacles = store.obstacles(waiting);
                let is_refused = obstacles.first()?.refuses();
                let told = obstacles.iter().map(|obstacle| Cause {
                    field: obstacle.field,
                    because_of: obstacle.cause(),
                    message: causes.message(store, obstacle),
                });
                WaitingObject::of(files, key, waiting.origin, is_refused, told.collect())
            })
            .collect();
        let leaving: Vec<_> = store.leaving().collect();
        let referring = store.referring(leaving.iter().map(|(key, _)| *key), NAMED + 1);
        let leaving = leaving.into_iter();
        let leaving: Vec<_> = leaving
            .map(|(key, origin)| LeavingObject::of(files, key, origin, &referring[key]))
            .collect();
        let snapshot = store.snapshot();
        let configuration = &snapshot.configuration;
        let enis = configuration.enis.iter();
        let mut warnings = findings(warnings);
        let more = store.warnings();
        let named = more.iter().flat_map(|warning| &warning.examples);
        let origins = Origins::find(&files.paths, named.chain(&applied.absent).collect());
        let absent = applied.absent.iter();
        warnings.extend(absent.map(|key| Finding::of_absent(files, &origins, key)));
        let doubtful = more.iter();
        warnings.extend(doubtful.map(|warning| Finding::of_warning(files, &origins, warning)));
        Self {
            is_complete: errors.is_empty()
                && waiting.is_empty()
                && leaving.is_empty()
                && files.more_errors + applied.dropped == 0,
            files: files.paths.len(),
            errors: findings(errors),
            more_errors: files.more_errors,
            more_warnings: files.more_remarks,
            warnings,
            waiting,
            leaving,
            dropped: applied.dropped,
            tables: tables(configuration),
            enis: enis
                .map(|(id, eni)| EniObjects::of(configuration, id, eni))
                .collect(),
            memory: memory(configuration, memory_bytes),
        }
    }
}

fn file_of(files: &Files, file: u32) -> String {
    let path = files.paths.get(file as usize);
    path.map_or_else(String::new, |path| path.display().to_string())
}

impl Finding {
    fn of(files: &Files, file: u32, problem: &Problem) -> Self {
        Self {
            file: file_of(files, file),
            line: problem.line,
            object: problem.object.as_deref().map(Into::into),
            field: problem.field.as_deref().map(Into::into),
            message: problem.wrong.to_string(),
            objects: 1,
            second: None,
        }
    }

    /// Something is deleted that was not there.
    fn of_absent(files: &Files, origins: &Origins, key: &Key) -> Self {
        let (file, line) = origins.place(files, Some(key));
        Self {
            file,
            line,
            object: Some(key.to_string()),
            field: None,
            message: "deleted, and not there".into(),
            objects: 1,
            second: None,
        }
    }

    /// What is worth a look in all that is in force.
    fn of_warning(files: &Files, origins: &Origins, warning: &Warning) -> Self {
        let [first, second] = [0, 1].map(|place| warning.examples.get(place));
        let (file, line) = origins.place(files, first);
        Self {
            file,
            line,
            object: first.map(ToString::to_string),
            field: warning.field.map(Into::into),
            message: warning.message.clone(),
            objects: warning.objects,
            second: second.map(ToString::to_string),
        }
    }
}

/// Where objects are set or deleted that are warned of.
#[derive(Default)]
struct Origins<'k>(HashMap<&'k Key, Origin>);

impl<'k> Origins<'k> {
    /// Looks for these in the files, once more: there may be millions of others. Where one is there more
    /// than once, its last place counts.
    fn find(files: &[PathBuf], wanted: HashSet<&'k Key>) -> Self {
        if wanted.is_empty() {
            return Self::default();
        }
        let again = Files::read(files).unwrap_or_default();
        let places = again.changes.iter();
        let places = places.filter_map(|(change, origin)| {
            let key = wanted.get(&change.key())?;
            Some((*key, *origin))
        });
        Self(places.collect())
    }

    fn place(&self, files: &Files, key: Option<&Key>) -> (String, u32) {
        match key.and_then(|key| self.0.get(key)) {
            Some(origin) => (file_of(files, origin.file), origin.line),
            None => (String::new(), 0),
        }
    }
}

impl WaitingObject {
    fn of(
        files: &Files,
        key: &Key,
        origin: Origin,
        is_refused: bool,
        causes: Vec<Cause>,
    ) -> Option<Self> {
        let mut causes = causes.into_iter();
        Some(Self {
            file: file_of(files, origin.file),
            line: origin.line,
            object: key.to_string(),
            first: causes.next()?,
            is_refused,
            also: causes.collect(),
        })
    }

    /// All that keeps it from being in force.
    pub fn causes(&self) -> impl Iterator<Item = &Cause> {
        std::iter::once(&self.first).chain(&self.also)
    }
}

impl LeavingObject {
    fn of(files: &Files, key: &Key, origin: Origin, referring: &[Key]) -> Self {
        Self {
            file: file_of(files, origin.file),
            line: origin.line,
            object: key.to_string(),
            referred_to_by: referring
                .iter()
                .take(NAMED)
                .map(ToString::to_string)
                .collect(),
            and_more: referring.len() > NAMED,
        }
    }
}

fn tables(configuration: &Configuration) -> Vec<TableObjects> {
    let tables = Table::ALL.iter().map(|table| TableObjects {
        table: table.name(),
        objects: configuration.count(*table),
    });
    tables.filter(|table| table.objects > 0).collect()
}

impl EniObjects {
    fn of(configuration: &Configuration, id: &EniId, table: &EniTable) -> Self {
        let group = table.route_group.as_ref();
        let routes = group.and_then(|group| configuration.route_groups.get(group));
        let vnets: BTreeSet<_> = routes
            .iter()
            .flat_map(|routes| routes.distinct())
            .filter_map(|route| route.action.vnet())
            .collect();
        let mappings = vnets.into_iter().filter_map(|vnet| {
            let (v4, v6) = configuration.vnets.get(vnet)?.len_by_version();
            Some(v4 + v6)
        });
        let groups = groups(&table.acl_in).chain(groups(&table.acl_out));
        let rules =
            groups.filter_map(|group| Some(configuration.acl_groups.get(group)?.rules().len()));
        Self {
            eni: id.to_string(),
            vnet: table.eni.vnet.to_string(),
            mac_address: table.eni.mac_address.to_string(),
            is_enabled: table.eni.admin_state == AdminState::Enabled,
            route_group: group.map(ToString::to_string),
            routes: routes.map_or(0, |routes| routes.routes().len()),
            mappings: mappings.sum(),
            acl_groups_in: groups_in(&table.acl_in),
            acl_groups_out: groups_in(&table.acl_out),
            acl_rules: rules.sum(),
            route_rules: table.route_rules.len(),
        }
    }
}

fn groups(stages: &Stages) -> impl Iterator<Item = &AclGroupId> {
    let stages = stages.iter();
    stages.flat_map(|binding| [&binding.v4, &binding.v6].into_iter().flatten())
}

fn groups_in(stages: &Stages) -> usize {
    groups(stages).count()
}

/// What a DPU takes that has this configuration.
fn memory(configuration: &Configuration, of_bytes: u64) -> Memory {
    let mut keys = Vec::new();
    configuration.for_each(&mut |object| keys.push(object.key()));
    let mut dpu = Dpu::new(Settings::default(), 0);
    dpu.update(configuration, &keys);
    let (configured, compiled) = (configuration.costs(), dpu.tables().memory_use());
    let named = |what, configured: Cost, compiled: Cost| {
        let number = configured.number.max(compiled.number);
        let bytes = configured.bytes + compiled.bytes;
        let both = Cost { number, bytes };
        NamedCost {
            what,
            number,
            configured_bytes: configured.bytes,
            compiled_bytes: compiled.bytes,
            bytes_each: both.bytes_each(),
            would_fit: both.fitting(of_bytes),
        }
    };
    let none = Cost::default();
    let mut flows = named("flows", none, FlowTable::cost(Settings::default().flows));
    // No table has more, however much memory there is.
    flows.would_fit = flows.would_fit.map(|fit| fit.min(MAX_FLOWS as u64));
    Memory {
        bytes: configured.bytes() + compiled.bytes(),
        of_bytes,
        costs: vec![
            named("routes", configured.routes, compiled.routes),
            named("mappings", configured.mappings, compiled.mappings),
            named("ACL rules", configured.acl_rules, compiled.acl_rules),
            named("prefixes in ACL rules", configured.acl_prefixes, none),
            named("tag prefixes", configured.tag_prefixes, none),
            named("meter policies", none, compiled.meters),
            flows,
        ],
    }
}
