//! Server-only is the oracle for chains whose decisions are cached as rules, alone and beside
//! functions that share flow state: every shared capture, with services that are derived from it,
//! generated traffic, tables of 16 rules, rules that expire, racing threads.

use crate::common::acting::{assert_all_acted, assert_share};
use crate::common::conversing::{converse, converse_alone};
use crate::common::derived::profiled;
use crate::common::rows::tell;
use crate::common::trial::Tally;
use crate::common::{
    Outcome, assert_same, assert_same_but_for_names, by_direction, generate, run, service, traffic,
};
use std::collections::BTreeMap;
use std::time::Duration;
use twinpath_control::service::{Execution, Paths, Service};
use twinpath_io::Trace;
use twinpath_nf::duration::Human;

const ACL: &str = r#"
[acl]
default = "allow"
rules = [
    { action = "deny", protocol = "udp", to_port = "137-139" },
    { action = "allow", protocol = "tcp", from = "10.0.0.0/8", to_port = "80,443" },
    { action = "deny", protocol = "tcp", to_port = 23 },
    { action = "deny", from = "10.0.0.0/29", protocol = "udp" },
]
"#;

const NAPT: &str = r#"
[napt]
inside = ["10.0.0.0/8", "192.168.0.0/16"]
external = ["198.51.100.1", "198.51.100.2"]
filtering = "address_dependent"
timeouts = { udp = "1s", tcp_transitory = "1s", tcp_established = "2s", icmp = "1s" }
"#;

const ROUTER: &str = r#"
[router]
address = "192.0.2.254"
next_hops = [
    { name = "uplink", mac = "02:00:00:00:01:01", source_mac = "02:00:00:00:00:01", port = 1 },
    { name = "lab", mac = "02:00:00:00:02:01", source_mac = "02:00:00:00:00:02", port = 63 },
]
routes = [
    { to = "0.0.0.0/0", via = "uplink" },
    { to = "::/0", via = "uplink" },
    { to = "10.0.0.0/8", via = "lab" },
    { to = "10.9.0.0/16", via = "discard" },
]
"#;

const MONITOR: &str = "[monitor]\nidle = \"1s\"\n";
const BALANCER: &str = r#"
[load_balancer]
services = [
    { vip = "10.255.0.1:80", protocol = "tcp", backends = [{ endpoint = "10.254.0.1:8080" }, { endpoint = "10.254.0.2:8080", weight = 3 }] },
    { vip = "10.255.0.1:53", protocol = "udp", backends = [{ endpoint = "10.254.0.3:53" }, { endpoint = "10.254.0.4:53" }] },
]
"#;
const FIREWALL: &str = "[firewall]\ndefault = \"allow\"\n";

fn text(chain: &[&str]) -> String {
    let tables = [
        ("acl", ACL),
        ("napt", NAPT),
        ("router", ROUTER),
        ("monitor", MONITOR),
        ("firewall", FIREWALL),
        ("load_balancer", BALANCER),
    ];
    // Hosts that leave checksums to their cards were captured with wrong ones.
    let mut text = format!("[service]\nchain = {chain:?}\nverify_ipv4_checksum = false\n");
    for (name, table) in tables {
        if chain.contains(&name) {
            text.push_str(table);
        }
    }
    text.push_str("[rule_cache]\nwindow = \"100ms\"\nthreshold = 0\n");
    // Several packets are under way at any time.
    text.push_str("[link]\nround_trip = \"2ms\"\nincomplete_timeout = \"10ms\"\n");
    text
}

/// Variants of the cache that the oracle must not see a difference in.
#[derive(Copy, Clone, Debug)]
enum Variant {
    Plain,
    SixteenRules,
    FewMasks,
    HoldsLittle,
    AgesFast,
    Disabled,
}

const VARIANTS: [Variant; 6] = [
    Variant::Plain,
    Variant::SixteenRules,
    Variant::FewMasks,
    Variant::HoldsLittle,
    Variant::AgesFast,
    Variant::Disabled,
];

