//! What packets meet, compiled from objects.
//!
//! [`Tables::update`] is told which objects have changed and compiles what depends on them anew:
//! a group of rules or routes as a whole (a hundred thousand routes take some ten milliseconds), a
//! mapping by itself. What ENIs share is compiled once.
//!
//! # Epochs
//! What was decided for a flow holds as long as its *stamp* does ([`Tables::stamp`]): the sum of the
//! epoch of the ENI and that of the mapping that was looked at. Both only grow, so the sum is the
//! same if and only if neither has changed. Mappings share 65,534 epochs by their hash: a change of
//! one mapping costs the flows of every 65,534th another look at policies, and no scan. Whether a
//! physical address is one of a network's, which inbound packets are asked, has an epoch likewise;
//! it grows when the first mapping leads there, and when the last one goes.

mod acl;
mod changes;
mod endpoints;
mod eni;
pub(crate) mod epochs;
mod inbound;
mod interned;
mod macs;
mod mappings;
mod meeting;
mod meters;
mod numbers;
mod ranges;
mod routes;
mod routing;
mod services;
mod shared_mappings;
mod told;
mod trusted;
mod update;

pub use acl::{AclMatch, AclTable};
pub(crate) use changes::{Changes, Version};
pub use endpoints::Endpoints;
pub use eni::{AclStages, EniEntry, Limits, NatBlock};
pub use inbound::{InboundRule, InboundTable};
pub(crate) use interned::{Interned, Keyed};
pub use mappings::{FoundMapping, MappingProfile, MappingTable};
pub use meters::{MeterRanges, MeterTable};
pub use routes::{RouteEntry, RouteKind, RouteTable};
pub use routing::{MAX_LAYERS, PortMapTable, RoutingEntry, TunnelEntry, encapsulation};
pub use services::Spread;
pub use shared_mappings::SharedMappings;
pub use trusted::TrustedVnis;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use twinpath_core::hash::HashKey;
use twinpath_core::wire::tunnel::{SourcePorts, VXLAN_PORT};
use twinpath_core::wire::{Address, Endpoint, MacAddress, fields};

use crate::cost::Cost;
use crate::headers::{Direction, Headers};
use crate::objects::{
    AclGroupId, DirectionLookup, EniId, EniMode, MeterPolicyId, RouteGroupId, RoutingType,
};
use epochs::MappingEpochs;
use macs::MacTable;
use numbers::Numbers;
use services::Services;

/// Serials of ENIs have so many bits, as they stand in keys of flows.
pub const SERIAL_BITS: u32 = 23;

/// The appliance, as packets see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApplianceEntry {
    /// Its address; no packet is for a DPU without one.
    pub sip: Option<Address>,
    /// The VNI of packets from machines, and to them.
    pub vm_vni: Option<u32>,
    /// By which inner address an outbound packet's ENI is found.
    pub lookup: DirectionLookup,
    /// VNIs that are trusted for all ENIs.
    pub trusted: TrustedVnis,
}

impl ApplianceEntry {
    /// Which way a packet goes that came with this VNI, which tells it, and the inner MAC address that
    /// tells its ENI.
    #[must_use]
    #[inline]
    pub fn names_eni(&self, inside: &[u8], key: u32) -> (Direction, MacAddress) {
        let is_outbound = self.vm_vni == Some(key);
        let mac = match is_outbound && self.lookup == DirectionLookup::SourceMac {
            true => fields::source_mac(inside),
            false => fields::destination_mac(inside),
        };
        let direction = match is_outbound {
            true => Direction::Outbound,
            false => Direction::Inbound,
        };
        (direction, mac)
    }
}

/// VXLAN, as the switch speaks it.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct SwitchEntry {
    /// Where it is received and sent to.
    pub port: u16,
    /// Where it is sent from.
    pub source_ports: SourcePorts,
    /// Whether it must come from those, too.
    pub checks_source_port: bool,
}

impl Default for SwitchEntry {
    fn default() -> Self {
        Self {
            port: VXLAN_PORT,
            source_ports: SourcePorts::default(),
            checks_source_port: false,
        }
    }
}

