//! Which fields each table has.

use super::decode::{AllBits, BitsAround, ClassBits, PortMapAction, ProtocolNumber};
use super::fields::{Fields, list};
use super::problem::Wrong;
use super::{ha, switch_role};
use crate::objects::*;
use twinpath_classify::Prefix;
use twinpath_core::wire::{Address, Endpoint};

/// Why fields that SONiC has taken out of use are not looked at.
const OLD_METERING: &str =
    "SONiC no longer reads it; metering_class_or and metering_class_and say it now";

/// Reads what is under a key; `None` if something is wrong with it, which is told.
pub(super) fn object(key: Key, fields: &mut Fields<'_, '_>) -> Option<Object> {
    let f = fields;
    Some(match key {
        Key::Switch(key) => Object::Switch(key, switch(f)),
        Key::Appliance(key) => Object::Appliance(key, appliance(f)?),
        Key::Vnet(key) => Object::Vnet(key, vnet(f)?),
        Key::RoutingType(key) => Object::RoutingType(key, routing_actions(f)?),
        Key::Tunnel(key) => Object::Tunnel(key, tunnel(f)?),
        Key::PortMap(key) => Object::PortMap(
            key,
            PortMap {
                guid: f.optional("guid"),
            },
        ),
        Key::PortMapRange(key) => Object::PortMapRange(key, port_map_range(f)?),
        Key::Qos(key) => Object::Qos(key, qos(f)),
        Key::MeterPolicy(key) => Object::MeterPolicy(
            key,
            MeterPolicy {
                ip_version: f.required("ip_version")?,
            },
        ),
        Key::MeterRule(key) => Object::MeterRule(key, meter_rule(f)?),
        Key::PrefixTag(key) => Object::PrefixTag(key, prefix_tag(f)?),
        Key::AclGroup(key) => Object::AclGroup(key, acl_group(f)?),
        Key::AclRule(key) => Object::AclRule(key, acl_rule(f)?),
        Key::RouteGroup(key) => Object::RouteGroup(
            key,
            RouteGroup {
                guid: f.optional("guid"),
                version: f.optional("version"),
            },
        ),
        Key::Route(key) => Object::Route(key, route(f)?),
        Key::VnetMapping(key) => Object::VnetMapping(key, vnet_mapping(f)?),
        Key::LoadBalancer(key) => Object::LoadBalancer(key, load_balancer(f)),
        Key::NatPool(key) => Object::NatPool(key, nat_pool(f)?),
        Key::PaValidation(key) => Object::PaValidation(
            key,
            PaValidation {
                prefixes: prefixes(f, &["prefixes", "addresses"]),
            },
        ),
        Key::Eni(key) => Object::Eni(key, eni(f)?),
        Key::EniRoute(key) => Object::EniRoute(
            key,
            EniRoute {
                group: f.required("group_id")?,
            },
        ),
        Key::EniNat(key) => Object::EniNat(key, eni_nat(f)?),
        Key::RouteRule(key) => {
            let rule = route_rule(&key, f)?;
            Object::RouteRule(key, rule)
        }
        Key::AclIn(key) => Object::AclIn(key, acl_binding(f)),
        Key::AclOut(key) => Object::AclOut(key, acl_binding(f)),
        Key::HaSet(key) => Object::HaSet(key, ha::ha_set(f)),
        Key::HaScope(key) => Object::HaScope(key, ha::ha_scope(f)),
        Key::HaSetConfig(key) => Object::HaSetConfig(key, ha::ha_set_config(f)),
        Key::HaScopeConfig(key) => Object::HaScopeConfig(key, ha::ha_scope_config(f)),
        Key::Vip(key) => Object::Vip(key, switch_role::vip(f)),
        Key::Dpu(key) => Object::Dpu(key, switch_role::dpu(f)),
        Key::RemoteDpu(key) => Object::RemoteDpu(key, switch_role::remote_dpu(f)),
        Key::Vdpu(key) => Object::Vdpu(key, switch_role::vdpu(f)),
        Key::SwitchTunnel(key) => Object::SwitchTunnel(key, switch_role::tunnel(f)?),
        Key::SwitchVnet(key) => Object::SwitchVnet(key, switch_role::vnet(f)?),
        Key::EniForward(key) => Object::EniForward(key, switch_role::eni_forward(f)?),
    })
}

