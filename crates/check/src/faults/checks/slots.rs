//! Which slots are not as they were after a step.

use crate::faults::invariant::Invariant;
use crate::faults::record::{FlowHistory, Happened, Record, SeenSlot, SlotChange, each_slot};
use crate::faults::world::World;
use twinpath_coherence::fsm::{Fsm, Slot};

/// Compares the slots with what they were, and brings the record up to date.
pub fn look_at_slots(world: &World, record: &mut Record) {
    let newest = record.mirror.newest_pulls;
    let slots = each_slot(world.machine.path());
    for (place, (element, (key, slot, words))) in slots.enumerate() {
        let seen = &mut record.mirror.slots[place];
        let changes_words = seen.words != words;
        if (seen.slot, seen.key) == (slot, key) && !changes_words {
            continue;
        }
        let owner = record.history.flow_of(element, &key);
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
        check_pull(record, place, newest[usize::from(element)]);
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
    if to == Fsm::Active && is_elsewhere(record, flow) {
        record.coverage.installs_beside += 1;
    }
    let history = &mut record.history.flows[flow];
    // Packets that waited for the state may have frozen it at once.
    if to == Fsm::Active || (from, to) == (Fsm::Incomplete, Fsm::Frozen) {
        history.install(generation);
    }
    if to == Fsm::Frozen {
        history.frozen.clone_from(words);
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

/// Whether another element's table has state of the same flow.
fn is_elsewhere(record: &Record, flow: usize) -> bool {
    let FlowHistory { element, key, .. } = record.history.flows[flow];
    let mut slots = record.mirror.slots.iter();
    slots.any(|seen| seen.element != element && seen.key == key && seen.slot.fsm == Fsm::Active)
}

/// Pulls are numbered on, whichever stage of an element sends them: all of a step after those before
/// it.
fn check_pull(record: &mut Record, place: usize, newest: u32) {
    let seen = &mut record.mirror.slots[place];
    let Slot {
        fsm, generation, ..
    } = seen.slot;
    if fsm != Fsm::Incomplete || generation == seen.pulled {
        return;
    }
    seen.pulled = generation;
    let newest_now = &mut record.mirror.newest_pulls[usize::from(seen.element)];
    *newest_now = generation.max(*newest_now);
    if generation <= newest {
        let what = format!("a pull is numbered {generation}, {newest} was before");
        record.step.fault(Invariant::Migration, what);
    }
}