/// Everything that packets meet. A copy shares mappings, routes, access lists and meter policies with
/// what it was made of.
#[derive(Clone)]
pub struct Tables {
    seed: u64,
    numbers: Numbers,
    appliance: ApplianceEntry,
    switch: SwitchEntry,
    /// VNIs of networks, by number.
    vnets: Vec<Option<u32>>,
    tunnels: Vec<Option<TunnelEntry>>,
    port_maps: Vec<Option<PortMapTable>>,
    services: Services,
    /// With which choices for flows are drawn.
    spread: HashKey,
    routing_types: [Option<RoutingEntry>; RoutingEntry::KINDS.len()],
    mappings: SharedMappings,
    mapping_epochs: MappingEpochs,
    route_groups: HashMap<RouteGroupId, Arc<RouteTable>>,
    acl_groups: HashMap<AclGroupId, Arc<AclTable>>,
    meter_policies: HashMap<MeterPolicyId, Arc<MeterTable>>,
    enis: Vec<Option<EniEntry>>,
    eni_numbers: HashMap<EniId, u16>,
    /// Numbers of ENIs that went.
    free_numbers: BTreeSet<u16>,
    macs: MacTable,
    last_serial: u32,
    last_epoch: u32,
    pa_validation: update::PaSources,
    /// Of all networks.
    vnis: HashSet<u32>,
    refused_mappings: u64,
    refused_enis: u64,
    told_from: Option<told::ToldFrom>,
    changes: Changes,
}

/// What parts of the tables take.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct MemoryUse {
    /// Mappings.
    pub mappings: Cost,
    /// Routes of all groups.
    pub routes: Cost,
    /// Rules of all access lists, with all that is in them.
    pub acl_rules: Cost,
    /// Meter policies.
    pub meters: Cost,
    /// Names of networks, tunnels and port maps that have numbers.
    pub names: usize,
}

impl MemoryUse {
    /// Bytes of everything.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.mappings.bytes + self.routes.bytes + self.acl_rules.bytes + self.meters.bytes
    }
}

impl Tables {
    /// The appliance.
    #[must_use]
    #[inline]
    pub const fn appliance(&self) -> &ApplianceEntry {
        &self.appliance
    }

    /// VXLAN.
    #[must_use]
    #[inline]
    pub const fn switch(&self) -> SwitchEntry {
        self.switch
    }

    /// The number of the ENI that has a MAC address.
    #[must_use]
    #[inline]
    pub fn eni_by_mac(&self, mac: MacAddress) -> Option<u16> {
        self.macs.get(mac)
    }

    /// The number of an ENI.
    #[must_use]
    pub fn eni_number(&self, id: &EniId) -> Option<u16> {
        self.eni_numbers.get(id).copied()
    }

    /// An ENI.
    #[must_use]
    #[inline]
    pub fn eni(&self, number: u16) -> Option<&EniEntry> {
        self.enis.get(usize::from(number))?.as_ref()
    }

    /// All ENIs, with their numbers.
    pub fn enis(&self) -> impl Iterator<Item = (u16, &EniEntry)> {
        let numbered = (0..=u16::MAX).zip(&self.enis);
        numbered.filter_map(|(number, eni)| Some((number, eni.as_ref()?)))
    }

    /// No ENI has a number that is not less than this.
    pub(crate) const fn places(&self) -> usize {
        self.enis.len()
    }

    /// How many ENIs there are.
    #[must_use]
    pub fn eni_count(&self) -> usize {
        self.eni_numbers.len()
    }

    /// The VNI of a network, if it is there.
    #[must_use]
    #[inline]
    pub fn vni(&self, vnet: u32) -> Option<u32> {
        *self.vnets.get(vnet as usize)?
    }

    /// Whether a VNI is a network's.
    #[must_use]
    pub fn is_network(&self, vni: u32) -> bool {
        self.vnis.contains(&vni)
    }

    /// Which way a packet goes as an ENI's machine sees it, that came in a direction, from a host and
    /// with a VNI. What a floating NIC's machine sends comes as inbound packets do: from the machine's
    /// host, unless with another network's VNI, or with a VNI of those that bring it.
    #[must_use]
    #[inline(always)]
    pub fn way(
        &self,
        eni: &EniEntry,
        direction: Direction,
        outer_source: Address,
        key: u32,
    ) -> Direction {
        let may_be_machines = eni.mode == EniMode::FloatingNic;
        match may_be_machines && self.is_from_machine(eni, outer_source, key) {
            true => Direction::Outbound,
            false => direction,
        }
    }

    #[inline(never)]
    fn is_from_machine(&self, eni: &EniEntry, outer_source: Address, key: u32) -> bool {
        let is_others = || self.is_network(key) && self.vni(eni.vnet) != Some(key);
        eni.machine_vnis.contains(key) || eni.underlay_ip == Some(outer_source) && !is_others()
    }

