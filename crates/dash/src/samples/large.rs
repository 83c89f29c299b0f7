//! A configuration of the size that the public scale test has for each ENI.

use std::collections::BTreeMap;

use twinpath_classify::Prefix;
use twinpath_core::wire::tunnel::{self, Outer, VXLAN_PORT, Varying};
use twinpath_core::wire::{Address, MacAddress, protocol};

use super::Objects;
use crate::headers::Direction;
use crate::objects::*;

/// How large each part is.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Large {
    /// ENIs, each with a network of its own; they share access lists and routes.
    pub enis: u16,
    /// Access lists in a row, for each direction.
    pub acl_stages: u8,
    /// Rules of each.
    pub acl_rules: u32,
    /// Source prefixes of each rule.
    pub acl_prefixes: u32,
    /// Routes.
    pub routes: u32,
    /// Mappings of each network.
    pub mappings: u32,
}

/// The address of the DPU.
pub const VIP: Address = Address::from_v4([221, 0, 0, 1]);
/// The VNI of packets from machines.
pub const VM_VNI: u32 = 1;

impl Large {
    /// The MAC address of an ENI.
    #[must_use]
    pub const fn mac(number: u16) -> MacAddress {
        let [high, low] = number.to_be_bytes();
        MacAddress([0, 0x1a, 0xc5, 0, high, low])
    }

    /// The host of an ENI.
    #[must_use]
    pub const fn host(number: u16) -> Address {
        let [high, low] = number.to_be_bytes();
        Address::from_v4([221, 1, high, low])
    }

    /// A frame that an ENI's machine sends, as it comes to the DPU.
    ///
    /// # Panics
    /// It is too long.
    #[must_use]
    pub fn outbound(number: u16, inner: &[u8], varying: &Varying) -> Vec<u8> {
        Self::encapsulated(Self::host(number), VM_VNI, inner, varying)
    }

    /// A frame that a host sends with a VNI, as it comes to the DPU.
    ///
    /// # Panics
    /// It is too long.
    #[must_use]
    pub fn encapsulated(host: Address, vni: u32, inner: &[u8], varying: &Varying) -> Vec<u8> {
        let outer = Outer {
            source_mac: MacAddress([2, 0, 0, 0, 0, 1]),
            destination_mac: MacAddress([2, 0, 0, 0, 0, 2]),
            source: host,
            destination: VIP,
            encapsulation: tunnel::Encapsulation::Vxlan,
            key: vni,
            vxlan_port: VXLAN_PORT,
            ttl: 64,
        };
        let mut frame = vec![0; outer.header_bytes()];
        frame.extend_from_slice(inner);
        outer.emit(varying, &mut frame).expect("short enough");
        frame
    }

    /// The VNI of an ENI's network.
    #[must_use]
    pub const fn vni(number: u16) -> u32 {
        1000 + number as u32
    }

    /// The address with this number that has a mapping.
    #[must_use]
    pub const fn mapped(number: u32) -> Address {
        Address::from_v4((0x0200_0000 + number * 2).to_be_bytes())
    }

    /// An address of a machine.
    #[must_use]
    pub const fn machine(number: u32) -> Address {
        Address::from_v4((0x0100_0000 + number).to_be_bytes())
    }
}

/// Makes it: access lists of which each rule but the last denies something else, so that all are
/// looked at; routes of which each second one covers mappings.
#[must_use]
pub fn large(sizes: &Large) -> Objects {
    let vni = |number: u32| Vni::new(number).unwrap_or(Vni::MAX);
    let mut objects = Objects {
        appliance: Some(Appliance {
            sip: VIP,
            vm_vni: Some(vni(VM_VNI)),
            local_region_id: 100,
            outbound_direction_lookup: DirectionLookup::SourceMac,
            trusted_vnis: [].into(),
        }),
        ..Objects::default()
    };
    let encapsulate = RoutingAction {
        name: "action-1".into(),
        action: ActionType::StaticEncap,
        encapsulation: Some(Encapsulation::Vxlan),
        vni: None,
    };
    let items = [encapsulate].into();
    objects
        .routing_types
        .insert(RoutingType::VnetEncap, RoutingActions { items });
    for stage in 1..=sizes.acl_stages {
        let group = AclGroup {
            ip_version: IpVersion::V4,
            guid: None,
        };
        let rules = (0..sizes.acl_rules).map(|number| acl_rule(sizes, stage, number));
        let name = format!("acl{stage}").as_str().into();
        objects.acl_groups.insert(name, (group, rules.collect()));
    }
    for number in 0..sizes.enis {
        add_eni(&mut objects, sizes, number, vni(Large::vni(number)));
    }
    objects
}

