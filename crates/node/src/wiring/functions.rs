//! The functions of a service's chain, element by element.

use crate::build_error::BuildError;
use crate::position::ElementOrder;
use twinpath_coherence::SlowFlows;
use twinpath_control::service::{Instance, Service};
use twinpath_core::Named;
use twinpath_core::hash::seed_for;
use twinpath_nf::descriptor::Function;
use twinpath_rulecache::RuleFunction;
use twinpath_slowpath::{Chain, NetworkFunction};

/// The chain's elements: functions in a row that make rules, or that share flow state. Functions
/// that decide last are an element of their own, unless the whole chain is one: packets pass the
/// others in either order before them. One at which packets of other shards enter is the first of its
/// element.
pub fn elements(service: &Service) -> impl Iterator<Item = &[Instance]> {
    let is_spread = service.run.shards.0 > 1;
    let begins = move |one: &Instance| is_spread && one.config.joins_shards();
    let mut behind_first = service.chain.iter().skip(1);
    let is_whole = service.chain.iter().all(Instance::makes_rules) && !behind_first.any(begins);
    let alike = move |one: &Instance, other: &Instance| {
        let goes_together = is_whole || one.decides_last() == other.decides_last();
        one.form() == other.form() && goes_together && !begins(other)
    };
    service.chain.chunk_by(alike)
}

/// In which order packets pass the elements.
pub fn element_order(service: &Service) -> ElementOrder {
    let decides_last = |instances: &&[Instance]| instances[0].decides_last();
    ElementOrder {
        elements: elements(service).count() as u8,
        last: elements(service).filter(decides_last).count() as u8,
    }
}

/// By element: whether a function of it needs the ports of fragments.
pub fn needs_ports(service: &Service) -> Vec<bool> {
    let needs = |instance: &Instance| instance.config.needs_ports();
    elements(service)
        .map(|instances| instances.iter().any(needs))
        .collect()
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
    let sharing = instances.iter().filter(|instance| instance.shares_state());
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
        Function::Rules(_) | Function::Dash(_) => Err(BuildError::MakesRules(name.to_string())),
    }
}

/// The seed of a function: from the service's, another for each name.
pub fn seed_of(service: &Service, instance: &Instance) -> u64 {
    seed_for(service.seed, &instance.name)
}

/// A function, made of what an instance says.
///
/// # Errors
/// A file that it needs cannot be read.
pub(super) fn function(service: &Service, instance: &Instance) -> Result<Function, BuildError> {
    let seed = seed_of(service, instance);
    let built = instance.config.build(&service.folder, seed);
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
        if let Function::Rules(mut function) = function(service, instance)? {
            if service.ipfix.collector.is_some() {
                // Events are kept from the first one on for who takes them later.
                _ = (instance.config).take_binding_events(function.as_mut(), 0);
            }
            let name = instance.name.clone();
            functions.push(Named { name, function });
        }
    }
    Ok(functions)
}

/// A worker's flows at an element and the functions that share them.
///
/// # Errors
/// A file that a function needs cannot be read.
pub fn slow_flows(service: &Service, instances: &[Instance]) -> Result<SlowFlows, BuildError> {
    let chain = element_chain(service, instances)?;
    let flows = SlowFlows::new(chain, service.slow_path.flows, 1, service.seed);
    Ok(flows.with_half_open(service.slow_path.most_half_open()))
}
