//! The DPU itself, and limits of its ENIs.

use super::values::{Vni, VniRange};
use twinpath_core::wire::Address;

/// What the DPU as a whole is called and how it tells directions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Appliance {
    /// Its address in the underlay: the outer destination of packets for it, and the outer source
    /// of what it encapsulates where nothing else is said.
    pub sip: Address,
    /// Packets that come with this VNI were sent by a virtual machine (outbound); packets to a
    /// machine are given it.
    pub vm_vni: Option<Vni>,
    /// The region in which it stands. Routes and mappings carry nothing of it; it is told.
    pub local_region_id: u32,
    /// How a packet's ENI is found.
    pub outbound_direction_lookup: DirectionLookup,
    /// VNIs with which packets for any ENI may come; an ENI may add its own.
    pub trusted_vnis: Box<[VniRange]>,
}

/// By which of the inner packet's addresses an outbound packet's ENI is found.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub enum DirectionLookup {
    /// Its source: a machine behind the switch that carries the DPU.
    #[default]
    SourceMac,
    /// Its destination: a floating NIC, where outbound packets come to the DPU as inbound ones do.
    DestinationMac,
}

/// A profile of limits. An ENI that names none has none; a limit of zero does not limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Qos {
    /// Its own word for itself.
    pub qos_id: Box<str>,
    /// Bandwidth, in kilobits per second, both directions together.
    pub bandwidth_kbps: u32,
    /// New connections per second.
    pub connections_per_second: u32,
    /// Connections at the same time.
    pub flows: u32,
}

/// How the switch that carries the DPU speaks VXLAN (SONiC's `SWITCH_TABLE`). What an update does
/// not say stays as it was.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Switch {
    /// UDP port that VXLAN is received at and sent to; 4789 if nothing is said.
    pub vxlan_port: Option<u16>,
    /// First UDP source port of what is sent.
    pub vxlan_source_port: Option<u16>,
    /// How many of a source port's low bits follow from the inner flow's hash, 0 to 16.
    pub vxlan_source_port_bits: Option<u8>,
    /// Whether VXLAN with a source port outside those is dropped.
    pub vxlan_security: Option<bool>,
}
