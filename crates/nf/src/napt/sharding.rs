//! A translation that is spread over shards: each has a part of the ports to give out, hosts have
//! their forwards and blocks in whichever shard they are.

use super::config::{Config, Deterministic, Forwards, LOW, PortsText};
use super::function::translatable::kind_of;
use crate::shard::{HostShards, OtherShards, Owner, Owners, Parts, Shard};
use std::collections::HashMap;
use std::sync::Arc;
use twinpath_core::Share;
use twinpath_core::wire::{Address, Endpoint};

impl Config {
    /// What a shard has of this, where hosts belong to these shards; `None` if there are too few ports for
    /// so many.
    pub(crate) fn of_shard(&self, shard: Shard, hosts: HostShards) -> Option<Self> {
        let mut own = self.clone();
        own.sessions = shard.share(self.sessions);
        let owners = || Arc::new(self.owners(shard.of));
        own.other_shards = (shard.of > 1).then(|| OtherShards::new(shard.number, hosts, owners()));
        own.identifications = Share::of_slow_path(shard.number, shard.of);
        if self.deterministic.is_none() {
            let PartedPorts { low, ports } = PartedPorts::new(self.ports, shard.of)?;
            let (first, last) = ports.of(shard.number);
            (own.ports.first, own.ports.last) = (first, last);
            if let Some(blocks) = &mut own.dynamic {
                blocks.ports = own.ports;
                if own.ports.count() < u32::from(blocks.size) {
                    return None;
                }
            }
            own.low_ports = match low {
                Some(low) => low.of(shard.number),
                None if first <= LOW.1 => (first, last.min(LOW.1)),
                None => (first, last),
            };
        }
        Some(own)
    }

    /// Who has which external endpoints of a translation that is spread over so many shards.
    pub(crate) fn owners(&self, of: u16) -> ExternalOwners {
        let numbers = self.external.iter().copied().zip(0..);
        ExternalOwners {
            forwards: self.forwards.clone(),
            parts: PartedPorts::new(self.ports, of),
            blocks: self
                .deterministic
                .clone()
                .map(|blocks| (blocks, numbers.collect())),
        }
    }
}

/// The ports that shards give out.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
struct PartedPorts {
    /// Those below 1024 for ports below 1024 inside; none of their own where `ports` has such ones.
    low: Option<Parts>,
    ports: Parts,
}

impl PartedPorts {
    fn new(ports: PortsText, of: u16) -> Option<Self> {
        let has_low = ports.first <= LOW.1;
        let low = (!has_low).then(|| Parts::new(LOW, of));
        Some(Self {
            low: low.map_or(Some(None), |low| low.map(Some))?,
            ports: Parts::new((ports.first, ports.last), of)?,
        })
    }

    fn owner(&self, port: u16) -> Option<u16> {
        let low = || self.low.and_then(|low| low.owner(port));
        self.ports.owner(port).or_else(low)
    }
}

/// Who has which external endpoints.
#[derive(Debug, PartialEq)]
pub(crate) struct ExternalOwners {
    forwards: Forwards,
    parts: Option<PartedPorts>,
    /// Where ports follow from the host, with the numbers of external addresses.
    blocks: Option<(Deterministic, HashMap<Address, u32>)>,
}

impl Owners for ExternalOwners {
    fn owner(&self, external: Endpoint, protocol: u8) -> Owner {
        let forwarded = kind_of(protocol)
            .and_then(|kind| self.forwards.internal(external, kind))
            .map(|internal| internal.address)
            .or_else(|| self.forwards.host(external.address));
        if let Some(host) = forwarded.or_else(|| self.host_of_block(external)) {
            return Owner::Host(host);
        }
        let part = self.parts.and_then(|parts| parts.owner(external.port));
        Owner::Shard(part.unwrap_or(0))
    }
}

impl ExternalOwners {
    fn host_of_block(&self, external: Endpoint) -> Option<Address> {
        let (blocks, numbers) = self.blocks.as_ref()?;
        let number = *numbers.get(&external.address)?;
        blocks.host(number, external)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::napt::Napt;
    use std::collections::HashSet;

    /// Hosts in two shards that share an address have none in common, on either path.
    #[test]
    fn no_two_shards_draw_the_same_identification() {
        let text = "inside = ['10.0.0.0/8']\nexternal = ['192.0.2.1']";
        let config: Config = toml::from_str(text).expect("valid");
        let [source, destination] = [1, 2].map(|host| Address(0xffff_c000_0200 | host));
        let mut drawn = HashSet::new();
        for shard in Shard::all(4) {
            let hosts = HostShards::new(7, shard.of);
            let own = config.of_shard(shard, hosts).expect("enough ports");
            let on_fast_path = Share::of_fast_path(shard.number, shard.of);
            let mut fast_path = twinpath_core::Identifications::new(on_fast_path, 7);
            let mut slow_path = Napt::new(&own, 7).identifications;
            for numbers in [&mut fast_path, &mut slow_path] {
                for _ in 0..8192 {
                    assert!(drawn.insert(numbers.draw(source, destination, 17)));
                }
            }
        }
        assert_eq!(drawn.len(), 1 << 16);
    }
}
