//! The machine hears how far its workers are.

use super::outputs::follow_out;
use super::run::Run;
use super::slow_path::report;
use crate::faults::checks::note_inside;
use crate::faults::invariant::{Invariant, Violation};
use crate::faults::record::Cause;
use crate::faults::world::{Next, Report};
use twinpath_core::Instant;

/// The machine hears how far workers are, when all that they gave back by then has been handed in
/// or is lost.
pub fn tell_reports(run: &mut Run) {
    for worker in 0..run.world.workers.len() {
        // What comes of it may be lost at once.
        loop {
            report(run, worker, None);
            let Some(report) = run.world.workers[worker].next_report() else {
                break;
            };
            tell(run, worker, report);
        }
    }
    let world = &mut run.world;
    if world.arrivals.are_waiting && world.machine.room() > 0 {
        world.arrivals.are_waiting = false;
        world.arrivals.next = world.now;
        world.agenda.add(world.now, Next::Arrival);
    }
}

fn tell(run: &mut Run, worker: usize, report: Report) {
    let world = &mut run.world;
    let before = (world.machine.watermark(), world.machine.oldest());
    world
        .machine
        .progress(worker, report.progress, &mut world.out);
    if world.out.frames.is_empty() && report.answer.is_none() {
        return check_watermark(run, before);
    }
    let clock = world.clock();
    run.begin(Cause::Tick);
    note_inside(&mut run.record);
    if let Some(answer) = report.answer {
        let world = &mut run.world;
        world
            .machine
            .answered(worker, answer, clock, &mut world.out);
    }
    follow_out(run);
    run.check();
    check_watermark(run, before);
}

/// What has not come to its end is not behind the watermark, which never goes back.
fn check_watermark(run: &mut Run, before: (u64, Instant)) {
    let (watermark, floor) = (run.world.machine.watermark(), run.world.machine.oldest());
    let under_way = run.record.history.oldest_on_the_link();
    let is_passed = under_way.is_some_and(|first| first < watermark);
    if watermark < before.0 || floor < before.1 || is_passed {
        let what = format!(
            "the watermark goes from {} to {watermark}, while the packet that arrived as {under_way:?} is under way",
            before.0
        );
        let invariant = Invariant::Watermark;
        // This only shows after the check.
        run.record.violations.push(Violation { invariant, what });
    }
}
