//! A service becomes a node: the packet's walk on one screen.
//!
//! ```text
//!  Source ── rx ──► FastPath::process ── emit ────────────────────────► Sink
//!                     parse (wire::dissect)      ▲
//!                     steer (Steering::key)      │ returned packets leave,
//!                     state (StateStage::packet) │ messages meet the state stage
//!                     apply, depart or punt      │ (FastPath::returned)
//!                          │                     │
//!                 PLAIN, PULL(g), WB(g, v)   RETURN, STATE(g, v), DECLINE, ACK(g)
//!                          ▼                     │
//!                       link: numbered, bounded, FIFO per flow
//!                          │                     ▲
//!                          ▼                     │
//!                  Worker::receive ─► SlowFlows ─► Chain ─► NetworkFunction::handle
//! ```

pub use crate::build_error::BuildError;

use crate::causality::{Causality, Scope};
use crate::fast_path::{FastElement, FastPath, RuleStage};
use crate::machine::{Limits, Machine};
use crate::watch::{Names, Watch};
use crate::worker::{Blueprint, SlowElement, Worker};
use std::ops::Range;
use std::sync::Arc;
use twinpath_coherence::fsm::Backoff;
use twinpath_coherence::{Config as CoherenceConfig, SlowFlows, StateStage};
use twinpath_control::service::{Device, Instance, Paths, Service};
use twinpath_core::program::FastProgram;
use twinpath_core::steering::Steering;
use twinpath_core::{Named, Pools};
use twinpath_fastpath::{Budget, Interpreter, Placement};
use twinpath_nf::descriptor::Function;
use twinpath_parking::Stage;
use twinpath_rulecache::{
    ManagerConfig, RuleFunction, RuleTable, SelectionConfig, Sides, SlowRules, SlowRulesConfig,
    TableConfig,
};
use twinpath_slowpath::{Chain, NetworkFunction};

/// A machine and its workers.
pub struct Node {
    /// The fast path and what decides around it.
    pub machine: Machine,
    /// The workers, by number.
    pub workers: Vec<Worker>,
    /// Buffers of each worker: messages and packets made on the slow path.
    pub worker_pools: Vec<Pools>,
}

impl Node {
    /// Follows packets, by their numbers in the order of arrival.
    pub fn watch(&mut self, packets: Range<u64>) -> Watch {
        let elements = self.workers.first().map_or(&[][..], Worker::elements);
        let watch = Watch::new(elements.iter().map(names).collect(), packets);
        self.machine.watch(watch.clone());
        for worker in &mut self.workers {
            worker.watch(watch.clone());
        }
        watch
    }
}

/// What an element's functions and state words are called.
fn names(element: &SlowElement) -> Names {
    match element {
        SlowElement::Rules(rules) => Names {
            functions: names_of(rules.functions()),
            words: Vec::new(),
        },
        SlowElement::Flows(flows) => Names {
            functions: names_of(flows.chain().functions()),
            words: flows
                .chain()
                .programs()
                .iter()
                .flat_map(names_of_words)
                .collect(),
        },
    }
}

fn names_of<F: ?Sized>(functions: &[Named<F>]) -> Vec<String> {
    let names = functions.iter().map(|function| function.name.to_string());
    names.collect()
}

fn names_of_words(program: &FastProgram) -> Vec<(String, &'static str)> {
    let words = program.words.iter();
    words
        .map(|word| (program.name.to_string(), word.name))
        .collect()
}

/// Frames in flight on the fast path itself: batches in hand, buffers of its own messages.
const FRAMES_IN_HAND: usize = 4096;

/// Packets that may wait on the slow path behind one that waits for rules to go.
const FRAMES_WAITING: usize = 4096;

/// Long frames, for captures taken in front of segmentation offload.
const LONG_FRAMES: usize = 1024;

/// The device's limits.
pub fn budget(service: &Service) -> Budget {
    match service.fast_path.device {
        Device::Software => Budget::software(),
        Device::Asic => Budget::asic(),
    }
}

/// The chain's elements: functions in a row that make rules, or that share flow state.
pub fn elements(service: &Service) -> impl Iterator<Item = &[Instance]> {
    let alike = |one: &Instance, other: &Instance| one.makes_rules() == other.makes_rules();
    service.chain.chunk_by(alike)
}

/// All functions of a service that share flow state, those of all elements together.
///
/// # Errors
/// A file that a function needs cannot be read.
pub fn chain(service: &Service) -> Result<Chain, BuildError> {
    element_chain(service, &service.chain)
}

