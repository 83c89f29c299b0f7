//! A scenario as a service, of which production makes the chain and its changes.

use super::unlisted::unlisted;
use super::variant::{Order, Variant};
use crate::faults::functions::{
    Blank, Functions, INSPECTOR, INSPECTOR_RULES, Ledger, Notes, section,
};
use crate::faults::scenario::{Element, Scenario};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use twinpath_classify::Prefix;
use twinpath_control::service::{Instance, Paths, Service, ServiceError, Ways};
use twinpath_core::wire::Address;
use twinpath_nf::descriptor::FunctionError;
use twinpath_nf::duration::Human;
use twinpath_nf::inspector::{DeepMatcher, Inspector, Rules};
use twinpath_node::replacement::{FastPlan, ReplaceError, Replacement, SlowPlan};
use twinpath_node::wiring::{self, BuildError};
use twinpath_node::worker::Blueprint;
use twinpath_node::{FastElement, RuleStage, SlowElement};
use twinpath_rulecache::{RuleTable, Sides, SlowRules};
use twinpath_slowpath::NetworkFunction;

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
    for element in scenario.elements.list() {
        match element {
            Element::State => chain.extend(sharing(scenario, variant, notes)?),
            Element::Rules(functions) => chain.extend(making_rules(functions, variant)?),
        }
    }
    let mut service = of_functions(&[("monitor".into(), "monitor")], false)?;
    (service.chain, service.seed, service.written.seed) = (chain, seed, Some(seed));
    if scenario.elements.have_rules() {
        service.inside = vec![Prefix::covering(Address::from_v4([10, 0, 0, 0]), 8)];
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
    (fast.sweep_slots, fast.rearms) = (protocol.sweep_slots, protocol.backoff.rearms);
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
    Service::parse(&text, Path::new("scenario"))
}

/// An element's functions with rules.
fn making_rules(functions: &[&str], variant: Variant) -> Result<Vec<Instance>, ServiceError> {
    let named = |(place, &function)| (variant.name_of(function, place), function);
    let functions: Vec<_> = functions.iter().enumerate().map(named).collect();
    Ok(of_functions(&functions, variant.has_other_rules)?.chain)
}

/// Functions that share flow state.
fn sharing(
    scenario: &Scenario,
    variant: Variant,
    notes: &Notes,
) -> Result<Vec<Instance>, ServiceError> {
    let other = variant.has_other_state;
    let listed = |functions: &[&'static str]| {
        let functions: Vec<_> = functions.iter().map(|&name| (name.into(), name)).collect();
        Ok(of_functions(&functions, other)?.chain)
    };
    let mut functions = match scenario.functions {
        Functions::Ledger => return Ok(around_ledger(scenario, variant, notes)),
        Functions::None => Vec::new(),
        Functions::Firewall => listed(&["firewall"])?,
        Functions::Reassembler => listed(&["reassembler"])?,
        Functions::LoadBalancer => listed(&["load_balancer"])?,
        Functions::ReassemblerAndFirewall => listed(&["reassembler", "firewall"])?,
        Functions::FirewallAndLoadBalancer => listed(&["firewall", "load_balancer"])?,
        Functions::ReassemblerAndInspector => {
            let mut functions = listed(&["reassembler"])?;
            functions.push(unlisted("inspector", 0, inspector));
            functions
        }
        Functions::KvStore => listed(&["kv_store"])?,
    };
    if variant.is_unusual() {
        functions.reverse();
    }
    Ok(functions)
}

fn around_ledger(scenario: &Scenario, variant: Variant, notes: &Notes) -> Vec<Instance> {
    let hold = Duration::from_nanos(scenario.traffic.hold_ns);
    let (expiry, notes) = (variant.expiry_ticks(&scenario.traffic), Arc::clone(notes));
    let made = move || -> Result<Box<dyn NetworkFunction>, FunctionError> {
        Ok(Box::new(Ledger::new(hold, expiry, &notes)))
    };
    let ledger = unlisted("ledger", expiry, made);
    match variant.order {
        Order::Usual => vec![ledger],
        Order::BlankInFront => {
            let blank = unlisted("front", 0, || Ok(Box::new(Blank::IN_FRONT)));
            vec![blank, ledger]
        }
        Order::BlankBehind => {
            let blank = unlisted("behind", 0, || Ok(Box::new(Blank::BEHIND)));
            vec![ledger, blank]
        }
    }
}

/// A service file would name a file of rules.
fn inspector() -> Result<Box<dyn NetworkFunction>, FunctionError> {
    let rules = Rules::parse(INSPECTOR_RULES, "rules of the simulation");
    let rules = rules.map_err(FunctionError::of)?;
    let config = toml::from_str(INSPECTOR).map_err(FunctionError::of)?;
    let matcher = DeepMatcher::new(&rules).map_err(FunctionError::of)?;
    Ok(Box::new(Inspector::new(&config, &rules, matcher)))
}

/// The chain's elements on the fast path.
///
/// # Errors
/// They cannot be built.
pub fn fast_elements(
    scenario: &Scenario,
    service: &Service,
) -> Result<Vec<FastElement>, BuildError> {
    let element = |instances: &[Instance]| match instances[0].makes_rules() {
        true => Ok(rule_stage(scenario)),
        false => wiring::fast_element(service, Paths::Both, instances, true),
    };
    wiring::elements(service).map(element).collect()
}

/// Service files do not say all that there is to say of rules.
fn rule_stage(scenario: &Scenario) -> FastElement {
    FastElement::Rules(Box::new(RuleStage::new(RuleTable::new(
        scenario.rules.table,
    ))))
}

fn slow_rules(scenario: &Scenario) -> SlowRules {
    SlowRules::new(scenario.rules.slow, Sides::KNOWN, Vec::new())
}

/// What makes a worker's elements.
pub fn blueprint(scenario: &Scenario, service: &Service) -> Blueprint {
    let (scenario, service) = (scenario.clone(), service.clone());
    Arc::new(move || {
        let element = |instances: &[Instance]| {
            Ok(match instances[0].makes_rules() {
                true => {
                    let mut slow = slow_rules(&scenario);
                    slow.exchange_functions(wiring::rule_functions(&service, instances)?);
                    SlowElement::Rules(Box::new(slow))
                }
                false => SlowElement::Flows(Box::new(wiring::slow_flows(&service, instances)?)),
            })
        };
        wiring::elements(&service).map(element).collect()
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
    let mut replacement = Replacement::between(former, next)?;
    for plan in &mut replacement.fast {
        if let FastPlan::New(element @ FastElement::Rules(_)) = plan {
            *element = rule_stage(scenario);
        }
    }
    for plan in replacement.slow.iter_mut().flatten() {
        if let SlowPlan::Rules(slow, _) = plan {
            **slow = slow_rules(scenario);
        }
    }
    (replacement.blueprint, replacement.pools) = (blueprint(scenario, next), None);
    Ok(replacement)
}
