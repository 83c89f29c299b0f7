//! Where addresses of virtual networks are: customer address to physical address.
//!
//! There may be millions, of which each differs in addresses only: what else a mapping says is kept
//! once. An entry for an IPv4 address takes 24 bytes, one for IPv6 40; tables are at most two thirds
//! full.

use std::collections::HashMap;

use twinpath_core::hash::HashKey;
use twinpath_core::memory::{ZeroedArray, prefetch};
use twinpath_core::probing::{Places, next};
use twinpath_core::wire::{Address, MacAddress};

use super::interned::Interned;
use super::numbers::{Numbers, Used};
use crate::objects::{PrivateLink, RoutingType, VnetMapping};

/// What a mapping says beside addresses, with numbers for names.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub struct MappingProfile {
    /// What is done.
    pub routing_type: RoutingType,
    /// Whether the VNI is the destination network's.
    pub use_dst_vni: bool,
    /// The inner addresses of Private Link.
    pub private_link: Option<PrivateLink>,
    /// Bits that are set in the metering class.
    pub metering_class_or: u32,
    /// A second tunnel around the first.
    pub tunnel: Option<u32>,
    /// Destination ports that have another endpoint.
    pub port_map: Option<u32>,
}

/// A mapping that was found.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct FoundMapping<'a> {
    /// The outer destination.
    pub underlay: Address,
    /// The inner destination MAC address.
    pub mac: Option<MacAddress>,
    /// All else.
    pub profile: &'a MappingProfile,
}

/// Mappings by network and address.
#[derive(Clone)]
pub struct MappingTable {
    v4: Entries<3>,
    v6: Entries<5>,
    profiles: Interned<MappingProfile>,
    /// Physical addresses that do not fit an entry.
    underlays: Interned<Address>,
    /// How many mappings of a network lead to a physical address.
    sources: HashMap<(u32, Address), u32>,
}

/// The MAC address is there.
const HAS_MAC: u64 = 1;
/// The physical address is a number of [`MappingTable::underlays`].
const IS_NUMBER: u64 = 2;

