//! Random configurations and packets, small enough that packets often meet something.

use std::collections::BTreeMap;

use twinpath_classify::Prefix;
use twinpath_core::wire::tunnel::{Encapsulation, Outer, VXLAN_PORT, Varying};
use twinpath_core::wire::{Address, Endpoint, MacAddress, PacketBuilder, protocol};
use twinpath_dash::headers::{Direction, Headers};
use twinpath_dash::objects::{self, *};

use super::interpreter::Packet;
use twinpath_dash::samples::Objects;

/// Room in front of frames.
pub const HEADROOM: usize = 160;
/// The DPU's address where the underlay is IPv4.
pub const VIP: Address = Address::from_v4([10, 1, 0, 5]);
/// The DPU's address where it is IPv6.
const VIP6: Address = Address(0x2001_0db8_0001 << 80 | 5);
/// The VNI of packets from machines.
pub const VM_VNI: u32 = 2001;

/// Numbers from a seed (SplitMix64).
pub struct Dice(pub u64);

impl Dice {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    /// True once in so many times.
    pub fn one_in(&mut self, many: u64) -> bool {
        self.below(many) == 0
    }

    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize]
    }

    pub fn maybe<T>(&mut self, make: impl FnOnce(&mut Self) -> T) -> Option<T> {
        (!self.one_in(2)).then(|| make(self))
    }
}

pub fn vni(number: u32) -> Vni {
    Vni::new(number).expect("24 bits")
}

/// A customer address: few, the same for all tenants.
pub fn customer(dice: &mut Dice, is_v4: bool) -> Address {
    let low = dice.below(8) as u8;
    match is_v4 {
        true => Address::from_v4([10, dice.below(2) as u8, 0, low]),
        false => Address(0xfd00 << 112 | u128::from(dice.below(2)) << 64 | u128::from(low)),
    }
}

/// The DPU's address in an underlay.
const fn vip(is_v4: bool) -> Address {
    match is_v4 {
        true => VIP,
        false => VIP6,
    }
}

/// Whether the underlay that a DPU stands in is IPv4.
pub fn is_underlay_v4(objects: &Objects) -> bool {
    let appliance = objects.appliance.as_ref();
    appliance.is_none_or(|appliance| appliance.sip.is_v4())
}

/// A host of an underlay.
pub fn host(is_v4: bool, number: u8) -> Address {
    match is_v4 {
        true => Address::from_v4([100, 0, 0, number]),
        false => Address(0x2001_0db8 << 96 | u128::from(number)),
    }
}

/// The host of an ENI's machine.
fn machine_host(is_v4: bool, number: u8) -> Address {
    match is_v4 {
        true => Address::from_v4([25, 1, 1, number]),
        false => Address(0x2001_0db8_0025 << 80 | u128::from(number)),
    }
}

/// An end of tunnels.
fn tunnel_end(is_v4: bool, number: u8) -> Address {
    match is_v4 {
        true => Address::from_v4([60, 60, 60, number]),
        false => Address(0x2001_0db8_0060 << 80 | u128::from(number)),
    }
}

/// A physical address, nearly always of the underlay's version.
pub fn physical(dice: &mut Dice, is_v4: bool) -> Address {
    let is_odd = dice.one_in(16);
    host(is_v4 != is_odd, dice.below(6) as u8)
}

pub fn mac(dice: &mut Dice) -> MacAddress {
    MacAddress([2, 0, 0, 0, 1, dice.below(4) as u8])
}

/// The MAC address of an ENI by its number.
pub fn eni_mac(number: u8) -> MacAddress {
    MacAddress([0xf4, 0x93, 0x9f, 0xef, 0xc4, number])
}

pub fn eni_id(number: u8) -> EniId {
    format!("eni{number}").as_str().into()
}

fn name(kind: &str, number: u64) -> String {
    format!("{kind}{number}")
}

fn meter_bits(dice: &mut Dice) -> MeterBits {
    match dice.below(3) {
        0 => MeterBits::default(),
        1 => MeterBits {
            or: dice.below(8) as u32,
            and: u32::MAX,
        },
        _ => MeterBits {
            or: dice.below(8) as u32,
            and: dice.below(8) as u32,
        },
    }
}

fn masked(dice: &mut Dice) -> MaskedBits {
    let value = 0xfd40_0108_0020_0abc_abcd_0000_0000_0000u128 | u128::from(dice.next()) << 20;
    let mask = dice.pick(&[
        !0 << 32,
        !0,
        0xffff_ffff_ffff_u128 << 48,
        0,
        0xff << 120,
        !0 << 64,
    ]);
    MaskedBits::new(value, mask)
}

