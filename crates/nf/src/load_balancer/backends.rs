//! Services, their backends, and the choice between them at a given time.

use super::config::{Config, Service};
use super::connection::Kind;
use super::maglev::{Candidate, Maglev};
use crate::seeded::{Seed, SeededMap};
use std::collections::{HashMap, HashSet};
use twinpath_core::steering::Alias;
use twinpath_core::{FlowKey, HashKey, Instant};
use twinpath_wire::{Address, Endpoint, MacAddress};

/// One row of the backend table.
pub(super) struct Backend {
    pub endpoint: Endpoint,
    pub mac: MacAddress,
    /// The service that it serves.
    pub service: ServiceIndex,
    until: Instant,
    counter: &'static str,
    new_connections: u64,
}

/// A service's place among all services.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct ServiceIndex(u16);

struct BalancedService {
    vip: Endpoint,
    kind: Kind,
    /// Lookup tables with the time since the start from which each is used, the earliest first.
    tables: Vec<(Instant, Maglev)>,
}

/// All services with all their backends.
pub(super) struct Backends {
    rows: Vec<Backend>,
    services: Vec<BalancedService>,
    by_vip: SeededMap<(Endpoint, u8), ServiceIndex>,
    addresses: HashSet<(Address, u8)>,
    seed: u64,
    hash_key: HashKey,
    started: Instant,
}

impl Backends {
    /// Fills every lookup table.
    pub fn new(config: &Config, seed: u64) -> Self {
        let mut backends = Self {
            rows: Vec::new(),
            services: Vec::new(),
            by_vip: SeededMap::with_hasher(Seed::new(seed)),
            addresses: HashSet::new(),
            seed,
            hash_key: HashKey::new(seed),
            started: Instant::ZERO,
        };
        for service in &config.services {
            backends.add(service, config.table_size.0);
        }
        backends
    }

    fn add(&mut self, service: &Service, table_size: u32) {
        let Service {
            vip,
            protocol,
            return_path,
            ..
        } = *service;
        let index = ServiceIndex(self.services.len() as u16);
        let first_row = self.rows.len();
        let table = |members: &[super::schedule::Member]| {
            let candidates: Vec<_> = members
                .iter()
                .map(|member| Candidate {
                    row: (first_row + member.backend) as u16,
                    endpoint: service.backends[member.backend].endpoint,
                    weight: member.weight,
                })
                .collect();
            Maglev::new(table_size, self.seed, &candidates)
        };
        let tables = service
            .epochs
            .iter()
            .map(|epoch| (epoch.from, table(&epoch.members)))
            .collect();
        self.services.push(BalancedService {
            vip,
            kind: Kind::Service(protocol, return_path),
            tables,
        });
        self.by_vip.insert((vip, protocol.number()), index);
        self.addresses.insert((vip.address, protocol.number()));
        self.rows
            .extend(service.backends.iter().map(|backend| Backend {
                endpoint: backend.endpoint,
                mac: backend.mac,
                service: index,
                until: backend.until,
                counter: backend.counter,
                new_connections: 0,
            }));
    }

    /// Every row, in order.
    pub fn rows(&self) -> &[Backend] {
        &self.rows
    }

    /// The endpoints and protocols of all services.
    pub fn vips(&self) -> impl Iterator<Item = (Endpoint, u8)> {
        self.by_vip.keys().copied()
    }

    /// Times of the schedule count from here.
    pub fn start(&mut self, now: Instant) {
        self.started = now;
    }

    /// Goes on where another configuration stops: with its start of the run, and its counts of
    /// the backends that both have.
    pub fn go_on_from(&mut self, former: &Self) {
        self.started = former.started;
        let counted = former.rows.iter();
        let counted: HashMap<_, _> = counted
            .map(|backend| (backend.counter, backend.new_connections))
            .collect();
        for backend in &mut self.rows {
            backend.new_connections = counted.get(backend.counter).copied().unwrap_or(0);
        }
    }

    /// The service at an endpoint.
    pub fn service_at(&self, endpoint: Endpoint, protocol: u8) -> Option<ServiceIndex> {
        self.by_vip.get(&(endpoint, protocol)).copied()
    }

