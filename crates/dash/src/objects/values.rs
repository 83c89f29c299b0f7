//! Values that several objects have.

use std::fmt;

use twinpath_classify::Prefix;
use twinpath_core::wire::Address;

/// An IP version.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum IpVersion {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

impl IpVersion {
    /// An address's version.
    #[must_use]
    pub const fn of(address: Address) -> Self {
        if address.is_v4() { Self::V4 } else { Self::V6 }
    }

    /// The other one.
    #[must_use]
    pub const fn other(self) -> Self {
        match self {
            Self::V4 => Self::V6,
            Self::V6 => Self::V4,
        }
    }
}

impl fmt::Display for IpVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::V4 => "IPv4",
            Self::V6 => "IPv6",
        })
    }
}

/// A virtual network identifier of VXLAN, or a virtual subnet identifier of NVGRE: 24 bits.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Vni(u32);

impl Vni {
    /// The largest.
    pub const MAX: Self = Self(0xff_ffff);

    /// A number as an identifier; `None` if it has more than 24 bits.
    #[must_use]
    pub const fn new(number: u32) -> Option<Self> {
        if number <= Self::MAX.0 {
            Some(Self(number))
        } else {
            None
        }
    }

    /// The number.
    #[must_use]
    pub const fn get(self) -> u32 {
        self.0
    }
}

impl fmt::Display for Vni {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for Vni {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// All values from the first to the last, both included; a single value is a range of one.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Range<T> {
    first: T,
    last: T,
}

/// Ports from one to another.
pub type PortRange = Range<u16>;
/// VNIs from one to another.
pub type VniRange = Range<Vni>;

impl<T: Ord + Copy> Range<T> {
    /// The values from `first` to `last`; `None` if there are none.
    #[must_use]
    pub fn new(first: T, last: T) -> Option<Self> {
        (first <= last).then_some(Self { first, last })
    }

    /// One value.
    #[must_use]
    pub const fn one(value: T) -> Self {
        Self {
            first: value,
            last: value,
        }
    }

    /// The first.
    #[must_use]
    pub const fn first(&self) -> T {
        self.first
    }

    /// The last.
    #[must_use]
    pub const fn last(&self) -> T {
        self.last
    }

    /// Whether a value is among them.
    #[must_use]
    pub fn contains(&self, value: T) -> bool {
        self.first <= value && value <= self.last
    }
}

impl<T: fmt::Display + PartialEq> fmt::Display for Range<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.first == self.last {
            return self.first.fmt(f);
        }
        write!(f, "{}-{}", self.first, self.last)
    }
}

/// Bits of an IPv6 address that are set to given values: SONiC's `ip/mask`, where the mask is an
/// address of any form, not a length.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MaskedBits {
    value: u128,
    mask: u128,
}

impl MaskedBits {
    /// No bits: an address stays as it is.
    pub const NONE: Self = Self { value: 0, mask: 0 };

    /// The bits of `value` where `mask` is set.
    #[must_use]
    pub const fn new(value: u128, mask: u128) -> Self {
        Self {
            value: value & mask,
            mask,
        }
    }

    /// The bits' values; zero outside the mask.
    #[must_use]
    pub const fn value(self) -> u128 {
        self.value
    }

    /// Which bits.
    #[must_use]
    pub const fn mask(self) -> u128 {
        self.mask
    }

    /// An address with these bits set in it.
    #[must_use]
    pub const fn over(self, address: u128) -> u128 {
        (address & !self.mask) | self.value
    }
}

impl fmt::Display for MaskedBits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [value, mask] = [self.value, self.mask].map(std::net::Ipv6Addr::from_bits);
        write!(f, "{value}/{mask}")
    }
}

impl fmt::Debug for MaskedBits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// What a route or mapping gives to the metering class: of all that a packet meets, the bits that any
/// `or` has and every `and` leaves.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MeterBits {
    /// Bits that it adds.
    pub or: u32,
    /// Bits that it leaves.
    pub and: u32,
}

impl Default for MeterBits {
    fn default() -> Self {
        Self {
            or: 0,
            and: u32::MAX,
        }
    }
}

