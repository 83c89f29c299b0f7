//! What an ENI may at most.

use super::bench::*;
use super::nat_gateway::{OUTSIDE, behind_gateway};

#[test]
fn limits_are_kept_and_neighbours_untouched() {
    let mut objects = limited([0, 0, 10]);
    let mut neighbour = objects.enis["eni"].clone();
    neighbour.mac_address = VM_MAC;
    neighbour.qos = None;
    objects.enis.insert("neighbour".into(), neighbour);
    objects
        .eni_routes
        .insert("neighbour".into(), "group".into());
    let mut bench = Bench::of(objects);
    let packet = |port| udp((VM_CA, port), ("10.2.0.8", 2));
    let refused =
        (0..100).filter(|&port| bench.send(&from_vm(packet(port))) == Err(Reason::FlowLimit));
    assert_eq!(refused.count(), 90);
    assert_eq!(bench.counters().drops.of(Reason::FlowLimit), 90);
    for port in 0..100 {
        let macs = [VM_MAC, REMOTE_MAC];
        let frame = inside(Encapsulation::Vxlan, VM_VNI, VM_PA, macs, packet(port));
        bench.send(&frame).expect("the neighbour has no limit");
    }
    bench.send(&from_vm(packet(3))).expect("known flows go on");
}

/// What policies refuse would get no flow: it is told so, whatever there is room for.
#[test]
fn what_policies_refuse_is_no_excess() {
    let mut bench = Bench::of(behind_gateway(limited([0, 0, 1])));
    let to = |peer| from_vm(udp((VM_CA, 1), (peer, 2)));
    bench.send(&to("10.2.0.8")).expect("the first");
    let sctp = PacketBuilder::raw(132, ip(VM_CA), ip(OUTSIDE)).payload(&[1; 20]);
    assert_eq!(bench.send(&from_vm(sctp)), Err(Reason::NatProtocol));
    assert_eq!(bench.send(&to("10.2.0.250")), Err(Reason::MappingMiss));
    let excess = bench.send(&from_vm(udp((VM_CA, 3), ("10.2.0.8", 2))));
    assert_eq!(excess, Err(Reason::FlowLimit));
    let drops = &bench.counters().drops;
    let counted = [Reason::MappingMiss, Reason::FlowLimit].map(|reason| drops.of(reason));
    assert_eq!(counted, [1, 1]);
}

#[test]
fn rates_are_kept() {
    let objects = limited([1000, 100, 0]);
    let mut bench = Bench::of(objects);
    let mut reasons = std::collections::BTreeMap::new();
    // A second at two hundred connections.
    for port in 0..200 {
        bench.now = Instant(bench.now.0 + 5_000_000);
        let result = bench.send(&from_vm(udp((VM_CA, port), ("10.2.0.8", 2))));
        *reasons.entry(result.err()).or_insert(0) += 1;
    }
    assert!((100..=112).contains(&reasons[&None]), "{reasons:?}");
    assert_eq!(reasons[&None] + reasons[&Some(Reason::ConnectionRate)], 200);
    // A megabit is 125,000 bytes a second; this frame has 58.
    let (mut passed, mut refused) = (0, 0);
    for _ in 0..10_000 {
        bench.now = Instant(bench.now.0 + 100_000);
        let packet = udp((VM_CA, 0), ("10.2.0.8", 2));
        match bench.send(&from_vm(packet)) {
            Ok(_) => passed += 1,
            Err(reason) => refused += usize::from(reason == Reason::Bandwidth),
        }
    }
    assert!((2150..2200).contains(&passed), "{passed}");
    assert_eq!(passed + refused, 10_000, "each for its own reason");
}

/// An ENI with a limit of connections per second, and packets to it that its access list refuses.
#[test]
fn what_policies_refuse_uses_no_limit_up() {
    let objects = limited([0, 10, 0]);
    let mut bench = Bench::of(objects);
    // From a host that is none of the network's.
    for port in 0..1_000 {
        let frame = from_peer("100.0.0.99", udp(("10.2.0.8", port), (VM_CA, 2)));
        assert_eq!(bench.send(&frame), Err(Reason::PaValidation));
    }
    let own = from_vm(udp((VM_CA, 1), ("10.2.0.8", 2)));
    bench
        .send(&own)
        .expect("the machine's own connections open");
}

