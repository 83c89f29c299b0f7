//! Server-only is the oracle, where functions have something to do: each capture meets services
//! that are derived from it, so that every function splits, translates, balances, counts or finds
//! what the capture has. What it must have done is derived too, and asserted.

mod common;

use common::derived::{Capture, profiled};
use common::trial::{Trial, both_paths};
use std::time::Duration;
use twinpath_captures::{FunctionText, Lacking, Profile};
use twinpath_control::service::Execution;
use twinpath_nf::duration::Human;

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
                    complaints.extend(Trial::alone(capture, function).complaints());
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
    (&["acl", "napt", "router", "monitor"], Some("napt")),
    (&["acl", "firewall", "reassembler", "router"], None),
];

fn chains(execution: Execution, captures: impl Iterator<Item = &'static Capture>) {
    for capture in captures {
        for (chain, answers) in CHAINS {
            let functions = capture.functions_of(chain);
            let derived = capture.profile.service_of(functions.clone());
            let answered = functions.iter().find(|all| Some(all.function) == answers);
            let trace = match answered {
                Some(function) => capture.met_by(function),
                None => common::copy(&capture.trace),
            };
            let what = chain.join(" ");
            let mut service = capture.service(&what, &derived);
            if answers.is_none() && execution == Execution::Virtual {
                // Elements are apart, and captured packets do not wait for what they answer.
                service.link.round_trip = Human(Duration::ZERO);
            }
            let (slow, both) = both_paths(
                &service,
                &trace,
                execution,
                &format!("{} {what}", capture.name),
            );
            println!(
                "{:<34} {:>6} packets, {:>5.1} % on the fast path | {}",
                capture.name,
                trace.len(),
                100.0 * both.report.fast.share,
                common::derived::doings(&slow)
            );
        }
    }
}

#[test]
fn chains_of_functions_that_act() {
    chains(Execution::Virtual, profiled().iter());
}

#[test]
fn chains_on_threads_that_race() {
    let is_short = |capture: &&Capture| capture.trace.len() <= 5000;
    chains(Execution::Threads, profiled().iter().filter(is_short));
}
