//! The figures of a run, gathered party by party: the machine's thread tells what it knows, each
//! worker what it knows, and whoever wants a report puts them together. So it is at the end of a
//! run, and so it is while the run goes on, when each party tells between two bursts.

pub(crate) mod dash;
pub(crate) mod machine;
mod parking;
pub(crate) mod rules;
pub(crate) mod split;

use crate::worker::{LinkCounters, SlowElement, Worker};
use machine::by_name;
use std::sync::mpsc;
use twinpath_control::report::{
    Dash, Flows, FunctionCounters, LatencyRecorder, Report, RuleElement, RuleTableCounters, Rules,
};
use twinpath_core::DropCounters;
use twinpath_nf::kv_store::Answers;
use twinpath_slowpath::Eviction;

/// What a party of a run tells.
pub enum PartFigures {
    /// The machine's thread, and how many workers are still to tell.
    Machine(Box<MachineFigures>, usize),
    /// A worker.
    Worker(Box<WorkerFigures>),
}

/// What the machine's thread knows.
pub struct MachineFigures {
    /// What nobody else adds to, and what workers do.
    pub report: Report,
    /// What the fast path dropped.
    pub drops: DropCounters,
    /// Of both paths, the fast one first.
    pub latency: [LatencyRecorder; 2],
    /// By element of the chain.
    pub tables: Vec<RuleTableCounters>,
    /// What the fast path answers for a key-value store.
    pub answers: Answers,
}

/// What a worker knows.
#[derive(Clone, Debug)]
pub struct WorkerFigures {
    number: usize,
    drops: DropCounters,
    restarts: u64,
    link: LinkCounters,
    flows: Flows,
    functions: Vec<FunctionCounters>,
    /// Elements whose decisions are cached, with their numbers.
    rules: Vec<(u8, RuleElement)>,
    /// Key-value stores among the functions.
    stores: Vec<String>,
    /// A DPU that is on the slow path alone.
    dash: Option<Dash>,
}

impl WorkerFigures {
    /// Those of a worker that is at hand.
    pub fn of(worker: &Worker) -> Self {
        Self {
            number: 0,
            drops: worker.drops(),
            restarts: worker.restarts(),
            link: *worker.link_counters(),
            flows: flows(worker),
            functions: function_counters(worker),
            rules: rules::elements(worker),
            stores: stores(worker),
            dash: worker.whole_dash().map(|dash| dash::dash(dash.dpu())),
        }
    }

    /// A DPU that is on the slow path alone.
    pub const fn dash(&self) -> Option<&Dash> {
        self.dash.as_ref()
    }

    /// The same, of a worker with this number.
    #[must_use]
    pub fn numbered(self, number: usize) -> Self {
        Self { number, ..self }
    }
}

impl MachineFigures {
    /// Adds what another shard's machine knows.
    pub fn add(&mut self, other: &Self) {
        let (own, more) = (&mut self.report, &other.report);
        own.totals.packets_in += more.totals.packets_in;
        own.totals.bytes_in += more.totals.bytes_in;
        own.totals.packets_out += more.totals.packets_out;
        own.totals.bytes_out += more.totals.bytes_out;
        own.port_losses.add(&more.port_losses);
        own.slots.add(&more.slots);
        let (run, others) = (&mut own.run, &more.run);
        run.duration_capture_ns = run.duration_capture_ns.max(others.duration_capture_ns);
        run.duration_wall_ns = run.duration_wall_ns.max(others.duration_wall_ns);
        for (own, more) in [(&mut own.fast, more.fast), (&mut own.slow, more.slow)] {
            own.packets += more.packets;
            own.bytes += more.bytes;
        }
        own.coherence.add(&more.coherence);
        own.slots_at_end.add(&more.slots_at_end);
        if let (Some(own), Some(more)) = (&mut own.parking, &more.parking) {
            own.add(more);
        }
        match (&mut own.split, &more.split) {
            (Some(own), Some(more)) => own.add(more),
            (own, more) => *own = own.take().or_else(|| more.clone()),
        }
        match (&mut own.dash, &more.dash) {
            (Some(own), Some(more)) => own.add(more),
            (own, more) => *own = own.take().or_else(|| more.clone()),
        }
        self.drops.absorb(&other.drops);
        self.answers.add(&other.answers);
        for (own, more) in self.latency.iter_mut().zip(&other.latency) {
            own.merge(more);
        }
        for (own, more) in self.tables.iter_mut().zip(&other.tables) {
            own.add(more);
        }
    }

    /// The report that these and the workers' figures make. What was run, ports and buffers are the
    /// caller's.
    pub fn report(self, workers: &[WorkerFigures], report: &mut Report) {
        let [fast, slow] = &self.latency;
        let mut drops = self.drops;
        workers
            .iter()
            .for_each(|worker| drops.absorb(&worker.drops));
        let known = self.report;
        report.totals = known.totals;
        (report.fast, report.slow) = (known.fast, known.slow);
        report.drops = by_name(&drops);
        report.coherence = known.coherence;
        report.flows = Flows::default();
        for worker in workers {
            report.coherence.reordered_frames += worker.link.reordered;
            report.coherence.lost_frames += worker.link.lost;
            report.flows.add(&worker.flows);
        }
        report.worker_restarts = workers.iter().map(|worker| worker.restarts).collect();
        (report.slots, report.slots_at_end) = (known.slots, known.slots_at_end);
        report.rules = rules_of(&self.tables, workers);
        (report.parking, report.port_losses) = (known.parking, known.port_losses);
        report.split = known.split;
        report.dash = known.dash;
        for worker in workers {
            match (&mut report.dash, &worker.dash) {
                (Some(own), Some(more)) => own.add(more),
                (own, more) => *own = own.take().or_else(|| more.clone()),
            }
        }
        report.latency.fast = fast.percentiles();
        report.latency.slow = slow.percentiles();
        report.functions = functions(workers);
        if let Some(dash) = &report.dash {
            let is_dpu =
                |function: &&mut FunctionCounters| function.name == twinpath_nf::dash::NAME;
            let dpu = report.functions.iter_mut().find(is_dpu);
            dpu.into_iter().for_each(|dpu| dpu.counters = dash.totals());
        }
        add_answers(&self.answers, workers, &mut report.functions);
        report.run.duration_capture_ns = known.run.duration_capture_ns;
        report.run.duration_wall_ns = known.run.duration_wall_ns;
        report.settle();
    }
}

