//! Outer headers: marks of congestion, lengths, damage.

use super::bench::*;
use super::connections::fragmented;
use twinpath_core::wire::checksum::checksum as checksum_of;

#[test]
fn congestion_is_told_inside() {
    let mut bench = Bench::of(peers());
    let mut frame = from_vm(udp((VM_CA, 1), ("10.2.0.8", 2)));
    let outer = dissect(&frame).expect("sound");
    ecn::set_traffic_class(&mut frame, &outer, 0xb8 | ecn::CONGESTED);
    assert_eq!(bench.send(&frame), Err(Reason::Congestion));
    let at = Tunnel::read(&frame, &outer, VXLAN_PORT)
        .expect("a tunnel")
        .inner();
    let inner = dissect(&frame[at.clone()]).expect("sound");
    ecn::set_traffic_class(&mut frame[at], &inner, 0x48 | ecn::CAPABLE_0);
    let sent = bench.send(&frame).expect("sent");
    assert_eq!(
        ecn::traffic_class(&sent.inner, &sent.layout),
        0x48 | ecn::CONGESTED
    );
    // DSCP as it came, and the mark for those who follow.
    assert_eq!(sent.layers[0].4, 0xb8 | ecn::CONGESTED);
}

#[test]
fn senders_of_too_long_packets_are_told() {
    let settings = Settings {
        mtu: 1500,
        flows: 64,
        ..Settings::default()
    };
    let mut bench = Bench::new(peers(), settings);
    let send = |bench: &mut Bench, ends: [&str; 2], bytes: usize, may_fragment: bool| {
        let [source, destination] = ends.map(|end| Endpoint::new(ip(end), 1));
        let packet = PacketBuilder::udp(source, destination).payload_len(bytes);
        let packet = match may_fragment {
            true => packet,
            false => packet.dont_fragment(),
        };
        bench.error = None;
        bench.send(&from_vm(packet)).map(|_| ())
    };
    // Headers of 20 + 8 + 8 bytes around an inner frame of 14, 20 or 40, 8, and the payload.
    let (v4, v6) = ([VM_CA, "10.2.0.8"], ["fd01::11", "fd02::8"]);
    for (ends, most) in [(v4, 1500 - 78), (v6, 1500 - 98)] {
        assert_eq!(send(&mut bench, ends, most, false), Ok(()));
        assert_eq!(
            send(&mut bench, ends, most + 1, false),
            Err(Reason::TooLong)
        );
        let error = bench.error.take().expect("told");
        let layer = (Encapsulation::Vxlan, VM_VNI, VIP, ip(VM_PA), 0x28);
        assert_eq!(error.layers, [layer]);
        assert_eq!(error.headers().destination, ip(ends[0]));
        assert_eq!(error.macs(), [REMOTE_MAC, ENI_MAC]);
        let at = usize::from(error.layout.l4) + 4;
        let mtu = u32::from_be_bytes(error.inner[at..at + 4].try_into().expect("four bytes"));
        assert_eq!(mtu, 1500 - 50);
        assert!(error.layout.inner.is_some());
    }
    assert_eq!(send(&mut bench, v4, 1500, true), Err(Reason::TooLong));
    assert!(bench.error.is_some(), "nobody fragments, so all are told");
    let told = (0..1000).filter(|_| {
        let _ = send(&mut bench, v4, 1500, false);
        bench.error.is_some()
    });
    assert!((5..20).contains(&told.count()), "errors have a rate");
    assert_eq!(bench.counters().drops.of(Reason::TooLong), 1003);
}

/// A sender is told about the packet as it sent it, also where it would leave with other MAC addresses.
#[test]
fn who_is_told_of_too_long_packets_has_sent_them() {
    let mut objects = peers();
    let mapping = objects.mappings.get_mut(&("Vnet2".into(), ip("10.2.0.8")));
    mapping.expect("there").mac_address = Some(VM_MAC);
    let mut bench = Bench::new(objects, with_mtu(1500));
    bench.send(&datagram(VM_CA, "10.2.0.8", 10)).expect("sent");
    let long = datagram(VM_CA, "10.2.0.8", 1500);
    assert_eq!(bench.send(&long), Err(Reason::TooLong));
    let error = bench.error.take().expect("told");
    assert_eq!(error.macs(), [REMOTE_MAC, ENI_MAC]);
}

