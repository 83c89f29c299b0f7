//! Addresses that share their first bits.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;
use twinpath_core::wire::Address;

use crate::word::Word;

/// Bits of an IPv6 address that say it is an IPv4 address.
pub(crate) const MAPPED_BITS: u8 = 96;

/// IP versions that a prefix speaks of.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Versions {
    /// IPv4 only.
    V4,
    /// IPv6 only.
    V6,
    /// Either: only [`Prefix::ANY`].
    Both,
}

impl Versions {
    /// Whether this speaks of IPv4 (or else of IPv6).
    #[must_use]
    #[inline]
    pub const fn includes(self, v4: bool) -> bool {
        match self {
            Self::V4 => v4,
            Self::V6 => !v4,
            Self::Both => true,
        }
    }
}

/// All addresses of one IP version that share their first bits, or all addresses of both.
///
/// `::/0` is all of IPv6 and none of IPv4, although the mapped block lies within it. Prefixes are
/// ordered by their first address, then by length.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Prefix {
    network: Address,
    /// In the address's own version: 0 to 32 or 0 to 128.
    length: u8,
    versions: Versions,
}

/// Why something is no prefix.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Error)]
pub enum PrefixError {
    /// Not an address, a slash and a length, nor an address, nor `any`.
    #[error("not \"any\", an address, or a prefix such as 10.0.0.0/8 or 2001:db8::/32")]
    Unreadable,
    /// A length that the address does not have.
    #[error("no prefix: its length {length} is more than {most}")]
    Length {
        /// The length.
        length: u8,
        /// Bits of an address of this version.
        most: u8,
    },
    /// IPv4 within IPv6, which is for programs: no packet has it.
    #[error(
        "an IPv4 address written as one of IPv6, which no packet has; meant was perhaps {meant}"
    )]
    Mapped {
        /// The address.
        meant: Address,
    },
    /// Bits beyond the prefix's length.
    #[error("no prefix: it has bits beyond its prefix length; meant was perhaps {meant}")]
    HostBits {
        /// The prefix without them.
        meant: Prefix,
    },
}

impl Prefix {
    /// Every address of both versions.
    pub const ANY: Self = Self {
        network: Address::UNSPECIFIED_V6,
        length: 0,
        versions: Versions::Both,
    };

    /// The prefix `network/length`, with the length counted in the address's own version.
    ///
    /// # Errors
    /// If the address has fewer bits, or has bits set beyond the length.
    pub fn new(network: Address, length: u8) -> Result<Self, PrefixError> {
        let most = address_bits(network);
        if length > most {
            return Err(PrefixError::Length { length, most });
        }
        let meant = Self::covering(network, length);
        if meant.network == network {
            Ok(meant)
        } else {
            Err(PrefixError::HostBits { meant })
        }
    }

    /// The prefix of this length that an address lies in; a length beyond the address's bits is
    /// the address itself.
    #[must_use]
    pub fn covering(address: Address, length: u8) -> Self {
        let most = address_bits(address);
        let length = length.min(most);
        let mask = u128::leading(u32::from(length + (128 - most)));
        Self {
            network: Address(address.0 & mask),
            length,
            versions: if address.is_v4() {
                Versions::V4
            } else {
                Versions::V6
            },
        }
    }

    /// The first address.
    #[must_use]
    pub const fn network(&self) -> Address {
        self.network
    }

    /// The last address.
    #[must_use]
    pub fn last(&self) -> Address {
        let host_bits = u32::from(address_bits(self.network) - self.length);
        let ones = 1u128
            .checked_shl(host_bits)
            .map_or(u128::MAX, |bit| bit - 1);
        Address(self.network.0 | ones)
    }

    /// How many bits the addresses share, counted in their own version.
    #[must_use]
    pub const fn length(&self) -> u8 {
        self.length
    }

    /// The IP versions meant.
    #[must_use]
    pub const fn versions(&self) -> Versions {
        self.versions
    }

