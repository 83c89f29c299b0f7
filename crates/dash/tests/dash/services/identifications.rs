//! Identifications of what leaves behind an address that several ENIs have.

use std::collections::BTreeSet;

use twinpath_core::wire::fragment;

use super::bench::*;
use super::nat_gateway::{OUTSIDE, block, hidden};

const OTHER_MAC: MacAddress = MacAddress([0xf4, 0x93, 0x9f, 0xef, 0xc4, 0x7f]);

/// Two ENIs with a block of one address each.
fn two_machines() -> Objects {
    let mut objects = hidden();
    let other = Eni {
        mac_address: OTHER_MAC,
        ..objects.enis[&eni_id()].clone()
    };
    objects.enis.insert("other".into(), other);
    objects.eni_routes.insert("other".into(), "group".into());
    objects.eni_nats.insert("other".into(), block(0));
    objects
}

fn from(mac: MacAddress, packet: PacketBuilder<'_>) -> Vec<u8> {
    inside(
        Encapsulation::Vxlan,
        VM_VNI,
        VM_PA,
        [mac, REMOTE_MAC],
        packet,
    )
}

fn number(sent: &Sent) -> u16 {
    fields::identification(&sent.inner, &sent.layout).expect("IPv4")
}

/// Both machines count from the same number, and nobody else tells their datagrams apart.
#[test]
fn no_two_datagrams_of_one_address_have_the_same() {
    let mut bench = Bench::of(two_machines());
    let mut seen = BTreeSet::new();
    for own in 1..=200 {
        for mac in [ENI_MAC, OTHER_MAC] {
            let datagram = udp((VM_CA, 7), (OUTSIDE, 53)).identification(own);
            let sent = bench.send(&from(mac, datagram)).expect("sent");
            assert!(seen.insert(number(&sent)), "{} twice", number(&sent));
        }
    }
    assert_eq!(seen.len(), 400);
    // What can never be a fragment needs none, and neither does what keeps its address.
    let atomic = udp((VM_CA, 7), (OUTSIDE, 53))
        .identification(9)
        .dont_fragment();
    let within = udp((VM_CA, 7), ("10.2.0.8", 53)).identification(9);
    for packet in [atomic, within] {
        let sent = bench.send(&from_vm(packet)).expect("sent");
        assert_eq!(number(&sent), 9);
    }
}

/// Parts of a datagram stay together, and apart from those of another machine's.
#[test]
fn fragments_have_that_of_their_datagram() {
    let mut bench = Bench::of(two_machines());
    let whole = udp((VM_CA, 7), (OUTSIDE, 53)).payload(&[7; 120]);
    let mut seen = BTreeSet::new();
    for _ in 0..3 {
        let mut under_way = Vec::new();
        for mac in [ENI_MAC, OTHER_MAC] {
            let frame = whole.macs(mac, REMOTE_MAC).to_vec().expect("a packet");
            let layout = dissect(&frame).expect("sound");
            let pieces = fragment::cut(&frame, &layout, 64, 1).expect("cut");
            assert!(pieces.len() >= 2);
            under_way.push(pieces);
        }
        let mut numbers = [None; 2];
        let [one, other] = &under_way[..] else {
            panic!("two machines")
        };
        for (at, pieces) in one.iter().zip(other).enumerate() {
            for (machine, piece) in [pieces.0, pieces.1].into_iter().enumerate() {
                let sent = bench.send(&around(piece)).expect("sent");
                let own = *numbers[machine].get_or_insert(number(&sent));
                assert_eq!(number(&sent), own, "machine {machine}, piece {at}");
            }
        }
        for number in numbers.into_iter().flatten() {
            assert!(seen.insert(number), "{number} twice");
        }
    }
    assert_eq!(seen.len(), 6);
}

/// DPUs over which ENIs are spread know nothing of each other, and their ENIs have one address.
#[test]
fn shards_draw_from_numbers_of_their_own() {
    let mut seen = BTreeSet::new();
    for shard in 0..3 {
        let settings = Settings {
            flows: 1024,
            shards: 3,
            shard,
            ..Settings::default()
        };
        let mut bench = Bench::new(two_machines(), settings);
        for _ in 0..500 {
            let sent = bench
                .send(&from_vm(udp((VM_CA, 7), (OUTSIDE, 53))))
                .expect("sent");
            assert!(seen.insert(number(&sent)), "{} twice", number(&sent));
        }
    }
}

/// A piece in the tunnel of a machine's packets.
fn around(piece: &[u8]) -> Vec<u8> {
    let arrival = crate::common::interpreter::Packet {
        direction: Direction::Outbound,
        eni: eni_id(),
        encapsulation: Encapsulation::Vxlan,
        vni: VM_VNI,
        outer_source: ip(VM_PA),
        source_mac: ENI_MAC,
        overlay: Headers {
            source: VIP,
            destination: VIP,
            ports: None,
            protocol: 0,
        },
    };
    encapsulated(&arrival, piece)[HEADROOM..].to_vec()
}
