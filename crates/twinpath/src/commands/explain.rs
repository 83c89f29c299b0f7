//! `twinpath explain`: what of a service runs where, and why.

mod dpu;
mod kernel;
mod parking;
mod places;
mod residence;
mod rules;
mod split;
mod text;
mod verdict;

use super::dash::replace_config;
use crate::checks::{absent_devices, check_unless};
use crate::error::CommandError;
use crate::{Outcome, output};
use dpu::DpuFacts;
use kernel::KernelFacts;
use parking::ParkingFacts;
use places::{FunctionPlace, places};
use residence::resident_share;
use rules::RuleFacts;
use serde::Serialize;
use split::SplitFacts;
use std::path::PathBuf;
use twinpath_coherence::Config as CoherenceConfig;
use twinpath_control::service::{Paths, Service};
use twinpath_core::program::{Condition, FastProgram};
use twinpath_fastpath::{Budget, Placement, StateTable};
use twinpath_nf::shard::Shard;
use twinpath_node::shards::{Partition, share};
use twinpath_node::wiring::{self, BuildError, MemoryPart};
use twinpath_slowpath::Chain;
use verdict::Verdict;

/// Tells what of a service runs where, and why
///
/// First the verdict: whether the service can run, whether its flow state fits the device that it is for,
/// and which functions run on both paths and which on the slow path alone. Then a line for each function:
/// where it runs, and why. For each kind of device: whether the chain
/// fits, or the limit that it exceeds. How much memory all takes when it is full, how much of it the flows take on both
/// paths, and what share of them finds a slot.
/// Of functions whose decisions are cached: in which order packets pass them in each direction,
/// how many rules there may be, and which packets make none. Where payloads are parked: which, and
/// how slow the workers may be. Where packets are split: why each function may see headers only, or may
/// not, and where payloads wait. Where routes are the kernel's: what is taken from it, and what is left to it.
/// With --programs the state words and the fast program of each function,
/// which says which packets the fast path can do alone.
/// Exit code 1 if the chain does not fit the device that the service is for.
#[derive(clap::Args)]
#[command(after_help = output::examples!(
    "twinpath explain examples/edge.toml",
    "twinpath explain examples/gateway.toml                 # rules beside flow state",
    "twinpath explain examples/edge.toml --programs         # word by word and step by step",
    "twinpath explain examples/edge.toml --json | jq .devices",
))]
pub struct Arguments {
    /// The service file
    service: PathBuf,
    /// A DPU's configuration, in place of what the service file's [dash] names: files in SONiC's JSON, of a
    /// folder all that end with .json
    #[arg(long, value_name = "CONFIG.json", num_args = 1..)]
    dash: Vec<PathBuf>,
    /// Show the fast programs, too
    #[arg(long)]
    programs: bool,
    /// As JSON, for programs
    #[arg(long)]
    json: bool,
}

/// Explains.
pub fn execute(arguments: &Arguments) -> Result<Outcome, CommandError> {
    let mut service = Service::load(&arguments.service)?;
    replace_config(&arguments.dash, &mut service)?;
    output::warnings_about(&service);
    absent_devices(&service).iter().for_each(output::warning);
    let explanation = Explanation::of(&service).map_err(|error| error.placed(&service))?;
    let text = if arguments.json {
        serde_json::to_string_pretty(&explanation)? + "\n"
    } else {
        let has_programs = arguments.programs;
        let explanation = &explanation;
        text::ExplanationText {
            explanation,
            has_programs,
        }
        .to_string()
    };
    output::print(&text)?;
    Ok(match explanation.verdict.can_run {
        true => Outcome::Good,
        false => Outcome::Bad,
    })
}

