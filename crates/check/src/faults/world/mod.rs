//! What is simulated: the node of production, a link and a clock that are not.

mod agenda;
mod arrivals;
mod datagrams;
mod frame;
mod line;
mod line_id;
mod remote_worker;
mod rules;
mod source;

pub use agenda::Next;
pub use frame::{Contents, behind_header, number_of, overwrite};
pub use line::{Line, Sending, Transit, copy};
pub use line_id::LineId;
pub use remote_worker::{Counted, FlowName, RemoteWorker, Report};
pub use source::is_inside;

use super::chain::{Chain, Variant, service};
use super::draw::{self, Draw};
use super::functions::Notes;
use super::scenario::{Elements, Scenario, SplitSettings};
use agenda::Agenda;
use arrivals::Arrivals;
use rules::ElementRules;
use twinpath_coherence::Clock;
use twinpath_control::service::ServiceError;
use twinpath_core::{DropReason, Instant, Pools};
use twinpath_node::mirror::{Copied, Event, MOST_BYTES, Reader, Wanted};
use twinpath_node::wiring::BuildError;
use twinpath_node::{DashStage, Limits, Machine, Node, Output};
use twinpath_parking::ParkingStage;
use twinpath_remote::SplitStage;
use twinpath_remote::simulated::{Faults, Rack};
use twinpath_traffic::TrafficError;

