//! Routing types: what a route or mapping of a kind does to a packet, as a row of actions.

use super::values::Vni;

/// Kinds of routes and mappings.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RoutingType {
    /// To the underlay, without a tunnel.
    Direct,
    /// To a virtual network: the inner destination's mapping says where.
    Vnet,
    /// To a virtual network, where another address's mapping says where.
    VnetDirect,
    /// Of mappings: to the physical address, encapsulated.
    VnetEncap,
    /// To a routing appliance. Deprecated.
    Appliance,
    /// Of mappings: to a private endpoint, from IPv4 to IPv6.
    PrivateLink,
    /// Private Link by way of a network security group's appliance. Deprecated: a mapping's tunnel
    /// says it.
    PrivateLinkNsg,
    /// To a public service, from IPv4 to IPv6 and back to IPv4 outside.
    ServiceTunnel,
    /// Nowhere.
    Drop,
}

/// A kind's actions, in the order in which they are taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoutingActions {
    /// At least one.
    pub items: Box<[RoutingAction]>,
}

impl RoutingActions {
    /// The encapsulations, from the inside out.
    pub fn encapsulations(&self) -> impl Iterator<Item = &RoutingAction> {
        let encapsulates = |item: &&RoutingAction| item.action == ActionType::StaticEncap;
        self.items.iter().filter(encapsulates)
    }

    /// Whether one of the actions is of this type.
    #[must_use]
    pub fn has(&self, action: ActionType) -> bool {
        self.items.iter().any(|item| item.action == action)
    }
}

/// One action of a routing type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoutingAction {
    /// A word that is told where the action is.
    pub name: Box<str>,
    /// What is done.
    pub action: ActionType,
    /// Of [`ActionType::StaticEncap`]: with which header; VXLAN if nothing is said.
    pub encapsulation: Option<Encapsulation>,
    /// Of [`ActionType::StaticEncap`]: the VNI; if nothing is said, that of the virtual network.
    pub vni: Option<Vni>,
}

/// What an action does to a packet.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ActionType {
    /// The destination's mapping is looked for.
    MapRouting,
    /// The packet goes to the underlay as it is.
    Direct,
    /// A tunnel's header is put in front.
    StaticEncap,
    /// The packet goes to a routing appliance. Deprecated.
    Appliance,
    /// An IPv4 packet becomes one of IPv6.
    FourToSix,
    /// The tunnel's header is taken off if the outer source has a mapping.
    MapDecap,
    /// The tunnel's header is taken off.
    Decap,
    /// The packet is dropped.
    Drop,
}

/// A tunnel's header.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Encapsulation {
    /// VXLAN (RFC 7348).
    Vxlan,
    /// NVGRE (RFC 7637).
    Nvgre,
}
