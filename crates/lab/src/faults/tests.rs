use super::log::Event;
use super::sabotage::Sabotage;
use super::*;

/// Seeds that a test runs: as many as it says, or `TWINPATH_SEEDS`.
fn seeds(usual: u64) -> u64 {
    let asked = std::env::var("TWINPATH_SEEDS").ok();
    asked.and_then(|seeds| seeds.parse().ok()).unwrap_or(usual)
}

fn simulation(seed: u64, scenario: &Scenario) -> Simulation {
    Simulation::new(seed, scenario).expect("a sound scenario")
}

/// Runs many seeds, all of which must hold; returns what they tried.
fn all_hold(seeds: u64, scenario: impl Fn(u64) -> Scenario) -> Coverage {
    let mut coverage = Coverage::default();
    for seed in 0..seeds {
        let outcome = simulation(seed, &scenario(seed)).run();
        assert!(outcome.violations.is_empty(), "{outcome}");
        coverage.absorb(&outcome.coverage);
    }
    coverage
}

#[test]
fn thousands_of_seeds_hold() {
    let coverage = all_hold(seeds(6000), Scenario::drawn);
    println!("{coverage:#?}");
    for (name, times) in coverage.each() {
        assert!(
            times >= 100,
            "{name}: {times} times is too few to mean much"
        );
    }
}

#[test]
fn the_functions_that_users_run_hold() {
    for functions in Functions::REAL {
        let coverage = all_hold(seeds(400), |seed| Scenario::drawn_for(functions, seed));
        println!("{functions:?}: {coverage:#?}");
        for (name, times) in coverage.each() {
            let is_ledgers = matches!(name, "held" | "woken");
            assert!(
                times >= 10 || is_ledgers,
                "{functions:?}: {name} {times} times"
            );
        }
    }
}

#[test]
fn a_seed_replays_to_the_same_events() {
    for seed in 0..40 {
        let words = |events: &[Event]| events.iter().map(Event::to_string).collect::<Vec<_>>();
        let first = Simulation::replay(seed).expect("a sound scenario");
        let second = Simulation::replay(seed).expect("a sound scenario");
        assert!(
            first.events.len() > 100,
            "seed {seed} has {}",
            first.events.len()
        );
        assert_eq!(words(&first.events), words(&second.events), "seed {seed}");
        let run = simulation(seed, &Scenario::drawn(seed)).run();
        assert_eq!(run.digest, first.digest, "seed {seed}");
        assert!(first.events.ends_with(&run.events), "seed {seed}");
    }
}

#[test]
fn seeds_differ() {
    let digests: std::collections::HashSet<_> = (0..40)
        .map(|seed| simulation(seed, &Scenario::drawn(seed)).run().digest)
        .collect();
    assert_eq!(digests.len(), 40);
}

/// A check that cannot fail is no check: every rule has a sabotage that breaks it.
#[test]
fn every_rule_can_be_broken() {
    for rule in Rule::ALL {
        assert!(
            Sabotage::ALL.iter().any(|&(_, breaks)| breaks == rule),
            "{rule:?}"
        );
    }
    for (sabotage, rule) in Sabotage::ALL {
        let t0 = std::time::Instant::now();
        let breaks = |seed| {
            sabotaged(seed, sabotage)
                .violations
                .iter()
                .any(|v| v.rule == rule)
        };
        let caught = (0..100).filter(|&seed| breaks(seed)).count();
        println!(
            "{sabotage:?}: {rule:?} broken in {caught} of 100 runs {:?}",
            t0.elapsed()
        );
        assert!(caught > 0, "{sabotage:?} never breaks {rule:?}");
    }
}

fn sabotaged(seed: u64, sabotage: Sabotage) -> Outcome {
    let mut scenario = Scenario::drawn(seed);
    if sabotage.hides_order() {
        scenario.to_cores.overtaken_permille = 100;
        scenario.from_cores.overtaken_permille = 100;
        // Doubles are another matter: without numbers nothing tells them from new frames.
        scenario.to_cores.duplicate_permille = 0;
        scenario.from_cores.duplicate_permille = 0;
    }
    simulation(seed, &scenario).with(sabotage).run()
}

/// With the numbers on its frames, the same link is harmless: what is overtaken is dropped.
#[test]
fn reordering_is_detected_and_harmless() {
    let coverage = all_hold(300, |seed| {
        let mut scenario = Scenario::drawn(seed);
        scenario.to_cores.overtaken_permille = 300;
        scenario.from_cores.overtaken_permille = 300;
        scenario
    });
    assert!(coverage.frames_overtaken > 1000, "{coverage:#?}");
}

#[test]
fn a_failure_tells_its_story() {
    let failed = (0..100)
        .map(|seed| sabotaged(seed, Sabotage::UnnoticedReordering))
        .find(|outcome| !outcome.violations.is_empty())
        .expect("one of a hundred fails");
    let text = failed.to_string();
    println!("{text}");
    for part in [
        "seed",
        "overtaken_permille: 100",
        "arrives",
        "BROKEN invariant",
    ] {
        assert!(text.contains(part), "{part} is missing in\n{text}");
    }
}

/// Shows one seed: `TWINPATH_SEED=17 cargo test -p twinpath-lab shows_a_seed -- --nocapture`.
#[test]
fn shows_a_seed() {
    let asked = std::env::var("TWINPATH_SEED").ok();
    let Some(seed) = asked.and_then(|seed| seed.parse().ok()) else {
        return;
    };
    let outcome = Simulation::replay(seed).expect("a sound scenario");
    outcome.events.iter().for_each(|event| println!("{event}"));
    println!("{outcome}");
    assert!(outcome.violations.is_empty());
}