/// The functions of an element that share flow state, as each worker has them.
///
/// # Errors
/// A file that a function needs cannot be read.
pub fn element_chain(service: &Service, instances: &[Instance]) -> Result<Chain, BuildError> {
    let sharing = instances.iter().filter(|instance| !instance.makes_rules());
    let functions: Result<_, _> = sharing
        .map(|instance| flow_function(service, instance))
        .collect();
    Ok(Chain::named(functions?))
}

/// A function that shares flow state.
///
/// # Errors
/// A file that it needs cannot be read, or it shares none.
pub fn flow_function(
    service: &Service,
    instance: &Instance,
) -> Result<Named<dyn NetworkFunction>, BuildError> {
    let name = instance.name.clone();
    match function(service, instance)? {
        Function::Flow(function) => Ok(Named { name, function }),
        Function::Rules(_) => Err(BuildError::MakesRules(name.to_string())),
    }
}

fn function(service: &Service, instance: &Instance) -> Result<Function, BuildError> {
    let built = instance.config.build(&service.folder, service.seed);
    built.map_err(|source| BuildError::Function {
        function: instance.name.to_string(),
        source,
    })
}

/// The functions of one element that make rules.
///
/// # Errors
/// A file that a function needs cannot be read.
pub fn rule_functions(
    service: &Service,
    instances: &[Instance],
) -> Result<Vec<Named<dyn RuleFunction>>, BuildError> {
    let mut functions = Vec::new();
    for instance in instances {
        if let Function::Rules(function) = function(service, instance)? {
            let name = instance.name.clone();
            functions.push(Named { name, function });
        }
    }
    Ok(functions)
}

/// What of a chain's flow state a device has room for.
#[derive(Clone, Debug, Default)]
pub struct Room {
    /// What it takes there.
    pub placement: Placement,
    /// By element of the chain: whether its flow state has room. One without lives on the slow path
    /// alone.
    pub has_room: Vec<bool>,
}

/// Places flow state on a device, element by element while there is room.
///
/// # Errors
/// The limit that is exceeded if not even one element has room, or a file that a function needs.
pub fn place(service: &Service, budget: &Budget) -> Result<Room, BuildError> {
    let (mut room, mut programs, mut refused) = (Room::default(), Vec::new(), None);
    for instances in elements(service) {
        let before = programs.len();
        programs.extend(element_chain(service, instances)?.programs());
        let placed = budget.place(&programs, service.fast_path.slots);
        room.has_room.push(placed.is_ok());
        match placed {
            Ok(placement) => room.placement = placement,
            Err(error) => {
                programs.truncate(before);
                refused = refused.or(Some(error));
            }
        }
    }
    match refused {
        Some(error) if programs.is_empty() => Err(error.into()),
        _ => Ok(room),
    }
}

/// Builds a node.
///
/// # Errors
/// The service is sound as a file, but its parts do not go together.
pub fn build(service: &Service, paths: Paths) -> Result<Node, BuildError> {
    let steering = steering(service)?;
    let fast_elements = fast_elements(service, paths)?;
    let (small, large) = pool_frames(service, &chain(service)?);
    let (workers, worker_pools) = workers(service, paths, &steering)?;
    let sides = sides(service)?;
    let fast_path = FastPath::new(steering, sides, fast_elements, workers.len());
    let fast_path = match parking(service, &workers)? {
        Some(stage) => fast_path.with_parking(stage),
        None => fast_path,
    };
    let limits = Limits {
        ring_frames: service.link.ring_frames,
        is_lossless: true,
        is_replay: false,
    };
    Ok(Node {
        machine: Machine::new(fast_path, Pools::new(small, large), limits),
        workers,
        worker_pools,
    })
}

/// What tells which way packets go.
///
/// # Errors
/// Too many networks inside.
pub fn sides(service: &Service) -> Result<Sides, BuildError> {
    Ok(match service.inside_ports.as_slice() {
        [] => Sides::new(&service.inside)?,
        inside => Sides::of_ports(inside),
    })
}

/// What makes generated packets wait for what caused them: their answers are to hosts inside.
///
/// # Errors
/// A file that a function needs.
pub fn causality_of_hosts(service: &Service) -> Result<Causality, BuildError> {
    Ok(Causality::new(Scope::Hosts(steering(service)?)))
}

/// What makes packets of a replay wait for what caused them.
///
/// # Errors
/// A file that a function needs, or too many networks inside.
pub fn causality(service: &Service) -> Result<Causality, BuildError> {
    let chain = service.chain.iter();
    let translations = chain.filter_map(|instance| instance.config.translation());
    let (mut inside, mut external) = (Vec::new(), Vec::new());
    for translation in translations {
        inside.extend(translation.inside);
        external.extend(translation.external);
    }
    external.sort();
    Ok(Causality::new(match external.is_empty() {
        true => Scope::Hosts(steering(service)?),
        false => Scope::Translated {
            steering: steering(service)?,
            inside: Sides::new(&inside)?,
            external,
        },
    }))
}

