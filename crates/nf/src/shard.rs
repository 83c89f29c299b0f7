//! A service that is spread over several shards: whole nodes, of which each owns some connections.
//!
//! Functions know nothing of each other's shards. What they give out (external ports) and how much
//! they keep is divided beforehand: a shard's function is built from a configuration that has its part
//! ([`FunctionConfig::of_shard`](crate::descriptor::FunctionConfig::of_shard)). Where a packet is for
//! something that was given out, its [`Owners`] tell to which shard it belongs.

use std::fmt::Debug;
use std::sync::Arc;
use twinpath_core::HashKey;
use twinpath_core::hash::seed_for;
use twinpath_core::wire::{Address, Endpoint};

/// Most shards of a service.
pub const MAX_SHARDS: u16 = 64;

/// One of a service's shards.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Shard {
    /// Which one, from 0.
    pub number: u16,
    /// How many there are; at least 1.
    pub of: u16,
}

impl Shard {
    /// The only one.
    pub const ONLY: Self = Self { number: 0, of: 1 };

    /// All shards of so many.
    pub fn all(of: u16) -> impl Iterator<Item = Self> {
        (0..of).map(move |number| Self { number, of })
    }

    /// Its part of something that is divided evenly, at least 1 of it.
    pub fn share(self, whole: usize) -> usize {
        whole.div_ceil(usize::from(self.of)).max(1)
    }
}

/// Assigns what belongs to hosts to shards, by a keyed hash.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct HostShards {
    key: HashKey,
    of: u16,
}

impl HostShards {
    /// To so many shards of a service with this seed.
    pub fn new(seed: u64, of: u16) -> Self {
        Self {
            key: HashKey::new(seed_for(seed, "shards")),
            of,
        }
    }

    /// How many shards there are.
    pub const fn count(&self) -> u16 {
        self.of
    }

    /// The key of the hash.
    pub const fn key(&self) -> &HashKey {
        &self.key
    }

    /// The shard of a host.
    pub fn of_host(&self, host: Address) -> u16 {
        self.of_hosts(host, host)
    }

    /// The shard of two hosts, in this order.
    pub fn of_hosts(&self, one: Address, other: Address) -> u16 {
        let [high, low] = [(one.0 >> 64) as u64, one.0 as u64];
        let other = (other.0 >> 64) as u64 ^ (other.0 as u64).rotate_left(32);
        self.of_hash(self.key.hash([high, low, other]))
    }

    /// The shard of a hash, all as often.
    pub fn of_hash(&self, hash: u64) -> u16 {
        ((u128::from(hash) * u128::from(self.of)) >> 64) as u16
    }

    /// The shard of an owner.
    pub fn of_owner(&self, owner: Owner) -> u16 {
        match owner {
            Owner::Host(host) => self.of_host(host),
            Owner::Shard(shard) => shard.min(self.of.saturating_sub(1)),
        }
    }
}

/// To whom an external endpoint belongs.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Owner {
    /// To this host inside, wherever its connections are.
    Host(Address),
    /// To whomever the shard with this number gave it.
    Shard(u16),
}

/// Knows to whom external endpoints belong.
pub trait Owners: Debug + Send + Sync {
    /// To whom an external endpoint belongs, with a port of this protocol, or the identifier of an
    /// echo.
    fn owner(&self, external: Endpoint, protocol: u8) -> Owner;
}

/// Which other shards have other external endpoints, as one shard knows it.
#[derive(Clone, Debug)]
pub(crate) struct OtherShards {
    own: u16,
    hosts: HostShards,
    owners: Arc<dyn Owners>,
}

/// Who has what follows from what the shards are made of.
impl PartialEq for OtherShards {
    fn eq(&self, other: &Self) -> bool {
        (self.own, self.hosts) == (other.own, other.hosts)
    }
}

impl OtherShards {
    /// As the shard with this number knows it.
    pub fn new(own: u16, hosts: HostShards, owners: Arc<dyn Owners>) -> Self {
        Self { own, hosts, owners }
    }

    /// The other shard that has an external endpoint of a protocol; `None` if this one does.
    pub fn of(&self, external: Endpoint, protocol: u8) -> Option<u16> {
        let owner = self.owners.owner(external, protocol);
        let shard = self.hosts.of_owner(owner);
        (shard != self.own).then_some(shard)
    }
}

/// A range of ports, both ends included, of which each shard has a part: at its ends lie whole pairs
/// of ports, as long as there are enough.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct Parts {
    first: u16,
    last: u16,
    of: u16,
}

impl Parts {
    /// `None` if there are not two ports for each.
    pub fn new((first, last): (u16, u16), of: u16) -> Option<Self> {
        let parts = Self { first, last, of };
        (first <= last && parts.width() >= 2).then_some(parts)
    }

    /// Ports of each part but the last, which has what remains, too.
    fn width(self) -> u32 {
        let ports = u32::from(self.last - self.first) + 1;
        match ports / u32::from(self.of.max(1)) {
            width @ 0..=1 => width,
            width => width & !1,
        }
    }

    /// A shard's part.
    pub fn of(self, number: u16) -> (u16, u16) {
        let behind = |parts: u16| self.first + (u32::from(parts) * self.width()) as u16;
        let is_last = number + 1 >= self.of;
        (
            behind(number),
            if is_last {
                self.last
            } else {
                behind(number + 1) - 1
            },
        )
    }

    /// Whose part a port is in; `None` if it is in none.
    pub fn owner(self, port: u16) -> Option<u16> {
        if !(self.first..=self.last).contains(&port) {
            return None;
        }
        let part = u32::from(port - self.first) / self.width();
        Some((part as u16).min(self.of - 1))
    }
}

/// There are not two external ports for each shard.
#[derive(Copy, Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("ports: expected at least two for each of {0} shards")]
pub(crate) struct TooFewPorts(pub u16);

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Each port of a range is in the part of its owner, and in no other.
        #[test]
        fn parts_are_the_range(first in 1..=u16::MAX, ports in 0..70_000u32, of in 1..=MAX_SHARDS) {
            let last = (u32::from(first) + ports).min(u32::from(u16::MAX)) as u16;
            let count = u32::from(last - first) + 1;
            let Some(parts) = Parts::new((first, last), of) else {
                prop_assert!(count < 2 * u32::from(of));
                return Ok(());
            };
            let mut next = u32::from(first);
            for number in 0..of {
                let (from, to) = parts.of(number);
                prop_assert_eq!(u32::from(from), next);
                prop_assert!(from < to, "{from}-{to}");
                for port in [from, from + 1, to - 1, to] {
                    prop_assert_eq!(parts.owner(port), Some(number));
                }
                next = u32::from(to) + 1;
            }
            prop_assert_eq!(next, u32::from(last) + 1);
            prop_assert_eq!(parts.owner(first - 1), None);
            prop_assert!(last == u16::MAX || parts.owner(last + 1).is_none());
        }
    }

    #[test]
    fn everybody_has_some_of_what_is_divided() {
        let shares = |whole| Shard::all(4).map(move |shard| shard.share(whole));
        assert!(shares(10).all(|share| share == 3));
        assert!(shares(0).all(|share| share == 1));
        assert_eq!(Shard::ONLY.share(10), 10);
    }
}
