//! States that differ only in names are one state.
//!
//! The protocol compares packets' numbers (the link's sequence) only by order, generations and
//! incarnations only for equality, and values not at all. So a search may give them the smallest
//! names that keep these relations, and forget what can never be looked at again: the content of
//! a free slot. That makes the number of states finite although runs are not.

use super::state::{Flow, Frame, State};
use super::truth::Imported;
use super::value::{MOST_VALUES, Value, shorten};
use twinpath_coherence::Grant;
use twinpath_coherence::fsm::{Fsm, Slot};
use twinpath_link::Message;

/// The workers' present incarnation, and any former one.
const PRESENT: u32 = 2;
const FORMER: u32 = 1;

impl State {
    /// The representative of all states that differ from this one only in names. Returns
    /// whether the flows changed names: the slot's flow is always A.
    pub fn rename(&mut self) -> bool {
        self.forget_free_slot();
        let swaps = self.key == Some(Flow::B);
        if swaps {
            self.swap_flows();
        }
        self.rename_generations();
        self.rename_epochs();
        self.last_packet = Flow::ALL
            .map(|flow| self.rename_packets(flow))
            .into_iter()
            .max()
            .unwrap_or(0);
        Flow::ALL
            .into_iter()
            .for_each(|flow| self.shorten_values(flow));
        self.to_worker.renumber();
        self.to_fast.renumber();
        swaps
    }

    pub fn swap_flows(&mut self) {
        self.key = self.key.map(Flow::other);
        self.records.swap(0, 1);
        self.truth.swap(0, 1);
        for (_, frame) in self.frames_mut() {
            frame.flow = frame.flow.other();
        }
    }

    fn frames_mut(&mut self) -> impl Iterator<Item = &mut (u32, Frame)> {
        self.to_worker
            .frames
            .iter_mut()
            .chain(&mut self.to_fast.frames)
    }

    fn forget_free_slot(&mut self) {
        match self.slot.fsm {
            Fsm::Initial => {
                let cancelled = self.slot.cancelled;
                self.slot = Slot {
                    cancelled,
                    ..Slot::default()
                };
                self.value = Value::NOTHING;
                if cancelled == 0 {
                    self.key = None;
                }
            }
            Fsm::Incomplete => (self.slot.epoch, self.value) = (0, Value::NOTHING),
            Fsm::Active | Fsm::Frozen => {}
        }
    }

    fn rename_generations(&mut self) {
        let mut names = Names::default();
        self.slot.generation = names.of(self.slot.generation);
        let is_recall = |frame: &Frame| frame.message == Message::Recall;
        for (_, frame) in self.frames_mut().filter(|(_, frame)| !is_recall(frame)) {
            frame.generation = names.of(frame.generation);
        }
        // A recall brings no value: unless a slot has its generation, nothing comes of it.
        for truth in &mut self.truth {
            match names.known(truth.installed) {
                Some(name) => truth.installed = name,
                None => (truth.installed, truth.imported) = (0, Imported::No),
            }
        }
        for (_, frame) in self.frames_mut().filter(|(_, frame)| is_recall(frame)) {
            frame.generation = names.of(frame.generation);
        }
        for record in self.records.iter_mut().flatten() {
            match &mut record.grant {
                Grant::Granted(generation) | Grant::Returned { generation, .. } => {
                    *generation = names.of(*generation)
                }
                Grant::Ours => {}
            }
        }
        self.generation = names.count;
    }

    fn rename_epochs(&mut self) {
        let present = self.epoch;
        let name = |epoch: u32| match epoch {
            0 => 0,
            epoch if epoch == present => PRESENT,
            _ => FORMER,
        };
        self.slot.epoch = name(self.slot.epoch);
        for (_, frame) in self.frames_mut() {
            frame.epoch = name(frame.epoch);
        }
        self.epoch = PRESENT;
    }

    /// Numbers a flow's packets that are under way from 1, and returns the last number.
    fn rename_packets(&mut self, flow: Flow) -> u8 {
        let is_ours = |frame: &Frame| frame.flow == flow && frame.packet != 0;
        let mut seen: u128 = 0;
        for frame in self
            .to_worker
            .iter()
            .chain(self.to_fast.iter())
            .filter(|frame| is_ours(frame))
        {
            seen |= 1 << frame.packet;
        }
        let waits = self.key == Some(flow);
        for (packet, _) in self.waiting.iter().filter(|_| waits) {
            seen |= 1 << packet;
        }
        let held = self.records[flow as usize].map_or(0, |record| record.held);
        seen |= u128::from(held != 0) << held;
        let rank = |packet: u8| (seen & ((2u128 << packet) - 1)).count_ones() as u8;
        for (_, frame) in self.frames_mut() {
            if is_ours(frame) {
                frame.packet = rank(frame.packet);
            }
        }
        for (packet, _) in self.waiting.iter_mut().filter(|_| waits) {
            *packet = rank(*packet);
        }
        if let Some(record) = &mut self.records[flow as usize] {
            record.held = if held == 0 { 0 } else { rank(held) };
        }
        let truth = &mut self.truth[flow as usize];
        (truth.applied, truth.left) = (rank(truth.applied), rank(truth.left));
        seen.count_ones() as u8
    }

    fn shorten_values(&mut self, flow: Flow) {
        let mut values = [Value::NOTHING; MOST_VALUES];
        let mut count = 0;
        self.each_value(flow, |value| {
            values[count] = *value;
            count += 1;
        });
        shorten(&mut values[..count]);
        let mut renamed = values.into_iter();
        self.each_value(flow, |value| *value = renamed.next().unwrap_or_default());
    }

    /// Calls `each` with every copy of a flow's value.
    fn each_value(&mut self, flow: Flow, mut each: impl FnMut(&mut Value)) {
        each(&mut self.truth[flow as usize].history);
        if let Some(record) = &mut self.records[flow as usize] {
            each(&mut record.value);
        }
        if self.key == Some(flow) {
            each(&mut self.value);
        }
        let frames = self.frames_mut();
        frames
            .map(|(_, frame)| frame)
            .filter(|frame| frame.flow == flow)
            .filter(|frame| matches!(frame.message, Message::State | Message::WriteBack))
            .for_each(|frame| each(&mut frame.value));
    }
}

/// New names for generations, by first appearance; 0 stays.
#[derive(Default)]
struct Names {
    old: [u32; 32],
    count: u32,
}

impl Names {
    fn of(&mut self, generation: u32) -> u32 {
        self.known(generation).unwrap_or_else(|| {
            self.old[self.count as usize] = generation;
            self.count += 1;
            self.count
        })
    }

    fn known(&self, generation: u32) -> Option<u32> {
        if generation == 0 {
            return Some(0);
        }
        let known = &self.old[..self.count as usize];
        known
            .iter()
            .position(|&old| old == generation)
            .map(|place| place as u32 + 1)
    }
}
