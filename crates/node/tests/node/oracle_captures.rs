//! Server-only is the oracle: over every shared capture a chain whose functions all act on it gives
//! the same packets in all variants of the fast path as with the slow path alone, per flow and
//! direction in the same order, byte for byte. (Each function alone: `oracle_derived.rs`.)

use crate::common::derived::profiled;
use crate::common::trial::Tally;
use crate::common::{Variant, vary};
use twinpath_control::service::Execution;

/// All functions that share flow state; the balancer's servers answer through it.
const ALL: [&str; 4] = ["firewall", "reassembler", "inspector", "load_balancer"];

/// Compares a variant with the slow path alone over every capture. Every function must have acted,
/// and the fast path must have settled this share of all packets.
fn compare(chain: &[&str], variant: Variant, execution: Execution, least_share: f64) {
    let answered = (chain, Some("load_balancer"));
    let tally = Tally::over(profiled().iter(), answered, |trial| {
        let service = vary(&trial.service(), variant);
        let verdict = trial.verdict_of(&service, execution, &format!("{variant:?}"));
        verdict.lenient()
    });
    tally.assert_acted(chain, least_share);
}

#[test]
fn few_slots() {
    compare(&ALL, Variant::FewSlots, Execution::Virtual, 0.1);
}

#[test]
fn one_way() {
    compare(&ALL, Variant::OneWay, Execution::Virtual, 0.4);
}

#[test]
fn short_life() {
    compare(&ALL, Variant::ShortLife, Execution::Virtual, 0.25);
}

#[test]
fn eager_pulls() {
    compare(&ALL, Variant::EagerPulls, Execution::Virtual, 0.4);
}

#[test]
fn threads_that_race() {
    for (chain, least_share) in [(&ALL[..], 0.4), (&ALL[..2], 0.55)] {
        compare(chain, Variant::EagerPulls, Execution::Threads, least_share);
    }
}