fn prefix(dice: &mut Dice, is_v4: bool) -> Prefix {
    let longest = if is_v4 { 32 } else { 128 };
    let length = longest - dice.pick(&[0, 0, 1, 2, 3, 24, longest]);
    Prefix::covering(customer(dice, is_v4), length)
}

fn prefixes(dice: &mut Dice, is_v4: bool, most: u64) -> PrefixList {
    (0..dice.below(most + 1))
        .map(|_| prefix(dice, is_v4))
        .collect()
}

fn ports(dice: &mut Dice) -> Box<[PortRange]> {
    let count = dice.pick(&[0, 0, 1, 2]);
    let range = |dice: &mut Dice| {
        let (one, other) = (dice.below(5) as u16, dice.below(5) as u16);
        Range::new(one.min(other), one.max(other)).expect("in order")
    };
    (0..count).map(|_| range(dice)).collect()
}

fn acl_rule(dice: &mut Dice, is_v4: bool) -> AclRule {
    let tags = |dice: &mut Dice| -> Box<[TagName]> {
        let count = dice.pick(&[0, 0, 0, 1, 2]);
        (0..count)
            .map(|_| TagName::from(&*name("tag", dice.below(3))))
            .collect()
    };
    AclRule {
        priority: dice.below(1_000_000) as u32,
        action: dice.pick(&[AclAction::Permit, AclAction::Permit, AclAction::Deny]),
        terminating: dice.one_in(2),
        protocols: match dice.below(3) {
            0 => [].into(),
            1 => [protocol::UDP, protocol::ICMP, protocol::ICMP6].into(),
            _ => [protocol::TCP, protocol::UDP].into(),
        },
        src_addr: prefixes(dice, is_v4, 2),
        dst_addr: prefixes(dice, is_v4, 2),
        src_tag: tags(dice),
        dst_tag: tags(dice),
        src_port: ports(dice),
        dst_port: ports(dice),
    }
}

/// What nothing else matches may pass, unless a later list says otherwise.
fn permit_all() -> AclRule {
    AclRule {
        priority: u32::MAX,
        action: AclAction::Permit,
        terminating: false,
        protocols: [].into(),
        src_addr: PrefixList::default(),
        dst_addr: PrefixList::default(),
        src_tag: [].into(),
        dst_tag: [].into(),
        src_port: [].into(),
        dst_port: [].into(),
    }
}

fn routing_type(dice: &mut Dice, kind: RoutingType) -> RoutingActions {
    let item = |action, encapsulation, vni| RoutingAction {
        name: "action".into(),
        action,
        encapsulation,
        vni,
    };
    let encap = |dice: &mut Dice| {
        let encapsulation = dice.pick(&[
            None,
            Some(objects::Encapsulation::Vxlan),
            Some(objects::Encapsulation::Nvgre),
        ]);
        let own = dice.maybe(|dice| vni(100 + dice.below(3) as u32));
        item(ActionType::StaticEncap, encapsulation, own)
    };
    let mut items = Vec::new();
    if kind == RoutingType::PrivateLink {
        items.push(item(ActionType::FourToSix, None, None));
    }
    match dice.below(12) {
        0 => items.push(item(ActionType::Drop, None, None)),
        1 => items.extend([encap(dice), encap(dice)]),
        2 => items.extend([encap(dice), encap(dice), encap(dice)]),
        3 => items.push(item(ActionType::MapRouting, None, None)),
        4 => items.push(item(ActionType::Appliance, None, None)),
        _ => items.push(encap(dice)),
    }
    RoutingActions {
        items: items.into(),
    }
}

fn route(dice: &mut Dice, is_v4: bool) -> Route {
    let vnet = |dice: &mut Dice| VnetName::from(&*name("vnet", dice.below(4)));
    let action = match dice.below(8) {
        0 => RouteAction::Drop,
        1 => RouteAction::Direct,
        2 => RouteAction::ServiceTunnel(Box::new(ServiceTunnel {
            overlay_sip: masked(dice),
            overlay_dip: masked(dice),
            underlay_sip: dice.maybe(|dice| physical(dice, is_v4)),
            underlay_dip: dice.maybe(|dice| physical(dice, is_v4)),
        })),
        3 => RouteAction::VnetDirect {
            vnet: vnet(dice),
            overlay_ip: dice.maybe(|dice| {
                let is_v4 = !dice.one_in(4);
                customer(dice, is_v4)
            }),
        },
        _ => RouteAction::Vnet(vnet(dice)),
    };
    Route {
        action,
        underlay_sip: if dice.one_in(4) {
            Some(physical(dice, is_v4))
        } else {
            None
        },
        tunnel: dice
            .one_in(4)
            .then(|| name("tunnel", dice.below(3)).as_str().into()),
        metering: meter_bits(dice),
    }
}

