use super::*;
use proptest::prelude::*;
use std::collections::HashMap;
use twinpath_core::Pools;
use twinpath_core::key::Role;
use twinpath_core::wire::{Endpoint, PacketBuilder, dissect};

fn packet(pools: &mut Pools, way: Direction, bytes: usize) -> Packet {
    let [from, to] = [
        Endpoint::v4([10, 0, 0, 1], 1),
        Endpoint::v4([10, 0, 0, 2], 2),
    ];
    let built = PacketBuilder::udp(from, to)
        .payload(&vec![0; bytes])
        .to_vec();
    let frame = pools.take_filled(&built.expect("a packet")).expect("room");
    Packet {
        layout: dissect(frame.bytes()).expect("a packet"),
        frame,
        direction: way,
        role: Role::Member,
        alias_row: 0,
    }
}

fn limits(flow: usize, all: usize) -> Limits {
    let load = |packets| Load {
        packets,
        bytes: 100 * packets,
        long_packets: 1,
    };
    Limits {
        flow: load(flow),
        all: load(all),
    }
}

#[test]
fn packets_leave_in_the_order_of_their_lines_at_their_times() {
    let (mut pools, mut buffer) = (Pools::new(8, 1), PacketBuffer::new(limits(8, 8)));
    let mut flow = 0;
    let mut hold = |way, until| {
        let packet = packet(&mut pools, way, 10);
        buffer
            .hold(&mut flow, packet, Instant(until))
            .expect("room")
    };
    let [there, back] = Direction::BOTH;
    let first = hold(there, 30);
    hold(there, 20);
    hold(back, 25);
    assert_eq!(buffer.deadline(flow), Instant(25));
    assert!(buffer.take_due(&mut flow, Instant(24)).is_none());
    let ways = |buffer: &mut PacketBuffer, flow: &mut u32, now| {
        let taken = std::iter::from_fn(|| buffer.take_due(flow, Instant(now)));
        taken.map(|packet| packet.direction).collect::<Vec<_>>()
    };
    assert_eq!(
        ways(&mut buffer, &mut flow, 29),
        [back],
        "the other waits behind the first"
    );
    assert_eq!(ways(&mut buffer, &mut flow, 30), [there, there]);
    assert_eq!((flow, buffer.load()), (0, Load::default()));
    assert!(buffer.take(&mut flow, first).is_none(), "it has left");
    assert_eq!(buffer.deadline(flow), Instant::NEVER);
}

#[test]
fn packets_are_taken_out_of_turn_by_handle() {
    let (mut pools, mut buffer) = (Pools::new(8, 1), PacketBuffer::new(limits(8, 8)));
    let mut flow = 0;
    let mut hold = |bytes| {
        let packet = packet(&mut pools, Direction::Original, bytes);
        buffer.hold(&mut flow, packet, Instant(5)).expect("room")
    };
    let (one, two, three) = (hold(1), hold(2), hold(3));
    let order = |buffer: &PacketBuffer, flow| {
        let line = buffer.line(flow, Direction::Original);
        line.map(|(packet, _)| packet).collect::<Vec<_>>()
    };
    assert_eq!(order(&buffer, flow), [one, two, three]);
    let taken = buffer.take(&mut flow, two).expect("held");
    assert_eq!(taken.packet_bytes(), 28 + 2);
    assert!(buffer.take(&mut flow, two).is_none());
    assert_eq!(order(&buffer, flow), [one, three]);
    assert_eq!(buffer.forget(flow), 2);
    assert_eq!((buffer.load(), buffer.forget(flow)), (Load::default(), 0));
}

#[test]
fn each_limit_is_told() {
    let mut pools = Pools::new(8, 4);
    let mut buffer = PacketBuffer::new(limits(2, 3));
    let (mut one, mut other) = (0, 0);
    let mut hold = |flow: &mut u32, bytes| {
        let packet = packet(&mut pools, Direction::Original, bytes);
        buffer
            .hold(flow, packet, Instant(1))
            .map(|_| ())
            .map_err(|(_, full)| full)
    };
    assert_eq!(hold(&mut one, 200), Err(Full::Flow), "bytes");
    assert_eq!(one, 0, "nothing is held of it");
    assert_eq!([hold(&mut one, 9), hold(&mut one, 9)], [Ok(()); 2]);
    assert_eq!(hold(&mut one, 9), Err(Full::Flow), "packets");
    assert_eq!(
        [hold(&mut other, 9), hold(&mut other, 9)],
        [Ok(()), Err(Full::All)]
    );
}

/// Packets in line: their names, until when they are held, and their bytes.
type Line = Vec<(HeldPacket, u64, usize)>;

proptest! {
    /// Against plain vectors: what is held, of how much, when it is due, and in which order it leaves.
    #[test]
    fn as_plain_lists_say(steps in prop::collection::vec((0..4usize, any::<bool>(), 0..40usize, 0..60u64), 0..200)) {
        let mut pools = Pools::new(64, 1);
        let (limits, mut now) = (limits(5, 12), 0);
        let mut buffer = PacketBuffer::new(limits);
        let mut handles = [0u32; 4];
        let mut lists: HashMap<(usize, Direction), Line> = HashMap::new();
        for (flow, back, bytes, wait) in steps {
            let way = Direction::BOTH[usize::from(back)];
            if wait < 30 {
                let packet = packet(&mut pools, way, bytes);
                let (until, bytes) = (now + wait, packet.bytes().len());
                let loads = |of: &dyn Fn(usize) -> bool| {
                    let lists = lists.iter().filter(|((flow, _), _)| of(*flow));
                    let held: Vec<usize> = lists.flat_map(|(_, list)| list).map(|held| held.2).collect();
                    (held.len() + 1, held.iter().sum::<usize>() + bytes)
                };
                let fits = |(packets, bytes): (usize, usize), limit: Load| packets <= limit.packets && bytes <= limit.bytes;
                let mine = fits(loads(&|other| other == flow), limits.flow);
                let all = fits(loads(&|_| true), limits.all);
                match buffer.hold(&mut handles[flow], packet, Instant(until)) {
                    Ok(held) => {
                        prop_assert!(mine && all);
                        lists.entry((flow, way)).or_default().push((held, until, bytes));
                    }
                    Err((_, Full::Flow)) => prop_assert!(!mine),
                    Err((_, Full::All)) => prop_assert!(mine && !all),
                }
            } else {
                now += wait;
                let mut left = Vec::new();
                while let Some(packet) = buffer.take_due(&mut handles[flow], Instant(now)) {
                    left.push((packet.direction, packet.bytes().len()));
                }
                for way in Direction::BOTH {
                    let list = lists.entry((flow, way)).or_default();
                    let due = list.iter().take_while(|held| held.1 <= now).count();
                    let expected: Vec<usize> = list.drain(..due).map(|held| held.2).collect();
                    let left: Vec<usize> = left.iter().filter(|one| one.0 == way).map(|one| one.1).collect();
                    prop_assert_eq!(left, expected);
                }
            }
            let held: usize = lists.values().map(Vec::len).sum();
            prop_assert_eq!(buffer.load().packets, held);
            let firsts = Direction::BOTH.into_iter().filter_map(|way| lists.get(&(flow, way))?.first());
            let deadline = firsts.map(|held| Instant(held.1)).min().unwrap_or(Instant::NEVER);
            prop_assert_eq!(buffer.deadline(handles[flow]), deadline);
            prop_assert_eq!(handles[flow] == 0, deadline == Instant::NEVER);
        }
    }
}
