//! Slots as they were when they were looked at last.

use super::flow::FlowHistory;
use twinpath_coherence::StateStage;
use twinpath_coherence::fsm::{Fsm, Slot};
use twinpath_core::FlowKey;

/// A slot.
#[derive(Default)]
pub struct SeenSlot {
    pub key: FlowKey,
    pub slot: Slot,
    pub words: Vec<u32>,
    pub owner: Option<usize>,
    /// The number of its last pull.
    pub pulled: u32,
}

/// All slots.
#[derive(Default)]
pub struct Mirror {
    pub slots: Vec<SeenSlot>,
    /// The highest number of a pull so far.
    pub newest_pull: u32,
}

impl Mirror {
    /// Begins anew with a stage whose slots are all free.
    pub fn begin(&mut self, stage: Option<&StateStage>) {
        let slots = stage.into_iter().flat_map(StateStage::each_slot);
        let free = slots.map(|(_, _, words)| SeenSlot {
            words: vec![0; words.len()],
            ..SeenSlot::default()
        });
        self.slots = free.collect();
    }

    /// The slots alone.
    pub fn slots(&self) -> impl Iterator<Item = &Slot> {
        self.slots.iter().map(|seen| &seen.slot)
    }

    /// A flow's slot.
    pub fn slot_of(&self, flow: &FlowHistory) -> Option<&Slot> {
        flow.slot.map(|slot| &self.slots[slot].slot)
    }

    /// The words in a flow's slot.
    pub fn words_of(&self, flow: &FlowHistory) -> &[u32] {
        flow.slot.map_or(&[], |slot| &self.slots[slot].words)
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
}
