//! Regions of addresses: what rules depend on besides a next hop, so that a change of a route
//! concerns only those of its neighbourhood.

use twinpath_classify::{Prefix, Versions};
use twinpath_core::wire::Address;

/// With at most so many routes at the start there is one region for each IP version.
const FEW_ROUTES: usize = 1024;

const V4: u32 = 0x8000_0000;
const V6: u32 = 0x4000_0000;

/// How the addresses of each version are divided.
#[derive(Copy, Clone, Debug)]
pub(super) struct Regions {
    v4_bits: u32,
    v6_bits: u32,
}

impl Regions {
    pub fn for_routes(routes: usize) -> Self {
        if routes <= FEW_ROUTES {
            return Self {
                v4_bits: 0,
                v6_bits: 0,
            };
        }
        Self {
            v4_bits: 12,
            v6_bits: 16,
        }
    }

    /// The entry of an address's region.
    pub fn entry(self, address: Address) -> u32 {
        match address.is_v4() {
            true => {
                V4 | (address.0 as u32)
                    .checked_shr(32 - self.v4_bits)
                    .unwrap_or(0)
            }
            false => V6 | address.0.checked_shr(128 - self.v6_bits).unwrap_or(0) as u32,
        }
    }

    /// How many of the 128 leading bits of an address tell its region.
    pub fn examined_bits(self, address: Address) -> u8 {
        match (address.is_v4(), self.v6_bits) {
            (true, _) => 96 + self.v4_bits as u8,
            (false, bits) => bits as u8,
        }
    }

    /// Calls `each` with the entries of all regions that a prefix has addresses in.
    pub fn each_in(self, prefix: Prefix, each: &mut dyn FnMut(u32)) {
        let length = u32::from(prefix.length());
        let versions = prefix.versions();
        if versions != Versions::V6 {
            let first = match versions {
                Versions::Both => V4,
                _ => self.entry(prefix.network()),
            };
            (0..1 << self.v4_bits.saturating_sub(length)).for_each(|next| each(first + next));
        }
        if versions != Versions::V4 {
            let network = self.entry(prefix.network()) & !V4;
            let first = V6 | network;
            (0..1 << self.v6_bits.saturating_sub(length)).for_each(|next| each(first + next));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_prefix_concerns_the_regions_of_all_its_addresses(
            address: u128, v4: bool, length in 0u8..=128, inside: u128, many: bool,
        ) {
            let lift = |address: u128| if v4 {
                Address::from_v4((address as u32).to_be_bytes())
            } else {
                Address(address | 1 << 127)
            };
            let bits = if v4 { 32 } else { 128 };
            let length = length.min(bits);
            let regions = Regions::for_routes(if many { 5000 } else { 5 });
            let prefix = Prefix::covering(lift(address), length);
            let host = u128::MAX.checked_shr(u32::from(128 - bits + length)).unwrap_or(0);
            let member = Address(prefix.network().0 | lift(inside).0 & host);
            prop_assert!(prefix.includes(member));
            let mut found = false;
            regions.each_in(prefix, &mut |entry| found |= entry == regions.entry(member));
            prop_assert!(found);
            let mut found = false;
            regions.each_in(Prefix::ANY, &mut |entry| found |= entry == regions.entry(member));
            prop_assert!(found);
        }
    }
}
