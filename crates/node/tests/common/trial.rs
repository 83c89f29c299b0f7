//! A derived service on trial: both paths against the slow path alone, what the functions must have
//! done, and how much the fast path must have carried.

use super::derived::{Capture, by_entry, doings, profiled, seen};
use super::inside::by_inside;
use super::racing::{Race, Scarcity, race};
use super::rows::tell;
use super::{
    Outcome, Variant, assert_same, assert_same_but_for_names, by_direction, run,
    run_without_causality, vary,
};
use std::cell::{OnceCell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::rc::Rc;
use twinpath_captures::{FunctionText, ServiceText};
use twinpath_control::report::SplitCounts;
use twinpath_control::service::{Execution, Instance, Paths, Service, Split};
use twinpath_io::Trace;

/// Of what the fast path could settle, it must have settled so much.
const LEAST_SETTLED: f64 = 0.5;
/// The same of a chain: what one function refuses keeps the state of its flow with the slow path.
const LEAST_SETTLED_BY_ALL: f64 = 0.1;
/// Where it could settle less than this share of the packets, nothing is asked of it.
const LEAST_SETTLEABLE: f64 = 0.05;
/// Nor where it could settle fewer packets than these.
const FEWEST_SETTLEABLE: u64 = 30;
/// Of what is asked of the plain fast path, so much is asked of each variant: some have few slots, or
/// lose them soon.
const LEAST_OF_ANY: f64 = 0.1;

/// A service that is derived from a capture, over packets that it is to meet.
pub struct Trial<'a> {
    capture: &'a Capture,
    /// The functions that must be seen to act, in chain order.
    functions: Vec<FunctionText>,
    what: String,
    derived: ServiceText,
    trace: Trace,
    service: OnceCell<Service>,
    /// What the slow path alone makes of the packets, by the service's text: see [`Self::slow`].
    alone: RefCell<BTreeMap<String, Rc<Outcome>>>,
}

impl<'a> Trial<'a> {
    /// One function.
    pub fn alone(capture: &'a Capture, function: FunctionText) -> Self {
        let trace = capture.met_by(&function);
        let mut derived = capture.profile.service_of(vec![function.clone()]);
        let expected = capture.expected_of(&function, &trace);
        derived.expectations.extend(expected);
        let what = format!("{} {}", function.function, function.variant);
        Self::of(
            capture,
            what.trim().to_owned(),
            trace,
            derived,
            vec![function],
        )
    }

    /// A chain of those functions that have something to do; the packets are answers to one of them,
    /// if it is there.
    pub fn of_chain(capture: &'a Capture, chain: &[&str], answers: Option<&str>) -> Self {
        let functions = capture.functions_of(chain);
        let answered = functions.iter().find(|all| Some(all.function) == answers);
        let trace = match answered {
            Some(function) => capture.met_by(function),
            None => super::copy(&capture.trace),
        };
        let derived = capture.profile.service_of(functions.clone());
        Self::of(capture, chain.join(" "), trace, derived, functions)
    }

    fn of(
        capture: &'a Capture,
        what: String,
        trace: Trace,
        derived: ServiceText,
        functions: Vec<FunctionText>,
    ) -> Self {
        Self {
            capture,
            functions,
            what,
            derived,
            trace,
            service: OnceCell::new(),
            alone: RefCell::default(),
        }
    }

