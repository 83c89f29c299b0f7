//! What routes and mappings refer to: networks, tunnels, routing types, port maps.

use std::sync::Arc;

use twinpath_core::HashKey;
use twinpath_core::wire::Address;
use twinpath_core::wire::tunnel::Encapsulation;

use super::endpoints::Endpoints;
use super::services::Spread;
use crate::objects::{
    self, ActionType, PortMapId, PortMapRange, PortRange, RoutingActions, RoutingType, Tunnel,
};
use crate::source::ObjectSource;

/// Most tunnels around a packet.
pub const MAX_LAYERS: usize = 2;

/// The kind of a tunnel's header, as packets have it.
#[must_use]
pub const fn encapsulation(of: objects::Encapsulation) -> Encapsulation {
    match of {
        objects::Encapsulation::Vxlan => Encapsulation::Vxlan,
        objects::Encapsulation::Nvgre => Encapsulation::Nvgre,
    }
}

/// A tunnel that exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TunnelEntry {
    endpoints: Arc<Endpoints>,
    /// The header.
    pub encapsulation: Encapsulation,
    /// The VNI.
    pub key: u32,
    /// Bits that are set in the metering class.
    pub metering_class_or: u32,
}

impl TunnelEntry {
    /// Compiles a tunnel; `None` if it has no endpoint. Which of them a flow has follows from the key;
    /// those of `known`, which has it too, are kept if they are the same.
    pub(super) fn compile(tunnel: &Tunnel, key: HashKey, known: Option<&Self>) -> Option<Self> {
        let all = &tunnel.endpoints;
        let known = known.filter(|known| known.endpoints.all() == &**all);
        let endpoints = || Arc::new(Endpoints::new(all, key));
        (!all.is_empty()).then(|| Self {
            endpoints: known.map_or_else(endpoints, |known| known.endpoints.clone()),
            encapsulation: encapsulation(tunnel.encapsulation),
            key: tunnel.vni.get(),
            metering_class_or: tunnel.metering_class_or,
        })
    }

    /// The endpoint for a flow.
    #[must_use]
    pub fn endpoint(&self, spread: &Spread) -> Option<Address> {
        self.endpoints.of(spread)
    }
}

/// What the actions of a routing type come to.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct RoutingEntry {
    /// Headers from the inside out, each with its VNI if the type says one.
    pub layers: [Option<(Encapsulation, Option<u32>)>; MAX_LAYERS],
    /// Packets are dropped.
    pub drops: bool,
    /// There are actions among them that no packet can be given: more tunnels, routing appliances.
    pub is_unsupported: bool,
}

impl RoutingEntry {
    /// Compiles a routing type.
    #[must_use]
    pub fn compile(actions: &RoutingActions) -> Self {
        let mut entry = Self {
            drops: actions.has(ActionType::Drop),
            is_unsupported: actions.has(ActionType::Appliance)
                || actions.encapsulations().count() > MAX_LAYERS,
            ..Self::default()
        };
        for (layer, action) in entry.layers.iter_mut().zip(actions.encapsulations()) {
            let kind = action
                .encapsulation
                .unwrap_or(objects::Encapsulation::Vxlan);
            *layer = Some((encapsulation(kind), action.vni.map(objects::Vni::get)));
        }
        entry
    }

    /// The place of a routing type in an array of all.
    #[must_use]
    pub const fn place(kind: RoutingType) -> usize {
        kind as usize
    }

    /// All routing types.
    pub const KINDS: [RoutingType; 9] = [
        RoutingType::Direct,
        RoutingType::Vnet,
        RoutingType::VnetDirect,
        RoutingType::VnetEncap,
        RoutingType::Appliance,
        RoutingType::PrivateLink,
        RoutingType::PrivateLinkNsg,
        RoutingType::ServiceTunnel,
        RoutingType::Drop,
    ];
}

/// A port map that exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortMapTable {
    id: PortMapId,
    /// In order; they do not overlap.
    ranges: Box<[(PortRange, PortMapRange)]>,
}

impl PortMapTable {
    /// Compiles a port map; `None` if it is not there.
    pub fn compile(map: &PortMapId, source: &dyn ObjectSource) -> Option<Self> {
        if !source.has_port_map(map) {
            return None;
        }
        let mut ranges = Vec::new();
        source.port_map_ranges(map, &mut |ports, range| ranges.push((ports, *range)));
        ranges.sort_by_key(|(ports, _)| *ports);
        Some(Self {
            id: map.clone(),
            ranges: ranges.into(),
        })
    }

    /// Its name.
    #[must_use]
    pub const fn id(&self) -> &PortMapId {
        &self.id
    }

    /// The range of a destination port, and its first port.
    #[must_use]
    pub fn lookup(&self, port: u16) -> Option<(u16, PortMapRange)> {
        let behind = self
            .ranges
            .partition_point(|(ports, _)| ports.first() <= port);
        let (ports, range) = self.ranges.get(behind.checked_sub(1)?)?;
        ports.contains(port).then_some((ports.first(), *range))
    }

    /// Memory taken, in bytes.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        size_of_val(&*self.ranges)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::objects::Range;

    #[test]
    fn ports_are_found_in_their_ranges() {
        let service = |base| PortMapRange::PrivateLinkService {
            backend_ip: Address::from_v4([60, 60, 60, 1]),
            backend_port_base: base,
        };
        let range = |min, max| Range::new(min, max).unwrap();
        let map = PortMapTable {
            id: "map".into(),
            ranges: [
                (range(0, 9), service(100)),
                (range(10, 10), PortMapRange::SkipMapping),
                (range(8001, 65535), service(200)),
            ]
            .into(),
        };
        assert_eq!(map.lookup(9), Some((0, service(100))));
        assert_eq!(map.lookup(10), Some((10, PortMapRange::SkipMapping)));
        assert_eq!(map.lookup(11), None);
        assert_eq!(map.lookup(8000), None);
        assert_eq!(map.lookup(65535), Some((8001, service(200))));
    }
}
