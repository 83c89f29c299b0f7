//! Private Link with its redirect and security group forms, floating NICs, networks and peers: the
//! configurations of SONiC's public tests, and the packets that they expect.

mod common;

use common::packets::{Dice, HEADROOM, VIP, encapsulated, vni};
use twinpath_classify::Prefix;
use twinpath_core::Instant;
use twinpath_core::wire::layout::Layout;
use twinpath_core::wire::tcp::flags;
use twinpath_core::wire::tunnel::{Encapsulation, Tunnel, VXLAN_PORT, ecn};
use twinpath_core::wire::{
    Address, Endpoint, MacAddress, PacketBuilder, dissect, fields, verify_transport_checksum,
};
use twinpath_dash::headers::{Direction, Headers};
use twinpath_dash::objects::{self, *};
use twinpath_dash::samples::Objects;
use twinpath_dash::{Dpu, Reason, Settings, Verdict};

const VM_PA: &str = "25.1.1.1";
const VM_CA: &str = "10.0.0.11";
const PE_PA: &str = "101.1.2.3";
const PE_CA: &str = "10.2.0.100";
const ENI_MAC: MacAddress = MacAddress([0xf4, 0x93, 0x9f, 0xef, 0xc4, 0x7e]);
const REMOTE_MAC: MacAddress = MacAddress([0x43, 0xbe, 0x65, 0x25, 0xfa, 0x67]);
const VM_MAC: MacAddress = MacAddress([0x44, 0xe3, 0x9f, 0xef, 0xc4, 0x6e]);
const VM_VNI: u32 = 2001;
const ENCAP_VNI: u32 = 100;
const VNET1_VNI: u32 = 1001;

fn ip(text: &str) -> Address {
    text.parse().expect("an address")
}

fn bits(value: &str, mask: &str) -> MaskedBits {
    MaskedBits::new(ip(value).0, ip(mask).0)
}

fn eni_id() -> EniId {
    "eni".into()
}

fn action(
    action: ActionType,
    of: Option<objects::Encapsulation>,
    key: Option<u32>,
) -> RoutingAction {
    RoutingAction {
        name: "action".into(),
        action,
        encapsulation: of,
        vni: key.map(vni),
    }
}

/// The configuration of Private Link: a machine, an endpoint and a way back.
fn private_link() -> Objects {
    let mut objects = Objects {
        appliance: Some(Appliance {
            sip: VIP,
            vm_vni: Some(vni(VM_VNI)),
            local_region_id: 100,
            outbound_direction_lookup: DirectionLookup::SourceMac,
            trusted_vnis: [Range::one(vni(ENCAP_VNI))].into(),
        }),
        ..Objects::default()
    };
    objects.routing_types.insert(
        RoutingType::PrivateLink,
        RoutingActions {
            items: [
                action(ActionType::FourToSix, None, None),
                action(
                    ActionType::StaticEncap,
                    Some(objects::Encapsulation::Nvgre),
                    Some(ENCAP_VNI),
                ),
            ]
            .into(),
        },
    );
    let vxlan = action(
        ActionType::StaticEncap,
        Some(objects::Encapsulation::Vxlan),
        None,
    );
    for kind in [RoutingType::Vnet, RoutingType::VnetEncap] {
        let items = [vxlan.clone()].into();
        objects.routing_types.insert(kind, RoutingActions { items });
    }
    let vnet = |number| Vnet {
        vni: vni(number),
        guid: None,
        address_space: PrefixList::default(),
        peers: [].into(),
    };
    objects.vnets.insert("Vnet1".into(), vnet(VNET1_VNI));
    objects.vnets.insert("Vnet2".into(), vnet(3000));
    objects.enis.insert(
        eni_id(),
        Eni {
            eni_id: "eni".into(),
            mac_address: ENI_MAC,
            underlay_ip: Some(ip(VM_PA)),
            admin_state: AdminState::Enabled,
            vnet: "Vnet1".into(),
            qos: None,
            pl_underlay_sip: Some(VIP),
            pl_sip_encoding: Some(bits("::d107:64:ff71:0:0", "::ffff:ffff:ffff:0:0")),
            mode: EniMode::Vm,
            v4_meter_policy: None,
            v6_meter_policy: None,
            trusted_vnis: [Range::one(vni(VM_VNI))].into(),
            disable_fast_path_icmp_flow_redirection: false,
        },
    );
    objects.mappings.insert(
        ("Vnet1".into(), ip(PE_CA)),
        VnetMapping {
            routing_type: RoutingType::PrivateLink,
            underlay_ip: ip(PE_PA),
            mac_address: None,
            use_dst_vni: false,
            private_link: Some(PrivateLink {
                overlay_sip: bits("fd40:108:20:abc:abc::", "ffff:ffff:ffff:ffff:ffff:ffff::"),
                overlay_dip: MaskedBits::new(ip("2603:10e1:100:2::3401:203").0, u128::MAX),
            }),
            metering_class_or: 1586,
            tunnel: None,
            port_map: None,
        },
    );
    objects.route_groups.insert(
        "group".into(),
        vec![(
            prefix("10.2.0.0/16"),
            route(RouteAction::Vnet("Vnet1".into())),
        )],
    );
    objects.eni_routes.insert(eni_id(), "group".into());
    objects
}

