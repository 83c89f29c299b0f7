//! A run: a world, the record kept beside it, and who breaks its invariants.

use super::sabotage::{Sabotage, Saboteur};
use crate::faults::checks;
use crate::faults::record::{Cause, Happened, Record};
use crate::faults::world::{LineId, World};

/// A run.
pub struct Run {
    pub world: World,
    pub record: Record,
    pub saboteur: Option<Saboteur>,
}

impl Run {
    /// A step begins.
    pub fn begin(&mut self, cause: Cause) {
        let Self { world, record, .. } = self;
        record.turn += 1;
        let packet_now = world.packet_now().0;
        record.step.begin(cause, world.now, packet_now);
        record.step.rewrites = !world.scenario.knows_flows();
        record.step.brings_flows_home = world.is_stopping || world.chain.next.is_some();
    }

    /// Looks at what the step did, and judges it.
    pub fn check(&mut self) {
        checks::check(&self.world, &mut self.record);
    }

    /// Something happened.
    pub fn note(&mut self, happened: Happened) {
        self.record.note(self.world.now, happened);
    }

    /// How it is sabotaged.
    pub fn sabotage(&self) -> Option<Sabotage> {
        self.saboteur.as_ref().map(|saboteur| saboteur.sabotage)
    }

    /// Whether it is time to strike.
    pub fn strikes(&mut self, one_in: u64) -> bool {
        let saboteur = self.saboteur.as_mut();
        saboteur.is_some_and(|saboteur| saboteur.strikes(one_in))
    }

    /// A frame is tampered with.
    pub fn note_sabotage(&mut self, line: LineId, how: &'static str) {
        self.note(Happened::Sabotaged { line, how });
    }
}