/// Limits of the first ENI: kilobits a second, connections a second, and flows.
fn limited([bandwidth_kbps, connections_per_second, flows]: [u32; 3]) -> Objects {
    let mut objects = peers();
    let qos = Qos {
        qos_id: "qos".into(),
        bandwidth_kbps,
        connections_per_second,
        flows,
    };
    objects.qos.insert("qos".into(), qos);
    objects.enis.get_mut("eni").expect("there").qos = Some("qos".into());
    objects
}

/// Flows that time has ended take no place, although nothing has swept them: with each of their kinds
/// of time-outs, and whatever came in between.
#[test]
fn flows_that_are_over_count_no_more() {
    let mut bench = Bench::of(limited([0, 0, 10]));
    let datagram = |port| from_vm(udp((VM_CA, port), ("10.2.0.8", 2)));
    let segment = |port, tcp_flags| from_vm(tcp((VM_CA, port), ("10.2.0.8", 2), tcp_flags));
    let answer =
        |port, tcp_flags| from_peer("100.0.0.8", tcp(("10.2.0.8", 2), (VM_CA, port), tcp_flags));
    for port in 0..5 {
        bench.send(&datagram(port)).expect("room");
        bench.send(&segment(port, flags::SYN)).expect("room");
    }
    assert_eq!(bench.send(&datagram(5)), Err(Reason::FlowLimit));
    // Of the connections one is answered and done, one is answered.
    for port in 0..2 {
        bench
            .send(&answer(port, flags::SYN | flags::ACK))
            .expect("known");
    }
    bench
        .send(&segment(0, flags::FIN | flags::ACK))
        .expect("known");
    bench
        .send(&answer(0, flags::FIN | flags::ACK))
        .expect("known");
    bench.now = Instant(bench.now.0 + 31_000_000_000);
    let opened = |bench: &mut Bench, first: u16| {
        (first..first + 20)
            .take_while(|&port| bench.send(&datagram(port)).is_ok())
            .count()
    };
    assert_eq!(
        opened(&mut bench, 100),
        4,
        "all connections but that which is open"
    );
    assert_eq!(bench.dpu.flows_of(0), 10);
    // One datagram's flow goes on, from the other end.
    let back = from_peer("100.0.0.8", udp(("10.2.0.8", 2), (VM_CA, 3)));
    bench.now = Instant(bench.now.0 + 80_000_000_000);
    bench.send(&back).expect("known");
    bench.now = Instant(bench.now.0 + 12_000_000_000);
    assert_eq!(opened(&mut bench, 200), 4);
    bench.now = Instant(bench.now.0 + 8_000_000_000_000);
    assert_eq!(opened(&mut bench, 300), 10);
    let counters = bench.counters();
    assert_eq!((counters.flows_aged, counters.flows_closed), (17, 1));
}

/// A limit that comes when there are flows already.
#[test]
fn flows_count_that_were_there_before_their_limit() {
    let mut bench = Bench::of(limited([0, 0, 0]));
    let datagram = |port| from_vm(udp((VM_CA, port), ("10.2.0.8", 2)));
    for port in 0..10 {
        bench.send(&datagram(port)).expect("no limit");
    }
    bench.objects.qos.get_mut("qos").expect("there").flows = 5;
    let changed = [Key::Qos("qos".into())];
    bench.dpu.update(&bench.objects, &changed);
    assert_eq!(bench.send(&datagram(20)), Err(Reason::FlowLimit));
    bench.now = Instant(bench.now.0 + 121_000_000_000);
    bench.send(&datagram(20)).expect("all others are over");
    assert_eq!(bench.dpu.flows_of(0), 5);
}

/// There are more ENIs than flows may be.
#[test]
fn few_flows_are_for_whoever_comes_first() {
    let mut objects = peers();
    for number in 0..32u8 {
        let mut other = objects.enis["eni"].clone();
        other.mac_address = MacAddress([2, 0, 0, 0, 9, number]);
        let id: EniId = format!("other-{number}").as_str().into();
        objects.enis.insert(id.clone(), other);
        objects.eni_routes.insert(id, "group".into());
    }
    for most in [1, 3, 8] {
        let settings = Settings {
            flows: most,
            ..Settings::default()
        };
        let mut bench = Bench::new(objects.clone(), settings);
        let opened = (0..32u8).filter(|&number| {
            let macs = [MacAddress([2, 0, 0, 0, 9, number]), REMOTE_MAC];
            let packet = udp((VM_CA, 1), ("10.2.0.8", 2));
            let frame = inside(Encapsulation::Vxlan, VM_VNI, VM_PA, macs, packet);
            bench.send(&frame).is_ok()
        });
        assert_eq!(opened.count(), most);
    }
}