/// The mapping of the private endpoint.
fn endpoint(objects: &mut Objects) -> &mut VnetMapping {
    let key = (VnetName::from("Vnet1"), ip(PE_CA));
    objects.mappings.get_mut(&key).expect("there")
}

fn prefix(text: &str) -> Prefix {
    text.parse().expect("a prefix")
}

fn route(action: RouteAction) -> Route {
    Route {
        action,
        underlay_sip: None,
        tunnel: None,
        metering: MeterBits::default(),
    }
}

fn tunnel(endpoints: &[&str], key: u32) -> objects::Tunnel {
    objects::Tunnel {
        endpoints: endpoints.iter().map(|text| ip(text)).collect(),
        encapsulation: objects::Encapsulation::Vxlan,
        vni: vni(key),
        metering_class_or: 0,
    }
}

/// A DPU and the time.
struct Bench {
    objects: Objects,
    dpu: Dpu,
    now: Instant,
    /// What the last sender of too long a packet was told.
    error: Option<Sent>,
}

impl Bench {
    fn new(objects: Objects, settings: Settings) -> Self {
        let mut dpu = Dpu::new(settings, 7);
        dpu.update(&objects, &objects.keys());
        Self {
            objects,
            dpu,
            now: Instant(1_000_000_000),
            error: None,
        }
    }

    fn of(objects: Objects) -> Self {
        let settings = Settings {
            flows: 1024,
            ..Settings::default()
        };
        Self::new(objects, settings)
    }

    /// What becomes of a frame: the layers around it from the outside in, and the inner frame.
    fn send(&mut self, frame: &[u8]) -> Result<Sent, Reason> {
        let mut buffer = vec![0; HEADROOM];
        buffer.extend_from_slice(frame);
        match self.dpu.process(&mut buffer, HEADROOM, self.now) {
            Verdict::Forward(range) => Ok(Sent::of(&buffer[range])),
            Verdict::Drop(reason) => Err(reason),
            Verdict::TooLong(error) => {
                self.error = Some(Sent::of(&error));
                Err(Reason::TooLong)
            }
        }
    }

    fn counters(&self) -> &twinpath_dash::counters::EniCounters {
        self.dpu.counters(&eni_id()).expect("there")
    }
}

#[derive(Debug, PartialEq)]
struct Sent {
    /// Kind, VNI, source and destination, and DSCP with ECN, from the outside in.
    layers: Vec<(Encapsulation, u32, Address, Address, u8)>,
    inner: Vec<u8>,
    layout: Layout,
}

impl Sent {
    fn of(mut frame: &[u8]) -> Self {
        let mut layers = Vec::new();
        loop {
            let layout = dissect(frame).expect("what leaves is sound");
            assert!(verify_transport_checksum(frame, &layout));
            let Ok(tunnel) = Tunnel::read(frame, &layout, VXLAN_PORT) else {
                let inner = frame.to_vec();
                return Self {
                    layers,
                    inner,
                    layout,
                };
            };
            let class = ecn::traffic_class(frame, &layout);
            let source = fields::source_address(frame, &layout);
            let destination = fields::destination_address(frame, &layout);
            layers.push((tunnel.encapsulation, tunnel.key, source, destination, class));
            frame = &frame[tunnel.inner()];
        }
    }

