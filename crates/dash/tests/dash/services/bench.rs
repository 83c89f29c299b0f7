//! A DPU, the time, and the configurations and packets of SONiC's public tests.

pub use twinpath_classify::Prefix;
pub use twinpath_core::Instant;
pub use twinpath_core::wire::layout::Layout;
pub use twinpath_core::wire::tcp::flags;
pub use twinpath_core::wire::tunnel::{Encapsulation, Tunnel, VXLAN_PORT, ecn};
pub use twinpath_core::wire::{
    Address, Endpoint, MacAddress, PacketBuilder, dissect, fields, verify_transport_checksum,
};
pub use twinpath_dash::headers::{Direction, Headers};
pub use twinpath_dash::objects::{self, *};
pub use twinpath_dash::samples::Objects;
pub use twinpath_dash::{Dpu, Reason, Settings, Verdict};

pub use crate::common::leaving::treat;
pub use crate::common::packets::{Dice, HEADROOM, VIP, encapsulated, vni};

pub const VM_PA: &str = "25.1.1.1";
pub const VM_CA: &str = "10.0.0.11";
pub const PE_PA: &str = "101.1.2.3";
pub const PE_CA: &str = "10.2.0.100";
pub const ENI_MAC: MacAddress = MacAddress([0xf4, 0x93, 0x9f, 0xef, 0xc4, 0x7e]);
pub const REMOTE_MAC: MacAddress = MacAddress([0x43, 0xbe, 0x65, 0x25, 0xfa, 0x67]);
pub const VM_MAC: MacAddress = MacAddress([0x44, 0xe3, 0x9f, 0xef, 0xc4, 0x6e]);
pub const VM_VNI: u32 = 2001;
pub const ENCAP_VNI: u32 = 100;
pub const VNET1_VNI: u32 = 1001;

pub fn ip(text: &str) -> Address {
    text.parse().expect("an address")
}

pub fn bits(value: &str, mask: &str) -> MaskedBits {
    MaskedBits::new(ip(value).0, ip(mask).0)
}

pub fn eni_id() -> EniId {
    "eni".into()
}

pub fn action(
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
pub fn private_link() -> Objects {
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
pub fn endpoint(objects: &mut Objects) -> &mut VnetMapping {
    let key = (VnetName::from("Vnet1"), ip(PE_CA));
    objects.mappings.get_mut(&key).expect("there")
}

pub fn prefix(text: &str) -> Prefix {
    text.parse().expect("a prefix")
}

pub fn route(action: RouteAction) -> Route {
    Route {
        action,
        underlay_sip: None,
        tunnel: None,
        metering: MeterBits::default(),
    }
}

pub fn tunnel(endpoints: &[&str], key: u32) -> objects::Tunnel {
    objects::Tunnel {
        endpoints: endpoints.iter().map(|text| ip(text)).collect(),
        encapsulation: objects::Encapsulation::Vxlan,
        vni: vni(key),
        metering_class_or: 0,
    }
}

/// A DPU and the time.
pub struct Bench {
    pub objects: Objects,
    pub dpu: Dpu,
    pub now: Instant,
    /// What the last sender of too long a packet was told.
    pub error: Option<Sent>,
}

impl Bench {
    pub fn new(objects: Objects, settings: Settings) -> Self {
        let mut dpu = Dpu::new(settings, 7);
        dpu.update(&objects, &objects.keys());
        Self {
            objects,
            dpu,
            now: Instant(1_000_000_000),
            error: None,
        }
    }

    pub fn of(objects: Objects) -> Self {
        let settings = Settings {
            flows: 1024,
            ..Settings::default()
        };
        Self::new(objects, settings)
    }

    /// What becomes of a frame: the layers around it from the outside in, and the inner frame.
    pub fn send(&mut self, frame: &[u8]) -> Result<Sent, Reason> {
        let mut buffer = vec![0; HEADROOM];
        buffer.extend_from_slice(frame);
        match treat(&mut self.dpu, &mut buffer, self.now) {
            Verdict::Forward(range) => Ok(Sent::of(&buffer[range])),
            Verdict::Drop(reason) => Err(reason),
            Verdict::TooLong(error) => {
                self.error = Some(Sent::of(&error));
                Err(Reason::TooLong)
            }
        }
    }

    /// The frame that leaves, be it the packet or what its sender is told.
    pub fn raw(&mut self, frame: &[u8]) -> Option<Vec<u8>> {
        let mut buffer = vec![0; HEADROOM];
        buffer.extend_from_slice(frame);
        match treat(&mut self.dpu, &mut buffer, self.now) {
            Verdict::Forward(range) => Some(buffer[range].to_vec()),
            Verdict::Drop(_) => None,
            Verdict::TooLong(error) => Some(error),
        }
    }

    pub fn counters(&self) -> &twinpath_dash::counters::EniCounters {
        self.dpu.counters(&eni_id()).expect("there")
    }
}

#[derive(Debug, PartialEq)]
pub struct Sent {
    /// Kind, VNI, source and destination, and DSCP with ECN, from the outside in.
    pub layers: Vec<(Encapsulation, u32, Address, Address, u8)>,
    pub inner: Vec<u8>,
    pub layout: Layout,
}

impl Sent {
    pub fn of(mut frame: &[u8]) -> Self {
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

    pub fn headers(&self) -> Headers {
        Headers::of(&self.inner, &self.layout).expect("IP")
    }

    pub fn macs(&self) -> [MacAddress; 2] {
        [
            fields::source_mac(&self.inner),
            fields::destination_mac(&self.inner),
        ]
    }
}

pub fn tcp(from: (&str, u16), to: (&str, u16), tcp_flags: u8) -> PacketBuilder<'static> {
    PacketBuilder::tcp(
        Endpoint::new(ip(from.0), from.1),
        Endpoint::new(ip(to.0), to.1),
    )
    .flags(tcp_flags)
    .payload(b"sixteen bytes...")
}

pub fn udp(from: (&str, u16), to: (&str, u16)) -> PacketBuilder<'static> {
    PacketBuilder::udp(
        Endpoint::new(ip(from.0), from.1),
        Endpoint::new(ip(to.0), to.1),
    )
    .payload(b"sixteen bytes...")
}

/// A frame with a packet inside.
pub fn inside(
    kind: Encapsulation,
    key: u32,
    outer_source: &str,
    macs: [MacAddress; 2],
    packet: PacketBuilder<'_>,
) -> Vec<u8> {
    let inner = packet.macs(macs[0], macs[1]).to_vec().expect("a packet");
    let arrival = crate::common::interpreter::Packet {
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

pub fn from_vm(packet: PacketBuilder<'_>) -> Vec<u8> {
    inside(
        Encapsulation::Vxlan,
        VM_VNI,
        VM_PA,
        [ENI_MAC, REMOTE_MAC],
        packet,
    )
}

pub const PL_SIP: &str = "fd40:108:20:d107:64:ff71:a00:b";
pub const PL_DIP: &str = "2603:10e1:100:2::3401:203";

/// Two networks, a machine in the first, and a peer in the second.
pub fn peers() -> Objects {
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

pub fn from_peer(host: &str, packet: PacketBuilder<'_>) -> Vec<u8> {
    inside(
        Encapsulation::Vxlan,
        3000,
        host,
        [REMOTE_MAC, ENI_MAC],
        packet,
    )
}
