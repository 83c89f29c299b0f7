//! What each function must have done in the runs of a chain that has it: one that never acts shows
//! nothing, however many packets pass it.

use super::Chain;
use crate::faults::{Acted, Elements, Functions};
use std::collections::HashMap;

/// What is behind a function's name where it acts on the fast path.
const FAST: &str = ", fast path";

/// What functions' counters must tell, and what is told of them on the fast path.
const ACTS: [(&str, &[&str]); 16] = [
    ("acl", &["denied", "allowed"]),
    ("napt", &["bindings_created", "sessions_created"]),
    (
        "nat64",
        &["bindings_created", "translated_out", "translated_in"],
    ),
    ("nptv6", &["translated_out", "translated_in"]),
    ("router", &["forwarded"]),
    ("monitor", &["packets", "flows_started"]),
    ("firewall", &["connections_opened", "packets_denied"]),
    ("load_balancer", &["new_connections"]),
    ("reassembler", &["in_order", "held", "released"]),
    ("rate_limiter", &["conforming", "delayed"]),
    ("reframer", &["packets", "runs"]),
    ("telemetry", &["records_started", "records_ended"]),
    ("inspector", &["bans", "alerts", "deep_scans"]),
    ("inspector, fast path", &["banned"]),
    ("kv_store", &["gets", "hits", "puts"]),
    ("kv_store, fast path", &["gets", "hits", "puts"]),
];

/// Fewer times are too few to mean much.
const LEAST: u64 = 5;

/// Whether a chain has a function of production.
fn has((elements, functions): Chain, function: &str) -> bool {
    elements.have(function) || functions.names().contains(&function)
}

/// Whether a function cannot do something in a chain: beside flow state of the simulation's own packets
/// of a flow go one way, and no server knows what stands outside for a client that never speaks.
fn is_left_out(chain: Chain, counter: &str) -> bool {
    chain.1 == Functions::Ledger && counter == "translated_in"
}

/// What functions of a chain should have done and did not, and how often they did it.
fn missing(chain: Chain, acted: &Acted) -> Vec<(&'static str, &'static str, u64)> {
    let acts = ACTS
        .iter()
        .filter(|(who, _)| has(chain, who.trim_end_matches(FAST)));
    let each = acts.flat_map(|(who, counters)| counters.iter().map(|counter| (*who, *counter)));
    each.filter(|(_, counter)| !is_left_out(chain, counter))
        .map(|(who, counter)| (who, counter, acted.times(who, counter)))
        .filter(|&(.., times)| times < LEAST)
        .collect()
}

/// In every kind of chain each function does what it is there for, on each path that does it.
pub fn assert_every_function_acts(acted: &HashMap<Chain, Acted>) {
    for (&chain, acted) in acted {
        println!("{chain:?} did {acted}");
    }
    for (&chain, acted) in acted {
        assert_eq!(missing(chain, acted), [], "{chain:?}: too few to mean much");
    }
}

#[test]
fn who_never_acts_is_missed() {
    let chain = (Elements::RulesThenStore, Functions::Mixed);
    let mut acted = Acted::default();
    let all = missing(chain, &acted);
    let of = |name: &str| all.iter().filter(|(who, ..)| *who == name).count();
    let names = ["acl", "monitor", "kv_store", "kv_store, fast path", "napt"];
    assert_eq!(names.map(of), [2, 2, 3, 3, 0]);
    for &(who, counter, _) in &all[1..] {
        acted.add(who, counter, LEAST);
    }
    assert_eq!(missing(chain, &acted), [all[0]]);
}