/// So many ENIs with routes of their own, in one table of flows.
fn neighbours(count: u8) -> Objects {
    let mut objects = peers();
    for number in 1..count {
        let id = EniId::from(format!("eni-{number}").as_str());
        let mut eni = objects.enis["eni"].clone();
        eni.mac_address = neighbour_mac(number);
        objects.enis.insert(id.clone(), eni);
        objects.eni_routes.insert(id, "group".into());
    }
    objects
}

fn neighbour_mac(number: u8) -> MacAddress {
    match number {
        0 => ENI_MAC,
        _ => MacAddress([2, 0, 0, 0, 9, number]),
    }
}

/// A quarter of the table is divided among all: whoever floods first, and whoever joins in, each ENI
/// opens as many as its part.
#[test]
fn floods_leave_each_neighbour_its_part() {
    const FLOWS: u32 = 1200;
    const ENIS: u8 = 6;
    let settings = Settings {
        flows: FLOWS as usize,
        ..Settings::default()
    };
    for flooders in 1..ENIS {
        let mut bench = Bench::new(neighbours(ENIS), settings.clone());
        let mut opens = |number: u8, port: u16| {
            let packet = udp((VM_CA, port), ("10.2.0.8", 2));
            let macs = [neighbour_mac(number), REMOTE_MAC];
            let frame = inside(Encapsulation::Vxlan, VM_VNI, VM_PA, macs, packet);
            bench.send(&frame).map(|_| ())
        };
        let flooded = (0..flooders).flat_map(|number| (0..2000).map(move |port| (number, port)));
        let opened = flooded.filter(|&(number, port)| opens(number, port).is_ok());
        // Nothing is kept from them that nobody's part is.
        assert!(opened.count() >= (FLOWS * 3 / 4) as usize);
        let part = FLOWS / 4 / u32::from(ENIS);
        for number in flooders..ENIS {
            for port in 0..part {
                assert_eq!(
                    opens(number, port as u16),
                    Ok(()),
                    "{flooders} flood, {number}"
                );
            }
        }
        // Their flows go on, and are theirs no more when they are over.
        assert_eq!(opens(0, 0), Ok(()));
        bench.now = Instant(bench.now.0 + 3_600_000_000_000);
        bench.dpu.age(usize::MAX, bench.now);
        assert_eq!(bench.dpu.flow_count(), 0);
        let refilled = (0..2000u16).filter(|&port| {
            let frame = from_vm(udp((VM_CA, port), ("10.2.0.8", 2)));
            bench.send(&frame).is_ok()
        });
        assert!(refilled.count() >= (FLOWS * 3 / 4) as usize);
    }
}

/// ENIs that go take their flows with them: their places are others'.
#[test]
fn an_enis_flows_leave_their_places_with_it() {
    const ENIS: u8 = 6;
    let settings = Settings {
        flows: 1200,
        ..Settings::default()
    };
    let mut bench = Bench::new(neighbours(ENIS), settings);
    let opens = |bench: &mut Bench, number: u8, port: u16| {
        let packet = udp((VM_CA, port), ("10.2.0.8", 2));
        let macs = [neighbour_mac(number), REMOTE_MAC];
        let frame = inside(Encapsulation::Vxlan, VM_VNI, VM_PA, macs, packet);
        bench.send(&frame).is_ok()
    };
    let flooded = (1..ENIS).flat_map(|number| (0..1000).map(move |port| (number, port)));
    let flooded = flooded.filter(|&(number, port)| opens(&mut bench, number, port));
    assert!(flooded.count() > 1000);
    let with_all = bench.objects.clone();
    let gone: Vec<Key> = with_all.enis.keys().cloned().map(Key::Eni).collect();
    let gone = &gone[1..];
    assert!(!gone.contains(&Key::Eni(eni_id())), "the others");
    bench.objects.enis.retain(|id, _| *id == eni_id());
    bench.dpu.update(&bench.objects, gone);
    bench.objects = with_all;
    bench.dpu.update(&bench.objects, gone);
    assert_eq!(bench.dpu.flows().count(), 0, "they are nobody's");
    bench.dpu.age(usize::MAX, bench.now);
    assert_eq!(bench.dpu.flow_count(), 0);
    for number in 1..ENIS {
        assert!((0..1200 / 4 / 6).all(|port| opens(&mut bench, number, port)));
    }
    assert_eq!(bench.counters().flows_aged, 0);
}

