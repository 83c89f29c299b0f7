//! IPv4 addresses within addresses of IPv6 (RFC 6052).

use twinpath_classify::{Prefix, Versions};
use twinpath_core::wire::Address;

/// Bits 64 to 71 of an address are zero (RFC 6052 §2.2).
const GAP_AT: u32 = 64;
const GAP: u32 = 8;

/// The prefix behind which IPv4 addresses are.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct Embedding {
    pub prefix: Prefix,
}

impl Embedding {
    /// The lengths that a prefix may have.
    pub const LENGTHS: [u8; 6] = [32, 40, 48, 56, 64, 96];

    /// A prefix of IPv6 of one of those lengths, whose bits 64 to 71 are zero.
    pub fn new(prefix: Prefix) -> Option<Self> {
        let gap = (prefix.network().0 >> (128 - GAP_AT - GAP)) as u8;
        let is_fit = prefix.versions() == Versions::V6 && Self::LENGTHS.contains(&prefix.length());
        (is_fit && gap == 0).then_some(Self { prefix })
    }

    /// The address that stands for one of IPv4.
    pub fn embed(&self, address: Address) -> Address {
        let v4 = u128::from(address.word(3));
        let length = u32::from(self.prefix.length());
        let placed = v4 << (96 - length.min(96));
        let placed = match length {
            96 => v4,
            _ => split(placed),
        };
        Address(self.prefix.network().0 | placed)
    }

    /// The IPv4 address in one of IPv6, if it has the prefix.
    pub fn extract(&self, address: Address) -> Option<Address> {
        if !self.prefix.includes(address) {
            return None;
        }
        let length = u32::from(self.prefix.length());
        let joined = match length {
            96 => address.0,
            _ => join(address.0) >> (96 - length),
        };
        Some(Address::from_v4((joined as u32).to_be_bytes()))
    }
}

/// Moves what lies behind bit 64 behind the gap.
const fn split(bits: u128) -> u128 {
    let high = bits >> GAP_AT << GAP_AT;
    let low = bits & (u64::MAX as u128);
    high | low >> GAP
}

/// Takes the gap out.
const fn join(bits: u128) -> u128 {
    let high = bits >> GAP_AT << GAP_AT;
    let low = bits & (u64::MAX as u128);
    high | (low << GAP) & (u64::MAX as u128)
}

/// Whether an IPv4 address is one that the well-known prefix may not be put in front of: it means
/// something on one network only (RFC 6052 §3.1).
pub(super) const fn is_local(address: Address) -> bool {
    matches!(
        address.octets4(),
        [0 | 10 | 127 | 224.., ..]
            | [100, 64..=127, ..]
            | [169, 254, ..]
            | [172, 16..=31, ..]
            | [192, 168, ..]
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> Address {
        text.parse::<std::net::IpAddr>().expect(text).into()
    }

    /// RFC 6052 §2.4, table 2 and 3.
    /// RFC 6146 §3.1.
    #[test]
    fn the_examples_of_the_standard() {
        for (prefix, expected) in [
            ("2001:db8::/32", "2001:db8:c000:221::"),
            ("2001:db8:100::/40", "2001:db8:1c0:2:21::"),
            ("2001:db8:122::/48", "2001:db8:122:c000:2:2100::"),
            ("2001:db8:122:300::/56", "2001:db8:122:3c0:0:221::"),
            ("2001:db8:122:344::/64", "2001:db8:122:344:c0:2:2100::"),
            ("2001:db8:122:344::/96", "2001:db8:122:344::192.0.2.33"),
            ("64:ff9b::/96", "64:ff9b::192.0.2.33"),
        ] {
            let embedding = Embedding::new(prefix.parse().expect("a prefix")).expect("fit");
            let v4 = address("192.0.2.33");
            assert_eq!(embedding.embed(v4), address(expected), "{prefix}");
            assert_eq!(embedding.extract(address(expected)), Some(v4), "{prefix}");
            assert_eq!(embedding.extract(address("2001:db9::1")), None);
        }
        for unfit in ["2001:db8::/33", "10.0.0.0/8", "2001:db8:0:0:100::/96"] {
            assert_eq!(Embedding::new(unfit.parse().expect("a prefix")), None);
        }
    }
}
