//! Small runs in every order.

use super::*;

/// Up to one deviation, in several seeds of each chain; `twinpath check changes` goes further.
#[test]
fn changes_hold_in_every_order() {
    for chain in SmallChain::ALL {
        let (mut runs, mut coverage) = (0, Coverage::default());
        for seed in 0..4 {
            let found = search(seed, chain, (1, None), |_| {}).expect("a sound scenario");
            if let Some((outcome, deviations)) = found.failed {
                panic!("{}, {deviations:?}: {}", chain.name, outcome.story());
            }
            runs += found.runs;
            coverage.absorb(&found.coverage);
        }
        println!("{}: {runs} runs, {coverage:#?}", chain.name);
        let figures = [
            ("changes", coverage.changes, 500),
            ("crashes", coverage.crashes, 100),
            ("frames_overtaken", coverage.frames_overtaken, 20),
            (
                "flows and rules on the fast path",
                coverage.installs + coverage.rules_activated,
                100,
            ),
        ];
        for (name, times, least) in figures {
            assert!(times >= least, "{}: {name} {times} times", chain.name);
        }
    }
}

/// A change that does not wait for the state of flows to come home breaks an invariant in some order.
#[test]
fn a_hasty_change_is_found() {
    let hasty = Some(Sabotage::HastyChange);
    let fails = |seed| {
        let found = search(seed, SmallChain::ALL[0], (1, hasty), |_| {});
        found.expect("a sound scenario").failed.is_some()
    };
    assert!((0..4).any(fails));
}
