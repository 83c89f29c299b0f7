//! The queue in which payloads wait, in a run.

use super::rule::Rule;
use super::simulation::Simulation;
use twinpath_core::DropReason;
use twinpath_parking::Stage;

impl Simulation {
    pub(super) fn has_parking(&self) -> bool {
        self.scenario.parking.is_some()
    }

    /// Packets dropped because payloads or packets had no room in the queue.
    pub(super) fn drops_for_parking(&self) -> u64 {
        self.machine.path().drops().of(DropReason::ParkingFull)
    }

    fn parking(&self) -> Option<&Stage> {
        self.machine.path().parking()
    }

    /// Whether payloads or packets wait in the queue.
    pub(super) fn parks_anything(&self) -> bool {
        self.parking().is_some_and(|stage| !stage.is_empty())
    }

    /// In the end nothing waits, and every payload has come to one end.
    pub(super) fn settle_parking(&mut self) {
        let Some(stats) = self.parking().map(|stage| *stage.stats()) else {
            return;
        };
        if self.parks_anything() || stats.parked != stats.ended() {
            let what = format!(
                "of {} payloads {} have come to an end",
                stats.parked,
                stats.ended()
            );
            self.step.fault(Rule::Whole, what);
        }
    }

    /// Adds up what production counted of payloads.
    pub(super) fn count_parking(&mut self) {
        let Some(stage) = self.machine.path().parking() else {
            return;
        };
        let (stats, counts) = (*stage.stats(), *stage.counts());
        let coverage = &mut self.coverage;
        coverage.payloads_parked += stats.parked;
        coverage.payloads_joined += stats.departed;
        coverage.payloads_declined += stats.declined;
        coverage.payloads_missing += stats.expired + stats.late;
        coverage.parking_followers += stats.followers;
        coverage.headers_stale += stats.headers_stale;
        coverage.parking_full += counts.no_room + counts.refused + counts.with_state;
    }
}