    /// Whether some service has this address.
    pub fn is_service_address(&self, address: Address, protocol: u8) -> bool {
        self.addresses.contains(&(address, protocol))
    }

    /// A service's endpoint.
    pub fn vip(&self, service: ServiceIndex) -> Endpoint {
        self.services[usize::from(service.0)].vip
    }

    /// What connections to a service are.
    pub fn kind(&self, service: ServiceIndex) -> Kind {
        self.services[usize::from(service.0)].kind
    }

    /// The backend for a new connection, if there is one at this time.
    pub fn choose(&self, service: ServiceIndex, key: &FlowKey, now: Instant) -> Option<u16> {
        let tables = &self.services[usize::from(service.0)].tables;
        let elapsed = self.elapsed(now);
        let (_, table) = tables.iter().rev().find(|(from, _)| *from <= elapsed)?;
        table.choose(key.hash(&self.hash_key))
    }

    /// The backend in a row, if it is not gone at this time.
    pub fn present(&self, row: u16, now: Instant) -> Option<&Backend> {
        self.row(row)
            .filter(|backend| self.elapsed(now) < backend.until)
    }

    /// The backend in a row, even one that is gone.
    pub fn row(&self, row: u16) -> Option<&Backend> {
        self.rows.get(usize::from(row))
    }

    fn elapsed(&self, now: Instant) -> Instant {
        Instant(now.0.saturating_sub(self.started.0))
    }

    /// Counts a new connection of a backend.
    pub fn count_connection(&mut self, row: u16) {
        if let Some(backend) = self.rows.get_mut(usize::from(row)) {
            backend.new_connections += 1;
        }
    }

    /// Calls `each` with every backend's counter.
    pub fn counters(&self, each: &mut dyn FnMut(&'static str, u64)) {
        self.rows
            .iter()
            .for_each(|backend| each(backend.counter, backend.new_connections));
    }

    /// The backends whose packets come back through Twinpath.
    pub fn aliases(&self) -> Vec<Alias> {
        let alias = |(backend, row): (&Backend, u32)| match self.kind(backend.service) {
            Kind::Service(protocol, super::config::ReturnPath::Through) => Some(Alias {
                from: backend.endpoint,
                protocol: protocol.number(),
                stands_for: self.vip(backend.service),
                row,
            }),
            _ => None,
        };
        self.rows.iter().zip(0..).filter_map(alias).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whoever knows the seed finds clients that all get one backend; under another seed, of which
    /// nobody outside knows, the same clients are spread as any others are.
    #[test]
    fn clients_chosen_for_one_backend_spread_under_another_seed() {
        const BACKENDS: usize = 10;
        let mut text =
            "[[services]]\nvip = \"203.0.113.1:443\"\nprotocol = \"tcp\"\nbackends = [\n"
                .to_owned();
        for number in 1..=BACKENDS {
            text += &format!("{{ endpoint = \"10.1.0.{number}:8080\" }},\n");
        }
        let config: Config = toml::from_str(&(text + "]\n")).expect("sound");
        let service = ServiceIndex(0);
        let row = |backends: &Backends, client: u32| {
            let [_, high, low, last] = client.to_be_bytes();
            let client = Endpoint::v4([10, high, low, last], 4000);
            let (key, _) = FlowKey::connection(client, backends.vip(service), 6);
            let row = backends.choose(service, &key, Instant::ZERO);
            usize::from(row.expect("there are backends"))
        };
        let known = Backends::new(&config, 0);
        let chosen: Vec<u32> = (0..100_000)
            .filter(|&client| row(&known, client) == 4)
            .collect();
        assert!(chosen.len() > 9_000, "{}", chosen.len());
        for seed in [1, 2, u64::MAX] {
            let other = Backends::new(&config, seed);
            let mut load = [0usize; BACKENDS];
            for &client in &chosen {
                load[row(&other, client)] += 1;
            }
            let mean = chosen.len() / BACKENDS;
            let is_even = |&count: &usize| count.abs_diff(mean) < mean / 5;
            assert!(
                load.iter().all(is_even),
                "seed {seed}: {load:?} of {mean} each"
            );
        }
    }
}