/// Of parts without a beginning, of errors, and below the least that IPv6 needs nobody is told.
#[test]
fn some_too_long_packets_are_told_of_to_nobody() {
    let mut bench = Bench::new(private_link(), with_mtu(200));
    let (parts, _) = fragmented();
    assert_eq!(bench.send(&parts[0]), Err(Reason::TooLong));
    assert!(bench.error.take().is_some());
    assert_eq!(bench.send(&parts[1]), Err(Reason::TooLong));
    assert_eq!(bench.error, None);
    let mut bench = Bench::new(peers(), with_mtu(300));
    bench.send(&datagram(VM_CA, "10.2.0.8", 10)).expect("sent");
    let [from, to] = ["10.2.0.8", VM_CA].map(|end| Endpoint::new(ip(end), 1));
    let answer = PacketBuilder::udp(from, to).payload_len(600);
    let answer = answer.macs(REMOTE_MAC, ENI_MAC).to_vec().expect("a packet");
    let kind = twinpath_core::wire::icmp::IcmpError::PacketTooBig { mtu: 300 };
    let error = PacketBuilder::icmp_error(kind, &answer).source_address(ip(VM_CA));
    assert_eq!(bench.send(&from_vm(error)), Err(Reason::TooLong));
    assert_eq!(bench.error, None);
    let mut bench = Bench::new(peers(), with_mtu(1300));
    let long = datagram("fd01::11", "fd02::8", 1400);
    assert_eq!(bench.send(&long), Err(Reason::TooLong));
    assert_eq!(bench.error, None);
}

fn with_mtu(mtu: usize) -> Settings {
    Settings {
        mtu,
        flows: 64,
        ..Settings::default()
    }
}

fn datagram(from: &str, to: &str, bytes: usize) -> Vec<u8> {
    let [from, to] = [from, to].map(|end| Endpoint::new(ip(end), 1));
    from_vm(PacketBuilder::udp(from, to).payload_len(bytes))
}

/// A machine's tags go where its packet leaves as it is: they take no room there, and another network has none of them.
#[test]
fn a_machines_tags_end_at_a_direct_route() {
    let settings = Settings {
        mtu: 1500,
        inner_vlan: true,
        ..Settings::default()
    };
    let packet = |bytes| {
        let ends = [VM_CA, "30.0.0.1"].map(|end| Endpoint::new(ip(end), 1));
        PacketBuilder::udp(ends[0], ends[1]).payload_len(bytes)
    };
    let mut bench = Bench::new(peers(), settings);
    let longest = 1500 - 28;
    // The first opens the flow, the second meets it.
    for _ in 0..2 {
        let bare = bench.raw(&from_vm(packet(longest))).expect("leaves");
        let tagged = bench.raw(&from_vm(packet(longest).vlan(666)));
        assert_eq!(tagged.expect("leaves"), bare);
    }
    let too_long = bench.send(&from_vm(packet(longest + 1).vlan(666)));
    assert_eq!(too_long, Err(Reason::TooLong));
}

/// Tags of the link that a packet came by are on what leaves by it, and on what its sender is told.
#[test]
fn outer_tags_stay() {
    let settings = Settings {
        flows: 64,
        mtu: 1500,
        ..Settings::default()
    };
    for tags in [&[0x81, 0, 0x60, 5][..], &[0x88, 0xa8, 0, 9, 0x81, 0, 0, 7]] {
        let mut bench = Bench::new(peers(), settings.clone());
        let ways = [
            (VM_CA, "10.2.0.8"),
            ("fd01::11", "fd02::8"),
            (VM_CA, "30.0.0.1"),
        ];
        for (bytes, (source, destination)) in
            [(10, ways[0]), (10, ways[1]), (10, ways[2]), (1500, ways[0])]
        {
            let ends = [source, destination].map(|end| Endpoint::new(ip(end), 1));
            let packet = PacketBuilder::udp(ends[0], ends[1]).payload_len(bytes);
            let bare = from_vm(packet);
            let mut tagged = bare.clone();
            tagged.splice(12..12, tags.iter().copied());
            // The first opens the flow, the second meets it.
            for _ in 0..2 {
                let expected = bench.raw(&bare).expect("something leaves");
                let mut sent = bench.raw(&tagged).expect("something leaves");
                assert_eq!(sent.drain(12..12 + tags.len()).collect::<Vec<_>>(), tags);
                assert_eq!(sent, expected, "to {destination}");
            }
        }
    }
    // A label is none.
    let mut labelled = from_vm(udp((VM_CA, 1), ("10.2.0.8", 2)));
    labelled.splice(12..14, [0x88, 0x47, 0, 0, 0x11, 0x40]);
    let mut bench = Bench::of(peers());
    assert_eq!(bench.send(&labelled), Err(Reason::NotEncapsulated));
}

