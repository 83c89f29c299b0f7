//! Packets of a connection that cross in opposite directions: a replay hands them in when what
//! caused them has left, and then both paths do as the slow path alone. Without that they would not:
//! that too is tested, so that the rest means something.

use crate::common::acting::{assert_all_acted, assert_share};
use crate::common::conversing::{converse, converse_alone};
use crate::common::derived::profiled;
use crate::common::rows::tell;
use crate::common::trial::Tally;
use crate::common::{
    Flows, assert_same, assert_same_but_for_names, by_direction, generate, run,
    run_without_causality, service, tcp_traffic, traffic,
};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::time::Duration;
use twinpath_control::service::{Execution, Paths, Service};
use twinpath_core::wire::PacketBuilder;
use twinpath_io::Trace;
use twinpath_nf::duration::Human;

/// Chains in which no address is translated: packets cross as they were captured.
const CHAINS: [&[&str]; 3] = [
    &["acl", "firewall", "monitor"],
    &["acl", "firewall", "reassembler"],
    &["monitor", "firewall", "reassembler", "router"],
];

/// Chains with translation: answers go to whom the oracle has sent from.
const TRANSLATING: [&[&str]; 4] = [
    &["acl", "firewall", "napt"],
    &["napt", "firewall", "monitor"],
    &["firewall", "napt", "router"],
    &["napt", "firewall", "load_balancer", "acl"],
];

const EXECUTIONS: [Execution; 2] = [Execution::Virtual, Execution::Threads];

const TABLES: &str = r#"
[rule_cache]
window = "20ms"
threshold = 2
[acl]
default = "allow"
rules = [
    { action = "deny", from = "10.0.2.0/23" },
    { action = "deny", to = "10.0.2.0/23" },
    { action = "deny", protocol = "udp", to_port = 123 },
]
[monitor]
by = "hosts"
[firewall]
default = "allow"
[router]
address = "192.0.2.254"
next_hops = [{ name = "uplink", mac = "02:00:00:00:01:01", source_mac = "02:00:00:00:00:01", port = 1 }]
routes = [{ to = "0.0.0.0/0", via = "uplink" }, { to = "::/0", via = "uplink" }]
[napt]
inside = ["10.0.0.0/8", "192.168.0.0/16"]
external = ["198.51.100.1", "198.51.100.2"]
timeouts = { udp = "1s", tcp_transitory = "1s", tcp_established = "2s", icmp = "1s" }
[load_balancer]
services = [{ vip = "172.16.0.1:80", protocol = "tcp", backends = [{ endpoint = "172.16.1.1:8080" }, { endpoint = "172.16.1.2:8080" }] }]
"#;

/// A service of a chain that knows its inside, or not: then all packets pass it one way.
fn crossed(chain: &[&str], round_trip: &str, knows_inside: bool) -> Service {
    service(&crossed_text(chain, round_trip, knows_inside))
}

fn crossed_text(chain: &[&str], round_trip: &str, knows_inside: bool) -> String {
    let inside = match knows_inside {
        true => "inside = [\"10.0.0.0/8\", \"192.168.0.0/16\"]\n",
        false => "",
    };
    format!("[service]\nchain = {chain:?}\n{inside}[link]\nround_trip = \"{round_trip}\"\n{TABLES}")
}

/// How many packets of either the other lacks, whatever their order.
fn differences(one: &Flows, other: &Flows) -> usize {
    let mut balance: BTreeMap<&[u8], isize> = BTreeMap::new();
    for (flows, count) in [(one, 1), (other, -1)] {
        for packet in flows.values().flatten() {
            *balance.entry(packet).or_default() += count;
        }
    }
    balance.values().map(|count| count.unsigned_abs()).sum()
}

/// Compares both paths with the oracle; every function must have acted, and the fast path must have
/// settled this share. Returns how many packets would differ without causality.
fn compare(service: &Service, trace: &Trace, least_share: f64, what: &str) -> usize {
    let expected = run(service, trace, Paths::Slow, Execution::Virtual);
    assert_all_acted(service, &expected, what);
    for execution in EXECUTIONS {
        let found = run(service, trace, Paths::Both, execution);
        let what = format!("{what} {execution:?}");
        assert_same(
            &by_direction(&expected.flows),
            &by_direction(&found.flows),
            &what,
        );
        assert_eq!(expected.report.drops, found.report.drops, "{what}");
        tell("generated", &found.report);
        assert_share(&found, least_share, &what);
    }
    differences(
        &run_without_causality(service, trace).flows,
        &expected.flows,
    )
}

/// A link without delay does not let a replay's clock run ahead: no gap is given up before what
/// fills it, and is on its way to a worker, is there.
#[test]
fn no_delay_is_not_no_bound() {
    let chain: &[&str] = &["acl", "firewall", "reassembler"];
    let text = crossed_text(chain, "0s", true) + "[reassembler]\ngap_timeout = \"100us\"\n";
    compare(&service(&text), &tcp_traffic(0.05, 20_000), 0.4, "no delay");
}

/// TCP whose ends wait for nobody, and some of whose connections end by force.
fn resets() -> Trace {
    let text = "packets = 20000\nflows = 300\nchurn_per_minute = 60000.0\nreply_share = 0.5\n\
         arrivals = { process = \"poisson\", rate_pps = 200000.0 }\ntcp = { reset_share = 0.3 }\n";
    generate(&traffic(text), 5)
}