fn mapping(dice: &mut Dice, is_v4: bool) -> VnetMapping {
    let routing_type = dice.pick(&[
        RoutingType::VnetEncap,
        RoutingType::VnetEncap,
        RoutingType::Vnet,
        RoutingType::PrivateLink,
    ]);
    let is_private = routing_type == RoutingType::PrivateLink;
    VnetMapping {
        routing_type,
        underlay_ip: physical(dice, is_v4),
        mac_address: dice.maybe(mac),
        use_dst_vni: dice.one_in(2),
        private_link: is_private.then(|| PrivateLink {
            overlay_sip: masked(dice),
            overlay_dip: masked(dice),
        }),
        metering_class_or: dice.below(16) as u32,
        tunnel: dice
            .one_in(4)
            .then(|| name("tunnel", dice.below(3)).as_str().into()),
        port_map: (is_private && dice.one_in(2))
            .then(|| name("map", dice.below(3)).as_str().into()),
    }
}

fn eni(dice: &mut Dice, number: u8, is_v4: bool) -> Eni {
    Eni {
        eni_id: name("eni", number.into()).as_str().into(),
        mac_address: eni_mac(number),
        underlay_ip: (!dice.one_in(20)).then(|| machine_host(is_v4, number)),
        admin_state: AdminState::Enabled,
        vnet: name("vnet", dice.below(3)).as_str().into(),
        qos: None,
        pl_underlay_sip: dice.maybe(|dice| physical(dice, is_v4)),
        pl_sip_encoding: dice.maybe(masked),
        mode: match dice.one_in(4) {
            true => EniMode::FloatingNic,
            false => EniMode::Vm,
        },
        v4_meter_policy: dice.maybe(|dice| name("policy", dice.below(2)).as_str().into()),
        v6_meter_policy: dice.maybe(|dice| name("policy", 2 + dice.below(2)).as_str().into()),
        trusted_vnis: match dice.one_in(3) {
            // The last of these is no network's.
            true => {
                [Range::new(vni(1000), vni(dice.pick(&[1001, 1003]))).expect("in order")].into()
            }
            false => [].into(),
        },
        disable_fast_path_icmp_flow_redirection: false,
    }
}

/// A configuration in which ENIs of several tenants use the same addresses; in one of three the
/// underlay is IPv6.
pub fn configuration(dice: &mut Dice, enis: u8) -> Objects {
    let is_v4 = !dice.one_in(3);
    configuration_over(dice, enis, is_v4)
}