fn switch(f: &mut Fields<'_, '_>) -> Switch {
    Switch {
        vxlan_port: f.optional("vxlan_port"),
        vxlan_source_port: f.optional("vxlan_sport"),
        vxlan_source_port_bits: f.optional("vxlan_mask"),
        vxlan_security: f.optional("vxlan_security"),
    }
}

fn appliance(f: &mut Fields<'_, '_>) -> Option<Appliance> {
    let sip = f.required("sip");
    let vm_vni = f.optional("vm_vni");
    let local_region_id = f.optional("local_region_id").unwrap_or_default();
    let lookup = f.optional("outbound_direction_lookup");
    Some(Appliance {
        trusted_vnis: trusted_vnis(f),
        sip: sip?,
        vm_vni,
        local_region_id,
        outbound_direction_lookup: lookup.unwrap_or_default(),
    })
}

/// The list, and the older field of one value or range.
fn trusted_vnis(f: &mut Fields<'_, '_>) -> Box<[VniRange]> {
    let mut vnis: Vec<VniRange> = list(f, &["trusted_vnis_list"]);
    vnis.extend(f.optional::<VniRange>("trusted_vnis"));
    vnis.into()
}

fn vnet(f: &mut Fields<'_, '_>) -> Option<Vnet> {
    let vni = f.required("vni");
    let guid = f.optional("guid");
    let address_space = prefixes(f, &["address_space", "address_spaces"]);
    let peers = list::<VnetName>(f, &["peer_list"]).into();
    f.without_effect(&["version"], "nothing depends on a network's version");
    Some(Vnet {
        vni: vni?,
        guid,
        address_space,
        peers,
    })
}

/// One action as fields of the object, or several as a list of objects.
fn routing_actions(f: &mut Fields<'_, '_>) -> Option<RoutingActions> {
    let items = match f.items("items", routing_action) {
        Some(items) => items?,
        None => vec![routing_action(f)?],
    };
    Some(RoutingActions {
        items: items.into(),
    })
}

/// One action.
fn routing_action(f: &mut Fields<'_, '_>) -> Option<RoutingAction> {
    let name = f.one_of(&["action_name", "name"]).unwrap_or_default();
    let action = f.required("action_type");
    let encapsulation = f.optional("encap_type");
    let vni: Option<Vni> = f.optional("vni");
    Some(RoutingAction {
        name,
        action: action?,
        encapsulation,
        vni: vni.filter(|vni| vni.get() != 0),
    })
}

fn tunnel(f: &mut Fields<'_, '_>) -> Option<Tunnel> {
    let endpoints = list::<Address>(f, &["endpoints"]);
    let endpoints = once_each(f, "endpoints", endpoints);
    let encapsulation = f.required("encap_type");
    let vni = f.required("vni");
    let metering_class_or = class_bits(f, "metering_class_or").unwrap_or_default();
    Some(Tunnel {
        endpoints,
        encapsulation: encapsulation?,
        vni: vni?,
        metering_class_or,
    })
}

fn port_map_range(f: &mut Fields<'_, '_>) -> Option<PortMapRange> {
    let action = f.required("action");
    Some(match f.give_up(action)? {
        PortMapAction::SkipMapping => {
            let names = ["backend_ip", "backend_port_base"];
            f.without_effect(&names, "the range is skipped");
            PortMapRange::SkipMapping
        }
        PortMapAction::PrivateLinkService => {
            let backend_ip = f.required("backend_ip");
            let backend_port_base = f.required("backend_port_base");
            PortMapRange::PrivateLinkService {
                backend_ip: backend_ip?,
                backend_port_base: backend_port_base?,
            }
        }
    })
}

fn qos(f: &mut Fields<'_, '_>) -> Qos {
    Qos {
        qos_id: f.optional("qos_id").unwrap_or_default(),
        bandwidth_kbps: f.optional("bw").unwrap_or_default(),
        connections_per_second: f.optional("cps").unwrap_or_default(),
        flows: f.optional("flows").unwrap_or_default(),
    }
}

