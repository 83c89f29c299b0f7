//! Translation of network prefixes as RFC 6296 says it, beside that of production.

use twinpath_classify::Prefix;
use twinpath_core::Direction;
use twinpath_core::wire::layout::Network;
use twinpath_core::wire::{Address, dissect, fields};
use twinpath_nf::nptv6::Config;

/// Where the addresses are in the header of IPv6.
const SOURCE_AT: usize = 8;
const DESTINATION_AT: usize = 24;

/// The word behind a prefix of 48 bits, which makes up for the difference (§3.4).
const SUBNET_AT: u32 = 64;

/// In ones-complement arithmetic this is zero, too.
const ONES: u32 = 0xffff;

/// Two prefixes of 48 bits that stand for each other.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Prefixes {
    inside: Prefix,
    external: Prefix,
}

impl Prefixes {
    /// The first ones of a configuration; nothing if there are none.
    pub fn of(config: &Config) -> Option<Self> {
        Some(Self {
            inside: *config.inside().first()?,
            external: *config.external().first()?,
        })
    }

    /// Does to a packet what the translation does: of one that leaves, the source, of one to an external
    /// address, the destination. Addresses alone are written: checksums hold as they are (§2.6).
    pub fn rewrite(self, bytes: &mut [u8], direction: Direction) {
        let layout = dissect(bytes).ok();
        let Some(layout) = layout.filter(|layout| layout.network == Network::V6) else {
            return;
        };
        let source = fields::source_address(bytes, &layout);
        let destination = fields::destination_address(bytes, &layout);
        let leaves = self.inside.includes(source) && !self.inside.includes(destination);
        let (at, new) = match direction {
            Direction::Original if leaves => (SOURCE_AT, counterpart(source, self.external)),
            Direction::Reply if self.external.includes(destination) => {
                (DESTINATION_AT, counterpart(destination, self.inside))
            }
            _ => return,
        };
        let at = usize::from(layout.l3) + at;
        bytes[at..at + 16].copy_from_slice(&new.octets16());
    }
}

/// The address with another prefix, the same interface and the same sum of words.
fn counterpart(address: Address, prefix: Prefix) -> Address {
    let interface = address.0 & u128::from(u64::MAX);
    let without_subnet = Address(prefix.network().0 | interface);
    let subnet = (sum(address) + ONES - sum(without_subnet)) % ONES;
    Address(without_subnet.0 | u128::from(subnet) << SUBNET_AT)
}

/// The sum of an address's words, in which all ones are zero.
fn sum(address: Address) -> u32 {
    let words = (0..8).map(|word| u32::from((address.0 >> (16 * word)) as u16));
    words.sum::<u32>() % ONES
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> Address {
        text.parse().expect(text)
    }

    fn prefix(text: &str) -> Prefix {
        text.parse().expect(text)
    }

    /// RFC 6296 §3.6.
    #[test]
    fn the_example_of_the_standard() {
        let (inside, outside) = ("fd01:203:405:1::1234", "2001:db8:1:d550::1234");
        let external = counterpart(address(inside), prefix("2001:db8:1::/48"));
        assert_eq!(external, address(outside));
        let internal = counterpart(external, prefix("fd01:203:405::/48"));
        assert_eq!(internal, address(inside));
    }

    /// Each subnet has one of its own outside, and comes back as it was; that of ones has none.
    #[test]
    fn both_directions_match() {
        let (inside, outside) = (prefix("fd00:1:2::/48"), prefix("3fff:1:1::/48"));
        for subnet in 0..0xffff {
            let host = Address(inside.network().0 | subnet << SUBNET_AT | 7);
            let external = counterpart(host, outside);
            assert!(outside.includes(external), "{external}");
            assert_eq!(sum(external), sum(host), "{external}");
            assert_eq!(counterpart(external, inside), host, "{external}");
        }
    }
}
