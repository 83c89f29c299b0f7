mod acts;
mod orders;

use super::*;
use std::collections::{HashMap, HashSet};

/// Seeds that a test runs: as many as it says, or `TWINPATH_SEEDS`.
fn seeds(usual: u64) -> u64 {
    let asked = std::env::var("TWINPATH_SEEDS").ok();
    asked.and_then(|seeds| seeds.parse().ok()).unwrap_or(usual)
}

fn run(seed: u64, scenario: &Scenario) -> Outcome {
    let simulation = Simulation::new(seed, scenario).expect("a sound scenario");
    let outcome = simulation.run();
    assert!(outcome.violations.is_empty(), "{outcome}");
    outcome
}

fn replay(seed: u64, sabotage: Option<Sabotage>) -> Outcome {
    let simulation = Simulation::of_seed(seed, sabotage).expect("a sound scenario");
    simulation.keeping_all_events().run()
}

/// What is applied and closed in one step leaves no trace, and may come out long after: behind packets
/// that have been applied since (4470). A rule that nobody uses may be taken out when all else is over,
/// and the worker may have no buffer for that at first (502699). Of packets that wait together in front of
/// the second state, one is applied there and dropped behind it, for its payload was given up, and many
/// were dropped between them, for whose payloads there was no room (4418). A header waits for its flow's
/// state when a change of the chain finds nothing on the link: the queue goes on only as far as the
/// clock, or what is parked later never leaves (1795894914285162114). A last packet comes while a change takes
/// none (7731904482213950). A slot that the workers had when they crashed tells nothing of what was applied
/// (12000000000001646). A DPU's packets wait for seconds (102779). A packet that was translated waits for its
/// flow's state behind the translation, while the workers crash (12931, 628788689475395699).
#[test]
fn seeds_that_once_failed_hold() {
    for seed in [
        4418,
        4470,
        12_931,
        102_779,
        7_731_904_482_213_950,
        12_000_000_000_001_646,
        628_788_689_475_395_699,
        1_795_894_914_285_162_114,
    ] {
        run(seed, &Scenario::drawn(seed));
    }
    let reassembler = Elements::RulesAroundReassembler;
    let scenario = Scenario::with_elements(502_699, reassembler, Functions::Mixed);
    run(502_699, &scenario);
}

/// A packet that has asked policies is not overtaken by the next of its direction, where the other
/// direction has opened the flow meanwhile.
#[test]
fn who_has_asked_keeps_its_place() {
    run(2043, &Scenario::drawn(2043));
}

/// What many runs tried, and what functions did in them.
#[derive(Default)]
struct Tried {
    functions: HashMap<Functions, Coverage>,
    chains: HashMap<Chain, Coverage>,
    acted: HashMap<Chain, Acted>,
}

impl Tried {
    fn run(&mut self, seed: u64) {
        let scenario = Scenario::drawn(seed);
        let outcome = run(seed, &scenario);
        let chain = (scenario.elements, scenario.functions);
        let functions = self.functions.entry(scenario.functions).or_default();
        functions.absorb(&outcome.coverage);
        let coverage = self.chains.entry(chain).or_default();
        coverage.absorb(&outcome.coverage);
        let acted = self.acted.entry(chain).or_default();
        acted.absorb(&outcome.acted);
    }

    fn absorb(&mut self, others: &Self) {
        for (functions, coverage) in &others.functions {
            let ours = self.functions.entry(*functions).or_default();
            ours.absorb(coverage);
        }
        for (chain, coverage) in &others.chains {
            self.chains.entry(*chain).or_default().absorb(coverage);
        }
        for (chain, acted) in &others.acted {
            self.acted.entry(*chain).or_default().absorb(acted);
        }
    }

    /// The first so many seeds, on all processors.
    fn of(seeds: u64) -> Self {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let mut all = Self::default();
        std::thread::scope(|scope| {
            let share = |first: usize| {
                scope.spawn(move || {
                    let mut tried = Self::default();
                    (first as u64..seeds)
                        .step_by(threads)
                        .for_each(|seed| tried.run(seed));
                    tried
                })
            };
            let shares: Vec<_> = (0..threads).map(share).collect();
            for share in shares {
                let tried = share.join();
                all.absorb(&tried.unwrap_or_else(|failed| std::panic::resume_unwind(failed)));
            }
        });
        all
    }
}

