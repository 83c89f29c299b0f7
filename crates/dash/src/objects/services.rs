//! Load balancers and NAT gateways of ENIs. They are among DASH's services, and SONiC has no tables
//! for them: these are Twinpath's own, written as SONiC writes its.

use std::cmp::Ordering;
use std::fmt;

use twinpath_core::wire::{Address, Endpoint, protocol};

use super::names::{NatPoolId, VnetName};
use super::values::PortRange;

/// Most backends of a balanced service.
pub const MAX_BACKENDS: usize = 256;

/// A protocol with ports.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PortProtocol {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
}

impl PortProtocol {
    /// Its number in IP headers.
    #[must_use]
    pub const fn number(self) -> u8 {
        match self {
            Self::Tcp => protocol::TCP,
            Self::Udp => protocol::UDP,
        }
    }
}

impl fmt::Display for PortProtocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
        })
    }
}

/// An address of a virtual network behind which others stand, for a protocol and a port.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LoadBalancerKey {
    /// The network.
    pub vnet: VnetName,
    /// The address that its machines send to.
    pub vip: Address,
    /// The protocol.
    pub protocol: PortProtocol,
    /// The port.
    pub port: u16,
}

/// With the port last: what is between is an address, whatever colons it has.
impl fmt::Display for LoadBalancerKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            vnet,
            vip,
            protocol,
            port,
        } = self;
        write!(f, "{vnet}:{vip}:{protocol}:{port}")
    }
}

/// Who stands behind such an address: each connection goes to one of them, for good.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadBalancer {
    /// Addresses of the same network, mapped as any other, with their ports.
    pub backends: Box<[Endpoint]>,
}

/// External addresses and ports, in blocks of which an ENI has one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NatPool {
    /// The addresses, all of one IP version, in their order as numbers, none twice.
    pub addresses: Box<[Address]>,
    /// The ports of each.
    pub ports: PortRange,
    /// How many ports a block has. What is left at the end of an address's ports is nobody's.
    pub block_size: u16,
}

impl NatPool {
    const fn blocks_of_address(&self) -> u32 {
        let ports = self.ports.last() as u32 - self.ports.first() as u32 + 1;
        match self.block_size {
            0 => 0,
            size => ports / size as u32,
        }
    }

    /// How many blocks there are.
    #[must_use]
    pub fn blocks(&self) -> u64 {
        u64::from(self.blocks_of_address()) * self.addresses.len() as u64
    }

    /// A block by its number: those of the first address come first.
    #[must_use]
    pub fn block(&self, number: u32) -> Option<(Address, PortRange)> {
        let each = self.blocks_of_address();
        let address = self.addresses.get(number.checked_div(each)? as usize)?;
        let first = u32::from(self.ports.first()) + number % each * u32::from(self.block_size);
        let last = first + u32::from(self.block_size) - 1;
        let ports = PortRange::new(u16::try_from(first).ok()?, u16::try_from(last).ok()?)?;
        Some((*address, ports))
    }

    /// Whether two pools have an endpoint in common.
    #[must_use]
    pub fn overlaps(&self, other: &Self) -> bool {
        self.ports.first() <= other.ports.last()
            && other.ports.first() <= self.ports.last()
            && self.common_addresses(other).next().is_some()
    }

    /// The addresses that two pools have in common.
    pub fn common_addresses(&self, other: &Self) -> impl Iterator<Item = Address> {
        in_both(&self.addresses, &other.addresses)
    }

    /// Whether an external endpoint is one of the pool's.
    #[must_use]
    pub fn includes(&self, address: Address, port: u16) -> bool {
        let ports = self.ports.first()..=self.ports.last();
        ports.contains(&port) && self.addresses.binary_search(&address).is_ok()
    }
}

/// The addresses that are in both lists, each of which is in order.
fn in_both(mut one: &[Address], mut other: &[Address]) -> impl Iterator<Item = Address> {
    std::iter::from_fn(move || {
        while let (Some(first), Some(second)) = (one.first(), other.first()) {
            match first.cmp(second) {
                Ordering::Equal => {
                    one = &one[1..];
                    return Some(*first);
                }
                Ordering::Less => one = &one[one.partition_point(|it| it < second)..],
                Ordering::Greater => other = &other[other.partition_point(|it| it < first)..],
            }
        }
        None
    })
}

/// Behind which endpoints an ENI's machine hides where its packets leave by direct routes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct EniNat {
    /// The pool.
    pub pool: NatPoolId,
    /// Which of its blocks; no other ENI has it.
    pub block: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_disjoint_and_within_the_pool() {
        let pool = NatPool {
            addresses: [1, 2]
                .map(|host| Address::from_v4([203, 0, 113, host]))
                .into(),
            ports: PortRange::new(1000, 1099).unwrap(),
            block_size: 30,
        };
        assert_eq!(pool.blocks(), 6);
        let mut seen = std::collections::BTreeSet::new();
        for number in 0..6 {
            let (address, ports) = pool.block(number).unwrap();
            for port in ports.first()..=ports.last() {
                assert!((1000..=1089).contains(&port));
                assert!(seen.insert((address, port)), "{address}:{port} twice");
            }
        }
        assert_eq!(seen.len(), 6 * 30);
        assert_eq!(pool.block(6), None);
        assert_eq!(pool.block(u32::MAX), None);
    }

    #[test]
    fn pools_overlap_by_endpoints() {
        let pool = |host, first, last| NatPool {
            addresses: [Address::from_v4([203, 0, 113, host])].into(),
            ports: PortRange::new(first, last).unwrap(),
            block_size: 1,
        };
        assert!(pool(1, 10, 20).overlaps(&pool(1, 20, 30)));
        assert!(!pool(1, 10, 20).overlaps(&pool(1, 21, 30)));
        assert!(!pool(1, 10, 20).overlaps(&pool(2, 10, 20)));
        let hosts = |hosts: &[u8]| -> Vec<_> {
            let hosts = hosts.iter();
            hosts
                .map(|&host| Address::from_v4([203, 0, 113, host]))
                .collect()
        };
        for (one, other, expected) in [
            (&[1, 3, 5, 7][..], &[0, 2, 4, 6, 8][..], &[][..]),
            (&[1, 3, 5, 7], &[0, 3, 7], &[3, 7]),
            (&[1, 3, 5, 7], &[1], &[1]),
            (&[1], &[2, 3], &[]),
            (&[], &[1], &[]),
        ] {
            let [one, other, expected] = [one, other, expected].map(hosts);
            assert_eq!(in_both(&one, &other).collect::<Vec<_>>(), expected);
            assert_eq!(in_both(&other, &one).collect::<Vec<_>>(), expected);
        }
    }
}