fn vary(service: &Service, variant: Variant) -> Service {
    let mut service = service.clone();
    let cache = &mut service.rule_cache;
    match variant {
        Variant::Plain => {}
        Variant::SixteenRules => (cache.exact, cache.masked) = (16, 16),
        Variant::FewMasks => cache.masks = 2,
        Variant::HoldsLittle => cache.held = 2,
        Variant::AgesFast => {
            (cache.window, cache.idle_windows) = (Human(Duration::from_millis(20)), 1);
        }
        Variant::Disabled => cache.enabled = false,
    }
    service
}

/// The share of packets that the fast path must settle in a variant of what must settle this.
fn least_share(variant: Variant, plain: f64) -> f64 {
    match variant {
        Variant::SixteenRules => plain * 0.1,
        Variant::Disabled => 0.0,
        _ => plain,
    }
}

/// The cache did its part, and nothing where there is none.
fn assert_cached(variant: Variant, found: &Outcome, plain: f64, what: &str) {
    assert_share(found, least_share(variant, plain), what);
    let is_cached = found.report.fast.packets > 0;
    assert_eq!(is_cached, !matches!(variant, Variant::Disabled), "{what}");
}

/// Threads race in some: the others ask more of the cache than of the link.
fn executions(variant: Variant) -> &'static [Execution] {
    match variant {
        Variant::Plain | Variant::HoldsLittle => &[Execution::Virtual, Execution::Threads],
        _ => &[Execution::Virtual],
    }
}

/// What functions count must be right also for packets that the workers never saw.
fn counts(outcome: &Outcome) -> BTreeMap<String, u64> {
    const COUNTED: [&str; 8] = [
        "allowed",
        "denied",
        "forwarded",
        "forwarded_bytes",
        "discarded",
        "no_route",
        "bytes",
        "packets",
    ];
    let mut counts = BTreeMap::new();
    for function in &outcome.report.functions {
        for name in COUNTED {
            if let Some(&count) = function.counters.get(name) {
                counts.insert(format!("{} {name}", function.name), count);
            }
        }
    }
    counts
}

/// Compares every variant with the oracle. Every function must have acted, and the fast path must have
/// settled this share in the plain one.
fn compare(chain: &[&str], trace: &Trace, least_share: f64, what: &str) {
    let service = service(&text(chain));
    let expected = run(&service, trace, Paths::Slow, Execution::Virtual);
    assert_all_acted(&service, &expected, what);
    for variant in VARIANTS {
        for &execution in executions(variant) {
            let found = run(&vary(&service, variant), trace, Paths::Both, execution);
            let what = format!("{what} {chain:?} {variant:?} {execution:?}");
            let (expected_flows, found_flows) =
                (by_direction(&expected.flows), by_direction(&found.flows));
            assert_same(&expected_flows, &found_flows, &what);
            assert_eq!(expected.ports, found.ports, "{what}");
            assert_eq!(counts(&expected), counts(&found), "{what}");
            assert_eq!(expected.report.drops, found.report.drops, "{what}");
            tell("generated", &found.report);
            assert_cached(variant, &found, least_share, &what);
        }
    }
}

fn mixed_traffic(packets: u64) -> Trace {
    arriving("process = \"poisson\"", packets)
}

/// Half of the traffic is for balanced services.
const SERVICES: &str = "hosts = { services = [\
    { address = \"10.255.0.1\", port = 80, protocol = \"tcp\" }, { address = \"10.255.0.1\", port = 53, protocol = \"udp\" }, \
    { address = \"172.16.0.7\", port = 443, protocol = \"tcp\" }, { address = \"172.16.0.9\", port = 123, protocol = \"udp\" }] }\n";

fn arriving(process: &str, packets: u64) -> Trace {
    generate(
        &traffic(&format!(
            "packets = {packets}\nflows = 150\nchurn_per_minute = 3000.0\npopularity = {{ distribution = \"zipf\", exponent = 0.99 }}\n\
             arrivals = {{ {process}, rate_pps = 4000.0 }}\npacket_size = {{ kind = \"imix\" }}\ntcp_share = 0.6\n\
             fragment_share = 0.01\nicmp_error_share = 0.005\nserver_packets = false\n{SERVICES}"
        )),
        7,
    )
}

