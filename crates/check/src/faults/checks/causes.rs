//! Invariants 7 and 8 of the protocol: what a step may touch, and that something happens when it
//! is due.

use super::require::{Checked, require};
use crate::faults::record::{Cause, Record, SlotChange, SlowChange, Step};
use crate::faults::scenario::Scenario;
use twinpath_coherence::fsm::{Fsm, Slot};
use twinpath_link::Message;

/// 7. What a step may touch is given by its cause. A message changes only the slot of its flow,
///    and only if the generation is the slot's; packets change only slots of their flows, or take
///    a free one; timers change only what is due. At the slow path a frame changes only what is known
///    of its flow; time may change others, but never one that is granted.
pub fn no_cross_talk(scenario: &Scenario, record: &Record) -> Checked {
    let step = &record.step;
    for change in &step.slots {
        require(may_change_slot(scenario, step, change), || {
            format!("{change} because of {:?}", step.cause)
        })?;
    }
    for change in &step.slow {
        require(may_change_slow(scenario, record, change), || {
            let (flow, before, after) = (change.flow, change.before, change.after);
            format!(
                "the workers' flow {flow} goes from {before:?} to {after:?} ({:?}) because of {:?}",
                record.history.flows[flow].known_words(),
                step.cause
            )
        })?;
    }
    imports_are_of_what_was_granted(step)
}

fn imports_are_of_what_was_granted(step: &Step) -> Checked {
    for import in &step.imports {
        require(import.installed == import.generation, || {
            let (flow, generation, installed) = (import.flow, import.generation, import.installed);
            format!("generation {generation} of flow {flow} is imported, but it had {installed}")
        })?;
    }
    Ok(())
}

fn may_change_slot(scenario: &Scenario, step: &Step, change: &SlotChange) -> bool {
    may_change_because(&step.cause, scenario, step, change)
        || may_change_because(&Cause::Packets(step.inside.clone()), scenario, step, change)
}

fn may_change_because(
    cause: &Cause,
    scenario: &Scenario,
    step: &Step,
    change: &SlotChange,
) -> bool {
    let stays = change.flow == change.flow_before && !change.changes_words;
    match cause {
        Cause::Packets(flows) => {
            let comes = |flow: Option<usize>| {
                step.rewrites || flow.is_some_and(|flow| flows.contains(&flow))
            };
            let is_theirs = comes(change.flow);
            // A packet in front of it may have let go of the slot.
            let was_left = change.before.fsm == Fsm::Incomplete && comes(change.flow_before);
            let was_free = change.before.fsm == Fsm::Initial || was_left;
            is_theirs && (change.flow == change.flow_before || was_free)
        }
        Cause::Tick => {
            let gives_back = step.brings_flows_home && change.before.fsm == Fsm::Active;
            let is_refused = step.pulls_were_refused && change.before.fsm == Fsm::Incomplete;
            stays && (gives_back || is_refused || is_due(scenario, step, &change.before))
        }
        Cause::Returned {
            flow,
            message,
            generation,
            is_overtaken,
        } => {
            let may_install = *message == Message::State || !change.changes_words;
            let is_its_own = change.flow == *flow && change.flow_before == *flow;
            let is_current = change.before.generation == *generation;
            is_its_own && is_current && may_install && !is_overtaken
        }
        _ => false,
    }
}

/// Whether a slot's time has come.
fn is_due(scenario: &Scenario, step: &Step, slot: &Slot) -> bool {
    let time_to_live = scenario.protocol.time_to_live.as_nanos() as u64;
    match slot.fsm {
        Fsm::Initial => false,
        Fsm::Incomplete | Fsm::Frozen => step.now >= slot.time_ns,
        Fsm::Active => step.packet_now.saturating_sub(slot.time_ns) > time_to_live,
    }
}

fn may_change_slow(scenario: &Scenario, record: &Record, change: &SlowChange) -> bool {
    let flow = &record.history.flows[change.flow];
    match record.step.cause {
        Cause::Received {
            flow: Some(flow), ..
        } if flow == change.flow => true,
        Cause::Received { worker, .. } | Cause::Woken { worker } => {
            worker == flow.worker && time_may_change(scenario, record, change)
        }
        Cause::Crashed { worker } => worker == flow.worker && change.after.is_none(),
        _ => false,
    }
}

fn time_may_change(scenario: &Scenario, record: &Record, change: &SlowChange) -> bool {
    let Some(before) = change.before else {
        return false;
    };
    let keeps_grant = change.after.is_none_or(|after| after == before);
    let entered = record
        .step
        .applied
        .iter()
        .any(|applied| applied.flow == change.flow);
    let flow = &record.history.flows[change.flow];
    let is_gone = flow.known_words().iter().all(|&word| word == 0);
    let is_ledger = scenario.functions.is_ledger();
    before.is_ours() && keeps_grant && (entered || is_gone || !is_ledger)
}

/// 8. After a sweep of the whole table no timer is overdue, unless no buffer was free to send
///    with. At the end of a run, when for long nothing has gone wrong any more, no slot waits for
///    the workers; and since the fast path gives back what is idle, none is taken.
pub fn progress(scenario: &Scenario, record: &Record) -> Checked {
    let step = &record.step;
    let tables = scenario.elements.with_state().count().max(1);
    let sees_all = scenario.sweeps_per_round(record.mirror.slots.len() / tables) == 1;
    if step.cause == Cause::Tick && step.is_sweep && sees_all && !step.lacks_buffer {
        let overdue = record
            .mirror
            .slots()
            .find(|slot| is_due(scenario, step, slot));
        if let Some(slot) = overdue {
            return Err(format!("a slot is {} and overdue", slot.fsm.name()));
        }
    }
    let taken = record.mirror.slots().find(|slot| slot.fsm != Fsm::Initial);
    match taken {
        Some(slot) if step.is_rest => Err(format!("a slot is still {}", slot.fsm.name())),
        _ => Ok(()),
    }
}
