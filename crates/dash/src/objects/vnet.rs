//! Virtual networks, and where their addresses are.

use twinpath_core::wire::{Address, MacAddress};

use super::names::{PortMapId, TunnelName, VnetName};
use super::routing_type::RoutingType;
use super::values::{Guid, MaskedBits, PrefixList, Vni};

/// A virtual network. Tenants may use the same addresses in theirs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vnet {
    /// Its packets' VNI.
    pub vni: Vni,
    /// The controller's own name for it.
    pub guid: Option<Guid>,
    /// Its addresses. Told, and not enforced, as in SONiC.
    pub address_space: PrefixList,
    /// Networks that it has peered with. Told: what peers reach is what routes say.
    pub peers: Box<[VnetName]>,
}

/// Where an address of a virtual network is: customer address to physical address.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VnetMapping {
    /// [`RoutingType::Vnet`], [`RoutingType::VnetEncap`] or [`RoutingType::PrivateLink`]: its
    /// actions are what is done.
    pub routing_type: RoutingType,
    /// The outer destination: the host that carries the machine, or the private endpoint.
    pub underlay_ip: Address,
    /// The inner destination MAC address; absent, the packet keeps its own.
    pub mac_address: Option<MacAddress>,
    /// The VNI is the destination network's, not the ENI's network's.
    pub use_dst_vni: bool,
    /// Of Private Link alone.
    pub private_link: Option<PrivateLink>,
    /// Bits that are set in the metering class, after the route's.
    pub metering_class_or: u32,
    /// A second tunnel around the first, to one of its endpoints.
    pub tunnel: Option<TunnelName>,
    /// Of Private Link: destination ports that have another endpoint.
    pub port_map: Option<PortMapId>,
}

/// The inner IPv6 addresses of Private Link. The source is the machine's IPv4 address in the last
/// 32 bits, then `overlay_sip` over it, then the ENI's encoding over that; the destination likewise
/// with `overlay_dip`.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PrivateLink {
    /// Bits of the source.
    pub overlay_sip: MaskedBits,
    /// Bits of the destination.
    pub overlay_dip: MaskedBits,
}

/// Which address of which network a mapping is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VnetMappingKey {
    /// The network.
    pub vnet: VnetName,
    /// The customer address.
    pub address: Address,
}
