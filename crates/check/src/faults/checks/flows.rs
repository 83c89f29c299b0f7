//! What the workers know of flows after a step that they did not before.

use crate::faults::functions::Account;
use crate::faults::record::{Cause, Record, SlowChange};
use crate::faults::world::World;
use twinpath_coherence::Grant;

/// Compares what the workers know of flows with what they knew, and brings the record up to date.
pub fn look_at_flows(world: &World, record: &mut Record) {
    for flow in 0..record.history.flows.len() {
        look_at(world, record, flow);
    }
}

fn look_at(world: &World, record: &mut Record, flow: usize) {
    let history = &mut record.history.flows[flow];
    let worker = &world.workers[history.worker];
    let has_followed = worker.has_followed(history.name());
    let had_followed = std::mem::replace(&mut history.has_followed, has_followed);
    let is_moved = has_followed && !had_followed;
    let now = worker.view(history.name());
    let then = history.at_worker.as_ref();
    let then = then.map(|(grant, words)| (*grant, words.as_slice()));
    if now == then {
        return;
    }
    // With the next change flows follow the last one that had no occasion before.
    let may_follow = is_moved || record.step.cause == Cause::Changed;
    let is_ledger = world.scenario.functions.is_ledger();
    let only_follows = may_follow && are_the_same(then, now, is_ledger);
    let change = SlowChange {
        flow,
        before: then.map(|(grant, _)| grant),
        after: now.map(|(grant, _)| grant),
    };
    history.at_worker = now.map(|(grant, words)| (grant, words.to_vec()));
    match only_follows {
        true => record.coverage.flows_followed += 1,
        false => record.step.slow.push(change),
    }
}

/// Whether what two chains have of a flow is the same but for the places of its words.
fn are_the_same(
    then: Option<(Grant, &[u32])>,
    now: Option<(Grant, &[u32])>,
    is_ledger: bool,
) -> bool {
    let (Some(then), Some(now)) = (then, now) else {
        return false;
    };
    then.0 == now.0 && (!is_ledger || Account::among(then.1) == Account::among(now.1))
}
