//! The same function several times in a chain, under different names: server-only is the oracle,
//! and each instance must have acted on its own.

mod common;

use common::acting::decisions;
use common::derived::{Capture, counted, doings, profiled};
use common::trial::both_paths;
use common::{generate, traffic};
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

/// What each function counted, seen by name, on the slow path alone and with both paths.
fn acted(
    service: &Service,
    capture: &Capture,
    execution: Execution,
) -> (BTreeMap<String, u64>, f64) {
    let what = format!("{} {execution:?}", capture.name);
    let (slow, both) = both_paths(service, &capture.trace, execution, &what);
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
        doings(&slow)
    );
    (denied.into(), share)
}

fn both_lists_deny(denied: &BTreeMap<String, u64>) {
    assert!(
        denied.len() == 2 && denied.values().all(|count| *count > 0),
        "each list denies packets of its own: {denied:?}"
    );
}

#[test]
fn on_captures() {
    let (mut denied, mut shares) = (BTreeMap::new(), Vec::new());
    for capture in profiled() {
        let service = match lists_around_a_monitor(capture) {
            Ok(service) => service,
            Err(lacking) => {
                println!("{:<34} no trial: {lacking}", capture.name);
                continue;
            }
        };
        let (counts, share) = acted(&service, capture, Execution::Virtual);
        for (name, count) in counts {
            *denied.entry(name).or_default() += count;
        }
        shares.push(share);
    }
    if !shares.is_empty() {
        both_lists_deny(&denied);
        let most = shares.iter().copied().fold(0.0, f64::max);
        assert!(most > 0.5, "the cache did too little: {shares:?}");
    }
}

/// Traffic of both IP versions.
fn generated(ipv6_share: f64) -> Capture {
    let config = format!(
        "packets = 8000\nflows = 60\narrivals = {{ process = \"poisson\", rate_pps = 20000.0 }}\n\
         reply_share = 0.5\ntcp_share = 0.6\nhosts = {{ servers = 6, ipv6_share = {ipv6_share} }}\n"
    );
    Capture::of(
        &format!("generated {ipv6_share}"),
        &generate(&traffic(&config), 5),
    )
}

#[test]
fn on_generated_traffic() {
    for ipv6_share in [0.0, 0.5, 1.0] {
        let capture = generated(ipv6_share);
        let mut service = lists_around_a_monitor(&capture).expect("there are conversations");
        for execution in [Execution::Virtual, Execution::Threads] {
            let (denied, share) = acted(&service, &capture, execution);
            both_lists_deny(&denied);
            assert!(share > 0.3, "the cache did too little: {share}");
        }
        service.rule_cache.enabled = false;
        let (denied, share) = acted(&service, &capture, Execution::Virtual);
        both_lists_deny(&denied);
        assert_eq!(share, 0.0, "nothing is cached");
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
        println!("{}: {}", capture.name, doings(&slow));
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

/// Runs a chain on both paths; returns how often each function acted, and the share of the fast path.
fn apart(
    capture: &Capture,
    (chain, answers): (&[&str], Option<&str>),
    execution: Execution,
    vary: impl Fn(&mut Service),
) -> Option<(usize, f64)> {
    let functions = capture.functions_of(chain);
    let elements = functions.len();
    let answered = functions.iter().find(|all| Some(all.function) == answers);
    let trace = match answered {
        Some(function) => capture.met_by(function),
        None => common::copy(&capture.trace),
    };
    let derived = capture.profile.service_of(functions);
    let what = chain.join(" ");
    let mut service = capture.service(&what, &derived);
    // Elements are apart, and captured packets do not wait for what they answer.
    service.link.round_trip = Human(Duration::ZERO);
    vary(&mut service);
    let what = format!("{} {what} {execution:?}", capture.name);
    let (slow, both) = both_paths(&service, &trace, execution, &what);
    let names = service.chain.iter().map(|instance| &instance.name);
    let acting = names
        .filter(|name| decisions(&service, &slow, name) > 0)
        .count();
    let share = both.report.fast.share;
    println!(
        "{what:<60} {:>5.1} % fast | {}",
        100.0 * share,
        doings(&slow)
    );
    (elements == chain.len()).then_some((acting, share))
}

#[test]
fn flow_state_apart_on_captures() {
    for chain in APART {
        let (mut most, mut acting) = (0.0f64, 0);
        for capture in profiled() {
            if let Some((acted, share)) = apart(capture, chain, Execution::Virtual, |_| {}) {
                (most, acting) = (most.max(share), acting.max(acted));
            }
        }
        if !profiled().is_empty() {
            assert_eq!(acting, chain.0.len(), "{chain:?}: all act somewhere");
            assert!(
                most > 0.2,
                "{chain:?}: the fast path did too little: {most}"
            );
        }
    }
}

#[test]
fn flow_state_apart_on_generated_traffic() {
    for ipv6_share in [0.0, 0.5, 1.0] {
        let capture = generated(ipv6_share);
        for chain in APART {
            // Which port a translation gives out is a race, and a balancer behind it chooses by it.
            let executions = match chain.0.contains(&"napt") {
                true => &[Execution::Virtual][..],
                false => &[Execution::Virtual, Execution::Threads],
            };
            for &execution in executions {
                let run = apart(&capture, chain, execution, |_| {});
                // Over IPv6 alone some have nothing to do.
                let Some((acting, share)) = run else {
                    assert!(ipv6_share == 1.0, "{chain:?}: not all have something to do");
                    continue;
                };
                assert_eq!(acting, chain.0.len(), "{chain:?}: all act");
                assert!(
                    share > 0.05,
                    "{chain:?}: the fast path did too little: {share}"
                );
            }
            apart(&capture, chain, Execution::Virtual, |service| {
                service.rule_cache.enabled = false;
            });
            apart(&capture, chain, Execution::Virtual, |service| {
                service.fast_path.slots = 64;
            });
        }
    }
}