/// Whatever can be tried is tried often, by every function and in every kind of chain.
#[test]
fn thousands_of_seeds_hold() {
    let tried = Tried::of(seeds(14_000));
    assert_every_chain_is_tried(&tried.chains);
    acts::assert_every_function_acts(&tried.acted);
    assert_eq!(tried.functions.len(), 4 + Functions::REAL.len());
    for (functions, coverage) in tried.functions {
        println!("{functions:?}: {coverage:#?}");
        for (name, times) in coverage.each() {
            let is_often = functions.is_ledger() && name != "changes_given_up";
            let least = if is_often { 100 } else { 5 };
            assert!(
                times >= least || !can_try(functions, name),
                "{functions:?}: {name} {times} times is too few to mean much"
            );
        }
    }
}

/// What a chain is: its elements, and the functions of those with flow state.
type Chain = (Elements, Functions);

/// Every kind of chain carries packets, crashes and changes, has state on the fast path, in several
/// elements at once if it has those, and uses its rules: what one kind never tries, another's figures
/// would hide.
fn assert_every_chain_is_tried(tried: &HashMap<Chain, Coverage>) {
    let functions = std::iter::once(Functions::Ledger).chain(Functions::REAL);
    let with_rules = Elements::WITH_RULES.into_iter().chain(Elements::OVER_V6);
    let kinds: HashSet<Chain> = functions
        .map(|functions| (Elements::State, functions))
        .chain(with_rules.map(|elements| match elements.have_state() {
            true => (elements, Functions::Ledger),
            false => (elements, Functions::None),
        }))
        .chain(Elements::MIXED.map(|elements| (elements, Functions::Mixed)))
        .chain([(Elements::Dpu, Functions::Dpu)])
        .collect();
    assert_eq!(tried.keys().copied().collect::<HashSet<_>>(), kinds);
    for (chain, coverage) in tried {
        let rule_hits = chain.0.have_rules().then_some(coverage.rule_hits);
        let installs = chain.0.have_state().then_some(coverage.installs);
        let is_twice = chain.0.have_state_twice();
        let installs_beside = is_twice.then_some(coverage.installs_beside);
        // With servers that answer what comes out few connections are confirmed in two elements.
        let is_known_twice = is_twice && chain.1 == Functions::Mixed;
        let holds_all = chain.1 == Functions::Reframer || chain.0 == Elements::ReframerThenRules;
        // Behind elements with rules few connections live until an inspector knows them; what it bans on
        // the fast path is asked for in `acts`.
        let knows_few = is_known_twice || chain.0.have("inspector");
        let left_fast = (!knows_few && !holds_all).then_some(coverage.left_fast);
        let installs = installs.filter(|_| !holds_all);
        let figures = [
            ("left_fast", left_fast),
            ("crashes", Some(coverage.crashes)),
            ("changes", Some(coverage.changes)),
            ("rule_hits", rule_hits),
            ("installs", installs),
            ("installs_beside", installs_beside),
        ];
        println!("{chain:?}: {figures:?}");
        for (name, times) in figures {
            let times = times.unwrap_or(u64::MAX);
            assert!(times >= 5, "{chain:?}: {name} {times} times is too few");
        }
    }
}