    fn headers(&self) -> Headers {
        Headers::of(&self.inner, &self.layout).expect("IP")
    }

    fn macs(&self) -> [MacAddress; 2] {
        [
            fields::source_mac(&self.inner),
            fields::destination_mac(&self.inner),
        ]
    }
}

fn tcp(from: (&str, u16), to: (&str, u16), tcp_flags: u8) -> PacketBuilder<'static> {
    PacketBuilder::tcp(
        Endpoint::new(ip(from.0), from.1),
        Endpoint::new(ip(to.0), to.1),
    )
    .flags(tcp_flags)
    .payload(b"sixteen bytes...")
}

fn udp(from: (&str, u16), to: (&str, u16)) -> PacketBuilder<'static> {
    PacketBuilder::udp(
        Endpoint::new(ip(from.0), from.1),
        Endpoint::new(ip(to.0), to.1),
    )
    .payload(b"sixteen bytes...")
}

/// A frame with a packet inside.
fn inside(
    kind: Encapsulation,
    key: u32,
    outer_source: &str,
    macs: [MacAddress; 2],
    packet: PacketBuilder<'_>,
) -> Vec<u8> {
    let inner = packet.macs(macs[0], macs[1]).to_vec().expect("a packet");
    let arrival = common::interpreter::Packet {
        direction: Direction::Outbound,
        eni: eni_id(),
        encapsulation: kind,
        vni: key,
        outer_source: ip(outer_source),
        source_mac: macs[0],
        overlay: Headers {
            source: VIP,
            destination: VIP,
            ports: None,
            protocol: 0,
        },
    };
    encapsulated(&arrival, &inner)[HEADROOM..].to_vec()
}

fn from_vm(packet: PacketBuilder<'_>) -> Vec<u8> {
    inside(
        Encapsulation::Vxlan,
        VM_VNI,
        VM_PA,
        [ENI_MAC, REMOTE_MAC],
        packet,
    )
}

const PL_SIP: &str = "fd40:108:20:d107:64:ff71:a00:b";
const PL_DIP: &str = "2603:10e1:100:2::3401:203";

#[test]
fn private_link_there_and_back() {
    let mut bench = Bench::of(private_link());
    let sent = bench
        .send(&from_vm(udp((VM_CA, 6789), (PE_CA, 4567))))
        .expect("sent");
    let layer = (Encapsulation::Nvgre, ENCAP_VNI, VIP, ip(PE_PA), 0x28);
    assert_eq!(sent.layers, [layer]);
    let headers = sent.headers();
    assert_eq!(
        [headers.source, headers.destination],
        [ip(PL_SIP), ip(PL_DIP)]
    );
    assert_eq!(headers.ports, Some([6789, 4567]));
    assert_eq!(sent.macs(), [ENI_MAC, REMOTE_MAC]);
    assert_eq!(fields::ttl(&sent.inner, &sent.layout), 64);
    // What was sent had 14 + 20 + 8 + 16 bytes: billed as the machine sent it.
    assert_eq!(bench.counters().meters.of(1586), [58, 0]);

    let answer = udp((PL_DIP, 4567), (PL_SIP, 6789));
    let answer = inside(
        Encapsulation::Nvgre,
        ENCAP_VNI,
        PE_PA,
        [REMOTE_MAC, ENI_MAC],
        answer,
    );
    let back = bench.send(&answer).expect("sent");
    assert_eq!(
        back.layers,
        [(Encapsulation::Vxlan, VM_VNI, VIP, ip(VM_PA), 0x28)]
    );
    let headers = back.headers();
    assert_eq!(
        [headers.source, headers.destination],
        [ip(PE_CA), ip(VM_CA)]
    );
    assert_eq!(headers.ports, Some([4567, 6789]));
    assert_eq!(back.macs(), [REMOTE_MAC, ENI_MAC]);
    assert_eq!(bench.counters().meters.of(1586), [58, 58]);
}

#[test]
fn an_answer_of_no_flow_needs_an_inbound_rule() {
    let mut bench = Bench::of(private_link());
    let stray = udp((PL_DIP, 4567), (PL_SIP, 6789));
    let stray = inside(
        Encapsulation::Nvgre,
        ENCAP_VNI,
        PE_PA,
        [REMOTE_MAC, ENI_MAC],
        stray,
    );
    assert_eq!(bench.send(&stray), Err(Reason::InboundRouteMiss));
}