fn meter_rule(f: &mut Fields<'_, '_>) -> Option<MeterRule> {
    let priority = f.optional("priority").unwrap_or_default();
    let prefix = f.required("ip_prefix");
    let metering_class = f.required::<ClassBits>("metering_class");
    Some(MeterRule {
        priority,
        prefix: prefix?,
        metering_class: metering_class?.0,
    })
}

fn prefix_tag(f: &mut Fields<'_, '_>) -> Option<PrefixTag> {
    let ip_version = f.required("ip_version");
    let prefixes = prefixes(f, &["prefix_list"]);
    Some(PrefixTag {
        ip_version: ip_version?,
        prefixes,
    })
}

fn acl_group(f: &mut Fields<'_, '_>) -> Option<AclGroup> {
    let ip_version = f.required("ip_version");
    let guid = f.optional("guid");
    f.without_effect(&["version"], "nothing depends on a group's version");
    Some(AclGroup {
        ip_version: ip_version?,
        guid,
    })
}

fn acl_rule(f: &mut Fields<'_, '_>) -> Option<AclRule> {
    let priority = f.optional("priority").unwrap_or_default();
    let action = f.required("action");
    let terminating = f.optional("terminating").unwrap_or_default();
    let protocols = list::<ProtocolNumber>(f, &["protocol"]);
    let protocols = protocols.into_iter().map(|number| number.0).collect();
    let (src_addr, dst_addr) = (prefixes(f, &["src_addr"]), prefixes(f, &["dst_addr"]));
    let (src_tag, dst_tag) = (tags(f, "src_tag"), tags(f, "dst_tag"));
    let (src_port, dst_port) = (ports(f, "src_port"), ports(f, "dst_port"));
    Some(AclRule {
        priority,
        action: action?,
        terminating,
        protocols,
        src_addr,
        dst_addr,
        src_tag,
        dst_tag,
        src_port,
        dst_port,
    })
}

fn tags(f: &mut Fields<'_, '_>, name: &'static str) -> Box<[TagName]> {
    list::<TagName>(f, &[name]).into()
}

/// Ports; all of them are written as none, for packets without ports match, too.
fn ports(f: &mut Fields<'_, '_>, name: &'static str) -> Box<[PortRange]> {
    let mut ports: Vec<PortRange> = list(f, &[name]);
    if Range::new(0, u16::MAX).is_some_and(|all| ports.contains(&all)) {
        ports.clear();
    }
    ports.into()
}

fn acl_binding(f: &mut Fields<'_, '_>) -> AclBinding {
    AclBinding {
        v4: f.optional("v4_acl_group_id"),
        v6: f.optional("v6_acl_group_id"),
    }
}

fn eni(f: &mut Fields<'_, '_>) -> Option<Eni> {
    let mac_address = f.required("mac_address");
    let vnet = f.required("vnet");
    let eni = Eni {
        eni_id: f.optional("eni_id").unwrap_or_default(),
        underlay_ip: f.optional("underlay_ip"),
        admin_state: f.optional("admin_state").unwrap_or_default(),
        qos: f.optional("qos"),
        pl_underlay_sip: given_address(f, "pl_underlay_sip"),
        pl_sip_encoding: f.optional("pl_sip_encoding"),
        mode: f.one_of(&["eni_mode", "mode"]).unwrap_or_default(),
        v4_meter_policy: f.optional("v4_meter_policy_id"),
        v6_meter_policy: f.optional("v6_meter_policy_id"),
        trusted_vnis: trusted_vnis(f),
        disable_fast_path_icmp_flow_redirection: f
            .optional("disable_fast_path_icmp_flow_redirection")
            .unwrap_or_default(),
        mac_address: mac_address?,
        vnet: vnet?,
    };
    Some(eni)
}

fn route(f: &mut Fields<'_, '_>) -> Option<Route> {
    let routing_type = f.required_of(&["routing_type", "action_type"]);
    let metering = metering(f);
    let tunnel = f.optional("tunnel");
    f.without_effect(&["metering_policy_en", "metering_class"], OLD_METERING);
    let routing_type = f.give_up(routing_type)?;
    let action = route_action(routing_type, f)?;
    let underlay_sip = match action {
        RouteAction::ServiceTunnel(_) => None,
        _ => given_address(f, "underlay_sip"),
    };
    Some(Route {
        action,
        underlay_sip,
        tunnel,
        metering,
    })
}

