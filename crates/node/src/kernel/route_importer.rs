//! What the kernel says, in the words of a router's configuration.
//!
//! Next hops are named by what they are: a neighbour's address and its port. So the same
//! name is always the same next hop, and what differs between two states is found by names.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use twinpath_classify::Prefix;
use twinpath_control::service::Service;
use twinpath_core::adjacency::{Adjacencies, Adjacency};
use twinpath_core::wire::Address;
use twinpath_kernel::{Egress, SetId, Target, View};
use twinpath_nf::router::{
    self, KernelRoutes, Learned, Learning, NextHop, NextHopGroup, Reached, is_routable,
};

/// Most groups of next hops.
const MOST_GROUPS: usize = 4096;

/// Imports the kernel's routes.
pub struct RouteImporter {
    /// The place of the router in the chain.
    place: usize,
    ports: Vec<String>,
    adjacencies: Adjacencies,
    routes: KernelRoutes,
    /// What routes lead to, with how many do.
    hops: BTreeMap<Arc<str>, (NextHop, usize)>,
    groups: BTreeMap<Arc<str>, (NextHopGroup, usize)>,
    /// Routes by interfaces that are no ports.
    elsewhere: usize,
    /// Routes whose next hops are too many.
    without_room: u64,
}

/// What came of an import.
#[derive(Debug)]
pub struct ImportedRoutes {
    /// The service with what is known now.
    pub service: Service,
    /// How many routes are others.
    pub changed: usize,
}

impl RouteImporter {
    /// Nothing is known yet of what the router of a service is to know; `None` if it is not the
    /// kernel's routes.
    pub fn new(service: &Service) -> Option<Self> {
        let mut places = (0..).zip(&service.chain);
        let is_it = |config: &router::Config| config.kernel_table().is_some();
        let (place, _) = places.find(|(_, one)| one.config.of().is_some_and(is_it))?;
        Some(Self {
            place,
            ports: service.ports.clone(),
            adjacencies: service.adjacencies.clone(),
            routes: KernelRoutes::default(),
            hops: BTreeMap::new(),
            groups: BTreeMap::new(),
            elsewhere: 0,
            without_room: 0,
        })
    }

    /// The service with what is known of these prefixes, and of addresses.
    pub fn import(
        &mut self,
        service: &Service,
        view: &View,
        prefixes: Vec<Prefix>,
    ) -> ImportedRoutes {
        let mut known = HashMap::new();
        let mut changes = Vec::new();
        for prefix in prefixes.into_iter().filter(|prefix| is_routable(*prefix)) {
            let best = view.best(prefix);
            let learned = best.map(|set| self.learned(set, view, &mut known));
            let former = self.routes.route(prefix);
            if learned != former {
                self.count(learned.as_ref(), former.as_ref());
                changes.push((prefix, learned));
            }
        }
        let changed = changes.len();
        if changed > 0 {
            self.routes = self.routes.with(changes);
        }
        self.forget_unused();
        ImportedRoutes {
            service: self.service(service, view),
            changed,
        }
    }

    /// How many routes, next hops, groups and routes that lead elsewhere there are.
    pub fn counts(&self) -> [u64; 4] {
        let (routes, hops) = (self.routes.count(), self.hops.len());
        [routes, hops, self.groups.len(), self.elsewhere].map(|count| count as u64)
    }

    /// Routes whose next hops were too many.
    pub fn without_room(&self) -> u64 {
        self.without_room
    }

    /// What a place that routes lead to is called.
    fn learned(&mut self, set: SetId, view: &View, known: &mut HashMap<SetId, Learned>) -> Learned {
        if let Some(learned) = known.get(&set) {
            return learned.clone();
        }
        let learned = match view.target(set) {
            Target::Ports(ways) => self.via(ways),
            Target::Elsewhere => Learned::Via(ELSEWHERE.into()),
            Target::Discard => Learned::Discard,
            Target::Unreachable => Learned::Unreachable,
            Target::Prohibited => Learned::Prohibited,
            Target::NoRoute => Learned::NoRoute,
        };
        known.insert(set, learned.clone());
        learned
    }

    fn via(&mut self, mut ways: Vec<Egress>) -> Learned {
        // In which order the kernel tells them makes no difference.
        ways.sort_unstable();
        ways.dedup();
        let names: Option<Vec<Arc<str>>> = ways.iter().map(|way| self.hop(*way)).collect();
        let Some(names) = names else {
            self.without_room += 1;
            return Learned::Unreachable;
        };
        match names.as_slice() {
            [] => Learned::Unreachable,
            [only] => Learned::Via(Arc::clone(only)),
            several => self.group(several, &ways),
        }
    }

