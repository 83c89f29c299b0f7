//! What the catalogue knows of load balancers.

use super::{Config, LoadBalancer, NAME, Prepared, RuleBalancer};
use crate::catalogue::{
    self, Descriptor, Form, Function, FunctionConfig, FunctionError, SuccessionError,
};
use std::path::Path;
use std::sync::Arc;
use twinpath_rulecache::Change;

/// The function.
pub const FUNCTION: Descriptor = Descriptor {
    name: NAME,
    form: Form::Flow,
    placement: "a connection's backend is its state, which both paths hold; choosing one is for the cores",
    needs_section: true,
    read: catalogue::read::<Config>,
};

/// The function where it makes rules.
const RULES: Descriptor = Descriptor {
    form: Form::Rules,
    placement: "a connection's entry decides, once its backend is chosen; what opens or ends one is for the cores",
    ..FUNCTION
};

/// The configuration of a balancer that makes rules.
#[derive(Clone, Debug)]
struct RuleConfig(Config);

/// The functions of a chain, each in the form that suits the others: a load balancer beside
/// functions that share flow state shares its own, else it makes rules as they do.
pub fn suit(chain: &mut [Arc<dyn FunctionConfig>]) {
    let is_balancer = |config: &Arc<dyn FunctionConfig>| config.of::<Config>().is_some();
    let shares = |config: &Arc<dyn FunctionConfig>| !config.makes_rules() && !is_balancer(config);
    if chain.iter().any(shares) || !chain.iter().any(|config| config.makes_rules()) {
        return;
    }
    for function in chain {
        if let Some(config) = function.of::<Config>() {
            *function = Arc::new(RuleConfig(config.clone()));
        }
    }
}

impl FunctionConfig for Config {
    fn descriptor(&self) -> &'static Descriptor {
        &FUNCTION
    }

    fn needs_payload(&self) -> Option<&'static str> {
        None
    }

    fn build(&self, _folder: &Path, _seed: u64) -> Result<Function, FunctionError> {
        Ok(Function::flow(LoadBalancer::new(self)))
    }

    fn check_succession(&self, former: &dyn FunctionConfig) -> Result<(), SuccessionError> {
        match former.of::<RuleConfig>() {
            None => Ok(()),
            Some(_) => Err(SuccessionError(
                "its connections are entries that rules come from and would be state of their flows: expected a chain in which they stay what they are, or one without load_balancer in between",
            )),
        }
    }
}

impl FunctionConfig for RuleConfig {
    fn descriptor(&self) -> &'static Descriptor {
        &RULES
    }

    fn needs_payload(&self) -> Option<&'static str> {
        None
    }

    fn build(&self, _folder: &Path, seed: u64) -> Result<Function, FunctionError> {
        let prepared = Prepared::new(&self.0);
        Ok(Function::rules(RuleBalancer::new(prepared, seed)))
    }

    fn change(&self, _folder: &Path, _seed: u64) -> Result<Option<Change>, FunctionError> {
        let prepared = Prepared::new(&self.0);
        Ok(Some(Change::of::<RuleBalancer>(prepared)))
    }

    fn check_succession(&self, former: &dyn FunctionConfig) -> Result<(), SuccessionError> {
        match former.of::<Config>() {
            None => Ok(()),
            Some(_) => Err(SuccessionError(
                "its connections are state of their flows and would be entries that rules come from: expected a chain in which they stay what they are, or one without load_balancer in between",
            )),
        }
    }
}
