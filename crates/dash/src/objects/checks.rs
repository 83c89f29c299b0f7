//! Objects that can never be, whatever else there is.

use std::borrow::Cow;

use twinpath_core::wire::Address;
use twinpath_core::wire::unicast::{check_host, check_station};

use super::*;

/// What is wrong with an object, and in which field.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct Impossible {
    /// The field, or `key`.
    pub field: &'static str,
    /// What is wrong, and what was expected.
    pub why: Cow<'static, str>,
}

impl Object {
    /// What is wrong with the object by itself; `None` if nothing is.
    #[must_use]
    pub fn impossible(&self) -> Option<Impossible> {
        let (wrong, field, why) = match self {
            Self::RoutingType(_, actions) => (
                actions.items.is_empty(),
                "items",
                "no action: expected at least one",
            ),
            Self::Tunnel(_, tunnel) => return tunnel.impossible(),
            Self::Route(_, route) => return route.impossible(),
            Self::PortMapRange(key, range) => return range.impossible(key.ports),
            Self::PrefixTag(_, tag) => (
                tag.prefixes.of_version(tag.ip_version) != tag.prefixes.len(),
                "prefix_list",
                "a prefix of the other IP version than ip_version says",
            ),
            Self::EniForward(_, forward) => (
                !forward.vdpus.contains(&forward.primary),
                "primary_vdpu",
                "expected one of vdpu_ids",
            ),
            Self::Appliance(_, appliance) => {
                return Impossible::not_unicast("sip", std::iter::once(appliance.sip));
            }
            Self::Eni(_, eni) => return eni.impossible(),
            Self::VnetMapping(_, mapping) => return mapping.impossible(),
            Self::LoadBalancer(key, balancer) => return balancer.impossible(key),
            Self::NatPool(_, pool) => return pool.impossible(),
            Self::AclIn(_, binding) | Self::AclOut(_, binding) => (
                binding.v4.is_none() && binding.v6.is_none(),
                "v4_acl_group_id",
                "no group: expected v4_acl_group_id, v6_acl_group_id or both",
            ),
            Self::Switch(_, switch) => (
                switch.vxlan_source_port_bits.is_some_and(|bits| bits > 16),
                "vxlan_mask",
                "more bits than a port has: expected 0 to 16",
            ),
            _ => return None,
        };
        wrong.then(|| Impossible::new(field, why))
    }
}

impl Impossible {
    fn new(field: &'static str, why: impl Into<Cow<'static, str>>) -> Self {
        let why = why.into();
        Self { field, why }
    }

    /// The first address that no host has.
    fn not_unicast(
        field: &'static str,
        mut addresses: impl Iterator<Item = Address>,
    ) -> Option<Self> {
        addresses.find_map(|address| {
            let why = check_host(address).err()?;
            Some(Self::new(field, format!("{address}: {why}")))
        })
    }
}

impl Eni {
    fn impossible(&self) -> Option<Impossible> {
        let mac = self.mac_address;
        match check_station(mac) {
            Err(why) => Some(Impossible::new("mac_address", format!("{mac}: {why}"))),
            Ok(()) => {
                Impossible::not_unicast("underlay_ip", self.underlay_ip.into_iter()).or_else(|| {
                    Impossible::not_unicast("pl_underlay_sip", self.pl_underlay_sip.into_iter())
                })
            }
        }
    }
}

impl Route {
    fn impossible(&self) -> Option<Impossible> {
        let (mut source, mut destination) = (self.underlay_sip, None);
        if let RouteAction::ServiceTunnel(tunnel) = &self.action {
            source = source.or(tunnel.underlay_sip);
            destination = tunnel.underlay_dip;
        }
        Impossible::not_unicast("underlay_sip", source.into_iter())
            .or_else(|| Impossible::not_unicast("underlay_dip", destination.into_iter()))
    }
}

impl Tunnel {
    fn impossible(&self) -> Option<Impossible> {
        let field = "endpoints";
        match self.endpoints.is_empty() {
            true => Some(Impossible::new(
                field,
                "no endpoint: expected at least one address",
            )),
            false => Impossible::not_unicast(field, self.endpoints.iter().copied()),
        }
    }
}

