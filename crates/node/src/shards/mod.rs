//! A service spread over shards: each is a whole node with threads of its own, which has some of the
//! connections and shares nothing with others that packets change.
//!
//! A packet's [`Partition`] says which shard it belongs to. A shard's node is built from
//! [its share](share()) of the service. Where packets come from a capture or a generator, each shard
//! reads that by itself and takes its [`Part`]; what leaves all of them is [`Merged`] in the order of
//! time.

mod merged;
mod part;
mod partition;
mod share;

pub use merged::{Merged, MergedEnd};
pub use part::{Clocks, Part};
pub use partition::Partition;
pub use share::share;

use crate::command::no_commands;
use crate::observe::Observer;
use crate::run::{Ports, RunError, drive};
use crate::sink::Sink;
use crate::source::Source;
use crate::wiring::{Node, NodeConfig};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use twinpath_control::service::{Execution, Service};
use twinpath_nf::shard::Shard;
use twinpath_slowpath::Common;

/// A shard that is about to run.
pub struct ShardRun {
    /// Which one.
    pub shard: Shard,
    /// What it has of the service.
    pub service: Service,
    /// Its node.
    pub node: Node,
    /// Where its packets come from.
    pub source: Source,
    /// Who watches it.
    pub observer: Observer,
}

/// Builds the nodes of all shards: what limits a host counts in all of them together.
///
/// # Errors
/// The parts do not go together, or there is not enough of something for so many.
pub fn nodes(service: &Service) -> Result<Vec<(Shard, Service, Node)>, RunError> {
    let common = Common::default();
    let shards = Shard::all(service.run.shards.0);
    let built = shards.map(|shard| {
        let own = share(service, shard)?;
        let node = NodeConfig::of(&own, own.run.paths)?.build_with(&common)?;
        Ok((shard, own, node))
    });
    built.collect()
}

/// The parts of sources that each shard reads by itself.
///
/// # Errors
/// A file that a function needs cannot be read.
pub fn parts(service: &Service, sources: Vec<Source>) -> Result<Vec<Source>, RunError> {
    let shards = sources.len() as u16;
    let partition = Arc::new(Partition::of(service, shards)?);
    // Virtual time has no threads that could wait for each other.
    let is_virtual = service.run.execution == Execution::Virtual;
    let clocks = (!is_virtual).then(|| Clocks::new(shards));
    let parts = sources.into_iter().zip(Shard::all(shards));
    let parts = parts.map(|(source, shard)| {
        source.of_shard(Part::new(Arc::clone(&partition), shard, clocks.clone()))
    });
    Ok(parts.collect())
}

/// Runs all shards to their end, each on a thread of its own. Returns how much packet time passed at
/// most, and the sink.
///
/// # Errors
/// Packets cannot be read or written.
pub fn drive_all<S: Sink + Send>(
    ports: &Ports,
    shards: &mut [ShardRun],
    sink: S,
    is_stopped: &AtomicBool,
) -> Result<(Duration, S), RunError> {
    let merged = Merged::new(sink, shards.len() as u16);
    let passed = std::thread::scope(|scope| {
        let runs = shards.iter_mut().map(|one| {
            let mut end = merged.end(one.shard.number);
            scope.spawn(move || one.drive(ports, &mut end, is_stopped))
        });
        let runs: Vec<_> = runs.collect();
        let ended = runs.into_iter().map(|run| match run.join() {
            Ok(passed) => passed,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        // All are over before the first mishap is told.
        let ended: Vec<_> = ended.collect();
        ended
            .into_iter()
            .collect::<Result<Vec<Duration>, RunError>>()
    })?;
    let longest = passed.into_iter().max().unwrap_or_default();
    Ok((longest, merged.into_sink()))
}

impl ShardRun {
    fn drive<S: Sink>(
        &mut self,
        ports: &Ports,
        sink: &mut S,
        is_stopped: &AtomicBool,
    ) -> Result<Duration, RunError> {
        let passed = drive(
            &self.service,
            ports,
            &mut self.node,
            &mut self.source,
            sink,
            &mut self.observer,
            &no_commands(),
            is_stopped,
        );
        // Other shards no longer wait for this one, nor does what has left them.
        self.source.leave_shard();
        sink.advance(twinpath_core::Instant::NEVER)?;
        passed
    }
}