#[test]
fn a_security_group_is_a_second_tunnel() {
    let mut objects = private_link();
    objects.tunnels.insert(
        "Tunnel4".into(),
        tunnel(&["90.90.90.90", "10.10.10.10"], 100),
    );
    endpoint(&mut objects).tunnel = Some("Tunnel4".into());
    let mut bench = Bench::of(objects);
    let mut counts = std::collections::BTreeMap::new();
    for port in 0..400 {
        let packet = udp((VM_CA, 40_000 + port), (PE_CA, 4567));
        let sent = bench.send(&from_vm(packet)).expect("sent");
        let [(kind, key, source, endpoint, _), inner] = sent.layers[..] else {
            panic!("{:?}", sent.layers);
        };
        assert_eq!((kind, key, source), (Encapsulation::Vxlan, 100, VIP));
        assert_eq!(
            inner,
            (Encapsulation::Nvgre, ENCAP_VNI, VIP, ip(PE_PA), 0x28)
        );
        *counts.entry(endpoint).or_insert(0) += 1;
        assert_eq!(sent.headers().destination, ip(PL_DIP));
    }
    assert_eq!(counts.len(), 2);
    assert!(
        counts.values().all(|count| (150..250).contains(count)),
        "{counts:?}"
    );
}

#[test]
fn a_redirect_map_moves_ports_to_a_backend() {
    let mut objects = private_link();
    let range = Range::new(8001, 9000).expect("in order");
    let backend = PortMapRange::PrivateLinkService {
        backend_ip: ip("60.60.60.1"),
        backend_port_base: 42_001,
    };
    objects
        .port_maps
        .insert("portmap_1".into(), [(range, backend)].into());
    endpoint(&mut objects).port_map = Some("portmap_1".into());
    let mut bench = Bench::of(objects);
    for (port, moved) in [(8001, 42_001), (8500, 42_500), (9000, 43_000)] {
        let packet = tcp((VM_CA, 12_345), (PE_CA, port), flags::SYN);
        let sent = bench.send(&from_vm(packet)).expect("sent");
        assert_eq!(sent.layers[0].3, ip("60.60.60.1"));
        let headers = sent.headers();
        assert_eq!(headers.ports, Some([12_345, moved]));
        assert_eq!(headers.destination, ip("2603:10e1:100:2::3c3c:3c01"));
        let answer = tcp(
            ("2603:10e1:100:2::3c3c:3c01", moved),
            (PL_SIP, 12_345),
            flags::SYN | flags::ACK,
        );
        let macs = [REMOTE_MAC, ENI_MAC];
        let answer = inside(Encapsulation::Nvgre, ENCAP_VNI, "60.60.60.1", macs, answer);
        let back = bench.send(&answer).expect("sent").headers();
        assert_eq!(back.ports, Some([port, 12_345]));
        assert_eq!([back.source, back.destination], [ip(PE_CA), ip(VM_CA)]);
    }
    for port in [8000, 9001] {
        let packet = tcp((VM_CA, 12_345), (PE_CA, port), flags::SYN);
        let sent = bench.send(&from_vm(packet)).expect("sent");
        assert_eq!(
            sent.layers[0].3,
            ip(PE_PA),
            "beside the range nothing is moved"
        );
        assert_eq!(sent.headers().ports, Some([12_345, port]));
    }
}

