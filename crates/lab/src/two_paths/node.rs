//! The node of a system: production's, with less on the fast path in some.

use super::parameters::{DeviceName, Setting, System};
use crate::model::ParameterError;
use twinpath_control::service::{Instance, Paths};
use twinpath_core::Steering;
use twinpath_fastpath::Budget;
use twinpath_node::wiring::BuildError;
use twinpath_node::{Limits, Node, NodeConfig, wiring};

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
    match setting.parameters.device {
        DeviceName::Software => Ok(()),
        DeviceName::Asic => setting.refusal()?.map_or(Ok(()), |why| {
            let message =
                format!("{why}; with device = \"software\" the plan claims nothing about a switch");
            Err(ParameterError::new("device", message))
        }),
    }
}

impl Setting {
    /// Whether the fast path has flow state.
    pub(super) fn has_state(&self) -> bool {
        matches!(
            self.parameters.system,
            System::TwoPaths | System::ReadOnlyCache
        )
    }

    /// Why a switch's ASIC has no room for the chain's flow state, if it has none.
    pub(super) fn refusal(&self) -> Result<Option<String>, ParameterError> {
        if !self.has_state() {
            return Ok(None);
        }
        let chain = |error: BuildError| ParameterError::new("chain", error.to_string());
        let service = self.service()?;
        let programs = wiring::chain(&service).map_err(chain)?.programs();
        let (asic, ways) = (Budget::asic(), self.parameters.ways);
        if ways > asic.ways {
            return Ok(Some(format!(
                "{ways} ways of a bucket; asic has {}",
                asic.ways
            )));
        }
        let placed = asic.place(&programs, service.fast_path.slots);
        Ok(placed.err().map(|error| error.to_string()))
    }

    /// What runs the flow state, and whether a switch could.
    pub(super) fn remark(&self) -> Option<String> {
        let chain = &self.parameters.chain;
        if self.parameters.system == System::RuleCache {
            return Some(format!(
                "{chain}: the tables of a cache of rules are as large as the testbed says; they are not charged to our \
                 budget of a switch's ASIC."
            ));
        }
        if !self.has_state() {
            return None;
        }
        Some(match self.refusal().ok()? {
            None => format!("{chain}: its flow state fits the budget of a switch's ASIC."),
            Some(why) => format!(
                "{chain}: the fast path is software here, as fast as the testbed's switch. Our budget of a switch's \
                 ASIC refuses the program: {why}."
            ),
        })
    }

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
    let built = node_config(setting)?.build();
    let mut node = built.map_err(|error| ParameterError::new("chain", error.to_string()))?;
    node.machine.set_limits(LIMITS);
    Ok(node)
}

/// What the node is built from.
pub(super) fn node_config(setting: &Setting) -> Result<NodeConfig, ParameterError> {
    let system = setting.parameters.system;
    let paths = match system {
        System::ServerOnly | System::HeaderSplit => Paths::Slow,
        System::TwoPaths | System::RuleCache | System::ReadOnlyCache => Paths::Both,
    };
    let config = NodeConfig::of(&setting.service()?, paths);
    let mut config = config.map_err(|error| ParameterError::new("chain", error.to_string()))?;
    if system == System::RuleCache {
        // Functions with flow state have all their packets on the slow path (SFCache §III-B).
        config.has_room.fill(false);
    }
    Ok(config)
}
