//! Which shard a packet belongs to.
//!
//! Whatever a chain's functions keep of packets is kept by connection, by the host inside that a
//! translation speaks for, by the service that a balancer spreads, or by the key of a store. A packet
//! belongs to the shard that its two hosts tell, or, coarser where a function needs that, one of them:
//!
//! | packet | what tells |
//! |---|---|
//! | request to a key-value store | its key |
//! | from or to a balanced service, or one of its servers | the other end |
//! | from a host inside that is translated, to others | the host |
//! | to an external address | the host inside if that follows from the port, else the shard that gave the port out |
//! | ICMP error | the packet that it quotes |
//! | any other | both hosts |
//!
//! Nothing of it depends on what was seen before, so any queue of any port can tell.

use crate::build_error::BuildError;
use crate::wiring::steering;
use std::collections::HashSet;
use twinpath_control::service::Service;
use twinpath_core::hash::seed_for;
use twinpath_core::key::KeyKind;
use twinpath_core::wire::layout::{Layout, Network};
use twinpath_core::wire::{Address, Endpoint, dissect, fields};
use twinpath_core::{Direction, HashKey, Steering};
use twinpath_nf::shard::{Owner, Owners};
use twinpath_rulecache::Sides;

/// Assigns packets to shards.
pub struct Partition {
    shards: u16,
    steering: Steering,
    hash_key: HashKey,
    /// Addresses of balanced services and their servers.
    services: HashSet<Address>,
    has_store: bool,
    translations: Vec<Translation>,
}

/// A function of the chain that translates addresses.
struct Translation {
    inside: Sides,
    external: Sides,
    owners: Box<dyn Owners>,
}

/// The ends of a packet, or of what it quotes as that would have come from the other side.
struct Ends {
    source: Endpoint,
    destination: Endpoint,
    protocol: u8,
}

impl Partition {
    /// That of a service's packets over so many shards.
    ///
    /// # Errors
    /// A file that a function needs, or too many networks inside.
    pub fn of(service: &Service, shards: u16) -> Result<Self, BuildError> {
        let steering = steering(service)?;
        let aliases = steering.aliases();
        let services = aliases
            .flat_map(|alias| [alias.from.address, alias.stands_for.address])
            .collect();
        let translations = service.chain.iter().filter_map(|instance| {
            let owners = instance.config.owners(shards)?;
            Some((instance.config.translation()?, owners))
        });
        let translations = translations.map(|(translated, owners)| {
            Ok(Translation {
                inside: Sides::new(translated.inside)?,
                external: Sides::new(translated.external)?,
                owners,
            })
        });
        Ok(Self {
            shards,
            hash_key: HashKey::new(seed_for(service.seed, "shards")),
            services,
            translations: translations.collect::<Result<_, BuildError>>()?,
            has_store: !steering.are_connections(),
            steering,
        })
    }

    /// The number of the shard that a frame belongs to; what has no addresses belongs to the first.
    pub fn shard(&self, bytes: &[u8]) -> u16 {
        if self.shards == 1 {
            return 0;
        }
        let Ok(layout) = dissect(bytes) else {
            return 0;
        };
        if self.has_store
            && let Some(shard) = self.shard_of_key(bytes, &layout)
        {
            return shard;
        }
        match ends(bytes, &layout) {
            Some(ends) => self.shard_of(&ends),
            None => 0,
        }
    }

    fn shard_of_key(&self, bytes: &[u8], layout: &Layout) -> Option<u16> {
        let keyed = self.steering.key(bytes, layout)?;
        let is_entry = keyed.key.kind() == KeyKind::Entry;
        is_entry.then(|| self.scaled(keyed.key.hash(&self.hash_key)))
    }

    fn shard_of(&self, ends: &Ends) -> u16 {
        let (from, to) = (ends.source.address, ends.destination.address);
        match [from, to].map(|address| self.services.contains(&address)) {
            [false, true] => return self.of_host(from),
            [true, false] => return self.of_host(to),
            _ => {}
        }
        for Translation {
            inside,
            external,
            owners,
        } in &self.translations
        {
            match [from, to].map(|address| is_of(inside, address)) {
                [true, false] => return self.of_host(from),
                [false, true] => return self.of_host(to),
                _ => {}
            }
            if is_of(external, to) {
                return match owners.owner(ends.destination, ends.protocol) {
                    Owner::Host(host) => self.of_host(host),
                    Owner::Shard(shard) => shard.min(self.shards - 1),
                };
            }
        }
        self.scaled(self.hash(from.min(to), from.max(to)))
    }

    fn of_host(&self, host: Address) -> u16 {
        self.scaled(self.hash(host, host))
    }

    fn hash(&self, one: Address, other: Address) -> u64 {
        let [high, low] = [(one.0 >> 64) as u64, one.0 as u64];
        let other = (other.0 >> 64) as u64 ^ (other.0 as u64).rotate_left(32);
        self.hash_key.hash([high, low, other])
    }

    /// A shard by the hash, all as often.
    fn scaled(&self, hash: u64) -> u16 {
        ((u128::from(hash) * u128::from(self.shards)) >> 64) as u16
    }
}

fn is_of(sides: &Sides, address: Address) -> bool {
    sides.direction(address, 0) == Direction::Original
}

fn ends(bytes: &[u8], layout: &Layout) -> Option<Ends> {
    if layout.network == Network::None {
        return None;
    }
    if let Some(inner) = &layout.inner
        && let (Some(source), Some(destination)) = (
            fields::inner_source(bytes, layout),
            fields::inner_destination(bytes, layout),
        )
    {
        return Some(Ends {
            source: destination,
            destination: source,
            protocol: inner.protocol,
        });
    }
    Some(Ends {
        source: fields::source(bytes, layout),
        destination: fields::destination(bytes, layout),
        protocol: layout.protocol,
    })
}
