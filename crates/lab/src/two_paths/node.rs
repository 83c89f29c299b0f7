//! The node of a system: production's, or production's parts put together otherwise.

use super::parameters::{Setting, System};
use super::read_only::ReadOnly;
use crate::model::ParameterError;
use std::sync::Arc;
use twinpath_coherence::{SlowFlows, StateStage};
use twinpath_control::service::{Instance, Paths, Service};
use twinpath_core::{Named, Steering};
use twinpath_fastpath::Interpreter;
use twinpath_node::wiring::{self, BuildError};
use twinpath_node::worker::Blueprint;
use twinpath_node::{FastElement, FastPath, Limits, Node, SlowElement, Worker};
use twinpath_slowpath::{Chain, NetworkFunction};

/// Whether a node can be built, without building its tables.
pub(super) fn check(setting: &Setting) -> Result<(), ParameterError> {
    let service = setting.service()?;
    let shares_state = service.chain.iter().any(|function| !function.makes_rules());
    let system = setting.parameters.system;
    if system == System::RuleCache && !service.chain.iter().any(Instance::makes_rules) {
        let message = "no function of the chain makes rules";
        return Err(ParameterError::new("system", message));
    }
    if system == System::ReadOnlyCache && !shares_state {
        return Err(ParameterError::new(
            "system",
            "no function of the chain has flow state",
        ));
    }
    Ok(())
}

impl Setting {
    /// The functions, element by element.
    pub(super) fn elements(&self) -> Result<Vec<Vec<String>>, ParameterError> {
        let service = self.service()?;
        let names =
            |instances: &[Instance]| instances.iter().map(|one| one.name.to_string()).collect();
        Ok(wiring::elements(&service).map(names).collect())
    }

    /// How packets of a flow find each other.
    pub(super) fn steering(&self) -> Result<Steering, ParameterError> {
        let steering = wiring::steering(&self.service()?);
        steering.map_err(|error| ParameterError::new("chain", error.to_string()))
    }
}

/// Devices bound what is under way, not the machine: it has room, and what they lose is lost there.
const LIMITS: Limits = Limits {
    ring_frames: 1 << 24,
    is_lossless: false,
    is_replay: false,
};

/// Builds the node.
pub(super) fn build(setting: &Setting) -> Result<Node, ParameterError> {
    let service = setting.service()?;
    let built = match setting.parameters.system {
        System::TwoPaths => wiring::build(&service, Paths::Both),
        System::ServerOnly | System::HeaderSplit => wiring::build(&service, Paths::Slow),
        System::RuleCache => rules_alone(&service),
        System::ReadOnlyCache => read_only(&service),
    };
    let mut node = built.map_err(|error| ParameterError::new("chain", error.to_string()))?;
    node.machine.set_limits(LIMITS);
    Ok(node)
}

/// Rules are cached; functions with flow state have all their packets on the cores (SFCache §III-B).
fn rules_alone(service: &Service) -> Result<Node, BuildError> {
    let mut node = wiring::build(service, Paths::Both)?;
    let elements = wiring::elements(service).map(|configs| match configs[0].makes_rules() {
        true => wiring::fast_rules(service, Paths::Both),
        false => FastElement::OnSlowPath,
    });
    let steering = wiring::steering(service)?;
    let sides = wiring::sides(service)?;
    *node.machine.path_mut() =
        FastPath::new(steering, sides, elements.collect(), node.workers.len());
    Ok(node)
}

/// Flow state may be read on the fast path and is written on the cores alone.
fn read_only(service: &Service) -> Result<Node, BuildError> {
    let mut node = wiring::build(service, Paths::Both)?;
    let chain = read_only_chain(service)?;
    let interpreter = Interpreter::new(&chain.programs())?;
    let stage = StateStage::new(wiring::coherence(service), interpreter, service.seed);
    let elements = vec![FastElement::State(Box::new(stage))];
    let steering = wiring::steering(service)?;
    let sides = wiring::sides(service)?;
    *node.machine.path_mut() = FastPath::new(steering, sides, elements, node.workers.len());
    let read_only = service.clone();
    let blueprint: Blueprint = Arc::new(move || {
        let chain = read_only_chain(&read_only)?;
        let cores = SlowFlows::new(chain, read_only.slow_path.flows, 1, read_only.seed);
        Ok(vec![SlowElement::Flows(Box::new(cores))])
    });
    for worker in &mut node.workers {
        *worker = Worker::new(Arc::clone(&blueprint), None)?;
    }
    Ok(node)
}

fn read_only_chain(service: &Service) -> Result<Chain, BuildError> {
    let sharing = service.chain.iter().filter(|one| !one.makes_rules());
    let functions = sharing.map(|instance| {
        let Named { name, function } = wiring::flow_function(service, instance)?;
        let function: Box<dyn NetworkFunction> = Box::new(ReadOnly(function));
        Ok(Named { name, function })
    });
    let functions: Result<_, BuildError> = functions.collect();
    Ok(Chain::named(functions?))
}
