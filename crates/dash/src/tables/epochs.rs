//! Numbers that grow when a mapping changes, found by hashing what was looked at.
//!
//! A flow keeps one number of an epoch. What it was decided by may be two mappings (a floating NIC's
//! way there and back, and whether the sender is among a network's physical addresses): such flows
//! share the epoch of all mappings.

use twinpath_core::hash::{HashKey, seed_for};
use twinpath_core::memory::prefetch;
use twinpath_core::wire::Address;

/// Mappings share so many epochs.
const COUNT: usize = 1 << 16;
/// Of flows that no mapping has decided: it never grows.
pub const NONE: u16 = 0;
/// Of flows that several mappings may have decided: it grows with each change of any.
pub const ANY: u16 = 1;

/// What tells physical addresses of a network from its customers' addresses.
const SOURCES: u64 = 1 << 32;

/// The epoch of what two others say together.
#[must_use]
pub fn joined(one: Option<u16>, other: Option<u16>) -> Option<u16> {
    match (one, other) {
        (Some(one), Some(other)) if one != other => Some(ANY),
        (one, other) => one.or(other),
    }
}

/// Epochs of mappings.
#[derive(Clone)]
pub(super) struct MappingEpochs {
    key: HashKey,
    epochs: Box<[u32]>,
}

impl MappingEpochs {
    pub fn new(seed: u64) -> Self {
        Self {
            key: HashKey::new(seed_for(seed, "dash mapping epochs")),
            epochs: vec![0; COUNT].into(),
        }
    }

    /// The number of the epoch of what a network has for an address.
    #[inline]
    pub fn of_mapping(&self, vnet: u32, address: Address) -> u16 {
        self.number(u64::from(vnet), address)
    }

    /// The number of the epoch of whether a physical address is one of a network's.
    #[inline]
    pub fn of_source(&self, vnet: u32, source: Address) -> u16 {
        self.number(u64::from(vnet) | SOURCES, source)
    }

    #[inline]
    fn number(&self, first: u64, address: Address) -> u16 {
        let words = [first, (address.0 >> 64) as u64, address.0 as u64];
        (self.key.hash(words) as u16).max(ANY + 1)
    }

    /// The epoch with a number.
    #[inline]
    pub fn get(&self, number: u16) -> u32 {
        self.epochs.get(usize::from(number)).copied().unwrap_or(0)
    }

    /// Asks the processor to fetch the epoch with a number.
    #[inline]
    pub fn prefetch(&self, number: u16) {
        if let Some(epoch) = self.epochs.get(usize::from(number)) {
            prefetch(epoch);
        }
    }

    /// What has this number changed.
    pub fn grow(&mut self, number: u16) {
        for number in [number, ANY] {
            if let Some(epoch) = self.epochs.get_mut(usize::from(number)) {
                *epoch = epoch.wrapping_add(1);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_mappings_are_any() {
        assert_eq!(joined(None, None), None);
        assert_eq!(joined(None, Some(7)), Some(7));
        assert_eq!(joined(Some(7), Some(7)), Some(7));
        assert_eq!(joined(Some(7), Some(8)), Some(ANY));
    }

    #[test]
    fn nothing_has_the_numbers_of_none_and_any() {
        let epochs = MappingEpochs::new(1);
        let address = |number: u32| Address::from_v4(number.to_be_bytes());
        for number in 0..200_000 {
            assert!(epochs.of_mapping(3, address(number)) > ANY);
            assert!(epochs.of_source(3, address(number)) > ANY);
        }
    }
}