impl MappingTable {
    /// An empty table.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let key = HashKey::new(seed);
        Self {
            v4: Entries::new(key),
            v6: Entries::new(key),
            profiles: Interned::new(seed),
            underlays: Interned::new(seed),
            sources: HashMap::new(),
        }
    }

    /// How many mappings there are.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.v4.taken + self.v6.taken
    }

    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Memory taken, in bytes.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.v4.places.len() * 24
            + self.v6.places.len() * 40
            + self.profiles.memory_bytes()
            + self.underlays.memory_bytes()
            + self.sources.capacity() * (size_of::<((u32, Address), u32)>() + 1)
    }

    /// The mapping of an address in a network.
    #[must_use]
    #[inline]
    pub fn lookup(&self, vnet: u32, address: Address) -> Option<FoundMapping<'_>> {
        let found = match address.is_v4() {
            true => self.v4.find(v4_key(vnet, address)).map(Value::of_v4),
            false => self.v6.find(v6_key(vnet, address)).map(Value::of_v6),
        };
        self.open(found?)
    }

    /// Asks the processor to fetch what a look-up of an IPv4 address reads.
    #[inline]
    pub fn prefetch(&self, vnet: u32, address: Address) {
        if address.is_v4() {
            let home = self.v4.home(&v4_key(vnet, address));
            prefetch(&self.v4.places[home]);
        }
    }

    /// Whether a physical address is one of a network's.
    #[must_use]
    pub fn has_source(&self, vnet: u32, address: Address) -> bool {
        self.sources.contains_key(&(vnet, address))
    }

    /// Sets the mapping of an address. Returns whether there was room for it.
    pub(crate) fn set(
        &mut self,
        vnet: u32,
        address: Address,
        mapping: &VnetMapping,
        numbers: &mut Numbers,
    ) -> bool {
        self.remove(vnet, address);
        let value = Value {
            underlay: self.close(mapping.underlay_ip),
            profile: self.profiles.take(&profile(mapping, numbers)),
            mac: mapping.mac_address,
        };
        let is_in = match address.is_v4() {
            true => self.v4.insert(value.v4(v4_key(vnet, address))),
            false => self.v6.insert(value.v6(v6_key(vnet, address))),
        };
        match is_in {
            true => *self.sources.entry((vnet, mapping.underlay_ip)).or_default() += 1,
            false => self.release(value),
        }
        is_in
    }

    /// Removes the mapping of an address. Returns whether there was one.
    pub fn remove(&mut self, vnet: u32, address: Address) -> bool {
        let underlay = self.lookup(vnet, address).map(|found| found.underlay);
        let removed = match address.is_v4() {
            true => self.v4.remove(v4_key(vnet, address)).map(Value::of_v4),
            false => self.v6.remove(v6_key(vnet, address)).map(Value::of_v6),
        };
        let (Some(value), Some(underlay)) = (removed, underlay) else {
            return false;
        };
        self.release(value);
        if let Some(uses) = self.sources.get_mut(&(vnet, underlay)) {
            *uses -= 1;
            if *uses == 0 {
                self.sources.remove(&(vnet, underlay));
            }
        }
        true
    }

    /// Notes the numbers that mappings hold.
    pub(crate) fn note_used(&self, used: &mut Used) {
        used.vnets
            .extend(self.sources.keys().map(|(vnet, _)| *vnet));
        for profile in self.profiles.iter() {
            used.tunnels.extend(profile.tunnel);
            used.port_maps.extend(profile.port_map);
        }
    }

    /// Whether a mapping has a tunnel.
    pub(crate) fn uses_tunnel(&self, tunnel: u32) -> bool {
        let mut profiles = self.profiles.iter();
        profiles.any(|profile| profile.tunnel == Some(tunnel))
    }

    /// Whether a mapping has a port map.
    pub(crate) fn uses_port_map(&self, map: u32) -> bool {
        let mut profiles = self.profiles.iter();
        profiles.any(|profile| profile.port_map == Some(map))
    }

    fn release(&mut self, value: Value) {
        self.profiles.give(value.profile);
        if let Underlay::Number(number) = value.underlay {
            self.underlays.give(number);
        }
    }

    fn close(&mut self, underlay: Address) -> Underlay {
        match underlay.is_v4() {
            true => Underlay::V4(underlay.0 as u32),
            false => Underlay::Number(self.underlays.take(&underlay)),
        }
    }

    fn open(&self, value: Value) -> Option<FoundMapping<'_>> {
        Some(FoundMapping {
            underlay: match value.underlay {
                Underlay::V4(bits) => Address::from_v4(bits.to_be_bytes()),
                Underlay::Number(number) => *self.underlays.get(number)?,
            },
            mac: value.mac,
            profile: self.profiles.get(value.profile)?,
        })
    }
}

fn profile(mapping: &VnetMapping, numbers: &mut Numbers) -> MappingProfile {
    let Numbers {
        tunnels, port_maps, ..
    } = numbers;
    MappingProfile {
        routing_type: mapping.routing_type,
        use_dst_vni: mapping.use_dst_vni,
        private_link: mapping.private_link,
        metering_class_or: mapping.metering_class_or,
        tunnel: mapping.tunnel.as_ref().map(|name| tunnels.of(name)),
        port_map: mapping.port_map.as_ref().map(|name| port_maps.of(name)),
    }
}

/// Never zero, for free places are.
const fn v4_key(vnet: u32, address: Address) -> [u64; 1] {
    [(vnet as u64 + 1) << 32 | address.0 as u32 as u64]
}

const fn v6_key(vnet: u32, address: Address) -> [u64; 3] {
    [vnet as u64 + 1, (address.0 >> 64) as u64, address.0 as u64]
}

#[derive(Copy, Clone)]
enum Underlay {
    V4(u32),
    Number(u32),
}

#[derive(Copy, Clone)]
struct Value {
    underlay: Underlay,
    profile: u32,
    mac: Option<MacAddress>,
}