#[test]
fn a_floating_nic_answers_by_its_routes() {
    let mut objects = private_link();
    objects
        .tunnels
        .insert("Tunnel1".into(), tunnel(&["40.40.40.40"], ENCAP_VNI));
    let mut back = route(RouteAction::Direct);
    back.tunnel = Some("Tunnel1".into());
    let routes = objects.route_groups.get_mut("group").expect("there");
    routes.push((prefix("10.0.0.0/16"), back));
    let eni = objects.enis.get_mut("eni").expect("there");
    eni.mode = EniMode::FloatingNic;
    eni.trusted_vnis = [Range::one(vni(800))].into();
    for (key, source) in [(800, "25.1.1.1/32"), (ENCAP_VNI, "101.1.2.3/32")] {
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
    let mut bench = Bench::of(objects);
    let packet = udp((VM_CA, 6789), (PE_CA, 4567));
    for kind in [Encapsulation::Vxlan, Encapsulation::Nvgre] {
        let frame = inside(kind, 800, VM_PA, [VM_MAC, ENI_MAC], packet);
        let sent = bench.send(&frame).expect("sent");
        assert_eq!(sent.layers[0].3, ip(PE_PA));
        assert_eq!(sent.headers().destination, ip(PL_DIP));
        assert_eq!(sent.macs()[0], ENI_MAC);
    }
    let answer = udp((PL_DIP, 4567), (PL_SIP, 6789));
    let answer = inside(
        Encapsulation::Nvgre,
        ENCAP_VNI,
        PE_PA,
        [REMOTE_MAC, ENI_MAC],
        answer,
    );
    let back = bench.send(&answer).expect("sent");
    let layer = (
        Encapsulation::Vxlan,
        ENCAP_VNI,
        VIP,
        ip("40.40.40.40"),
        0x28,
    );
    assert_eq!(back.layers, [layer]);
    assert_eq!(back.headers().destination, ip(VM_CA));
    assert_eq!(back.macs(), [ENI_MAC, VM_MAC]);
}

/// Two networks, a machine in the first, and a peer in the second.
fn peers() -> Objects {
    let mut objects = private_link();
    for (vnet, address, host) in [
        ("Vnet1", "10.2.0.7", "100.0.0.7"),
        ("Vnet2", "10.2.0.8", "100.0.0.8"),
        ("Vnet2", "fd02::8", "100.0.0.8"),
    ] {
        let mapping = VnetMapping {
            routing_type: RoutingType::VnetEncap,
            underlay_ip: ip(host),
            mac_address: Some(REMOTE_MAC),
            use_dst_vni: true,
            private_link: None,
            metering_class_or: 0,
            tunnel: None,
            port_map: None,
        };
        objects.mappings.insert((vnet.into(), ip(address)), mapping);
    }
    let routes = objects.route_groups.get_mut("group").expect("there");
    routes.push((
        prefix("10.2.0.8/32"),
        route(RouteAction::Vnet("Vnet2".into())),
    ));
    routes.push((
        prefix("fd02::/64"),
        route(RouteAction::Vnet("Vnet2".into())),
    ));
    let direct = RouteAction::VnetDirect {
        vnet: "Vnet2".into(),
        overlay_ip: Some(ip("10.2.0.8")),
    };
    routes.push((prefix("10.3.0.0/16"), route(direct)));
    routes.push((prefix("30.0.0.0/16"), route(RouteAction::Direct)));
    objects.enis.get_mut("eni").expect("there").trusted_vnis =
        [Range::one(vni(3000)), Range::one(vni(VM_VNI))].into();
    let key = RouteRuleKey {
        eni: eni_id(),
        vni: vni(3000),
        source: prefix("100.0.0.0/24"),
        priority: Some(1),
    };
    let rule = RouteRule {
        priority: 1,
        action: InboundAction::Decap,
        protocol: None,
        vnet: Some("Vnet2".into()),
        pa_validation: Some(true),
        metering: MeterBits::default(),
        region: None,
    };
    objects.route_rules.push((key, rule));
    objects
}

fn from_peer(host: &str, packet: PacketBuilder<'_>) -> Vec<u8> {
    inside(
        Encapsulation::Vxlan,
        3000,
        host,
        [REMOTE_MAC, ENI_MAC],
        packet,
    )
}

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
    let unknown = [VM_MAC, REMOTE_MAC];
    let unknown = inside(Encapsulation::Vxlan, VM_VNI, VM_PA, unknown, packet);
    assert_eq!(bench.send(&unknown), Err(Reason::EniMiss));
    assert_eq!(bench.dpu.drops().of(Reason::EniMiss), 1);
}

