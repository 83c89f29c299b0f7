//! All that is wrong with a service that is sound as a file.

use super::NodeConfig;
use super::functions::function;
use crate::build_error::BuildError;
use twinpath_control::service::Service;

/// Why a node cannot be built of a service: everything that each of its functions says, or else why its
/// parts do not go together. Nothing of the service's sizes is taken.
pub fn faults(service: &Service) -> Vec<BuildError> {
    let functions = service.chain.iter();
    let faults: Vec<_> = functions
        .filter_map(|one| function(service, one).err())
        .collect();
    if !faults.is_empty() {
        return faults;
    }
    let mut few = service.clone();
    few.fast_path.slots = few.fast_path.slots.min(FEW);
    few.slow_path.flows = few.slow_path.flows.min(FEW);
    few.slow_path.workers = 1;
    few.rule_cache.exact = few.rule_cache.exact.min(FEW);
    few.rule_cache.masked = few.rule_cache.masked.min(FEW);
    few.link.ring_frames = few.link.ring_frames.min(FEW);
    // The device's room depends on the size of the table.
    let fits = NodeConfig::of(service, service.run.paths);
    let built = fits.and_then(|_| NodeConfig::of(&few, few.run.paths)?.build());
    built.err().into_iter().collect()
}

/// What is built to see whether it can be has no more than so many of everything.
const FEW: usize = 1 << 10;
