//! The eight invariants of the protocol, two of the data plane, one of its change, four of rules,
//! one of parked payloads, one of departures, and two of what an inspector and a key-value store let
//! out, checked after every step.
//!
//! Invariants 1 to 8 are those of the protocol's design, in its numbering.

mod answers;
mod applied;
mod causes;
mod conservation;
mod exit;
mod flows;
mod inside;
mod passage;
mod protocol;
mod require;
mod rules;
mod slots;
mod translation;

pub use answers::check_leaving;
pub use applied::apply_crossed;
pub use exit::{Exit, ExitKind};
pub use inside::{come_out, go_inside, justify_drops, note_inside, settle_inside};
pub use passage::is_dropped_beside;
pub use translation::{admit_client, follow_bindings};

use super::invariant::{Invariant, Violation};
use super::record::Record;
use super::world::World;
use require::Checked;

/// Looks at what a step did, and judges it.
pub fn check(world: &World, record: &mut Record) {
    slots::look_at_slots(world, record);
    flows::look_at_flows(world, record);
    record.coverage.steps += 1;
    // Several checks may follow one another before anybody looks at what was found.
    if record.violations.is_empty() {
        record.violations = broken(world, record);
    }
}

/// Every invariant that a step broke.
fn broken(world: &World, record: &Record) -> Vec<Violation> {
    let mut broken = record.step.faults.clone();
    for invariant in Invariant::ALL {
        if let Err(what) = check_invariant(invariant, world, record) {
            broken.push(Violation { invariant, what });
        }
    }
    broken
}

fn check_invariant(invariant: Invariant, world: &World, record: &Record) -> Checked {
    let (scenario, step) = (&world.scenario, &record.step);
    match invariant {
        Invariant::NothingBehind => protocol::nothing_behind(record),
        Invariant::OneTruth => protocol::one_truth(world, record),
        Invariant::OneImport => protocol::one_import(step),
        Invariant::FreedAfterImport => protocol::freed_after_import(record),
        Invariant::OnceInOrder => protocol::once_in_order(scenario, step),
        Invariant::FrozenStays => protocol::frozen_stays(record),
        Invariant::NoCrossTalk => causes::no_cross_talk(scenario, record),
        Invariant::Progress => causes::progress(scenario, record),
        Invariant::BooksAgree => rules::books_agree(world, step.is_rest),
        Invariant::Conserved => conservation::conserved(world, record),
        // These show while a step is made, and are reported from there.
        Invariant::LinkChecked
        | Invariant::Migration
        | Invariant::AsAlone
        | Invariant::InForce
        | Invariant::AliveInUse
        | Invariant::Whole
        | Invariant::Watermark
        | Invariant::KeptOut
        | Invariant::Remembered => Ok(()),
    }
}
