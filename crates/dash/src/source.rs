//! What tables are compiled from.

use twinpath_classify::Prefix;

use crate::config::Configuration;
use crate::headers::Direction;
use crate::objects::{
    AclBinding, AclGroup, AclGroupId, AclRule, AclRuleId, AclStage, Appliance, Eni, EniId, EniNat,
    LoadBalancer, LoadBalancerKey, MeterPolicy, MeterPolicyId, MeterRule, NatPool, NatPoolId,
    PaValidation, PortMapId, PortMapRange, PortRange, PrefixTag, Qos, QosName, Route, RouteGroupId,
    RouteRule, RouteRuleKey, RoutingActions, RoutingType, Switch, TagName, Tunnel, TunnelName,
    Vnet, VnetMapping, VnetMappingKey, VnetName, Vni,
};

/// The objects that hold now, by name. What one of them refers to may be missing: then packets that
/// would need it are dropped, each for a reason of its own.
pub trait ObjectSource {
    /// The appliance.
    fn appliance(&self) -> Option<&Appliance>;
    /// How the switch speaks VXLAN.
    fn switch(&self) -> Option<&Switch>;
    /// A virtual network.
    fn vnet(&self, name: &VnetName) -> Option<&Vnet>;
    /// All virtual networks.
    fn vnets(&self, each: &mut dyn FnMut(&Vnet));
    /// The actions of a routing type.
    fn routing_type(&self, kind: RoutingType) -> Option<&RoutingActions>;
    /// A tunnel.
    fn tunnel(&self, name: &TunnelName) -> Option<&Tunnel>;
    /// A profile of limits.
    fn qos(&self, name: &QosName) -> Option<&Qos>;
    /// Whether there is a port map.
    fn has_port_map(&self, map: &PortMapId) -> bool;
    /// The ranges of a port map.
    fn port_map_ranges(&self, map: &PortMapId, each: &mut dyn FnMut(PortRange, &PortMapRange));
    /// A meter policy.
    fn meter_policy(&self, policy: &MeterPolicyId) -> Option<&MeterPolicy>;
    /// Its rules, with their numbers.
    fn meter_rules(&self, policy: &MeterPolicyId, each: &mut dyn FnMut(u32, &MeterRule));
    /// A named list of prefixes.
    fn prefix_tag(&self, tag: &TagName) -> Option<&PrefixTag>;
    /// A group of access control rules.
    fn acl_group(&self, group: &AclGroupId) -> Option<&AclGroup>;
    /// Its rules, by name.
    fn acl_rules(&self, group: &AclGroupId, each: &mut dyn FnMut(&AclRuleId, &AclRule));
    /// Whether there is a group of routes.
    fn has_route_group(&self, group: &RouteGroupId) -> bool;
    /// Its routes.
    fn routes(&self, group: &RouteGroupId, each: &mut dyn FnMut(Prefix, &Route));
    /// How many they are.
    fn route_count(&self, group: &RouteGroupId) -> usize {
        let mut count = 0;
        self.routes(group, &mut |_, _| count += 1);
        count
    }
    /// Those of prefixes that cover a prefix or lie in it.
    fn routes_about(
        &self,
        group: &RouteGroupId,
        prefix: Prefix,
        each: &mut dyn FnMut(Prefix, &Route),
    ) {
        self.routes(group, &mut |other, route| {
            if is_about(prefix, other) {
                each(other, route);
            }
        });
    }
    /// A mapping.
    fn mapping(&self, key: &VnetMappingKey) -> Option<VnetMapping>;
    /// Physical addresses that may send with a VNI.
    fn pa_validation(&self, vni: Vni) -> Option<&PaValidation>;
    /// All ENIs.
    fn enis(&self, each: &mut dyn FnMut(&EniId, &Eni));
    /// An ENI.
    fn eni(&self, eni: &EniId) -> Option<&Eni>;
    /// Which routes an ENI follows.
    fn eni_route(&self, eni: &EniId) -> Option<&RouteGroupId>;
    /// Its NAT gateway.
    fn eni_nat(&self, eni: &EniId) -> Option<&EniNat>;
    /// External addresses and ports.
    fn nat_pool(&self, pool: &NatPoolId) -> Option<&NatPool>;
    /// All addresses behind which others stand.
    fn load_balancers(&self, each: &mut dyn FnMut(&LoadBalancerKey, &LoadBalancer));
    /// Its inbound rules.
    fn route_rules(&self, eni: &EniId, each: &mut dyn FnMut(&RouteRuleKey, &RouteRule));
    /// What a stage of it asks.
    fn acl_binding(
        &self,
        eni: &EniId,
        direction: Direction,
        stage: AclStage,
    ) -> Option<&AclBinding>;
}

/// Whether one of two prefixes covers the other.
fn is_about(one: Prefix, other: Prefix) -> bool {
    one.includes(other.network()) || other.includes(one.network())
}

impl ObjectSource for Configuration {
    fn appliance(&self) -> Option<&Appliance> {
        Self::appliance(self)
    }

    fn switch(&self) -> Option<&Switch> {
        Some(&self.switch)
    }

    fn vnet(&self, name: &VnetName) -> Option<&Vnet> {
        Some(&self.vnets.get(name)?.vnet)
    }

