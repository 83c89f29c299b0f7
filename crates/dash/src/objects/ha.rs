//! High availability: DPUs that share ENIs and their flows.

use twinpath_core::wire::Address;

use super::names::{HaScopeId, HaSetId, VdpuId};
use super::values::PortRange;

/// DPUs that stand in for each other, as the controller wants them: what the switch is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HaSetConfig {
    /// Its address in the underlay, of IPv4.
    pub vip_v4: Option<Address>,
    /// Its address in the underlay, of IPv6.
    pub vip_v6: Option<Address>,
    /// The virtual DPUs.
    pub vdpus: Box<[VdpuId]>,
    /// What changes roles together.
    pub scope: Option<HaScopeKind>,
    /// Whether a virtual DPU counts as reachable whatever probes say, in the order of `vdpus`.
    pub pinned_probe_states: Box<[Box<str>]>,
    /// The one that is active if both could be.
    pub preferred: Option<VdpuId>,
    /// The one that goes on alone if they lose each other, as a place in `vdpus`.
    pub preferred_standalone: u32,
}

/// What changes roles together.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum HaScopeKind {
    /// All ENIs of a DPU.
    Dpu,
    /// Each ENI for itself.
    Eni,
}

/// Which virtual DPU's part of a scope.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HaScopeConfigKey {
    /// The virtual DPU.
    pub vdpu: VdpuId,
    /// The scope.
    pub scope: HaScopeId,
}

/// The role that a virtual DPU should have, as the controller wants it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HaScopeConfig {
    /// It takes no packets.
    pub is_disabled: bool,
    /// Who drives the roles.
    pub owner: HaOwner,
    /// Its set.
    pub set: Option<HaSetId>,
    /// The role.
    pub desired_state: DesiredHaState,
    /// Steps that the controller has let it take.
    pub approved_operations: Box<[Box<str>]>,
}

/// Who drives the roles of a scope.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub enum HaOwner {
    /// The DPUs themselves.
    #[default]
    Dpu,
    /// The switches in front of them.
    Switch,
}

/// A role that a controller may want.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub enum DesiredHaState {
    /// It decides by itself.
    #[default]
    Unspecified,
    /// None.
    Dead,
    /// Active.
    Active,
    /// Active without a partner.
    Standalone,
}

/// A set as a DPU is told of it: itself and its partner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HaSet {
    /// Its address in the underlay, of IPv4.
    pub vip_v4: Option<Address>,
    /// Its address in the underlay, of IPv6.
    pub vip_v6: Option<Address>,
    /// Who drives the roles.
    pub owner: HaOwner,
    /// What changes roles together.
    pub scope: Option<HaScopeKind>,
    /// The switch in front of the DPU.
    pub local_npu_ip: Option<Address>,
    /// The DPU.
    pub local_ip: Option<Address>,
    /// Its partner.
    pub peer_ip: Option<Address>,
    /// TCP port at which flows are synchronised in bulk.
    pub bulk_port: u16,
    /// UDP port to which packets with flows are sent between the two.
    pub inline_port: u16,
    /// UDP ports from which they are sent.
    pub inline_source_ports: Option<PortRange>,
    /// How long between two probes of that channel, in milliseconds.
    pub probe_interval_ms: u32,
    /// How many probes in a row fail when the channel counts as lost.
    pub probe_failures: u32,
}

/// The role of a DPU, or of an ENI on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HaScope {
    /// It takes no packets.
    pub is_disabled: bool,
    /// The role.
    pub role: HaRole,
    /// Its set.
    pub set: Option<HaSetId>,
    /// Its address in the underlay, of IPv4.
    pub vip_v4: Option<Address>,
    /// Its address in the underlay, of IPv6.
    pub vip_v6: Option<Address>,
}

/// A role.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub enum HaRole {
    /// None: no packets.
    #[default]
    Dead,
    /// Decides, and tells its partner.
    Active,
    /// Holds what the active one decides.
    Standby,
    /// Active without a partner.
    Standalone,
    /// About to be active.
    SwitchingToActive,
}