/// Whether runs with these functions can try something: elements with rules stand alone, beside the
/// ledger or in mixed chains, and payloads are parked with the former two.
fn can_try(functions: Functions, name: &str) -> bool {
    const OF_LEDGERS: [&str; 2] = ["held", "woken"];
    const OF_WAITING: [&str; 2] = ["waited", "waited_then_punted"];
    const OF_RULES: [&str; 4] = [
        "held_then_punted",
        "holds_full",
        "marks_repeated",
        "bindings_changed",
    ];
    const OF_ALL: [&str; 12] = [
        "steps",
        "packets",
        "left_fast",
        "left_slow",
        "frames_lost",
        "frames_doubled",
        "frames_overtaken",
        "ring_full",
        "no_buffer",
        "pauses",
        "crashes",
        "changes",
    ];
    let is_of_parking =
        name.contains("payload") || name.contains("park") || name == "headers_stale";
    let is_of_rules = name.contains("rule") || OF_RULES.contains(&name);
    match functions {
        Functions::Ledger => true,
        Functions::None => is_of_rules || OF_ALL.contains(&name),
        Functions::Mixed => {
            let is_rare = ["changes_given_up", "ring_full"].contains(&name);
            !is_of_parking
                && !is_rare
                && !OF_LEDGERS.contains(&name)
                && name != "waited_then_punted"
        }
        // Changes that take too long are rare, and tried by the others.
        _ if name == "changes_given_up" => false,
        // It has no flow state of the kind that goes to and fro, and a buffer for every packet.
        Functions::Dpu => OF_ALL.contains(&name) && name != "no_buffer",
        // All wait on the slow path.
        Functions::Reframer => OF_ALL.contains(&name) && name != "left_fast",
        // It needs long traffic to fill.
        Functions::KvStore => OF_ALL.contains(&name),
        _ => {
            let is_of_several = name == "installs_beside";
            let is_rare = OF_WAITING.contains(&name);
            !is_of_rules
                && !is_of_parking
                && !is_of_several
                && !is_rare
                && !OF_LEDGERS.contains(&name)
        }
    }
}

#[test]
fn a_seed_replays_to_the_same_events() {
    let words = |events: &[Event]| events.iter().map(Event::to_string).collect::<Vec<_>>();
    let mut digests = HashSet::new();
    for seed in 0..40 {
        let (first, second) = (replay(seed, None), replay(seed, None));
        assert!(
            first.events.len() > 100,
            "seed {seed}: {}",
            first.events.len()
        );
        assert_eq!(words(&first.events), words(&second.events), "seed {seed}");
        let usual = run(seed, &Scenario::drawn(seed));
        assert_eq!(usual.digest, first.digest, "seed {seed}");
        assert!(first.events.ends_with(&usual.events), "seed {seed}");
        digests.insert(first.digest);
    }
    assert_eq!(digests.len(), 40, "seeds differ");
}

/// A check that cannot fail is no check: every invariant has a sabotage that breaks it.
#[test]
fn every_rule_can_be_broken() {
    let broken: HashSet<Invariant> = Sabotage::ALL
        .iter()
        .map(|&(_, invariant)| invariant)
        .collect();
    assert_eq!(broken.len(), Invariant::ALL.len());
    for (sabotage, invariant) in Sabotage::ALL {
        let breaks = |&seed: &u64| {
            let outcome = replay(seed, Some(sabotage));
            outcome
                .violations
                .iter()
                .any(|violation| violation.invariant == invariant)
        };
        let seed = (0..600).find(breaks);
        println!("{sabotage:?} breaks {invariant:?} in the run of seed {seed:?}");
        assert!(seed.is_some(), "{sabotage:?} never breaks {invariant:?}");
    }
}

/// With the numbers on its frames, a link that reorders is harmless: each frame that is overtaken
/// is noticed and dropped.
#[test]
fn reordering_is_detected_and_harmless() {
    let mut coverage = Coverage::default();
    for seed in 0..300 {
        let mut scenario = Scenario::drawn(seed);
        scenario.to_worker.overtaken_permille = 300;
        scenario.from_worker.overtaken_permille = 300;
        coverage.absorb(&run(seed, &scenario).coverage);
    }
    assert!(coverage.frames_overtaken > 1000, "{coverage:#?}");
}

#[test]
fn a_search_ends_with_the_first_failure_and_tells_its_story() {
    let found = search_seeds(0..100, Some(Sabotage::ForgedAcknowledgement), |_| {});
    let found = found.expect("sound scenarios");
    let failed = found.failed.expect("one of a hundred fails");
    assert_eq!(found.runs, failed.seed + 1);
    let text = failed.to_string();
    for part in ["seed", "loss_permille", "arrives", "acknowledged", "BROKEN"] {
        assert!(text.contains(part), "{part} is missing in\n{text}");
    }
    let mut runs = 0;
    let sound = search_seeds(0..5, None, |_| runs += 1).expect("sound scenarios");
    assert_eq!((runs, sound.runs, sound.failed.is_none()), (5, 5, true));
}
