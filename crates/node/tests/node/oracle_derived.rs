//! Server-only is the oracle, where functions have something to do: each capture meets services
//! that are derived from it, so that every function splits, translates, balances, counts or finds
//! what the capture has. What it must have done is derived too, and asserted.

use crate::common::across;
use crate::common::derived::{Capture, profiled};
use crate::common::trial::{Asked, Tally, Trial, Verdict};
use std::ops::RangeInclusive;
use twinpath_captures::{FunctionText, Lacking, Profile};
use twinpath_control::service::Execution;

type Derived = fn(&Profile) -> Result<FunctionText, Lacking>;

/// Functions find something to do in at least so many captures, and the fast path is asked for a
/// share in as many, if there are any captures.
const FEWEST_TRIALS: usize = 3;

/// Runs functions alone over every capture. Returns how many trials there were.
fn trials(tables: &[Derived], mut each: impl FnMut(Verdict)) -> usize {
    let mut trials = 0;
    for capture in profiled() {
        for table in tables {
            match table(&capture.profile) {
                Ok(function) => {
                    trials += 1;
                    each(Trial::alone(capture, function).verdict());
                }
                Err(lacking) => println!("{:<34} no trial: {lacking}", capture.name),
            }
        }
    }
    trials
}

/// The same. The fast path must have settled this share of the packets of those captures in which a share
/// is asked of it, together.
fn alone(tables: &[Derived], least_share: f64) {
    let (mut complaints, mut asked) = (Vec::new(), Asked::default());
    let trials = trials(tables, |verdict| {
        asked.add(&verdict);
        complaints.extend(verdict.complaints());
    });
    println!("{asked}");
    assert!(complaints.is_empty(), "{complaints:#?}");
    if profiled().is_empty() {
        return;
    }
    assert!(trials >= FEWEST_TRIALS, "only {trials} trials");
    assert!(asked.trials >= FEWEST_TRIALS, "{asked}");
    assert!(asked.share() >= least_share, "{asked}: least {least_share}");
}

/// The fast path's share where all packets of a function are for the slow path: of what does not come to it.
const MOST_BESIDE: f64 = 0.05;

/// The same of a function all of whose packets are for the slow path: no share is asked of the fast path.
fn alone_on_slow_path(name: &str, tables: &[Derived]) {
    let mut tally = Tally::default();
    let trials = trials(tables, |verdict| {
        assert!(
            !verdict.is_asked(),
            "{name}: the fast path can settle nothing"
        );
        tally.add(verdict);
    });
    assert!(
        profiled().is_empty() || trials >= FEWEST_TRIALS,
        "only {trials} trials"
    );
    let share = tally.share();
    assert!(share <= MOST_BESIDE, "{name}: {share} on the fast path");
    tally.assert_acted(&[name], 0.0);
}

/// Runs a chain over every capture. The fast path must have settled a share in this range of all packets.
fn in_chain(chain: &[&str], answers: Option<&str>, shares: RangeInclusive<f64>) {
    let tally = Tally::over(profiled().iter(), (chain, answers), |trial| trial.verdict());
    let (share, most) = (tally.share(), *shares.end());
    assert!(
        share <= most,
        "{chain:?}: {share} on the fast path, at most {most}"
    );
    tally.assert_acted(chain, *shares.start());
}

/// Floors are two thirds of what was measured.
#[test]
fn firewall() {
    alone(&[Profile::firewall], 0.60);
}

#[test]
fn reassembler() {
    alone(&[Profile::reassembler, Profile::reassembler_dropping], 0.60);
}

#[test]
fn inspector() {
    alone(&[Profile::inspector], 0.36);
}

#[test]
fn load_balancer() {
    alone(&[Profile::load_balancer], 0.59);
}

#[test]
fn kv_store() {
    alone(&[Profile::kv_store], 0.63);
}

#[test]
fn acl() {
    alone(&[Profile::acl], 0.64);
}

#[test]
fn napt() {
    alone(&[Profile::napt, Profile::napt_filtered], 0.50);
}

#[test]
fn nptv6() {
    alone(&[Profile::nptv6], 0.63);
}

#[test]
fn router() {
    alone(&[Profile::router, Profile::router_without_default], 0.58);
}

#[test]
fn monitor() {
    alone(&[Profile::monitor, Profile::monitor_of_hosts], 0.58);
}

/// What it translates is for the slow path, and what passes it is cached.
#[test]
fn nat64() {
    alone(&[across::nat64], 0.15);
}

/// Records are counted on both paths, and begin on the slow one.
#[test]
fn telemetry() {
    alone(&[Profile::telemetry], 0.40);
    let chain = ["firewall", "telemetry", "load_balancer"];
    in_chain(&chain, Some("load_balancer"), 0.4..=1.0);
}

/// All packets wait, on the slow path; in a chain the fast path settles what functions in front drop.
#[test]
fn reframer() {
    alone_on_slow_path("reframer", &[Profile::reframer, Profile::reframer_waiting]);
    let chain = ["acl", "reframer", "telemetry", "load_balancer"];
    in_chain(&chain, Some("load_balancer"), 0.05..=0.5);
}

/// Chains, each with the function whose answers its packets are.
const CHAINS: [(&[&str], Option<&str>); 4] = [
    (
        &["firewall", "reassembler", "inspector", "load_balancer"],
        Some("load_balancer"),
    ),
    (&["acl", "napt", "monitor", "router"], Some("napt")),
    (&["acl", "firewall", "reassembler", "router"], None),
    (&["firewall", "nptv6", "monitor", "router"], Some("nptv6")),
];

/// Of all packets that leave a chain.
const LEAST_SHARE: f64 = 0.3;

fn chains(execution: Execution, captures: impl Fn(&&Capture) -> bool) {
    for (chain, answers) in CHAINS {
        let captures = profiled().iter().filter(&captures);
        let tally = Tally::over(captures, (chain, answers), |trial| {
            let verdict = trial.verdict_of(&trial.service(), execution, "");
            match execution {
                Execution::Virtual => verdict,
                Execution::Threads => verdict.lenient(),
            }
        });
        tally.assert_acted(chain, LEAST_SHARE);
    }
}

#[test]
fn chains_of_functions_that_act() {
    chains(Execution::Virtual, |_| true);
}

#[test]
fn chains_on_threads_that_race() {
    chains(Execution::Threads, |capture| capture.trace.len() <= 5000);
}
