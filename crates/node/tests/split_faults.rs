//! A link that loses frames, and workers that crash, while payloads wait in memory of this process:
//! whatever leaves is what the slow path alone would have made of that packet, and every packet comes
//! to one end that is counted.

mod common;

use common::headers_only::BALANCED;
use common::world::{Mishaps, World};
use common::{generate, service, traffic};
use twinpath_control::service::Paths;
use twinpath_core::DropReason;
use twinpath_io::Trace;
use twinpath_node::observe::Tallies;

fn check(split: &str, paths: Paths, mishaps: Mishaps) {
    let text = format!("[service]\nchain = [\"load_balancer\"]\n{BALANCED}");
    let with_split = service(&format!("{text}{split}"));
    let trace = requests();
    let whole = service(&text);
    let mut oracle = World::new(&whole, Paths::Slow, Mishaps::default());
    oracle.run(&trace);
    assert_eq!(oracle.left.len(), trace.len());

    let mut world = World::new(&with_split, paths, mishaps);
    world.run(&trace);
    for (ordinal, packet) in &world.left {
        assert!(
            oracle.left[ordinal] == *packet,
            "packet {ordinal} of {mishaps:?}"
        );
    }
    let stage = world.node.machine.path().split().expect("with [split]");
    let counters = *stage.counters();
    println!("{split} {paths:?} {mishaps:?}: {counters:?}");
    // What went down in the last crash is not known to be lost: nothing came behind it.
    let away = stage.headers_away() as u64;
    assert!(away == 0 || mishaps.crashes_every.is_some());
    assert!(away < 20, "{away} headers are still waited for");
    assert_eq!(counters.packets, counters.ended() + away);
    assert!(counters.merged > 100 && counters.missing + away > 0);
    let mut drops = world.node.machine.path().drops().clone();
    drops.absorb(&Tallies::of(&world.node.workers).drops);
    assert_eq!(drops.of(DropReason::HeaderMissing), counters.missing);
    let gone = counters.payload_gone + counters.payload_lost;
    assert_eq!(drops.of(DropReason::PayloadLost), gone);
    let ended = world.left.len() as u64 + drops.total() + world.lost + away;
    let twice = counters.dropped_late;
    assert_eq!(trace.len() as u64 + twice, ended, "{drops:?}");
}

/// Of clients alone: where they are sent does not depend on what was lost before.
fn requests() -> Trace {
    let text = "packets = 4000\nflows = 300\nchurn_per_minute = 30000.0\nserver_packets = false\npacket_size = { kind = \"imix\" }\n\
        arrivals = { process = \"constant\", rate_pps = 100000.0 }\n\
        hosts = { services = [{ address = \"10.255.0.1\", port = 80, protocol = \"tcp\" }] }\n";
    generate(&traffic(text), 11)
}

/// With slots and places enough, and with so few that they are taken from others at once.
const MODES: [&str; 3] = [
    "[split]\n",
    "[split]\nheader_slots = 7\nheader_timeout = \"0s\"\n",
    "[split]\nheader_timeout = \"0s\"\nstore = { payloads = 4 }\n",
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

/// Nothing goes wrong on the link: what is lost then is lost to others that came later, and only as long
/// as places are too few for the packets that are under way.
#[test]
fn what_is_overtaken_is_lost_and_never_merged() {
    let text = format!("[service]\nchain = [\"load_balancer\"]\n{BALANCED}");
    let trace = requests();
    let whole = service(&text);
    let mut oracle = World::new(&whole, Paths::Slow, Mishaps::default());
    oracle.run(&trace);
    for (mode, is_enough) in [(MODES[1], true), (MODES[2], false)] {
        let split = service(&format!("{text}{mode}"));
        let mut world = World::new(&split, Paths::Slow, Mishaps::default());
        world.run_in_bursts(&trace, 6);
        for (ordinal, packet) in &world.left {
            assert!(oracle.left[ordinal] == *packet, "{mode}: packet {ordinal}");
        }
        let counters = *world.node.machine.path().split().expect("there").counters();
        println!("{mode}: {counters:?}");
        let overtaken = counters.missing + counters.payload_gone;
        assert!(counters.merged > 100 && overtaken > 0, "{is_enough}");
        assert_eq!(world.left.len() as u64 + overtaken, trace.len() as u64);
    }
}