    /// The functions that have something to do, in chain order.
    pub fn functions(&self) -> impl Iterator<Item = &'static str> {
        self.functions.iter().map(|function| function.function)
    }

    /// The service.
    pub fn service(&self) -> Service {
        let made = || self.capture.service(&self.what, &self.derived);
        self.service.get_or_init(made).clone()
    }

    /// Its packets.
    pub fn trace(&self) -> &Trace {
        &self.trace
    }

    /// What the slow path alone makes of its packets under a service. It knows nothing of the fast path and of
    /// cached rules (a test of `oracle_both_versions.rs` holds it to that), so that services that differ
    /// in these are one to it, and it is run once for them.
    pub fn slow(&self, service: &Service) -> Rc<Outcome> {
        let plain = self.service();
        let one = Service {
            fast_path: plain.fast_path,
            rule_cache: plain.rule_cache,
            ..service.clone()
        };
        let mut known = self.alone.borrow_mut();
        let found = known.entry(format!("{one:?}"));
        let run = || Rc::new(run(service, &self.trace, Paths::Slow, Execution::Virtual));
        Rc::clone(found.or_insert_with(run))
    }

    /// Runs it under virtual time and prints what was seen.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        self.verdict_of(&self.service(), Execution::Virtual, "")
    }

    /// Runs a variant of its service on both paths, compares what left with the slow path alone, and
    /// prints what was seen.
    #[must_use]
    pub fn verdict_of(&self, service: &Service, execution: Execution, variant: &str) -> Verdict {
        let what = format!("{} {variant} {execution:?}", self.what);
        let what = what.split_whitespace().collect::<Vec<_>>().join(" ");
        let named = format!("{} {what}", self.capture.name);
        let slow = self.slow(service);
        let both = run(service, &self.trace, Paths::Both, execution);
        assert_equal(service, &slow, &both, None, &named);
        tell(&self.capture.name, &both.report);
        let asked = self.asked(service, &slow);
        let row = Row {
            capture: &self.capture.name,
            what: &what,
            packets: self.trace.len(),
            share: both.report.fast.share,
            asked: &asked,
            did: self.told(&slow, &both),
        };
        println!("{row}");
        let mut verdict = Verdict {
            complaints: self.unmet(&named, &slow, &both),
            least: asked.ok(),
            acted: self.acting(&slow),
            named,
            ..Verdict::default()
        };
        verdict.count(&both);
        verdict
    }

    /// What was seen of each expectation; of a chain, what each function counted, and which did not
    /// act.
    fn told(&self, slow: &Outcome, both: &Outcome) -> String {
        if self.derived.expectations.is_empty() {
            let acting = self.acting(slow);
            let idle: Vec<_> = self
                .functions()
                .filter(|name| !acting.contains(name))
                .collect();
            let idle = match idle.is_empty() {
                true => String::new(),
                false => format!(" | nothing to do behind the others: {}", idle.join(", ")),
            };
            return format!("{}{idle}", doings(&slow.report));
        }
        let expectations = self.derived.expectations.iter();
        let told = expectations.map(|all| format!("{all}: {}", seen(all, slow, both)));
        told.collect::<Vec<_>>().join(", ")
    }

    /// Lets its packets race through both paths, and compares what left with what the functions of
    /// each element alone make of the packets in the order in which the element took them. Prints
    /// what was seen.
    #[must_use]
    pub fn verdict_of_race(
        &self,
        service: &Service,
        scarcity: Scarcity,
        reorders: bool,
    ) -> (Verdict, Race) {
        let what = format!("{} {scarcity}", self.what);
        let named = format!("{} {what}", self.capture.name);
        let race = race(service, &self.trace, scarcity);
        let logged = race.assert_linearizable(service, !scarcity.is_lossless, &named);
        if !reorders {
            race.assert_in_order(&named);
        }
        let outcome = race.outcome();
        let report = &outcome.report;
        println!(
            "{:<34} {what:<32} {:>6} packets, {:>5.1} % on the fast path | {logged} | {}",
            self.capture.name,
            self.trace.len(),
            100.0 * report.fast.share,
            doings(report)
        );
        tell(&self.capture.name, report);
        let mut verdict = Verdict {
            acted: self.acting(&outcome),
            named,
            ..Verdict::default()
        };
        verdict.count(&outcome);
        (verdict, race)
    }

    /// What both paths make of its packets if those do not wait for what caused them.
    pub fn without_causality(&self, service: &Service) -> Outcome {
        run_without_causality(service, &self.trace)
    }

    /// The same with more said of one of its functions.
    #[must_use]
    pub fn saying(mut self, function: &str, more: &str) -> Self {
        for one in &mut self.functions {
            if one.function == function {
                one.table.push_str(more);
            }
        }
        self.derived = self.capture.profile.service_of(self.functions.clone());
        (self.service, self.alone) = (OnceCell::new(), RefCell::default());
        self
    }

    /// What was expected and not seen.
    fn unmet(&self, what: &str, slow: &Outcome, both: &Outcome) -> Vec<String> {
        let expectations = self.derived.expectations.iter();
        let seen = expectations.map(|expected| (expected, seen(expected, slow, both)));
        let unmet = seen.filter(|(expected, seen)| !expected.is_met_by(*seen));
        let unmet =
            unmet.map(|(expected, seen)| format!("{what}: expected {expected}, seen {seen}"));
        unmet.collect()
    }

    /// The functions of which a run shows everything that they must be seen to do, at least once. One of
    /// which nothing is expected shows nothing.
    fn acting(&self, run: &Outcome) -> BTreeSet<&'static str> {
        let acted = |function: &&FunctionText| {
            let wanted = function.expectations.iter();
            let mut wanted = wanted.filter(|one| one.at_least > 0).peekable();
            wanted.peek().is_some() && wanted.all(|one| seen(one, run, run) > 0)
        };
        let acting = self.functions.iter().filter(acted);
        acting.map(|function| function.function).collect()
    }

    /// Compares variants of the fast path with the slow path alone, under virtual time and on threads.
    /// Returns what was not as expected.
    #[must_use]
    pub fn compare(&self, variants: &[Variant]) -> Vec<String> {
        let service = self.service();
        let mut complaints = Vec::new();
        for &variant in variants {
            for execution in [Execution::Virtual, Execution::Threads] {
                let varied = vary(&service, variant);
                let verdict = self.verdict_of(&varied, execution, &format!("{variant:?}"));
                let is_plain = matches!((variant, execution), (Variant::Plain, Execution::Virtual));
                let part = if is_plain { 1.0 } else { LEAST_OF_ANY };
                complaints.extend(verdict.asking(part).complaints());
            }
        }
        complaints
    }

    /// Runs it with packets that are split, and compares what leaves with what the slow path alone makes
    /// of whole ones. Returns what the functions and the fast path did, and what became of packets, of
    /// all runs together; nothing if its chain splits no packets.
    pub fn split(
        &self,
        split: &Split,
        runs: &[(Paths, Execution)],
    ) -> Option<(Verdict, SplitCounts)> {
        let whole = self.service();
        let mut service = whole.clone();
        service.split = Some(split.clone());
        service.splits()?;
        let named = format!("{} {} split", self.capture.name, self.what);
        let slow = self.slow(&whole);
        let mut sum = SplitCounts::default();
        let mut verdict = Verdict {
            complaints: self.unmet(&named, &slow, &slow),
            acted: self.acting(&slow),
            ..Verdict::default()
        };
        for &(paths, execution) in runs {
            let what = format!("{named} {paths:?} {execution:?}");
            let found = run(&service, &self.trace, paths, execution);
            assert_equal(&whole, &slow, &found, None, &what);
            let counts = found.report.split.as_ref().expect("with [split]").counts;
            let ended = counts.merged + counts.declined + counts.lost();
            assert_eq!(
                (counts.packets, counts.lost()),
                (ended, 0),
                "{what}: {counts:?}"
            );
            sum.add(&counts);
            if matches!(paths, Paths::Both) {
                tell(&self.capture.name, &found.report);
                verdict.count(&found);
            }
        }
        println!("{:<34} {:<32} {sum:?}", self.capture.name, self.what);
        Some((verdict, sum))
    }

    /// The share of packets that is asked of the fast path, or why none is.
    fn asked(&self, service: &Service, slow: &Outcome) -> Result<f64, String> {
        let (settleable, least) = match &self.functions[..] {
            [alone] => {
                let makes_rules = service.chain.iter().all(Instance::makes_rules);
                let settleable = self.capture.settleable(alone.function, makes_rules, slow);
                (settleable, LEAST_SETTLED)
            }
            _ => (self.settleable_by_all(service, slow), LEAST_SETTLED_BY_ALL),
        };
        asked(settleable, self.trace.len(), least)
    }

    /// What every element could settle, if those that any function drops are among them.
    fn settleable_by_all(&self, service: &Service, slow: &Outcome) -> u64 {
        let functions = self.functions.iter().zip(&service.chain);
        let each = functions.map(|(function, instance)| {
            let makes_rules = instance.makes_rules();
            self.capture
                .settleable(function.function, makes_rules, slow)
        });
        let dropped: u64 = slow.report.drops.values().sum();
        each.min().unwrap_or(0).saturating_sub(dropped)
    }
}