/// The queue in which payloads wait while their headers are on the slow path, if the service has one.
///
/// # Errors
/// A function needs payloads.
fn parking(service: &Service, workers: &[Worker]) -> Result<Option<Stage>, BuildError> {
    let Some(parking) = &service.parking else {
        return Ok(None);
    };
    if let Some(name) = workers.first().and_then(reader_of_payloads) {
        return Err(BuildError::NeedsPayload(name.to_string()));
    }
    Ok(Some(Stage::new(parking.queue(), parking.port())?))
}

/// A function that needs payloads.
fn reader_of_payloads(worker: &Worker) -> Option<&str> {
    let mut elements = worker.elements().iter();
    elements.find_map(|element| match element {
        SlowElement::Flows(flows) => name_of(flows.chain().functions(), |one| one.reads_payload()),
        SlowElement::Rules(rules) => name_of(rules.functions(), |one| one.reads_payload()),
    })
}

/// The name of the first function of which something holds.
fn name_of<F: ?Sized>(functions: &[Named<F>], holds: impl Fn(&F) -> bool) -> Option<&str> {
    let mut functions = functions.iter();
    functions
        .find(|function| holds(function))
        .map(|function| &*function.name)
}

/// Buffers for packets that arrive, ordinary and long ones: as many as may be under way or kept.
pub fn pool_frames(service: &Service, chain: &Chain) -> (usize, usize) {
    let held = chain.most_held_frames() + held_for_rules(service);
    let in_flight = service.slow_path.workers * (2 * service.link.ring_frames + held);
    (
        FRAMES_IN_HAND + in_flight + 2 * service.parked_frames(),
        LONG_FRAMES + held.min(8 * LONG_FRAMES),
    )
}

/// Most frames that elements with rules keep, on both paths.
fn held_for_rules(service: &Service) -> usize {
    let makes_rules = |element: &&[Instance]| element[0].makes_rules();
    let elements = elements(service).filter(makes_rules).count();
    elements * (service.rule_cache.held + FRAMES_WAITING)
}

/// Which elements of the chain have room for flow state on the fast path.
///
/// # Errors
/// As for [`place`].
pub fn room(service: &Service, paths: Paths) -> Result<Vec<bool>, BuildError> {
    Ok(match paths {
        Paths::Slow => vec![false; service.chain.len()],
        Paths::Both => place(service, &budget(service))?.has_room,
    })
}

fn fast_elements(service: &Service, paths: Paths) -> Result<Vec<FastElement>, BuildError> {
    let room = room(service, paths)?;
    let elements = elements(service).zip(room);
    elements
        .map(|(instances, has_room)| fast_element(service, paths, instances, has_room))
        .collect()
}

/// An element on the fast path; `has_room` if its flow state has room there.
///
/// # Errors
/// The programs of its functions do not fit each other.
pub fn fast_element(
    service: &Service,
    paths: Paths,
    instances: &[Instance],
    has_room: bool,
) -> Result<FastElement, BuildError> {
    Ok(match paths {
        Paths::Slow => FastElement::OnSlowPath,
        Paths::Both if instances[0].makes_rules() => fast_rules(service, paths),
        Paths::Both if has_room => {
            let chain = element_chain(service, instances)?;
            FastElement::State(Box::new(state_stage(service, &chain)?))
        }
        Paths::Both => FastElement::OnSlowPath,
    })
}

/// An element whose decisions are cached, on the fast path.
pub fn fast_rules(service: &Service, paths: Paths) -> FastElement {
    match caches_rules(service, paths) {
        true => {
            let table = RuleTable::new(rule_table(service));
            FastElement::Rules(Box::new(RuleStage::new(table)))
        }
        false => FastElement::OnSlowPath,
    }
}

fn caches_rules(service: &Service, paths: Paths) -> bool {
    service.rule_cache.enabled && paths == Paths::Both
}

/// The flow state of an element with these functions, on the fast path.
///
/// # Errors
/// The programs do not fit each other.
pub fn state_stage(service: &Service, chain: &Chain) -> Result<StateStage, BuildError> {
    let interpreter = Interpreter::new(&chain.programs())?;
    Ok(StateStage::new(
        coherence(service),
        interpreter,
        service.seed,
    ))
}

