//! Another chain for a running node: what stays, what is new.
//!
//! A change is made while nothing is under way: packets wait in front of the fast path until
//! those inside have left, each path takes its new elements, and packets go on. So none is lost
//! or overtaken, and none meets a decision of the old chain once the change is acknowledged.
//!
//! Functions that share flow state change together ([`flows`]): before packets wait, the fast path
//! gives the state of all flows back; the functions that stay keep it, and what they keep of
//! packets leaves through the old chain. The fast path begins anew with an empty table.
//!
//! Everything that takes time is done before, as building lists and reading files, or after and
//! elsewhere, as freeing what was replaced ([`Leftovers`]).

mod flows;
mod rebuild;

pub use rebuild::Leftovers;
pub(crate) use rebuild::{Rebuilt, Times, rebuild};

use crate::fast_path::FastElement;
use crate::wiring::{self, BuildError};
use crate::worker::Blueprint;
use std::ops::Range;
use twinpath_coherence::Cores;
use twinpath_control::operator::Applied;
use twinpath_control::service::{Instance, SETTINGS, Service};
use twinpath_core::{Named, Pools, Steering};
use twinpath_nf::catalogue::SuccessionError;
use twinpath_rulecache::{Change, RuleCores, RuleFunction, Sides};
use twinpath_slowpath::{Chain, Successor};

/// One element of the new chain on the fast path.
pub enum FastPlan {
    /// That of the old chain with this number.
    Keep(usize),
    /// A new one.
    New(FastElement),
}

/// One element of the new chain on the cores.
pub enum CorePlan {
    /// That of the old chain with this number.
    Keep(usize),
    /// A new one, still without functions, and those that it gets.
    Rules(Box<RuleCores>, Vec<FunctionPlan>),
    /// The flows of the old chain's element with this number, and the functions that follow there.
    Flows(usize, Vec<Successor>),
    /// One that knows no flow.
    NewFlows(Box<Cores>),
}

/// A function of a new element.
pub enum FunctionPlan {
    /// That of the old chain, with all it knows.
    Keep {
        /// Its element.
        element: usize,
        /// Its place there.
        place: u8,
        /// Its new configuration, if that is another.
        change: Option<Change>,
    },
    /// A new one.
    New(Named<dyn RuleFunction>),
}

/// Another chain.
pub struct Replacement {
    /// Which way packets go.
    pub sides: Sides,
    /// Which flows they belong to.
    pub steering: Steering,
    /// For the fast path.
    pub fast: Vec<FastPlan>,
    /// For each worker.
    pub cores: Vec<Vec<CorePlan>>,
    /// What makes a worker's elements of the new chain after a crash.
    pub blueprint: Blueprint,
    /// Whether the fast path has to give the state of all flows back before.
    pub brings_flows_home: bool,
    /// Whether functions have to let go of packets that they keep before.
    pub releases_packets: bool,
    /// Larger pools for packets that arrive, if the new functions may keep more of them.
    pub pools: Option<Pools>,
    /// What it does, to be told.
    pub applied: Applied,
}

/// Why a running service cannot become another.
#[derive(Debug, thiserror::Error)]
pub enum ReplaceError {
    /// What cannot change in a running service.
    #[error(
        "[{0}] differs from the running service: expected it unchanged, because only the chain, its functions and inside can change while packets flow"
    )]
    Settings(String),
    /// Nor can the seed, on which hashes depend.
    #[error("the seed differs from the running service's: expected the same")]
    Seed,
    /// A function cannot go on with what it knows.
    #[error("{function}: {source}")]
    Succession {
        /// The function's name in the chain.
        function: String,
        /// Why not.
        source: SuccessionError,
    },
    /// The new functions cannot be built.
    #[error(transparent)]
    Build(#[from] BuildError),
}

impl Replacement {
    /// From one service to another.
    ///
    /// # Errors
    /// More than the chain differs, or its new functions cannot be built.
    pub fn between(old: &Service, new: &Service) -> Result<Self, ReplaceError> {
        check_settings(old, new)?;
        check_functions(old, new)?;
        let (before, after) = (elements(old), elements(new));
        let chain = wiring::chain(new)?;
        let flows = flows::Change::between(old, new, &chain)?;
        let room = wiring::place(new, &wiring::budget(new))?;
        let mut replacement = Self {
            sides: Sides::new(&new.inside).map_err(BuildError::from)?,
            steering: wiring::steering(new)?,
            fast: Vec::new(),
            cores: Vec::new(),
            blueprint: wiring::blueprint(new, old.run.paths),
            brings_flows_home: flows.brings_home,
            releases_packets: flows.releases_packets,
            pools: larger_pools(old, new, &chain)?,
            applied: changes(old, new),
        };
        for (element, has_room) in after.iter().zip(room.has_room) {
            let plan = plan_fast(old, &before, new, element, has_room)?;
            replacement.fast.push(plan);
        }
        for _ in 0..new.slow_path.workers {
            let plans = after
                .iter()
                .map(|element| plan_cores(old, &before, new, element));
            replacement.cores.push(plans.collect::<Result<_, _>>()?);
        }
        Ok(replacement)
    }

    /// Takes the memory of what is new, so that no packet has to wait for it.
    pub fn touch(&mut self) {
        for plan in &mut self.fast {
            if let FastPlan::New(element) = plan {
                element.touch();
            }
        }
        for plan in self.cores.iter_mut().flatten() {
            match plan {
                CorePlan::Rules(rules, _) => rules.touch(),
                CorePlan::NewFlows(flows) => flows.touch(),
                CorePlan::Keep(_) | CorePlan::Flows(..) => {}
            }
        }
        self.pools.iter_mut().for_each(Pools::touch);
    }
}