/// One over an underlay of an IP version.
pub fn configuration_over(dice: &mut Dice, enis: u8, is_underlay_v4: bool) -> Objects {
    let mut objects = Objects {
        appliance: Some(Appliance {
            sip: vip(is_underlay_v4),
            vm_vni: Some(vni(VM_VNI)),
            local_region_id: 100,
            outbound_direction_lookup: DirectionLookup::SourceMac,
            trusted_vnis: match dice.one_in(3) {
                true => [Range::new(vni(100), vni(1002)).expect("in order")].into(),
                false => [].into(),
            },
        }),
        ..Objects::default()
    };
    for number in 0..3 {
        let vnet = Vnet {
            vni: vni(1000 + number as u32),
            guid: None,
            address_space: PrefixList::default(),
            peers: [].into(),
        };
        objects
            .vnets
            .insert(name("vnet", number).as_str().into(), vnet);
        let prefixes = match dice.one_in(4) {
            true => PrefixList::default(),
            false => prefixes(dice, number != 2, 3),
        };
        let tag = PrefixTag {
            ip_version: if number == 2 {
                IpVersion::V6
            } else {
                IpVersion::V4
            },
            prefixes,
        };
        objects
            .tags
            .insert(name("tag", number).as_str().into(), tag);
        let endpoints = (0..=dice.below(3)).map(|end| tunnel_end(is_underlay_v4, end as u8));
        let tunnel = Tunnel {
            endpoints: endpoints.collect(),
            encapsulation: dice
                .pick(&[objects::Encapsulation::Vxlan, objects::Encapsulation::Nvgre]),
            vni: vni(300 + number as u32),
            metering_class_or: dice.pick(&[0, 0, 32]),
        };
        if !dice.one_in(6) {
            objects
                .tunnels
                .insert(name("tunnel", number).as_str().into(), tunnel);
        }
        let mut map = BTreeMap::new();
        map.insert(
            Range::new(1, 2).expect("in order"),
            PortMapRange::PrivateLinkService {
                backend_ip: tunnel_end(is_underlay_v4, 1),
                backend_port_base: 42_001,
            },
        );
        map.insert(Range::one(3), PortMapRange::SkipMapping);
        if !dice.one_in(4) {
            objects
                .port_maps
                .insert(name("map", number).as_str().into(), map);
        }
    }
    for kind in [
        RoutingType::Vnet,
        RoutingType::VnetEncap,
        RoutingType::PrivateLink,
        RoutingType::ServiceTunnel,
    ] {
        if !dice.one_in(12) {
            let actions = routing_type(dice, kind);
            objects.routing_types.insert(kind, actions);
        }
    }
    for number in 0..4u64 {
        let is_v4 = number < 2;
        let rules = (0..dice.below(4) as u32).map(|rule| {
            let rule_object = MeterRule {
                priority: dice.below(2) as u32,
                prefix: prefix(dice, is_v4),
                metering_class: 500 + rule,
            };
            (rule, rule_object)
        });
        let rules = rules.collect();
        let ip_version = if is_v4 { IpVersion::V4 } else { IpVersion::V6 };
        let policy = (MeterPolicy { ip_version }, rules);
        objects
            .meter_policies
            .insert(name("policy", number).as_str().into(), policy);
        let rules = (0..dice.below(5)).map(|rule| {
            let name = AclRuleId::from(&*name("rule", rule));
            (name, acl_rule(dice, is_v4))
        });
        let mut rules: BTreeMap<_, _> = rules.collect();
        if !dice.one_in(3) {
            rules.insert("any".into(), permit_all());
        }
        let group = (
            AclGroup {
                ip_version,
                guid: None,
            },
            rules,
        );
        objects
            .acl_groups
            .insert(name("acl", number).as_str().into(), group);
        let mut routes: Vec<(Prefix, Route)> = Vec::new();
        for _ in 0..dice.below(10) {
            let is_v4 = !dice.one_in(3);
            let prefix = match dice.one_in(3) {
                true => Prefix::covering(customer(dice, is_v4), 0),
                false => prefix(dice, is_v4),
            };
            if routes.iter().all(|(other, _)| *other != prefix) {
                let route = route(dice, is_underlay_v4);
                routes.push((prefix, route));
            }
        }
        objects
            .route_groups
            .insert(name("group", number).as_str().into(), routes);
    }
    for _ in 0..60 {
        let is_v4 = !dice.one_in(3);
        let address = customer(dice, is_v4);
        let vnet = VnetName::from(&*name("vnet", dice.below(3)));
        let mapping = mapping(dice, is_underlay_v4);
        objects.mappings.insert((vnet, address), mapping);
    }
    for number in 0..3 {
        if dice.one_in(3) {
            let sources = (0..2)
                .map(|_| physical(dice, is_underlay_v4).into())
                .collect();
            let validation = PaValidation { prefixes: sources };
            objects.pa_validation.insert(vni(1000 + number), validation);
        }
    }
    for number in 0..enis {
        add_eni(&mut objects, dice, number);
    }
    objects
}

/// Rules that let in whatever no other rule matches.
fn add_ways_in(objects: &mut Objects, eni: &EniId) {
    for number in 1000..1004 {
        let key = RouteRuleKey {
            eni: eni.clone(),
            vni: vni(number),
            source: Prefix::covering(host(is_underlay_v4(objects), 0), 0),
            priority: Some(3),
        };
        let rule = RouteRule {
            priority: 3,
            action: InboundAction::Decap,
            protocol: None,
            vnet: None,
            pa_validation: None,
            metering: MeterBits::default(),
            region: None,
        };
        objects.route_rules.push((key, rule));
    }
}

