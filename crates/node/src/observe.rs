//! What is seen of a run: live, over time, and at its end.

use crate::departure::{Departure, Via};
use crate::fast_path::FastPath;
use crate::figures::machine::{by_name, slot_counts};
use crate::figures::{MachineFigures, WorkerFigures, dash, rules, split};
use crate::health::Heartbeat;
use crate::machine::Machine;
use crate::worker::Worker;
use std::sync::{Arc, Mutex, PoisonError};
use twinpath_control::live::{Live, Snapshot, SplitSnapshot};
use twinpath_control::report::{
    KernelFigures, LatencyRecorder, PortLosses, Report, Series, SlotCounters,
};
use twinpath_core::{DropCounters, Pools};
use twinpath_nf::kv_store::Answers;

/// Watches a run.
pub struct Observer {
    live: Live,
    series: Series,
    fast: LatencyRecorder,
    slow: LatencyRecorder,
    packets_out: u64,
    packets_out_fast: u64,
    bytes_out: u64,
    /// What the fast path answers: a key-value store alone has it do that.
    answers: Answers,
    /// Slots when packets came in last.
    slots: SlotCounters,
    port_losses: PortLosses,
    heartbeat: Arc<Heartbeat>,
    /// Where there are several shards: which this is, and what is seen of all.
    shard: Option<(usize, ShardSnapshots)>,
}

/// What is seen of several shards, by shard.
#[derive(Clone, Debug)]
pub struct ShardSnapshots(Arc<[Mutex<Snapshot>]>);

impl ShardSnapshots {
    /// Nothing is seen yet of so many.
    pub fn new(shards: u16) -> Self {
        Self((0..shards).map(|_| Mutex::default()).collect())
    }

    fn put(&self, shard: usize, snapshot: Snapshot) {
        if let Some(place) = self.0.get(shard) {
            *place.lock().unwrap_or_else(PoisonError::into_inner) = snapshot;
        }
    }

    fn sum(&self) -> Snapshot {
        let mut sum = Snapshot::default();
        for place in self.0.iter() {
            sum.add(&place.lock().unwrap_or_else(PoisonError::into_inner));
        }
        sum
    }
}

/// Samples of the series start a millisecond of packet time apart; the series thins itself out.
const FIRST_INTERVAL_NS: u64 = 1_000_000;

impl Observer {
    /// An observer that shows progress on `live`.
    pub fn new(live: Live) -> Self {
        Self {
            live,
            series: Series::new(FIRST_INTERVAL_NS),
            fast: LatencyRecorder::new(),
            slow: LatencyRecorder::new(),
            packets_out: 0,
            packets_out_fast: 0,
            bytes_out: 0,
            answers: Answers::default(),
            slots: SlotCounters::default(),
            port_losses: PortLosses::default(),
            heartbeat: Arc::default(),
            shard: None,
        }
    }

    /// Watches one of several shards, of which the first shows what is seen of all.
    #[must_use]
    pub fn of_shard(self, shard: u16, snapshots: &ShardSnapshots) -> Self {
        Self {
            shard: Some((shard.into(), snapshots.clone())),
            ..self
        }
    }

    /// Adds what was seen of another shard.
    pub fn absorb(&mut self, other: &Self) {
        self.fast.merge(&other.fast);
        self.slow.merge(&other.slow);
        self.packets_out += other.packets_out;
        self.packets_out_fast += other.packets_out_fast;
        self.bytes_out += other.bytes_out;
        self.answers.add(&other.answers);
        self.slots.add(&other.slots);
    }

    /// So much was lost at ports so far.
    pub fn lost_at_ports(&mut self, losses: PortLosses) {
        self.port_losses = losses;
    }

    /// Packets have come in: what they find is told when the run is over, for then all state has gone
    /// home.
    #[inline]
    pub fn arrived(&mut self, machine: &Machine) {
        self.slots = slot_counts(machine.path());
    }

    /// A packet left.
    #[inline]
    pub fn departed(&mut self, departure: &Departure, latency_ns: u64) {
        self.packets_out += 1;
        self.bytes_out += departure.frame.len() as u64;
        match departure.via {
            Via::Fast => {
                self.packets_out_fast += 1;
                self.fast.record(latency_ns);
                if departure.is_reply {
                    self.answers.count(departure.frame.bytes());
                }
            }
            Via::Slow => self.slow.record(latency_ns),
        }
    }

    /// Time has passed: `packet_ns` of packet time and `wall_ns` of real time since the start.
    /// The workers' tallies, what was lost at ports, and what is followed of the kernel are asked for
    /// only if there is something to show.
    pub fn tick(
        &mut self,
        packet_ns: u64,
        wall_ns: u64,
        machine: &Machine,
        tallies: impl FnOnce() -> (Tallies, PortLosses, Option<KernelFigures>),
    ) {
        if !self.series.due(packet_ns) && !self.live.due(wall_ns) {
            return;
        }
        let (tallies, losses, kernel) = tallies();
        self.port_losses = losses;
        let mut snapshot = Snapshot {
            kernel,
            ..self.snapshot(machine.path(), tallies)
        };
        if let Some((shard, snapshots)) = &self.shard {
            snapshots.put(*shard, snapshot);
            if *shard != 0 {
                let own = Snapshot::default().sample(packet_ns);
                self.series.push(own);
                return;
            }
            snapshot = snapshots.sum();
        }
        self.series.push(snapshot.sample(packet_ns));
        self.live.update(wall_ns, &snapshot);
    }