/// The element of the old chain that stays as this one of the new chain.
fn kept(
    old: &Service,
    before: &[Range<usize>],
    new: &Service,
    element: &Range<usize>,
) -> Option<usize> {
    let is_kept = |other| is_same(old, other, new, element);
    before.iter().position(is_kept)
}

fn plan_fast(
    old: &Service,
    before: &[Range<usize>],
    new: &Service,
    element: &Range<usize>,
    has_room: bool,
) -> Result<FastPlan, ReplaceError> {
    if let Some(number) = kept(old, before, new, element) {
        return Ok(FastPlan::Keep(number));
    }
    let instances = &new.chain[element.clone()];
    let element = wiring::fast_element(new, old.run.paths, instances, has_room)?;
    Ok(FastPlan::New(element))
}

fn plan_cores(
    old: &Service,
    before: &[Range<usize>],
    new: &Service,
    element: &Range<usize>,
) -> Result<CorePlan, ReplaceError> {
    if let Some(number) = kept(old, before, new, element) {
        return Ok(CorePlan::Keep(number));
    }
    if !new.chain[element.start].makes_rules() {
        return flows::plan(old, before, new, element);
    }
    let functions = plan_functions(old, before, new, element)?;
    let config = wiring::core_rules(new, old.run.paths);
    let rules = RuleCores::new(config, Sides::KNOWN, Vec::new());
    Ok(CorePlan::Rules(Box::new(rules), functions))
}

/// Functions of the new chain that were in the old one go on, if they can.
fn check_functions(old: &Service, new: &Service) -> Result<(), ReplaceError> {
    for function in &new.chain {
        let Some(former) = old.chain.iter().find(|former| function.is_heir_of(former)) else {
            continue;
        };
        let checked = function.config.check_succession(&*former.config);
        checked.map_err(|source| ReplaceError::Succession {
            function: function.name.to_string(),
            source,
        })?;
    }
    Ok(())
}

fn larger_pools(
    old: &Service,
    new: &Service,
    chain: &Chain,
) -> Result<Option<Pools>, ReplaceError> {
    let before = wiring::pool_frames(old, &wiring::chain(old)?);
    let (small, large) = wiring::pool_frames(new, chain);
    let is_larger = small > before.0 || large > before.1;
    Ok(is_larger.then(|| Pools::new(small, large)))
}

fn check_settings(old: &Service, new: &Service) -> Result<(), ReplaceError> {
    let differs = |name: &&str| old.written.get(*name) != new.written.get(*name);
    let mut settings = SETTINGS.into_iter().filter(|name| *name != "service");
    if let Some(name) = settings.find(differs) {
        return Err(ReplaceError::Settings(name.to_owned()));
    }
    let seed = |service: &Service| {
        let head = service.written.get("service")?;
        head.get("seed").cloned()
    };
    match seed(old) == seed(new) {
        true => Ok(()),
        false => Err(ReplaceError::Seed),
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

/// Whether a function is configured as one of the other service. What a file says may be other
/// than it was.
fn is_same_function(old: &Service, one: &Instance, new: &Service, other: &Instance) -> bool {
    let table = &*one.name;
    other.is_heir_of(one)
        && old.written.get(table) == new.written.get(table)
        && one.makes_rules() == other.makes_rules()
        && other.config.has_same_files(&*one.config)
}

fn is_same(old: &Service, one: &Range<usize>, new: &Service, other: &Range<usize>) -> bool {
    let (one, other) = (&old.chain[one.clone()], &new.chain[other.clone()]);
    let mut pairs = one.iter().zip(other);
    one.len() == other.len() && pairs.all(|(one, other)| is_same_function(old, one, new, other))
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
    let is_same = |one: &Instance| is_same_function(old, one, new, function);
    let change = match old.chain.iter().any(is_same) {
        true => None,
        false => {
            let change = function.config.change(&new.folder, new.seed);
            let told = |source| BuildError::Function {
                function: function.name.to_string(),
                source,
            };
            match change.map_err(told)? {
                Some(change) => Some(change),
                None => return Ok(None),
            }
        }
    };
    Ok(Some(FunctionPlan::Keep {
        element,
        place,
        change,
    }))
}

fn changes(old: &Service, new: &Service) -> Applied {
    let is_same = |function: &&Instance| {
        let same = |one: &Instance| is_same_function(old, one, new, function);
        old.chain.iter().any(same)
    };
    let begins = flows::beginning(old, new);
    let begins = |function: &Instance| begins.contains(&&*function.name);
    let is_kept = |function: &&Instance| is_same(function) && !begins(function);
    let goes_on = |function: &&Instance| {
        let has_former = old.chain.iter().any(|one| function.is_heir_of(one));
        has_former && !begins(function)
    };
    let (kept, others): (Vec<_>, Vec<_>) = new.chain.iter().partition(is_kept);
    let (changed, fresh) = others.into_iter().partition(goes_on);
    let is_gone = |function: &&Instance| !new.chain.iter().any(|other| other.is_heir_of(function));
    let text = |functions: Vec<&Instance>| {
        let names = functions.iter().map(|function| function.name.to_string());
        names.collect()
    };
    Applied {
        kept: text(kept),
        changed: text(changed),
        new: text(fresh),
        removed: text(old.chain.iter().filter(is_gone).collect()),
        pause_ns: 0,
    }
}
