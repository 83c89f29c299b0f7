//! When new flows are due, and which ones they replace.

use crate::config::TrafficConfig;
use crate::hosts::Permutation;

/// A schedule of new flows, evenly spaced.
#[derive(Debug, Clone)]
pub(crate) struct Churn {
    start_ns: u64,
    gap_ns: f64,
    /// New flows begun so far.
    pub(crate) count: u64,
    victims: Permutation,
    place: u64,
}

impl Churn {
    /// How many victims are tried for one packet of the run.
    pub(crate) const TRIES: usize = 16;

    pub(crate) fn new(config: &TrafficConfig, seed: u64) -> Self {
        Self {
            start_ns: config.start_ns,
            gap_ns: 60e9 / config.churn_per_minute,
            count: 0,
            victims: Permutation::new(config.flows - config.lasting_flows, seed),
            place: 0,
        }
    }

    /// Whether another new flow should have begun by now.
    pub(crate) fn is_due(&self, now_ns: u64) -> bool {
        let elapsed_ns = now_ns.saturating_sub(self.start_ns) as f64;
        self.gap_ns * (self.count + 1) as f64 <= elapsed_ns
    }

    /// The slot of the oldest flow of those that do not stay: each slot has its turn once a round.
    pub(crate) fn next_victim(&mut self) -> usize {
        let slot = self.victims.at(self.place);
        self.place = self.place.wrapping_add(1);
        slot as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flow_is_due_after_each_gap() {
        let config = TrafficConfig {
            churn_per_minute: 60.0,
            flows: 3,
            start_ns: 7,
            ..TrafficConfig::default()
        };
        let mut churn = Churn::new(&config, 1);
        assert!(!churn.is_due(1_000_000_006) && churn.is_due(1_000_000_007));
        churn.count = 1;
        assert!(!churn.is_due(2_000_000_006) && churn.is_due(2_000_000_007));
    }

    #[test]
    fn victims_take_turns() {
        let config = TrafficConfig {
            churn_per_minute: 60.0,
            flows: 3,
            ..TrafficConfig::default()
        };
        let mut churn = Churn::new(&config, 1);
        let mut round: Vec<usize> = (0..3).map(|_| churn.next_victim()).collect();
        let again: Vec<usize> = (0..3).map(|_| churn.next_victim()).collect();
        assert_eq!(round, again);
        round.sort_unstable();
        assert_eq!(round, [0, 1, 2]);
    }

    #[test]
    fn those_that_stay_have_no_turn() {
        let config = TrafficConfig {
            churn_per_minute: 60.0,
            flows: 5,
            lasting_flows: 3,
            ..TrafficConfig::default()
        };
        let mut churn = Churn::new(&config, 1);
        let mut victims: Vec<usize> = (0..4).map(|_| churn.next_victim()).collect();
        victims.sort_unstable();
        assert_eq!(victims, [0, 0, 1, 1]);
    }
}