impl Value {
    fn words(self) -> [u64; 2] {
        let (bits, flag) = match self.underlay {
            Underlay::V4(bits) => (bits, 0),
            Underlay::Number(number) => (number, IS_NUMBER),
        };
        let [a, b, c, d, e, f] = self.mac.unwrap_or(MacAddress::ZERO).0;
        let mac = u64::from_be_bytes([a, b, c, d, e, f, 0, 0]);
        let flags = flag | if self.mac.is_some() { HAS_MAC } else { 0 };
        [u64::from(bits) << 32 | u64::from(self.profile), mac | flags]
    }

    fn of([place, mac]: [u64; 2]) -> Self {
        let bits = (place >> 32) as u32;
        let [a, b, c, d, e, f, ..] = mac.to_be_bytes();
        Self {
            underlay: match mac & IS_NUMBER {
                0 => Underlay::V4(bits),
                _ => Underlay::Number(bits),
            },
            profile: place as u32,
            mac: (mac & HAS_MAC != 0).then_some(MacAddress([a, b, c, d, e, f])),
        }
    }

    fn v4(self, [key]: [u64; 1]) -> [u64; 3] {
        let [place, mac] = self.words();
        [key, place, mac]
    }

    fn v6(self, [vnet, high, low]: [u64; 3]) -> [u64; 5] {
        let [place, mac] = self.words();
        [vnet, high, low, place, mac]
    }

    fn of_v4([_, place, mac]: [u64; 3]) -> Self {
        Self::of([place, mac])
    }

    fn of_v6([.., place, mac]: [u64; 5]) -> Self {
        Self::of([place, mac])
    }
}

/// Entries of `N` words, of which the first are the key; a free place is all zero.
#[derive(Clone)]
struct Entries<const N: usize> {
    places: ZeroedArray<[u64; N]>,
    key: HashKey,
    taken: usize,
}

impl<const N: usize> Entries<N> {
    fn new(key: HashKey) -> Self {
        Self {
            places: ZeroedArray::new(64),
            key,
            taken: 0,
        }
    }

    #[inline]
    fn home<const K: usize>(&self, key: &[u64; K]) -> usize {
        self.key.hash(*key) as usize & (self.places.len() - 1)
    }

    #[inline]
    fn probe<const K: usize>(&self, key: &[u64; K]) -> (usize, bool) {
        let mut place = self.home(key);
        loop {
            let entry = &self.places[place];
            match entry.first_chunk::<K>() {
                Some(here) if here == key => return (place, true),
                _ if entry[0] == 0 => return (place, false),
                _ => place = next(place, self.places.len()),
            }
        }
    }

    #[inline]
    fn find<const K: usize>(&self, key: [u64; K]) -> Option<[u64; N]> {
        let (place, is_there) = self.probe(&key);
        is_there.then(|| self.places[place])
    }

    /// Inserts an entry that is not there.
    fn insert(&mut self, entry: [u64; N]) -> bool {
        if (self.taken + 1) * 3 > self.places.len() * 2 {
            self.grow();
        }
        let place = self.free_place(&entry);
        if !self.may_take(place) {
            return false;
        }
        self.places[place] = entry;
        self.taken += 1;
        true
    }

    fn free_place(&self, entry: &[u64; N]) -> usize {
        let mut place = self.home_of_entry(entry);
        while self.places[place][0] != 0 {
            place = next(place, self.places.len());
        }
        place
    }

    fn home_of_entry(&self, entry: &[u64; N]) -> usize {
        // An entry of three words has a key of one, one of five words a key of three.
        match entry.as_slice() {
            [key, _, _] => self.home(&[*key]),
            [vnet, high, low, ..] => self.home(&[*vnet, *high, *low]),
            _ => 0,
        }
    }

    fn grow(&mut self) {
        let larger = ZeroedArray::new(self.places.len() * 2);
        let old = std::mem::replace(&mut self.places, larger);
        for entry in old.iter().filter(|entry| entry[0] != 0) {
            let place = self.free_place(entry);
            self.places[place] = *entry;
        }
    }

    fn remove<const K: usize>(&mut self, key: [u64; K]) -> Option<[u64; N]> {
        let (place, is_there) = self.probe(&key);
        if !is_there {
            return None;
        }
        let entry = self.places[place];
        let gap = self.close_gap(place);
        self.places[gap] = [0; N];
        self.taken -= 1;
        Some(entry)
    }
}

