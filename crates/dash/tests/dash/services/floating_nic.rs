//! Floating NICs.

use super::bench::*;
use super::nat_gateway::{EXTERNAL, behind_gateway};
use twinpath_dash::counters::Count;

/// The VNI of those that bring what the machine sends.
const CARRIER_VNI: u32 = 800;
const PEER_CA: &str = "10.2.0.8";
const PEER_PA: &str = "100.0.0.8";
const TUNNEL_END: &str = "40.40.40.40";

/// Private Link as a floating NIC's: its machine's packets come from its host, with a VNI of their own.
fn floating() -> Objects {
    let mut objects = private_link();
    objects
        .tunnels
        .insert("Tunnel1".into(), tunnel(&[TUNNEL_END], ENCAP_VNI));
    let mut back = route(RouteAction::Direct);
    back.tunnel = Some("Tunnel1".into());
    let routes = objects.route_groups.get_mut("group").expect("there");
    routes.push((prefix("10.0.0.0/16"), back));
    let eni = objects.enis.get_mut("eni").expect("there");
    eni.mode = EniMode::FloatingNic;
    eni.trusted_vnis = [Range::one(vni(CARRIER_VNI))].into();
    for (key, source) in [(CARRIER_VNI, "0.0.0.0/0"), (ENCAP_VNI, "0.0.0.0/0")] {
        let key = RouteRuleKey {
            eni: eni_id(),
            vni: vni(key),
            source: prefix(source),
            priority: None,
        };
        let rule = RouteRule {
            priority: 0,
            action: InboundAction::Decap,
            protocol: None,
            vnet: None,
            pa_validation: None,
            metering: MeterBits::default(),
            region: None,
        };
        objects.route_rules.push((key, rule));
    }
    objects
}

/// With a list that refuses whatever goes this way.
fn refusing(direction: Direction) -> Objects {
    with_list(floating(), direction)
}

fn with_list(mut objects: Objects, direction: Direction) -> Objects {
    let nothing = AclGroup {
        ip_version: IpVersion::V4,
        guid: None,
    };
    let group = (nothing, [].into());
    objects.acl_groups.insert("nothing".into(), group);
    let binding = AclBinding {
        v4: Some("nothing".into()),
        v6: None,
    };
    let stage = AclStage::new(1).expect("1 to 5");
    objects
        .bindings
        .insert((eni_id(), direction, stage), binding);
    objects
}

/// From the machine's host.
fn from_machine(packet: PacketBuilder<'_>) -> Vec<u8> {
    brought_by(VM_PA, packet)
}

fn brought_by(host: &str, packet: PacketBuilder<'_>) -> Vec<u8> {
    let macs = [VM_MAC, ENI_MAC];
    inside(Encapsulation::Vxlan, CARRIER_VNI, host, macs, packet)
}

fn from_outside(packet: PacketBuilder<'_>) -> Vec<u8> {
    let macs = [REMOTE_MAC, ENI_MAC];
    inside(Encapsulation::Vxlan, ENCAP_VNI, PEER_PA, macs, packet)
}

fn from_endpoint(packet: PacketBuilder<'_>) -> Vec<u8> {
    let macs = [REMOTE_MAC, ENI_MAC];
    inside(Encapsulation::Nvgre, ENCAP_VNI, PE_PA, macs, packet)
}

#[test]
fn a_floating_nic_answers_by_its_routes() {
    let mut bench = Bench::of(floating());
    let packet = udp((VM_CA, 6789), (PE_CA, 4567));
    for kind in [Encapsulation::Vxlan, Encapsulation::Nvgre] {
        let frame = inside(kind, CARRIER_VNI, VM_PA, [VM_MAC, ENI_MAC], packet);
        let sent = bench.send(&frame).expect("sent");
        assert_eq!(sent.layers[0].3, ip(PE_PA));
        assert_eq!(sent.headers().destination, ip(PL_DIP));
        assert_eq!(sent.macs()[0], ENI_MAC);
    }
    let answer = udp((PL_DIP, 4567), (PL_SIP, 6789));
    let back = bench.send(&from_endpoint(answer)).expect("sent");
    let layer = (Encapsulation::Vxlan, ENCAP_VNI, VIP, ip(TUNNEL_END), 0x28);
    assert_eq!(back.layers, [layer]);
    assert_eq!(back.headers().destination, ip(VM_CA));
    assert_eq!(back.macs(), [ENI_MAC, VM_MAC]);
}