#[test]
fn captures_whose_ends_cross() {
    let differing = Cell::new(0);
    for (chain, round_trip_us) in CHAINS.into_iter().zip([1000, 100, 10]) {
        let captures = profiled().iter();
        let tallies = Tally::of_each(captures, (chain, None), &EXECUTIONS, |trial, execution| {
            let mut service = trial.service();
            service.link.round_trip = Human(Duration::from_micros(round_trip_us));
            let verdict = trial.verdict_of(&service, *execution, "");
            match execution {
                Execution::Virtual => {
                    let crossed = trial.without_causality(&service);
                    let expected = trial.slow(&service);
                    let more = differences(&crossed.flows, &expected.flows);
                    differing.set(differing.get() + more);
                    verdict
                }
                Execution::Threads => verdict.lenient(),
            }
        });
        for tally in tallies {
            tally.assert_acted(chain, 0.5);
        }
    }
    let differing = differing.get();
    println!("{differing} packets would differ without causality");
    assert!(
        differing > 0 || profiled().is_empty(),
        "no causality, no test"
    );
}

#[test]
fn generated_traffic_whose_ends_cross() {
    for chain in CHAINS {
        let mut differing = 0;
        for (round_trip, knows_inside) in [("10us", true), ("200us", true), ("200us", false)] {
            let service = crossed(chain, round_trip, knows_inside);
            for (name, trace) in [("tcp", tcp_traffic(0.01, 20_000)), ("resets", resets())] {
                let what = format!("{name} {chain:?} {round_trip} {knows_inside}");
                differing += compare(&service, &trace, 0.4, &what);
            }
        }
        println!("{chain:?}: {differing} packets would differ without causality");
        assert!(differing > 0, "{chain:?}: no causality, no test");
    }
}

#[test]
fn answers_through_a_translation() {
    let requests = "packets = 4000\nflows = 100\nchurn_per_minute = 30000.0\nserver_packets = false\n\
         arrivals = { process = \"poisson\", rate_pps = 20000.0 }\nfragment_share = 0.01\nicmp_error_share = 0.005\n\
         hosts = { services = [{ address = \"172.16.0.1\", port = 80, protocol = \"tcp\" }, { address = \"172.16.0.9\", port = 53, protocol = \"udp\" }, { address = \"172.16.0.8\", port = 123, protocol = \"udp\" }] }\n";
    let requests = generate(&traffic(requests), 3);
    for chain in TRANSLATING {
        for after in [7, 37, 300] {
            let service = crossed(chain, "200us", true);
            let after = Duration::from_micros(after);
            let (expected, plan) = converse_alone(&service, &requests, after);
            assert_all_acted(&service, &expected, &format!("{chain:?}"));
            for execution in EXECUTIONS {
                let found = converse(&service, &requests, &plan, execution);
                let what = format!("{chain:?} answered after {after:?} {execution:?}");
                assert_same_but_for_names(&expected, &found, "198.51.100.0/24", &what);
                assert_eq!(expected.report.drops, found.report.drops, "{what}");
                tell("generated, answered", &found.report);
                assert_share(&found, 0.25, &what);
            }
        }
    }
}

/// Packets from outside to hosts inside pass a translation untouched, and belong to connections
/// all the same.
#[test]
fn answers_past_a_translation() {
    let service = crossed(&["acl", "firewall", "napt"], "200us", true);
    let differing = compare(&service, &tcp_traffic(0.01, 10_000), 0.3, "past");
    assert!(differing > 0, "no causality, no test");
}

/// A fragment, or an error about the connection, waits behind a packet that waits for rules to go:
/// what it is translated to depends on it.
#[test]
fn what_depends_on_a_packet_that_waits_waits_too() {
    let service = service(
        "[service]\nchain = [\"napt\"]\n[napt]\ninside = [\"10.0.0.0/8\"]\nexternal = [\"198.51.100.1\"]\nassignment = \"preserve\"\n",
    );
    let end = |text: &str| text.parse().expect("an endpoint");
    let (inside, outside) = (end("10.0.0.3:20001"), end("192.0.2.2:53"));
    let unsolicited = PacketBuilder::udp(outside, end("198.51.100.1:20001")).payload_len(20);
    let question = PacketBuilder::udp(inside, outside).identification(9);
    let (first, later) = (question.payload_len(88), question.payload_len(64));
    let mut trace = Trace::new();
    let mut at_ms = 10_000;
    let mut arrive = |after_ms: u64, packet: &PacketBuilder<'_>| {
        at_ms += after_ms;
        trace.push(at_ms * 1_000_000, &packet.to_vec().expect("fits"));
    };
    // Denied again and again: that becomes a rule, which came from the port being free.
    for _ in 0..10 {
        arrive(60, &unsolicited);
    }
    arrive(3, &first.fragment(0, true));
    arrive(0, &later.fragment(96, false));
    let expected = run(&service, &trace, Paths::Slow, Execution::Virtual);
    assert_eq!(expected.packets.len(), 2, "both leave, translated");
    assert_eq!(expected.report.drops["unsolicited"], 10);
    for execution in [Execution::Virtual, Execution::Threads] {
        let found = run(&service, &trace, Paths::Both, execution);
        let waited = &found.report.rules.total;
        assert!(waited.slow_path.waited > 0, "nothing waited: {waited:?}");
        assert_same(&expected.flows, &found.flows, "fragments");
        let drops = &found.report.drops;
        assert_eq!(
            drops, &expected.report.drops,
            "by a rule, for the same reason"
        );
        tell("made one by one", &found.report);
        assert_share(&found, 0.3, &format!("{execution:?}"));
    }
}
