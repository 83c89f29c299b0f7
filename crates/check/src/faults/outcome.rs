//! What a run came to.

use super::invariant::Violation;
use super::record::{Acted, Coverage, Event};
use super::scenario::Scenario;
use std::fmt;

/// The outcome of a run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The seed.
    pub seed: u64,
    /// The scenario.
    pub scenario: Scenario,
    /// What was broken in the last step; empty if everything held to the end.
    pub violations: Vec<Violation>,
    /// The last events, or all.
    pub events: Vec<Event>,
    /// A digest of all events.
    pub digest: u64,
    /// What was tried.
    pub coverage: Coverage,
    /// What the functions did.
    pub acted: Acted,
}

/// Events shown with a violation.
const EVENTS_SHOWN: usize = 30;

impl Outcome {
    /// The scenario, all events that were kept, and what was broken, in words.
    pub fn story(&self) -> String {
        OutcomeText(self, self.events.len()).to_string()
    }
}

/// The scenario, the last events, and what was broken.
impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        OutcomeText(self, EVENTS_SHOWN).fmt(f)
    }
}

/// An outcome, told with so many events.
struct OutcomeText<'a>(&'a Outcome, usize);

impl fmt::Display for OutcomeText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Outcome {
            seed,
            scenario,
            events,
            ..
        } = self.0;
        writeln!(f, "seed {seed}: {scenario:#?}")?;
        let skipped = events.len().saturating_sub(self.1);
        if skipped > 0 {
            writeln!(f, "the last events:")?;
        }
        for event in &events[skipped..] {
            writeln!(f, "{event}")?;
        }
        match self.0.violations.as_slice() {
            [] => writeln!(f, "everything held"),
            violations => violations
                .iter()
                .try_for_each(|violation| writeln!(f, "BROKEN {violation}")),
        }
    }
}