/// The same of requests, and of servers that answer what reaches them.
fn compare_answered(chain: &[&str], packets: u64, after: Duration, least_share: f64) {
    let (service, requests) = (
        service(&text(chain)),
        arriving("process = \"constant\"", packets),
    );
    let (expected, plan) = converse_alone(&service, &requests, after);
    assert_all_acted(&service, &expected, &format!("answered {chain:?}"));
    for variant in VARIANTS {
        for &execution in executions(variant) {
            let found = converse(&vary(&service, variant), &requests, &plan, execution);
            let what = format!("answered {chain:?} {variant:?} {execution:?}");
            assert_same_but_for_names(&expected, &found, "198.51.100.0/24", &what);
            assert_eq!(expected.report.drops, found.report.drops, "{what}");
            tell("generated, answered", &found.report);
            assert_cached(variant, &found, least_share, &what);
        }
    }
}

const EACH: [&[&str]; 4] = [&["acl"], &["napt"], &["router"], &["monitor"]];
const ALL: &[&str] = &["acl", "napt", "monitor", "router"];

/// Chains over every capture, with services that are derived from it. Every function must have
/// acted, and the fast path must have settled this share of the packets of each variant.
fn compare_on_captures(chain: &[&str], variants: &[(Variant, f64)]) {
    let runs = variants.iter().flat_map(|&(variant, least_share)| {
        let executions = executions(variant).iter();
        executions.map(move |&execution| (variant, execution, least_share))
    });
    let runs: Vec<_> = runs.collect();
    let answered = (chain, Some("napt"));
    let tallies = Tally::of_each(profiled().iter(), answered, &runs, |trial, run| {
        let &(variant, execution, _) = run;
        let service = vary(&trial.service(), variant);
        let verdict = trial.verdict_of(&service, execution, &format!("{variant:?}"));
        verdict.lenient()
    });
    for (tally, (_, _, least_share)) in tallies.into_iter().zip(runs) {
        tally.assert_acted(chain, least_share);
    }
}

#[test]
fn each_function_on_captures() {
    for chain in EACH {
        compare_on_captures(chain, &[(Variant::Plain, 0.5)]);
    }
}

#[test]
fn all_in_one_chain_on_captures() {
    let variants = [(Variant::Plain, 0.5), (Variant::SixteenRules, 0.15)];
    compare_on_captures(ALL, &variants);
}

#[test]
fn each_function_on_generated_traffic() {
    let trace = mixed_traffic(12_000);
    for chain in EACH {
        compare(chain, &trace, 0.4, "generated");
    }
}

#[test]
fn all_in_one_chain_with_answers() {
    // Answers come while what they answer may still be on the slow path.
    compare_answered(ALL, 6_000, Duration::from_micros(37), 0.4);
}

/// Rules before and behind a balancer, which has another row of the chain for itself.
#[test]
fn load_balancer_with_answers() {
    for chain in [&["acl", "load_balancer"][..], &["load_balancer", "monitor"]] {
        compare_answered(chain, 6_000, Duration::from_micros(300), 0.4);
    }
}

/// Rules before and after functions that share flow state.
#[test]
fn beside_shared_flow_state() {
    for chain in [
        ["acl", "firewall"].as_slice(),
        &["firewall", "napt"],
        &["napt", "reassembler", "router"],
        &["monitor", "firewall", "reassembler", "router"],
    ] {
        let trace = mixed_traffic(8_000);
        compare(chain, &trace, 0.15, "one way");
    }
}

#[test]
fn beside_shared_flow_state_with_answers() {
    for chain in [
        ["acl", "firewall"].as_slice(),
        &["acl", "firewall", "napt"],
        &["napt", "firewall", "router"],
    ] {
        compare_answered(chain, 4_000, Duration::from_micros(37), 0.15);
    }
}
