//! What an object refers to.

use super::*;

/// What is told of each reference: the field that has it, or `key`, and what it refers to.
pub type Referred<'e> = &'e mut dyn FnMut(&'static str, Key);

impl Object {
    /// Calls `each` with every object without which this one means nothing: the ENI of a route
    /// rule, the network of a mapping, the group of a rule.
    pub fn references(&self, each: Referred<'_>) {
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
            | Self::NatPool(..)
            | Self::PaValidation(..)
            | Self::HaSet(..)
            | Self::HaSetConfig(..)
            | Self::Vip(..)
            | Self::Dpu(..)
            | Self::RemoteDpu(..)
            | Self::Vdpu(..)
            | Self::SwitchTunnel(..) => {}
            Self::PortMapRange(key, _) => each("key", Key::PortMap(key.map.clone())),
            Self::MeterRule(key, _) => each("key", Key::MeterPolicy(key.policy.clone())),
            Self::AclRule(key, rule) => {
                each("key", Key::AclGroup(key.group.clone()));
                rule.references(each);
            }
            Self::Route(key, route) => {
                each("key", Key::RouteGroup(key.group.clone()));
                route.references(each);
            }
            Self::VnetMapping(key, mapping) => {
                each("key", Key::Vnet(key.vnet.clone()));
                mapping.references(each);
            }
            Self::LoadBalancer(key, balancer) => {
                each("key", Key::Vnet(key.vnet.clone()));
                balancer.references(key, each);
            }
            Self::Eni(_, eni) => eni.references(each),
            Self::EniNat(eni, nat) => {
                each("key", Key::Eni(eni.clone()));
                each("pool", Key::NatPool(nat.pool.clone()));
            }
            Self::EniRoute(eni, route) => {
                each("key", Key::Eni(eni.clone()));
                each("group_id", Key::RouteGroup(route.group.clone()));
            }
            Self::RouteRule(key, rule) => {
                each("key", Key::Eni(key.eni.clone()));
                told("vnet", &rule.vnet, Key::Vnet, each);
            }
            Self::AclIn(key, binding) | Self::AclOut(key, binding) => {
                each("key", Key::Eni(key.eni.clone()));
                told("v4_acl_group_id", &binding.v4, Key::AclGroup, each);
                told("v6_acl_group_id", &binding.v6, Key::AclGroup, each);
            }
            Self::HaScope(_, scope) => told("ha_set_id", &scope.set, Key::HaSet, each),
            Self::HaScopeConfig(_, scope) => {
                told("ha_set_id", &scope.set, Key::HaSetConfig, each);
            }
            Self::SwitchVnet(_, vnet) => {
                each("vxlan_tunnel", Key::SwitchTunnel(vnet.tunnel.clone()));
            }
            Self::EniForward(_, forward) => {
                for vdpu in &forward.vdpus {
                    each("vdpu_ids", Key::Vdpu(vdpu.clone()));
                }
            }
        }
    }
}

/// Tells of a reference that an object may have.
fn told<N: Clone>(field: &'static str, name: &Option<N>, key: fn(N) -> Key, each: Referred<'_>) {
    if let Some(name) = name {
        each(field, key(name.clone()));
    }
}

impl AclRule {
    fn references(&self, each: Referred<'_>) {
        for (field, tags) in [("src_tag", &self.src_tag), ("dst_tag", &self.dst_tag)] {
            for tag in tags {
                each(field, Key::PrefixTag(tag.clone()));
            }
        }
    }
}

impl Route {
    /// What a route refers to, beside its group.
    pub(crate) fn references(&self, each: Referred<'_>) {
        if let Some(vnet) = self.action.vnet() {
            each("vnet", Key::Vnet(vnet.clone()));
        }
        told("tunnel", &self.tunnel, Key::Tunnel, each);
    }
}

impl VnetMapping {
    /// What a mapping refers to, beside its network.
    pub(crate) fn references(&self, each: Referred<'_>) {
        each("routing_type", Key::RoutingType(self.routing_type));
        told("tunnel", &self.tunnel, Key::Tunnel, each);
        told("port_map", &self.port_map, Key::PortMap, each);
    }
}

impl LoadBalancer {
    /// What stands behind an address is sent to as mappings say.
    fn references(&self, own: &LoadBalancerKey, each: Referred<'_>) {
        for backend in &self.backends {
            let (vnet, address) = (own.vnet.clone(), backend.address);
            each(
                "backends",
                Key::VnetMapping(VnetMappingKey { vnet, address }),
            );
        }
    }
}

impl Eni {
    fn references(&self, each: Referred<'_>) {
        each("vnet", Key::Vnet(self.vnet.clone()));
        told("qos", &self.qos, Key::Qos, each);
        let (v4, v6) = (&self.v4_meter_policy, &self.v6_meter_policy);
        told("v4_meter_policy_id", v4, Key::MeterPolicy, each);
        told("v6_meter_policy_id", v6, Key::MeterPolicy, each);
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
        let object = Object::Route(key, route);
        object.references(&mut |field, key| references.push(format!("{field} {key}")));
        assert_eq!(
            references,
            [
                "key DASH_ROUTE_GROUP_TABLE:group",
                "vnet DASH_VNET_TABLE:blue",
                "tunnel DASH_TUNNEL_TABLE:far"
            ]
        );
    }
}
