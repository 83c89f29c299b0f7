//! A scenario as a service, of which production makes the chain and its changes.

use super::variant::{Order, Variant};
use crate::faults::functions::{
    Blank, CLIENTS_V6, DpuFiles, INSPECTOR, Ledger, Notes, inspector_rules, section,
};
use crate::faults::scenario::{Element, Scenario};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use twinpath_classify::Prefix;
use twinpath_control::service::{Instance, Paths, Service, ServiceError, Waiting, Ways};
use twinpath_core::wire::Address;
use twinpath_nf::custom::custom;
use twinpath_nf::descriptor::{Form, Function, FunctionError};
use twinpath_nf::duration::Human;
use twinpath_nf::inspector::{DeepMatcher, Inspector, Rules};
use twinpath_node::NodeConfig;
use twinpath_node::replacement::{ReplaceError, Replacement};
use twinpath_node::wiring::{Buffers, BuildError};

/// The service of a scenario, with its settings; the ledger tells `notes` what it does.
///
/// # Errors
/// A configuration is refused.
pub fn service(
    scenario: &Scenario,
    variant: Variant,
    (notes, seed): (&Notes, u64),
) -> Result<Service, ServiceError> {
    let mut chain = Vec::new();
    for (number, element) in (0..).zip(scenario.elements.list()) {
        chain.extend(match element {
            Element::State if scenario.functions.is_ledger() => {
                around_ledger(scenario, variant, (number, notes))
            }
            Element::State => sharing(scenario.functions.names(), variant)?,
            Element::Flows(functions) => sharing(functions, variant)?,
            Element::Rules(functions) => making_rules(functions, variant)?,
            Element::Dpu => {
                of_functions(&[("dash".into(), "dash")], variant.has_other_rules)?.chain
            }
        });
    }
    let mut service = of_functions(&[("monitor".into(), "monitor")], false)?;
    (service.chain, service.seed, service.written.seed) = (chain, seed, Some(seed));
    if scenario.elements.have_rules() {
        service.inside = vec![Prefix::covering(Address::from_v4([10, 0, 0, 0]), 16)];
    }
    if scenario.elements.are_over_v6() {
        let clients = Prefix::covering(Address(CLIENTS_V6), 48);
        service.inside.push(clients);
    }
    set(&mut service, scenario);
    Ok(service)
}

/// What the scenario has of everything.
fn set(service: &mut Service, scenario: &Scenario) {
    let (protocol, resources) = (&scenario.protocol, &scenario.resources);
    (service.slow_path.workers, service.slow_path.flows) = (resources.workers, resources.flows);
    let fast = &mut service.fast_path;
    (fast.slots, fast.ways) = (protocol.slots, Some(Ways(protocol.ways)));
    (fast.hot_packets, fast.sketch_width) = (protocol.hot_packets, protocol.sketch_width);
    fast.sketch_window = Human(protocol.sketch_window);
    fast.time_to_live = Human(protocol.time_to_live);
    (fast.sweep_slots, fast.rearms) = (protocol.sweep_slots, protocol.rearms);
    fast.waiting = Some(Waiting(protocol.waiting));
    service.link.incomplete_timeout = Human(protocol.incomplete_timeout);
    service.link.write_back_timeout = Human(protocol.write_back_timeout);
}

/// A service of these functions, by name and kind.
fn of_functions(functions: &[(String, &str)], is_other: bool) -> Result<Service, ServiceError> {
    let names: Vec<&String> = functions.iter().map(|(name, _)| name).collect();
    let mut text = format!("service = {{ chain = {names:?} }}\n");
    for (name, function) in functions {
        let section = section(function, is_other);
        text.push_str(&format!("[{name}]\nfunction = \"{function}\"\n{section}\n"));
    }
    Service::parse_with(&text, Path::new("scenario"), &DpuFiles { is_other })
}

