//! Which slots are not as they were after a step.

use crate::faults::invariant::Invariant;
use crate::faults::record::{Happened, Record, SeenSlot, SlotChange};
use crate::faults::world::World;
use twinpath_coherence::StateStage;
use twinpath_coherence::fsm::{Fsm, Slot};

/// Compares the slots with what they were, and brings the record up to date.
pub fn look_at_slots(world: &World, record: &mut Record) {
    let newest = record.mirror.newest_pull;
    let slots = world.machine.path().stage().into_iter();
    for (place, (key, slot, words)) in slots.flat_map(StateStage::each_slot).enumerate() {
        let seen = &mut record.mirror.slots[place];
        let changes_words = seen.words != words;
        if (seen.slot, seen.key) == (slot, key) && !changes_words {
            continue;
        }
        let owner = record.history.flow_of(&key);
        seen.words.copy_from_slice(words);
        seen.key = key;
        let before = std::mem::replace(&mut seen.slot, slot);
        let owner_before = std::mem::replace(&mut seen.owner, owner);
        follow(record, place, owner_before);
        record.step.slots.push(SlotChange {
            flow_before: owner_before,
            flow: owner,
            before,
            after: slot,
            changes_words,
        });
        if (before.fsm, before.generation) != (slot.fsm, slot.generation) {
            follow_state(world, record, place, before.fsm);
        }
        check_pull(record, place, newest);
    }
}

/// The slot may have another owner.
fn follow(record: &mut Record, place: usize, owner_before: Option<usize>) {
    let owner = record.mirror.slots[place].owner;
    if let Some(before) = owner_before.filter(|_| owner_before != owner) {
        record.history.flows[before].slot = None;
    }
    if let Some(owner) = owner {
        record.history.flows[owner].slot = Some(place);
    }
}

fn follow_state(world: &World, record: &mut Record, slot: usize, from: Fsm) {
    let SeenSlot {
        slot: after,
        owner: Some(flow),
        words,
        ..
    } = &record.mirror.slots[slot]
    else {
        return;
    };
    let (flow, to, generation) = (*flow, after.fsm, after.generation);
    let history = &mut record.history.flows[flow];
    match to {
        Fsm::Active => history.install(generation),
        Fsm::Frozen => history.frozen.clone_from(words),
        Fsm::Initial | Fsm::Incomplete => {}
    }
    record.note(
        world.now,
        Happened::Slot {
            slot,
            flow,
            from,
            to,
            generation,
        },
    );
}

/// Pulls are numbered on, whichever stage sends them: all of a step after those before it.
fn check_pull(record: &mut Record, place: usize, newest: u32) {
    let seen = &mut record.mirror.slots[place];
    let Slot {
        fsm, generation, ..
    } = seen.slot;
    if fsm != Fsm::Incomplete || generation == seen.pulled {
        return;
    }
    seen.pulled = generation;
    record.mirror.newest_pull = record.mirror.newest_pull.max(generation);
    if generation <= newest {
        let what = format!("a pull is numbered {generation}, {newest} was before");
        record.step.fault(Invariant::Migration, what);
    }
}
