//! Server-only is the oracle, on generated traffic: churn, reordering up to 10 %, both IP versions,
//! fragments, ICMP errors, planted patterns, the key-value workload.

use crate::common::acting::{assert_all_acted, assert_share};
use crate::common::rows::tell;
use crate::common::{
    VARIANTS, assert_same, generate, inspected_traffic, run, service, tcp_traffic, traffic, vary,
};
use twinpath_control::service::{Execution, Paths};
use twinpath_io::Trace;

const BALANCED: &str = "[load_balancer]\nservices = [{ vip = \"10.255.0.1:80\", protocol = \"tcp\", backends = [\
    { endpoint = \"10.254.0.1:8080\" }, { endpoint = \"10.254.0.2:8080\", weight = 3 }] }]\n";

/// The share of packets that each of [`VARIANTS`] must settle: two thirds of what it did. Some have few slots, or
/// lose them soon.
type LeastShares = [f64; VARIANTS.len()];

fn compare(text: &str, trace: &Trace, least_shares: LeastShares) {
    let service = service(text);
    let expected = run(&service, trace, Paths::Slow, Execution::Virtual);
    assert_all_acted(&service, &expected, text);
    for (variant, least) in VARIANTS.into_iter().zip(least_shares) {
        for execution in [Execution::Virtual, Execution::Threads] {
            let found = run(&vary(&service, variant), trace, Paths::Both, execution);
            let what = format!("{variant:?} {execution:?} {text}");
            assert_same(&expected.flows, &found.flows, &what);
            tell("generated", &found.report);
            assert_share(&found, least, &what);
        }
    }
}

fn rules() -> String {
    format!(
        "[inspector]\ngaps = \"inspect\"\nrules = {:?}\n",
        concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../examples/inspector.rules"
        )
    )
}

#[test]
fn reassembler_in_order() {
    compare(
        "[service]\nchain = [\"reassembler\"]\n",
        &tcp_traffic(0.0, 20_000),
        [0.61, 0.28, 0.61, 0.48, 0.62],
    );
}

#[test]
fn reassembler_with_a_tenth_out_of_order() {
    compare(
        "[service]\nchain = [\"reassembler\"]\n",
        &tcp_traffic(0.1, 20_000),
        [0.53, 0.18, 0.53, 0.42, 0.54],
    );
}

#[test]
fn firewall() {
    compare(
        "[service]\nchain = [\"firewall\"]\n[firewall]\ndefault = \"allow\"\nrules = [{ action = \"deny\", protocol = \"udp\" }]\n",
        &tcp_traffic(0.02, 20_000),
        [0.5, 0.26, 0.5, 0.39, 0.51],
    );
}

#[test]
fn inspector() {
    let text = format!("[service]\nchain = [\"inspector\"]\n{}", rules());
    let trace = inspected_traffic(0.01, 20_000);
    assert_inspected(&text, &trace);
    compare(&text, &trace, [0.35, 0.19, 0.35, 0.3, 0.36]);
}

/// The traffic carries what the rules look for: what bans, and what passes.
fn assert_inspected(text: &str, trace: &Trace) {
    let report = run(&service(text), trace, Paths::Slow, Execution::Virtual).report;
    let inspector = report.functions.iter().find(|all| all.name == "inspector");
    let counters = &inspector.expect("in the chain").counters;
    for counter in ["bans", "alerts"] {
        assert!(counters[counter] > 0, "{counter}: {counters:?}");
    }
}

#[test]
fn load_balancer_both_ways() {
    compare(
        &format!("[service]\nchain = [\"load_balancer\"]\n{BALANCED}"),
        &crate::common::balanced_traffic(BALANCED, 10_000),
        [0.55, 0.13, 0.55, 0.16, 0.55],
    );
}

#[test]
fn load_balancer_behind_a_firewall() {
    compare(
        &format!(
            "[service]\nchain = [\"firewall\", \"load_balancer\"]\n[firewall]\ndefault = \"allow\"\n{BALANCED}"
        ),
        &crate::common::balanced_traffic(BALANCED, 10_000),
        [0.55, 0.13, 0.55, 0.16, 0.55],
    );
}

#[test]
fn everything_in_one_chain() {
    let text = format!(
        "[service]\nchain = [\"firewall\", \"reassembler\", \"inspector\", \"load_balancer\"]\n[firewall]\ndefault = \"allow\"\n{BALANCED}{}",
        rules()
    );
    let trace = inspected_traffic(0.05, 20_000);
    assert_inspected(&text, &trace);
    compare(&text, &trace, [0.11, 0.07, 0.11, 0.09, 0.11]);
}

#[test]
fn key_value_store() {
    let requests = generate(
        &traffic(
            "packets = 20000\nflows = 10\nkv = { share = 1.0, get_share = 0.5, keys = 300 }\narrivals = { process = \"constant\", rate_pps = 100000.0 }\n",
        ),
        5,
    );
    compare(
        "[service]\nchain = [\"kv_store\"]\n",
        &requests,
        [0.64, 0.46, 0.64, 0.41, 0.66],
    );
}

#[test]
fn several_workers() {
    let text = "[service]\nchain = [\"firewall\", \"reassembler\"]\n[slow_path]\nworkers = 3\n[firewall]\ndefault = \"allow\"\n";
    compare(
        text,
        &tcp_traffic(0.05, 20_000),
        [0.53, 0.23, 0.53, 0.42, 0.54],
    );
}