fn workers(
    service: &Service,
    paths: Paths,
    steering: &Steering,
) -> Result<(Vec<Worker>, Vec<Pools>), BuildError> {
    let blueprint = blueprint(service, paths);
    let mut workers = Vec::new();
    let mut pools = Vec::new();
    for _ in 0..service.slow_path.workers {
        let whole_walk = (paths == Paths::Slow).then(|| steering.clone());
        workers.push(Worker::new(Arc::clone(&blueprint), whole_walk)?);
        pools.push(Pools::new(2 * service.link.ring_frames + 1024, 16));
    }
    Ok((workers, pools))
}

/// What makes a worker's elements of a service's chain.
pub fn blueprint(service: &Service, paths: Paths) -> Blueprint {
    let service = service.clone();
    Arc::new(move || slow_elements(&service, paths))
}

/// What a worker has of the chain.
///
/// # Errors
/// A file that a function needs cannot be read.
pub fn slow_elements(service: &Service, paths: Paths) -> Result<Vec<SlowElement>, BuildError> {
    elements(service)
        .map(|instances| {
            Ok(match instances[0].makes_rules() {
                true => SlowElement::Rules(Box::new(slow_rules(service, paths, instances)?)),
                false => SlowElement::Flows(Box::new(slow_flows(service, instances)?)),
            })
        })
        .collect()
}

/// A worker's flows at an element and the functions that share them.
///
/// # Errors
/// A file that a function needs cannot be read.
pub fn slow_flows(service: &Service, instances: &[Instance]) -> Result<SlowFlows, BuildError> {
    let chain = element_chain(service, instances)?;
    Ok(SlowFlows::new(
        chain,
        service.slow_path.flows,
        1,
        service.seed,
    ))
}

fn slow_rules(
    service: &Service,
    paths: Paths,
    instances: &[Instance],
) -> Result<SlowRules, BuildError> {
    let mut slow = SlowRules::new(slow_rules_config(service, paths), Sides::KNOWN, Vec::new());
    slow.exchange_functions(rule_functions(service, instances)?);
    Ok(slow)
}

/// How an element whose decisions are cached does that on the slow path.
pub fn slow_rules_config(service: &Service, paths: Paths) -> SlowRulesConfig {
    let cache = &service.rule_cache;
    SlowRulesConfig {
        caching: caches_rules(service, paths),
        waiting: FRAMES_WAITING,
        selection: SelectionConfig {
            window: cache.window.duration(),
            threshold: cache.threshold,
            ..SelectionConfig::for_rules(cache.exact + cache.masked)
        },
        manager: ManagerConfig {
            exact: cache.exact,
            masked: cache.masked,
            masks: cache.masks,
            window: cache.window.duration(),
            idle_windows: cache.idle_windows,
            ..ManagerConfig::default()
        },
    }
}

/// The fast path's table of rules of one element.
pub fn rule_table(service: &Service) -> TableConfig {
    let cache = &service.rule_cache;
    TableConfig {
        exact: cache.exact,
        masked: cache.masked,
        masks: cache.masks,
        held: cache.held,
        mark_timeout: service.link.incomplete_timeout.duration(),
        // Ageing wants to hear of each rule in each of its windows.
        report_interval: cache.window.duration() / 2,
        seed: service.seed,
        ..TableConfig::default()
    }
}

/// The mechanism's settings.
pub fn coherence(service: &Service) -> CoherenceConfig {
    let fast = &service.fast_path;
    CoherenceConfig {
        slots: fast.slots,
        ways: fast.ways.map_or(default_ways(fast.device), |ways| ways.0),
        hot_packets: fast.hot_packets,
        sketch_window: fast.sketch_window.duration(),
        sketch_width: fast.sketch_width,
        time_to_live: fast.time_to_live.duration(),
        incomplete_timeout: service.link.incomplete_timeout.duration(),
        write_back_timeout: service.link.write_back_timeout.duration(),
        backoff: Backoff {
            rearms: fast.rearms,
        },
        sweep_slots: fast.sweep_slots,
    }
}

const fn default_ways(device: Device) -> usize {
    match device {
        Device::Software => 8,
        Device::Asic => 1,
    }
}

/// How packets are assigned to flows.
///
/// # Errors
/// Functions whose flows do not go together, or a file that a function needs.
pub fn steering(service: &Service) -> Result<Steering, BuildError> {
    let whole = chain(service)?.steering(service.seed)?;
    let shares = |instances: &&[Instance]| !instances[0].makes_rules();
    if elements(service).filter(shares).count() < 2 {
        return Ok(whole);
    }
    let own = elements(service)
        .map(|instances| Ok(element_chain(service, instances)?.steering(service.seed)?));
    let own: Result<_, BuildError> = own.collect();
    Ok(whole.with_elements(own?))
}
