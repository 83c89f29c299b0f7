//! What one step of a run did, for the invariants to judge.

use crate::faults::invariant::{Invariant, Violation};
use std::fmt;
use twinpath_coherence::Grant;
use twinpath_coherence::fsm::Slot;
use twinpath_link::Message;

/// Why something happened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Cause {
    /// Nothing that may touch any state.
    #[default]
    Nothing,
    /// Packets of these flows arrived.
    Packets(Vec<usize>),
    /// The machine was told the time, or how far a worker is.
    Tick,
    /// The chain became another one.
    Changed,
    /// A frame came back from the slow path: its flow, and what it said when it was sent. It may not
    /// touch anything if it was overtaken.
    Returned {
        flow: Option<usize>,
        message: Message,
        generation: u32,
        is_overtaken: bool,
    },
    /// A frame reached a worker.
    Received { flow: Option<usize>, worker: usize },
    /// A deadline passed at a worker.
    Woken { worker: usize },
    /// A worker crashed.
    Crashed { worker: usize },
}

/// A slot that is not as it was.
#[derive(Copy, Clone, Debug)]
pub struct SlotChange {
    pub flow_before: Option<usize>,
    pub flow: Option<usize>,
    pub before: Slot,
    pub after: Slot,
    pub changes_words: bool,
}

impl fmt::Display for SlotChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let side = |flow: Option<usize>, slot: &Slot| {
            let flow = flow.map_or("nobody".into(), |flow| format!("flow {flow}"));
            format!("{flow} {}({})", slot.fsm.name(), slot.generation)
        };
        let before = side(self.flow_before, &self.before);
        let after = side(self.flow, &self.after);
        write!(f, "a slot goes from {before} to {after}")
    }
}

/// What the workers know of a flow is not what it was.
#[derive(Clone, Debug)]
pub struct SlowChange {
    pub flow: usize,
    pub before: Option<Grant>,
    pub after: Option<Grant>,
}

/// A packet was applied.
#[derive(Copy, Clone, Debug)]
pub struct Application {
    pub flow: usize,
    pub packet: u32,
    /// The packet of the flow that was applied before it.
    pub previous: u32,
    pub is_double: bool,
}

/// A packet left.
#[derive(Copy, Clone, Debug)]
pub struct Departure {
    pub flow: usize,
    pub packet: u32,
    /// The packet of the flow that left before it.
    pub previous: u32,
    pub is_applied: bool,
    pub as_it_came: bool,
}

/// A value was imported.
#[derive(Copy, Clone, Debug)]
pub struct Import {
    pub flow: usize,
    pub generation: u32,
    /// The generation that the flow had on the fast path.
    pub installed: u32,
    pub is_second: bool,
}

/// A write-back was received.
#[derive(Copy, Clone, Debug)]
pub struct WrittenBack {
    pub flow: usize,
    pub generation: u32,
    pub is_what_was_frozen: bool,
}

/// One step.
#[derive(Default)]
pub struct Step {
    pub cause: Cause,
    /// Packet clock and link clock.
    pub packet_now: u64,
    pub now: u64,
    /// Flows of packets that may meet their state in this step, whatever its cause.
    pub inside: Vec<usize>,
    /// Functions rewrite packets, which then are of other flows than when they arrived.
    pub rewrites: bool,
    pub slots: Vec<SlotChange>,
    pub slow: Vec<SlowChange>,
    pub applied: Vec<Application>,
    pub left: Vec<Departure>,
    pub imports: Vec<Import>,
    pub written_back: Vec<WrittenBack>,
    /// The fast path wanted to send a message of its own and found no buffer.
    pub lacks_buffer: bool,
    /// The machine may take the state of flows off the fast path.
    pub brings_flows_home: bool,
    /// The link had no room for packets since timers were looked at last: pulls among them are given up.
    pub pulls_were_refused: bool,
    /// Timers were looked at.
    pub is_sweep: bool,
    /// Nothing is under way and nothing will happen any more.
    pub is_rest: bool,
    pub faults: Vec<Violation>,
}

impl Step {
    /// A step begins; what is wrong stays wrong.
    pub fn begin(&mut self, cause: Cause, now: u64, packet_now: u64) {
        *self = Self {
            cause,
            now,
            packet_now,
            faults: std::mem::take(&mut self.faults),
            ..Self::default()
        };
    }

    /// Something is wrong that showed while the step was made.
    pub fn fault(&mut self, invariant: Invariant, what: String) {
        self.faults.push(Violation { invariant, what });
    }
}
