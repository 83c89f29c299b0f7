//! Server-only is the oracle: over every shared capture a chain whose functions all act on it gives
//! the same packets in all variants of the fast path as with the slow path alone, per flow and
//! direction in the same order, byte for byte. (Each function alone: `oracle_derived.rs`.)

mod common;

use common::derived::profiled;
use common::trial::both_paths;
use common::{Variant, vary};
use twinpath_captures::FunctionText;
use twinpath_control::service::Execution;

/// All functions that share flow state; the balancer's servers answer through it.
const ALL: [&str; 4] = ["firewall", "reassembler", "inspector", "load_balancer"];

fn compare(chain: &[&str], variant: Variant, execution: Execution) {
    for capture in profiled() {
        let functions = capture.functions_of(chain);
        let derived = capture.profile.service_of(functions.clone());
        let is_balancer = |all: &&FunctionText| all.function == "load_balancer";
        let trace = match functions.iter().find(is_balancer) {
            Some(balancer) => capture.met_by(balancer),
            None => common::copy(&capture.trace),
        };
        let what = chain.join(" ");
        let service = vary(&capture.service(&what, &derived), variant);
        let what = format!("{} {what} {variant:?} {execution:?}", capture.name);
        let (slow, both) = both_paths(&service, &trace, execution, &what);
        let seen = slow.report.fast.packets + slow.report.slow.packets;
        assert_eq!(seen, trace.len() as u64, "{what}");
        println!(
            "{what}: {} of {} packets on the fast path",
            both.report.fast.packets,
            trace.len()
        );
    }
}

#[test]
fn few_slots() {
    compare(&ALL, Variant::FewSlots, Execution::Virtual);
}

#[test]
fn one_way() {
    compare(&ALL, Variant::OneWay, Execution::Virtual);
}

#[test]
fn short_life() {
    compare(&ALL, Variant::ShortLife, Execution::Virtual);
}

#[test]
fn eager_pulls() {
    compare(&ALL, Variant::EagerPulls, Execution::Virtual);
}

#[test]
fn threads_that_race() {
    compare(&ALL, Variant::EagerPulls, Execution::Threads);
    compare(
        &["firewall", "reassembler"],
        Variant::EagerPulls,
        Execution::Threads,
    );
}
