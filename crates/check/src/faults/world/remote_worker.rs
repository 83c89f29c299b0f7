//! A worker of production, and the lines to and from it.

use super::STARTED;
use super::line::Line;
use crate::faults::draw::{self, Draw};
use crate::faults::scenario::Scenario;
use std::any::Any;
use std::collections::VecDeque;
use twinpath_coherence::{Grant, SlowFlows};
use twinpath_core::{DropReason, FlowKey, Frame, Pools};
use twinpath_node::machine::{Progress, Time, WorkerAnswer, WorkerCommand};
use twinpath_node::{SlowElement, Worker};
use twinpath_rulecache::RuleFunction;
use twinpath_slowpath::FlowId;

/// What a flow is found by: the element, and the key there with its hash.
pub type FlowName<'a> = (u8, &'a FlowKey, u64);

/// A worker, with all that waits for it.
pub struct RemoteWorker {
    pub worker: Worker,
    pub pools: Pools,
    /// The line to it.
    pub to: Line,
    /// The line from it.
    pub from: Line,
    /// What it is to do.
    pub commands: VecDeque<WorkerCommand>,
    /// What it has said and the machine has not heard yet.
    reports: VecDeque<Report>,
    /// What the machine has heard last of it.
    heard: (u32, Progress),
    /// What time it was told last.
    pub told: Time,
    /// Frames that it has put out and that are not sent yet.
    pub returns: Vec<Frame>,
    pub paused_until: u64,
    /// Frames that wait until it goes on, by their tickets.
    pub waiting: VecDeque<u64>,
}

/// How far a worker was when it had put out so many frames, and what it answered then.
pub struct Report {
    /// The number of the last frame that it had given back.
    returned: u32,
    pub progress: Progress,
    pub answer: Option<WorkerAnswer>,
}

/// What a worker has counted.
pub struct Counted {
    pub imports: u64,
    pub dropped: u64,
    pub reordered: u64,
    pub lost: u64,
}

impl RemoteWorker {
    /// The worker of this number, with its buffers, which starts now.
    pub fn new(
        (mut worker, pools): (Worker, Pools),
        scenario: &Scenario,
        (seed, number): (u64, usize),
    ) -> Self {
        worker.start(STARTED);
        let stream = draw::LINES + 2 * number as u64;
        Self {
            worker,
            pools,
            to: Line::new(scenario.to_worker, Draw::new(seed, stream)),
            from: Line::new(scenario.from_worker, Draw::new(seed, stream + 1)),
            commands: VecDeque::new(),
            reports: VecDeque::new(),
            heard: (0, Progress::default()),
            told: Time::default(),
            returns: Vec::new(),
            paused_until: 0,
            waiting: VecDeque::new(),
        }
    }

    /// Both lines.
    pub fn lines_mut(&mut self) -> [&mut Line; 2] {
        [&mut self.to, &mut self.from]
    }

    /// Whether nothing is on the lines.
    pub fn is_quiet(&self) -> bool {
        self.to.is_empty() && self.from.is_empty()
    }

    /// What the worker has counted so far.
    pub fn counted(&self) -> Counted {
        let (drops, counts) = (self.worker.drops(), self.worker.link_counters());
        Counted {
            imports: self.flows().map(|flows| flows.counters().imports).sum(),
            dropped: drops.total() - drops.of(DropReason::LinkReordered),
            reordered: counts.reordered,
            lost: counts.lost,
        }
    }

    /// The worker's flows, of each element that has any.
    pub fn flows(&self) -> impl Iterator<Item = &SlowFlows> {
        self.worker.flows()
    }

    fn find(&self, (element, key, hash): FlowName<'_>) -> Option<(&SlowFlows, FlowId)> {
        match self.worker.elements().get(usize::from(element))? {
            SlowElement::Flows(flows) => Some((flows, flows.store().find(key, hash)?)),
            SlowElement::Rules(_) | SlowElement::Dash(_) => None,
        }
    }

    /// What the worker knows of a flow.
    pub fn view(&self, flow: FlowName<'_>) -> Option<(Grant, &[u32])> {
        let (flows, id) = self.find(flow)?;
        let (_, words, grant) = flows.store().view(id);
        Some((*grant, words))
    }

    /// Whether the worker has of a flow what the present chain has of it, or nothing.
    pub fn has_followed(&self, flow: FlowName<'_>) -> bool {
        let found = self.find(flow);
        found.is_none_or(|(flows, id)| flows.store().has_moved(id))
    }

    /// Each counter of each of the worker's functions, with the function's kind.
    pub fn each_counter(&self, each: &mut dyn FnMut(&'static str, &'static str, u64)) {
        for element in self.worker.elements() {
            match element {
                SlowElement::Flows(flows) => flows.chain().functions().iter().for_each(|one| {
                    let kind = one.function.name();
                    one.counters(&mut |counter, times| each(kind, counter, times));
                }),
                SlowElement::Rules(rules) => rules.functions().iter().for_each(|one| {
                    let kind = one.function.name();
                    one.counters(&mut |counter, times| each(kind, counter, times));
                }),
                SlowElement::Dash(_) => {}
            }
        }
    }

    /// The function of this kind, if the worker has one.
    pub fn function<F: RuleFunction>(&self) -> Option<&F> {
        let mut functions = self.worker.rules().flat_map(|rules| rules.functions());
        functions.find_map(|named| (&*named.function as &dyn Any).downcast_ref())
    }

    /// Notes how far the worker is: as far as its line goes, for what is lost on it never comes.
    /// With `is_hasty` it says that all has come that was sent.
    pub fn report(&mut self, answer: Option<WorkerAnswer>, is_hasty: bool) {
        let mut progress = self.worker.progress();
        progress.finished = match is_hasty {
            true => self.to.last_sent(),
            false => self.to.settled(),
        };
        let returned = self.from.last_sent();
        let last = self.reports.back();
        let last = last.map_or(self.heard, |report| (report.returned, report.progress));
        if last != (returned, progress) || answer.is_some() {
            self.reports.push_back(Report {
                returned,
                progress,
                answer,
            });
        }
    }

    /// The next report, when all that the worker gave back by then has come or is lost.
    pub fn next_report(&mut self) -> Option<Report> {
        let settled = self.from.settled();
        let is_due = |report: &&Report| report.returned <= settled;
        self.reports.front().filter(is_due)?;
        let report = self.reports.pop_front()?;
        self.heard = (report.returned, report.progress);
        Some(report)
    }
}