/// What a route of a type does; the fields of other types have no effect.
fn route_action(routing_type: RoutingType, f: &mut Fields<'_, '_>) -> Option<RouteAction> {
    const OTHERS: &str = "the route is of another type";
    let tunnel_fields = [
        "overlay_sip_prefix",
        "overlay_dip_prefix",
        "overlay_sip",
        "overlay_dip",
        "underlay_dip",
    ];
    let action = match routing_type {
        RoutingType::Vnet => {
            let vnet = f.required("vnet");
            f.without_effect(&["overlay_ip"], OTHERS);
            RouteAction::Vnet(vnet?)
        }
        RoutingType::VnetDirect => {
            let vnet = f.required("vnet");
            let overlay_ip = f.optional("overlay_ip");
            RouteAction::VnetDirect {
                vnet: vnet?,
                overlay_ip,
            }
        }
        RoutingType::ServiceTunnel => {
            f.without_effect(&["vnet", "overlay_ip"], OTHERS);
            return Some(RouteAction::ServiceTunnel(Box::new(service_tunnel(f)?)));
        }
        RoutingType::Direct => {
            f.without_effect(&["vnet", "overlay_ip"], OTHERS);
            RouteAction::Direct
        }
        RoutingType::Drop => {
            f.without_effect(&["vnet", "overlay_ip"], OTHERS);
            RouteAction::Drop
        }
        other => {
            let why = format!(
                "found {other}, expected a type of routes: vnet, vnet_direct, direct, servicetunnel or drop"
            );
            f.wrong("routing_type", Wrong::Impossible(why));
            return f.give_up(None);
        }
    };
    f.without_effect(&tunnel_fields, OTHERS);
    Some(action)
}

/// An address of the underlay. All zeros are none, as in the public model.
fn given_address(f: &mut Fields<'_, '_>, field: &'static str) -> Option<Address> {
    let none = [Address::from_v4([0; 4]), Address(0)];
    f.optional(field).filter(|address| !none.contains(address))
}

fn service_tunnel(f: &mut Fields<'_, '_>) -> Option<ServiceTunnel> {
    let overlay_sip = f.required_of::<BitsAround>(&["overlay_sip_prefix", "overlay_sip"]);
    let overlay_dip = f.required_of::<BitsAround>(&["overlay_dip_prefix", "overlay_dip"]);
    let underlay_sip = given_address(f, "underlay_sip");
    let underlay_dip = given_address(f, "underlay_dip");
    Some(ServiceTunnel {
        overlay_sip: overlay_sip?.0,
        overlay_dip: overlay_dip?.0,
        underlay_sip,
        underlay_dip,
    })
}

fn load_balancer(f: &mut Fields<'_, '_>) -> LoadBalancer {
    let backends = list::<Endpoint>(f, &["backends"]);
    LoadBalancer {
        backends: once_each(f, "backends", backends),
    }
}

fn nat_pool(f: &mut Fields<'_, '_>) -> Option<NatPool> {
    const PORTS: (u16, u16) = (1024, u16::MAX);
    const BLOCK_SIZE: u16 = 1024;
    let addresses = list::<Address>(f, &["addresses"]);
    let addresses = once_each(f, "addresses", addresses);
    let ports: Option<PortRange> = f.optional("ports");
    let block_size = f.optional("block_size").unwrap_or(BLOCK_SIZE);
    Some(NatPool {
        addresses,
        ports: ports.or_else(|| PortRange::new(PORTS.0, PORTS.1))?,
        block_size,
    })
}

fn eni_nat(f: &mut Fields<'_, '_>) -> Option<EniNat> {
    let (pool, block) = (f.required("pool"), f.required("block"));
    Some(EniNat {
        pool: pool?,
        block: block?,
    })
}

