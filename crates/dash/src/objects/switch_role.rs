//! What a switch in front of several DPUs knows: which of them an ENI is on.
//!
//! Hosts send to one address of the switch; by the inner destination MAC address it finds the DPU,
//! one of its own or one behind another switch.

use twinpath_core::wire::{Address, MacAddress};

use super::names::{DpuId, SwitchTunnelName, SwitchVnetName, VdpuId};
use super::values::Vni;

/// Which DPUs carry an ENI.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EniForward {
    /// The virtual DPUs that may carry it.
    pub vdpus: Box<[VdpuId]>,
    /// The one that its packets are sent to.
    pub primary: VdpuId,
}

/// Whose ENI, by the MAC address that its packets have inside.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EniForwardKey {
    /// The switch's network for it.
    pub vnet: SwitchVnetName,
    /// The ENI's MAC address.
    pub mac_address: MacAddress,
}

/// An address of the switch that hosts send to. There is nothing to say of it.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Vip;

/// A DPU in the switch.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Dpu {
    /// Its address in the underlay, of IPv4.
    pub pa_v4: Option<Address>,
    /// Its address in the underlay, of IPv6.
    pub pa_v6: Option<Address>,
    /// Whether it takes packets.
    pub is_up: bool,
}

/// A DPU in another switch of the cluster.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct RemoteDpu {
    /// Its address in the underlay.
    pub pa_v4: Option<Address>,
    /// The other switch, to which packets for it are tunnelled, of IPv4.
    pub npu_v4: Option<Address>,
    /// The same of IPv6.
    pub npu_v6: Option<Address>,
}

/// A virtual DPU: what ENIs are placed on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vdpu {
    /// The DPU that it is; the first one that there is counts.
    pub main_dpus: Box<[DpuId]>,
}

/// A network of the switch, for packets to DPUs behind other switches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SwitchVnet {
    /// The tunnel that they take.
    pub tunnel: SwitchTunnelName,
    /// Their VNI.
    pub vni: Vni,
}

/// A VXLAN tunnel of the switch.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct SwitchTunnel {
    /// The outer source.
    pub src_ip: Address,
}
