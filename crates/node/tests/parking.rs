//! Payloads wait on the fast path's side while the cores see headers: what leaves is what leaves
//! cores that see whole packets, byte for byte and in order per flow.

mod common;

use common::{Outcome, assert_same, balanced_traffic, run, service, tcp_traffic};
use twinpath_control::service::{Execution, Paths};
use twinpath_io::Trace;

const BALANCED: &str = "[load_balancer]\nservices = [{ vip = \"10.255.0.1:80\", protocol = \"tcp\", backends = [\
    { endpoint = \"10.254.0.1:8080\" }, { endpoint = \"10.254.0.2:8080\", weight = 3 }] }]\n";
const FIREWALL: &str = "[firewall]\ndefault = \"allow\"\nrules = [{ action = \"deny\", protocol = \"udp\", to_port = \"53\" }]\n";

/// Everything under way at once, and both ways of execution.
fn each_run(text: &str, parking: &str, trace: &Trace, check: impl Fn(&Outcome, &str)) {
    let parked = service(&format!("{text}{parking}"));
    for paths in [Paths::Slow, Paths::Both] {
        for execution in [Execution::Virtual, Execution::Threads] {
            let found = run(&parked, trace, paths, execution);
            check(&found, &format!("{text} {parking} {paths:?} {execution:?}"));
        }
    }
}

fn compare(text: &str, parking: &str, trace: &Trace) {
    let expected = run(&service(text), trace, Paths::Slow, Execution::Virtual);
    each_run(text, parking, trace, |found, what| {
        println!("{what}: {:?}", found.report.drops);
        assert_same(&expected.flows, &found.flows, what);
    });
}

#[test]
fn load_balancer() {
    let text = format!("[service]\nchain = [\"load_balancer\"]\n{BALANCED}");
    compare(&text, "[parking]\n", &balanced_traffic(BALANCED, 10_000));
}

#[test]
fn firewall() {
    let text = format!("[service]\nchain = [\"firewall\"]\n{FIREWALL}");
    compare(&text, "[parking]\n", &tcp_traffic(0.02, 20_000));
}
