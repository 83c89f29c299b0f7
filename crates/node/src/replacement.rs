//! Another chain for a running node: what stays, what is new.
//!
//! A change is made while nothing is under way: packets wait in front of the fast path until
//! those inside have left, each path takes its new elements, and packets go on. So none is lost
//! or overtaken, and none meets a decision of the old chain once the change is acknowledged.
//!
//! Services are compared as values. An element whose functions are the same ones, of which some
//! have other rules, routes or backends, stays with all that is cached; only those rules go that
//! came from what changes, and flows stay on the fast path.
//!
//! Otherwise an element begins anew with functions that know what they knew. Functions that share
//! flow state then change together ([`flows`]): before packets wait, the fast path gives the state
//! of all flows back; the functions that stay keep it, and what they keep of packets leaves through
//! the old chain. The fast path begins anew with an empty table.
//!
//! Everything that takes time is done before, as building lists and reading files, or after and
//! elsewhere, as freeing what was replaced ([`DeferredFree`](crate::deferred_free::DeferredFree)).

mod flows;

pub use crate::fast_path::FastPlan;
pub use crate::machine::Replacement;
pub use crate::worker::{FunctionPlan, SlowPlan};

use crate::build_error::BuildError;
use crate::wiring::{self, Buffers, NodeConfig};
use flows::FlowPlan;
use std::ops::Range;
use std::sync::Arc;
use twinpath_control::operator::Applied;
use twinpath_control::service::{Instance, Service};
use twinpath_core::Pools;
use twinpath_dash::tables::Tables;
use twinpath_nf::dash;
use twinpath_nf::descriptor::{Form, MigrationError};
use twinpath_rulecache::Reconfiguration;

/// Why a running service cannot become another.
#[derive(Debug, thiserror::Error)]
pub enum ReplaceError {
    /// What cannot change in a running service.
    #[error(
        "[{0}] differs from the running service: expected it unchanged, because only the chain, its functions and what [service] says of inside and of frames that enter can change while packets flow"
    )]
    Settings(&'static str),
    /// Nor can the seed, on which hashes depend.
    #[error("the seed differs from the running service's: expected the same")]
    Seed,
    /// A function cannot go on with what it knows.
    #[error("{function}: {source}")]
    Migration {
        /// The function's name in the chain.
        function: String,
        /// Why not.
        source: MigrationError,
    },
    /// The new functions cannot be built.
    #[error(transparent)]
    Build(#[from] BuildError),
}

impl ReplaceError {
    /// The key of the new service file that this is about, by its table and its name.
    pub fn keys(&self) -> Vec<&str> {
        match self {
            Self::Settings(table) => vec![table],
            Self::Seed => vec!["service", "seed"],
            Self::Migration { function, source } => vec![function, source.key],
            Self::Build(error) => error.keys(),
        }
    }
}

impl Replacement {
    /// From one service to another.
    ///
    /// # Errors
    /// More than the chain differs, or its new functions cannot be built.
    pub fn between(old: &Service, new: &Service) -> Result<Self, ReplaceError> {
        Self::with_config(old, &NodeConfig::of(new, old.run.paths)?)
    }

    /// From a service to what a node is built from.
    ///
    /// # Errors
    /// More than the chain differs, or its new functions cannot be built.
    pub fn with_config(old: &Service, config: &NodeConfig) -> Result<Self, ReplaceError> {
        let new = &config.service;
        check_settings(old, new)?;
        check_functions(old, new)?;
        let before = elements(old);
        let origin = |element: Range<usize>| (origin(old, &before, new, &element), element);
        let after: Vec<_> = elements(new).into_iter().map(origin).collect();
        let flows = FlowPlan::between(old, new, &after)?;
        let mut replacement = Self {
            admission: wiring::admission(new)?,
            joints: wiring::joints(new)?,
            egress_check: wiring::egress_check(new),
            splits: new.splits().is_some(),
            verifies: new.asks_for_checksums(),
            steering: wiring::steering(new)?,
            order: wiring::element_order(new),
            fast: Vec::new(),
            needs_ports: wiring::needs_ports(new),
            slow: Vec::new(),
            blueprint: config.blueprint(),
            brings_flows_home: flows.brings_home,
            releases_packets: flows.releases_packets,
            pools: larger_pools(old, config.buffers)?,
            applied: changes(old, new),
            old_elements: before.len(),
            has_other_admission: wiring::admits_otherwise(old, new),
        };
        for ((origin, element), has_room) in after.iter().zip(&config.has_room) {
            let former = origin.former(old, &before);
            let plan = plan_fast(*origin, former, config, element, *has_room)?;
            replacement.fast.push(plan);
        }
        for _ in 0..new.slow_path.workers {
            let plans = after
                .iter()
                .map(|(origin, element)| plan_slow(old, &before, *origin, config, element));
            replacement.slow.push(plans.collect::<Result<_, _>>()?);
        }
        Ok(replacement)
    }

    /// A change of one function that makes rules, which is no change of the service's
    /// configuration: that at this place of the chain.
    ///
    /// # Errors
    /// The service cannot be built.
    pub fn of_function(
        service: &Service,
        place: usize,
        change: Reconfiguration,
    ) -> Result<Self, ReplaceError> {
        let mut replacement = Self::between(service, service)?;
        let name = service.chain[place].name.to_string();
        replacement.applied.kept.retain(|kept| *kept != name);
        replacement.applied.changed.push(name);
        let elements = elements(service);
        let holds = |element: &Range<usize>| element.contains(&place);
        if let Some(number) = elements.iter().position(holds)
            && let Some(plan) = replacement
                .slow
                .first_mut()
                .and_then(|plans| plans.get_mut(number))
        {
            let place = (place - elements[number].start) as u8;
            *plan = SlowPlan::ChangeRules(number, vec![(place, change)]);
        }
        Ok(replacement)
    }
}

/// What an element of the new chain was in the old one.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum Origin {
    /// The element with this number.
    Same(usize),
    /// The same, but that some of its functions change where they are.
    Changed(usize),
    /// Other functions, or such as forget what was decided.
    New,
}