/// What ends with an ENI's flows is not counted for the one that has its number next.
#[test]
fn an_eni_does_not_inherit_what_is_over() {
    let mut bench = Bench::of(peers());
    let datagram = |port| from_vm(udp((VM_CA, port), ("10.2.0.8", 2)));
    bench.send(&datagram(1)).expect("opened");
    let eni = bench.objects.enis.remove(&eni_id()).expect("there");
    let changed = [Key::Eni(eni_id())];
    bench.dpu.update(&bench.objects, &changed);
    bench.objects.enis.insert(eni_id(), eni);
    bench.dpu.update(&bench.objects, &changed);
    bench.send(&datagram(2)).expect("opened");
    bench.dpu.age(usize::MAX, bench.now);
    assert_eq!((bench.dpu.flows_of(0), bench.dpu.flow_count()), (1, 1));
    assert_eq!(bench.counters().flows_aged, 0);
}

/// A connection with a limit on flows that ends is over when its end says, whichever end that was.
#[test]
fn a_connection_that_ends_makes_room_early() {
    for is_machines in [true, false] {
        let mut bench = Bench::of(limited([0, 0, 2]));
        let segment = |port, tcp_flags| from_vm(tcp((VM_CA, port), ("10.2.0.8", 2), tcp_flags));
        let answer = |port, tcp_flags| {
            from_peer("100.0.0.8", tcp(("10.2.0.8", 2), (VM_CA, port), tcp_flags))
        };
        for port in [1, 2] {
            bench.send(&segment(port, flags::SYN)).expect("opened");
            let both = flags::SYN | flags::ACK;
            bench.send(&answer(port, both)).expect("answered");
        }
        bench.now = Instant(bench.now.0 + 31_000_000_000);
        let third = segment(3, flags::SYN);
        assert_eq!(bench.send(&third), Err(Reason::FlowLimit), "both are open");
        let reset = match is_machines {
            true => segment(1, flags::RST),
            false => answer(1, flags::RST),
        };
        bench.send(&reset).expect("known");
        bench.now = Instant(bench.now.0 + 31_000_000_000);
        bench.send(&third).expect("one has ended");
    }
}

/// Whoever sends into a flow that is over opens one, swept or not.
#[test]
fn a_datagram_of_a_flow_that_is_over_opens_one() {
    let mut bench = Bench::of(peers());
    let datagram = from_vm(udp((VM_CA, 1), ("10.2.0.8", 2)));
    bench.send(&datagram).expect("opened");
    bench.now = Instant(bench.now.0 + 121_000_000_000);
    bench.send(&datagram).expect("opened");
    let counters = bench.counters();
    let flows = (counters.flows_created, counters.flows_aged);
    assert_eq!((flows, counters.flow_hits), ((2, 1), 0));
}

/// Where flows are divided among shards so are the parts that are kept for ENIs: each shard has its own.
#[test]
fn a_shard_keeps_the_parts_of_its_own_enis() {
    let settings = Settings {
        flows: 1200,
        shards: 4,
        ..Settings::default()
    };
    let mut bench = Bench::new(neighbours(8), settings);
    let datagrams = (0..2000).map(|port| from_vm(udp((VM_CA, port), ("10.2.0.8", 2))));
    let opened = datagrams.filter(|frame| bench.send(frame).is_ok()).count();
    assert!(opened >= 600, "{opened}");
}

/// Whatever is dropped for another reason later uses bandwidth up once.
#[test]
fn congestion_uses_no_bandwidth_up_twice() {
    let datagram = from_vm(udp((VM_CA, 1), ("10.2.0.8", 2)));
    let mut marked = datagram.clone();
    let outer = dissect(&marked).expect("sound");
    ecn::set_traffic_class(&mut marked, &outer, ecn::CONGESTED);
    let until_full = |frame: &[u8], expected: Option<Reason>| {
        let mut bench = Bench::of(limited([1000, 0, 0]));
        bench.send(&datagram).expect("opened");
        let outcomes = std::iter::repeat_with(|| bench.send(frame).err());
        let outcomes = outcomes.take_while(|outcome| *outcome == expected);
        outcomes.take(1000).count()
    };
    let counts = [
        until_full(&datagram, None),
        until_full(&marked, Some(Reason::Congestion)),
    ];
    assert!((10..1000).contains(&counts[0]), "{counts:?}");
    assert_eq!(counts[0], counts[1]);
}

