//! Networks and peers, and direct routes.

use super::bench::*;

#[test]
fn peers_speak_with_each_other() {
    let mut bench = Bench::of(peers());
    let ends = [
        ("10.0.0.11", "10.2.0.8"),
        ("fd01::11", "fd02::8"),
        ("10.0.0.11", "10.3.4.5"),
    ];
    for (machine, peer) in ends {
        let sent = bench
            .send(&from_vm(tcp((machine, 1), (peer, 2), flags::SYN)))
            .expect("sent");
        let layer = (Encapsulation::Vxlan, 3000, VIP, ip("100.0.0.8"), 0x28);
        assert_eq!(sent.layers, [layer]);
        assert_eq!(sent.headers().destination, ip(peer));
        assert_eq!(sent.macs(), [ENI_MAC, REMOTE_MAC]);
        let answer = tcp((peer, 2), (machine, 1), flags::SYN | flags::ACK);
        let back = bench.send(&from_peer("100.0.0.8", answer)).expect("sent");
        assert_eq!(
            back.layers,
            [(Encapsulation::Vxlan, VM_VNI, VIP, ip(VM_PA), 0x28)]
        );
    }
    // The other way round: the answer goes to where the question came from.
    let question = tcp(("10.2.0.8", 5), (VM_CA, 6), flags::SYN);
    bench.send(&from_peer("100.0.0.8", question)).expect("sent");
    let sent = bench.send(&from_vm(tcp(
        (VM_CA, 6),
        ("10.2.0.8", 5),
        flags::SYN | flags::ACK,
    )));
    let sent = sent.expect("sent");
    assert_eq!(
        sent.layers,
        [(Encapsulation::Vxlan, 3000, VIP, ip("100.0.0.8"), 0x28)]
    );
    assert_eq!(sent.macs(), [ENI_MAC, REMOTE_MAC]);
}

#[test]
fn physical_addresses_of_nobody_are_refused() {
    let mut bench = Bench::of(peers());
    let question = tcp(("10.2.0.8", 5), (VM_CA, 6), flags::SYN);
    let result = bench.send(&from_peer("100.0.0.9", question));
    assert_eq!(result, Err(Reason::PaValidation));
    assert_eq!(bench.counters().drops.of(Reason::PaValidation), 1);
}

/// Whoever knows a connection's ends gets nothing into it from another network.
#[test]
fn a_flow_takes_packets_of_its_own_networks_alone() {
    let mut bench = Bench::of(peers());
    bench
        .send(&from_vm(udp((VM_CA, 1), ("10.2.0.8", 2))))
        .expect("opened");
    let macs = [REMOTE_MAC, ENI_MAC];
    let answer = |key| {
        let packet = udp(("10.2.0.8", 2), (VM_CA, 1));
        inside(Encapsulation::Vxlan, key, "100.0.0.8", macs, packet)
    };
    // The peer's, the machine's own, and one that the appliance trusts.
    for key in [3000, ENCAP_VNI] {
        bench.send(&answer(key)).expect("an answer");
    }
    for key in [0, 1234, 3001] {
        assert_eq!(bench.send(&answer(key)), Err(Reason::FlowVni));
    }
    assert_eq!(bench.counters().drops.of(Reason::FlowVni), 3);
}

