//! Where nothing may be lost, nothing is: rings and pools of any small size, chains of every kind,
//! all threads on one core, which others take away from them at any moment. What leaves is what the
//! slow path alone puts out.
//!
//! Cases are drawn from a seed, which is told: `PROPTEST_RNG_SEED=SEED` draws the same ones. So they
//! are new ones in `cargo xtask properties`, as those of proptest are.

use crate::common::burners::{Burners, bind_to, preempted};
use crate::common::chains::{Chain, EXTERNAL, all};
use crate::common::rows::tell;
use crate::common::{Outcome, assert_same_but_for_names, run, run_with_buffers};
use proptest::prelude::*;
use proptest::test_runner::{RngSeed, TestRunner};
use std::cell::Cell;
use std::time::SystemTime;
use twinpath_control::service::{Execution, Paths};

/// Of each chain.
const PACKETS: usize = 400;

/// Each takes a second or two: burners have most of the core.
const CASES: u32 = 12;

/// Of all that leave.
const LEAST_FAST: f64 = 0.1;

/// A case: a chain, frames that may be under way, buffers for packets that arrive, how many threads
/// take the core away, and the seed of when they do. With one buffer a packet would leave none to
/// messages that it may wait for.
fn cases(chains: usize) -> impl Strategy<Value = (usize, usize, usize, u64, u64)> {
    (
        0..chains,
        1..=8_usize,
        2..=16_usize,
        2..=4_u64,
        any::<u64>(),
    )
}

fn config() -> ProptestConfig {
    let mut config = ProptestConfig::with_cases(CASES);
    // Threads race: what fails once need not fail again.
    (config.max_shrink_iters, config.failure_persistence) = (0, None);
    if config.rng_seed == RngSeed::Random {
        let since_1970 = SystemTime::UNIX_EPOCH.elapsed();
        config.rng_seed = RngSeed::Fixed(since_1970.map_or(0, |time| time.as_nanos() as u64));
    }
    println!("{:?}: PROPTEST_RNG_SEED repeats it", config.rng_seed);
    config
}

#[test]
fn nothing_is_lost_with_rings_and_pools_of_any_size() {
    let chains: Vec<_> = all(PACKETS).into_iter().map(expected).collect();
    bind_to(1);
    let (before, left, fast) = (preempted(), Cell::new(0), Cell::new(0));
    let outcome = TestRunner::new(config()).run(&cases(chains.len()), |case| {
        let (place, ring_frames, buffers, burners, seed) = case;
        let (chain, expected) = &chains[place];
        let what = format!(
            "{:?}, rings of {ring_frames}, {buffers} buffers, {burners} burners {seed:#x}",
            chain.functions
        );
        let _burners = Burners::drawn(burners, seed);
        let mut service = chain.service.clone();
        service.link.ring_frames = ring_frames;
        let found = run_with_buffers(&service, &chain.trace, buffers);
        left.set(left.get() + found.packets.len() as u64);
        fast.set(fast.get() + found.report.fast.packets);
        assert_eq!(found.report.drops, expected.report.drops, "{what}");
        assert_same_but_for_names(expected, &found, EXTERNAL, &what);
        tell("generated, answered", &found.report);
        Ok(())
    });
    outcome.unwrap_or_else(|failure| panic!("{failure}"));
    let preempted = preempted() - before;
    println!("the machine's thread was preempted {preempted} times");
    assert!(preempted > 100, "the core was taken away {preempted} times");
    let share = fast.get() as f64 / left.get() as f64;
    assert!(share > LEAST_FAST, "{share} on the fast path");
}

/// A chain, and what the slow path alone puts out.
fn expected(chain: Chain) -> (Chain, Outcome) {
    let outcome = run(
        &chain.service,
        &chain.trace,
        Paths::Slow,
        Execution::Virtual,
    );
    println!(
        "{:?}: {} of {} leave",
        chain.functions,
        outcome.packets.len(),
        chain.trace.len()
    );
    (chain, outcome)
}
