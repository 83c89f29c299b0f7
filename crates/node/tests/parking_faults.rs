//! A link that loses frames, and workers that crash, while payloads wait: whatever leaves is what the
//! slow path alone would have made of that packet, and every packet comes to one end that is counted.

mod common;

use common::world::{Mishaps, World};
use common::{generate, service, traffic};
use twinpath_control::service::Paths;
use twinpath_core::DropReason;
use twinpath_io::Trace;
use twinpath_node::observe::Tallies;

const BALANCED: &str = "[load_balancer]\nservices = [{ vip = \"10.255.0.1:80\", protocol = \"tcp\", backends = [\
    { endpoint = \"10.254.0.1:8080\" }, { endpoint = \"10.254.0.2:8080\", weight = 3 }] }]\n";

fn check(parking: &str, paths: Paths, mishaps: Mishaps) {
    let text = format!("[service]\nchain = [\"load_balancer\"]\n{BALANCED}");
    let parked = service(&format!("{text}{parking}"));
    let trace = requests();
    let whole = service(&text);
    let mut oracle = World::new(&whole, Paths::Slow, Mishaps::default());
    oracle.run(&trace);
    assert_eq!(oracle.left.len(), trace.len());

    let mut world = World::new(&parked, paths, mishaps);
    world.run(&trace);
    for (ordinal, packet) in &world.left {
        assert!(
            oracle.left[ordinal] == *packet,
            "packet {ordinal} of {mishaps:?}"
        );
    }
    let stage = world.node.machine.path().parking().expect("with parking");
    let (stats, counts) = (stage.buffer().counters(), stage.counters());
    println!("{parking} {paths:?} {mishaps:?}: {stats:?}");
    assert!(stage.is_empty() && stats.parked == stats.ended());
    assert!(stats.parked > 100 && stats.expired > 0, "{stats:?}");
    let mut drops = world.node.machine.path().drops().clone();
    drops.absorb(&Tallies::of(&world.node.workers).drops);
    assert_eq!(drops.of(DropReason::HeaderMissing), stats.expired);
    let ended = world.left.len() as u64 + drops.total() + world.lost;
    assert_eq!(trace.len() as u64 + counts.dropped_late, ended, "{drops:?}");
}

/// Of clients alone: where they are sent does not depend on what was lost before.
fn requests() -> Trace {
    let text = "packets = 4000\nflows = 300\nchurn_per_minute = 30000.0\nserver_packets = false\npacket_size = { kind = \"imix\" }\n\
        arrivals = { process = \"constant\", rate_pps = 100000.0 }\n\
        hosts = { services = [{ address = \"10.255.0.1\", port = 80, protocol = \"tcp\" }] }\n";
    generate(&traffic(text), 11)
}

const MODES: [&str; 3] = [
    "[parking]\n",
    "[parking]\nmode = \"recirculate\"\nheader_timeout = \"1ms\"\n",
    "[parking]\nmode = \"multicast\"\nheader_timeout = \"1ms\"\n",
];

#[test]
fn a_link_that_loses_frames() {
    for mode in MODES {
        for paths in [Paths::Slow, Paths::Both] {
            let mishaps = Mishaps {
                loses_one_in: Some(13),
                ..Mishaps::default()
            };
            check(mode, paths, mishaps);
        }
    }
}

#[test]
fn workers_that_crash() {
    for mode in MODES {
        for paths in [Paths::Slow, Paths::Both] {
            let mishaps = Mishaps {
                crashes_every: Some(500),
                ..Mishaps::default()
            };
            check(mode, paths, mishaps);
        }
    }
}