/// Puts together what the parties of all shards tell, each over a channel; nothing if one of them does
/// not. What was run is in `report` already.
pub fn gather(
    told: &[mpsc::Receiver<PartFigures>],
    wait: std::time::Duration,
    mut report: Report,
) -> Option<Report> {
    let (mut all, mut workers) = (None::<Box<MachineFigures>>, Vec::new());
    for told in told {
        let machine = gather_shard(told, wait, &mut workers)?;
        report.add_ports(&machine.report);
        report.pool.add(&machine.report.pool);
        match &mut all {
            None => all = Some(machine),
            Some(all) => all.add(&machine),
        }
    }
    all?.report(&workers, &mut report);
    Some(report)
}

/// The same of one shard; its workers are appended.
fn gather_shard(
    told: &mpsc::Receiver<PartFigures>,
    wait: std::time::Duration,
    workers: &mut Vec<WorkerFigures>,
) -> Option<Box<MachineFigures>> {
    let (mut machine, first, mut expected) = (None, workers.len(), usize::MAX);
    while machine.is_none() || workers.len() - first < expected {
        match told.recv_timeout(wait).ok()? {
            PartFigures::Machine(figures, count) => (machine, expected) = (Some(figures), count),
            PartFigures::Worker(figures) => workers.push(*figures),
        }
    }
    workers[first..].sort_by_key(|worker| worker.number);
    machine
}

/// What a worker knows, all elements together.
fn flows(worker: &Worker) -> Flows {
    let mut all = Flows::default();
    for flows in worker.flows() {
        let more = Flows {
            tables: 1,
            known: flows.store().len() as u64,
            half_open: flows.store().evictable(Eviction::HalfOpen) as u64,
            half_open_forgotten: flows.counters().half_open_forgotten,
            crowded: flows.store().crowded(),
        };
        all.add(&more);
    }
    all
}

/// The tables of an element are one in the report, and so is what the workers did there.
fn rules_of(tables: &[RuleTableCounters], workers: &[WorkerFigures]) -> Rules {
    let mut rules = Rules::default();
    for (place, worker) in workers.iter().enumerate() {
        let mut own = Rules::default();
        for (number, element) in &worker.rules {
            let mut element = element.clone();
            let table = tables.get(usize::from(*number)).filter(|_| place == 0);
            element.counts.table = table.copied().unwrap_or_default();
            own.push(element);
        }
        rules.add(own);
    }
    rules
}

/// Counters of each function in the chain's order, summed over the workers.
fn functions(workers: &[WorkerFigures]) -> Vec<FunctionCounters> {
    let mut functions: Vec<FunctionCounters> = Vec::new();
    for worker in workers {
        for (place, counted) in worker.functions.iter().enumerate() {
            match functions.get_mut(place) {
                None => functions.push(counted.clone()),
                Some(sum) => add_counters(sum, counted),
            }
        }
    }
    functions
}

fn add_counters(sum: &mut FunctionCounters, more: &FunctionCounters) {
    for (name, count) in &more.counters {
        *sum.counters.entry(name.clone()).or_default() += count;
    }
}

/// Requests to a key-value store are counted whichever path has answered.
fn add_answers(answers: &Answers, workers: &[WorkerFigures], functions: &mut [FunctionCounters]) {
    let names = workers.first().map_or(&[][..], |worker| &worker.stores);
    let is_store = |function: &&mut FunctionCounters| names.contains(&function.name);
    if let Some(store) = functions.iter_mut().find(is_store) {
        let counters = &mut store.counters;
        answers.counters(&mut |name, count| {
            *counters.entry(name.to_owned()).or_default() += count;
        });
    }
}

fn stores(worker: &Worker) -> Vec<String> {
    let functions = worker.flows().flat_map(|flows| flows.chain().functions());
    let stores = functions.filter(|function| function.kv_port().is_some());
    stores.map(|function| function.name.to_string()).collect()
}

/// Takes a counter's name and value.
type EachCounter<'a> = dyn FnMut(&'static str, u64) + 'a;

/// Counters of each of a worker's functions, in the chain's order.
fn function_counters(worker: &Worker) -> Vec<FunctionCounters> {
    let mut functions = Vec::new();
    let mut add = |name: &str, counts: &dyn Fn(&mut EachCounter<'_>)| {
        let mut function = FunctionCounters {
            name: name.to_owned(),
            ..FunctionCounters::default()
        };
        let counters = &mut function.counters;
        counts(&mut |name, count| *counters.entry(name.to_owned()).or_default() += count);
        functions.push(function);
    };
    for element in worker.elements() {
        match element {
            SlowElement::Flows(flows) => flows.chain().functions().iter().for_each(|function| {
                add(&function.name, &|counter| function.counters(counter));
            }),
            SlowElement::Dash(_) => add(twinpath_nf::dash::NAME, &|_| ()),
            SlowElement::Rules(rules) => rules.functions().iter().for_each(|function| {
                add(&function.name, &|counter| function.counters(counter));
            }),
        }
    }
    functions
}
