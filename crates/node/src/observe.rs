//! What is seen of a run: live, over time, and at its end.

mod parking;
mod rules;

use crate::fast_path::{Departure, FastPath, Via};
use crate::machine::Machine;
use crate::worker::{SlowElement, Worker};
use twinpath_control::live::{Live, Snapshot};
use twinpath_control::report::{
    Coherence, Flows, FunctionCounters, LatencyRecorder, PortLosses, Report, Series, SlotCounters,
};
use twinpath_core::{DropCounters, DropReason, Pools};
use twinpath_nf::kv_store::Answers;
use twinpath_slowpath::Eviction;

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
        }
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
    /// The workers' tallies, and what was lost at ports, are asked for only if there is something to
    /// show.
    pub fn tick(
        &mut self,
        packet_ns: u64,
        wall_ns: u64,
        machine: &Machine,
        tallies: impl FnOnce() -> (Tallies, PortLosses),
    ) {
        if !self.series.due(packet_ns) && !self.live.due(wall_ns) {
            return;
        }
        let (tallies, losses) = tallies();
        self.port_losses = losses;
        let snapshot = self.snapshot(machine.path(), tallies);
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
        let counts = fast_path.counters();
        let Tallies {
            mut drops,
            restarts,
        } = tallies;
        drops.absorb(fast_path.drops());
        Snapshot {
            packets_in: counts.packets_in,
            bytes_in: counts.bytes_in,
            packets_out: self.packets_left(),
            packets_out_fast: self.packets_out_fast,
            bytes_out: self.bytes_out,
            packets_fast: counts.packets_in - counts.punted_packets,
            packets_slow: counts.punted_packets,
            slots: slot_counts(fast_path),
            rules: rules::tables(fast_path),
            worker_restarts: restarts,
            drops: by_name(&drops),
            port_losses: self.port_losses,
        }
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
        let fast_path = machine.path();
        let mut snapshot = self.snapshot(fast_path, Tallies::of(workers));
        let counts = fast_path.counters();
        report.totals.packets_in = snapshot.packets_in;
        report.totals.bytes_in = counts.bytes_in;
        report.totals.packets_out = self.packets_left();
        report.totals.bytes_out = self.bytes_out;
        report.slow.packets = counts.punted_packets;
        report.slow.bytes = counts.punted_bytes;
        report.fast.packets = counts.packets_in - counts.punted_packets;
        report.fast.bytes = counts.bytes_in - counts.punted_bytes;
        report.drops = snapshot.drops.clone();
        report.port_losses = self.port_losses;
        report.worker_restarts.clone_from(&snapshot.worker_restarts);
        report.coherence = coherence(fast_path, workers);
        report.flows = flows(workers);
        report.slots = self.slots;
        report.slots_at_end = slot_counts(fast_path);
        report.rules = rules::rules(fast_path, workers);
        report.parking = fast_path.parking().map(parking::parking);
        report.latency.fast = self.fast.percentiles();
        report.latency.slow = self.slow.percentiles();
        report.functions = function_counters(workers);
        add_answers(&self.answers, workers, &mut report.functions);
        report.rings.full_events = fast_path.drops().of(DropReason::PuntRingFull);
        report.run.duration_capture_ns = packet_ns;
        report.run.duration_wall_ns = wall_ns;
        report.series = self.series.finish(snapshot.sample(packet_ns));
        report.settle();
        snapshot.slots = self.slots;
        self.live.finish(wall_ns, &snapshot);
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
    report.pool.frames = (small + large) as u64;
    report.pool.low_water_frames = (pools.small().low_water() + pools.large().low_water()) as u64;
    report.pool.exhausted_events = pools.small().exhausted() + pools.large().exhausted();
}

fn by_name(drops: &DropCounters) -> std::collections::BTreeMap<String, u64> {
    drops
        .nonzero()
        .map(|(reason, count)| (reason.name().to_owned(), count))
        .collect()
}

