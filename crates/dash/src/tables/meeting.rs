//! Whose packets meet what several ENIs share, when that changes.

use std::collections::HashSet;

use super::eni::EniEntry;
use super::numbers::{Numbers, Used};
use super::shared_mappings::SharedMappings;
use crate::objects::{PortMapId, TunnelName, VnetName, Vni};

/// What has changed of small tables that packets of several ENIs may meet.
#[derive(Default)]
pub(super) struct Common {
    /// Something that packets of all meet.
    pub all: bool,
    /// Networks, and who stands behind addresses of theirs.
    pub vnets: Vec<VnetName>,
    pub tunnels: Vec<TunnelName>,
    pub port_maps: Vec<PortMapId>,
    /// VNIs whose senders are told otherwise.
    pub vnis: Vec<Vni>,
}

/// Whose packets may meet something of that.
pub(super) struct Meeting {
    all: bool,
    vnets: HashSet<u32>,
    tunnels: HashSet<u32>,
    vnis: Vec<Vni>,
}

impl Meeting {
    /// A name without a number nothing refers to. Whose packets meet mappings with a tunnel or a port map
    /// nobody knows without looking at all mappings.
    pub fn of(common: &Common, numbers: &Numbers, mappings: &SharedMappings) -> Self {
        let tunnels = common
            .tunnels
            .iter()
            .filter_map(|name| numbers.tunnels.get(name));
        let tunnels: HashSet<u32> = tunnels.collect();
        let mut maps = common
            .port_maps
            .iter()
            .filter_map(|name| numbers.port_maps.get(name));
        let is_in_mappings = tunnels.iter().any(|tunnel| mappings.uses_tunnel(*tunnel))
            || maps.any(|map| mappings.uses_port_map(map));
        let vnets = common
            .vnets
            .iter()
            .filter_map(|name| numbers.vnets.get(name));
        Self {
            all: common.all || is_in_mappings,
            vnets: vnets.collect(),
            tunnels,
            vnis: common.vnis.clone(),
        }
    }

    /// Whether packets of an ENI do.
    pub fn is_of(&self, eni: &EniEntry) -> bool {
        let mut used = Used::default();
        used.vnets.insert(eni.vnet);
        eni.inbound.note_used(&mut used);
        eni.routes
            .iter()
            .for_each(|routes| routes.note_used(&mut used));
        self.all
            || !self.vnets.is_disjoint(&used.vnets)
            || !self.tunnels.is_disjoint(&used.tunnels)
            || self.vnis.iter().any(|vni| eni.inbound.has(*vni))
    }
}