    /// Whether an address of one of its IP versions lies in it that has `value` in the bits of
    /// `mask`.
    #[must_use]
    pub fn meets(&self, mask: u128, value: u128) -> bool {
        let leading = match self.versions {
            Versions::Both => 0,
            Versions::V4 => self.length + MAPPED_BITS,
            Versions::V6 => self.length,
        };
        let shared = u128::leading(u32::from(leading)) & mask;
        (self.network.0 ^ value) & shared == 0
    }

    /// Whether an address lies in it.
    #[must_use]
    pub fn includes(&self, address: Address) -> bool {
        let shared = self.network.0.common(address.0) as u8;
        self.versions.includes(address.is_v4())
            && shared
                >= self.length
                    + if address.is_v4() && self.length > 0 {
                        MAPPED_BITS
                    } else {
                        0
                    }
    }
}

const fn address_bits(address: Address) -> u8 {
    if address.is_v4() { 32 } else { 128 }
}

impl From<Address> for Prefix {
    fn from(address: Address) -> Self {
        Self::covering(address, address_bits(address))
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.versions {
            Versions::Both => f.write_str("any"),
            _ => write!(f, "{}/{}", self.network, self.length),
        }
    }
}

impl fmt::Debug for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Prefix {
    type Err = PrefixError;

    fn from_str(text: &str) -> Result<Self, PrefixError> {
        if text == "any" {
            return Ok(Self::ANY);
        }
        let (address, length) = match text.split_once('/') {
            Some((address, length)) => (address, Some(length)),
            None => (text, None),
        };
        let meant: Address = address.parse().map_err(|_| PrefixError::Unreadable)?;
        if meant.is_v4() && address.contains(':') {
            return Err(PrefixError::Mapped { meant });
        }
        let address = meant;
        match length {
            None => Ok(address.into()),
            Some(length) => Self::new(
                address,
                length.parse().map_err(|_| PrefixError::Unreadable)?,
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn includes(prefix: &str, address: &str) -> bool {
        let prefix: Prefix = prefix.parse().expect("a prefix");
        prefix.includes(address.parse().expect("an address"))
    }

    #[test]
    fn versions_are_kept_apart() {
        assert!(includes("any", "10.0.0.1") && includes("any", "2001:db8::1"));
        assert!(includes("0.0.0.0/0", "10.0.0.1") && !includes("0.0.0.0/0", "::1"));
        assert!(!includes("::/0", "10.0.0.1") && includes("::/0", "2001:db8::1"));
        assert!(includes("10.0.0.0/8", "10.255.0.1") && !includes("10.0.0.0/8", "11.0.0.1"));
        assert!(includes("2001:db8::/32", "2001:db8:1::") && !includes("2001:db8::/32", "2001::"));
    }

    #[test]
    fn texts_read_back() {
        for text in [
            "any",
            "0.0.0.0/0",
            "::/0",
            "10.0.0.0/8",
            "2001:db8::/32",
            "::1/128",
        ] {
            assert_eq!(text.parse::<Prefix>().unwrap().to_string(), text);
        }
        let meant = Prefix::covering(Address::from_v4([10, 0, 0, 0]), 8);
        assert_eq!(
            "10.1.0.0/8".parse::<Prefix>(),
            Err(PrefixError::HostBits { meant })
        );
        assert_eq!(
            "10.0.0.0/33".parse::<Prefix>(),
            Err(PrefixError::Length {
                length: 33,
                most: 32
            })
        );
        for text in ["::ffff:10.0.0.1", "::ffff:a00:1/128", "::ffff:10.0.0.1/8"] {
            let meant = Address::from_v4([10, 0, 0, 1]);
            assert_eq!(text.parse::<Prefix>(), Err(PrefixError::Mapped { meant }));
        }
        for text in ["", "10.0.0.0/", "10.0.0.0/x", "10.0.0/8"] {
            assert_eq!(
                text.parse::<Prefix>(),
                Err(PrefixError::Unreadable),
                "{text}"
            );
        }
    }
}
