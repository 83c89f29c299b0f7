//! Fields of what a switch in front of DPUs knows. Its tables have more for other purposes, which
//! are passed over.

use super::decode::DpuState;
use super::fields::{Fields, list};
use crate::objects::*;

/// An address that hosts send to.
pub(super) fn vip(f: &mut Fields<'_, '_>) -> Vip {
    f.pass_others();
    Vip
}

/// A DPU in the switch. One of which nothing is said is up.
pub(super) fn dpu(f: &mut Fields<'_, '_>) -> Dpu {
    f.pass_others();
    let state = f.optional("state").unwrap_or(DpuState::Up);
    Dpu {
        pa_v4: f.optional("pa_ipv4"),
        pa_v6: f.optional("pa_ipv6"),
        is_up: matches!(state, DpuState::Up),
    }
}

/// A DPU in another switch.
pub(super) fn remote_dpu(f: &mut Fields<'_, '_>) -> RemoteDpu {
    f.pass_others();
    RemoteDpu {
        pa_v4: f.optional("pa_ipv4"),
        npu_v4: f.optional("npu_ipv4"),
        npu_v6: f.optional("npu_ipv6"),
    }
}

/// A virtual DPU.
pub(super) fn vdpu(f: &mut Fields<'_, '_>) -> Vdpu {
    f.pass_others();
    Vdpu {
        main_dpus: list::<DpuId>(f, &["main_dpu_ids"]).into(),
    }
}

/// A tunnel of the switch.
pub(super) fn tunnel(f: &mut Fields<'_, '_>) -> Option<SwitchTunnel> {
    f.pass_others();
    let src_ip = f.required("src_ip");
    Some(SwitchTunnel { src_ip: src_ip? })
}

/// A network of the switch.
pub(super) fn vnet(f: &mut Fields<'_, '_>) -> Option<SwitchVnet> {
    f.pass_others();
    let tunnel = f.required("vxlan_tunnel");
    let vni = f.required("vni");
    Some(SwitchVnet {
        tunnel: tunnel?,
        vni: vni?,
    })
}

/// Which DPUs an ENI is on.
pub(super) fn eni_forward(f: &mut Fields<'_, '_>) -> Option<EniForward> {
    let vdpus = list::<VdpuId>(f, &["vdpu_ids"]);
    let primary = f.required("primary_vdpu");
    Some(EniForward {
        vdpus: vdpus.into(),
        primary: primary?,
    })
}
