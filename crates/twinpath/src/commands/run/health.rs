//! What becomes of a run's health is told once, when it changes.

use std::collections::BTreeSet;
use twinpath_node::health::{Health, Phase};

/// What was told last.
#[derive(Default)]
pub struct HealthLog {
    phase: Phase,
    problems: BTreeSet<String>,
    restarts: u64,
}

impl HealthLog {
    /// This is how the run is now.
    pub fn hears(&mut self, health: &Health) {
        if health.phase != self.phase {
            self.phase = health.phase;
            tracing::info!(phase = health.phase.name(), "{}", health.phase.name());
        }
        if health.restarts > self.restarts {
            let restarts = health.restarts;
            self.restarts = restarts;
            tracing::error!(restarts, "a worker crashed, and began anew");
        }
        let now: BTreeSet<String> = health.problems.iter().cloned().collect();
        for problem in now.difference(&self.problems) {
            tracing::warn!(problem, "{problem}");
        }
        for problem in self.problems.difference(&now) {
            tracing::info!(problem, "no more: {problem}");
        }
        self.problems = now;
    }
}