impl VnetMapping {
    fn impossible(&self) -> Option<Impossible> {
        let known = matches!(
            self.routing_type,
            RoutingType::Vnet | RoutingType::VnetEncap | RoutingType::PrivateLink
        );
        let private = self.routing_type == RoutingType::PrivateLink;
        let (field, why) = if !known {
            (
                "routing_type",
                "no type of mappings: expected vnet, vnet_encap or privatelink",
            )
        } else if private && self.private_link.is_none() {
            (
                "overlay_dip_prefix",
                "missing: a mapping of privatelink needs overlay_sip_prefix and overlay_dip_prefix",
            )
        } else if !private && self.private_link.is_some() {
            ("overlay_dip_prefix", "for mappings of privatelink alone")
        } else if !private && self.port_map.is_some() {
            ("port_map", "for mappings of privatelink alone")
        } else {
            return Impossible::not_unicast("underlay_ip", std::iter::once(self.underlay_ip));
        };
        Some(Impossible::new(field, why))
    }
}

impl LoadBalancer {
    fn impossible(&self, key: &LoadBalancerKey) -> Option<Impossible> {
        let is_v4 = key.vip.is_v4();
        let why = if self.backends.is_empty() {
            "no backend: expected at least one address with a port"
        } else if self.backends.len() > MAX_BACKENDS {
            "too many backends: expected at most 256"
        } else if self.backends.iter().any(|end| end.address.is_v4() != is_v4) {
            "a backend of the other IP version than the address in the key"
        } else {
            let addresses = self.backends.iter().map(|end| end.address);
            return Impossible::not_unicast("backends", addresses)
                .or_else(|| Impossible::not_unicast("key", std::iter::once(key.vip)));
        };
        Some(Impossible::new("backends", why))
    }
}

impl NatPool {
    fn impossible(&self) -> Option<Impossible> {
        let is_v4 = self.addresses.first().map(|address| address.is_v4());
        let (field, why) = if is_v4.is_none() {
            ("addresses", "no address: expected at least one")
        } else if self.addresses.iter().any(|own| Some(own.is_v4()) != is_v4) {
            ("addresses", "expected addresses of one IP version")
        } else if self.ports.first() == 0 {
            ("ports", "port 0 is none that a host may have")
        } else if self.blocks() == 0 {
            (
                "block_size",
                "expected at least 1, and no more than there are ports",
            )
        } else {
            return Impossible::not_unicast("addresses", self.addresses.iter().copied());
        };
        Some(Impossible::new(field, why))
    }
}

impl PortMapRange {
    fn impossible(&self, ports: PortRange) -> Option<Impossible> {
        let Self::PrivateLinkService {
            backend_ip,
            backend_port_base,
        } = *self
        else {
            return None;
        };
        match backend_port_base.checked_add(ports.last() - ports.first()) {
            None => Some(Impossible::new(
                "backend_port_base",
                "the range's last port would become one beyond 65535",
            )),
            Some(_) => Impossible::not_unicast("backend_ip", std::iter::once(backend_ip)),
        }
    }
}

#[cfg(test)]
mod tests {
    use twinpath_core::wire::Endpoint;

    use super::*;

    #[test]
    fn a_port_beyond_the_last_is_impossible() {
        let key = PortMapRangeKey {
            map: "map".into(),
            ports: Range::new(8001, 9000).unwrap(),
        };
        let range = |backend_port_base| PortMapRange::PrivateLinkService {
            backend_ip: "60.60.60.1".parse().unwrap(),
            backend_port_base,
        };
        let object = |base| Object::PortMapRange(key.clone(), range(base));
        assert_eq!(object(64536).impossible(), None);
        let wrong = object(64537).impossible().unwrap();
        assert_eq!(wrong.field, "backend_port_base");
    }

