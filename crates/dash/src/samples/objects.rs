//! Objects in plain maps.

use std::collections::BTreeMap;

use twinpath_classify::Prefix;
use twinpath_core::wire::Address;

use crate::headers::Direction;
use crate::objects::*;
use crate::source::ObjectSource;

/// Objects by key.
#[derive(Clone, Default)]
pub struct Objects {
    /// The appliance.
    pub appliance: Option<Appliance>,
    /// How the switch speaks VXLAN.
    pub switch: Option<Switch>,
    /// Virtual networks.
    pub vnets: BTreeMap<VnetName, Vnet>,
    /// Routing types.
    pub routing_types: BTreeMap<RoutingType, RoutingActions>,
    /// Tunnels.
    pub tunnels: BTreeMap<TunnelName, Tunnel>,
    /// Profiles of limits.
    pub qos: BTreeMap<QosName, Qos>,
    /// Port maps with their ranges.
    pub port_maps: BTreeMap<PortMapId, BTreeMap<PortRange, PortMapRange>>,
    /// Meter policies with their rules.
    pub meter_policies: BTreeMap<MeterPolicyId, (MeterPolicy, BTreeMap<u32, MeterRule>)>,
    /// Named lists of prefixes.
    pub tags: BTreeMap<TagName, PrefixTag>,
    /// Access lists with their rules.
    pub acl_groups: BTreeMap<AclGroupId, (AclGroup, BTreeMap<AclRuleId, AclRule>)>,
    /// Groups of routes.
    pub route_groups: BTreeMap<RouteGroupId, Vec<(Prefix, Route)>>,
    /// Mappings by network and address.
    pub mappings: BTreeMap<(VnetName, Address), VnetMapping>,
    /// Physical addresses by VNI.
    pub pa_validation: BTreeMap<Vni, PaValidation>,
    /// ENIs.
    pub enis: BTreeMap<EniId, Eni>,
    /// Which routes ENIs follow.
    pub eni_routes: BTreeMap<EniId, RouteGroupId>,
    /// NAT gateways of ENIs.
    pub eni_nats: BTreeMap<EniId, EniNat>,
    /// External addresses and ports.
    pub nat_pools: BTreeMap<NatPoolId, NatPool>,
    /// Addresses behind which others stand.
    pub load_balancers: BTreeMap<LoadBalancerKey, LoadBalancer>,
    /// Inbound rules.
    pub route_rules: Vec<(RouteRuleKey, RouteRule)>,
    /// What stages of ENIs ask.
    pub bindings: BTreeMap<(EniId, Direction, AclStage), AclBinding>,
}

impl Objects {
    /// The keys of all that there is.
    pub fn keys(&self) -> Vec<Key> {
        let mut keys = vec![Key::Switch(SwitchKey), Key::Appliance("appliance".into())];
        keys.extend(self.vnets.keys().cloned().map(Key::Vnet));
        keys.extend(self.enis.keys().cloned().map(Key::Eni));
        keys.extend(self.pa_validation.keys().copied().map(Key::PaValidation));
        keys.extend(self.mappings.keys().map(|(vnet, address)| {
            Key::VnetMapping(VnetMappingKey {
                vnet: vnet.clone(),
                address: *address,
            })
        }));
        keys
    }
}

impl ObjectSource for Objects {
    fn appliance(&self) -> Option<&Appliance> {
        self.appliance.as_ref()
    }

    fn switch(&self) -> Option<&Switch> {
        self.switch.as_ref()
    }

    fn vnet(&self, name: &VnetName) -> Option<&Vnet> {
        self.vnets.get(name)
    }

    fn vnets(&self, each: &mut dyn FnMut(&Vnet)) {
        self.vnets.values().for_each(each);
    }

    fn routing_type(&self, kind: RoutingType) -> Option<&RoutingActions> {
        self.routing_types.get(&kind)
    }

