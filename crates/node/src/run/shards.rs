//! The shards of a run: each is built from its share of the service, and has a thread of its own.

use super::drive::{drive, drive_live};
use super::{Ports, RunError};
use crate::command::Commands;
use crate::live_ports::LivePorts;
use crate::mirror::Mirror;
use crate::observe::Observer;
use crate::pinning;
use crate::shards::{Across, CurrentPartition, Merged, share};
use crate::sink::Sink;
use crate::source::{Clocks, Part, Source};
use crate::thread_name;
use crate::wiring::{Node, NodeConfig};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use twinpath_control::service::{Execution, Service};
use twinpath_core::counted;
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
    pub ends: Ends,
    /// Who watches it.
    pub observer: Observer,
    /// What its operator wants.
    pub commands: Commands,
}

/// Where a shard's packets come from, and go if that is the same.
pub enum Ends {
    /// From a source; they go to a sink.
    Source(Box<Source>),
    /// They are exchanged with network interfaces.
    Live(Box<LivePorts>),
}

impl Ends {
    /// The network interfaces.
    pub fn live(&self) -> Option<&LivePorts> {
        match self {
            Self::Source(_) => None,
            Self::Live(ports) => Some(ports),
        }
    }
}

/// What is told of a service with more shards than processors that it may run on.
pub fn crowded(service: &Service) -> Option<String> {
    let processors = std::thread::available_parallelism().ok()?.get();
    match service.run.execution {
        Execution::Threads => crowded_on(processors, service),
        // One thread does it all.
        Execution::Virtual => None,
    }
}

fn crowded_on(processors: usize, service: &Service) -> Option<String> {
    let shards = usize::from(service.run.shards.0);
    let (processors_told, workers) = (
        counted(processors as u64, "processor"),
        counted(service.slow_path.workers as u64, "worker"),
    );
    (shards > processors.max(1)).then(|| {
        format!(
            "{shards} shards on {processors_told}: each has a thread for its fast path, which wants a processor of its own, and {workers} beside it; starting may take a minute, and packets wait for their turn (expected at most {processors} in [run] shards)"
        )
    })
}

/// Builds the nodes of all shards: what limits a host counts in all of them together.
///
/// # Errors
/// The parts do not go together, or there is not enough of something for so many.
pub fn nodes(service: &Service) -> Result<Vec<(Shard, Service, Node)>, RunError> {
    let (common, mirror) = (Common::default(), Arc::<Mirror>::default());
    let shards = Shard::all(service.run.shards.0);
    let built = shards.map(|shard| {
        let own = share(service, shard)?;
        let mut node = NodeConfig::of(&own, own.run.paths)?.build_with(&common, &mirror)?;
        node.cpus = pinning::of_shard(own.run.cpus, shard.number, node.workers.len());
        node.shard = (service.run.shards.0 > 1).then_some(shard.number);
        Ok((shard, own, node))
    });
    built.collect()
}

/// The parts of sources that each shard reads by itself.
pub fn parts(service: &Service, sources: Vec<Source>, partition: &CurrentPartition) -> Vec<Source> {
    let shards = sources.len() as u16;
    // Virtual time has no threads that could wait for each other.
    let is_virtual = service.run.execution == Execution::Virtual;
    let clocks = (!is_virtual).then(|| Clocks::new(shards));
    let has_crossings = partition.clone().get().has_crossings();
    let across = Across::all(shards).into_iter();
    let across = across.map(|end| Some(end).filter(|_| has_crossings));
    let parts = sources.into_iter().zip(Shard::all(shards)).zip(across);
    let part = |((source, shard), across): ((Source, _), _)| {
        let part = Part::new(partition.clone(), shard, clocks.clone(), across);
        source.of_shard(part)
    };
    parts.map(part).collect()
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
    if let [only] = shards {
        let mut sink = sink;
        let passed = only.drive(ports, &mut sink, is_stopped)?;
        return Ok((passed, sink));
    }
    let merged = Merged::new(sink, shards.len() as u16);
    let passed = std::thread::scope(|scope| {
        let runs = shards.iter_mut().map(|one| {
            let mut end = merged.end(one.shard.number);
            scope.spawn(move || {
                thread_name::take(&thread_name::of_fast_path(one.shard.number));
                one.drive_to_end(ports, &mut end, is_stopped)
            })
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
    /// As [`Self::drive`]; then no other shard waits for this one, nor does what has left them.
    fn drive_to_end<S: Sink>(
        &mut self,
        ports: &Ports,
        sink: &mut S,
        is_stopped: &AtomicBool,
    ) -> Result<Duration, RunError> {
        let passed = self.drive(ports, sink, is_stopped);
        if let Ends::Source(source) = &mut self.ends {
            source.leave_shard();
        }
        sink.advance(twinpath_core::Instant::NEVER)?;
        passed
    }

    fn drive<S: Sink>(
        &mut self,
        ports: &Ports,
        sink: &mut S,
        is_stopped: &AtomicBool,
    ) -> Result<Duration, RunError> {
        let (service, node, observer) = (&self.service, &mut self.node, &mut self.observer);
        let commands = &self.commands;
        match &mut self.ends {
            Ends::Source(source) => drive(
                service, ports, node, source, sink, observer, commands, is_stopped,
            ),
            Ends::Live(packets) => {
                drive_live(service, node, packets, observer, commands, is_stopped)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn more_shards_than_processors_are_warned_of() {
        let service = |shards: u16| {
            let text = format!(
                "[service]\nchain = [\"firewall\"]\n[firewall]\ndefault = \"allow\"\n[run]\nshards = {shards}\n"
            );
            Service::parse(&text, Path::new("x.toml")).expect("sound")
        };
        assert_eq!(crowded_on(4, &service(4)), None);
        assert_eq!(crowded_on(1, &service(1)), None);
        let told = crowded_on(2, &service(64)).expect("there are too many");
        assert!(told.starts_with("64 shards on 2 processors: "), "{told}");
        assert!(crowded_on(1, &service(2)).is_some_and(|told| told.contains("1 processor:")));
    }
}