/// What comes from outside meets the inbound lists, and what the machine sends the outbound ones, though
/// both come as inbound packets do.
#[test]
fn a_floating_nics_lists_are_those_of_its_machines_directions() {
    let to_outside = tcp((VM_CA, 1), (PE_CA, 80), flags::SYN);
    let to_machine = tcp((PEER_CA, 5), (VM_CA, 22), flags::SYN);
    let mut closed = Bench::of(refusing(Direction::Inbound));
    assert_eq!(
        closed.send(&from_outside(to_machine)),
        Err(Reason::AclInbound)
    );
    closed.send(&from_machine(to_outside)).expect("sent");
    let answer = tcp((PL_DIP, 80), (PL_SIP, 1), flags::SYN | flags::ACK);
    closed.send(&from_endpoint(answer)).expect("an answer");
    let mut quiet = Bench::of(refusing(Direction::Outbound));
    for host in [VM_PA, "10.79.14.7"] {
        let frame = brought_by(host, to_outside);
        assert_eq!(quiet.send(&frame), Err(Reason::AclOutbound));
    }
    quiet.send(&from_outside(to_machine)).expect("sent");
}

/// A VNI that the ENI lists tells its machine's packets only if nobody else has it: not that of a network,
/// whose machines send with it, nor one that is trusted for all ENIs.
#[test]
fn a_vni_of_others_is_no_machines() {
    for key in [VNET1_VNI, ENCAP_VNI] {
        let mut objects = refusing(Direction::Inbound);
        let rules = objects.route_rules.clone();
        for (mut rule, what) in rules {
            if rule.vni == vni(CARRIER_VNI) {
                rule.vni = vni(VNET1_VNI);
                objects.route_rules.push((rule, what));
            }
        }
        let eni = objects.enis.get_mut("eni").expect("there");
        eni.trusted_vnis = [Range::new(vni(1), vni(9000)).expect("in order")].into();
        let mut bench = Bench::of(objects);
        let packet = tcp((PEER_CA, 5), (VM_CA, 22), flags::SYN);
        let macs = [REMOTE_MAC, ENI_MAC];
        let frame = inside(Encapsulation::Vxlan, key, PEER_PA, macs, packet);
        assert_eq!(bench.send(&frame), Err(Reason::AclInbound), "VNI {key}");
        bench.send(&brought_by(PEER_PA, packet)).expect("sent");
    }
}

/// Machines of other networks on its machine's host send with their networks' VNIs.
#[test]
fn a_neighbour_of_another_network_on_its_host_is_no_machine() {
    let mut objects = refusing(Direction::Inbound);
    let other = Vnet {
        vni: vni(VNET1_VNI + 1),
        ..objects.vnets[&VnetName::from("Vnet1")].clone()
    };
    objects.vnets.insert("Vnet2".into(), other);
    let (mut rule, what) = objects.route_rules[0].clone();
    rule.vni = vni(VNET1_VNI + 1);
    objects.route_rules.push((rule, what));
    let eni = objects.enis.get_mut("eni").expect("there");
    eni.trusted_vnis = [Range::one(vni(VNET1_VNI + 1))].into();
    let mut bench = Bench::of(objects);
    let packet = tcp((PEER_CA, 5), (VM_CA, 22), flags::SYN);
    let macs = [REMOTE_MAC, ENI_MAC];
    let sent_with = |key| inside(Encapsulation::Vxlan, key, VM_PA, macs, packet);
    let others = bench.send(&sent_with(VNET1_VNI + 1));
    assert_eq!(others, Err(Reason::AclInbound));
    bench.send(&sent_with(ENCAP_VNI)).expect("the machine's");
}

