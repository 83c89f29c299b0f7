//! What is known beside the world: what came, what became of it, and what should have.

mod acted;
mod bindings;
mod coverage;
mod flow;
mod happened;
mod heard;
mod history;
mod log;
mod mirror;
mod packet;
mod step;
mod store;
mod tally;

pub use acted::Acted;
pub use bindings::{Pair, Why};
pub use coverage::Coverage;
pub use flow::FlowHistory;
pub use happened::{Brief, Happened};
pub use log::Event;
pub use mirror::{SeenSlot, each_slot};
pub use packet::{PacketHistory, PacketState};
pub use step::{Cause, SlotChange, SlowChange, Step, WrittenBack};

use super::chain::Reference;
use super::invariant::{Invariant, Violation};
use super::scenario::Scenario;
use bindings::Bindings;
use heard::Acknowledged;
use history::History;
use log::Log;
use mirror::Mirror;
use std::collections::BTreeSet;
use store::Store;
use tally::Tally;
use twinpath_control::service::Service;
use twinpath_nf::kv_store::Answers;
use twinpath_node::FastPath;
use twinpath_node::wiring::BuildError;

/// Events that are kept, unless all are.
const EVENTS_KEPT: usize = 40;

/// The record of a run.
pub struct Record {
    pub history: History,
    pub mirror: Mirror,
    /// What the functions with rules make of packets alone.
    pub reference: Reference,
    pub bindings: Bindings,
    /// What receivers of streams say they have.
    pub acknowledged: Acknowledged,
    /// What a key-value store was asked.
    pub store: Store,
    /// Packets that went into a fast path that keeps some and have not come out.
    pub inside: BTreeSet<u32>,
    /// Packets that the link had no room for when timers were looked at last.
    pub refused: u64,
    /// Counts what happens.
    pub turn: u64,
    pub step: Step,
    pub tally: Tally,
    pub coverage: Coverage,
    /// What functions did.
    pub acted: Acted,
    /// What the fast path has answered for a store.
    pub answers: Answers,
    pub log: Log,
    pub violations: Vec<Violation>,
}

impl Record {
    /// The record of a run that begins with this service.
    ///
    /// # Errors
    /// Its functions cannot be built.
    pub fn new(scenario: &Scenario, service: &Service) -> Result<Self, BuildError> {
        let mut history = History::default();
        history.expiry_ticks = scenario.traffic.expiry_ticks;
        history.orders_each_end = scenario.orders_each_end();
        Ok(Self {
            history,
            mirror: Mirror::default(),
            reference: Reference::new(scenario.elements, service)?,
            bindings: Bindings::default(),
            acknowledged: Acknowledged::default(),
            store: Store::default(),
            inside: BTreeSet::new(),
            refused: 0,
            turn: 0,
            step: Step::default(),
            tally: Tally::new(scenario.resources.workers),
            coverage: Coverage::default(),
            acted: Acted::default(),
            answers: Answers::default(),
            log: Log::new(EVENTS_KEPT),
            violations: Vec::new(),
        })
    }

    /// Something happened.
    pub fn note(&mut self, now: u64, happened: Happened) {
        self.log.add(now, happened);
    }

    /// Moves a packet on; it must be at one of the places `from`.
    pub fn moves(&mut self, number: u32, from: &[PacketState], to: PacketState) {
        let Some(packet) = self.history.packet_mut(number) else {
            let what = format!("packet {number} never arrived");
            return self.step.fault(Invariant::Conserved, what);
        };
        let was = std::mem::replace(&mut packet.state, to);
        if !from.contains(&was) {
            let what = format!("packet {number} goes from {was:?} to {to:?}");
            self.step.fault(Invariant::Conserved, what);
        }
    }

    /// A worker crashes, with all that it knows and all that it has in its hands.
    pub fn crash(&mut self, worker: usize) {
        let flows = self.history.flows.iter_mut();
        for flow in flows.filter(|flow| flow.worker == worker) {
            let keeps_value = self.mirror.is_at_fast_path(flow);
            flow.crash(keeps_value);
        }
        self.tally.inside[worker] = 0;
        self.history.lose_at(worker);
    }

    /// All slots of the fast path are free, and some may be new.
    pub fn begin_mirror(&mut self, path: &FastPath) {
        self.mirror.begin(path);
        let flows = self.history.flows.iter_mut();
        flows.for_each(|flow| flow.slot = None);
    }
}
