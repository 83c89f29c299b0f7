//! Packets that wait on the fast path for the answer to their flow's pull.

use super::StateStage;
use crate::fast::Clock;
use crate::fsm::{Event, Fsm, Slot};
use std::collections::{HashMap, VecDeque};
use twinpath_core::Frame;
use twinpath_fastpath::state_table::SlotId;
use twinpath_link::{Header, Message};

/// Of all packets that may wait, one flow may have one in so many.
const FLOWS_SHARE: usize = 4;

/// Packets that wait, by the slot of their flow.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    /// In order of arrival.
    flows: HashMap<SlotId, VecDeque<Frame>>,
    /// Of all flows.
    packets: usize,
    /// Slots whose packets have nothing to wait for any more.
    released: Vec<SlotId>,
    /// Slots and generations of pulls that did not get onto the link.
    refused: Vec<(SlotId, u32)>,
    /// Queues to use again.
    spare: Vec<VecDeque<Frame>>,
}

impl Waiting {
    /// The packets of this slot wait for nothing any more.
    pub fn release(&mut self, slot: SlotId) {
        self.released.push(slot);
    }

    /// A packet joins; returns how many of its flow wait.
    fn join(&mut self, slot: SlotId, frame: Frame) -> usize {
        let new = || self.spare.pop().unwrap_or_default();
        let queue = self.flows.entry(slot).or_insert_with(new);
        queue.push_back(frame);
        self.packets += 1;
        queue.len()
    }
}

impl StateStage {
    /// A packet of the flow in `slot` waits for the answer to its pull. If more would wait than may,
    /// or it is complex, none does: [`Self::take_released`] has them.
    #[cold]
    pub fn wait(&mut self, slot: SlotId, frame: Frame, clock: Clock) {
        self.stats.waited += 1;
        let of_flow = self.waiting.join(slot, frame);
        let control = Slot::unpack(self.table.control(slot));
        let most = self.config.waiting;
        let is_crowded = of_flow > most.div_ceil(FLOWS_SHARE) || self.waiting.packets > most;
        if is_crowded && control.waits {
            self.transition(slot, control, Event::Crowded, clock);
        }
    }

    /// Packets that wait.
    pub fn waiting_packets(&self) -> usize {
        self.waiting.packets
    }

    /// Packets of a flow, in order of arrival, that have nothing to wait for any more and are to meet
    /// the stage as if they arrived now, before any other does. [`Self::give_queue`] takes the queue
    /// back.
    #[inline]
    pub fn take_released(&mut self) -> Option<VecDeque<Frame>> {
        match self.waiting.released.is_empty() {
            true => None,
            false => self.next_released(),
        }
    }

    #[cold]
    fn next_released(&mut self) -> Option<VecDeque<Frame>> {
        loop {
            let slot = self.waiting.released.pop()?;
            // No packet may have come since the pull.
            let Some(queue) = self.waiting.flows.remove(&slot) else {
                continue;
            };
            self.waiting.packets -= queue.len();
            let fsm = Slot::fsm_of(&self.table.control(slot));
            if fsm != Fsm::Active {
                self.stats.waited_then_punted += queue.len() as u64;
            }
            return Some(queue);
        }
    }

    /// Takes an empty queue back.
    pub fn give_queue(&mut self, mut queue: VecDeque<Frame>) {
        queue.clear();
        self.waiting.spare.push(queue);
    }

    /// The link had no room for a frame with this header. If it was a pull nobody will answer it.
    #[cold]
    pub fn refused(&mut self, header: &Header) {
        if header.message == Message::Pull && self.table.contains(header.slot) {
            self.waiting.refused.push((header.slot, header.generation));
        }
    }

    /// Gives pulls up that did not get onto the link.
    pub(super) fn give_up_refused(&mut self, clock: Clock) {
        while let Some((id, generation)) = self.waiting.refused.pop() {
            let slot = Slot::unpack(self.table.control(id));
            if slot.fsm == Fsm::Incomplete && slot.generation == generation {
                self.stats.refused_pulls += 1;
                self.transition(id, slot, Event::Refused, clock);
            }
        }
    }
}
