//! Packets of a connection that cross in opposite directions may meet an element in the middle
//! either way round. How often that shows in what leaves is printed:
//! `cargo test -p twinpath-node --test crossings -- --nocapture`.

mod common;

use common::{
    OneWayFlows, by_direction, captures, copy, generate, load, run, service, tcp_traffic, traffic,
};
use std::collections::BTreeMap;
use twinpath_control::service::{Execution, Paths};
use twinpath_io::Trace;

const ROUND_TRIPS: [&str; 3] = ["10us", "100us", "1ms"];

const INSIDE: &str = "inside = [\"10.0.0.0/8\", \"172.16.0.0/12\", \"192.168.0.0/16\"]\n";
const BESIDE: &str = "[rule_cache]\nwindow = \"20ms\"\nthreshold = 2\n\
     [acl]\ndefault = \"allow\"\n[monitor]\nby = \"hosts\"\n";

fn text(chain: &[&str], round_trip: &str) -> String {
    let (inside, beside) = match chain.len() {
        1 => ("", ""),
        _ => (INSIDE, BESIDE),
    };
    format!(
        "[service]\nchain = {chain:?}\n{inside}[link]\nround_trip = \"{round_trip}\"\n\
         {beside}[firewall]\ndefault = \"allow\"\n"
    )
}

/// Packets in all, and those of either that the other lacks, whatever their order.
fn differences(one: &OneWayFlows, other: &OneWayFlows) -> (usize, usize) {
    let mut balance: BTreeMap<&[u8], isize> = BTreeMap::new();
    let total = one.values().map(Vec::len).sum();
    for packet in one.values().flatten() {
        *balance.entry(packet).or_default() += 1;
    }
    for packet in other.values().flatten() {
        *balance.entry(packet).or_default() -= 1;
    }
    let differ = balance.values().map(|count| count.unsigned_abs()).sum();
    (total, differ)
}

fn measure(chain: &[&str], round_trip: &str, trace: &Trace) -> (usize, usize) {
    let service = service(&text(chain, round_trip));
    let leaving = |paths| {
        let outcome = run(&service, trace, paths, Execution::Virtual);
        by_direction(&outcome.flows)
    };
    differences(&leaving(Paths::Slow), &leaving(Paths::Both))
}

/// Every packet of the captures and of much TCP, with the ends answering at once or at random.
fn traces() -> Vec<(String, Trace)> {
    let captures = captures().into_iter().map(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        (name.into_owned(), load(&path))
    });
    let mut traces: Vec<_> = captures.collect();
    traces.push(("generated".into(), tcp_traffic(0.01, 30_000)));
    let resets = "packets = 30000\nflows = 300\nchurn_per_minute = 60000.0\nreply_share = 0.5\n\
         arrivals = { process = \"poisson\", rate_pps = 200000.0 }\ntcp = { reset_share = 0.3 }\n";
    traces.push(("with resets".into(), generate(&traffic(resets), 5)));
    traces
}

#[test]
fn few_outcomes_differ_where_ends_cross() {
    let alone = ["firewall"].as_slice();
    let in_the_middle = ["acl", "firewall", "monitor"].as_slice();
    for round_trip in ROUND_TRIPS {
        let (mut packets, mut differ) = (0, 0);
        for (name, trace) in traces() {
            let (_, of_one) = measure(alone, round_trip, &copy(&trace));
            assert_eq!(of_one, 0, "{name}: one element keeps the order of arrival");
            let (total, of_three) = measure(in_the_middle, round_trip, &trace);
            if of_three > 0 {
                println!("{round_trip}: {name}: {of_three} of {total} packets differ");
            }
            (packets, differ) = (packets + total, differ + of_three);
        }
        println!("{round_trip}: {differ} of {packets} packets differ");
        assert_eq!(differ, 0, "{packets}");
    }
}
