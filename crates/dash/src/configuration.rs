//! What tables are compiled from.

use twinpath_classify::Prefix;
use twinpath_core::wire::Address;

use crate::objects::{
    AclBinding, AclGroup, AclGroupId, AclRule, AclRuleId, AclStage, Appliance, Eni, EniId,
    MeterPolicy, MeterPolicyId, MeterRule, PaValidation, PortMapId, PortMapRange, PortRange,
    PrefixTag, Qos, QosName, Route, RouteGroupId, RouteRule, RouteRuleKey, RoutingActions,
    RoutingType, Switch, TagName, Tunnel, TunnelName, Vnet, VnetMapping, VnetMappingKey, VnetName,
    Vni,
};

/// A direction of packets, as an ENI's machine sees it.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Direction {
    /// From the machine.
    Outbound,
    /// To it.
    Inbound,
}

/// The objects that hold now, by name. What one of them refers to may be missing: then packets that
/// would need it are dropped, each for a reason of its own.
pub trait Configuration {
    /// The appliance.
    fn appliance(&self) -> Option<&Appliance>;
    /// How the switch speaks VXLAN.
    fn switch(&self) -> Option<&Switch>;
    /// A virtual network.
    fn vnet(&self, name: &VnetName) -> Option<&Vnet>;
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
    /// A mapping.
    fn mapping(&self, key: &VnetMappingKey) -> Option<&VnetMapping>;
    /// All mappings.
    fn mappings(&self, each: &mut dyn FnMut(&VnetName, Address, &VnetMapping));
    /// Physical addresses that may send with a VNI.
    fn pa_validation(&self, vni: Vni) -> Option<&PaValidation>;
    /// All ENIs.
    fn enis(&self, each: &mut dyn FnMut(&EniId, &Eni));
    /// An ENI.
    fn eni(&self, eni: &EniId) -> Option<&Eni>;
    /// Which routes an ENI follows.
    fn eni_route(&self, eni: &EniId) -> Option<&RouteGroupId>;
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
