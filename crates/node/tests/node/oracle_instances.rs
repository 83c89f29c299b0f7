//! The same function several times in a chain, under different names: server-only is the oracle,
//! and each instance must have acted on its own.

use crate::common::acting::assert_share;
use crate::common::derived::{Capture, counted, doings, profiled};
use crate::common::trial::{Tally, Trial, Verdict, assert_rules_settle, both_paths};
use crate::common::{Outcome, generate, traffic};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::time::Duration;
use twinpath_captures::{FunctionText, Lacking};
use twinpath_control::service::{Execution, Service};
use twinpath_nf::duration::Human;

const NAMES: [&str; 3] = ["guard", "monitor", "edge"];

/// A list, a monitor, and another list, which denies other packets.
fn lists_around_a_monitor(capture: &Capture) -> Result<Service, Lacking> {
    let profile = &capture.profile;
    let functions = [
        profile.acl()?,
        profile.monitor()?,
        profile.acl_of_answers()?,
    ];
    let derived = profile.service_of_named(NAMES.into_iter().zip(functions).collect());
    let mut service = capture.service("instances", &derived);
    service.inside = Vec::new();
    service.link.round_trip = Human(Duration::ZERO);
    Ok(service)
}

/// What each list denied, seen by name, and what both paths put out.
fn acted(
    service: &Service,
    capture: &Capture,
    execution: Execution,
) -> (BTreeMap<String, u64>, Outcome) {
    let what = format!("{} {execution:?}", capture.name);
    let (slow, both) = both_paths(service, &capture.trace, execution, &capture.name);
    let [guard, monitor, edge] = NAMES.map(|name| name);
    let of = |name, counters: &[&str]| counted(&slow, name, counters);
    let allowed = of(guard, &["allowed"]);
    assert_eq!(
        of(monitor, &["packets", "not_ip"]),
        allowed,
        "{what}: behind the guard"
    );
    assert_eq!(
        of(edge, &["allowed", "denied"]),
        allowed,
        "{what}: behind the monitor"
    );
    let denied = [guard, edge].map(|name| (name.to_owned(), of(name, &["denied"])));
    let share = both.report.fast.share;
    println!(
        "{what:<40} {:>5.1} % on the fast path | {}",
        100.0 * share,
        doings(&slow.report)
    );
    (denied.into(), both)
}

fn both_lists_deny(denied: &BTreeMap<String, u64>) {
    assert!(
        denied.len() == 2 && denied.values().all(|count| *count > 0),
        "each list denies packets of its own: {denied:?}"
    );
}

/// A share is asked of the fast path in at least so many captures.
const FEWEST_ASKED: usize = 8;

#[test]
fn on_captures() {
    let (mut denied, mut asked) = (BTreeMap::new(), 0);
    for capture in profiled() {
        let service = match lists_around_a_monitor(capture) {
            Ok(service) => service,
            Err(lacking) => {
                println!("{:<34} no trial: {lacking}", capture.name);
                continue;
            }
        };
        let (counts, both) = acted(&service, capture, Execution::Virtual);
        for (name, count) in counts {
            *denied.entry(name).or_default() += count;
        }
        asked += usize::from(assert_rules_settle(capture, &both));
    }
    if !profiled().is_empty() {
        both_lists_deny(&denied);
        assert!(asked >= FEWEST_ASKED, "asked in {asked} captures");
    }
}

/// Traffic of both IP versions.
fn generated(ipv6_share: f64) -> Capture {
    let name = match ipv6_share {
        0.0 => "generated v4",
        1.0 => "generated v6",
        _ => "generated v4 and v6",
    };
    let config = format!(
        "packets = 8000\nflows = 60\narrivals = {{ process = \"poisson\", rate_pps = 20000.0 }}\n\
         reply_share = 0.5\ntcp_share = 0.6\nhosts = {{ servers = 6, ipv6_share = {ipv6_share} }}\n"
    );
    Capture::of(name, &generate(&traffic(&config), 5))
}

#[test]
fn on_generated_traffic() {
    for ipv6_share in [0.0, 0.5, 1.0] {
        let capture = generated(ipv6_share);
        let mut service = lists_around_a_monitor(&capture).expect("there are conversations");
        for execution in [Execution::Virtual, Execution::Threads] {
            let (denied, both) = acted(&service, &capture, execution);
            both_lists_deny(&denied);
            assert_share(&both, 0.3, &capture.name);
        }
        service.rule_cache.enabled = false;
        let (denied, both) = acted(&service, &capture, Execution::Virtual);
        both_lists_deny(&denied);
        assert_eq!(both.report.fast.packets, 0, "nothing is cached");
    }
}

