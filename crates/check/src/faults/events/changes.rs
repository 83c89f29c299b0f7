//! Changes of the chain, and the end of the run. The sequence that makes them is the machine's own.

use super::run::Run;
use super::sabotage::Sabotage;
use crate::faults::chain::{NextChain, Variant, service};
use crate::faults::checks::justify_drops;
use crate::faults::invariant::Invariant;
use crate::faults::record::Happened;
use twinpath_coherence::fsm::Fsm;
use twinpath_node::machine::ChangeOutcome;

/// Now and then another chain is wanted.
pub fn change_or_not(run: &mut Run) {
    let world = &mut run.world;
    let begins = world
        .changes
        .permille(world.scenario.workers.change_permille);
    if !begins || world.chain.next.is_some() || world.is_calm {
        return;
    }
    let variant = Variant::drawn(&mut world.changes);
    if let Err(what) = ask_for(run, variant) {
        run.record.step.fault(Invariant::Migration, what);
    }
}

fn ask_for(run: &mut Run, variant: Variant) -> Result<(), String> {
    let words = |error: &dyn std::error::Error| error.to_string();
    let world = &run.world;
    let service = service::service(&world.scenario, variant, (&world.notes, world.seed));
    let service = service.map_err(|error| words(&error))?;
    let made = service::replacement(&world.scenario, &world.chain.service, &service);
    let mut replacement = made.map_err(|error| words(&error))?;
    let brings_flows_home = replacement.brings_flows_home;
    if run.sabotage() == Some(Sabotage::HastyChange) {
        replacement.brings_flows_home = false;
    }
    run.note(Happened::ChangeAsked);
    let has_parked = run.world.keeps_anything();
    if run.world.machine.change(Box::new(replacement)).is_ok() {
        run.world.chain.next = Some(NextChain {
            variant,
            service,
            brings_flows_home,
            has_parked,
        });
    }
    Ok(())
}

/// The state of all flows is the workers', and no frame carries any.
pub fn check_all_home(run: &mut Run) {
    let next = run.world.chain.next.as_ref();
    let changes_state = next.is_some_and(|next| next.brings_flows_home);
    let mut slots = run.record.mirror.slots();
    let taken = slots.find(|slot| changes_state && slot.fsm != Fsm::Initial);
    if let Some(slot) = taken {
        let what = format!("the chain changes while a slot is {}", slot.fsm.name());
        run.record.step.fault(Invariant::Migration, what);
    }
}

/// The machine tells what became of a change, or of the run.
pub fn come_of(run: &mut Run, outcome: ChangeOutcome) {
    match outcome {
        ChangeOutcome::Changed(_) => changed(run),
        ChangeOutcome::Refused(..) => {
            run.note(Happened::GivesUp);
            run.record.coverage.changes_given_up += 1;
            run.world.chain.next = None;
        }
        ChangeOutcome::Stopped { is_drained } => {
            run.note(Happened::Stopped);
            run.world.has_stopped = true;
            if !is_drained {
                let what = "the run ends while something is under way".into();
                run.record.step.fault(Invariant::Progress, what);
            }
        }
    }
}

/// Both paths have the other chain.
fn changed(run: &mut Run) {
    let Some(next) = run.world.chain.next.take() else {
        return;
    };
    run.note(Happened::Changed);
    let Run { world, record, .. } = run;
    record.coverage.changes += 1;
    record.coverage.changes_while_parked += u64::from(next.has_parked);
    // No packet is under way: what is still inside was dropped by the old chain.
    justify_drops(world, record);
    record.inside.clear();
    // Tables that stay have rules of a former life until the fast path hears of the next.
    let keeps_rules = next.variant.keeps_rules_of(world.chain.variant);
    if world.knows_epoch(0) || !keeps_rules {
        record.bindings.former_rules_are_gone(record.turn);
    }
    if !keeps_rules {
        record.bindings.uses_may_be_lost();
    }
    if let Err(error) = record.reference.change(&next.service) {
        record.step.fault(Invariant::Migration, error.to_string());
    }
    (world.chain.variant, world.chain.service) = (next.variant, next.service);
    if next.brings_flows_home {
        let is_unusual = next.variant.is_unusual();
        record.history.orders_each_end = is_unusual || world.scenario.orders_each_end();
        record.begin_mirror(world.machine.path());
        let expiry_ticks = next.variant.expiry_ticks(&world.scenario.traffic);
        record
            .history
            .expire_after(expiry_ticks, world.packet_now());
    }
}