#[test]
fn connections_begin_with_their_first_segment() {
    let mut bench = Bench::of(peers());
    let segment = |tcp_flags| from_vm(tcp((VM_CA, 1), ("10.2.0.8", 2), tcp_flags));
    assert_eq!(bench.send(&segment(flags::ACK)), Err(Reason::NoFlow));
    bench.send(&segment(flags::SYN)).expect("opened");
    bench.send(&segment(flags::ACK)).expect("of the connection");
    assert_eq!(bench.dpu.flow_count(), 1);
    let answer = |tcp_flags| from_peer("100.0.0.8", tcp(("10.2.0.8", 2), (VM_CA, 1), tcp_flags));
    bench
        .send(&answer(flags::SYN | flags::ACK))
        .expect("answered");
    bench
        .send(&segment(flags::FIN | flags::ACK))
        .expect("half done");
    bench.now = Instant(bench.now.0 + 100_000_000_000);
    bench
        .send(&answer(flags::ACK))
        .expect("the other half goes on");
    bench.send(&answer(flags::FIN | flags::ACK)).expect("done");
    bench
        .send(&segment(flags::ACK))
        .expect("what is under way passes");
    bench.now = Instant(bench.now.0 + 31_000_000_000);
    assert_eq!(bench.send(&segment(flags::ACK)), Err(Reason::NoFlow));
    assert_eq!(bench.dpu.flow_count(), 0);
    assert_eq!(bench.counters().flows_aged, 1);
}

#[test]
fn a_new_connection_takes_the_place_of_one_that_has_ended() {
    let mut bench = Bench::of(peers());
    let segment = |tcp_flags| from_vm(tcp((VM_CA, 1), ("10.2.0.8", 2), tcp_flags));
    bench.send(&segment(flags::SYN)).expect("opened");
    bench.send(&segment(flags::RST)).expect("reset");
    bench.send(&segment(flags::SYN)).expect("opened again");
    let counters = bench.counters();
    assert_eq!((counters.flows_created, counters.flows_removed), (2, 1));
    assert_eq!(bench.dpu.flow_count(), 1);
}

#[test]
fn idle_flows_are_swept() {
    let mut bench = Bench::of(peers());
    for port in 0..50 {
        bench
            .send(&from_vm(udp((VM_CA, port), ("10.2.0.8", 2))))
            .expect("sent");
    }
    bench.dpu.age(100_000, bench.now);
    assert_eq!(bench.dpu.flow_count(), 50);
    bench.now = Instant(bench.now.0 + 121_000_000_000);
    bench.dpu.age(100_000, bench.now);
    assert_eq!(
        (bench.dpu.flow_count(), bench.counters().flows_aged),
        (0, 50)
    );
    assert_eq!(bench.dpu.flows_of(0), 0);
}

/// An established connection follows a new policy with its next packet, of either direction.
#[test]
fn policies_change_in_mid_connection() {
    let mut bench = Bench::of(peers());
    let segment = |tcp_flags| from_vm(tcp((VM_CA, 1), ("10.2.0.8", 2), tcp_flags));
    let answer = |host: &str| from_peer(host, tcp(("10.2.0.8", 2), (VM_CA, 1), flags::ACK));
    bench.send(&segment(flags::SYN)).expect("opened");
    let key = (VnetName::from("Vnet2"), ip("10.2.0.8"));
    bench
        .objects
        .mappings
        .get_mut(&key)
        .expect("there")
        .underlay_ip = ip("100.0.0.99");
    let changed = [Key::VnetMapping(VnetMappingKey {
        vnet: "Vnet2".into(),
        address: ip("10.2.0.8"),
    })];
    bench.dpu.update(&bench.objects, &changed);
    let sent = bench.send(&segment(flags::ACK)).expect("of the connection");
    assert_eq!(sent.layers[0].3, ip("100.0.0.99"));
    assert_eq!(bench.counters().flows_resimulated, 1);
    bench.send(&segment(flags::ACK)).expect("of the connection");
    assert_eq!(bench.counters().flows_resimulated, 1, "once");

    // A route to nowhere: the answer is the first to meet it.
    let routes = bench.objects.route_groups.get_mut("group").expect("there");
    let route = routes
        .iter_mut()
        .find(|(of, _)| *of == prefix("10.2.0.8/32"));
    route.expect("there").1.action = RouteAction::Drop;
    let key = RouteKey {
        group: "group".into(),
        prefix: prefix("10.2.0.8/32"),
    };
    bench.dpu.update(&bench.objects, &[Key::Route(key)]);
    assert_eq!(bench.send(&answer("100.0.0.99")), Err(Reason::RouteDrop));
    assert_eq!(bench.dpu.flow_count(), 0);
    assert_eq!(bench.send(&segment(flags::ACK)), Err(Reason::NoFlow));
}

