//! Invariants 1 to 6 of the protocol: where a flow's value is, and what becomes of it.
//!
//! What the protocol believes is read from production (the slots, the workers' flows and grants);
//! what is true is the observer's [history](crate::faults::record::history).

use super::require::{Checked, require};
use crate::faults::functions::Account;
use crate::faults::record::{FlowHistory, Record, Step};
use crate::faults::scenario::Scenario;
use crate::faults::world::World;
use twinpath_coherence::Grant;
use twinpath_coherence::fsm::Fsm;

/// 1. While a slot is ACTIVE no PLAIN or PULL of its flow is under way to the slow path (one that can
///    only be dropped for having been overtaken does not count), and the workers hold no packet of
///    it back.
pub fn nothing_behind(record: &Record) -> Checked {
    for (number, flow) in record.history.flows.iter().enumerate() {
        let is_active = record.mirror.is(Fsm::Active, flow);
        let held = flow.truth.held.len();
        require(!is_active || flow.behind + held == 0, || {
            let behind = flow.behind;
            format!(
                "flow {number} is ACTIVE with {behind} frames under way and {held} packets held"
            )
        })?;
    }
    Ok(())
}

/// 2. A flow's value is the fast path's while its slot is ACTIVE, or FROZEN and not imported by
///    these workers; otherwise it is the workers'. In the first case the workers must know that they may
///    not write. In either, the value is the account of all packets applied, in order: the
///    observer's, kept from what went in and came out. (After a crash a flow that was the workers'
///    is open: its first frame decides whether it goes on from a frozen value or from nothing, and
///    from then on it is held to it. Workers that find a flow silent for longer than its time-out
///    may have closed its account already.)
pub fn one_truth(world: &World, record: &Record) -> Checked {
    for (number, flow) in record.history.flows.iter().enumerate() {
        if record.mirror.is_at_fast_path(flow) {
            let writes = |(grant, _): &(Grant, Vec<u32>)| grant.is_ours();
            require(!flow.at_worker.as_ref().is_some_and(writes), || {
                format!("flow {number} is the fast path's, but the workers think that it is theirs")
            })?;
        }
        if world.scenario.functions.is_ledger() && !flow.truth.is_open {
            holds_the_truth(world, record, number, flow)?;
        }
    }
    Ok(())
}

fn holds_the_truth(world: &World, record: &Record, number: usize, flow: &FlowHistory) -> Checked {
    let truth = flow.truth.account;
    if record.mirror.is_at_fast_path(flow) {
        let words = record.mirror.words_of(flow);
        return require(Account::among(words) == Some(truth), || {
            format!(
                "the slot of flow {number} holds {words:?}, the truth is {:?}",
                truth.0
            )
        });
    }
    let at_worker = match flow.known_words() {
        [] => Some(Account::default()),
        words => Account::among(words),
    };
    let is_over = world.is_stopping && !truth.is_nothing();
    let may_be_gone = is_over || truth.is_expired(world.packet_now(), record.history.expiry_ticks);
    let is_gone = may_be_gone && at_worker.is_some_and(Account::is_nothing);
    require(at_worker == Some(truth) || is_gone, || {
        let words = flow.known_words();
        format!(
            "the workers have {words:?} of flow {number}, the truth is {:?}",
            truth.0
        )
    })
}

/// 3. One life of the slow path imports the value of a generation at most once.
pub fn one_import(step: &Step) -> Checked {
    for import in &step.imports {
        require(!import.is_second, || {
            let (generation, flow) = (import.generation, import.flow);
            format!("generation {generation} of flow {flow} is imported a second time")
        })?;
    }
    Ok(())
}

/// 4. A FROZEN slot stays FROZEN in its generation until workers have imported the value; an ACTIVE
///    slot stays ACTIVE or becomes FROZEN, in its generation.
pub fn freed_after_import(record: &Record) -> Checked {
    for change in &record.step.slots {
        let (before, after) = (change.before, change.after);
        let is_kept = change.flow == change.flow_before && before.generation == after.generation;
        let Some(flow) = change.flow_before.map(|flow| &record.history.flows[flow]) else {
            continue;
        };
        let allowed = match before.fsm {
            Fsm::Active => is_kept && matches!(after.fsm, Fsm::Active | Fsm::Frozen),
            Fsm::Frozen => {
                (is_kept && after.fsm == Fsm::Frozen) || flow.was_ever_done(before.generation)
            }
            Fsm::Initial | Fsm::Incomplete => true,
        };
        require(allowed, || {
            format!("{change}, and its value was never imported")
        })?;
    }
    Ok(())
}

/// 5. Packets of a flow are applied at most once and in order of arrival, wherever that is; they
///    leave in order of arrival too, after they were applied, and as they came. Packets not
///    applied were lost or dropped on the way, which [`conserved`] sees to.
pub fn once_in_order(scenario: &Scenario, step: &Step) -> Checked {
    for applied in &step.applied {
        require(
            !applied.is_double && applied.packet > applied.previous,
            || {
                let (flow, packet, previous) = (applied.flow, applied.packet, applied.previous);
                format!("packet {packet} of flow {flow} is applied after packet {previous}")
            },
        )?;
    }
    for left in &step.left {
        let in_order = left.packet > left.previous || !scenario.keeps_order();
        let is_applied = left.is_applied || !scenario.functions.is_ledger();
        require(in_order && is_applied && left.as_it_came, || {
            let (flow, packet, previous) = (left.flow, left.packet, left.previous);
            let how = match (is_applied, left.as_it_came) {
                (false, _) => "without having been applied",
                (_, false) => "changed",
                _ => "out of order",
            };
            format!("packet {packet} of flow {flow} leaves after packet {previous}, {how}")
        })?;
    }
    Ok(())
}

/// 6. While a slot is FROZEN its words stay as they were, and every write-back that is received
///    brings exactly these.
pub fn frozen_stays(record: &Record) -> Checked {
    for (number, flow) in record.history.flows.iter().enumerate() {
        let is_frozen = record.mirror.is(Fsm::Frozen, flow);
        require(
            !is_frozen || record.mirror.words_of(flow) == flow.frozen,
            || {
                let (now, then) = (record.mirror.words_of(flow), &flow.frozen);
                format!("flow {number} was frozen with {then:?} and now holds {now:?}")
            },
        )?;
    }
    for written in &record.step.written_back {
        require(written.is_what_was_frozen, || {
            let (flow, generation) = (written.flow, written.generation);
            format!("WB({generation}) of flow {flow} does not bring what was frozen")
        })?;
    }
    Ok(())
}