impl Origin {
    /// The functions that it was there.
    fn former<'s>(self, old: &'s Service, before: &[Range<usize>]) -> Option<&'s [Instance]> {
        match self {
            Self::Same(number) | Self::Changed(number) => {
                Some(&old.chain[before.get(number)?.clone()])
            }
            Self::New => None,
        }
    }
}

fn origin(old: &Service, before: &[Range<usize>], new: &Service, element: &Range<usize>) -> Origin {
    let functions = &new.chain[element.clone()];
    let is = |other: &Range<usize>, becomes: fn(&Instance, &Instance) -> bool| {
        let former = &old.chain[other.clone()];
        let mut pairs = former.iter().zip(functions);
        former.len() == functions.len() && pairs.all(|(former, function)| becomes(former, function))
    };
    let find = |becomes| before.iter().position(|other| is(other, becomes));
    match find(|former, function| former == function) {
        Some(number) => Origin::Same(number),
        None => find(changes_in_place).map_or(Origin::New, Origin::Changed),
    }
}

fn changes_in_place(former: &Instance, function: &Instance) -> bool {
    function.is_heir_of(former) && function.config.changes_in_place(&*former.config)
}

/// A DPU's tables, made of those that packets meet now.
fn tables_after(
    former: &[Instance],
    config: &NodeConfig,
    instances: &[Instance],
) -> Option<Arc<Tables>> {
    let before = former.first()?.config.of::<dash::Config>()?;
    let instance = instances.first()?;
    let after = instance.config.of::<dash::Config>()?;
    let seed = wiring::seed_of(&config.service, instance);
    Some(after.tables_after(before, seed))
}

fn plan_fast(
    origin: Origin,
    former: Option<&[Instance]>,
    config: &NodeConfig,
    element: &Range<usize>,
    has_room: bool,
) -> Result<FastPlan, ReplaceError> {
    let instances = &config.service.chain[element.clone()];
    match (
        origin,
        former.and_then(|former| tables_after(former, config, instances)),
    ) {
        (Origin::Changed(number), Some(tables)) => return Ok(FastPlan::ChangeDash(number, tables)),
        (Origin::Same(number) | Origin::Changed(number), _) => return Ok(FastPlan::Keep(number)),
        (Origin::New, _) => {}
    }
    let element = config.fast_element(instances, has_room)?;
    Ok(FastPlan::New(element))
}

fn plan_slow(
    old: &Service,
    before: &[Range<usize>],
    origin: Origin,
    config: &NodeConfig,
    element: &Range<usize>,
) -> Result<SlowPlan, ReplaceError> {
    let new = &config.service;
    match origin {
        Origin::Same(number) => return Ok(SlowPlan::Keep(number)),
        Origin::Changed(number) => {
            let former = &old.chain[before[number].clone()];
            let functions = &new.chain[element.clone()];
            if let Some(tables) = tables_after(former, config, functions) {
                return Ok(SlowPlan::ChangeDash(number, tables));
            }
            return plan_changes(number, former, new, &new.chain[element.clone()]);
        }
        Origin::New => {}
    }
    if new.chain[element.start].form() == Form::Dash {
        let dash = config.slow_dash(&new.chain[element.start])?;
        return Ok(SlowPlan::NewDash(Box::new(dash)));
    }
    if new.chain[element.start].shares_state() {
        return flows::plan(old, before, new, element);
    }
    let functions = plan_functions(old, before, new, element)?;
    Ok(SlowPlan::Rules(
        config.slow_rules(&new.chain[element.clone()]),
        functions,
    ))
}

/// The plan for an element that stays while some of its functions change.
fn plan_changes(
    number: usize,
    former: &[Instance],
    new: &Service,
    functions: &[Instance],
) -> Result<SlowPlan, ReplaceError> {
    let (mut rules, mut flows) = (Vec::new(), Vec::new());
    let pairs = former.iter().zip(functions).enumerate();
    for (place, (former, function)) in pairs.filter(|(_, (former, function))| former != function) {
        match change_from(former, new, function)? {
            Some(change) => rules.push((place as u8, change)),
            None => flows.push((place, wiring::flow_function(new, function)?)),
        }
    }
    Ok(match functions.iter().any(Instance::makes_rules) {
        true => SlowPlan::ChangeRules(number, rules),
        false => SlowPlan::ChangeFlows(number, flows),
    })
}

