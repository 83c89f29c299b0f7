//! All that an ENI's packets meet.

use std::sync::Arc;

use twinpath_core::wire::{Address, MacAddress};

use super::acl::AclTable;
use super::inbound::InboundTable;
use super::meters::MeterTable;
use super::routes::RouteTable;
use super::trusted::TrustedVnis;
use crate::headers::Direction;
use crate::objects::{AclStage, EniId, EniMode, MaskedBits, PortRange};

/// Stages of access lists, of which those that are bound are asked in order.
pub type AclStages = [Option<Arc<AclTable>>; AclStage::COUNT];

/// Limits of an ENI; 0 does not limit.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// In kilobits per second, both directions together.
    pub bandwidth_kbps: u32,
    /// New connections per second.
    pub connections_per_second: u32,
    /// Connections at the same time.
    pub flows: u32,
}

/// The external endpoints of an ENI's NAT gateway: no other ENI has them.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct NatBlock {
    /// The address.
    pub address: Address,
    /// The ports.
    pub ports: PortRange,
}

/// An ENI, compiled. What ENIs share is behind pointers.
#[derive(Clone, Debug)]
pub struct EniEntry {
    /// Its name.
    pub id: EniId,
    /// Tells it from every other ENI that there was or will be: in keys of flows.
    pub serial: u32,
    /// Grows whenever something that its packets meet changes, and is larger than that of any ENI
    /// before it.
    pub epoch: u32,
    /// Its machine's MAC address.
    pub mac: MacAddress,
    /// The host that carries the machine.
    pub underlay_ip: Option<Address>,
    /// Whether packets pass.
    pub is_enabled: bool,
    /// Its network's number.
    pub vnet: u32,
    /// What kind of interface.
    pub mode: EniMode,
    /// Outer source of its Private Link packets.
    pub pl_underlay_sip: Option<Address>,
    /// Bits over the inner source of its Private Link packets.
    pub pl_sip_encoding: MaskedBits,
    /// Whether load balancers' redirects move its connections.
    pub is_redirected: bool,
    /// VNIs with which its packets may come.
    pub trusted: TrustedVnis,
    /// Those of a floating NIC that say that its machine has sent a packet: neither the appliance lists
    /// them nor has a network one.
    pub machine_vnis: TrustedVnis,
    /// Its limits.
    pub limits: Limits,
    /// Its outbound routes.
    pub routes: Option<Arc<RouteTable>>,
    /// What its packets on direct routes leave with.
    pub nat: Option<NatBlock>,
    /// Its inbound rules.
    pub inbound: InboundTable,
    /// Access lists, by direction and IP version (IPv4 first).
    pub acl: [[AclStages; 2]; 2],
    /// Meter policies, by IP version.
    pub meters: [Option<Arc<MeterTable>>; 2],
}

impl EniEntry {
    /// The access lists for packets of a direction and version.
    #[must_use]
    #[inline]
    pub const fn stages(&self, direction: Direction, is_v4: bool) -> &AclStages {
        &self.acl[direction as usize][if is_v4 { 0 } else { 1 }]
    }

    /// The meter policy for packets of a version.
    #[must_use]
    #[inline]
    pub fn meter(&self, is_v4: bool) -> Option<&MeterTable> {
        self.meters[usize::from(!is_v4)].as_deref()
    }

    /// Whether its packets would meet the same as those of another, its serial and epoch aside.
    #[must_use]
    pub fn is_same_as(&self, other: &Self) -> bool {
        let same = |one: &Option<Arc<AclTable>>, other: &Option<Arc<AclTable>>| match (one, other) {
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            (None, None) => true,
            _ => false,
        };
        let stages = |entry: &Self| {
            entry
                .acl
                .clone()
                .into_iter()
                .flatten()
                .flatten()
                .collect::<Vec<_>>()
        };
        let routes = match (&self.routes, &other.routes) {
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            (None, None) => true,
            _ => false,
        };
        let meters = self
            .meters
            .iter()
            .zip(&other.meters)
            .all(|pair| match pair {
                (Some(one), Some(other)) => Arc::ptr_eq(one, other),
                (None, None) => true,
                _ => false,
            });
        let bound = stages(self)
            .iter()
            .zip(&stages(other))
            .all(|(one, other)| same(one, other));
        let plain = |entry: &Self| {
            (
                entry.mac,
                entry.underlay_ip,
                entry.is_enabled,
                entry.vnet,
                entry.mode,
                entry.pl_underlay_sip,
                entry.pl_sip_encoding,
                [entry.trusted.clone(), entry.machine_vnis.clone()],
                entry.limits,
                entry.is_redirected,
                entry.nat,
            )
        };
        routes && meters && bound && plain(self) == plain(other) && self.inbound == other.inbound
    }
}