/// An element's functions with rules.
fn making_rules(functions: &[&str], variant: Variant) -> Result<Vec<Instance>, ServiceError> {
    let named = |(place, &function)| (variant.name_of(function, place), function);
    let functions: Vec<_> = functions.iter().enumerate().map(named).collect();
    Ok(of_functions(&functions, variant.has_other_rules)?.chain)
}

/// An element's functions of production that share flow state.
fn sharing(names: &[&'static str], variant: Variant) -> Result<Vec<Instance>, ServiceError> {
    let one = |&name: &&'static str| match name {
        "inspector" => {
            let is_other = variant.has_other_state;
            let make = move || inspector(is_other);
            Ok(vec![made("inspector", u32::from(is_other), make)])
        }
        _ => Ok(of_functions(&[(name.into(), name)], variant.has_other_state)?.chain),
    };
    let functions: Result<Vec<_>, ServiceError> = names.iter().map(one).collect();
    let mut functions: Vec<Instance> = functions?.into_iter().flatten().collect();
    if variant.is_unusual() {
        functions.reverse();
    }
    Ok(functions)
}

/// The ledger of an element, and what stands beside it.
fn around_ledger(
    scenario: &Scenario,
    variant: Variant,
    (element, notes): (u8, &Notes),
) -> Vec<Instance> {
    let hold = Duration::from_nanos(scenario.traffic.hold_ns);
    let (expiry, notes) = (variant.expiry_ticks(&scenario.traffic), Arc::clone(notes));
    let named = |name: &str| format!("{name}-{element}");
    let ledger = made(&named("ledger"), expiry, move || {
        let ledger = Ledger::new(hold, expiry, (element, &notes));
        Ok(Function::flow(ledger))
    });
    match variant.order {
        Order::Usual => vec![ledger],
        Order::BlankInFront => vec![blank(&named("front"), Blank::IN_FRONT), ledger],
        Order::BlankBehind => vec![ledger, blank(&named("behind"), Blank::BEHIND)],
    }
}

fn blank(name: &str, blank: Blank) -> Instance {
    made(name, 0, move || Ok(Function::flow(blank)))
}

/// A function of the simulation's own; its setting tells configurations apart.
fn made(
    name: &str,
    setting: u32,
    make: impl Fn() -> Result<Function, FunctionError> + Send + Sync + 'static,
) -> Instance {
    Instance {
        name: name.into(),
        config: custom(Form::Flow, setting.into(), move |_, _| make()),
    }
}

/// A service file would name a file of rules.
fn inspector(is_other: bool) -> Result<Function, FunctionError> {
    let rules = Rules::parse(&inspector_rules(is_other), "rules of the simulation");
    let rules = rules.map_err(FunctionError::of)?;
    let config = toml::from_str(INSPECTOR).map_err(FunctionError::of)?;
    let matcher = DeepMatcher::new(&rules).map_err(FunctionError::of)?;
    Ok(Function::flow(Inspector::new(&config, &rules, matcher)))
}

/// What the node of a scenario is built from: service files do not say all that there is to say.
///
/// # Errors
/// The functions cannot be built.
pub fn node_config(scenario: &Scenario, service: &Service) -> Result<NodeConfig, BuildError> {
    let (resources, parking) = (&scenario.resources, scenario.parking.clone());
    let buffers = |ordinary| Buffers { ordinary, long: 1 };
    Ok(NodeConfig {
        rule_table: scenario.rules.table,
        slow_rules: scenario.rules.slow,
        parking: parking.map(|parking| (parking.queue, parking.port)),
        split: scenario
            .split
            .as_ref()
            .map(|split| split.config(service.seed)),
        buffers: buffers(resources.buffers),
        worker_buffers: buffers(resources.worker_buffers),
        ..NodeConfig::of(service, Paths::Both)?
    })
}

/// One service becomes another, as production plans it.
///
/// # Errors
/// It cannot be.
pub fn replacement(
    scenario: &Scenario,
    former: &Service,
    next: &Service,
) -> Result<Replacement, ReplaceError> {
    Replacement::with_config(former, &node_config(scenario, next)?)
}