/// Why a simulation cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// The configuration of a function is refused.
    #[error(transparent)]
    Service(#[from] ServiceError),
    /// Functions that cannot be built, or do not go together.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// The traffic cannot be generated.
    #[error(transparent)]
    Traffic(#[from] TrafficError),
}

/// The packet clock when the link's is at zero.
const STARTED: Instant = Instant(1_700_000_000_000_000_000);

/// Buffers for frames that the link doubles.
const SPARE_BUFFERS: usize = 256;

/// The world.
pub struct World {
    pub seed: u64,
    pub scenario: Scenario,
    /// The link's clock.
    pub now: u64,
    pub agenda: Agenda,
    pub arrivals: Arrivals,
    pub machine: Machine,
    /// Copies of what is dropped, where a DPU decides that.
    drops: Option<Reader>,
    /// What the machine has put out.
    pub out: Output,
    /// Memory servers, and the links to them.
    pub servers: Rack,
    pub chain: Chain,
    /// Decides when another chain is wanted, and which.
    pub changes: Draw,
    pub workers: Vec<RemoteWorker>,
    /// What the ledgers of all workers say that they did.
    pub notes: Notes,
    /// Decides what goes wrong with workers.
    pub worker_faults: Draw,
    pub spare: Pools,
    /// Nothing goes wrong any more.
    pub is_calm: bool,
    pub is_stopping: bool,
    pub has_stopped: bool,
}

impl World {
    /// The world of a scenario, in which chance is decided by `seed`.
    ///
    /// # Errors
    /// The functions do not go together, or their traffic cannot be generated.
    pub fn new(seed: u64, scenario: &Scenario) -> Result<Self, SetupError> {
        let notes = Notes::default();
        let (variant, next) = (Variant::default(), None);
        let service = service::service(scenario, variant, (&notes, seed))?;
        let Node {
            mut machine,
            workers,
            worker_pools,
            ..
        } = service::node_config(scenario, &service)?.build()?;
        machine.set_limits(Limits {
            ring_frames: scenario.resources.ring_frames,
            is_lossless: scenario.resources.is_lossless,
            is_replay: false,
        });
        machine.start(STARTED);
        let workers = workers.into_iter().zip(worker_pools).enumerate();
        let remote = |(number, worker)| RemoteWorker::new(worker, scenario, (seed, number));
        let workers = workers.map(remote).collect();
        let faults = scenario
            .split
            .as_ref()
            .map_or(Faults::NONE, |split| split.faults);
        let mut servers = Rack::new(seed ^ draw::SERVERS, faults);
        for number in 0..scenario.servers() {
            servers.add(number, SplitSettings::server(number), Instant::ZERO);
        }
        Ok(Self {
            seed,
            scenario: scenario.clone(),
            now: 0,
            agenda: Agenda::default(),
            arrivals: Arrivals::new(seed, scenario, &service)?,
            drops: match scenario.elements {
                Elements::Dpu => machine.mirror().read(Wanted::Drops, MOST_BYTES),
                _ => None,
            },
            machine,
            out: Output::default(),
            servers,
            chain: Chain {
                variant,
                service,
                next,
            },
            changes: Draw::new(seed, draw::CHANGES),
            workers,
            notes,
            worker_faults: Draw::new(seed, draw::WORKERS),
            spare: Pools::new(SPARE_BUFFERS, 1),
            is_calm: false,
            is_stopping: false,
            has_stopped: false,
        })
    }

    /// The packet clock.
    pub fn packet_now(&self) -> Instant {
        Instant(STARTED.0 + self.now * self.scenario.traffic.clock_rate)
    }

    /// When, by the link's clock, the packet clock has passed `at`.
    pub fn link_time(&self, at: Instant) -> u64 {
        at.0.saturating_sub(STARTED.0) / self.scenario.traffic.clock_rate + 1
    }

    /// Both clocks.
    pub fn clock(&self) -> Clock {
        Clock {
            packet: self.packet_now(),
            link: Instant(self.now),
        }
    }

    /// The line with this name.
    pub fn line(&mut self, id: LineId) -> &mut Line {
        let [to, from] = self.workers[id.worker].lines_mut();
        if id.is_back { from } else { to }
    }

    /// All lines.
    pub fn lines_mut(&mut self) -> impl Iterator<Item = &mut Line> {
        self.workers.iter_mut().flat_map(RemoteWorker::lines_mut)
    }

    /// Drops that the fast path counts, but for those on the link.
    pub fn fast_drops(&self) -> u64 {
        self.machine.path().drops().total() - self.drops_of(DropReason::LinkReordered)
    }

    /// Packets that found no room on the link.
    pub fn refused(&self) -> u64 {
        self.drops_of(DropReason::PuntRingFull)
    }

    /// Drops that the fast path counts for this reason.
    pub fn drops_of(&self, reason: DropReason) -> u64 {
        self.machine.path().drops().of(reason)
    }

    /// Whether the fast path has heard of a worker's present life.
    pub fn knows_epoch(&self, worker: usize) -> bool {
        let known = self.machine.path().epoch(worker);
        known == 0 || known == self.workers[worker].worker.epoch()
    }

    /// What both paths have of each element's rules.
    pub fn rules(&self) -> impl Iterator<Item = ElementRules<'_>> {
        let worker = self.workers.first().map(|worker| &worker.worker);
        ElementRules::of_each(self.machine.path().elements(), worker)
    }

    /// Packets that the fast path holds: they wait for rules, for the state of their flows, for a DPU's
    /// policies, or for room on the link.
    pub fn held(&self) -> usize {
        let for_rules: usize = self.rules().map(|rules| rules.table.held()).sum();
        let path = self.machine.path();
        let for_state = path.stages().map(|stage| stage.waiting_packets());
        let for_answers = path.dash().map_or(0, DashStage::held);
        for_rules + for_state.sum::<usize>() + for_answers + self.machine.packets_waiting()
    }

    /// Whether a DPU has decided on the fast path to drop this packet, since this was asked last of any.
    pub fn is_dropped_by_dpu(&mut self, at: Instant, packet: &[u8]) -> bool {
        let Some(drops) = &mut self.drops else {
            return false;
        };
        let is_it = |copied: &Copied| match copied.event {
            Event::Dropped(drop) => {
                let decides = matches!(drop.reason, DropReason::Dash(_)) && !drop.on_slow_path;
                decides && copied.at_ns == at.0 && copied.bytes == packet
            }
            _ => false,
        };
        drops.copies().iter().any(is_it)
    }

    /// Fragments that wait for the first one of their datagram.
    pub fn held_fragments(&self) -> usize {
        self.machine.path().held_fragments()
    }

    /// Whether nothing waits for rules, and both sides know of the same.
    pub fn rules_are_at_rest(&self) -> bool {
        self.workers.iter().all(RemoteWorker::is_quiet)
            && self.knows_epoch(0)
            && self.rules().all(|rules| rules.are_at_rest())
    }

    /// The queue in which payloads wait.
    pub fn parking(&self) -> Option<&ParkingStage> {
        self.machine.path().parking()
    }

    /// The remote memory in which payloads wait.
    pub fn split(&self) -> Option<&SplitStage> {
        self.machine.path().split()
    }

    /// Whether payloads or packets wait in the queue, or in remote memory.
    pub fn keeps_anything(&self) -> bool {
        self.parking().is_some_and(|stage| !stage.is_empty())
            || self.split().is_some_and(|stage| !stage.is_empty())
    }

    /// What the machine has for memory servers is on its way to them.
    pub fn tell_servers(&mut self) {
        for (port, frame) in self.out.messages.drain(..) {
            self.servers.send(port, frame.bytes(), Instant(self.now));
            self.machine.pools().give(frame);
        }
    }

    /// Whether nothing is awaited of memory servers any more: only they themselves go on for ever.
    pub fn needs_no_servers(&self) -> bool {
        self.is_calm && self.machine.is_quiet() && !self.keeps_anything()
    }

    /// Whether somebody ends the run when all is over; seeds of a DPU are odd.
    pub fn is_stopped_at_last(&self) -> bool {
        match self.scenario.elements {
            Elements::Dpu => (self.seed / 64).is_multiple_of(2),
            _ => self.seed.is_multiple_of(2),
        }
    }

    /// Whether the run is to end and has not.
    pub fn is_ending(&self) -> bool {
        self.is_stopping && !self.has_stopped
    }

    /// Buffers that are in no pool.
    pub fn buffers_missing(&mut self) -> usize {
        let pools = self.workers.iter_mut().map(|worker| &mut worker.pools);
        pools
            .chain([self.machine.pools(), &mut self.spare])
            .map(|pools| pools.small().frames() - pools.small().available())
            .sum()
    }
}