/// What runs where and why, as plain data.
#[derive(Serialize)]
struct Explanation {
    verdict: Verdict,
    service: String,
    paths: &'static str,
    chain: Vec<String>,
    /// Over how many nodes the service is spread, and what tells which a packet belongs to.
    shards: ShardFacts,
    /// What runs where.
    places: Vec<FunctionPlace>,
    /// What all tables and buffers take when they are full.
    memory: MemoryFacts,
    /// What is cached as rules; absent if nothing is.
    #[serde(skip_serializing_if = "Option::is_none")]
    rules: Option<RuleFacts>,
    /// Which payloads wait while their headers are on the slow path; absent if none do.
    #[serde(skip_serializing_if = "Option::is_none")]
    parking: Option<ParkingFacts>,
    /// Which packets are split, and what each function sees of them; absent without `[split]`.
    #[serde(skip_serializing_if = "Option::is_none")]
    split: Option<SplitFacts>,
    /// What comes from this host's kernel; absent if nothing does.
    #[serde(skip_serializing_if = "Option::is_none")]
    kernel: Option<KernelFacts>,
    /// A DPU's configuration; absent if the service is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    dpu: Option<DpuFacts>,
    /// The functions that share flow state.
    functions: Vec<Function>,
    slow_path_only: Vec<String>,
    devices: Vec<DeviceFit>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    state_tables: Vec<StateTableFacts>,
    #[serde(skip_serializing_if = "Option::is_none")]
    slow_path: Option<SlowFacts>,
}

/// What a service takes of memory when all tables and buffers are full, those of all shards together.
#[derive(Serialize)]
struct MemoryFacts {
    bytes: u64,
    /// What takes how much, the most first.
    parts: Vec<PartFacts>,
}

/// A part of a service that takes memory.
#[derive(Serialize)]
struct PartFacts {
    what: String,
    bytes: u64,
}

impl MemoryFacts {
    fn of(service: &Service) -> Result<Self, CommandError> {
        let parts = wiring::memory(service)?.into_iter();
        let part = |part: MemoryPart| PartFacts {
            what: part.what,
            bytes: part.bytes,
        };
        let mut parts: Vec<PartFacts> = parts.map(part).collect();
        parts.sort_by_key(|part| std::cmp::Reverse(part.bytes));
        Ok(Self {
            bytes: parts.iter().map(|part| part.bytes).sum(),
            parts,
        })
    }
}

/// Over how many nodes a service is spread.
#[derive(Serialize)]
struct ShardFacts {
    count: u16,
    /// What tells which shard a packet belongs to, the first that applies first.
    told_by: Vec<&'static str>,
}

/// One function of the chain.
#[derive(Serialize)]
struct Function {
    name: String,
    words: Vec<WordFacts>,
    always_complex: Vec<String>,
    prologue: Vec<String>,
    steps: Vec<StepFacts>,
    tables: Vec<RewriteTable>,
    ternary_entries: usize,
    #[serde(skip)]
    listing: String,
}

#[derive(Serialize)]
struct WordFacts {
    name: &'static str,
    meaning: &'static str,
}

#[derive(Serialize)]
struct StepFacts {
    name: &'static str,
    when: Vec<String>,
    then: Vec<String>,
    exit: String,
}

#[derive(Serialize)]
struct RewriteTable {
    name: &'static str,
    rows: usize,
}

/// Whether the chain fits a kind of device.
#[derive(Serialize)]
struct DeviceFit {
    device: &'static str,
    is_chosen: bool,
    refusal: Option<String>,
    /// Functions for whose flow state there is no room beside that of others: they are on the
    /// slow path alone.
    without_room: Vec<String>,
    uses: Vec<Use>,
}

/// How much of a limit is used.
#[derive(Serialize)]
struct Use {
    what: &'static str,
    used: usize,
    limit: usize,
}

/// The state table of an element with these functions.
#[derive(Serialize)]
struct StateTableFacts {
    functions: Vec<String>,
    #[serde(flatten)]
    table: TableFacts,
}

/// A state table of the fast path.
#[derive(Serialize)]
struct TableFacts {
    slots: usize,
    buckets: usize,
    ways: usize,
    words_per_slot: usize,
    bytes_per_slot: usize,
    bytes: usize,
    residence: Vec<Residence>,
}

/// How many of so many flows find a slot.
#[derive(Serialize)]
struct Residence {
    flows: usize,
    share: f64,
}