    /// The name of a next hop, which is known from now on.
    fn hop(&mut self, way: Egress) -> Option<Arc<str>> {
        let Egress { port, gateway, .. } = way;
        let name: Arc<str> = self.name(port, gateway).into();
        if !self.hops.contains_key(&name) {
            if self.hops.len() >= router::MAX_NEXT_HOPS {
                return None;
            }
            let egress = self.adjacencies.egress(Adjacency { port, gateway })?;
            let hop = NextHop {
                name: name.to_string(),
                port,
                reached: Reached::ByAddress { gateway, egress },
            };
            self.hops.insert(Arc::clone(&name), (hop, 0));
        }
        Some(name)
    }

    fn name(&self, port: u16, gateway: Option<Address>) -> String {
        let port = self.ports.get(usize::from(port));
        let port = port.map_or("?", String::as_str);
        match gateway {
            Some(gateway) => format!("{gateway} at {port}"),
            None => port.to_owned(),
        }
    }

    fn group(&mut self, names: &[Arc<str>], ways: &[Egress]) -> Learned {
        let shares = names.iter().zip(ways).map(|(name, way)| match way.weight {
            1 => name.to_string(),
            weight => format!("{name} ({weight})"),
        });
        let name: Arc<str> = shares.collect::<Vec<_>>().join(" and ").into();
        if !self.groups.contains_key(&name) {
            if self.groups.len() >= MOST_GROUPS {
                self.without_room += 1;
                return Learned::Via(Arc::clone(&names[0]));
            }
            let members = names.iter().zip(ways);
            let members = members.map(|(name, way)| (name.to_string(), way.weight));
            let group = NextHopGroup {
                name: name.to_string(),
                members: members.collect(),
            };
            self.groups.insert(Arc::clone(&name), (group, 0));
        }
        Learned::Via(name)
    }

    /// A route leads elsewhere than before.
    fn count(&mut self, now: Option<&Learned>, before: Option<&Learned>) {
        if let Some(Learned::Via(name)) = now {
            if let Some(uses) = self.uses(name) {
                *uses += 1;
            }
            self.elsewhere += usize::from(**name == *ELSEWHERE);
        }
        if let Some(Learned::Via(name)) = before {
            if let Some(uses) = self.uses(name) {
                *uses = uses.saturating_sub(1);
            }
            self.elsewhere -= usize::from(**name == *ELSEWHERE);
        }
    }

    fn uses(&mut self, name: &str) -> Option<&mut usize> {
        match self.groups.get_mut(name) {
            Some((_, uses)) => Some(uses),
            None => self.hops.get_mut(name).map(|(_, uses)| uses),
        }
    }

    /// What no route leads to any more is gone: groups, and then next hops that are in no group.
    fn forget_unused(&mut self) {
        self.groups.retain(|_, (_, uses)| *uses > 0);
        let groups = self.groups.values();
        let members = groups.flat_map(|(group, _)| group.members.iter().map(|(name, _)| &**name));
        let members: std::collections::HashSet<&str> = members.collect();
        self.hops
            .retain(|name, (_, uses)| *uses > 0 || members.contains(&**name));
    }

    fn service(&self, service: &Service, view: &View) -> Service {
        let mut service = service.clone();
        let Some(instance) = service.chain.get_mut(self.place) else {
            return service;
        };
        if let Some(config) = instance.config.of::<router::Config>() {
            instance.config = Arc::new(config.learning(self.learning(view)));
        }
        service
    }

    fn learning(&self, view: &View) -> Learning {
        let own = view.own_addresses();
        let ports = 0..self.ports.len() as u16;
        let at_ports: Vec<_> = ports.flat_map(|port| view.addresses_at(port)).collect();
        let is_global = |address: &Address| !is_of_link(*address);
        let error_address = |is_v4: bool| {
            let mut at_ports = at_ports.iter().map(|(address, _)| *address);
            let at_port = at_ports.find(|one| one.is_v4() == is_v4 && is_global(one));
            let mut any = own.iter().copied();
            at_port.or_else(|| any.find(|one| one.is_v4() == is_v4 && is_global(one)))
        };
        let network = |(address, bits): &(Address, u8)| Prefix::covering(*address, *bits);
        Learning {
            next_hops: self.hops.values().map(|(hop, _)| hop.clone()).collect(),
            groups: self
                .groups
                .values()
                .map(|(group, _)| group.clone())
                .collect(),
            error_addresses: [error_address(true), error_address(false)],
            networks: at_ports
                .iter()
                .filter(|(address, _)| is_global(address))
                .map(network)
                .collect(),
            addresses: own.into_iter().collect(),
            routes: self.routes.clone(),
        }
    }
}

/// What routes lead to by interfaces that are no ports: no next hop is called so, so that
/// their packets are dropped.
const ELSEWHERE: &str = "an interface that is no port";

/// An address that every link has for itself: `fe80::/10`, `169.254.0.0/16`.
fn is_of_link(address: Address) -> bool {
    match address.is_v4() {
        true => matches!(address.octets4(), [169, 254, ..]),
        false => address.word(0) >> 22 == 0xfe80 >> 6,
    }
}

#[cfg(test)]
mod tests;
