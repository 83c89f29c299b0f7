//! What an ENI counts, as the public model counts it.

use super::bench::*;
use twinpath_dash::counters::Count;

/// A private link's packets grow on their way out, and shrink on their way in: each frame counts as it
/// came, and as it left.
#[test]
fn packets_and_bytes_are_counted_by_direction() {
    let mut bench = Bench::of(private_link());
    let sent = bench
        .send(&from_vm(udp((VM_CA, 1), (PE_CA, 2)).payload(&[7; 100])))
        .expect("sent");
    assert_eq!(sent.inner.len(), 14 + 40 + 8 + 100);
    let answer = udp((PL_DIP, 2), (PL_SIP, 1)).payload(&[7; 50]);
    let macs = [REMOTE_MAC, ENI_MAC];
    let frame = inside(Encapsulation::Nvgre, ENCAP_VNI, PE_PA, macs, answer);
    bench.send(&frame).expect("an answer");
    // Dropped: it came, and did not leave.
    let nowhere = from_vm(udp((VM_CA, 1), ("10.2.0.99", 2)).payload(&[7; 10]));
    assert_eq!(bench.send(&nowhere), Err(Reason::MappingMiss));
    let count = |packets, bytes| Count { packets, bytes };
    let (v4, v6) = (14 + 20 + 8, 14 + 40 + 8);
    let counters = bench.counters();
    assert_eq!(
        counters.received,
        [count(2, 2 * v4 + 110), count(1, v6 + 50)]
    );
    assert_eq!(counters.sent, [count(1, v6 + 100), count(1, v4 + 50)]);
    assert_eq!((counters.flow_hits, counters.flow_misses), (1, 2));
    assert_eq!(counters.flows_created, 1);
}

/// What is broken inside has come, too: what came has left, or was dropped.
#[test]
fn damaged_inner_packets_count_as_received() {
    let mut bench = Bench::of(peers());
    let sound = from_vm(udp((VM_CA, 1), ("10.2.0.8", 2)));
    bench.send(&sound).expect("sent");
    let mut damaged = sound.clone();
    let outer = dissect(&sound).expect("sound");
    let inner = Tunnel::read(&sound, &outer, VXLAN_PORT)
        .expect("a tunnel")
        .inner();
    // The checksum of the inner IPv4 header.
    damaged[inner.start + 14 + 10] ^= 1;
    assert_eq!(bench.send(&damaged), Err(Reason::InnerMalformed));
    let counters = bench.counters();
    let bytes = 2 * inner.len() as u64;
    assert_eq!(counters.received[0], Count { packets: 2, bytes });
    assert_eq!((counters.sent[0].packets, counters.drops.total()), (1, 1));
}

/// Each reason for which the model has a counter has its own, and no packet counts for two.
#[test]
fn drops_of_the_model_are_counted_apart() {
    let mut objects = peers();
    endpoint(&mut objects).port_map = Some("map".into());
    let direct = RouteAction::Vnet("Vnet2".into());
    let routes = objects.route_groups.get_mut("group").expect("there");
    routes.push((prefix("10.7.0.0/16"), route(direct)));
    let mut bench = Bench::new(
        objects,
        Settings {
            port_map_must_match: true,
            ..Settings::default()
        },
    );
    let to = |destination| from_vm(udp((VM_CA, 1), (destination, 2)));
    let stranger = |key| {
        let answer = udp(("10.2.0.8", 2), (VM_CA, 1));
        let macs = [REMOTE_MAC, ENI_MAC];
        inside(Encapsulation::Vxlan, key, "100.0.0.8", macs, answer)
    };
    let mut drops = |frame: &[u8], reason| {
        let before = bench.counters().drops.total();
        assert_eq!(bench.send(frame), Err(reason));
        assert_eq!(bench.counters().drops.of(reason), 1);
        assert_eq!(bench.counters().drops.total(), before + 1);
    };
    drops(&to("11.0.0.1"), Reason::RouteMiss);
    drops(&to("10.7.0.1"), Reason::MappingMiss);
    drops(&to(PE_CA), Reason::PortMapMiss);
    drops(&stranger(ENCAP_VNI), Reason::InboundRouteMiss);
    drops(&stranger(777), Reason::UntrustedVni);
    let range = (
        Range::new(8, 9).expect("in order"),
        PortMapRange::SkipMapping,
    );
    bench.objects.port_maps.insert("map".into(), [range].into());
    bench
        .dpu
        .update(&bench.objects, &[Key::PortMap("map".into())]);
    let mut drops = |frame: &[u8], reason| {
        assert_eq!(bench.send(frame), Err(reason));
        assert_eq!(bench.counters().drops.of(reason), 1);
    };
    drops(&to(PE_CA), Reason::PortRangeMiss);
    bench.objects.eni_routes.clear();
    bench.dpu.update(&bench.objects, &[Key::EniRoute(eni_id())]);
    assert_eq!(bench.send(&to("11.0.0.1")), Err(Reason::RouteGroupMiss));
    assert_eq!(bench.counters().drops.of(Reason::RouteGroupMiss), 1);
    assert_eq!(bench.counters().drops.total(), 7);
    assert_eq!(bench.dpu.drops().total(), 0, "all are the ENI's");
}