/// The flows on the slow path.
#[derive(Serialize)]
struct SlowFacts {
    workers: usize,
    flows_per_worker: usize,
    bytes_per_flow: usize,
    bytes_when_full: usize,
    most_held_frames: usize,
}

impl Explanation {
    /// Builds what a run would build, as far as it takes no memory, and looks at it.
    fn of(service: &Service) -> Result<Self, CommandError> {
        // What has no room is told with the devices.
        check_unless(service, |error| matches!(error, BuildError::Budget(_)))?;
        let chain = wiring::chain(service)?;
        let names = service.chain.iter().map(|one| one.name.to_string());
        let (places, devices) = (places(service), devices(service, &chain));
        let mut explanation = Self {
            verdict: Verdict::of(service, &places, &devices),
            service: service.name.clone(),
            paths: match service.run.paths {
                Paths::Both => "both",
                Paths::Slow => "slow",
            },
            chain: names.collect(),
            shards: ShardFacts::of(service)?,
            places,
            memory: MemoryFacts::of(service)?,
            rules: RuleFacts::of(service)?,
            parking: ParkingFacts::of(service),
            split: SplitFacts::of(service),
            kernel: KernelFacts::of(service),
            dpu: DpuFacts::of(service),
            functions: Vec::new(),
            slow_path_only: Vec::new(),
            devices,
            state_tables: Vec::new(),
            slow_path: None,
        };
        if !chain.is_empty() {
            explanation.add_flow_state(service, &chain)?;
        }
        Ok(explanation)
    }

    /// The functions that share flow state, and what that takes.
    fn add_flow_state(&mut self, service: &Service, chain: &Chain) -> Result<(), CommandError> {
        let programs = chain.programs();
        let coherence = wiring::coherence(service);
        self.slow_path_only = slow_path_only(&coherence);
        for instances in wiring::elements(service).filter(|all| all[0].shares_state()) {
            let words = wiring::element_chain(service, instances)?.word_count();
            let functions = instances.iter().map(|one| one.name.to_string()).collect();
            let table = TableFacts::of(&coherence, words);
            self.state_tables.push(StateTableFacts { functions, table });
        }
        self.slow_path = Some(SlowFacts::of(service, chain.most_held_frames())?);
        self.functions = programs.into_iter().map(Function::of).collect();
        Ok(())
    }
}

impl ShardFacts {
    fn of(service: &Service) -> Result<Self, CommandError> {
        let count = service.run.shards.0;
        // What would be told when it runs is told now.
        for shard in Shard::all(count) {
            share(service, shard)?;
        }
        Ok(Self {
            count,
            told_by: Partition::of(service, count)?.told(),
        })
    }
}

impl Function {
    fn of(program: FastProgram) -> Self {
        let texts = |conditions: &Vec<Condition>| {
            conditions
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>()
        };
        let steps = program.steps.iter().map(|step| StepFacts {
            name: step.name,
            when: texts(&step.when),
            then: step.then.iter().map(ToString::to_string).collect(),
            exit: step.exit.to_string(),
        });
        Self {
            name: program.name.to_string(),
            words: program
                .words
                .iter()
                .map(|word| WordFacts {
                    name: word.name,
                    meaning: word.meaning,
                })
                .collect(),
            always_complex: program
                .always_complex
                .iter()
                .map(|conditions| texts(conditions).join(" and "))
                .collect(),
            prologue: program.prologue.iter().map(ToString::to_string).collect(),
            steps: steps.collect(),
            tables: program
                .tables
                .iter()
                .map(|table| RewriteTable {
                    name: table.name,
                    rows: table.rows.len(),
                })
                .collect(),
            ternary_entries: program
                .window
                .as_ref()
                .map_or(0, |window| window.ternary_entries()),
            listing: program.to_string(),
        }
    }
}

/// Whether the chain fits each kind of device; none if it has no flow state.
fn devices(service: &Service, chain: &Chain) -> Vec<DeviceFit> {
    let kinds = [Budget::asic(), Budget::software()].into_iter();
    let kinds = kinds.filter(|_| !chain.is_empty());
    kinds
        .map(|budget| DeviceFit::of(&budget, service))
        .collect()
}

