//! What is told of packets: in plain words, which entry decides, and why what is dropped is dropped.

use twinpath_core::wire::icmp::IcmpError;

use super::bench::*;

/// All that is told of a packet before it is sent; the last note must say what then becomes of it.
fn told(bench: &mut Bench, frame: &[u8]) -> Vec<String> {
    let mut notes = bench.dpu.story(frame, bench.now);
    let is_judged = notes
        .last()
        .is_some_and(|note| note.action.contains("judge"));
    if let Some(arrival) = bench.dpu.arrival(frame).filter(|_| is_judged) {
        notes.extend(bench.dpu.policy_story(&arrival));
    }
    let last = notes.last().expect("a note").action.clone();
    match bench.send(frame) {
        Err(Reason::NoFlow) => assert_eq!(last, "it opens no connection"),
        Err(reason) => assert_eq!(last, format!("dropped ({})", reason.name())),
        Ok(_) => assert!(!last.contains("dropped"), "{notes:?}"),
    }
    let lines = notes.into_iter().map(|note| {
        let line = format!("{}: {}: {}", note.stage, note.entry, note.action);
        let odd = ["Some(", "None", "Vxlan", "Nvgre", "SkipMapping", ".:"];
        assert!(!odd.iter().any(|odd| line.contains(odd)), "{line}");
        line
    });
    lines.collect()
}

fn check(bench: &mut Bench, frame: &[u8], wanted: &str) {
    let told = told(bench, frame);
    let is_there = told.iter().any(|line| line == wanted);
    assert!(is_there, "{wanted:?} in {told:#?}");
}

#[test]
fn a_packet_to_another_address_is_told_the_appliances() {
    let mut objects = peers();
    let frame = from_vm(udp((VM_CA, 1), ("10.2.0.8", 2)));
    objects.appliance.as_mut().expect("there").sip = ip("10.9.9.9");
    let wanted = format!(
        "arrival: no ENI: The outer destination is not the appliance's address: {VIP}, where the appliance's is 10.9.9.9: dropped (vip_miss)"
    );
    check(&mut Bench::of(objects.clone()), &frame, &wanted);
    objects.appliance = None;
    let wanted = format!(
        "arrival: no ENI: The outer destination is not the appliance's address: {VIP}, and there is no appliance: dropped (vip_miss)"
    );
    check(&mut Bench::of(objects), &frame, &wanted);
}

#[test]
fn a_spoofed_source_is_told_with_the_host() {
    let packet = udp((VM_CA, 1), ("10.2.0.8", 2));
    let macs = [ENI_MAC, REMOTE_MAC];
    let spoofed = inside(Encapsulation::Vxlan, VM_VNI, "25.1.1.2", macs, packet);
    check(
        &mut Bench::of(peers()),
        &spoofed,
        "outer source: from 25.1.1.2, where the ENI's host is 25.1.1.1: dropped (spoofed_source)",
    );
}

#[test]
fn a_vni_that_a_flow_does_not_take_is_told_with_those_that_it_does() {
    let mut bench = Bench::of(peers());
    let opening = from_vm(udp((VM_CA, 1), ("10.2.0.8", 2)));
    let flow = "protocol 17 (udp) 10.0.0.11 port 1 to 10.2.0.8 port 2";
    let wanted = format!("flow table: no flow: {flow}: policies judge it");
    check(&mut bench, &opening, &wanted);
    let answer = udp(("10.2.0.8", 2), (VM_CA, 1));
    let macs = [REMOTE_MAC, ENI_MAC];
    let foreign = inside(Encapsulation::Vxlan, 1234, "100.0.0.8", macs, answer);
    check(
        &mut bench,
        &foreign,
        "flow's VNI: 1234, where the flow takes 1001, 3000 and what is trusted: dropped (flow_vni_mismatch)",
    );
}

#[test]
fn an_icmp_error_is_told_by_the_flow_that_it_quotes() {
    let mut bench = Bench::of(peers());
    let packet = udp((VM_CA, 1), ("10.2.0.8", 2));
    let inner = packet.macs(ENI_MAC, REMOTE_MAC).to_vec().expect("a packet");
    let too_big = IcmpError::PacketTooBig { mtu: 1400 };
    let error = from_peer("100.0.0.8", PacketBuilder::icmp_error(too_big, &inner));
    check(
        &mut bench,
        &error,
        "flow table: an ICMP error about no known flow: protocol 17 (udp) 10.2.0.8 port 2 to 10.0.0.11 port 1: dropped (icmp_error)",
    );
    bench.send(&from_vm(packet)).expect("opened");
    let goes = "flow table: an ICMP error: goes the way of the flow that it quotes";
    check(&mut bench, &error, goes);
}