/// A function's new configuration as a change, if it makes rules.
fn change_from(
    former: &Instance,
    new: &Service,
    function: &Instance,
) -> Result<Option<Reconfiguration>, BuildError> {
    let former = &*former.config;
    let seed = wiring::seed_of(new, function);
    let change = function.config.change_from(former, &new.folder, seed);
    change.map_err(|source| BuildError::Function {
        function: function.name.to_string(),
        source,
    })
}

/// Functions of the new chain that were in the old one go on, if they can.
fn check_functions(old: &Service, new: &Service) -> Result<(), ReplaceError> {
    for function in &new.chain {
        let Some(former) = old.chain.iter().find(|former| function.is_heir_of(former)) else {
            continue;
        };
        let checked = function.config.check_migration(&*former.config);
        checked.map_err(|source| ReplaceError::Migration {
            function: function.name.to_string(),
            source,
        })?;
    }
    Ok(())
}

fn larger_pools(old: &Service, buffers: Buffers) -> Result<Option<Pools>, BuildError> {
    let before = wiring::buffers(old)?;
    let is_larger = buffers.ordinary > before.ordinary || buffers.long > before.long;
    Ok(is_larger.then(|| buffers.pools()))
}

fn check_settings(old: &Service, new: &Service) -> Result<(), ReplaceError> {
    let settings = [
        ("service.ports", old.ports == new.ports),
        ("ports", old.devices == new.devices),
        ("run", old.written.run == new.written.run),
        ("fast_path", old.fast_path == new.fast_path),
        ("slow_path", old.slow_path == new.slow_path),
        ("rule_cache", old.rule_cache == new.rule_cache),
        ("parking", old.parking == new.parking),
        ("split", old.split == new.split),
        ("link", old.link == new.link),
        ("traffic", old.traffic == new.traffic),
        ("metrics", old.metrics == new.metrics),
        ("ipfix", old.ipfix == new.ipfix),
    ];
    match settings.into_iter().find(|(_, is_same)| !is_same) {
        Some((name, _)) => Err(ReplaceError::Settings(name)),
        None if old.written.seed.unwrap_or_default() == new.written.seed.unwrap_or_default() => {
            Ok(())
        }
        None => Err(ReplaceError::Seed),
    }
}

/// The elements of a service, as ranges of its chain.
fn elements(service: &Service) -> Vec<Range<usize>> {
    let mut first = 0;
    wiring::elements(service)
        .map(|configs| {
            let range = first..first + configs.len();
            first = range.end;
            range
        })
        .collect()
}

/// Where a function of the new service is in the old one, if it is there.
fn place_in_old(
    old: &Service,
    before: &[Range<usize>],
    function: &Instance,
) -> Option<(usize, u8)> {
    let same = |one: &Instance| function.is_heir_of(one) && one.makes_rules();
    let index = old.chain.iter().position(same)?;
    let element = before.iter().position(|range| range.contains(&index))?;
    Some((element, (index - before[element].start) as u8))
}

fn plan_functions(
    old: &Service,
    before: &[Range<usize>],
    new: &Service,
    element: &Range<usize>,
) -> Result<Vec<FunctionPlan>, ReplaceError> {
    let mut plans = Vec::new();
    for function in &new.chain[element.clone()] {
        if let Some(kept) = plan_kept(old, before, new, function)? {
            plans.push(kept);
            continue;
        }
        let built = wiring::rule_functions(new, std::slice::from_ref(function))?;
        plans.extend(built.into_iter().map(FunctionPlan::New));
    }
    Ok(plans)
}

/// The plan for a function that the old service has too, unless it has to begin anew.
fn plan_kept(
    old: &Service,
    before: &[Range<usize>],
    new: &Service,
    function: &Instance,
) -> Result<Option<FunctionPlan>, ReplaceError> {
    let Some((element, place)) = place_in_old(old, before, function) else {
        return Ok(None);
    };
    let former = &old.chain[before[element].start + usize::from(place)];
    let change = match former == function {
        true => None,
        false => match change_from(former, new, function)? {
            // It cannot go on as another.
            None => return Ok(None),
            change => change,
        },
    };
    Ok(Some(FunctionPlan::Keep {
        element,
        place,
        change,
    }))
}

fn changes(old: &Service, new: &Service) -> Applied {
    let begins = flows::beginning(old, new);
    let mut applied = Applied::default();
    for function in &new.chain {
        let former = old.chain.iter().find(|one| function.is_heir_of(one));
        let list = match former {
            Some(_) if begins.contains(&&*function.name) => &mut applied.anew,
            Some(former) if former == function => &mut applied.kept,
            Some(_) => &mut applied.changed,
            None => &mut applied.new,
        };
        list.push(function.name.to_string());
    }
    for function in &old.chain {
        if !new.chain.iter().any(|other| other.is_heir_of(function)) {
            applied.removed.push(function.name.to_string());
        }
    }
    applied
}
