//! Server-only is the oracle, where functions have something to do: each capture meets services
//! that are derived from it, so that every function splits, translates, balances, counts or finds
//! what the capture has. What it must have done is derived too, and asserted.

mod common;

use common::derived::{Capture, profiled};
use common::trial::{Tally, Trial};
use twinpath_captures::{FunctionText, Lacking, Profile};
use twinpath_control::service::Execution;

type Derived = fn(&Profile) -> Result<FunctionText, Lacking>;

/// Functions find something to do in at least so many captures, if there are any captures.
const FEWEST_TRIALS: usize = 3;

/// Runs functions alone over every capture.
fn alone(tables: &[Derived]) {
    let (mut complaints, mut trials) = (Vec::new(), 0);
    for capture in profiled() {
        for table in tables {
            match table(&capture.profile) {
                Ok(function) => {
                    trials += 1;
                    complaints.extend(Trial::alone(capture, function).verdict().complaints());
                }
                Err(lacking) => println!("{:<34} no trial: {lacking}", capture.name),
            }
        }
    }
    assert!(complaints.is_empty(), "{complaints:#?}");
    let is_tried = profiled().is_empty() || trials >= FEWEST_TRIALS;
    assert!(is_tried, "only {trials} trials");
}

#[test]
fn firewall() {
    alone(&[Profile::firewall]);
}

#[test]
fn reassembler() {
    alone(&[Profile::reassembler, Profile::reassembler_dropping]);
}

#[test]
fn inspector() {
    alone(&[Profile::inspector]);
}

#[test]
fn load_balancer() {
    alone(&[Profile::load_balancer]);
}

#[test]
fn kv_store() {
    alone(&[Profile::kv_store]);
}

#[test]
fn acl() {
    alone(&[Profile::acl]);
}

#[test]
fn napt() {
    alone(&[Profile::napt, Profile::napt_filtered]);
}

#[test]
fn router() {
    alone(&[Profile::router, Profile::router_without_default]);
}

#[test]
fn monitor() {
    alone(&[Profile::monitor, Profile::monitor_of_hosts]);
}

/// Chains, each with the function whose answers its packets are.
const CHAINS: [(&[&str], Option<&str>); 3] = [
    (
        &["firewall", "reassembler", "inspector", "load_balancer"],
        Some("load_balancer"),
    ),
    (&["acl", "napt", "monitor", "router"], Some("napt")),
    (&["acl", "firewall", "reassembler", "router"], None),
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
