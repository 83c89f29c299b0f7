//! One state of the whole system: slot, link, workers, and the truth to compare them with.

use super::class::Class;
use super::scope::Budget;
use super::truth::Truth;
use super::value::Value;
use twinpath_coherence::Grant;
use twinpath_coherence::fsm::{Fsm, Slot};
use twinpath_link::{Arrival, Message, Receiver, Sender};

/// One of the two flows that share the slot.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Flow {
    A,
    B,
}

impl Flow {
    pub const ALL: [Self; 2] = [Self::A, Self::B];

    pub const fn other(self) -> Self {
        match self {
            Self::A => Self::B,
            Self::B => Self::A,
        }
    }
}

/// A frame on the link. Fields that a message does not use are zero.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Frame {
    pub message: Message,
    pub flow: Flow,
    /// The packet that it carries, 0 for none.
    pub packet: u8,
    pub generation: u32,
    pub epoch: u32,
    pub value: Value,
}

impl Frame {
    pub fn new(message: Message, flow: Flow, packet: u8) -> Self {
        Self {
            message,
            flow,
            packet,
            generation: 0,
            epoch: 0,
            value: Value::NOTHING,
        }
    }
}

/// One direction of the link, with the numbering of production.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Queue {
    sender: Sender,
    receiver: Receiver,
    pub frames: Vec<(u32, Frame)>,
}

impl Queue {
    pub fn send(&mut self, frame: Frame) {
        self.frames.push((self.sender.number(), frame));
    }

    pub fn iter(&self) -> impl Iterator<Item = &Frame> {
        self.frames.iter().map(|(_, frame)| frame)
    }

    pub fn lose_first(&mut self) {
        self.frames.remove(0);
    }

    /// Takes the frame at `place` off the link. Frames that it overtook will be dropped when they
    /// come, if numbers are `checked`; since nothing can happen to them but that, they go now.
    pub fn deliver(&mut self, place: usize, checked: bool) -> Option<Frame> {
        let (number, frame) = self.frames.remove(place);
        if !checked {
            return Some(frame);
        }
        if self.receiver.judge(number) == Arrival::Reordered {
            return None;
        }
        let receiver = &self.receiver;
        self.frames
            .retain(|&(number, _)| receiver.clone().judge(number) != Arrival::Reordered);
        Some(frame)
    }

    /// Numbers the frames in flight from 1 again: only differences count.
    pub fn renumber(&mut self) {
        (self.sender, self.receiver) = Default::default();
        for (number, _) in &mut self.frames {
            *number = self.sender.number();
        }
    }
}

/// What the workers know of a flow.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Record {
    pub grant: Grant,
    pub value: Value,
    /// A packet that the network function holds back and has not applied yet, 0 for none.
    pub held: u8,
}

/// One state of the system.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct State {
    pub slot: Slot,
    pub key: Option<Flow>,
    pub value: Value,
    /// Packets of the slot's flow that wait for the answer to its pull, and what they are.
    pub waiting: Vec<(u8, Class)>,
    /// The last generation that the fast path gave out.
    pub generation: u32,
    pub to_worker: Queue,
    pub to_fast: Queue,
    /// The workers' incarnation.
    pub epoch: u32,
    pub records: [Option<Record>; 2],
    pub truth: [Truth; 2],
    /// The number of the last packet that arrived.
    pub last_packet: u8,
    pub started: bool,
    pub left: Budget,
    /// Invariants broken by the step that led here, one bit each.
    pub faults: u16,
}

impl State {
    pub fn new(budget: Budget) -> Self {
        Self {
            slot: Slot::default(),
            key: None,
            value: Value::NOTHING,
            waiting: Vec::new(),
            generation: 0,
            to_worker: Queue::default(),
            to_fast: Queue::default(),
            epoch: 1,
            records: [None; 2],
            truth: [Truth::default(); 2],
            last_packet: 0,
            started: false,
            left: budget,
            faults: 0,
        }
    }

    /// The slot's state as this flow sees it: a slot of another flow is as good as none.
    pub fn fsm_of(&self, flow: Flow) -> Option<Fsm> {
        (self.key == Some(flow)).then_some(self.slot.fsm)
    }

    pub fn truth(&mut self, flow: Flow) -> &mut Truth {
        &mut self.truth[flow as usize]
    }

    /// Whether the fast path holds the flow's authoritative value: ACTIVE, or FROZEN and not yet
    /// imported by these workers.
    pub fn is_at_fast_path(&self, flow: Flow) -> bool {
        match self.fsm_of(flow) {
            Some(Fsm::Active) => true,
            Some(Fsm::Frozen) => !self.truth[flow as usize].is_done(self.slot.generation),
            _ => false,
        }
    }

    /// What the workers hold of a flow; a flow that they do not know is worth nothing.
    pub fn slow_value(&self, flow: Flow) -> Value {
        self.records[flow as usize].map_or(Value::NOTHING, |record| record.value)
    }
}