/// The device that a service is for.
fn device_name(service: &Service) -> &'static str {
    wiring::budget(service).name
}

/// What no program decides: the mechanism's own reasons to send packets to the slow path.
fn slow_path_only(coherence: &CoherenceConfig) -> Vec<String> {
    let mut reasons = vec![
        "packets that a fast program calls always complex, or for which none of its steps holds (--programs)"
            .to_owned(),
        "fragments, and ICMP errors about a flow".to_owned(),
        "packets of a flow while its state is on its way to the fast path or back".to_owned(),
        "flows whose bucket of the state table is full of others".to_owned(),
    ];
    if coherence.hot_packets > 1 {
        let window = twinpath_nf::duration::Human(coherence.sketch_window);
        reasons.push(format!(
            "flows with fewer than {} packets in about {window}",
            coherence.hot_packets
        ));
    }
    reasons
}

impl DeviceFit {
    fn of(budget: &Budget, service: &Service) -> Self {
        let room = wiring::place(service, budget);
        let has_room = room.as_ref().map_or(&[][..], |room| &room.has_room);
        let elements = wiring::elements(service).zip(has_room);
        let without = elements
            .filter(|(instances, has_room)| !**has_room && !wiring::is_for_slow_path(instances));
        let names = without.flat_map(|(instances, _)| instances.iter().map(|one| &one.name));
        Self {
            device: budget.name,
            is_chosen: budget.name == device_name(service),
            without_room: names.map(ToString::to_string).collect(),
            uses: room
                .as_ref()
                .map_or(Vec::new(), |room| uses(budget, &room.placement)),
            refusal: room.err().map(|error| match error {
                BuildError::Budget(limit) => limit.to_string(),
                other => other.to_string(),
            }),
        }
    }
}

fn uses(budget: &Budget, placement: &Placement) -> Vec<Use> {
    let Placement {
        words,
        stages,
        table_bytes,
        ternary_entries,
    } = *placement;
    vec![
        Use {
            what: "state words",
            used: words,
            limit: budget.words,
        },
        Use {
            what: "stages",
            used: stages,
            limit: budget.stages,
        },
        Use {
            what: "table bytes",
            used: table_bytes,
            limit: budget.table_bytes,
        },
        Use {
            what: "ternary entries",
            used: ternary_entries,
            limit: budget.ternary_entries,
        },
    ]
}

impl TableFacts {
    fn of(coherence: &CoherenceConfig, words: usize) -> Self {
        // One bucket tells what a slot takes, without memory for the whole table.
        let bucket = StateTable::new(coherence.ways, coherence.ways, words);
        let bytes_per_slot = bucket.memory_bytes() / bucket.slots();
        let buckets = coherence.slots.div_ceil(bucket.ways());
        let slots = buckets * bucket.ways();
        let residence = |flows| Residence {
            flows,
            share: resident_share(flows, buckets, bucket.ways()),
        };
        Self {
            slots,
            buckets,
            ways: bucket.ways(),
            words_per_slot: words,
            bytes_per_slot,
            bytes: slots * bytes_per_slot,
            residence: [
                slots.div_ceil(4),
                slots.div_ceil(2),
                slots,
                2 * slots,
                4 * slots,
            ]
            .map(residence)
            .into(),
        }
    }
}

impl SlowFacts {
    fn of(service: &Service, most_held_frames: usize) -> Result<Self, CommandError> {
        let mut bytes_per_flow = 0;
        for instances in wiring::elements(service).filter(|all| all[0].shares_state()) {
            bytes_per_flow += wiring::slow_flows(service, instances)?
                .store()
                .bytes_per_flow();
        }
        let (workers, flows) = (service.slow_path.workers, service.slow_path.flows);
        Ok(Self {
            workers,
            flows_per_worker: flows,
            bytes_per_flow,
            bytes_when_full: workers * flows * bytes_per_flow,
            most_held_frames,
        })
    }
}