    fn tunnel(&self, name: &TunnelName) -> Option<&Tunnel> {
        self.tunnels.get(name)
    }

    fn qos(&self, name: &QosName) -> Option<&Qos> {
        self.qos.get(name)
    }

    fn has_port_map(&self, map: &PortMapId) -> bool {
        self.port_maps.contains_key(map)
    }

    fn port_map_ranges(&self, map: &PortMapId, each: &mut dyn FnMut(PortRange, &PortMapRange)) {
        let ranges = self.port_maps.get(map).into_iter().flatten();
        ranges.for_each(|(ports, range)| each(*ports, range));
    }

    fn meter_policy(&self, policy: &MeterPolicyId) -> Option<&MeterPolicy> {
        Some(&self.meter_policies.get(policy)?.0)
    }

    fn meter_rules(&self, policy: &MeterPolicyId, each: &mut dyn FnMut(u32, &MeterRule)) {
        if let Some((_, rules)) = self.meter_policies.get(policy) {
            rules.iter().for_each(|(number, rule)| each(*number, rule));
        }
    }

    fn prefix_tag(&self, tag: &TagName) -> Option<&PrefixTag> {
        self.tags.get(tag)
    }

    fn acl_group(&self, group: &AclGroupId) -> Option<&AclGroup> {
        Some(&self.acl_groups.get(group)?.0)
    }

    fn acl_rules(&self, group: &AclGroupId, each: &mut dyn FnMut(&AclRuleId, &AclRule)) {
        if let Some((_, rules)) = self.acl_groups.get(group) {
            rules.iter().for_each(|(name, rule)| each(name, rule));
        }
    }

    fn has_route_group(&self, group: &RouteGroupId) -> bool {
        self.route_groups.contains_key(group)
    }

    fn routes(&self, group: &RouteGroupId, each: &mut dyn FnMut(Prefix, &Route)) {
        let routes = self.route_groups.get(group).into_iter().flatten();
        routes.for_each(|(prefix, route)| each(*prefix, route));
    }

    fn route_count(&self, group: &RouteGroupId) -> usize {
        self.route_groups.get(group).map_or(0, Vec::len)
    }

    fn mapping(&self, key: &VnetMappingKey) -> Option<VnetMapping> {
        self.mappings.get(&(key.vnet.clone(), key.address)).cloned()
    }

    fn pa_validation(&self, vni: Vni) -> Option<&PaValidation> {
        self.pa_validation.get(&vni)
    }

    fn enis(&self, each: &mut dyn FnMut(&EniId, &Eni)) {
        self.enis.iter().for_each(|(id, eni)| each(id, eni));
    }

    fn eni(&self, eni: &EniId) -> Option<&Eni> {
        self.enis.get(eni)
    }

    fn eni_route(&self, eni: &EniId) -> Option<&RouteGroupId> {
        self.eni_routes.get(eni)
    }

    fn eni_nat(&self, eni: &EniId) -> Option<&EniNat> {
        self.eni_nats.get(eni)
    }

    fn nat_pool(&self, pool: &NatPoolId) -> Option<&NatPool> {
        self.nat_pools.get(pool)
    }

    fn load_balancers(&self, each: &mut dyn FnMut(&LoadBalancerKey, &LoadBalancer)) {
        let all = self.load_balancers.iter();
        all.for_each(|(key, balancer)| each(key, balancer));
    }

    fn route_rules(&self, eni: &EniId, each: &mut dyn FnMut(&RouteRuleKey, &RouteRule)) {
        let rules = self.route_rules.iter().filter(|(key, _)| key.eni == *eni);
        rules.for_each(|(key, rule)| each(key, rule));
    }

    fn acl_binding(
        &self,
        eni: &EniId,
        direction: Direction,
        stage: AclStage,
    ) -> Option<&AclBinding> {
        self.bindings.get(&(eni.clone(), direction, stage))
    }
}
