//! Interfaces of several queues, and of other queues than before.

use super::{LONG, config};
use crate::{Driver, Part, Port, wait};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};
use twinpath_core::Pools;
use twinpath_core::wire::{PacketBuilder, dissect, fields};
use twinpath_netns::{Network, has_program, is_possible};

/// So many that every queue has some.
const FLOWS: u16 = 64;
const MOST_QUEUES: u32 = 4;

/// Both ends of the cable. The middle's may never have fewer queues than the far end sends by.
const MIDDLE_FIRST: [&str; 2] = ["middle port0", "left eth0"];
const MIDDLE_LAST: [&str; 2] = ["left eth0", "middle port0"];

/// Sends one frame of each flow from the host at the left.
fn send_all(network: &Network) {
    let left = network.on("left", || {
        let mut pools = Pools::new(256, 1);
        let mut eth0 = Port::open(config("eth0", Driver::AfPacket)).expect("root may");
        for flow in 0..FLOWS {
            let from = format!("10.9.0.1:{}", 1000 + flow).parse().expect("one");
            let to = "10.9.0.2:9".parse().expect("one");
            let packet = PacketBuilder::udp(from, to).payload(b"carried").to_vec();
            let frame = pools.take_filled(&packet.expect("short")).expect("room");
            eth0.transmit(frame, &mut pools);
        }
        eth0.flush(&mut pools);
    });
    left.join().expect("no panic");
}

/// Whether all flows of one round come in the end, to whichever part.
fn all_come(network: &Network, parts: &mut [Port]) -> bool {
    let (mut pools, mut burst) = (Pools::new(256, 1), Vec::new());
    let end = Instant::now() + LONG;
    while Instant::now() < end {
        send_all(network);
        let mut flows = BTreeSet::new();
        let round = Instant::now() + Duration::from_millis(200);
        while flows.len() < FLOWS.into() && Instant::now() < round {
            wait(parts, None, Duration::from_millis(10));
            for part in parts.iter_mut() {
                part.poll_state();
                part.receive(&mut pools, &mut burst, 64);
            }
            for frame in burst.drain(..) {
                let layout = dissect(frame.bytes()).expect("sound");
                flows.insert(fields::source(frame.bytes(), &layout).port);
                pools.give(frame);
            }
        }
        if flows.len() == FLOWS.into() {
            return true;
        }
    }
    false
}

/// All queues are received from, those too that an interface has got since it was opened, by one thread
/// or two. The kernel refuses to take a queue away that has a socket.
#[test]
fn all_queues_are_received_from_however_many_there_are() {
    if !is_possible() || !has_program("ethtool", "ethtool") {
        return;
    }
    for (parts, first) in [(1, 1), (2, 1), (2, 2)] {
        let mut network = Network::new();
        network.cable_of_queues(MIDDLE_FIRST[0], MIDDLE_FIRST[1], MOST_QUEUES);
        network.use_queues(&MIDDLE_LAST, first);
        let network = Arc::new(network);
        let inside = Arc::clone(&network);
        let middle = network.on("middle", move || {
            let open = |part| Port::open_part(config("port0", Driver::AfXdp), part);
            let parts = Part::all(parts).into_iter();
            let mut parts: Vec<_> = parts.map(|part| open(part).expect("root may")).collect();
            let mut before = first;
            assert!(all_come(&inside, &mut parts), "{before} queues at first");
            for queues in [3, MOST_QUEUES] {
                inside.use_queues(&MIDDLE_FIRST, queues);
                assert!(
                    all_come(&inside, &mut parts),
                    "{queues} queues, not {before}"
                );
                assert_eq!(parts[0].interface().queues, queues);
                let notes: Vec<_> = parts.iter_mut().flat_map(Port::take_notes).collect();
                let expected = format!("port0 has {queues} receive queues instead of {before}");
                assert!(
                    notes.len() == 1 && notes[0].starts_with(&expected),
                    "{notes:?}"
                );
                before = queues;
            }
        });
        middle.join().expect("no panic");
    }
}
