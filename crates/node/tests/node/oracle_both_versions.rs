//! Server-only is the oracle over generated traffic of both IP versions, and of IPv6 alone, through
//! services that are derived from it: every function acts on both.

use crate::common::acting::{assert_all_acted, assert_share};
use crate::common::derived::{Capture, by_entry};
use crate::common::rows::tell;
use crate::common::trial::Trial;
use crate::common::{
    Outcome, VARIANTS, Variant, assert_same, generate, run, service, traffic, vary,
};
use std::sync::OnceLock;
use twinpath_captures::{Evidence, FunctionText, Lacking, Profile};
use twinpath_control::service::{Execution, Paths};

type Derived = fn(&Profile) -> Result<FunctionText, Lacking>;

/// TCP that is reordered now and then, UDP, fragments and ICMP errors, to a few servers.
fn generated(name: &str, ipv6_share: f64) -> Capture {
    let text = format!(
        "packets = 12000\nflows = 150\nchurn_per_minute = 30000.0\ntcp_share = 0.7\nreply_share = 0.4\n\
         popularity = {{ distribution = \"zipf\", exponent = 0.99 }}\npacket_size = {{ kind = \"imix\" }}\n\
         arrivals = {{ process = \"poisson\", rate_pps = 20000.0 }}\nfragment_share = 0.01\nicmp_error_share = 0.005\n\
         tcp = {{ out_of_order_share = 0.01, reset_share = 0.05 }}\nhosts = {{ servers = 6, ipv6_share = {ipv6_share} }}\n"
    );
    Capture::of(name, &generate(&traffic(&text), 9))
}

fn both() -> &'static [Capture; 2] {
    static TRAFFIC: OnceLock<[Capture; 2]> = OnceLock::new();
    TRAFFIC.get_or_init(|| {
        [
            generated("generated v4 and v6", 0.5),
            generated("generated v6", 1.0),
        ]
    })
}

/// Runs functions alone over the traffic, in variants of the fast path.
fn alone(tables: &[Derived], variants: &[Variant]) {
    let mut complaints = Vec::new();
    for capture in both() {
        assert!(
            capture.profile.counts.v6 > 4000,
            "{:?}",
            capture.profile.counts
        );
        for table in tables {
            let function = table(&capture.profile).expect("there is everything");
            assert_rewrites_v6(capture, &function);
            let trial = Trial::alone(capture, function);
            complaints.extend(trial.verdict().complaints());
            complaints.extend(trial.compare(variants));
        }
    }
    assert!(complaints.is_empty(), "{complaints:#?}");
}

/// Where packets are to be seen with new addresses, some are IPv6.
fn assert_rewrites_v6(capture: &Capture, function: &FunctionText) {
    let new = capture.profile.fresh.prefix(false);
    let is_seen = |seen: &Evidence| *seen == Evidence::Addressed(new);
    let rewrites = matches!(function.function, "napt" | "load_balancer");
    let is_expected = function
        .expectations
        .iter()
        .any(|expected| is_seen(&expected.seen));
    assert_eq!(rewrites, is_expected, "{}", function.function);
}

#[test]
fn firewall() {
    alone(&[Profile::firewall], &VARIANTS);
}

#[test]
fn reassembler() {
    alone(
        &[Profile::reassembler, Profile::reassembler_dropping],
        &VARIANTS,
    );
}

#[test]
fn inspector() {
    alone(&[Profile::inspector], &VARIANTS);
}

#[test]
fn load_balancer() {
    alone(&[Profile::load_balancer], &VARIANTS);
}

#[test]
fn acl() {
    alone(&[Profile::acl], &[Variant::Plain]);
}

#[test]
fn napt() {
    alone(&[Profile::napt, Profile::napt_filtered], &[Variant::Plain]);
}

#[test]
fn router() {
    alone(
        &[Profile::router, Profile::router_without_default],
        &[Variant::Plain],
    );
}

#[test]
fn monitor() {
    alone(
        &[Profile::monitor, Profile::monitor_of_hosts],
        &[Variant::Plain],
    );
}

#[test]
fn kv_store() {
    alone(&[Profile::kv_store], &VARIANTS);
}

/// What a [`Trial`] relies on, which runs the slow path alone once for all variants: it knows nothing of
/// the fast path's sizes, and nothing of the cache of rules.
#[test]
fn the_slow_path_alone_is_one_whatever_stands_beside_it() {
    let capture = &both()[0];
    for chain in [
        ["firewall", "reassembler", "inspector", "load_balancer"],
        ["acl", "napt", "monitor", "router"],
    ] {
        let trial = Trial::of_chain(capture, &chain, None);
        let plain = trial.service();
        let alone = run(&plain, &capture.trace, Paths::Slow, Execution::Virtual);
        assert_all_acted(&plain, &alone, "alone");
        let mut others = VARIANTS.map(|variant| vary(&plain, variant)).to_vec();
        let mut caching = plain.clone();
        let cache = &mut caching.rule_cache;
        (cache.exact, cache.masked, cache.held, cache.threshold) = (16, 16, 2, 0);
        let mut disabled = plain.clone();
        disabled.rule_cache.enabled = false;
        others.extend([caching, disabled]);
        for other in others {
            let found = run(&other, &capture.trace, Paths::Slow, Execution::Virtual);
            assert!(alone.packets == found.packets, "packets, or their times");
            assert_eq!(alone.ports, found.ports);
            let told = |outcome: &Outcome| {
                let report = &outcome.report;
                format!("{:#?}, {:#?}", report.drops, report.functions)
            };
            assert_eq!(told(&alone), told(&found));
        }
    }
}

/// The generator's own key-value workload, to a server over IPv6.
#[test]
fn key_value_workload() {
    let requests = generate(
        &traffic(
            "packets = 10000\nflows = 10\narrivals = { process = \"constant\", rate_pps = 100000.0 }\n\
             kv = { share = 1.0, get_share = 0.5, keys = 200, server_address = \"2001:db8:5::1\" }\n",
        ),
        5,
    );
    let service = service("[service]\nchain = [\"kv_store\"]\n");
    let expected = run(&service, &requests, Paths::Slow, Execution::Virtual);
    assert_all_acted(&service, &expected, "key-value workload");
    for execution in [Execution::Virtual, Execution::Threads] {
        let found = run(&service, &requests, Paths::Both, execution);
        let what = format!("key-value-workload {execution:?}");
        assert_same(&by_entry(&expected), &by_entry(&found), &what);
        tell("generated v6, keys and values", &found.report);
        assert_share(&found, 0.3, &what);
    }
}