/// Its machine goes to another host: what it has opened stays its own, and meets its own lists.
#[test]
fn a_floating_nics_connections_move_with_its_machine() {
    for refused in [Direction::Inbound, Direction::Outbound] {
        let mut objects = behind_gateway(floating());
        let routes = objects.route_groups.get_mut("group").expect("there");
        routes.push((prefix("0.0.0.0/0"), route(RouteAction::Direct)));
        // The carrier's VNI tells its packets wherever they come from: here the host does.
        let eni = objects.enis.get_mut("eni").expect("there");
        eni.trusted_vnis = [].into();
        let mut bench = Bench::of(objects);
        let packet = udp((VM_CA, 6789), ("30.0.0.1", 80));
        let macs = [VM_MAC, ENI_MAC];
        let from = |host| inside(Encapsulation::Vxlan, ENCAP_VNI, host, macs, packet);
        let before = bench.send(&from(VM_PA)).expect("opened");
        assert_eq!(before.headers().source, ip(EXTERNAL));
        bench.objects = with_list(bench.objects, refused);
        let eni = bench.objects.enis.get_mut("eni").expect("there");
        eni.underlay_ip = Some(ip("25.1.1.9"));
        bench.dpu.update(&bench.objects, &bench.objects.keys());
        let after = bench.send(&from("25.1.1.9"));
        match refused {
            Direction::Inbound => assert_eq!(after.expect("goes on").headers(), before.headers()),
            Direction::Outbound => assert_eq!(after, Err(Reason::AclOutbound)),
        }
    }
}

/// A connection that its machine has opened with a VNI is one from outside once a network has that VNI.
#[test]
fn a_network_with_the_carriers_vni_takes_its_connections_for_its_own() {
    let mut bench = Bench::of(refusing(Direction::Inbound));
    let frame = brought_by("10.79.14.7", udp((VM_CA, 6789), (PE_CA, 4567)));
    bench.send(&frame).expect("opened");
    let network = Vnet {
        vni: vni(CARRIER_VNI),
        ..bench.objects.vnets[&VnetName::from("Vnet1")].clone()
    };
    bench.objects.vnets.insert("Vnet3".into(), network);
    let changed = [Key::Vnet("Vnet3".into())];
    bench.dpu.update(&bench.objects, &changed);
    assert_eq!(bench.send(&frame), Err(Reason::AclInbound));
}

/// Traces say whose packets they take them for.
#[test]
fn a_floating_nics_story_says_what_its_machine_has_sent() {
    let bench = Bench::of(floating());
    let direction = |frame: &[u8]| bench.dpu.story(frame, bench.now)[0].action.clone();
    let packet = udp((VM_CA, 6789), (PE_CA, 4567));
    let machines = direction(&from_machine(packet));
    assert_eq!(machines, "inbound, from a floating NIC's machine");
    assert_eq!(direction(&from_outside(packet)), "inbound");
}

/// As SONiC's test of meters has it: a hundred bytes that leave count before they are changed, and a
/// hundred that come after it.
#[test]
fn a_floating_nics_bytes_count_as_its_machine_sees_them() {
    let filled = |headers: usize| vec![7; 100 - headers];
    for host in [VM_PA, "10.79.14.7"] {
        let mut bench = Bench::of(floating());
        let body = filled(14 + 20 + 8);
        let packet = udp((VM_CA, 6789), (PE_CA, 4567)).payload(&body);
        let sent = bench.send(&brought_by(host, packet)).expect("sent");
        assert_eq!(sent.inner.len(), 120);
        let body = filled(14 + 40 + 8);
        let answer = udp((PL_DIP, 4567), (PL_SIP, 6789)).payload(&body);
        bench.send(&from_endpoint(answer)).expect("an answer");
        let once = |bytes| Count { packets: 1, bytes };
        let counters = bench.counters();
        assert_eq!(counters.meters.of(1586), [100, 80], "by {host}");
        assert_eq!(counters.received, [once(100), once(100)], "by {host}");
        assert_eq!(counters.sent, [once(120), once(80)], "by {host}");
    }
}