fn acl_rule(sizes: &Large, stage: u8, number: u32) -> (AclRuleId, AclRule) {
    let is_last = number + 1 == sizes.acl_rules;
    let network = |at: u32| {
        let place = number * sizes.acl_prefixes + at;
        Prefix::covering(
            Address::from_v4((0x3000_0000 + place * 512).to_be_bytes()),
            24,
        )
    };
    let source = match is_last {
        true => PrefixList::default(),
        false => (0..sizes.acl_prefixes).map(network).collect(),
    };
    let rule = AclRule {
        priority: number,
        action: match is_last {
            true => AclAction::Permit,
            false => AclAction::Deny,
        },
        terminating: !is_last,
        protocols: match is_last {
            true => [].into(),
            false => [protocol::TCP, protocol::UDP].into(),
        },
        src_addr: source,
        dst_addr: PrefixList::default(),
        src_tag: [].into(),
        dst_tag: [].into(),
        src_port: [].into(),
        dst_port: match number % 3 {
            0 if !is_last => [Range::one(number as u16), Range::one(7)].into(),
            _ => [].into(),
        },
    };
    (format!("{stage}-{number:06}").as_str().into(), rule)
}

fn add_eni(objects: &mut Objects, sizes: &Large, number: u16, vni: Vni) {
    let id: EniId = format!("eni-{number}").as_str().into();
    let vnet: VnetName = format!("vnet-{number}").as_str().into();
    objects.vnets.insert(
        vnet.clone(),
        Vnet {
            vni,
            guid: None,
            address_space: PrefixList::default(),
            peers: [].into(),
        },
    );
    objects.enis.insert(
        id.clone(),
        Eni {
            eni_id: id.as_str().into(),
            mac_address: Large::mac(number),
            underlay_ip: Some(Large::host(number)),
            admin_state: AdminState::Enabled,
            vnet: vnet.clone(),
            qos: None,
            pl_underlay_sip: None,
            pl_sip_encoding: None,
            mode: EniMode::Vm,
            v4_meter_policy: None,
            v6_meter_policy: None,
            trusted_vnis: [].into(),
            disable_fast_path_icmp_flow_redirection: false,
        },
    );
    let group: RouteGroupId = format!("group-{number}").as_str().into();
    objects
        .route_groups
        .insert(group.clone(), routes(sizes, &vnet));
    objects.eni_routes.insert(id.clone(), group);
    for place in 0..sizes.mappings {
        let [_, b, c, d] = (place / 8).to_be_bytes();
        let mapping = VnetMapping {
            routing_type: RoutingType::VnetEncap,
            underlay_ip: Address::from_v4([222, b, c, d]),
            mac_address: Some(MacAddress([0, 0x1b, 0x6e, b, c, d])),
            use_dst_vni: true,
            private_link: None,
            metering_class_or: 0,
            tunnel: None,
            port_map: None,
        };
        objects
            .mappings
            .insert((vnet.clone(), Large::mapped(place)), mapping);
    }
    for stage in 1..=sizes.acl_stages {
        let Some(place) = AclStage::new(stage) else {
            continue;
        };
        let binding = AclBinding {
            v4: Some(format!("acl{stage}").as_str().into()),
            v6: None,
        };
        for direction in [Direction::Outbound, Direction::Inbound] {
            let key = (id.clone(), direction, place);
            objects.bindings.insert(key, binding.clone());
        }
    }
}

/// One route covers all that has a mapping; the others, each more than a neighbour away from the next,
/// are as many as there are to be.
fn routes(sizes: &Large, vnet: &VnetName) -> Vec<(Prefix, Route)> {
    let route = |class: u32| Route {
        action: RouteAction::Vnet(vnet.clone()),
        underlay_sip: None,
        tunnel: None,
        metering: MeterBits {
            or: class,
            ..MeterBits::default()
        },
    };
    let mut routes: BTreeMap<Prefix, Route> = BTreeMap::new();
    routes.insert(Prefix::covering(Large::mapped(0), 8), route(1));
    for number in 1..sizes.routes {
        // Half of them among the mappings, half elsewhere.
        let base = if number % 2 == 0 {
            0x0200_0000
        } else {
            0x5000_0000
        };
        let network = Address::from_v4((base + number / 2 * 64).to_be_bytes());
        routes.insert(Prefix::covering(network, 27), route(number % 16));
    }
    routes.into_iter().collect()
}
