//! The tables, and keys and objects of any of them.

use std::fmt;

use super::*;
use twinpath_core::wire::Address;

macro_rules! tables {
    ($($(#[$doc:meta])* $Table:ident, $name:literal, $Key:ty, $Value:ty;)*) => {
        /// A table of the configuration.
        #[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Table {
            $($(#[$doc])* $Table,)*
        }

        impl Table {
            /// All of them, in the order in which a controller writes them.
            pub const ALL: &'static [Self] = &[$(Self::$Table,)*];

            /// The name that SONiC has for it.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$Table => $name,)*
                }
            }
        }

        /// Which object of which table.
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Key {
            $($(#[$doc])* $Table($Key),)*
        }

        impl Key {
            /// The table.
            #[must_use]
            pub const fn table(&self) -> Table {
                match self {
                    $(Self::$Table(_) => Table::$Table,)*
                }
            }

            /// The part behind the table's name.
            fn rest(&self) -> &dyn fmt::Display {
                match self {
                    $(Self::$Table(key) => key,)*
                }
            }
        }

        /// An entry of a table.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum Object {
            $($(#[$doc])* $Table($Key, $Value),)*
        }

        impl Object {
            /// Which object it is.
            #[must_use]
            pub fn key(&self) -> Key {
                match self {
                    $(Self::$Table(key, _) => Key::$Table(key.clone()),)*
                }
            }

            /// The table.
            #[must_use]
            pub const fn table(&self) -> Table {
                match self {
                    $(Self::$Table(..) => Table::$Table,)*
                }
            }
        }
    };
}

tables! {
    /// How the switch speaks VXLAN.
    Switch, "SWITCH_TABLE", SwitchKey, Switch;
    /// The DPU itself.
    Appliance, "DASH_APPLIANCE_TABLE", ApplianceId, Appliance;
    /// Virtual networks.
    Vnet, "DASH_VNET_TABLE", VnetName, Vnet;
    /// What routes and mappings of a kind do.
    RoutingType, "DASH_ROUTING_TYPE_TABLE", RoutingType, RoutingActions;
    /// Tunnels.
    Tunnel, "DASH_TUNNEL_TABLE", TunnelName, Tunnel;
    /// Port maps.
    PortMap, "DASH_OUTBOUND_PORT_MAP_TABLE", PortMapId, PortMap;
    /// Ranges of port maps.
    PortMapRange, "DASH_OUTBOUND_PORT_MAP_RANGE_TABLE", PortMapRangeKey, PortMapRange;
    /// Limits of ENIs.
    Qos, "DASH_QOS_TABLE", QosName, Qos;
    /// Meter policies.
    MeterPolicy, "DASH_METER_POLICY_TABLE", MeterPolicyId, MeterPolicy;
    /// Rules of meter policies.
    MeterRule, "DASH_METER_RULE_TABLE", MeterRuleKey, MeterRule;
    /// Named lists of prefixes.
    PrefixTag, "DASH_PREFIX_TAG_TABLE", TagName, PrefixTag;
    /// Groups of access control rules.
    AclGroup, "DASH_ACL_GROUP_TABLE", AclGroupId, AclGroup;
    /// Access control rules.
    AclRule, "DASH_ACL_RULE_TABLE", AclRuleKey, AclRule;
    /// Groups of outbound routes.
    RouteGroup, "DASH_ROUTE_GROUP_TABLE", RouteGroupId, RouteGroup;
    /// Outbound routes.
    Route, "DASH_ROUTE_TABLE", RouteKey, Route;
    /// Where addresses of virtual networks are.
    VnetMapping, "DASH_VNET_MAPPING_TABLE", VnetMappingKey, VnetMapping;
    /// Addresses of networks behind which others stand.
    LoadBalancer, "DASH_LOAD_BALANCER_TABLE", LoadBalancerKey, LoadBalancer;
    /// External addresses and ports.
    NatPool, "DASH_NAT_POOL_TABLE", NatPoolId, NatPool;
    /// Physical addresses that may send with a VNI.
    PaValidation, "DASH_PA_VALIDATION_TABLE", Vni, PaValidation;
    /// Elastic network interfaces.
    Eni, "DASH_ENI_TABLE", EniId, Eni;
    /// Which routes ENIs follow.
    EniRoute, "DASH_ENI_ROUTE_TABLE", EniId, EniRoute;
    /// Behind which external ports ENIs hide.
    EniNat, "DASH_ENI_NAT_TABLE", EniId, EniNat;
    /// Inbound routes.
    RouteRule, "DASH_ROUTE_RULE_TABLE", RouteRuleKey, RouteRule;
    /// Groups that ask inbound packets.
    AclIn, "DASH_ACL_IN_TABLE", AclStageKey, AclBinding;
    /// Groups that ask outbound packets.
    AclOut, "DASH_ACL_OUT_TABLE", AclStageKey, AclBinding;
    /// Sets of DPUs, as a DPU is told.
    HaSet, "DASH_HA_SET_TABLE", HaSetId, HaSet;
    /// Roles, as a DPU is told.
    HaScope, "DASH_HA_SCOPE_TABLE", HaScopeId, HaScope;
    /// Sets of DPUs, as a switch is told.
    HaSetConfig, "DASH_HA_SET_CONFIG_TABLE", HaSetId, HaSetConfig;
    /// Roles, as a switch is told.
    HaScopeConfig, "DASH_HA_SCOPE_CONFIG_TABLE", HaScopeConfigKey, HaScopeConfig;
    /// A switch's addresses that hosts send to.
    Vip, "VIP_TABLE", Address, Vip;
    /// A switch's DPUs.
    Dpu, "DPU", DpuId, Dpu;
    /// Other switches' DPUs.
    RemoteDpu, "REMOTE_DPU", DpuId, RemoteDpu;
    /// Virtual DPUs.
    Vdpu, "VDPU", VdpuId, Vdpu;
    /// A switch's tunnels.
    SwitchTunnel, "VXLAN_TUNNEL", SwitchTunnelName, SwitchTunnel;
    /// A switch's networks.
    SwitchVnet, "VNET", SwitchVnetName, SwitchVnet;
    /// Which DPUs ENIs are on.
    EniForward, "DASH_ENI_FORWARD_TABLE", EniForwardKey, EniForward;
}

/// The key of the only entry of [`Table::Switch`].
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SwitchKey;

/// A step of a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// The object is as given, whether it was there or not.
    Set(Object),
    /// The object is gone.
    Delete(Key),
}

impl Change {
    /// Which object it is about.
    #[must_use]
    pub fn key(&self) -> Key {
        match self {
            Self::Set(object) => object.key(),
            Self::Delete(key) => key.clone(),
        }
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// As SONiC writes it: the table's name and the key's parts with colons between them.
impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.table(), self.rest())
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

macro_rules! display_with_colons {
    ($($Key:ident { $first:ident, $second:ident })*) => {$(
        impl fmt::Display for $Key {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}:{}", self.$first, self.$second)
            }
        }
    )*};
}

display_with_colons! {
    RouteKey { group, prefix }
    VnetMappingKey { vnet, address }
    AclRuleKey { group, rule }
    AclStageKey { eni, stage }
    MeterRuleKey { policy, rule }
    EniForwardKey { vnet, mac_address }
    HaScopeConfigKey { vdpu, scope }
}

/// With both ports, also where they are the same.
impl fmt::Display for PortMapRangeKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (first, last) = (self.ports.first(), self.ports.last());
        write!(f, "{}:{first}-{last}", self.map)
    }
}

impl fmt::Display for AclStage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.number().fmt(f)
    }
}

impl fmt::Display for SwitchKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("switch")
    }
}

impl fmt::Display for RoutingType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Direct => "direct",
            Self::Vnet => "vnet",
            Self::VnetDirect => "vnet_direct",
            Self::VnetEncap => "vnet_encap",
            Self::Appliance => "appliance",
            Self::PrivateLink => "privatelink",
            Self::PrivateLinkNsg => "privatelinknsg",
            Self::ServiceTunnel => "servicetunnel",
            Self::Drop => "drop",
        })
    }
}