/// The share of so many packets that is asked of the fast path where it could settle some of them and must
/// have settled this part of those, or why none is.
fn asked(settleable: u64, packets: usize, least: f64) -> Result<f64, String> {
    let share = settleable as f64 / packets.max(1) as f64;
    if settleable < FEWEST_SETTLEABLE || share < LEAST_SETTLEABLE {
        let percent = 100.0 * share;
        return Err(format!("not asked: it could {settleable}, {percent:.1} %"));
    }
    Ok(least * share)
}

/// Fails where the fast path settled less of a capture's packets than is asked of a chain of functions that
/// make rules, of those that they drop too, and prints what is asked. Returns whether anything is.
pub fn assert_rules_settle(capture: &Capture, both: &Outcome) -> bool {
    let settleable = capture.profile.settleable.by_rules;
    let asked = asked(settleable, capture.trace.len(), LEAST_SETTLED);
    let share = both.report.fast.share;
    println!("{}: {share:.3} of {asked:?}", capture.name);
    assert!(
        asked.as_ref().ok().is_none_or(|least| share >= *least),
        "{}: share {share}, asked was {asked:?}",
        capture.name
    );
    asked.is_ok()
}

/// What was seen of a trial.
#[derive(Default)]
pub struct Verdict {
    /// What was on trial.
    named: String,
    /// What was not as expected of the functions.
    complaints: Vec<String>,
    /// The share of packets that is asked of the fast path, if any is.
    least: Option<f64>,
    /// The functions that acted.
    acted: BTreeSet<&'static str>,
    /// Packets that left, and of them those that the fast path settled.
    packets: u64,
    on_fast_path: u64,
}

