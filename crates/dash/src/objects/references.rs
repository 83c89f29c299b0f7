//! What an object refers to.

use super::*;

impl Object {
    /// Calls `each` with the key of every object without which this one means nothing: the ENI of a
    /// route rule, the network of a mapping, the group of a rule.
    pub fn references(&self, each: &mut dyn FnMut(Key)) {
        match self {
            Self::Switch(..)
            | Self::Appliance(..)
            | Self::Vnet(..)
            | Self::RoutingType(..)
            | Self::Tunnel(..)
            | Self::PortMap(..)
            | Self::Qos(..)
            | Self::MeterPolicy(..)
            | Self::PrefixTag(..)
            | Self::AclGroup(..)
            | Self::RouteGroup(..)
            | Self::PaValidation(..) => {}
            Self::PortMapRange(key, _) => each(Key::PortMap(key.map.clone())),
            Self::MeterRule(key, _) => each(Key::MeterPolicy(key.policy.clone())),
            Self::AclRule(key, rule) => {
                each(Key::AclGroup(key.group.clone()));
                rule.tags().cloned().map(Key::PrefixTag).for_each(each);
            }
            Self::Route(key, route) => {
                each(Key::RouteGroup(key.group.clone()));
                route.references(each);
            }
            Self::VnetMapping(key, mapping) => {
                each(Key::Vnet(key.vnet.clone()));
                mapping.references(each);
            }
            Self::Eni(_, eni) => eni.references(each),
            Self::EniRoute(eni, route) => {
                each(Key::Eni(eni.clone()));
                each(Key::RouteGroup(route.group.clone()));
            }
            Self::RouteRule(key, rule) => {
                each(Key::Eni(key.eni.clone()));
                rule.vnet.clone().map(Key::Vnet).into_iter().for_each(each);
            }
            Self::AclIn(key, binding) | Self::AclOut(key, binding) => {
                each(Key::Eni(key.eni.clone()));
                let groups = [&binding.v4, &binding.v6].into_iter().flatten();
                groups.cloned().map(Key::AclGroup).for_each(each);
            }
        }
    }
}

impl Route {
    fn references(&self, each: &mut dyn FnMut(Key)) {
        if let Some(vnet) = self.action.vnet() {
            each(Key::Vnet(vnet.clone()));
        }
        if let Some(tunnel) = &self.tunnel {
            each(Key::Tunnel(tunnel.clone()));
        }
    }
}

impl VnetMapping {
    fn references(&self, each: &mut dyn FnMut(Key)) {
        each(Key::RoutingType(self.routing_type));
        if let Some(tunnel) = &self.tunnel {
            each(Key::Tunnel(tunnel.clone()));
        }
        if let Some(map) = &self.port_map {
            each(Key::PortMap(map.clone()));
        }
    }
}

impl Eni {
    fn references(&self, each: &mut dyn FnMut(Key)) {
        each(Key::Vnet(self.vnet.clone()));
        if let Some(qos) = &self.qos {
            each(Key::Qos(qos.clone()));
        }
        for policy in [&self.v4_meter_policy, &self.v6_meter_policy] {
            if let Some(policy) = policy {
                each(Key::MeterPolicy(policy.clone()));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_route_refers_to_its_group_network_and_tunnel() {
        let key = RouteKey {
            group: "group".into(),
            prefix: "10.0.0.0/8".parse().unwrap(),
        };
        let route = Route {
            action: RouteAction::Vnet("blue".into()),
            underlay_sip: None,
            tunnel: Some("far".into()),
            metering: MeterBits::default(),
        };
        let mut references = Vec::new();
        Object::Route(key, route).references(&mut |key| references.push(key.to_string()));
        assert_eq!(
            references,
            [
                "DASH_ROUTE_GROUP_TABLE:group",
                "DASH_VNET_TABLE:blue",
                "DASH_TUNNEL_TABLE:far"
            ]
        );
    }
}