/// A list in order, without what is in it twice, which is told.
fn once_each<T: Ord>(f: &mut Fields<'_, '_>, name: &'static str, mut list: Vec<T>) -> Box<[T]> {
    let all = list.len();
    list.sort();
    list.dedup();
    if list.len() < all {
        let remark = "the same one more than once: taken once";
        f.remark(name, Wrong::Remark(remark.into()));
    }
    list.into()
}

fn metering(f: &mut Fields<'_, '_>) -> MeterBits {
    let none = MeterBits::default();
    MeterBits {
        or: class_bits(f, "metering_class_or").unwrap_or(none.or),
        and: class_bits(f, "metering_class_and").unwrap_or(none.and),
    }
}

fn class_bits(f: &mut Fields<'_, '_>, name: &'static str) -> Option<u32> {
    f.optional(name).map(|ClassBits(bits)| bits)
}

fn vnet_mapping(f: &mut Fields<'_, '_>) -> Option<VnetMapping> {
    let routing_type = f.required_of(&["routing_type", "action_type"]);
    let underlay_ip = f.required("underlay_ip");
    let mac_address = f.optional("mac_address");
    let use_dst_vni = f.optional("use_dst_vni").unwrap_or_default();
    let metering_class_or = class_bits(f, "metering_class_or").unwrap_or_default();
    let (tunnel, port_map) = (f.optional("tunnel"), f.optional("port_map"));
    f.without_effect(&["metering_class", "override_meter"], OLD_METERING);
    let gone = "SONiC no longer reads it; a tunnel says it now";
    f.without_effect(&["routing_appliance_id"], gone);
    f.without_effect(&["use_pl_sip_eni"], "an ENI's encoding always counts");
    let private_link = private_link(f);
    Some(VnetMapping {
        routing_type: private_link_type(routing_type?, f),
        underlay_ip: underlay_ip?,
        mac_address,
        use_dst_vni,
        private_link,
        metering_class_or,
        tunnel,
        port_map,
    })
}

/// Private Link behind a network security group is Private Link with a tunnel.
fn private_link_type(routing_type: RoutingType, f: &mut Fields<'_, '_>) -> RoutingType {
    if routing_type != RoutingType::PrivateLinkNsg {
        return routing_type;
    }
    let remark = "privatelinknsg is no longer in use: taken for privatelink";
    f.remark("routing_type", Wrong::Remark(remark.into()));
    RoutingType::PrivateLink
}

fn private_link(f: &mut Fields<'_, '_>) -> Option<PrivateLink> {
    let sip: Option<BitsAround> = f.one_of(&["overlay_sip_prefix", "overlay_sip"]);
    let dip: Option<AllBits> = f.one_of(&["overlay_dip_prefix", "overlay_dip"]);
    if sip.is_none() && dip.is_none() {
        return None;
    }
    Some(PrivateLink {
        overlay_sip: sip.map_or(MaskedBits::NONE, |bits| bits.0),
        overlay_dip: dip.map_or(MaskedBits::NONE, |bits| bits.0),
    })
}

fn route_rule(key: &RouteRuleKey, f: &mut Fields<'_, '_>) -> Option<RouteRule> {
    let action = f.required("action_type");
    let priority = f.optional("priority");
    let protocol: Option<ProtocolNumber> = f.optional("protocol");
    let protocol = protocol.map(|number| number.0);
    let vnet = f.optional("vnet");
    let pa_validation = f.optional("pa_validation");
    let metering = metering(f);
    let region = f.optional("region");
    f.without_effect(&["metering_class"], OLD_METERING);
    f.without_effect(&["routing_type"], "action_type says it");
    if let (Some(in_key), Some(field)) = (key.priority, priority)
        && in_key != field
    {
        let remark = format!("{field}, but the key says {in_key}: the key counts");
        f.remark("priority", Wrong::Remark(remark));
    }
    Some(RouteRule {
        priority: key.priority.or(priority).unwrap_or_default(),
        action: action?,
        protocol: protocol.filter(|protocol| *protocol != 0),
        vnet,
        pa_validation,
        metering,
        region,
    })
}

fn prefixes(f: &mut Fields<'_, '_>, names: &[&'static str]) -> PrefixList {
    let prefixes: Vec<Prefix> = list(f, names);
    prefixes.into_iter().collect()
}
