//! The configuration of a DPU as typed objects.
//!
//! An [`Object`] is an entry of a [`Table`]: a key and what is under it. A [`Change`] sets one or
//! deletes what is under a [`Key`]. What refers to what is told by [`Object::references`], what can
//! never be by [`Object::impossible`].
//!
//! Objects are what was said, checked each on its own. Whether all that one refers to is there is
//! for whoever holds them together.

mod acl;
mod appliance;
mod checks;
mod eni;
mod ha;
mod metering;
mod names;
mod port_map;
mod references;
mod route;
mod routing_type;
mod services;
mod switch_role;
mod table;
mod values;
mod vnet;

pub use acl::{
    AclAction, AclBinding, AclGroup, AclRule, AclRuleKey, AclStage, AclStageKey, PrefixTag,
};
pub use appliance::{Appliance, DirectionLookup, Qos, Switch};
pub use checks::Impossible;
pub use eni::{AdminState, Eni, EniMode, EniRoute, MAX_ENIS};
pub use ha::{
    DesiredHaState, HaOwner, HaRole, HaScope, HaScopeConfig, HaScopeConfigKey, HaScopeKind, HaSet,
    HaSetConfig,
};
pub use metering::{MeterPolicy, MeterRule, MeterRuleKey};
pub use names::{
    AclGroupId, AclRuleId, ApplianceId, DpuId, EniId, HaScopeId, HaSetId, MeterPolicyId, NatPoolId,
    PortMapId, QosName, RouteGroupId, SwitchTunnelName, SwitchVnetName, TagName, TunnelName,
    VdpuId, VnetName,
};
pub use port_map::{PortMap, PortMapRange, PortMapRangeKey};
pub use references::Referred;
pub use route::{
    InboundAction, PaValidation, Route, RouteAction, RouteGroup, RouteKey, RouteRule, RouteRuleKey,
    ServiceTunnel, Tunnel,
};
pub use routing_type::{ActionType, Encapsulation, RoutingAction, RoutingActions, RoutingType};
pub use services::{EniNat, LoadBalancer, LoadBalancerKey, MAX_BACKENDS, NatPool, PortProtocol};
pub use switch_role::{
    Dpu, EniForward, EniForwardKey, RemoteDpu, SwitchTunnel, SwitchVnet, Vdpu, Vip,
};
pub use table::{Change, Key, Object, SwitchKey, Table};
pub use values::{
    Guid, IpVersion, MaskedBits, MeterBits, PortRange, PrefixList, Range, Vni, VniRange,
};
pub use vnet::{PrivateLink, Vnet, VnetMapping, VnetMappingKey};