    fn vnets(&self, each: &mut dyn FnMut(&Vnet)) {
        self.vnets.values().for_each(|table| each(&table.vnet));
    }

    fn routing_type(&self, kind: RoutingType) -> Option<&RoutingActions> {
        self.routing_types.get(&kind).map(|actions| &**actions)
    }

    fn tunnel(&self, name: &TunnelName) -> Option<&Tunnel> {
        self.tunnels.get(name).map(|tunnel| &**tunnel)
    }

    fn qos(&self, name: &QosName) -> Option<&Qos> {
        self.qos.get(name).map(|qos| &**qos)
    }

    fn has_port_map(&self, map: &PortMapId) -> bool {
        self.port_maps.contains(map)
    }

    fn port_map_ranges(&self, map: &PortMapId, each: &mut dyn FnMut(PortRange, &PortMapRange)) {
        if let Some(table) = self.port_maps.get(map) {
            table
                .ranges
                .iter()
                .for_each(|(ports, range)| each(*ports, range));
        }
    }

    fn meter_policy(&self, policy: &MeterPolicyId) -> Option<&MeterPolicy> {
        Some(&self.meter_policies.get(policy)?.policy)
    }

    fn meter_rules(&self, policy: &MeterPolicyId, each: &mut dyn FnMut(u32, &MeterRule)) {
        if let Some(table) = self.meter_policies.get(policy) {
            table
                .rules
                .iter()
                .for_each(|(number, rule)| each(*number, rule));
        }
    }

    fn prefix_tag(&self, tag: &TagName) -> Option<&PrefixTag> {
        self.tags.get(tag).map(|tag| &**tag)
    }

    fn acl_group(&self, group: &AclGroupId) -> Option<&AclGroup> {
        Some(&self.acl_groups.get(group)?.group)
    }

    fn acl_rules(&self, group: &AclGroupId, each: &mut dyn FnMut(&AclRuleId, &AclRule)) {
        if let Some(table) = self.acl_groups.get(group) {
            table
                .rules()
                .iter()
                .for_each(|(name, rule)| each(name, rule));
        }
    }

    fn has_route_group(&self, group: &RouteGroupId) -> bool {
        self.route_groups.contains(group)
    }

    fn routes(&self, group: &RouteGroupId, each: &mut dyn FnMut(Prefix, &Route)) {
        if let Some(table) = self.route_groups.get(group) {
            table
                .routes()
                .iter()
                .for_each(|(prefix, route)| each(prefix, route));
        }
    }

    fn route_count(&self, group: &RouteGroupId) -> usize {
        let table = self.route_groups.get(group);
        table.map_or(0, |table| table.routes().len())
    }

    fn routes_about(
        &self,
        group: &RouteGroupId,
        prefix: Prefix,
        each: &mut dyn FnMut(Prefix, &Route),
    ) {
        if let Some(table) = self.route_groups.get(group) {
            let routes = table.routes();
            routes.about(prefix, &mut |prefix, route| each(prefix, route));
        }
    }

    fn mapping(&self, key: &VnetMappingKey) -> Option<VnetMapping> {
        self.vnets.get(&key.vnet)?.mapping(key.address)
    }

    fn pa_validation(&self, vni: Vni) -> Option<&PaValidation> {
        self.pa_validations
            .get(&vni)
            .map(|validation| &**validation)
    }

    fn enis(&self, each: &mut dyn FnMut(&EniId, &Eni)) {
        self.enis
            .iter()
            .for_each(|(id, table)| each(id, &table.eni));
    }

    fn eni(&self, eni: &EniId) -> Option<&Eni> {
        Some(&self.enis.get(eni)?.eni)
    }

    fn eni_route(&self, eni: &EniId) -> Option<&RouteGroupId> {
        self.enis.get(eni)?.route_group.as_ref()
    }

    fn eni_nat(&self, eni: &EniId) -> Option<&EniNat> {
        self.enis.get(eni)?.nat.as_ref()
    }

    fn nat_pool(&self, pool: &NatPoolId) -> Option<&NatPool> {
        self.nat_pools.get(pool).map(|pool| &**pool)
    }

    fn load_balancers(&self, each: &mut dyn FnMut(&LoadBalancerKey, &LoadBalancer)) {
        let all = self.load_balancers.iter();
        all.for_each(|(key, balancer)| each(key, balancer));
    }

    fn route_rules(&self, eni: &EniId, each: &mut dyn FnMut(&RouteRuleKey, &RouteRule)) {
        let Some(table) = self.enis.get(eni) else {
            return;
        };
        for (inbound, rule) in table.route_rules.iter() {
            let key = RouteRuleKey {
                eni: eni.clone(),
                vni: inbound.vni,
                source: inbound.source,
                priority: inbound.priority,
            };
            each(&key, rule);
        }
    }

    fn acl_binding(
        &self,
        eni: &EniId,
        direction: Direction,
        stage: AclStage,
    ) -> Option<&AclBinding> {
        let table = self.enis.get(eni)?;
        let stages = match direction {
            Direction::Outbound => &table.acl_out,
            Direction::Inbound => &table.acl_in,
        };
        let binding = &stages[stage.index()];
        (*binding != AclBinding::default()).then_some(binding)
    }
}