#[test]
fn limits_are_kept_and_neighbours_untouched() {
    let mut objects = peers();
    let qos = Qos {
        qos_id: "qos".into(),
        bandwidth_kbps: 0,
        connections_per_second: 0,
        flows: 10,
    };
    objects.qos.insert("qos".into(), qos);
    objects.enis.get_mut("eni").expect("there").qos = Some("qos".into());
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

#[test]
fn rates_are_kept() {
    let mut objects = peers();
    let qos = Qos {
        qos_id: "qos".into(),
        bandwidth_kbps: 1000,
        connections_per_second: 100,
        flows: 0,
    };
    objects.qos.insert("qos".into(), qos);
    objects.enis.get_mut("eni").expect("there").qos = Some("qos".into());
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
    let mut passed = 0;
    for _ in 0..10_000 {
        bench.now = Instant(bench.now.0 + 100_000);
        let packet = udp((VM_CA, 0), ("10.2.0.8", 2));
        passed += usize::from(bench.send(&from_vm(packet)).is_ok());
    }
    assert!((2150..2200).contains(&passed), "{passed}");
}

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
fn fragments_follow_the_first() {
    let mut bench = Bench::of(private_link());
    let body: Vec<u8> = (0..600u32).map(|at| at as u8).collect();
    let whole = PacketBuilder::udp(
        Endpoint::new(ip(VM_CA), 6789),
        Endpoint::new(ip(PE_CA), 4567),
    )
    .identification(0x1234)
    .payload(&body)
    .macs(ENI_MAC, REMOTE_MAC)
    .to_vec()
    .expect("a packet");
    let layout = dissect(&whole).expect("sound");
    let pieces = twinpath_core::wire::fragment::cut(&whole, &layout, 400, 0x1234).expect("cut");
    assert!(pieces.len() > 1);
    let arrival = common::interpreter::Packet {
        direction: Direction::Outbound,
        eni: eni_id(),
        encapsulation: Encapsulation::Vxlan,
        vni: VM_VNI,
        outer_source: ip(VM_PA),
        source_mac: ENI_MAC,
        overlay: Headers::of(&whole, &layout).expect("IP"),
    };
    let frames: Vec<_> = pieces
        .iter()
        .map(|piece| encapsulated(&arrival, piece)[HEADROOM..].to_vec())
        .collect();
    assert_eq!(bench.send(&frames[1]), Err(Reason::FragmentAlone));
    for frame in &frames {
        let sent = bench.send(frame).expect("sent");
        assert_eq!(sent.headers().destination, ip(PL_DIP));
        assert_eq!(sent.layers[0].3, ip(PE_PA));
    }
    assert_eq!(bench.dpu.flow_count(), 1);
}

#[test]
fn errors_go_the_way_of_their_flow() {
    let mut bench = Bench::of(peers());
    let packet = udp((VM_CA, 1), ("10.2.0.8", 2)).macs(ENI_MAC, REMOTE_MAC);
    let quoted = packet.to_vec().expect("a packet");
    let kind = twinpath_core::wire::icmp::IcmpError::PacketTooBig { mtu: 1400 };
    let error = PacketBuilder::icmp_error(kind, &quoted).source_address(ip("10.2.0.1"));
    assert_eq!(
        bench.send(&from_peer("100.0.0.8", error)),
        Err(Reason::IcmpError)
    );
    bench.send(&from_vm(packet)).expect("sent");
    let back = bench.send(&from_peer("100.0.0.8", error)).expect("sent");
    assert_eq!(back.layers[0].3, ip(VM_PA));
    assert_eq!(back.headers().destination, ip(VM_CA));
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
    assert!(
        bench.error.is_none(),
        "who lets others fragment is not told"
    );
    let told = (0..1000).filter(|_| {
        let _ = send(&mut bench, v4, 1500, false);
        bench.error.is_some()
    });
    assert!((5..20).contains(&told.count()), "errors have a rate");
    assert_eq!(bench.counters().drops.of(Reason::TooLong), 1003);
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
        if let Verdict::Forward(range) = bench.dpu.process(&mut buffer, HEADROOM, bench.now) {
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
