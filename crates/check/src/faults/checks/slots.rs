//! Which slots are not as they were after a step.

use crate::faults::record::Record;
use crate::faults::record::happened::Happened;
use crate::faults::record::step::SlotChange;
use crate::faults::rule::Rule;
use crate::faults::world::World;
use twinpath_coherence::StateStage;
use twinpath_coherence::fsm::{Fsm, Slot};

/// Compares the slots with what they were, and brings the record up to date.
pub fn look_at_slots(world: &World, record: &mut Record) {
    let Some(stage) = world.machine.path().stage() else {
        return;
    };
    let newest = record.mirror.newest_pull();
    for place in record.mirror.changed(stage) {
        follow(record, place, stage, world.now);
        check_pull(record, place, newest);
    }
}

fn follow(record: &mut Record, place: usize, stage: &StateStage, now: u64) {
    let Some(seen) = stage.each_slot().nth(place) else {
        return;
    };
    let (key, after, _) = seen;
    let flow = record.history.flow_of(&key);
    let was = record.mirror.follow(place, seen, flow);
    if let Some(owner) = was.owner_before.filter(|_| was.owner_before != flow) {
        record.history.flows[owner].slot = None;
    }
    record.step.slots.push(SlotChange {
        flow_before: was.owner_before,
        flow,
        before: was.before,
        after,
        changes_words: was.changes_words,
    });
    if let Some(flow) = flow {
        record.history.flows[flow].slot = Some(place);
        follow_state(record, (place, flow), (&was.before, &after), now);
    }
}

fn follow_state(
    record: &mut Record,
    (slot, flow): (usize, usize),
    (before, after): (&Slot, &Slot),
    now: u64,
) {
    let generation = after.generation;
    if (before.fsm, before.generation) == (after.fsm, generation) {
        return;
    }
    let (from, to) = (before.fsm, after.fsm);
    record.note(
        now,
        Happened::Slot {
            slot,
            flow,
            from,
            to,
            generation,
        },
    );
    let history = &mut record.history.flows[flow];
    match after.fsm {
        Fsm::Active => history.install(generation),
        Fsm::Frozen => history.frozen = record.mirror.words_of(history).to_vec(),
        Fsm::Initial | Fsm::Incomplete => {}
    }
}

/// Pulls are numbered on, whichever stage sends them: all of a step after those before it.
fn check_pull(record: &mut Record, place: usize, newest: u32) {
    let pull = record.mirror.new_pull(place);
    if let Some(generation) = pull.filter(|&generation| generation <= newest) {
        let what = format!("a pull is numbered {generation}, {newest} was before");
        record.fault(Rule::Migration, what);
    }
}
