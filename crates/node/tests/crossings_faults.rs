//! A link that loses frames, probes among them, while packets that cross take turns: nobody waits
//! for ever, each packet leaves once or is counted, and all buffers come home.

mod common;

use common::world::{Mishaps, World};
use common::{service, tcp_traffic};
use twinpath_control::service::{Paths, Service};
use twinpath_node::observe::dropped_by;

fn crossed(chain: &[&str]) -> Service {
    service(&format!(
        "[service]\nchain = {chain:?}\ninside = [\"10.0.0.0/8\"]\n[link]\nincomplete_timeout = \"1ms\"\n\
         [rule_cache]\nwindow = \"20ms\"\nthreshold = 2\n[acl]\ndefault = \"allow\"\n[monitor]\nby = \"hosts\"\n\
         [firewall]\ndefault = \"allow\"\n\
         [napt]\ninside = [\"10.0.0.0/8\"]\nexternal = [\"198.51.100.1\"]\n"
    ))
}

fn check(chain: &[&str], one_in: u64) {
    let (service, trace) = (crossed(chain), tcp_traffic(0.01, 20_000));
    let mishaps = Mishaps {
        loses_one_in: Some(one_in),
        ..Mishaps::default()
    };
    let mut world = World::new(&service, Paths::Both, mishaps);
    let free = |world: &mut World<'_>| {
        let pools = &mut world.node.pools;
        (pools.small().available(), pools.large().available())
    };
    let at_first = free(&mut world);
    world.run(&trace);
    let waiting = world.node.fast_path.turns_waiting();
    world.come_to_rest();

    let counts = world.node.fast_path.turn_counts().expect("turns");
    println!("{chain:?} one in {one_in}: {waiting} waited at the end, {counts:?}");
    assert!(counts.waited > 100 && counts.probes > 10, "{counts:?}");
    let mut drops = world.node.fast_path.drops().clone();
    drops.absorb(&dropped_by(&world.node.workers));
    let ended = world.left.len() as u64 + drops.total() + world.lost;
    assert_eq!(trace.len() as u64, ended, "{drops:?}");
    assert_eq!(free(&mut world), at_first, "buffers");
}

#[test]
fn nobody_waits_for_what_is_lost() {
    for chain in [
        ["acl", "firewall", "monitor"].as_slice(),
        &["monitor", "firewall"],
        &["monitor", "firewall", "napt"],
        &["napt", "firewall", "acl"],
    ] {
        for one_in in [7, 100] {
            check(chain, one_in);
        }
    }
}
