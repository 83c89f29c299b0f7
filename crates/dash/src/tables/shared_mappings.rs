//! Mappings of all networks in parts, of which a copy shares all that do not change: a change to one
//! network's copies that network's part alone.

use std::sync::Arc;

use twinpath_core::wire::Address;

use super::mappings::{FoundMapping, MappingTable};
use super::numbers::{Numbers, Used};
use crate::cost::Cost;
use crate::objects::VnetMapping;

/// Parts. A network's number says which one its mappings are in.
const PARTS: usize = 64;

/// See the [module](self).
#[derive(Clone)]
pub struct SharedMappings {
    parts: Box<[Arc<MappingTable>]>,
}

impl SharedMappings {
    /// None.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        // Those that are empty share one.
        let empty = Arc::new(MappingTable::new(seed));
        Self {
            parts: vec![empty; PARTS].into(),
        }
    }

    #[inline]
    fn part(&self, vnet: u32) -> &MappingTable {
        &self.parts[vnet as usize % PARTS]
    }

    fn part_mut(&mut self, vnet: u32) -> &mut MappingTable {
        Arc::make_mut(&mut self.parts[vnet as usize % PARTS])
    }

    fn used(&self) -> impl Iterator<Item = &MappingTable> {
        let parts = self.parts.iter().map(|part| &**part);
        parts.filter(|part| !part.is_empty())
    }

    /// How many there are, and the memory that they take.
    #[must_use]
    pub fn cost(&self) -> Cost {
        let of = |part: &MappingTable| Cost {
            number: part.len(),
            bytes: part.memory_bytes(),
        };
        self.used().map(of).sum()
    }

    /// The mapping of an address in a network.
    #[must_use]
    #[inline]
    pub fn lookup(&self, vnet: u32, address: Address) -> Option<FoundMapping<'_>> {
        self.part(vnet).lookup(vnet, address)
    }

    /// Asks the processor to fetch what a look-up of an IPv4 address reads.
    #[inline]
    pub fn prefetch(&self, vnet: u32, address: Address) {
        self.part(vnet).prefetch(vnet, address);
    }

    /// Whether a physical address is one of a network's.
    #[must_use]
    pub fn has_source(&self, vnet: u32, address: Address) -> bool {
        self.part(vnet).has_source(vnet, address)
    }

    /// Sets the mapping of an address. Returns whether there was room for it.
    pub(crate) fn set(
        &mut self,
        vnet: u32,
        address: Address,
        mapping: &VnetMapping,
        numbers: &mut Numbers,
    ) -> bool {
        self.part_mut(vnet).set(vnet, address, mapping, numbers)
    }

    /// Removes the mapping of an address, if there is one.
    pub(crate) fn remove(&mut self, vnet: u32, address: Address) {
        if self.lookup(vnet, address).is_some() {
            self.part_mut(vnet).remove(vnet, address);
        }
    }

    /// Notes the numbers that mappings hold.
    pub(crate) fn note_used(&self, used: &mut Used) {
        self.used().for_each(|part| part.note_used(used));
    }

    /// Whether a mapping has a tunnel.
    pub(crate) fn uses_tunnel(&self, tunnel: u32) -> bool {
        self.used().any(|part| part.uses_tunnel(tunnel))
    }

    /// Whether a mapping has a port map.
    pub(crate) fn uses_port_map(&self, map: u32) -> bool {
        self.used().any(|part| part.uses_port_map(map))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::objects::RoutingType;

    #[test]
    fn a_change_copies_its_part_alone() {
        let mapping = VnetMapping {
            routing_type: RoutingType::VnetEncap,
            underlay_ip: Address::from_v4([20, 0, 0, 1]),
            mac_address: None,
            use_dst_vni: true,
            private_link: None,
            metering_class_or: 0,
            tunnel: None,
            port_map: None,
        };
        let (mut all, mut numbers) = (SharedMappings::new(7), Numbers::default());
        let address = |last| Address::from_v4([10, 0, 0, last]);
        for vnet in 0..200 {
            assert!(all.set(vnet, address(1), &mapping, &mut numbers));
        }
        let mut changed = all.clone();
        changed.remove(5, address(1));
        changed.remove(5, address(2));
        assert!(changed.set(6, address(2), &mapping, &mut numbers));
        let same = all.parts.iter().zip(&changed.parts);
        let same = same.filter(|(one, other)| Arc::ptr_eq(one, other));
        assert_eq!(same.count(), PARTS - 2);
        assert_eq!((all.cost().number, changed.cost().number), (200, 200));
        for vnet in 0..200 {
            let found = changed.lookup(vnet, address(1));
            assert_eq!(found.is_some(), vnet != 5, "{vnet}");
            assert_eq!(all.lookup(vnet, address(2)), None, "{vnet}");
            assert!(all.has_source(vnet, mapping.underlay_ip));
        }
    }
}