impl<const N: usize> Places for Entries<N> {
    fn places(&self) -> usize {
        self.places.len()
    }

    fn is_taken(&self, place: usize) -> bool {
        self.places[place][0] != 0
    }

    fn home_of(&self, place: usize) -> usize {
        self.home_of_entry(&self.places[place])
    }

    fn move_to(&mut self, from: usize, to: usize) {
        self.places[to] = self.places[from];
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn mapping(underlay_ip: Address, class: u32, has_mac: bool) -> VnetMapping {
        VnetMapping {
            routing_type: RoutingType::VnetEncap,
            underlay_ip,
            mac_address: has_mac.then_some(MacAddress([1, 2, 3, 4, 5, 6])),
            use_dst_vni: class.is_multiple_of(2),
            private_link: None,
            metering_class_or: class,
            tunnel: None,
            port_map: None,
        }
    }

    fn address(number: u8, is_v4: bool) -> Address {
        match is_v4 {
            true => Address::from_v4([10, 0, 0, number]),
            false => Address(0xfd00 << 112 | u128::from(number)),
        }
    }

    proptest! {
        #[test]
        fn mappings_are_what_was_set_last(
            steps in prop::collection::vec(
                (0u32..3, any::<u8>(), any::<bool>(), any::<u8>(), any::<bool>(), 0u32..3, any::<bool>()),
                0..600,
            ),
        ) {
            let (mut table, mut numbers) = (MappingTable::new(7), Numbers::default());
            let mut model = HashMap::new();
            for (vnet, number, is_v4, underlay, underlay_is_v4, class, sets) in steps {
                let key = (vnet, address(number % 64, is_v4));
                if sets {
                    let mapping = mapping(address(underlay % 4, underlay_is_v4), class, number % 2 == 0);
                    prop_assert!(table.set(key.0, key.1, &mapping, &mut numbers));
                    model.insert(key, mapping);
                } else {
                    prop_assert_eq!(table.remove(key.0, key.1), model.remove(&key).is_some());
                }
            }
            prop_assert_eq!(table.len(), model.len());
            for vnet in 0..3 {
                for number in 0..64 {
                    for is_v4 in [false, true] {
                        let address = address(number, is_v4);
                        let found = table.lookup(vnet, address);
                        let expected = model.get(&(vnet, address));
                        prop_assert_eq!(found.map(|found| found.underlay), expected.map(|set| set.underlay_ip));
                        prop_assert_eq!(found.and_then(|found| found.mac), expected.and_then(|set| set.mac_address));
                        prop_assert_eq!(found.map(|found| *found.profile), expected.map(|set| profile(set, &mut numbers)));
                    }
                }
                for underlay in 0..4 {
                    for is_v4 in [false, true] {
                        let source = address(underlay, is_v4);
                        let is_one = model.iter().any(|(key, set)| key.0 == vnet && set.underlay_ip == source);
                        prop_assert_eq!(table.has_source(vnet, source), is_one);
                    }
                }
            }
            let keys: Vec<_> = model.into_keys().collect();
            for (vnet, address) in keys {
                prop_assert!(table.remove(vnet, address));
            }
            prop_assert_eq!((table.profiles.len(), table.underlays.len()), (0, 0));
            prop_assert!(table.sources.is_empty());
        }
    }

    #[test]
    fn a_hundred_thousand_mappings_take_less_than_80_bytes_each() {
        let (mut table, mut numbers) = (MappingTable::new(7), Numbers::default());
        for number in 0..100_000u32 {
            let underlay = Address::from_v4((0x6400_0000 + number / 10).to_be_bytes());
            let customer = Address::from_v4((0x0a00_0000 + number).to_be_bytes());
            assert!(table.set(
                1,
                customer,
                &mapping(underlay, number % 3, true),
                &mut numbers
            ));
        }
        let bytes = table.memory_bytes() / table.len();
        assert!(bytes < 80, "{bytes} bytes a mapping");
    }
}
