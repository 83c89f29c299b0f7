//! Small runs in every order.

use super::*;

/// Up to one deviation, in several seeds of each chain; `twinpath check changes` goes further.
#[test]
fn changes_hold_in_every_order() {
    for chain in SmallChain::ALL {
        let mut coverage = Coverage::default();
        for seed in 0..4 {
            let found = search(seed, chain, (1, None), |_| {}).expect("a sound scenario");
            if let Some((outcome, deviations)) = found.failed {
                panic!("{}, {deviations:?}: {}", chain.name, outcome.story());
            }
            coverage.absorb(&found.coverage);
        }
        println!("{}: {coverage:#?}", chain.name);
        assert!(coverage.changes > 100, "{}: {coverage:#?}", chain.name);
        assert!(coverage.crashes > 20, "{}: {coverage:#?}", chain.name);
        assert!(coverage.frames_overtaken > 20, "{}", chain.name);
        assert!(coverage.left_fast > 20, "{}", chain.name);
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
