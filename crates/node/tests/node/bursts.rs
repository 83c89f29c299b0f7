//! Bursts of any size: what leaves is what leaves when packets come one by one, in order per flow and
//! direction, whatever stands beside each other in a burst.

use crate::common::rows::tell;
use crate::common::world::{Mishaps, World};
use crate::common::{generate, service, traffic};
use std::collections::BTreeMap;
use twinpath_control::service::{Paths, Service};
use twinpath_core::wire::dissect;
use twinpath_core::{DropReason, Instant, Side, Steering};
use twinpath_io::Trace;

const CHAINS: [&str; 4] = [
    "chain = [\"firewall\"]",
    "chain = [\"acl\"]",
    "chain = [\"acl\", \"monitor\"]",
    "chain = [\"acl\", \"firewall\", \"monitor\"]",
];

fn chain(chain: &str) -> Service {
    service(&format!(
        "[service]\n{chain}\n[fast_path]\nslots = 1024\nhot_packets = 1\n\
         [rule_cache]\nwindow = \"5ms\"\nthreshold = 1\n\
         [firewall]\ndefault = \"allow\"\n[acl]\ndefault = \"allow\"\nrules = [{{ action = \"deny\", to_port = 443 }}]\n"
    ))
}

/// Datagrams both ways over IPv4 and IPv6, some tagged; frames that are not IP, and broken ones; and
/// time that runs backwards now and then.
fn packets() -> Trace {
    let config = "packets = 6000\nflows = 60\nhosts = { ipv6_share = 0.3 }\ntcp_share = 0.0\nreply_share = 0.5\n\
        arrivals = { process = \"constant\", rate_pps = 100000.0 }\npacket_size = { kind = \"imix\" }\n";
    let mut mixed = Trace::new();
    for (number, packet) in (0..).zip(generate(&traffic(config), 5).iter()) {
        let mut frame = packet.frame.to_vec();
        if number % 5 == 0 {
            frame.splice(12..12, [0x81, 0, 0, 7]);
        }
        let back = if number % 9 == 0 { 25_000 } else { 0 };
        mixed.push(packet.timestamp_ns.saturating_sub(back), &frame);
        if number % 17 == 0 {
            let mut arp = frame[..60.min(frame.len())].to_vec();
            arp[12..14].copy_from_slice(&[8, 6]);
            mixed.push(packet.timestamp_ns, &arp);
        }
        if number % 23 == 0 {
            mixed.push(packet.timestamp_ns, &packet.frame[..20]);
        }
    }
    mixed
}

/// The numbers of packets that left, by flow and direction, in the order of departure.
fn order(world: &World<'_>) -> BTreeMap<String, Vec<u64>> {
    let steering = Steering::new(0);
    let mut flows: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    for (number, _) in &world.order {
        let bytes = &world.left[number];
        let layout = dissect(bytes).expect("well formed");
        if let Some(keyed) = steering.key(bytes, &layout) {
            let flow = format!("{} {}", keyed.key, keyed.side == Side::Low);
            flows.entry(flow).or_default().push(*number);
        }
    }
    flows
}

#[test]
fn of_any_size_are_as_packets_one_by_one() {
    let trace = packets();
    for text in CHAINS {
        let service = chain(text);
        let mut alone = World::new(&service, Paths::Slow, Mishaps::default());
        alone.run(&trace);
        for size in [1, 2, 31, 32, 33, 100] {
            let mut both = World::new(&service, Paths::Both, Mishaps::default());
            both.run_in_bursts(&trace, size);
            let what = format!("{text}, bursts of {size}");
            assert_eq!(both.left.len(), alone.left.len(), "{what}");
            for (number, packet) in &alone.left {
                assert!(both.left[number] == *packet, "{what}: packet {number}");
            }
            for (flow, numbers) in order(&both) {
                assert!(numbers.is_sorted(), "{what}: {flow}: {numbers:?}");
            }
            tell("generated v4 and v6, broken", &both.report());
            let path = both.node.machine.path();
            let share = path.counters().fast_packets as f64 / trace.len() as f64;
            assert!(share > 0.5, "{what}: {share}");
            let malformed = path.drops().total();
            assert!(malformed > 200, "{what}: {malformed}");
            assert_eq!(path.drops().of(DropReason::LinkReordered), 0);
        }
    }
}

/// A packet that says that it came before an earlier one leaves as if it had come with it.
#[test]
fn time_does_not_run_backwards_in_a_burst() {
    let trace = packets();
    let times: Vec<u64> = trace.iter().map(|packet| packet.timestamp_ns).collect();
    assert!(!times.is_sorted(), "the traffic has none");
    let service = chain(CHAINS[3]);
    let mut both = World::new(&service, Paths::Both, Mishaps::default());
    both.run_in_bursts(&trace, 64);
    let left: BTreeMap<u64, Instant> = both.order.iter().copied().collect();
    let mut latest = Instant::ZERO;
    let mut raised = 0;
    for (number, time) in (0..).zip(times) {
        latest = latest.max(Instant(time));
        if let Some(at) = left.get(&number) {
            assert!(*at >= latest, "packet {number}");
            raised += usize::from(*at > Instant(time));
        }
    }
    assert!(raised > 300, "{raised}");
}