/// An ENI with its routes, rules and access lists.
pub fn add_eni(objects: &mut Objects, dice: &mut Dice, number: u8) {
    let (id, is_v4) = (eni_id(number), is_underlay_v4(objects));
    let object = eni(dice, number, is_v4);
    objects.enis.insert(id.clone(), object);
    if !dice.one_in(10) {
        let group = name("group", dice.below(4)).as_str().into();
        objects.eni_routes.insert(id.clone(), group);
    }
    if objects.enis[&id].mode == EniMode::FloatingNic {
        add_ways_in(objects, &id);
    }
    for _ in 0..dice.below(6) {
        let source = match dice.below(3) {
            0 => Prefix::covering(host(is_v4, 0), 0),
            1 => Prefix::from(physical(dice, is_v4)),
            _ => Prefix::covering(host(is_v4, 0), if is_v4 { 30 } else { 126 }),
        };
        let priority = dice.below(3) as u32;
        let key = RouteRuleKey {
            eni: id.clone(),
            vni: vni(1000 + dice.below(4) as u32),
            source,
            priority: Some(priority),
        };
        if objects.route_rules.iter().any(|(other, _)| *other == key) {
            continue;
        }
        let rule = RouteRule {
            priority,
            action: match dice.one_in(6) {
                true => InboundAction::Drop,
                false => InboundAction::Decap,
            },
            protocol: dice.pick(&[None, None, Some(0), Some(6), Some(17)]),
            vnet: dice.maybe(|dice| name("vnet", dice.below(3)).as_str().into()),
            pa_validation: dice.pick(&[None, Some(true), Some(false)]),
            metering: meter_bits(dice),
            region: None,
        };
        objects.route_rules.push((key, rule));
    }
    for direction in [Direction::Outbound, Direction::Inbound] {
        for stage in 1..=5 {
            if dice.one_in(6) {
                let stage = AclStage::new(stage).expect("1 to 5");
                let binding = AclBinding {
                    v4: dice.maybe(|dice| name("acl", dice.below(2)).as_str().into()),
                    v6: dice.maybe(|dice| name("acl", 2 + dice.below(2)).as_str().into()),
                };
                objects
                    .bindings
                    .insert((id.clone(), direction, stage), binding);
            }
        }
    }
}

/// An address of an ENI's NAT gateway.
pub fn external(is_v4: bool) -> Address {
    match is_v4 {
        true => Address::from_v4([203, 0, 113, 1]),
        false => Address(0x2001_0db8_00ff << 80 | 1),
    }
}

/// Load balancers with one backend each, and NAT gateways with so many ports for an ENI.
pub fn add_services(objects: &mut Objects, dice: &mut Dice, enis: u8, block_size: u16) {
    for _ in 0..60 {
        let is_v4 = !dice.one_in(3);
        let key = LoadBalancerKey {
            vnet: name("vnet", dice.below(3)).as_str().into(),
            vip: customer(dice, is_v4),
            protocol: dice.pick(&[PortProtocol::Tcp, PortProtocol::Udp]),
            port: dice.below(5) as u16,
        };
        let backend = Endpoint::new(customer(dice, is_v4), dice.below(5) as u16);
        let backends = [backend].into();
        objects
            .load_balancers
            .insert(key, LoadBalancer { backends });
    }
    for is_v4 in [true, false] {
        let pool = NatPool {
            addresses: [external(is_v4)].into(),
            ports: Range::new(40_000, 40_099).expect("in order"),
            block_size,
        };
        let pool_name = name("pool", is_v4.into());
        objects.nat_pools.insert(pool_name.as_str().into(), pool);
    }
    for number in 0..enis {
        if !dice.one_in(3) {
            let nat = EniNat {
                pool: name("pool", (!dice.one_in(3)).into()).as_str().into(),
                block: number.into(),
            };
            objects.eni_nats.insert(eni_id(number), nat);
        }
    }
}

/// Some packets from the network are for the external address of a NAT gateway.
pub fn to_external(dice: &mut Dice, packet: &mut Packet) {
    if packet.direction == Direction::Inbound && dice.one_in(4) {
        packet.overlay.destination = external(packet.overlay.source.is_v4());
        if let Some([_, port]) = &mut packet.overlay.ports {
            *port = 40_000 + dice.below(5) as u16;
        }
    }
}

/// One of sixteen packets comes from another host than its machine's.
pub fn from_elsewhere(dice: &mut Dice, packet: &mut Packet) {
    if packet.direction == Direction::Outbound && dice.one_in(16) {
        packet.outer_source = host(packet.outer_source.is_v4(), dice.below(6) as u8);
    }
}

