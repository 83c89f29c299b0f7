//! What a switch in front of several DPUs does with packets for them: which DPU an ENI is on.
//!
//! Packets come to one of the switch's addresses, in VXLAN or NVGRE; the inner destination MAC
//! address is an ENI's. They go to the DPU that its primary virtual DPU is: to its address in the
//! underlay if it is in this switch, else in the tunnel of the ENI's network to the other switch.
//! What comes in such a tunnel is for a DPU in this switch, whoever is primary. So packets cannot go
//! to and fro between two switches that disagree.

use std::collections::HashMap;

use twinpath_core::wire::{Address, MacAddress};

use crate::config::Configuration;
use crate::objects::{DpuId, EniForward, EniForwardKey, Vdpu, VdpuId, Vni};

/// Where packets for ENIs go.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DpuSteering {
    enis: HashMap<MacAddress, DpuRoutes>,
}

/// The ways of an ENI's packets.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
struct DpuRoutes {
    from_hosts: Result<DpuRoute, NoDpuRoute>,
    from_switches: Result<DpuRoute, NoDpuRoute>,
}

/// A way to a DPU.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum DpuRoute {
    /// To this DPU in the switch.
    Local {
        /// Its address in the underlay.
        dpu: Address,
    },
    /// In a tunnel to the switch of the DPU.
    Remote {
        /// The other switch.
        switch: Address,
        /// Outer source.
        source: Address,
        /// VNI of the tunnel.
        vni: Vni,
    },
}

/// Why packets of an ENI have no way.
#[derive(Copy, Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoDpuRoute {
    /// No ENI has this MAC address.
    #[error("no ENI has this MAC address")]
    UnknownEni,
    /// The virtual DPU is none of the DPUs that are there.
    #[error("its virtual DPU is none of the DPUs")]
    NoDpu,
    /// The DPU is down.
    #[error("its DPU is down")]
    Down,
    /// The DPU, or its switch, has no address.
    #[error("its DPU has no address")]
    NoAddress,
    /// The ENI's network has no tunnel.
    #[error("its network has no tunnel to other switches")]
    NoTunnel,
    /// It came through a tunnel, and none of its DPUs is in this switch.
    #[error("none of its DPUs is in this switch")]
    NotHere,
}

/// Where a packet comes from.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum FrameOrigin {
    /// From a host, or from anywhere but a tunnel between switches.
    Host,
    /// Out of a tunnel between switches, whose header has been taken off.
    Switch,
}

impl DpuSteering {
    /// What follows from a switch's configuration.
    #[must_use]
    pub fn of(configuration: &Configuration) -> Self {
        let enis = configuration.eni_forwards.iter().map(|(key, forward)| {
            let ways = DpuRoutes {
                from_hosts: way(configuration, key, &forward.primary),
                from_switches: local_way(configuration, forward),
            };
            (key.mac_address, ways)
        });
        Self {
            enis: enis.collect(),
        }
    }

    /// Where a packet goes with this inner destination MAC address.
    ///
    /// # Errors
    /// Why it has no way.
    pub fn way(
        &self,
        inner_destination: MacAddress,
        sender: FrameOrigin,
    ) -> Result<DpuRoute, NoDpuRoute> {
        let ways = self
            .enis
            .get(&inner_destination)
            .ok_or(NoDpuRoute::UnknownEni)?;
        match sender {
            FrameOrigin::Host => ways.from_hosts,
            FrameOrigin::Switch => ways.from_switches,
        }
    }

    /// All ENIs with the way of what hosts send to them, by MAC address.
    #[must_use]
    pub fn enis(&self) -> Vec<(MacAddress, Result<DpuRoute, NoDpuRoute>)> {
        let enis = self.enis.iter().map(|(mac, ways)| (*mac, ways.from_hosts));
        let mut enis: Vec<_> = enis.collect();
        enis.sort_by_key(|(mac, _)| *mac);
        enis
    }
}

/// The way to a virtual DPU.
fn way(
    configuration: &Configuration,
    key: &EniForwardKey,
    vdpu: &VdpuId,
) -> Result<DpuRoute, NoDpuRoute> {
    let vdpu = configuration.vdpus.get(vdpu).ok_or(NoDpuRoute::NoDpu)?;
    if let Some(local) = local_dpu(configuration, vdpu) {
        return local;
    }
    let remote = |dpu: &DpuId| configuration.remote_dpus.get(dpu);
    let remote = vdpu
        .main_dpus
        .iter()
        .find_map(remote)
        .ok_or(NoDpuRoute::NoDpu)?;
    let switch = remote
        .npu_v4
        .or(remote.npu_v6)
        .ok_or(NoDpuRoute::NoAddress)?;
    let vnet = configuration.switch_vnets.get(&key.vnet);
    let vnet = vnet.ok_or(NoDpuRoute::NoTunnel)?;
    let tunnel = configuration.switch_tunnels.get(&vnet.tunnel);
    Ok(DpuRoute::Remote {
        switch,
        source: tunnel.ok_or(NoDpuRoute::NoTunnel)?.src_ip,
        vni: vnet.vni,
    })
}

