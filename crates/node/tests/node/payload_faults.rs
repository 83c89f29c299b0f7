//! A link that loses frames, and workers that crash, while payloads wait in a queue of the switch or in
//! memory of this process: whatever leaves is what the slow path alone would have made of that packet,
//! and every packet comes to one end that is counted.

use crate::common::acting::assert_all_acted;
use crate::common::headers_only::BALANCED;
use crate::common::rows::tell;
use crate::common::world::{Mishaps, World};
use crate::common::{generate, service, traffic};
use std::collections::BTreeMap;
use twinpath_control::service::Paths;
use twinpath_core::{DropCounters, DropReason};
use twinpath_io::Trace;
use twinpath_node::observe::Tallies;

/// Both places, with room enough, and with so little that what is late is given up, or its place given to
/// others, at once.
const MODES: [&str; 6] = [
    "[parking]\n",
    "[parking]\nmode = \"recirculate\"\nheader_timeout = \"1ms\"\n",
    "[parking]\nmode = \"multicast\"\nheader_timeout = \"1ms\"\n",
    "[split]\n",
    "[split]\nheader_slots = 7\nheader_timeout = \"0s\"\n",
    "[split]\nheader_timeout = \"0s\"\nstore = { payloads = 4 }\n",
];

/// What became of the payloads of a world that has come to its end.
struct Ends {
    kept: u64,
    ended: u64,
    /// Headers that did not come back, and were given up.
    missing: u64,
    /// Payloads that were not there any more.
    gone: u64,
    /// Headers that are still waited for.
    away: u64,
    /// Packets that were dropped twice: after their payload had been given up.
    twice: u64,
}

fn ends(world: &World) -> Ends {
    let path = world.node.machine.path();
    if let Some(stage) = path.parking() {
        let (buffer, counts) = (stage.buffer().counters(), stage.counters());
        assert!(stage.is_empty());
        return Ends {
            kept: buffer.parked,
            ended: buffer.ended(),
            missing: buffer.expired,
            gone: 0,
            away: 0,
            twice: counts.dropped_late,
        };
    }
    let stage = path.split().expect("with [split]");
    let counters = stage.counters();
    assert!(counters.merged > 100);
    Ends {
        kept: counters.packets,
        ended: counters.ended(),
        missing: counters.missing,
        gone: counters.payload_gone + counters.payload_lost,
        away: stage.headers_away() as u64,
        twice: counters.dropped_late,
    }
}

fn drops(world: &World) -> DropCounters {
    let mut drops = world.node.machine.path().drops().clone();
    drops.absorb(&Tallies::of(&world.node.workers).drops);
    drops
}

fn balanced(mode: &str) -> String {
    format!("[service]\nchain = [\"load_balancer\"]\n{BALANCED}{mode}")
}

/// What leaves, by number in the order of arrival.
type Left = BTreeMap<u64, Vec<u8>>;

fn oracle(trace: &Trace) -> Left {
    let whole = service(&balanced(""));
    let mut oracle = World::new(&whole, Paths::Slow, Mishaps::default());
    oracle.run(trace);
    let left = std::mem::take(&mut oracle.left);
    assert_eq!(left.len(), trace.len());
    assert_all_acted(&whole, &oracle.outcome(), "workers that see whole packets");
    left
}

fn assert_same(oracle: &Left, world: &World, what: &str) {
    for (ordinal, packet) in &world.left {
        assert!(oracle[ordinal] == *packet, "{what}: packet {ordinal}");
    }
}

/// Where there is a fast path it settled most packets.
fn assert_settled(world: &World, paths: Paths, packets: usize, what: &str) {
    let settled = world.node.machine.path().counters().fast_packets;
    match paths {
        Paths::Slow => assert_eq!(settled, 0, "{what}"),
        _ => {
            tell("generated", &world.report());
            assert!(settled > packets as u64 / 2, "{what}: {settled}");
        }
    }
}

fn check(mode: &str, paths: Paths, mishaps: Mishaps) {
    let trace = requests();
    let oracle = oracle(&trace);
    let service = service(&balanced(mode));
    let mut world = World::new(&service, paths, mishaps);
    world.run(&trace);
    let what = format!("{mode} {paths:?} {mishaps:?}");
    assert_same(&oracle, &world, &what);
    assert_settled(&world, paths, trace.len(), &what);
    let ends = ends(&world);
    // What went down in the last crash is not known to be lost: nothing came behind it.
    assert!(ends.away == 0 || mishaps.crashes_every.is_some(), "{what}");
    assert!(ends.away < 20, "{what}: {} are waited for", ends.away);
    assert_eq!(ends.kept, ends.ended + ends.away, "{what}");
    assert!(ends.kept > 100 && ends.missing + ends.away > 0, "{what}");
    let drops = drops(&world);
    assert_eq!(drops.of(DropReason::HeaderMissing), ends.missing, "{what}");
    assert_eq!(drops.of(DropReason::PayloadLost), ends.gone, "{what}");
    let ended = world.left.len() as u64 + drops.total() + world.lost + ends.away;
    assert_eq!(trace.len() as u64 + ends.twice, ended, "{what}: {drops:?}");
}

/// Of clients alone: where they are sent does not depend on what was lost before.
fn requests() -> Trace {
    let text = "packets = 4000\nflows = 300\nchurn_per_minute = 30000.0\nserver_packets = false\npacket_size = { kind = \"imix\" }\n\
        arrivals = { process = \"constant\", rate_pps = 100000.0 }\n\
        hosts = { services = [{ address = \"10.255.0.1\", port = 80, protocol = \"tcp\" }] }\n";
    generate(&traffic(text), 11)
}

fn check_all(mishaps: Mishaps) {
    for mode in MODES {
        for paths in [Paths::Slow, Paths::Both] {
            check(mode, paths, mishaps);
        }
    }
}

#[test]
fn a_link_that_loses_frames() {
    check_all(Mishaps {
        loses_one_in: Some(13),
        ..Mishaps::default()
    });
}

#[test]
fn workers_that_crash() {
    check_all(Mishaps {
        crashes_every: Some(500),
        ..Mishaps::default()
    });
}

/// Nothing goes wrong on the link: what is lost then is lost to others that came later, and only as long
/// as places are too few for the packets that are under way.
#[test]
fn what_is_overtaken_is_lost_and_never_merged() {
    let trace = requests();
    let oracle = oracle(&trace);
    for mode in &MODES[4..] {
        let service = service(&balanced(mode));
        let mut world = World::new(&service, Paths::Slow, Mishaps::default());
        world.run_in_bursts(&trace, 6);
        assert_same(&oracle, &world, mode);
        let ends = ends(&world);
        let overtaken = ends.missing + ends.gone;
        assert!(overtaken > 0, "{mode}");
        assert_eq!(world.left.len() as u64 + overtaken, trace.len() as u64);
    }
}
