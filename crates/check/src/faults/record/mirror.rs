//! Slots as they were when they were looked at last.

use super::flow::FlowHistory;
use twinpath_coherence::fsm::{Fsm, Slot};
use twinpath_control::service::MAX_CHAIN;
use twinpath_core::FlowKey;
use twinpath_node::{FastElement, FastPath};

/// A slot.
#[derive(Default)]
pub struct SeenSlot {
    /// The element that has it.
    pub element: u8,
    pub key: FlowKey,
    pub slot: Slot,
    pub words: Vec<u32>,
    pub owner: Option<usize>,
    /// The number of its last pull.
    pub pulled: u32,
}

/// The slots of all elements with flow state, each with its element's number.
pub fn each_slot(path: &FastPath) -> impl Iterator<Item = (u8, (FlowKey, Slot, &[u32]))> {
    let elements = (0u8..).zip(path.elements());
    elements.flat_map(|(number, element)| {
        let stage = match element {
            FastElement::State(stage) => Some(stage),
            _ => None,
        };
        let slots = stage.into_iter().flat_map(|stage| stage.each_slot());
        slots.map(move |slot| (number, slot))
    })
}

/// All slots.
#[derive(Default)]
pub struct Mirror {
    pub slots: Vec<SeenSlot>,
    /// The highest number of a pull so far, by element.
    pub newest_pulls: [u32; MAX_CHAIN],
}

impl Mirror {
    /// Begins anew with a fast path whose slots are all free.
    pub fn begin(&mut self, path: &FastPath) {
        let free = each_slot(path).map(|(element, (_, _, words))| SeenSlot {
            element,
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