/// A packet for one of the ENIs.
pub fn packet(dice: &mut Dice, objects: &Objects, enis: u8) -> Packet {
    let number = dice.below(enis.into()) as u8;
    let eni = eni_id(number);
    let is_v4 = !dice.one_in(3);
    let is_outbound = !dice.one_in(3);
    let kind = match is_v4 {
        true => dice.pick(&[protocol::UDP, protocol::TCP, protocol::UDP, protocol::ICMP]),
        false => dice.pick(&[protocol::UDP, protocol::TCP, protocol::UDP, protocol::ICMP6]),
    };
    let ports = matches!(kind, protocol::UDP | protocol::TCP);
    let overlay = Headers {
        source: customer(dice, is_v4),
        destination: customer(dice, is_v4),
        ports: ports.then(|| [dice.below(5) as u16, dice.below(5) as u16]),
        protocol: kind,
    };
    let is_underlay_v4 = is_underlay_v4(objects);
    let machine = objects.enis[&eni].underlay_ip;
    let is_floating = objects.enis[&eni].mode == EniMode::FloatingNic;
    Packet {
        direction: match is_outbound {
            true => Direction::Outbound,
            false => Direction::Inbound,
        },
        eni,
        encapsulation: dice.pick(&[
            Encapsulation::Vxlan,
            Encapsulation::Vxlan,
            Encapsulation::Nvgre,
        ]),
        vni: match is_outbound {
            true => VM_VNI,
            false => 1000 + dice.below(4) as u32,
        },
        outer_source: match is_outbound {
            true => machine.unwrap_or(machine_host(is_underlay_v4, number)),
            // A floating NIC's machine sends from its host with any VNI.
            false if is_floating && dice.one_in(2) => {
                machine.unwrap_or(machine_host(is_underlay_v4, number))
            }
            // What comes to the DPU is of its address's version.
            false => host(is_underlay_v4, dice.below(6) as u8),
        },
        source_mac: MacAddress([2, 0, 0, 0, 2, number]),
        overlay,
    }
}

/// The bytes of a packet, behind room for more headers; TCP with these flags.
pub fn bytes(packet: &Packet, tcp_flags: u8) -> Vec<u8> {
    encapsulated(packet, &inner_bytes(packet, tcp_flags, b"payload"))
}

/// The inner frame of a packet.
pub fn inner_bytes(packet: &Packet, tcp_flags: u8, payload: &[u8]) -> Vec<u8> {
    let [from, to] = packet.overlay.ports.unwrap_or([7, 7]);
    let source = Endpoint::new(packet.overlay.source, from);
    let destination = Endpoint::new(packet.overlay.destination, to);
    let inner = match packet.overlay.protocol {
        protocol::UDP => PacketBuilder::udp(source, destination),
        protocol::TCP => PacketBuilder::tcp(source, destination).flags(tcp_flags),
        _ => PacketBuilder::icmp_echo(source, destination),
    };
    let mut inner = inner.payload(payload).to_vec().expect("a packet");
    set_macs(&mut inner, packet);
    inner
}

/// Gives an inner frame the MAC addresses of a packet: the ENI's, and the one at the other end.
pub fn set_macs(inner: &mut [u8], packet: &Packet) {
    let number = packet.eni.as_str()[3..].parse().expect("a number");
    let (far, near) = (packet.source_mac, eni_mac(number));
    let (source, destination) = match packet.direction {
        Direction::Outbound => (near, far),
        Direction::Inbound => (far, near),
    };
    inner[..6].copy_from_slice(&destination.0);
    inner[6..12].copy_from_slice(&source.0);
}

/// A frame inside the tunnel that a packet comes with.
pub fn encapsulated(packet: &Packet, inner: &[u8]) -> Vec<u8> {
    let outer = Outer {
        source_mac: MacAddress([2, 0, 0, 0, 0, 1]),
        destination_mac: MacAddress([2, 0, 0, 0, 0, 2]),
        source: packet.outer_source,
        destination: vip(packet.outer_source.is_v4()),
        encapsulation: packet.encapsulation,
        key: packet.vni,
        vxlan_port: VXLAN_PORT,
        ttl: 64,
    };
    let mut buffer = vec![0; HEADROOM + outer.header_bytes()];
    buffer.extend_from_slice(inner);
    let varying = Varying {
        source_port: 0xc123,
        traffic_class: 0x28,
        udp_checksum: true,
        ..Varying::default()
    };
    outer
        .emit(&varying, &mut buffer[HEADROOM..])
        .expect("sound");
    buffer
}