/// Others cannot use up the bandwidth of a machine by what is not let in.
#[test]
fn what_policies_refuse_uses_no_bandwidth_up() {
    let objects = limited([1000, 0, 0]);
    let mut bench = Bench::of(objects);
    let own = from_vm(udp((VM_CA, 1), ("10.2.0.8", 2)));
    bench.send(&own).expect("opened");
    let macs = [REMOTE_MAC, ENI_MAC];
    let flood = udp(("10.2.0.8", 9), (VM_CA, 9));
    let flood = inside(Encapsulation::Vxlan, 3001, "100.0.0.9", macs, flood);
    for _ in 0..100 {
        for _ in 0..100 {
            assert!(bench.send(&flood).is_err());
        }
        bench.now = Instant(bench.now.0 + 1_000_000);
        bench.send(&own).expect("there is room for it");
    }
    assert_eq!(bench.counters().drops.of(Reason::Bandwidth), 0);
}

/// A bench in which datagrams' flows are over after a second, with some.
fn with_short_lived_flows(flows: usize) -> Bench {
    let mut settings = Settings {
        flows,
        ..Settings::default()
    };
    settings.idle.udp = std::time::Duration::from_secs(1);
    let mut bench = Bench::new(peers(), settings);
    bench.dpu.tick(bench.now);
    for port in 0..100 {
        let frame = from_vm(udp((VM_CA, port), ("10.2.0.8", 2)));
        bench.send(&frame).expect("opened");
    }
    bench
}

/// Flows that are over end within a sweep, however often somebody comes by; who comes often looks at little.
#[test]
fn time_ends_flows_at_its_own_pace() {
    const STEP_NS: u64 = 10_000;
    for flows in [1_024, 200_000] {
        let mut bench = with_short_lived_flows(flows);
        let step = |bench: &mut Bench, count: u64| {
            for _ in 0..count {
                bench.now = Instant(bench.now.0 + STEP_NS);
                bench.dpu.tick(bench.now);
            }
        };
        step(&mut bench, 1_000_000_000 / STEP_NS);
        assert_eq!(bench.dpu.flow_count(), 100, "{flows}: none is over");
        let mut most_at_once = 0;
        for _ in 0..6_500_000_000 / STEP_NS {
            let before = bench.dpu.flow_count();
            step(&mut bench, 1);
            most_at_once = most_at_once.max(before - bench.dpu.flow_count());
        }
        assert_eq!(bench.dpu.flow_count(), 0, "{flows}");
        assert!(most_at_once <= 10, "{flows}: {most_at_once}");
        assert_eq!(bench.counters().flows_aged, 100, "{flows}");
    }
}

/// Where somebody comes by rarely, a sweep is as long: what is due is made up for with the next steps.
#[test]
fn a_sweep_catches_up() {
    let mut bench = with_short_lived_flows(200_000);
    for _ in 0..750 {
        bench.now = Instant(bench.now.0 + 10_000_000);
        bench.dpu.tick(bench.now);
    }
    assert_eq!(bench.dpu.flow_count(), 0);
}

/// Time makes long steps where packets come from a capture: all that is due is looked at then, however
/// large the table is.
#[test]
fn a_long_step_of_time_ends_all_flows_that_are_over() {
    let mut bench = with_short_lived_flows(1 << 20);
    bench.dpu.tick(Instant(bench.now.0 + 500_000_000));
    assert_eq!(bench.dpu.flow_count(), 100, "none is over");
    bench.dpu.tick(Instant(bench.now.0 + 10_000_000_000));
    assert_eq!(bench.dpu.flow_count(), 0);
    assert_eq!(bench.counters().flows_aged, 100);
}

/// A limit knows after a long step which flows are over that were there before it.
#[test]
fn a_new_limit_meets_flows_that_a_long_step_has_ended() {
    let mut bench = with_short_lived_flows(1 << 20);
    bench.objects = limited([0, 0, 100]);
    bench.dpu.update(&bench.objects, &bench.objects.keys());
    let other = |port| from_vm(udp((VM_CA, port), ("10.2.0.8", 3)));
    assert_eq!(bench.send(&other(1)), Err(Reason::FlowLimit));
    bench.now = Instant(bench.now.0 + 10_000_000_000);
    for port in 0..100 {
        bench.send(&other(port)).expect("the others are over");
    }
    assert_eq!(bench.send(&other(100)), Err(Reason::FlowLimit));
}