#[test]
fn a_decision_is_told_in_one_sentence() {
    let mut bench = Bench::of(peers());
    let to_nobody = from_vm(udp((VM_CA, 1), ("10.2.0.250", 2)));
    let told = told(&mut bench, &to_nobody);
    let wanted = [
        "access list: none is bound for outbound IPv4: allow",
        "CA to PA mapping: 10.2.0.250 in network Vnet1: no mapping: dropped",
        "decision: The network has no mapping for the address: dropped (mapping_miss)",
    ];
    for wanted in wanted {
        assert!(told.iter().any(|line| line == wanted), "{told:#?}");
    }
}

#[test]
fn a_port_map_is_told_by_its_range() {
    let mut objects = private_link();
    let range = |first, last| Range::new(first, last).expect("in order");
    let backend = PortMapRange::PrivateLinkService {
        backend_ip: ip("60.60.60.1"),
        backend_port_base: 42_001,
    };
    let ranges = [
        (range(8001, 9000), backend),
        (range(9100, 9100), PortMapRange::SkipMapping),
    ];
    objects.port_maps.insert("portmap_1".into(), ranges.into());
    endpoint(&mut objects).port_map = Some("portmap_1".into());
    let mut bench = Bench::of(objects);
    for (port, wanted) in [
        (
            8001,
            "port map: portmap_1: destination port 8001: range from 8001: to 60.60.60.1, ports from 42001",
        ),
        (
            9100,
            "port map: portmap_1: destination port 9100: range from 9100: the mapping's endpoint",
        ),
        (
            9101,
            "port map: portmap_1: destination port 9101: no range: the mapping's endpoint",
        ),
    ] {
        let packet = tcp((VM_CA, 12_345), (PE_CA, port), flags::SYN);
        check(&mut bench, &from_vm(packet), wanted);
    }
    let packet = tcp((VM_CA, 1), (PE_CA, 9101), flags::SYN);
    check(
        &mut bench,
        &from_vm(packet),
        "routing type: privatelink: IPv4 to IPv6, NVGRE VSID 100",
    );
}

/// Each says which of what is configured makes no packet.
#[test]
fn an_unsupported_action_is_told_with_its_cause() {
    let eni = |objects: &mut Objects, change: fn(&mut Eni)| {
        change(objects.enis.get_mut(&eni_id()).expect("there"));
    };
    let frame = from_vm(udp((VM_CA, 1), (PE_CA, 2)));
    let cause = |objects: Objects, why: &str| {
        let wanted = format!("unsupported action: {why}: dropped");
        check(&mut Bench::of(objects), &frame, &wanted);
    };
    let mut objects = private_link();
    eni(&mut objects, |eni| eni.underlay_ip = None);
    cause(objects, "the ENI has no underlay_ip");
    let mut objects = private_link();
    endpoint(&mut objects).underlay_ip = ip("2001:db8::1");
    let versions = format!("a tunnel from {VIP} to 2001:db8::1, of two IP versions");
    cause(objects, &versions);
    let mut objects = private_link();
    let link = objects.routing_types.get_mut(&RoutingType::PrivateLink);
    let appliance = action(ActionType::Appliance, None, None);
    link.expect("there").items = [appliance].into();
    cause(
        objects,
        "routing type privatelink has a routing appliance, or more than two tunnels",
    );
    let mut objects = private_link();
    let link = objects.routing_types.get_mut(&RoutingType::PrivateLink);
    let vxlan = || action(ActionType::StaticEncap, None, None);
    link.expect("there").items = [vxlan(), vxlan()].into();
    endpoint(&mut objects).tunnel = Some("far".into());
    objects
        .tunnels
        .insert("far".into(), tunnel(&["40.40.40.1"], 7));
    cause(objects, "a third tunnel around the packet: two at most");
}

#[test]
fn a_packet_of_ipv6_is_told_where_ipv4_becomes_ipv6() {
    let mut objects = private_link();
    let mapping = endpoint(&mut objects).clone();
    objects
        .mappings
        .insert(("Vnet1".into(), ip("fd02::9")), mapping);
    let routes = objects.route_groups.get_mut("group").expect("there");
    routes.push((
        prefix("fd02::/64"),
        route(RouteAction::Vnet("Vnet1".into())),
    ));
    check(
        &mut Bench::of(objects),
        &from_vm(udp(("fd02::1", 1), ("fd02::9", 2))),
        "unsupported action: a packet of IPv6, where IPv4 becomes IPv6: dropped",
    );
}