/// That a VNI is trusted lets nobody of that network into others' connections.
#[test]
fn a_trusted_vni_of_another_network_is_not_the_flows() {
    let mut objects = peers();
    let other = Vnet {
        vni: vni(ENCAP_VNI),
        guid: None,
        address_space: PrefixList::default(),
        peers: [].into(),
    };
    objects.vnets.insert("Other".into(), other);
    let eni = Eni {
        mac_address: MacAddress([2, 0, 0, 0, 7, 7]),
        vnet: "Other".into(),
        ..objects.enis[&eni_id()].clone()
    };
    // Whether anything is in that network or not.
    for is_used in [true, false] {
        let mut objects = objects.clone();
        if is_used {
            objects.enis.insert("other".into(), eni.clone());
        }
        let mut bench = Bench::of(objects);
        bench
            .send(&from_vm(udp((VM_CA, 1), ("10.2.0.8", 2))))
            .expect("opened");
        let packet = udp(("10.2.0.8", 2), (VM_CA, 1));
        let macs = [REMOTE_MAC, ENI_MAC];
        let frame = inside(Encapsulation::Vxlan, ENCAP_VNI, "100.0.0.8", macs, packet);
        assert_eq!(bench.send(&frame), Err(Reason::FlowVni), "{is_used}");
    }
}

/// A packet from the network that looks like one of the machine's is judged as what it is.
#[test]
fn packets_from_the_network_are_not_taken_for_the_machines() {
    let mut bench = Bench::of(peers());
    let packet = udp((VM_CA, 1), ("10.2.0.8", 2));
    bench.send(&from_vm(packet)).expect("opened");
    let macs = [REMOTE_MAC, ENI_MAC];
    let pretended = inside(Encapsulation::Vxlan, VNET1_VNI, "100.0.0.8", macs, packet);
    assert_eq!(bench.send(&pretended), Err(Reason::UntrustedVni));
    let pretended = inside(Encapsulation::Vxlan, 3000, "100.0.0.8", macs, packet);
    let sent = bench
        .send(&pretended)
        .expect("the peer may send what it likes");
    assert_eq!(sent.layers[0].3, ip(VM_PA), "to the machine, not back out");
}

#[test]
fn a_direct_route_leaves_without_a_tunnel() {
    let mut bench = Bench::of(peers());
    let sent = bench
        .send(&from_vm(udp((VM_CA, 1), ("30.0.0.1", 2))))
        .expect("sent");
    assert!(sent.layers.is_empty());
    // Between the underlay's stations: back to where it came from.
    let stations = [
        MacAddress([2, 0, 0, 0, 0, 2]),
        MacAddress([2, 0, 0, 0, 0, 1]),
    ];
    assert_eq!(sent.macs(), stations);
}

#[test]
fn a_packet_too_many_for_its_host_is_refused() {
    let mut bench = Bench::of(peers());
    let packet = udp((VM_CA, 1), ("10.2.0.8", 2));
    let macs = [ENI_MAC, REMOTE_MAC];
    let spoofed = inside(Encapsulation::Vxlan, VM_VNI, "25.1.1.2", macs, packet);
    assert_eq!(bench.send(&spoofed), Err(Reason::SpoofedSource));
    // Nor does anybody else get into a flow that is known.
    for _ in 0..2 {
        bench.send(&from_vm(packet)).expect("its host's");
        assert_eq!(bench.send(&spoofed), Err(Reason::SpoofedSource));
    }
    let unknown = [VM_MAC, REMOTE_MAC];
    let unknown = inside(Encapsulation::Vxlan, VM_VNI, VM_PA, unknown, packet);
    assert_eq!(bench.send(&unknown), Err(Reason::EniMiss));
    assert_eq!(bench.dpu.drops().of(Reason::EniMiss), 1);
}

#[test]
fn enis_may_be_disabled() {
    let mut bench = Bench::of(peers());
    let packet = from_vm(udp((VM_CA, 1), ("10.2.0.8", 2)));
    bench.send(&packet).expect("sent");
    for (state, passes) in [(AdminState::Disabled, false), (AdminState::Enabled, true)] {
        let eni = bench.objects.enis.get_mut("eni").expect("there");
        eni.admin_state = state;
        bench.dpu.update(&bench.objects, [&Key::Eni(eni_id())]);
        let expected = if passes {
            None
        } else {
            Some(Reason::EniDisabled)
        };
        assert_eq!(bench.send(&packet).err(), expected);
    }
    assert_eq!(bench.counters().drops.of(Reason::EniDisabled), 1);
}