fn slot_counts(fast_path: &FastPath) -> SlotCounters {
    let mut all = SlotCounters::default();
    for stage in fast_path.stages() {
        let [initial, incomplete, active, frozen] = stage.counters().population;
        all.capacity += stage.slots() as u64;
        all.initial += initial;
        all.incomplete += incomplete;
        all.active += active;
        all.frozen += frozen;
    }
    all
}

fn coherence(fast_path: &FastPath, workers: &[Worker]) -> Coherence {
    let stats = fast_path.coherence();
    let counts = fast_path.counters();
    let (reordered, lost) = workers.iter().fold((0, 0), |(reordered, lost), worker| {
        let link = worker.link_counters();
        (reordered + link.reordered, lost + link.lost)
    });
    Coherence {
        pulls: stats.pulls,
        pulls_granted: stats.installs,
        pulls_declined: stats.declines,
        cancellations: stats.cancellations,
        rearms: stats.rearms,
        incomplete_timeouts: stats.incomplete_timeouts,
        write_backs: stats.write_backs + stats.idle_write_backs,
        write_back_retries: stats.write_back_retries,
        ttl_write_backs: stats.idle_write_backs,
        acknowledgements: stats.acknowledgements,
        stale_messages_ignored: stats.stale_messages,
        collisions: stats.collisions,
        reordered_frames: counts.link_reordered + reordered,
        lost_frames: counts.link_lost + lost,
    }
}

/// What the workers know, element by element.
fn flows(workers: &[Worker]) -> Flows {
    let mut all = Flows::default();
    for element in workers.iter().flat_map(Worker::elements) {
        if let SlowElement::Flows(flows) = element {
            all.known += flows.store().len() as u64;
            all.half_open += flows.store().evictable(Eviction::HalfOpen) as u64;
            all.half_open_forgotten += flows.counters().half_open_forgotten;
            all.crowded += flows.store().crowded();
        }
    }
    all
}

/// Counters of each function in the chain's order, summed over the workers.
fn function_counters(workers: &[Worker]) -> Vec<FunctionCounters> {
    let mut functions: Vec<FunctionCounters> = Vec::new();
    for worker in workers {
        let mut place = 0;
        each_function(worker, &mut |name, counts| {
            if place == functions.len() {
                functions.push(FunctionCounters {
                    name: name.to_owned(),
                    ..FunctionCounters::default()
                });
            }
            let counters = &mut functions[place].counters;
            counts(&mut |name, count| *counters.entry(name.to_owned()).or_default() += count);
            place += 1;
        });
    }
    functions
}

/// Requests to a key-value store are counted whichever path has answered.
fn add_answers(answers: &Answers, workers: &[Worker], functions: &mut [FunctionCounters]) {
    let mut names = Vec::new();
    let elements = workers.first().map_or(&[][..], Worker::elements);
    for element in elements {
        if let SlowElement::Flows(flows) = element {
            let stores = flows.chain().functions().iter();
            let stores = stores.filter(|function| function.kv_port().is_some());
            names.extend(stores.map(|function| function.name.to_string()));
        }
    }
    let is_store = |function: &&mut FunctionCounters| names.contains(&function.name);
    if let Some(store) = functions.iter_mut().find(is_store) {
        let counters = &mut store.counters;
        answers.counters(&mut |name, count| {
            *counters.entry(name.to_owned()).or_default() += count;
        });
    }
}

/// Takes a counter's name and value.
type EachCounter<'a> = dyn FnMut(&'static str, u64) + 'a;

/// Takes a function's name and what tells its counters.
type EachFunction<'a> = dyn FnMut(&str, &dyn Fn(&mut EachCounter<'_>)) + 'a;

/// Calls `each` with every function.
fn each_function(worker: &Worker, each: &mut EachFunction<'_>) {
    for element in worker.elements() {
        match element {
            SlowElement::Flows(flows) => flows.chain().functions().iter().for_each(|function| {
                each(&function.name, &|counter| function.counters(counter));
            }),
            SlowElement::Rules(rules) => rules.functions().iter().for_each(|function| {
                each(&function.name, &|counter| function.counters(counter));
            }),
        }
    }
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
