//! Services over several shards.

use super::{Leaving, Outcome, copy, undrawn_flows};
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use twinpath_control::live::Live;
use twinpath_control::report::Report;
use twinpath_control::service::{Execution, Pace, Service, Shards};
use twinpath_io::Trace;
use twinpath_node::Ports;
use twinpath_node::command::no_commands;
use twinpath_node::observe::Observer;
use twinpath_node::run::shards::{Ends, ShardRun, drive_all, nodes, parts};
use twinpath_node::shards::CurrentPartition;
use twinpath_node::source::Source;

/// The same service over so many shards.
pub fn spread(service: &Service, shards: u16, execution: Execution) -> Service {
    let mut service = service.clone();
    service.run.shards = Shards(shards);
    (service.run.execution, service.run.pace) = (execution, Some(Pace::Lossless));
    service
}

/// What shards did: what left, and how many packets came to each.
pub struct Spread {
    pub outcome: Outcome,
    pub arrived: Vec<u64>,
}

/// Runs its shards over packets in memory.
pub fn run_shards(service: &Service, trace: &Trace) -> Spread {
    let sources = (0..service.run.shards.0).map(|_| Source::trace(copy(trace)));
    let partition = CurrentPartition::of(service, service.run.shards.0).expect("no files");
    let sources = parts(service, sources.collect(), &partition);
    let built = nodes(service).expect("enough for all");
    let runs = built.into_iter().zip(sources);
    let mut runs: Vec<ShardRun> = runs
        .map(|((shard, service, node), source)| ShardRun {
            shard,
            service,
            node,
            ends: Ends::Source(Box::new(source)),
            observer: Observer::new(Live::hidden()),
            commands: no_commands(),
        })
        .collect();
    let ports = Ports {
        input: Some(PathBuf::from("memory")),
        ..Ports::default()
    };
    let sink = Leaving::default();
    let ran = drive_all(&ports, &mut runs, sink, &AtomicBool::new(false));
    let (_, sink) = ran.expect("memory never fails");
    let arrived = |one: &ShardRun| one.node.machine.path().counters().packets_in;
    let arrived = runs.iter().map(arrived).collect();
    let mut report = Report::default();
    let nodes: Vec<_> = runs
        .iter()
        .map(|one| (&one.node.machine, &*one.node.workers))
        .collect();
    Observer::new(Live::hidden()).finish_all(0, 0, &nodes, &mut report);
    let packets = sink.packets.iter().map(|(_, packet)| packet.clone());
    Spread {
        outcome: Outcome {
            flows: undrawn_flows(service, packets.collect()),
            packets: sink.packets,
            ports: sink.ports,
            report,
        },
        arrived,
    }
}