    /// Packets that have passed the chain, without those that ports lost. What ports lose may be more:
    /// fragments, and questions about neighbours.
    fn packets_left(&self) -> u64 {
        let lost = self.port_losses.when_leaving();
        self.packets_out.saturating_sub(lost)
    }

    fn snapshot(&self, fast_path: &FastPath, tallies: Tallies) -> Snapshot {
        Snapshot {
            packets_out: self.packets_left(),
            packets_out_fast: self.packets_out_fast,
            bytes_out: self.bytes_out,
            port_losses: self.port_losses,
            ..inside(fast_path, tallies)
        }
    }

    /// The heartbeat of the threads that this run is on.
    pub fn heartbeat(&self) -> &Arc<Heartbeat> {
        &self.heartbeat
    }

    /// The same observer, of a run whose threads are watched.
    #[must_use]
    pub fn with_heartbeat(self, heartbeat: &Arc<Heartbeat>) -> Self {
        Self {
            heartbeat: Arc::clone(heartbeat),
            ..self
        }
    }

    /// What the machine's thread knows so far.
    pub fn figures(&self, packet_ns: u64, wall_ns: u64, machine: &Machine) -> MachineFigures {
        let mut figures = MachineFigures::of(machine);
        let report = &mut figures.report;
        report.totals.packets_out = self.packets_left();
        report.totals.bytes_out = self.bytes_out;
        report.port_losses = self.port_losses;
        report.slots = self.slots;
        report.run.duration_capture_ns = packet_ns;
        report.run.duration_wall_ns = wall_ns;
        figures.latency = [self.fast.clone(), self.slow.clone()];
        figures.answers = self.answers;
        figures
    }

    /// Ends the run: fills in the report's figures. Run information is the caller's.
    pub fn finish(
        self,
        packet_ns: u64,
        wall_ns: u64,
        machine: &Machine,
        workers: &[Worker],
        report: &mut Report,
    ) {
        self.finish_all(packet_ns, wall_ns, &[(machine, workers)], report);
    }

    /// The same of several shards, each a machine and its workers; at least one.
    pub fn finish_all(
        self,
        packet_ns: u64,
        wall_ns: u64,
        nodes: &[(&Machine, &[Worker])],
        report: &mut Report,
    ) {
        let Some(((first, _), others)) = nodes.split_first() else {
            return;
        };
        let mut figures = self.figures(packet_ns, wall_ns, first);
        for (machine, _) in others {
            figures.add(&MachineFigures::of(machine));
        }
        let mut snapshot = Snapshot {
            packets_out: self.packets_left(),
            packets_out_fast: self.packets_out_fast,
            bytes_out: self.bytes_out,
            port_losses: self.port_losses,
            ..Snapshot::default()
        };
        for (machine, workers) in nodes {
            snapshot.add(&inside(machine.path(), Tallies::of(workers)));
        }
        let workers = nodes.iter().flat_map(|(_, workers)| workers.iter());
        let workers: Vec<_> = workers.map(WorkerFigures::of).collect();
        figures.report(&workers, report);
        report.series = self.series.finish(snapshot.sample(packet_ns));
        snapshot.slots = self.slots;
        self.live.finish(wall_ns, &snapshot);
    }
}

/// What is seen inside a node, at one moment.
fn inside(fast_path: &FastPath, tallies: Tallies) -> Snapshot {
    let counts = fast_path.counters();
    let Tallies {
        mut drops,
        restarts,
    } = tallies;
    drops.absorb(fast_path.drops());
    Snapshot {
        packets_in: counts.packets_in,
        bytes_in: counts.bytes_in,
        packets_fast: counts.settled_packets(),
        packets_slow: counts.punted_packets,
        slots: slot_counts(fast_path),
        rules: rules::tables(fast_path),
        worker_restarts: restarts,
        drops: by_name(&drops),
        split: fast_path
            .split()
            .map(|stage| SplitSnapshot::of(&split::split(stage))),
        dash: fast_path.dash().map(|stage| dash::snapshot(stage.dpu())),
        ..Snapshot::default()
    }
}

/// What workers tell while they run.
#[derive(Clone, Debug, Default)]
pub struct Tallies {
    /// What they dropped.
    pub drops: DropCounters,
    /// How often each of them crashed and began anew.
    pub restarts: Vec<u64>,
}

impl Tallies {
    /// Those of workers that are at hand.
    pub fn of(workers: &[Worker]) -> Self {
        let mut tallies = Self::default();
        for worker in workers {
            tallies.add(&worker.drops(), worker.restarts());
        }
        tallies
    }

    /// Adds the next worker's.
    pub fn add(&mut self, drops: &DropCounters, restarts: u64) {
        self.drops.absorb(drops);
        self.restarts.push(restarts);
    }
}

/// Pools as the report shows them.
pub fn pool_figures(pools: &mut Pools, report: &mut Report) {
    let (small, large) = (pools.small().frames(), pools.large().frames());
    report.pool.frames += (small + large) as u64;
    report.pool.low_water_frames += (pools.small().low_water() + pools.large().low_water()) as u64;
    report.pool.exhausted_events += pools.small().exhausted() + pools.large().exhausted();
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A packet may be lost in several fragments, and a question about a neighbour is no packet of
    /// anybody.
    #[test]
    fn more_may_be_lost_at_ports_than_has_passed() {
        let mut observer = Observer::new(Live::hidden());
        observer.packets_out = 5;
        for (refused, left) in [(2, 3), (9, 0)] {
            observer.port_losses.transmit_refused = refused;
            assert_eq!(observer.packets_left(), left);
        }
    }
}
