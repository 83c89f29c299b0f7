//! Elastic network interfaces.

use twinpath_core::wire::{Address, MacAddress};

use super::names::{MeterPolicyId, QosName, RouteGroupId, VnetName};
use super::values::{IpVersion, MaskedBits, VniRange};

/// Most ENIs that a DPU serves: one less than 16 bits have, as the table of MAC addresses counts from
/// one.
pub const MAX_ENIS: usize = u16::MAX as usize;

/// A network interface of a virtual machine, with tables of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Eni {
    /// The controller's own name for it; often that of its key.
    pub eni_id: Box<str>,
    /// The machine's MAC address: what a packet's ENI is found by. No two ENIs share one.
    pub mac_address: MacAddress,
    /// The host that carries the machine: outer destination of what is sent to it.
    pub underlay_ip: Option<Address>,
    /// Whether packets pass at all.
    pub admin_state: AdminState,
    /// The network that it belongs to.
    pub vnet: VnetName,
    /// Its limits.
    pub qos: Option<QosName>,
    /// Outer source of all Private Link packets of this ENI; a route may have another.
    pub pl_underlay_sip: Option<Address>,
    /// Bits that are set in the inner source of Private Link packets, over the mapping's.
    pub pl_sip_encoding: Option<MaskedBits>,
    /// What kind of interface.
    pub mode: EniMode,
    /// What IPv4 packets without a class from elsewhere are metered by.
    pub v4_meter_policy: Option<MeterPolicyId>,
    /// The same for IPv6.
    pub v6_meter_policy: Option<MeterPolicyId>,
    /// VNIs with which packets for it may come, beside the appliance's.
    pub trusted_vnis: Box<[VniRange]>,
    /// ICMP redirects of a load balancer do not move its connections.
    pub disable_fast_path_icmp_flow_redirection: bool,
}

impl Eni {
    /// The meter policy for packets of a version.
    #[must_use]
    pub const fn meter_policy(&self, version: IpVersion) -> Option<&MeterPolicyId> {
        match version {
            IpVersion::V4 => self.v4_meter_policy.as_ref(),
            IpVersion::V6 => self.v6_meter_policy.as_ref(),
        }
    }
}

/// Whether an ENI's packets pass. One that is disabled drops all of them, counted.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub enum AdminState {
    /// All packets are dropped.
    #[default]
    Disabled,
    /// Packets pass.
    Enabled,
}

/// What kind of interface an ENI is.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub enum EniMode {
    /// Of a virtual machine.
    #[default]
    Vm,
    /// A floating NIC: outbound packets come as inbound ones do, and pass inbound routing first.
    FloatingNic,
}

/// Which routes an ENI's outbound packets follow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EniRoute {
    /// The group.
    pub group: RouteGroupId,
}
