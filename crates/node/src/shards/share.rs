//! What a shard has of a service.

use crate::build_error::BuildError;
use std::sync::Arc;
use twinpath_control::service::{Instance, Service};
use twinpath_core::Share;
use twinpath_nf::shard::{HostShards, Shard};

/// The service as one shard's node has it: slots, flows, exact rules and what functions give out are
/// divided. All other sizes are each shard's.
///
/// # Errors
/// A function has not enough for so many shards.
pub fn share(service: &Service, shard: Shard) -> Result<Service, BuildError> {
    let mut own = service.clone();
    if shard.of == 1 {
        return Ok(own);
    }
    own.fast_path.slots = shard.share(service.fast_path.slots);
    own.fast_path.sketch_width = shard.share(service.fast_path.sketch_width);
    own.slow_path.flows = shard.share(service.slow_path.flows);
    own.slow_path.half_open = service.slow_path.half_open.map(|most| {
        let own = shard.share(most.get() as usize) as u32;
        own.try_into().unwrap_or(most)
    });
    own.rule_cache.exact = shard.share(service.rule_cache.exact);
    own.rule_cache.identifications = Share::of_fast_path(shard.number, shard.of);
    if let Some(split) = &mut own.split {
        split.become_share_of(shard);
    }
    let hosts = HostShards::new(service.seed, shard.of);
    for instance in &mut own.chain {
        take_part(instance, shard, hosts)?;
    }
    Ok(own)
}

fn take_part(instance: &mut Instance, shard: Shard, hosts: HostShards) -> Result<(), BuildError> {
    let part = instance.config.of_shard(shard, hosts);
    let part = part.map_err(|source| BuildError::Function {
        function: instance.name.to_string(),
        source,
    })?;
    if let Some(config) = part {
        instance.config = Arc::clone(&config);
    }
    Ok(())
}
