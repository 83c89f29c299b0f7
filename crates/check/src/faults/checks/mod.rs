//! The eight invariants of the protocol, two of the data plane, one of its change, four of rules,
//! one of parked payloads and one of departures, checked after every step.
//!
//! Invariants 1 to 8 are those of the protocol's design, in its numbering.

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

pub use applied::apply_crossed;
pub use exit::{Exit, ExitKind};
pub use inside::{come_out, go_inside, justify_drops, note_inside, settle_inside};
pub use translation::{admit_client, follow_bindings};

use super::record::Record;
use super::rule::{Rule, Violation};
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

/// Every rule that a step broke.
fn broken(world: &World, record: &Record) -> Vec<Violation> {
    let mut broken = record.step.faults.clone();
    for rule in Rule::ALL {
        if let Err(what) = check_rule(rule, world, record) {
            broken.push(Violation { rule, what });
        }
    }
    broken
}

fn check_rule(rule: Rule, world: &World, record: &Record) -> Checked {
    let (scenario, step) = (&world.scenario, &record.step);
    match rule {
        Rule::NothingBehind => protocol::nothing_behind(record),
        Rule::OneTruth => protocol::one_truth(world, record),
        Rule::OneImport => protocol::one_import(step),
        Rule::FreedAfterImport => protocol::freed_after_import(record),
        Rule::OnceInOrder => protocol::once_in_order(scenario, step),
        Rule::FrozenStays => protocol::frozen_stays(record),
        Rule::NoCrossTalk => causes::no_cross_talk(scenario, record),
        Rule::Progress => causes::progress(scenario, record),
        Rule::BooksAgree => rules::books_agree(world, step.is_rest),
        Rule::Conserved => conservation::conserved(world, record),
        // These show while a step is made, and are reported from there.
        Rule::LinkChecked
        | Rule::Migration
        | Rule::AsAlone
        | Rule::InForce
        | Rule::AliveInUse
        | Rule::Whole
        | Rule::Watermark => Ok(()),
    }
}
