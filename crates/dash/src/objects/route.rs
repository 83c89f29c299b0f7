//! Routing: outbound by the inner destination, inbound by the tunnel that a packet comes with.

use std::fmt;

use twinpath_classify::Prefix;
use twinpath_core::wire::Address;

use super::names::{EniId, RouteGroupId, TunnelName, VnetName};
use super::routing_type::{Encapsulation, RoutingType};
use super::values::{MaskedBits, MeterBits, PrefixList, Vni};

/// A group of outbound routes. ENIs may share one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RouteGroup {
    /// The controller's own name for it.
    pub guid: Option<Box<str>>,
    /// Of what version its routes are. Told.
    pub version: Option<Box<str>>,
}

/// Where outbound packets to a prefix go: the longest prefix that covers the inner destination is
/// taken.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Route {
    /// What is done.
    pub action: RouteAction,
    /// Outer source of Private Link packets on this route, instead of the ENI's.
    pub underlay_sip: Option<Address>,
    /// A tunnel around what the action makes, to one of its endpoints.
    pub tunnel: Option<TunnelName>,
    /// What is done to the metering class.
    pub metering: MeterBits,
}

/// What a route does.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RouteAction {
    /// The mapping of the inner destination says where. A network other than the ENI's is a peer.
    Vnet(VnetName),
    /// The mapping of `overlay_ip`, or else of the inner destination, says where.
    VnetDirect {
        /// Whose mappings.
        vnet: VnetName,
        /// Whose mapping.
        overlay_ip: Option<Address>,
    },
    /// To the underlay as it is, unless the route has a tunnel.
    Direct,
    /// From IPv4 to IPv6 inside, with an outer header of IPv4.
    ServiceTunnel(Box<ServiceTunnel>),
    /// Dropped.
    Drop,
}

impl RouteAction {
    /// The routing type whose actions are taken.
    #[must_use]
    pub const fn routing_type(&self) -> RoutingType {
        match self {
            Self::Vnet(_) => RoutingType::Vnet,
            Self::VnetDirect { .. } => RoutingType::VnetDirect,
            Self::Direct => RoutingType::Direct,
            Self::ServiceTunnel(_) => RoutingType::ServiceTunnel,
            Self::Drop => RoutingType::Drop,
        }
    }

    /// The network whose mappings say where.
    #[must_use]
    pub const fn vnet(&self) -> Option<&VnetName> {
        match self {
            Self::Vnet(vnet) | Self::VnetDirect { vnet, .. } => Some(vnet),
            Self::Direct | Self::ServiceTunnel(_) | Self::Drop => None,
        }
    }
}

/// Addresses of a service tunnel.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServiceTunnel {
    /// Bits of the inner IPv6 source; the others are the machine's IPv4 address in the last 32.
    pub overlay_sip: MaskedBits,
    /// Bits of the inner IPv6 destination; the others likewise.
    pub overlay_dip: MaskedBits,
    /// Outer source; absent, the appliance's address.
    pub underlay_sip: Option<Address>,
    /// Outer destination; absent, the packet's own destination.
    pub underlay_dip: Option<Address>,
}

/// Which prefix of which group a route is for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RouteKey {
    /// The group.
    pub group: RouteGroupId,
    /// Inner destinations.
    pub prefix: Prefix,
}

/// What is done with inbound packets by the tunnel that they come with. Of the rules that match,
/// the one with the lowest priority number is taken, among equals that with the longest prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteRule {
    /// The lower, the earlier: that of the key, or else the field that older controllers write, or
    /// else zero.
    pub priority: u32,
    /// What is done.
    pub action: InboundAction,
    /// The inner protocol number; absent or zero, any.
    pub protocol: Option<u8>,
    /// The network that the sender belongs to.
    pub vnet: Option<VnetName>,
    /// Whether the outer source must be known as one of the network's physical addresses: those
    /// of its mappings and of the VNI's [`PaValidation`]. `None` if the rule does not say.
    pub pa_validation: Option<bool>,
    /// What is done to the metering class.
    pub metering: MeterBits,
    /// The sender's region. Told.
    pub region: Option<Box<str>>,
}

/// What an inbound rule does.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum InboundAction {
    /// The tunnel's header is taken off, and the packet goes on.
    Decap,
    /// The packet is dropped.
    Drop,
}

/// What an inbound rule matches.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RouteRuleKey {
    /// Whose packets.
    pub eni: EniId,
    /// The VNI, or the VSID of NVGRE, that they come with.
    pub vni: Vni,
    /// Their outer sources.
    pub source: Prefix,
    /// The rule's priority, if the key has one; older controllers write it as a field.
    pub priority: Option<u32>,
}

impl fmt::Display for RouteRuleKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.eni, self.vni, self.source)?;
        match self.priority {
            None => Ok(()),
            Some(priority) => write!(f, ":{priority}"),
        }
    }
}

/// Physical addresses that may send with a VNI.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PaValidation {
    /// The addresses.
    pub prefixes: PrefixList,
}

/// A tunnel with one endpoint, or with several between which flows are spread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tunnel {
    /// Outer destinations, at least one, no two the same.
    pub endpoints: Box<[Address]>,
    /// The header.
    pub encapsulation: Encapsulation,
    /// The VNI.
    pub vni: Vni,
    /// Bits that are set in the metering class.
    pub metering_class_or: u32,
}