impl Verdict {
    /// Another run on both paths.
    fn count(&mut self, both: &Outcome) {
        self.packets += both.report.fast.packets + both.report.slow.packets;
        self.on_fast_path += both.report.fast.packets;
    }

    /// Whether a share is asked of the fast path.
    pub const fn is_asked(&self) -> bool {
        self.least.is_some()
    }

    /// The share of packets that the fast path settled.
    pub fn share(&self) -> f64 {
        self.on_fast_path as f64 / self.packets.max(1) as f64
    }

    /// What was not as expected.
    pub fn complaints(self) -> impl Iterator<Item = String> {
        let share = self.share();
        let asked = self.least.filter(|least| share < *least);
        let little = asked.map(|least| format!("{}: share {share}, asked was {least}", self.named));
        self.complaints.into_iter().chain(little)
    }

    /// The same, but this part of what was asked of the fast path is enough.
    #[must_use]
    pub fn asking(self, part: f64) -> Self {
        let least = self.least.map(|least| least * part);
        Self { least, ..self }
    }

    /// The same, but nothing was asked of the fast path: its tables are too small, or threads race.
    #[must_use]
    pub fn lenient(self) -> Self {
        let least = None;
        Self { least, ..self }
    }
}

/// What the fast path settled in the trials in which a share was asked of it.
#[derive(Copy, Clone, Debug, Default)]
pub struct Asked {
    pub trials: usize,
    packets: u64,
    on_fast_path: u64,
}

impl Asked {
    /// Another trial.
    pub fn add(&mut self, verdict: &Verdict) {
        if verdict.is_asked() {
            self.trials += 1;
            self.packets += verdict.packets;
            self.on_fast_path += verdict.on_fast_path;
        }
    }

    /// The share of all their packets.
    pub fn share(&self) -> f64 {
        self.on_fast_path as f64 / self.packets.max(1) as f64
    }
}

impl fmt::Display for Asked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let share = 100.0 * self.share();
        write!(f, "asked in {} trials, {share:.1} % in all", self.trials)
    }
}

/// A line of the table that the tests print.
struct Row<'a> {
    capture: &'a str,
    what: &'a str,
    packets: usize,
    share: f64,
    asked: &'a Result<f64, String>,
    did: String,
}

impl fmt::Display for Row<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let asked = match self.asked {
            Ok(least) => format!("at least {:.1} %", 100.0 * least),
            Err(why) => why.clone(),
        };
        write!(
            f,
            "{:<34} {:<32} {:>6} packets, {:>5.1} % on the fast path ({asked}) | {}",
            self.capture,
            self.what,
            self.packets,
            100.0 * self.share,
            self.did
        )
    }
}