/// The way to a virtual DPU that is in this switch; `None` if it is not.
fn local_dpu(configuration: &Configuration, vdpu: &Vdpu) -> Option<Result<DpuRoute, NoDpuRoute>> {
    let local = |dpu: &DpuId| configuration.dpus.get(dpu);
    let dpu = vdpu.main_dpus.iter().find_map(local)?;
    if !dpu.is_up {
        return Some(Err(NoDpuRoute::Down));
    }
    let address = dpu.pa_v4.or(dpu.pa_v6).ok_or(NoDpuRoute::NoAddress);
    Some(address.map(|dpu| DpuRoute::Local { dpu }))
}

/// The way to the first of an ENI's virtual DPUs that is in this switch.
fn local_way(configuration: &Configuration, forward: &EniForward) -> Result<DpuRoute, NoDpuRoute> {
    let mut vdpus = forward.vdpus.iter();
    let local = vdpus.find_map(|vdpu| local_dpu(configuration, configuration.vdpus.get(vdpu)?));
    local.unwrap_or(Err(NoDpuRoute::NotHere))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Files;
    use crate::config::Store;

    const SWITCH: &str = r#"{
        "VIP_TABLE": {"10.1.0.5": {}},
        "DPU": {
            "dpu0": {"dpu_id": "0", "gnmi_port": "50052", "pa_ipv4": "18.0.202.1", "state": "up", "vdpu_id": "vdpu0_0"},
            "dpu1": {"dpu_id": "1", "pa_ipv4": "18.1.202.1", "state": "down"}},
        "REMOTE_DPU": {"dpu4": {"dpu_id": "4", "npu_ipv4": "100.100.100.1", "pa_ipv4": "18.0.202.1", "type": "cluster"}},
        "VDPU": {"vdpu0_0": {"main_dpu_ids": "dpu0"}, "vdpu0_1": {"main_dpu_ids": "dpu1"},
            "vdpu1_0": {"main_dpu_ids": "dpu4"}, "vdpu9_9": {"main_dpu_ids": "dpu9"}},
        "VXLAN_TUNNEL": {"tunnel_v4": {"src_ip": "10.1.0.32"}},
        "VNET": {"Vnet1000": {"vxlan_tunnel": "tunnel_v4", "vni": "1000", "peer_list": ""}},
        "DASH_ENI_FORWARD_TABLE": {
            "Vnet1000:F4:93:9F:EF:C4:01": {"vdpu_ids": "vdpu0_0,vdpu1_0", "primary_vdpu": "vdpu0_0"},
            "Vnet1000:F4:93:9F:EF:C4:02": {"vdpu_ids": "vdpu0_0,vdpu1_0", "primary_vdpu": "vdpu1_0"},
            "Vnet1000:F4:93:9F:EF:C4:03": {"vdpu_ids": "vdpu0_1", "primary_vdpu": "vdpu0_1"},
            "Vnet1000:F4:93:9F:EF:C4:04": {"vdpu_ids": "vdpu1_0", "primary_vdpu": "vdpu1_0"},
            "Vnet2000:F4:93:9F:EF:C4:05": {"vdpu_ids": "vdpu1_0", "primary_vdpu": "vdpu1_0"},
            "Vnet1000:F4:93:9F:EF:C4:06": {"vdpu_ids": "vdpu9_9", "primary_vdpu": "vdpu9_9"}}
    }"#;

    fn steering() -> DpuSteering {
        let mut files = Files::default();
        files.add_text("switch.json".into(), SWITCH.as_bytes());
        assert_eq!(files.problems, []);
        let mut store = Store::default();
        store.apply(files.changes);
        assert_eq!(store.waiting().count(), 0);
        DpuSteering::of(&store.snapshot().configuration)
    }

    fn mac(last: u8) -> MacAddress {
        MacAddress([0xf4, 0x93, 0x9f, 0xef, 0xc4, last])
    }

    #[test]
    fn packets_go_to_the_primary_wherever_it_is() {
        let steering = steering();
        let local = DpuRoute::Local {
            dpu: "18.0.202.1".parse().unwrap(),
        };
        let remote = DpuRoute::Remote {
            switch: "100.100.100.1".parse().unwrap(),
            source: "10.1.0.32".parse().unwrap(),
            vni: Vni::new(1000).unwrap(),
        };
        for (last, way) in [
            (1, Ok(local)),
            (2, Ok(remote)),
            (3, Err(NoDpuRoute::Down)),
            (4, Ok(remote)),
            (5, Err(NoDpuRoute::NoTunnel)),
            (6, Err(NoDpuRoute::NoDpu)),
            (7, Err(NoDpuRoute::UnknownEni)),
        ] {
            assert_eq!(steering.way(mac(last), FrameOrigin::Host), way, "{last}");
        }
        assert_eq!(steering.enis().len(), 6);
    }

    #[test]
    fn what_another_switch_sent_stays_here() {
        let steering = steering();
        let local = DpuRoute::Local {
            dpu: "18.0.202.1".parse().unwrap(),
        };
        // Also where the primary is elsewhere.
        assert_eq!(steering.way(mac(2), FrameOrigin::Switch), Ok(local));
        assert_eq!(
            steering.way(mac(4), FrameOrigin::Switch),
            Err(NoDpuRoute::NotHere)
        );
        assert_eq!(
            steering.way(mac(3), FrameOrigin::Switch),
            Err(NoDpuRoute::Down)
        );
    }
}