    /// The name of a network.
    #[must_use]
    pub fn vnet_name(&self, number: u32) -> String {
        let mut names = self.numbers.vnets.iter();
        let name = names.find(|(_, own)| *own == number);
        name.map_or_else(|| number.to_string(), |(name, _)| name.to_string())
    }

    /// The name of a tunnel.
    #[must_use]
    pub fn tunnel_name(&self, number: u32) -> String {
        let mut names = self.numbers.tunnels.iter();
        let name = names.find(|(_, own)| *own == number);
        name.map_or_else(|| number.to_string(), |(name, _)| name.to_string())
    }

    /// A tunnel, if it is there.
    #[must_use]
    pub fn tunnel(&self, number: u32) -> Option<&TunnelEntry> {
        self.tunnels.get(number as usize)?.as_ref()
    }

    /// A port map, if it is there.
    #[must_use]
    pub fn port_map(&self, number: u32) -> Option<&PortMapTable> {
        self.port_maps.get(number as usize)?.as_ref()
    }

    /// Who stands behind an address of a network for a protocol and port, if others do.
    #[must_use]
    pub fn backends(&self, vnet: u32, vip: Endpoint, protocol: u8) -> Option<&[Endpoint]> {
        self.services.backends(vnet, vip, protocol)
    }

    /// What choices for a flow follow from: the same for all its packets, and nobody outside can tell.
    #[must_use]
    pub fn spread_of(&self, headers: &Headers, entropy: u32) -> Spread {
        Spread::new(self.spread, headers, entropy)
    }

    /// What a routing type comes to, if it is there.
    #[must_use]
    pub const fn routing_type(&self, kind: RoutingType) -> Option<&RoutingEntry> {
        self.routing_types[RoutingEntry::place(kind)].as_ref()
    }

    /// Mappings.
    #[must_use]
    pub fn mappings(&self) -> &SharedMappings {
        &self.mappings
    }

    /// Whether a physical address may send as one of a network, with a VNI.
    #[must_use]
    pub fn is_valid_source(&self, vnet: u32, vni: u32, source: Address) -> bool {
        self.mappings.has_source(vnet, source) || self.pa_validation.includes(vni, source)
    }

    /// Which epoch a mapping has, there or not.
    #[must_use]
    #[inline]
    pub fn epoch_of_mapping(&self, vnet: u32, address: Address) -> u16 {
        self.mapping_epochs.of_mapping(vnet, address)
    }

    /// Which epoch it has whether a physical address is one of a network's.
    #[must_use]
    #[inline]
    pub fn epoch_of_source(&self, vnet: u32, source: Address) -> u16 {
        self.mapping_epochs.of_source(vnet, source)
    }

    /// What is the same as long as neither the ENI's policy nor any mapping with this epoch changes.
    #[must_use]
    #[inline]
    pub fn stamp(&self, eni: &EniEntry, mapping_epoch: u16) -> u32 {
        eni.epoch
            .wrapping_add(self.mapping_epochs.get(mapping_epoch))
    }

    /// Asks the processor to fetch what a stamp with this epoch is compared with.
    #[inline]
    pub fn prefetch_epoch(&self, mapping_epoch: u16) {
        self.mapping_epochs.prefetch(mapping_epoch);
    }

    /// Mappings and ENIs that there was no room for.
    #[must_use]
    pub const fn refused(&self) -> (u64, u64) {
        (self.refused_mappings, self.refused_enis)
    }

    /// What the last [`Tables::update`] changed of what is counted.
    pub(crate) const fn changes(&self) -> &Changes {
        &self.changes
    }

    /// What the tables take.
    #[must_use]
    pub fn memory_use(&self) -> MemoryUse {
        let routes = self.route_groups.values();
        let lists = self.acl_groups.values();
        let meters = self.meter_policies.values();
        let cost = |number, bytes| Cost { number, bytes };
        MemoryUse {
            mappings: self.mappings.cost(),
            routes: routes
                .map(|table| cost(table.len(), table.memory_bytes()))
                .sum(),
            acl_rules: lists
                .map(|table| cost(table.len(), table.memory_bytes()))
                .sum(),
            meters: meters.map(|table| cost(1, table.memory_bytes())).sum(),
            names: self.numbers.len(),
        }
    }
}
