//! Slots as they were when they were looked at last.

use super::flow::FlowHistory;
use twinpath_coherence::StateStage;
use twinpath_coherence::fsm::{Fsm, Slot};
use twinpath_core::FlowKey;

/// The slots.
#[derive(Default)]
pub struct Mirror {
    pub slots: Vec<Slot>,
    keys: Vec<FlowKey>,
    owners: Vec<Option<usize>>,
    words: Vec<u32>,
    /// The number of each slot's last pull.
    pulled: Vec<u32>,
    /// The highest number of a pull so far.
    newest_pull: u32,
}

/// What has become of a slot.
pub struct Followed {
    pub before: Slot,
    pub owner_before: Option<usize>,
    pub changes_words: bool,
}

impl Mirror {
    /// Begins anew with a stage whose slots are all free.
    pub fn begin(&mut self, stage: Option<&StateStage>) {
        let slots = stage.map_or(0, StateStage::slots);
        let words = stage.and_then(|stage| stage.each_slot().next());
        let words = words.map_or(0, |(_, _, words)| words.len());
        *self = Self {
            slots: vec![Slot::default(); slots],
            keys: vec![FlowKey::default(); slots],
            owners: vec![None; slots],
            words: vec![0; slots * words],
            pulled: vec![0; slots],
            newest_pull: self.newest_pull,
        };
    }

    /// A flow's slot.
    pub fn slot_of(&self, flow: &FlowHistory) -> Option<&Slot> {
        flow.slot.map(|slot| &self.slots[slot])
    }

    /// The words in a flow's slot.
    pub fn words_of(&self, flow: &FlowHistory) -> &[u32] {
        flow.slot.map_or(&[], |slot| self.words(slot))
    }

    /// Whether a flow's slot is in this state.
    pub fn is(&self, fsm: Fsm, flow: &FlowHistory) -> bool {
        self.slot_of(flow).is_some_and(|slot| slot.fsm == fsm)
    }

    /// Whether the fast path holds a flow's authoritative value: ACTIVE, or FROZEN and not yet
    /// imported by these workers.
    pub fn is_at_fast_path(&self, flow: &FlowHistory) -> bool {
        self.slot_of(flow).is_some_and(|slot| match slot.fsm {
            Fsm::Active => true,
            Fsm::Frozen => !flow.is_done(slot.generation),
            Fsm::Initial | Fsm::Incomplete => false,
        })
    }

    fn words(&self, slot: usize) -> &[u32] {
        let count = self.words.len() / self.slots.len();
        &self.words[slot * count..(slot + 1) * count]
    }

    /// The slots that are not as they were.
    pub fn changed(&self, stage: &StateStage) -> Vec<usize> {
        let is_changed = |&(place, (key, slot, words)): &(usize, (FlowKey, Slot, &[u32]))| {
            self.slots[place] != slot || self.keys[place] != key || self.words(place) != words
        };
        let slots = stage.each_slot().enumerate().filter(is_changed);
        slots.map(|(place, _)| place).collect()
    }

    /// A slot is like this now, and `owner`'s.
    pub fn follow(
        &mut self,
        place: usize,
        (key, slot, words): (FlowKey, Slot, &[u32]),
        owner: Option<usize>,
    ) -> Followed {
        let seen = &mut self.words[place * words.len()..(place + 1) * words.len()];
        let changes_words = *seen != *words;
        seen.copy_from_slice(words);
        self.keys[place] = key;
        Followed {
            before: std::mem::replace(&mut self.slots[place], slot),
            owner_before: std::mem::replace(&mut self.owners[place], owner),
            changes_words,
        }
    }

    /// The highest number of a pull so far.
    pub fn newest_pull(&self) -> u32 {
        self.newest_pull
    }

    /// The number of a pull that a slot has sent since it was looked at last.
    pub fn new_pull(&mut self, place: usize) -> Option<u32> {
        let Slot {
            fsm, generation, ..
        } = self.slots[place];
        if fsm != Fsm::Incomplete || generation == self.pulled[place] {
            return None;
        }
        self.pulled[place] = generation;
        self.newest_pull = self.newest_pull.max(generation);
        Some(generation)
    }
}