/// Elements of a kind on either side of another one, each with functions of the same kind.
#[test]
fn around_flow_state() {
    for ipv6_share in [0.0, 0.5] {
        let capture = generated(ipv6_share);
        let profile = &capture.profile;
        let of =
            |function: Result<FunctionText, Lacking>| function.expect("it has something to do");
        let chain = vec![
            ("before", of(profile.monitor())),
            ("guard", of(profile.acl())),
            ("firewall", of(profile.firewall())),
            ("edge", of(profile.acl_of_answers())),
            ("behind", of(profile.monitor())),
        ];
        let derived = profile.service_of_named(chain);
        let mut service = capture.service("around", &derived);
        service.link.round_trip = Human(Duration::ZERO);
        let (slow, both) = both_paths(&service, &capture.trace, Execution::Virtual, &capture.name);
        println!("{}: {}", capture.name, doings(&slow.report));
        for name in ["before", "behind"] {
            assert!(counted(&slow, name, &["packets"]) > 0, "{name}");
        }
        for name in ["guard", "edge"] {
            assert!(counted(&slow, name, &["denied"]) > 0, "{name}");
        }
        assert!(both.report.fast.share > 0.2, "{}", both.report.fast.share);
    }
}

/// Elements with flow state that do not stand beside each other, and the function whose answers
/// their packets are.
const APART: [(&[&str], Option<&str>); 5] = [
    (&["firewall", "napt", "load_balancer"], None),
    (&["firewall", "acl", "reassembler"], None),
    (
        &["load_balancer", "monitor", "firewall"],
        Some("load_balancer"),
    ),
    (&["reassembler", "acl", "inspector", "router"], None),
    (
        &["acl", "firewall", "monitor", "load_balancer", "router"],
        Some("load_balancer"),
    ),
];

/// Runs a variant of a chain on both paths.
fn apart(
    trial: &Trial<'_>,
    execution: Execution,
    variant: &str,
    vary: impl Fn(&mut Service),
) -> Verdict {
    let mut service = trial.service();
    // Elements are apart, and captured packets do not wait for what they answer.
    service.link.round_trip = Human(Duration::ZERO);
    vary(&mut service);
    trial.verdict_of(&service, execution, variant)
}

/// A share is asked of the fast path in at least so many captures, chain by chain.
const FEWEST_APART: usize = 4;

#[test]
fn flow_state_apart_on_captures() {
    for chain in APART {
        let asked = Cell::new(0);
        let tally = Tally::over(profiled().iter(), chain, |trial| {
            let verdict = apart(&trial, Execution::Virtual, "", |_| ());
            asked.set(asked.get() + usize::from(verdict.is_asked()));
            verdict
        });
        println!("{chain:?}: a share is asked in {} captures", asked.get());
        tally.assert_acted(chain.0, LEAST_APART);
        assert!(asked.get() >= FEWEST_APART || profiled().is_empty());
    }
}

/// Of all packets of the captures together, and of generated ones; with few slots, the fast path settles this
/// share, and nearly nothing where no rules are cached.
const LEAST_APART: f64 = 0.2;
const MOST_WITHOUT_RULES: f64 = 0.05;

#[test]
fn flow_state_apart_on_generated_traffic() {
    let captures = [0.0, 0.5, 1.0].map(generated);
    for (chain, answers) in APART {
        // Which port a translation gives out is a race, and a balancer behind it chooses by it.
        let executions = match chain.contains(&"napt") {
            true => &[Execution::Virtual][..],
            false => &[Execution::Virtual, Execution::Threads],
        };
        let mut tally = Tally::default();
        for capture in &captures {
            let trial = Trial::of_chain(capture, chain, answers);
            let mut settles = |verdict: Verdict| {
                let (share, name) = (verdict.share(), &capture.name);
                assert!(share >= LEAST_APART, "{name} {chain:?}: {share}");
                tally.add(verdict);
            };
            for &execution in executions {
                settles(apart(&trial, execution, "", |_| ()));
            }
            settles(apart(&trial, Execution::Virtual, "64 slots", |service| {
                service.fast_path.slots = 64;
            }));
            let without = apart(&trial, Execution::Virtual, "no rules", |service| {
                service.rule_cache.enabled = false;
            });
            let share = without.share();
            assert!(share <= MOST_WITHOUT_RULES, "{chain:?}: {share}");
        }
        tally.assert_acted(chain, LEAST_APART);
    }
}