/// What trials of one chain over several captures came to.
#[derive(Default)]
pub struct Tally {
    complaints: Vec<String>,
    acted: BTreeSet<&'static str>,
    packets: u64,
    on_fast_path: u64,
}

impl Tally {
    /// The trials of a chain over these captures, but for those in which no function has anything to
    /// do. The packets are answers to one of the functions, if it is there.
    pub fn over(
        captures: impl Iterator<Item = &'static Capture>,
        (chain, answers): (&[&str], Option<&str>),
        verdict: impl Fn(Trial<'_>) -> Verdict,
    ) -> Self {
        let mut tally = Self::default();
        each_of_chain(captures, (chain, answers), |trial| {
            tally.add(verdict(trial));
        });
        tally
    }

    /// The same with several runs of each trial, which have a tally each: what they are compared with is the
    /// same.
    pub fn of_each<R>(
        captures: impl Iterator<Item = &'static Capture>,
        (chain, answers): (&[&str], Option<&str>),
        runs: &[R],
        verdict: impl Fn(&Trial<'_>, &R) -> Verdict,
    ) -> Vec<Self> {
        let mut tallies: Vec<_> = runs.iter().map(|_| Self::default()).collect();
        each_of_chain(captures, (chain, answers), |trial| {
            for (tally, run) in tallies.iter_mut().zip(runs) {
                tally.add(verdict(&trial, run));
            }
        });
        tallies
    }

    /// Another trial.
    pub fn add(&mut self, verdict: Verdict) {
        self.acted.extend(&verdict.acted);
        self.packets += verdict.packets;
        self.on_fast_path += verdict.on_fast_path;
        self.complaints.extend(verdict.complaints());
    }

    /// The share of all packets that the fast path settled.
    pub fn share(&self) -> f64 {
        self.on_fast_path as f64 / self.packets.max(1) as f64
    }

    /// Fails if anything was not as expected, if a function of the chain acted in no capture, or if
    /// the fast path settled a smaller share of all packets.
    pub fn assert_acted(self, chain: &[&str], least_share: f64) {
        let share = self.share();
        println!("{chain:?}: {:.1} % on the fast path in all", 100.0 * share);
        assert!(self.complaints.is_empty(), "{:#?}", self.complaints);
        if profiled().is_empty() {
            return;
        }
        let idle = chain.iter().filter(|name| !self.acted.contains(*name));
        let idle: Vec<_> = idle.collect();
        assert!(idle.is_empty(), "{chain:?}: {idle:?} acted in no capture");
        assert!(share >= least_share, "{chain:?}: {share} on the fast path");
    }
}

/// The trials of a chain over captures, but for those in which no function has anything to do.
fn each_of_chain(
    captures: impl Iterator<Item = &'static Capture>,
    (chain, answers): (&[&str], Option<&str>),
    mut each: impl FnMut(Trial<'_>),
) {
    let trials = captures.map(|capture| Trial::of_chain(capture, chain, answers));
    for trial in trials.filter(|trial| !trial.functions.is_empty()) {
        each(trial);
    }
}

/// Runs a service on the slow path alone and on both paths; fails with the first difference.
pub fn both_paths(
    service: &Service,
    trace: &Trace,
    execution: Execution,
    from: &str,
) -> (Outcome, Outcome) {
    let slow = run(service, trace, Paths::Slow, Execution::Virtual);
    let both = run(service, trace, Paths::Both, execution);
    assert_equal(
        service,
        &slow,
        &both,
        None,
        &format!("{from} {execution:?}"),
    );
    tell(from, &both.report);
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
    let has = |name: &str| {
        let mut chain = service.chain.iter();
        chain.any(|function| function.config.descriptor().name == name)
    };
    match external {
        Some(external) => assert_same_but_for_names(slow, both, external, what),
        None if has("dash") => {
            let left =
                [slow, both].map(|run| by_inside(run.packets.iter().map(|(_, packet)| packet)));
            assert_same(&left[0], &left[1], what);
        }
        None if has("kv_store") => assert_same(&by_entry(slow), &by_entry(both), what),
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
