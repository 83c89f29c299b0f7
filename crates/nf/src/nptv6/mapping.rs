//! Addresses of two prefixes that stand for each other, with the same checksum (RFC 6296 §3).

use twinpath_classify::Prefix;
use twinpath_core::wire::Address;
use twinpath_core::wire::checksum::{fold, sum};

/// The longest prefix whose difference the subnet's number makes up for.
const SUBNETTED: u8 = 48;
/// The longest prefix.
pub(super) const LONGEST: u8 = 64;

/// A prefix inside and one outside.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct Mapping {
    /// Both are of one length.
    pub inside: Prefix,
    pub external: Prefix,
    /// What the prefix inside has more than the one outside, in ones-complement arithmetic.
    surplus: u16,
}

impl Mapping {
    /// Two prefixes of IPv6, of at most 64 bits.
    pub fn new(inside: Prefix, external: Prefix) -> Self {
        let length = inside.length().max(external.length());
        let [inside, external] =
            [inside, external].map(|prefix| Prefix::covering(prefix.network(), length));
        let [own, other] = [inside, external].map(|prefix| total(prefix.network()));
        Self {
            inside,
            external,
            surplus: add(own, !other),
        }
    }

    /// How an address inside appears outside; `None` if it cannot.
    pub fn outward(&self, host: Address) -> Option<Address> {
        self.translate(host, self.external, self.surplus)
    }

    /// Which address inside appears as one outside.
    pub fn inward(&self, host: Address) -> Option<Address> {
        self.translate(host, self.inside, !self.surplus)
    }

    fn translate(&self, host: Address, prefix: Prefix, difference: u16) -> Option<Address> {
        let rest = u128::MAX.checked_shr(prefix.length().into()).unwrap_or(0);
        let word = self.neutral_word(host)?;
        let shift = 112 - 16 * word;
        // Zero has two forms; that of ones stands for no subnet (§3.4).
        let balanced = match add((host.0 >> shift) as u16, difference) {
            u16::MAX => 0,
            balanced => balanced,
        };
        let kept = host.0 & rest & !(0xffff << shift);
        Some(Address(
            prefix.network().0 | kept | u128::from(balanced) << shift,
        ))
    }

    /// The word of an address that makes up for the difference.
    fn neutral_word(&self, host: Address) -> Option<u32> {
        let is_ones = |word: &u32| (host.0 >> (112 - 16 * word)) as u16 == u16::MAX;
        if self.inside.length() <= SUBNETTED {
            return Some(3).filter(|word| !is_ones(word));
        }
        let has_identifier = host.0 as u64 != 0;
        (4..8).find(|word| has_identifier && !is_ones(word))
    }
}

/// The sum of an address's words.
fn total(address: Address) -> u16 {
    fold(sum(&address.octets16()))
}

/// In ones-complement arithmetic.
const fn add(one: u16, other: u16) -> u16 {
    fold(one as u64 + other as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn address(text: &str) -> Address {
        text.parse::<std::net::IpAddr>().expect(text).into()
    }

    fn mapping(inside: &str, external: &str) -> Mapping {
        let prefix = |text: &str| text.parse().expect(text);
        Mapping::new(prefix(inside), prefix(external))
    }

    /// RFC 6296 §3.6.
    /// RFC 6296 §3.4.
    #[test]
    fn the_example_of_the_standard() {
        let mapping = mapping("fd01:203:405::/48", "2001:db8:1::/48");
        let (inside, outside) = ("fd01:203:405:1::1234", "2001:db8:1:d550::1234");
        assert_eq!(mapping.outward(address(inside)), Some(address(outside)));
        assert_eq!(mapping.inward(address(outside)), Some(address(inside)));
    }

    /// RFC 6296 §3.1: the shorter prefix is extended.
    #[test]
    fn what_has_no_counterpart() {
        let short = mapping("fd01:203:405::/48", "2001:db8:1::/48");
        assert_eq!(short.outward(address("fd01:203:405:ffff::1")), None);
        let long = mapping("fd01:203:405:1::/64", "2001:db8:1::/48");
        assert_eq!(long.external.to_string(), "2001:db8:1::/64");
        assert_eq!(long.outward(address("fd01:203:405:1::")), None);
        let ones = address("fd01:203:405:1:ffff:ffff:ffff:ffff");
        assert_eq!(long.outward(ones), None);
    }

    fn of_checksum(address: Address) -> u16 {
        // Both forms of zero are the same.
        total(address) % u16::MAX
    }

    proptest! {
        /// RFC 6296 §2.6, §3.2, §3.3.
        #[test]
        fn there_and_back_with_the_same_checksum(
            inside: u128,
            external: u128,
            (own, other) in (1u8..=64, 1u8..=64),
            host: u128,
        ) {
            let prefix = |bits: u128, length| Prefix::covering(Address(bits | 1 << 127), length);
            let mapping = Mapping::new(prefix(inside, own), prefix(external, other));
            let length = own.max(other);
            let host = Address(mapping.inside.network().0 | host & u128::MAX >> length);
            if let Some(outside) = mapping.outward(host) {
                prop_assert!(mapping.external.includes(outside));
                prop_assert_eq!(of_checksum(outside), of_checksum(host));
                prop_assert_eq!(mapping.inward(outside), Some(host));
                let kept = if length <= 48 { 64 } else { 0 };
                prop_assert_eq!(outside.0 & ((1u128 << kept) - 1), host.0 & ((1u128 << kept) - 1));
            }
        }
    }
}
