use super::sabotage::Sabotage;
use super::*;
use std::collections::HashMap;

/// Seeds that a test runs: as many as it says, or `TWINPATH_SEEDS`.
fn seeds(usual: u64) -> u64 {
    let asked = std::env::var("TWINPATH_SEEDS").ok();
    asked.and_then(|seeds| seeds.parse().ok()).unwrap_or(usual)
}

fn run(seed: u64, scenario: &Scenario) -> Outcome {
    Simulation::new(seed, scenario)
        .expect("a sound scenario")
        .run()
}

#[test]
fn thousands_of_seeds_hold() {
    let mut coverage = Coverage::default();
    for seed in 0..seeds(4000) {
        let outcome = run(seed, &Scenario::drawn(seed));
        assert!(outcome.violations.is_empty(), "{outcome}");
        coverage.absorb(&outcome.coverage);
    }
    println!("{coverage:#?}");
    for (name, times) in coverage.each() {
        assert!(times >= 10, "{name} happened {times} times only");
    }
}
