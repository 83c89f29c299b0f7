//! Server-only is the oracle: over every shared capture, every chain gives the same packets with
//! both paths as with the cores alone, per flow in the same order, byte for byte.

mod common;

use common::{Variant, assert_same, captures, load, run, service, vary};
use twinpath_control::service::{Execution, Paths};

const FIREWALL: &str = "[firewall]\ndefault = \"allow\"\n";
const BALANCER: &str = "[load_balancer]\nservices = [{ vip = \"10.255.0.1:80\", protocol = \"tcp\", backends = [{ endpoint = \"10.254.0.1:8080\" }] }]\n";

fn chain(functions: &str) -> String {
    let rules = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../examples/inspector.rules"
    );
    let mut text = format!("[service]\nchain = [{functions}]\n");
    for (name, table) in [
        ("firewall", FIREWALL.to_owned()),
        ("load_balancer", BALANCER.to_owned()),
        ("inspector", format!("[inspector]\nrules = {rules:?}\n")),
    ] {
        if functions.contains(name) {
            text.push_str(&table);
        }
    }
    text
}

const EACH: [&str; 5] = [
    "\"reassembler\"",
    "\"inspector\"",
    "\"firewall\"",
    "\"load_balancer\"",
    "\"kv_store\"",
];
const ALL: &str = "\"firewall\", \"reassembler\", \"inspector\", \"load_balancer\"";

fn compare(chains: &[&str], variant: Variant, execution: Execution) {
    for path in captures() {
        let trace = load(&path);
        for functions in chains {
            let service = service(&chain(functions));
            let expected = run(&service, &trace, Paths::Slow, Execution::Virtual);
            assert_eq!(
                expected.report.fast.packets + expected.report.slow.packets,
                trace.len() as u64
            );
            let found = run(&vary(&service, variant), &trace, Paths::Both, execution);
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            assert_same(
                &expected.flows,
                &found.flows,
                &format!("{name} {functions} {variant:?} {execution:?}"),
            );
            println!(
                "{name} {functions}: {} of {} packets on the fast path",
                found.report.fast.packets,
                trace.len()
            );
        }
    }
}

#[test]
fn each_function() {
    compare(&EACH, Variant::Plain, Execution::Virtual);
}

#[test]
fn all_in_one_chain() {
    compare(&[ALL], Variant::Plain, Execution::Virtual);
}

#[test]
fn few_slots() {
    compare(&[ALL], Variant::FewSlots, Execution::Virtual);
}

#[test]
fn one_way() {
    compare(&[ALL], Variant::OneWay, Execution::Virtual);
}

#[test]
fn short_life() {
    compare(&[ALL], Variant::ShortLife, Execution::Virtual);
}

#[test]
fn eager_pulls() {
    compare(&[ALL], Variant::EagerPulls, Execution::Virtual);
}

#[test]
fn threads_that_race() {
    compare(
        &[ALL, "\"reassembler\""],
        Variant::EagerPulls,
        Execution::Threads,
    );
}