    /// What no host has is nobody's external address, and no backend.
    #[test]
    fn addresses_of_no_host_are_impossible() {
        for (text, why) in [
            (
                "255.255.255.255",
                "255.255.255.255: the broadcast address: expected that of one host",
            ),
            (
                "127.0.0.1",
                "127.0.0.1: a loopback address, which is on no cable: expected one that packets are sent to",
            ),
            (
                "224.0.0.1",
                "224.0.0.1: a multicast address: expected that of one host",
            ),
            (
                "0.0.0.0",
                "0.0.0.0: the address of no host: expected one that packets are sent to",
            ),
            (
                "ff02::1",
                "ff02::1: a multicast address: expected that of one host",
            ),
            (
                "::",
                "::: the address of no host: expected one that packets are sent to",
            ),
        ] {
            let address: Address = text.parse().unwrap();
            let good: Address = if address.is_v4() {
                "192.0.2.1"
            } else {
                "2001:db8::1"
            }
            .parse()
            .unwrap();
            let pool = NatPool {
                addresses: [good, address].into(),
                ports: Range::new(1024, 65535).unwrap(),
                block_size: 1024,
            };
            let wrong = Object::NatPool("pool".into(), pool).impossible().unwrap();
            assert_eq!(wrong.field, "addresses");
            assert_eq!(wrong.why, why);
            let balancer = |vip, backend| {
                let key = LoadBalancerKey {
                    vnet: "blue".into(),
                    vip,
                    protocol: PortProtocol::Tcp,
                    port: 80,
                };
                let backends = [Endpoint::new(good, 80), Endpoint::new(backend, 80)].into();
                Object::LoadBalancer(key, LoadBalancer { backends }).impossible()
            };
            assert_eq!(balancer(good, address).unwrap().field, "backends");
            let tunnel = Tunnel {
                endpoints: [good, address].into(),
                encapsulation: Encapsulation::Vxlan,
                vni: Vni::new(7).unwrap(),
                metering_class_or: 0,
            };
            let wrong = Object::Tunnel("t".into(), tunnel).impossible().unwrap();
            assert_eq!((wrong.field, &*wrong.why), ("endpoints", why));
            assert_eq!(balancer(address, good).unwrap().field, "key");
            let route = Route {
                action: RouteAction::ServiceTunnel(Box::new(ServiceTunnel {
                    overlay_sip: MaskedBits::NONE,
                    overlay_dip: MaskedBits::NONE,
                    underlay_sip: Some(good),
                    underlay_dip: Some(address),
                })),
                underlay_sip: None,
                tunnel: None,
                metering: MeterBits::default(),
            };
            assert_eq!(route.impossible().unwrap().field, "underlay_dip");
            let from = Route {
                underlay_sip: Some(address),
                ..route
            };
            assert_eq!(from.impossible().unwrap().field, "underlay_sip");
            let range = PortMapRange::PrivateLinkService {
                backend_ip: address,
                backend_port_base: 1,
            };
            let ports = Range::new(1, 2).unwrap();
            assert_eq!(range.impossible(ports).unwrap().field, "backend_ip");
            assert_eq!(balancer(good, good), None);
        }
    }

    #[test]
    fn a_mapping_of_private_link_needs_its_addresses() {
        let mut mapping = VnetMapping {
            routing_type: RoutingType::PrivateLink,
            underlay_ip: "101.1.2.3".parse().unwrap(),
            mac_address: None,
            use_dst_vni: false,
            private_link: None,
            metering_class_or: 0,
            tunnel: None,
            port_map: None,
        };
        assert_eq!(mapping.impossible().unwrap().field, "overlay_dip_prefix");
        mapping.private_link = Some(PrivateLink {
            overlay_sip: MaskedBits::NONE,
            overlay_dip: MaskedBits::NONE,
        });
        assert_eq!(mapping.impossible(), None);
        mapping.routing_type = RoutingType::VnetEncap;
        assert_eq!(mapping.impossible().unwrap().field, "overlay_dip_prefix");
        mapping.routing_type = RoutingType::Drop;
        assert_eq!(mapping.impossible().unwrap().field, "routing_type");
    }
}