/// 128 bits that name something for good.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Guid(pub u128);

impl fmt::Display for Guid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hex = format!("{:032x}", self.0);
        let parts = [0..8, 8..12, 12..16, 16..20, 20..32].map(|part| &hex[part]);
        f.write_str(&parts.join("-"))
    }
}

impl fmt::Debug for Guid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Prefixes of both versions, in eight and in seventeen bytes each: rules hold millions of them.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct PrefixList {
    v4: Box<[(u32, u8)]>,
    v6: Box<[([u8; 16], u8)]>,
}

impl PrefixList {
    /// How many prefixes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.v4.len() + self.v6.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many there are of a version.
    #[must_use]
    pub fn of_version(&self, version: IpVersion) -> usize {
        match version {
            IpVersion::V4 => self.v4.len(),
            IpVersion::V6 => self.v6.len(),
        }
    }

    /// The prefixes: those of IPv4 first, in the order in which they were given.
    pub fn iter(&self) -> impl Iterator<Item = Prefix> + '_ {
        let v4 = self
            .v4
            .iter()
            .map(|&(network, length)| (Address::from_v4(network.to_be_bytes()), length));
        let v6 = self
            .v6
            .iter()
            .map(|&(network, length)| (Address::from_v6(network), length));
        v4.chain(v6)
            .map(|(network, length)| Prefix::covering(network, length))
    }

    /// Whether an address lies in one of them.
    #[must_use]
    pub fn includes(&self, address: Address) -> bool {
        self.iter().any(|prefix| prefix.includes(address))
    }

    /// Bytes that the lists take.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        size_of_val(&*self.v4) + size_of_val(&*self.v6)
    }
}

impl FromIterator<Prefix> for PrefixList {
    /// [`Prefix::ANY`] counts as all of IPv4 and all of IPv6.
    fn from_iter<I: IntoIterator<Item = Prefix>>(prefixes: I) -> Self {
        let (mut v4, mut v6) = (Vec::new(), Vec::new());
        for prefix in prefixes {
            if prefix.versions().includes(true) {
                v4.push((
                    u32::from_be_bytes(prefix.network().octets4()),
                    prefix.length(),
                ));
            }
            if prefix.versions().includes(false) {
                v6.push((prefix.network().octets16(), prefix.length()));
            }
        }
        Self {
            v4: v4.into(),
            v6: v6.into(),
        }
    }
}

impl fmt::Debug for PrefixList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masked_bits_lie_over_an_address() {
        let bits = MaskedBits::new(0x1234, 0xff00);
        assert_eq!(bits.over(0xabcd), 0x12cd);
        assert_eq!(MaskedBits::NONE.over(0xabcd), 0xabcd);
        // The masks of Private Link are 96 bits wide.
        let wide = MaskedBits::new(0xfd40_0108 << 96, !0 << 32);
        assert_eq!(wide.over(0x0a00_0001), (0xfd40_0108 << 96) | 0x0a00_0001);
    }

    #[test]
    fn prefixes_come_back_as_they_went_in() {
        let texts = ["10.0.0.0/8", "0.0.0.0/0", "2001:db8::/32", "::/0"];
        let list: PrefixList = texts.iter().map(|text| text.parse().unwrap()).collect();
        let back: Vec<_> = list.iter().map(|prefix| prefix.to_string()).collect();
        assert_eq!(back, texts);
        assert_eq!(list.of_version(IpVersion::V6), 2);
        let any: PrefixList = [Prefix::ANY].into_iter().collect();
        assert_eq!(any.len(), 2);
    }

    #[test]
    fn ranges_and_identifiers_have_bounds() {
        assert_eq!(Range::new(5, 4), None);
        let range = Range::new(5, 6).unwrap();
        assert!(range.contains(6) && !range.contains(7));
        assert_eq!(range.to_string(), "5-6");
        assert_eq!(Vni::new(1 << 24), None);
        let guid = Guid(0x559c_6ce8_26ab_4193_b946_ccc6_e8f9_30b2);
        assert_eq!(guid.to_string(), "559c6ce8-26ab-4193-b946-ccc6e8f930b2");
    }
}