/// The shortest way counts as the long one.
#[test]
fn a_floating_nics_known_flows_count_as_its_machine_sees_them() {
    let mut objects = floating();
    objects.mappings.insert(
        ("Vnet1".into(), ip(PEER_CA)),
        VnetMapping {
            routing_type: RoutingType::VnetEncap,
            underlay_ip: ip(PEER_PA),
            private_link: None,
            ..endpoint(&mut objects.clone()).clone()
        },
    );
    let mut bench = Bench::of(objects);
    let sent = from_machine(udp((VM_CA, 1), (PEER_CA, 2)));
    let answer = from_outside(udp((PEER_CA, 2), (VM_CA, 1)));
    let mut burst: Vec<Vec<u8>> = [&sent, &answer, &sent, &answer, &sent, &answer]
        .map(|frame| [vec![0; HEADROOM], frame.clone()].concat())
        .into();
    let now = bench.now;
    bench
        .dpu
        .process_burst(&mut burst, HEADROOM, now, |_, verdict| {
            assert!(matches!(verdict, Verdict::Forward(_)), "{verdict:?}");
        });
    let bytes = 3 * (14 + 20 + 8 + 16);
    let three = Count { packets: 3, bytes };
    let counters = bench.counters();
    assert_eq!(counters.flow_hits, 5);
    assert_eq!((counters.received, counters.sent), ([three; 2], [three; 2]));
    assert_eq!(counters.meters.of(1586), [bytes; 2]);
}

/// What is broken inside counts in the direction that it came by, too.
#[test]
fn a_floating_nics_broken_packets_are_its_machines() {
    let mut bench = Bench::of(floating());
    let mut frame = from_machine(udp((VM_CA, 1), (PE_CA, 2)));
    let inner = frame.len() - (14 + 20 + 8 + 16);
    // The checksum of the inner IPv4 header.
    frame[inner + 14 + 10] ^= 1;
    assert_eq!(bench.send(&frame), Err(Reason::InnerMalformed));
    let packets = bench.counters().received.map(|count| count.packets);
    assert_eq!(packets, [1, 0]);
}

/// A NAT gateway hides what the machine opens. A connection from outside has no address that is changed,
/// answers to it go back to where it came from, and external endpoints are no way in.
#[test]
fn a_floating_nic_hides_what_its_machine_opens_alone() {
    let mut objects = behind_gateway(floating());
    let routes = objects.route_groups.get_mut("group").expect("there");
    routes.push((prefix("0.0.0.0/0"), route(RouteAction::Direct)));
    let mut bench = Bench::of(objects);
    let outside = "30.0.0.1";
    let opened = tcp((outside, 5), (VM_CA, 22), flags::SYN);
    let sent = bench.send(&from_outside(opened)).expect("sent");
    assert_eq!(sent.layers[0].3, ip(TUNNEL_END));
    assert_eq!(sent.headers().source, ip(outside));
    let answer = tcp((VM_CA, 22), (outside, 5), flags::SYN | flags::ACK);
    let back = bench.send(&from_machine(answer)).expect("an answer");
    let layer = &back.layers[0];
    assert_eq!((layer.1, layer.3), (ENCAP_VNI, ip(PEER_PA)));
    let headers = back.headers();
    assert_eq!(
        [headers.source, headers.destination],
        [ip(VM_CA), ip(outside)]
    );
    assert_eq!(back.macs(), [ENI_MAC, REMOTE_MAC]);
    let unsolicited = tcp((outside, 6), (EXTERNAL, 4004), flags::SYN);
    assert_eq!(
        bench.send(&from_outside(unsolicited)),
        Err(Reason::NatUnsolicited)
    );
    let own = tcp((VM_CA, 7), (outside, 80), flags::SYN);
    let hidden = bench.send(&from_machine(own)).expect("sent");
    assert_eq!(hidden.headers().source, ip(EXTERNAL));
}

