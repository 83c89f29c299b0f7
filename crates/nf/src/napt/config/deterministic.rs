//! Ports that follow from a host's address alone (RFC 7422): nothing has to be logged to tell who
//! had a port at some time.

use super::{ConfigError, PortsText};
use twinpath_classify::{Prefix, Versions};
use twinpath_core::wire::{Address, Endpoint};

/// A host's block: the number of its external address, and the ports.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct Block {
    pub address: u32,
    pub first: u16,
    pub last: u16,
}

/// Hosts inside, in order, have blocks of ports in order: all of the first external address, then
/// all of the second, and so on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Deterministic {
    /// The prefixes inside of each IP version (IPv4 first), with how many hosts come before them.
    inside: [Vec<(u128, Prefix)>; 2],
    /// The numbers of the external addresses of each.
    external: [Vec<u32>; 2],
    ports: PortsText,
    size: u16,
}

impl Deterministic {
    /// # Errors
    /// Blocks without ports, or more hosts than blocks.
    pub fn new(
        inside: &[Prefix],
        external: &[Address],
        ports: PortsText,
        size: u16,
    ) -> Result<Self, ConfigError> {
        let per_address = ports.count() / u32::from(size.max(1));
        if size == 0 || size > super::Blocks::MOST || per_address == 0 {
            return Err(ConfigError::BlockSize(size));
        }
        let blocks = Self {
            inside: [true, false].map(|v4| numbered(inside, v4)),
            external: [true, false].map(|v4| {
                let numbers = (0..).zip(external);
                numbers
                    .filter(|(_, address)| address.is_v4() == v4)
                    .map(|(number, _)| number)
                    .collect()
            }),
            ports,
            size,
        };
        for (inside, external) in blocks.inside.iter().zip(&blocks.external) {
            let hosts = inside
                .last()
                .map_or(0, |(before, prefix)| before.saturating_add(count(prefix)));
            let most = u128::from(per_address) * external.len() as u128;
            // Hosts of a version that is not translated need none.
            if !external.is_empty() && hosts > most {
                return Err(ConfigError::TooManyHosts { hosts, most });
            }
        }
        Ok(blocks)
    }

    fn per_address(&self) -> u32 {
        self.ports.count() / u32::from(self.size)
    }

    /// The block of a host.
    pub fn block(&self, host: Address) -> Option<Block> {
        let version = usize::from(!host.is_v4());
        let (before, prefix) = self.inside[version]
            .iter()
            .find(|(_, prefix)| prefix.includes(host))?;
        let number = u32::try_from(before + (host.0 - prefix.network().0)).ok()?;
        let address = self.external[version].get((number / self.per_address()) as usize)?;
        let first = self.ports.first + (number % self.per_address()) as u16 * self.size;
        Some(Block {
            address: *address,
            first,
            last: first + (self.size - 1),
        })
    }
}

impl Deterministic {
    /// The host whose block an external endpoint is in, at the address with this number.
    pub fn host(&self, address: u32, external: Endpoint) -> Option<Address> {
        let version = usize::from(!external.address.is_v4());
        let place = self.external[version].binary_search(&address).ok()?;
        let port = external.port.checked_sub(self.ports.first)?;
        let number = u128::from(port / self.size);
        if number >= u128::from(self.per_address()) {
            return None;
        }
        let number = place as u128 * u128::from(self.per_address()) + number;
        let inside = self.inside[version].iter().rev();
        let (before, prefix) = inside.copied().find(|(before, _)| *before <= number)?;
        let host = Address(prefix.network().0 + (number - before));
        prefix.includes(host).then_some(host)
    }
}

fn numbered(inside: &[Prefix], v4: bool) -> Vec<(u128, Prefix)> {
    let own = |prefix: &&Prefix| {
        matches!(
            (prefix.versions(), v4),
            (Versions::V4, true) | (Versions::V6, false)
        )
    };
    let mut before: u128 = 0;
    let numbered = inside.iter().filter(own).map(|prefix| {
        let first = before;
        before = before.saturating_add(count(prefix));
        (first, *prefix)
    });
    numbered.collect()
}

/// How many hosts a prefix has.
pub(super) fn count(prefix: &Prefix) -> u128 {
    let bits = match prefix.versions() {
        Versions::V4 => 32,
        _ => 128,
    };
    1u128
        .checked_shl(bits - u32::from(prefix.length()))
        .unwrap_or(u128::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Whose block a port is in is who has that block.
        #[test]
        fn hosts_are_found_from_their_ports(
            size in 1..3000u16, host in 0..512u32, port: u16, address in 0..2u32,
        ) {
            let inside = ["10.0.0.0/24", "10.9.0.0/24"].map(|text| text.parse().expect(text));
            let external = [[192, 0, 2, 1], [192, 0, 2, 7]].map(Address::from_v4);
            let ports = PortsText { first: 1000, last: 60_000 };
            let Ok(blocks) = Deterministic::new(&inside, &external, ports, size) else {
                return Ok(());
            };
            let base = if host < 256 { [10, 0, 0, 0] } else { [10, 9, 0, 0] };
            let host = Address::from_v4([base[0], base[1], 0, host as u8]);
            let own = blocks.block(host).expect("as many blocks as hosts");
            for port in [own.first, own.last] {
                let end = Endpoint::new(external[own.address as usize], port);
                prop_assert_eq!(blocks.host(own.address, end), Some(host));
            }
            let end = Endpoint::new(external[address as usize], port);
            if let Some(other) = blocks.host(address, end) {
                let block = blocks.block(other).expect("a host inside");
                prop_assert_eq!(block.address, address);
                prop_assert!((block.first..=block.last).contains(&port));
            }
        }
    }
}
