//! A derived service on trial: both paths against the slow path alone, what the functions must have
//! done, and how much the fast path must have carried.

use super::derived::{Capture, by_entry, seen};
use super::{Outcome, Variant, assert_same, assert_same_but_for_names, by_direction, run, vary};
use std::collections::BTreeMap;
use twinpath_captures::{FunctionText, ServiceText};
use twinpath_control::service::{Execution, Instance, Paths, Service};
use twinpath_io::Trace;

/// Of what the fast path could settle, it must have settled so much.
const LEAST_SETTLED: f64 = 0.5;
/// Where it could settle less than this share of the packets, nothing is asked of it.
const LEAST_SETTLEABLE: f64 = 0.05;
/// Nor where it could settle fewer packets than these.
const FEWEST_SETTLEABLE: u64 = 30;

/// A service that is derived from a capture, over packets that it is to meet.
pub struct Trial<'a> {
    capture: &'a Capture,
    /// The function that must be seen to act.
    function: &'static str,
    what: String,
    derived: ServiceText,
    trace: Trace,
}

impl<'a> Trial<'a> {
    /// One function.
    pub fn alone(capture: &'a Capture, function: FunctionText) -> Self {
        Self {
            capture,
            function: function.function,
            what: format!("{} {}", function.function, function.variant)
                .trim()
                .to_owned(),
            trace: capture.met_by(&function),
            derived: capture.profile.service_of(vec![function]),
        }
    }

    /// Runs it under virtual time and prints what was seen; returns what was not as expected.
    #[must_use]
    pub fn complaints(&self) -> Vec<String> {
        let service = self.capture.service(&self.what, &self.derived);
        let what = format!("{} {}", self.capture.name, self.what);
        let (slow, both) = both_paths(&service, &self.trace, Execution::Virtual, &what);
        let asked = self.asked(&service, &slow);
        let share = both.report.fast.share;
        let expectations = self.derived.expectations.iter();
        let seen = expectations.map(|expected| (expected, seen(expected, &slow, &both)));
        let seen: Vec<_> = seen.collect();
        let told = seen
            .iter()
            .map(|(expected, seen)| format!("{expected}: {seen}"));
        println!(
            "{:<34} {:<26} {:>6} packets, {:>5.1} % on the fast path ({}) | {}",
            self.capture.name,
            self.what,
            self.trace.len(),
            100.0 * share,
            match &asked {
                Ok(least) => format!("at least {:.1} %", 100.0 * least),
                Err(why) => why.clone(),
            },
            told.collect::<Vec<_>>().join(", ")
        );
        let unmet = seen
            .iter()
            .filter(|(expected, seen)| !expected.is_met_by(*seen));
        let unmet =
            unmet.map(|(expected, seen)| format!("{what}: expected {expected}, seen {seen}"));
        let little = asked.ok().filter(|least| share < *least);
        let little = little.map(|least| format!("{what}: share {share}, asked was {least}"));
        unmet.chain(little).collect()
    }

    /// Compares variants of the fast path with the slow path alone, under virtual time and on threads.
    pub fn compare(&self, variants: &[Variant]) {
        let service = self.capture.service(&self.what, &self.derived);
        for &variant in variants {
            for execution in [Execution::Virtual, Execution::Threads] {
                let what = format!(
                    "{} {} {variant:?} {execution:?}",
                    self.capture.name, self.what
                );
                both_paths(&vary(&service, variant), &self.trace, execution, &what);
            }
        }
    }

    /// The share of packets that is asked of the fast path, or why none is.
    fn asked(&self, service: &Service, slow: &Outcome) -> Result<f64, String> {
        let makes_rules = service.chain.iter().all(Instance::makes_rules);
        let settleable = self.capture.settleable(self.function, makes_rules, slow);
        let share = settleable as f64 / self.trace.len().max(1) as f64;
        if settleable < FEWEST_SETTLEABLE || share < LEAST_SETTLEABLE {
            let percent = 100.0 * share;
            return Err(format!("not asked: it could {settleable}, {percent:.1} %"));
        }
        Ok(LEAST_SETTLED * share)
    }
}

/// Runs a service on the slow path alone and on both paths; fails with the first difference.
pub fn both_paths(
    service: &Service,
    trace: &Trace,
    execution: Execution,
    what: &str,
) -> (Outcome, Outcome) {
    let slow = run(service, trace, Paths::Slow, Execution::Virtual);
    let both = run(service, trace, Paths::Both, execution);
    assert_equal(service, &slow, &both, None, what);
    (slow, both)
}

/// Fails with the first difference of what left, by which ports, of what was dropped and of what
/// rules were credited with; ports may have other names at external addresses.
pub fn assert_equal(
    service: &Service,
    slow: &Outcome,
    both: &Outcome,
    external: Option<&str>,
    what: &str,
) {
    let mut chain = service.chain.iter();
    let is_store = chain.any(|function| function.config.descriptor().name == "kv_store");
    match external {
        Some(external) => assert_same_but_for_names(slow, both, external, what),
        None if is_store => assert_same(&by_entry(slow), &by_entry(both), what),
        None => assert_same(&by_direction(&slow.flows), &by_direction(&both.flows), what),
    }
    assert_eq!(slow.ports, both.ports, "{what}: ports");
    assert_eq!(slow.report.drops, both.report.drops, "{what}: drops");
    let credited = |outcome| credited(service, outcome);
    let what_for = format!("{what}: what rules were credited with");
    assert_eq!(credited(slow), credited(both), "{what_for}");
}

/// Counts of functions that are right also for packets that the workers never saw.
fn credited(service: &Service, outcome: &Outcome) -> BTreeMap<String, u64> {
    const COUNTED: [(&str, &[&str]); 3] = [
        ("acl", &["allowed", "denied", "default_hits"]),
        (
            "router",
            &["forwarded", "forwarded_bytes", "discarded", "no_route"],
        ),
        ("monitor", &["packets", "bytes"]),
    ];
    let mut counts = BTreeMap::new();
    for (instance, function) in service.chain.iter().zip(&outcome.report.functions) {
        let (name, kind) = (&function.name, instance.config.descriptor().name);
        assert_eq!(**name, *instance.name, "counters have the chain's names");
        for (_, counters) in COUNTED.iter().filter(|(counted, _)| *counted == kind) {
            for counter in *counters {
                let count = function.counters.get(*counter).copied();
                counts.insert(format!("{name} {counter}"), count.unwrap_or_default());
            }
        }
    }
    counts
}