/// Nobody outside reaches the machine's private endpoint through it.
#[test]
fn a_floating_nics_private_endpoints_are_its_machines_alone() {
    let mut bench = Bench::of(floating());
    let packet = tcp((PEER_CA, 5), (PE_CA, 22), flags::SYN);
    assert_eq!(bench.send(&from_outside(packet)), Err(Reason::Unsupported));
    bench.send(&from_machine(packet)).expect("sent");
}

/// Packets from outside that have the ends of the machine's are none of its flows, whichever came first.
#[test]
fn a_floating_nics_flows_are_its_machines_alone() {
    let to_endpoint = udp((VM_CA, 1), (PE_CA, 2));
    let mut bench = Bench::of(floating());
    bench.send(&from_machine(to_endpoint)).expect("sent");
    let others = bench.send(&from_outside(to_endpoint));
    assert_eq!(others, Err(Reason::Unsupported));

    let mut objects = behind_gateway(floating());
    let routes = objects.route_groups.get_mut("group").expect("there");
    routes.push((prefix("0.0.0.0/0"), route(RouteAction::Direct)));
    let mut bench = Bench::of(objects);
    let to_outside = udp((VM_CA, 7), ("30.0.0.1", 80));
    for _ in 0..2 {
        let others = bench.send(&from_outside(to_outside)).expect("sent on");
        assert_eq!(others.headers().source, ip(VM_CA));
        let own = bench.send(&from_machine(to_outside)).expect("sent");
        assert_eq!(own.headers().source, ip(EXTERNAL));
    }

    let mut bench = Bench::of(refusing(Direction::Outbound));
    _ = bench.send(&from_outside(to_endpoint));
    let own = bench.send(&from_machine(to_endpoint));
    assert_eq!(own, Err(Reason::AclOutbound));
}

/// Others may be on its machine's host: what they answer is of the flow that it answers.
#[test]
fn a_floating_nics_peers_may_be_on_its_machines_host() {
    let mut objects = floating();
    let mapping = VnetMapping {
        routing_type: RoutingType::VnetEncap,
        underlay_ip: ip(VM_PA),
        private_link: None,
        ..endpoint(&mut objects.clone()).clone()
    };
    let peer = ("Vnet1".into(), ip(PEER_CA));
    objects.mappings.insert(peer, mapping);
    let mut bench = Bench::of(objects);
    let question = udp((VM_CA, 1), (PEER_CA, 2));
    bench.send(&from_machine(question)).expect("sent");
    let answer = udp((PEER_CA, 2), (VM_CA, 1));
    bench.send(&from_machine(answer)).expect("an answer");
    let counters = bench.counters();
    assert_eq!((counters.flows_created, counters.flow_hits), (1, 1));
}

/// What comes from others takes nothing from what the machine is told, and no datagram's place.
#[test]
fn others_take_nothing_from_a_floating_nics_machine() {
    let settings = Settings {
        flows: 1024,
        mtu: 1300,
        ..Settings::default()
    };
    let mut bench = Bench::new(floating(), settings);
    let (to_endpoint, to_machine) = (udp((VM_CA, 1), (PE_CA, 2)), udp((PEER_CA, 5), (VM_CA, 6)));
    for _ in 0..30 {
        let long = from_outside(to_machine.payload_len(1400));
        assert_eq!(bench.send(&long), Err(Reason::TooLong));
    }
    bench.error = None;
    let long = from_machine(to_endpoint.payload_len(1400));
    assert_eq!(bench.send(&long), Err(Reason::TooLong));
    assert!(bench.error.is_some(), "the machine is told");

    let part = |packet: PacketBuilder<'static>, identification, is_first: bool| {
        let packet = packet.payload_len(64).identification(identification);
        match is_first {
            true => packet.fragment(0, true),
            false => packet.fragment(40, false),
        }
    };
    bench
        .send(&from_machine(part(to_endpoint, 9, true)))
        .expect("the first");
    for identification in 100..200 {
        let others = part(to_machine, identification, true);
        bench.send(&from_outside(others)).expect("to the machine");
    }
    bench
        .send(&from_machine(part(to_endpoint, 9, false)))
        .expect("the rest");
}
