//! Fields of high availability.

use super::fields::{Fields, list};
use crate::objects::*;

/// As a DPU is told of its set.
pub(super) fn ha_set(f: &mut Fields<'_, '_>) -> HaSet {
    f.without_effect(&["version"], VERSION);
    let ports = [
        f.optional("dp_channel_src_port_min"),
        f.optional("dp_channel_src_port_max"),
    ];
    HaSet {
        vip_v4: f.optional("vip_v4"),
        vip_v6: f.optional("vip_v6"),
        owner: f.optional("owner").unwrap_or_default(),
        scope: f.optional("scope"),
        local_npu_ip: f.optional("local_npu_ip"),
        local_ip: f.optional("local_ip"),
        peer_ip: f.optional("peer_ip"),
        bulk_port: f.optional("cp_data_channel_port").unwrap_or_default(),
        inline_port: f.optional("dp_channel_dst_port").unwrap_or_default(),
        inline_source_ports: source_ports(ports),
        probe_interval_ms: f
            .optional("dp_channel_probe_interval_ms")
            .unwrap_or_default(),
        probe_failures: f
            .optional("dp_channel_probe_fail_threshold")
            .unwrap_or_default(),
    }
}

/// Why versions are not looked at.
const VERSION: &str = "what is written last counts, whatever its version";

/// From the first port to the last; from one to itself if only one is given.
fn source_ports([min, max]: [Option<u16>; 2]) -> Option<PortRange> {
    let min = min.or(max)?;
    Range::new(min, max.unwrap_or(min))
}

/// As a DPU is told of a role.
pub(super) fn ha_scope(f: &mut Fields<'_, '_>) -> HaScope {
    f.without_effect(&["version"], VERSION);
    let requests = ["flow_reconcile_requested", "activate_role_requested"];
    f.without_effect(&requests, "a request, not a state");
    HaScope {
        is_disabled: f.optional("disabled").unwrap_or_default(),
        role: f.optional("ha_role").unwrap_or_default(),
        set: f.optional("ha_set_id"),
        vip_v4: f.optional("vip_v4"),
        vip_v6: f.optional("vip_v6"),
    }
}

/// As a switch is told of a set.
pub(super) fn ha_set_config(f: &mut Fields<'_, '_>) -> HaSetConfig {
    f.without_effect(&["version"], VERSION);
    HaSetConfig {
        vip_v4: f.optional("vip_v4"),
        vip_v6: f.optional("vip_v6"),
        vdpus: list::<VdpuId>(f, &["vdpu_ids"]).into(),
        scope: f.optional("scope"),
        pinned_probe_states: list::<Box<str>>(f, &["pinned_vdpu_bfd_probe_states"]).into(),
        preferred: f.optional("preferred_vdpu_id"),
        preferred_standalone: f
            .optional("preferred_standalone_vdpu_index")
            .unwrap_or_default(),
    }
}

/// As a switch is told of a role.
pub(super) fn ha_scope_config(f: &mut Fields<'_, '_>) -> HaScopeConfig {
    f.without_effect(&["version"], VERSION);
    HaScopeConfig {
        is_disabled: f.optional("disabled").unwrap_or_default(),
        owner: f.optional("owner").unwrap_or_default(),
        set: f.optional("ha_set_id"),
        desired_state: f.optional("desired_ha_state").unwrap_or_default(),
        approved_operations: list::<Box<str>>(f, &["approved_pending_operation_ids"]).into(),
    }
}