/// What is wrong with outer headers has a reason of its own, which counts for no ENI.
#[test]
fn each_fault_of_outer_headers_is_counted_by_itself() {
    type Fault = fn(&mut Vec<u8>, &Layout);
    let checksum = |frame: &mut Vec<u8>, outer: &Layout| {
        let header = usize::from(outer.l3)..usize::from(outer.l4);
        frame[header.start + 10..header.start + 12].fill(0);
        let sum = checksum_of(&frame[header.clone()]);
        frame[header.start + 10..header.start + 12].copy_from_slice(&sum.to_be_bytes());
    };
    let faults: [(Fault, Reason); 5] = [
        // Another destination.
        (
            |frame, outer| frame[usize::from(outer.l3) + 19] ^= 1,
            Reason::VipMiss,
        ),
        // A first fragment, and a later one.
        (
            |frame, outer| frame[usize::from(outer.l3) + 6] |= 0x20,
            Reason::OuterFragment,
        ),
        (
            |frame, outer| frame[usize::from(outer.l3) + 7] = 9,
            Reason::OuterFragment,
        ),
        // Another port than a tunnel's.
        (
            |frame, outer| frame[usize::from(outer.l4) + 3] ^= 1,
            Reason::NotEncapsulated,
        ),
        // Half of the tunnel's header.
        (
            |frame, outer| frame.truncate(usize::from(outer.l4) + 12),
            Reason::OuterMalformed,
        ),
    ];
    for (number, (fault, reason)) in faults.into_iter().enumerate() {
        let mut bench = Bench::of(peers());
        let mut frame = from_vm(udp((VM_CA, 1), ("10.2.0.8", 2)));
        bench.send(&frame).expect("it is sound");
        let outer = dissect(&frame).expect("sound");
        fault(&mut frame, &outer);
        checksum(&mut frame, &outer);
        assert_eq!(bench.send(&frame), Err(reason), "fault {number}");
        assert_eq!(bench.dpu.drops().of(reason), 1, "fault {number}");
        assert_eq!(bench.counters().drops.total(), 0, "fault {number}");
    }
}

/// Packets of any kind in any order neither panic nor leave with broken headers.
#[test]
fn damaged_packets_are_counted() {
    let mut bench = Bench::of(peers());
    let mut dice = Dice(1);
    let frame = from_vm(tcp((VM_CA, 1), ("10.2.0.8", 2), flags::SYN));
    for _ in 0..20_000 {
        let mut damaged = frame.clone();
        for _ in 0..=dice.below(3) {
            let at = dice.below(damaged.len() as u64) as usize;
            damaged[at] = dice.next() as u8;
        }
        damaged.truncate(damaged.len() - dice.pick(&[0, 0, 1, 20, 60]));
        let mut buffer = vec![0; HEADROOM];
        buffer.extend_from_slice(&damaged);
        if let Verdict::Forward(range) = treat(&mut bench.dpu, &mut buffer, bench.now) {
            assert!(dissect(&buffer[range]).is_ok());
        }
    }
    let counters = bench.counters();
    let seen = counters.drops.total()
        + bench.dpu.drops().total()
        + counters.sent[0].packets
        + counters.sent[1].packets;
    assert_eq!(seen, 20_000);
}

/// Flows that one DPU sends to the same endpoint another one spreads: whoever sends them cannot know
/// which these are.
#[test]
fn endpoints_are_chosen_in_secret() {
    let mut objects = private_link();
    let endpoints = ["90.90.90.1", "90.90.90.2", "90.90.90.3", "90.90.90.4"];
    objects
        .tunnels
        .insert("Tunnel4".into(), tunnel(&endpoints, 100));
    endpoint(&mut objects).tunnel = Some("Tunnel4".into());
    let mut bench = Bench::of(objects);
    let send = |bench: &mut Bench, port| {
        let sent = bench.send(&from_vm(udp((VM_CA, port), (PE_CA, 4567))));
        sent.expect("sent").layers[0].3
    };
    let chosen: Vec<u16> = (0..400)
        .filter(|&port| send(&mut bench, port) == ip(endpoints[0]))
        .collect();
    let mut other = Dpu::new(bench.dpu.settings().clone(), 8);
    other.update(&bench.objects, &bench.objects.keys());
    bench.dpu = other;
    let mut counts = std::collections::BTreeMap::new();
    for &port in &chosen {
        *counts.entry(send(&mut bench, port)).or_insert(0) += 1;
    }
    let most = counts.values().max().expect("some");
    assert!(*most * 2 < chosen.len(), "{counts:?}");
}
