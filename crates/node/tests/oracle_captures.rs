//! Server-only is the oracle: over every shared capture, every chain gives the same packets with
//! both paths as with the cores alone, per flow in the same order, byte for byte.

mod common;

use common::{Variant, assert_same, captures, load, run, service, vary};
use twinpath_control::service::{Execution, Paths};

const CHAINS: [&str; 4] = [
    "[service]\nchain = [\"reassembler\"]\n",
    "[service]\nchain = [\"firewall\"]\n[firewall]\ndefault = \"allow\"\n",
    "[service]\nchain = [\"firewall\", \"reassembler\"]\n[firewall]\ndefault = \"allow\"\n",
    "[service]\nchain = [\"firewall\", \"reassembler\", \"load_balancer\"]\n[firewall]\ndefault = \"allow\"\n[load_balancer]\nservices = [{ vip = \"10.255.0.1:80\", protocol = \"tcp\", backends = [{ endpoint = \"10.254.0.1:8080\" }] }]\n",
];

fn compare(variant: Variant, execution: Execution) {
    for path in captures() {
        let trace = load(&path);
        for chain in CHAINS {
            let service = service(chain);
            let expected = run(&service, &trace, Paths::Slow, Execution::Virtual);
            assert_eq!(expected.report.fast.packets + expected.report.slow.packets, trace.len() as u64);
            let found = run(&vary(&service, variant), &trace, Paths::Both, execution);
            let what = format!("{} {chain:?} {variant:?} {execution:?}", path.display());
            assert_same(&expected.flows, &found.flows, &what);
            println!("{what}: {} of {} packets on the fast path, {:?}", found.report.fast.packets, trace.len(), found.report.coherence);
        }
    }
}

#[test]
fn both_paths() {
    compare(Variant::Plain, Execution::Virtual);
}

#[test]
fn few_slots() {
    compare(Variant::FewSlots, Execution::Virtual);
}

#[test]
fn one_way() {
    compare(Variant::OneWay, Execution::Virtual);
}

#[test]
fn short_life() {
    compare(Variant::ShortLife, Execution::Virtual);
}

#[test]
fn eager_pulls() {
    compare(Variant::EagerPulls, Execution::Virtual);
}

#[test]
fn threads_that_race() {
    compare(Variant::EagerPulls, Execution::Threads);
}
