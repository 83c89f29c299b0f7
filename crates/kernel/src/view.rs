//! What is known of the kernel's links, addresses, routes and neighbours.
//!
//! Everything has the number of the list that it was in last: what is not in a list that was asked
//! for again is gone, whatever the kernel told of it.

mod hops;
mod routes;

pub use hops::{Egress, SetId, Target};

use crate::event::{Event, Link, Neighbor, OwnAddress};
use crate::requests::List;
use hops::Hops;
use routes::Routes;
use std::collections::{BTreeMap, BTreeSet};
use twinpath_classify::Prefix;
use twinpath_core::wire::{Address, MacAddress};

/// Most neighbours that are kept.
pub const MOST_NEIGHBORS: usize = 65_536;

/// Which list something was in last.
pub(crate) type Round = u8;

/// What is asked of a kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interest {
    /// The interfaces that are ports of a node, by port; `None` is a port that has no interface of
    /// the kernel's.
    pub ports: Vec<Option<String>>,
    /// The number of the table of routes.
    pub table: u32,
    /// Most routes of each IP version that are kept.
    pub most_routes: usize,
}

/// What has become of a neighbour at a port.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct NeighborChange {
    /// The port.
    pub port: u16,
    /// Its address.
    pub address: Address,
    /// Its MAC address; `None` if there is no such neighbour (any more).
    pub mac: Option<MacAddress>,
}

/// What is known.
pub struct View {
    interest: Interest,
    links: BTreeMap<u32, (Link, Round)>,
    /// By interface and address, the lengths of their networks.
    addresses: BTreeMap<(u32, Address), (u8, Round)>,
    neighbors: BTreeMap<(u32, Address), (MacAddress, Round)>,
    hops: Hops,
    routes: Routes,
    round: Round,
    has_other_addresses: bool,
    neighbor_changes: Vec<NeighborChange>,
    /// Whether routes may be gone that the kernel does not tell of.
    is_doubtful: bool,
    ignored_neighbors: u64,
}

impl View {
    /// Nothing is known.
    pub fn new(interest: Interest) -> Self {
        Self {
            routes: Routes::new(interest.most_routes),
            interest,
            links: BTreeMap::new(),
            addresses: BTreeMap::new(),
            neighbors: BTreeMap::new(),
            hops: Hops::default(),
            round: 0,
            has_other_addresses: false,
            neighbor_changes: Vec::new(),
            is_doubtful: false,
            ignored_neighbors: 0,
        }
    }

    /// What is to be known.
    pub fn interest(&self) -> &Interest {
        &self.interest
    }

    /// The best route to a prefix that can be used now: whereto it leads.
    pub fn best(&self, prefix: Prefix) -> Option<SetId> {
        let is_usable = |set: SetId| self.is_usable(set);
        self.routes.best(prefix, is_usable)
    }

    /// Where packets go by such a route.
    pub fn target(&self, set: SetId) -> Target {
        let port = |interface| self.port_of(interface).filter(|_| self.is_up(interface));
        self.hops.target(set, &port)
    }

    /// All prefixes that have routes.
    pub fn prefixes(&self) -> impl Iterator<Item = Prefix> + '_ {
        self.routes.prefixes()
    }

    /// How many routes there are.
    pub fn route_count(&self) -> usize {
        self.routes.count()
    }

    /// Routes that there is no room for, as far as is known: how many exactly is known when all has been
    /// asked for again.
    pub fn ignored_routes(&self) -> u64 {
        self.routes.ignored()
    }

    /// Whether there is room again for routes that there was none for: they come if they are asked for.
    pub fn has_room_again(&self) -> bool {
        self.routes.has_room_again()
    }

    /// Neighbours that there was no room for.
    pub fn ignored_neighbors(&self) -> u64 {
        self.ignored_neighbors
    }

    /// How many neighbours there are at ports.
    pub fn neighbor_count(&self) -> usize {
        self.neighbors.len()
    }

    /// The host's own addresses, in their order, each once.
    pub fn own_addresses(&self) -> BTreeSet<Address> {
        let all = self.addresses.keys().map(|(_, address)| *address);
        all.filter(|address| !is_of_host(*address)).collect()
    }

    /// The host's addresses at a port, and how many leading bits their networks have.
    pub fn addresses_at(&self, port: u16) -> impl Iterator<Item = (Address, u8)> + '_ {
        let interface = self.interface_of(port);
        let addresses = self.addresses.iter();
        let there = addresses.filter(move |((index, _), _)| Some(*index) == interface);
        there.map(|((_, address), (bits, _))| (*address, *bits))
    }

    /// The MAC address of a neighbour at a port.
    pub fn neighbor(&self, port: u16, address: Address) -> Option<MacAddress> {
        let interface = self.interface_of(port)?;
        let neighbor = self.neighbors.get(&(interface, address));
        neighbor.map(|(mac, _)| *mac)
    }

    /// All neighbours at ports whose MAC addresses are known.
    pub fn neighbors(&self) -> impl Iterator<Item = NeighborChange> + '_ {
        let known = self.neighbors.iter();
        known.filter_map(|(&(interface, address), &(mac, _))| {
            Some(NeighborChange {
                port: self.port_of(interface)?,
                address,
                mac: Some(mac),
            })
        })
    }

    /// The number of the interface that a port is, if it is there.
    pub fn interface_of(&self, port: u16) -> Option<u32> {
        let name = self.interest.ports.get(usize::from(port))?.as_ref()?;
        let mut links = self.links.values();
        let link = links.find(|(link, _)| link.name == *name);
        link.map(|(link, _)| link.index)
    }

    /// The prefixes whose routes may be others than they were when this was asked last, at most so
    /// many; the rest comes next time.
    pub fn take_changed(&mut self, most: usize) -> Vec<Prefix> {
        self.routes.take_changed(most)
    }

    /// How many prefixes are still to be taken.
    pub fn changed_count(&self) -> usize {
        self.routes.changed_count()
    }

    /// These have not been heard of after all.
    pub fn put_back(&mut self, prefixes: impl IntoIterator<Item = Prefix>) {
        self.routes.put_back(prefixes);
    }

    /// Whether the host's own addresses are others than when this was asked last.
    pub fn take_other_addresses(&mut self) -> bool {
        std::mem::take(&mut self.has_other_addresses)
    }

    /// What has become of neighbours since this was asked last.
    pub fn take_neighbor_changes(&mut self) -> Vec<NeighborChange> {
        std::mem::take(&mut self.neighbor_changes)
    }

    /// Whether routes may have gone without a word since this was asked last.
    pub fn take_doubt(&mut self) -> bool {
        std::mem::take(&mut self.is_doubtful)
    }

    /// Another time all is asked for.
    pub(crate) fn begin_round(&mut self) {
        self.round = self.round.wrapping_add(1);
        self.routes.begin_round();
    }

    /// A list is complete: what was not in it is gone.
    pub(crate) fn end_list(&mut self, list: List) {
        let round = self.round;
        match list {
            List::Links => {
                let old = self.links.values().filter(|(_, seen)| *seen != round);
                let gone: Vec<u32> = old.map(|(link, _)| link.index).collect();
                gone.into_iter().for_each(|index| self.link_gone(index));
            }
            List::Addresses => {
                let before = self.addresses.len();
                self.addresses.retain(|_, (_, seen)| *seen == round);
                self.has_other_addresses |= self.addresses.len() != before;
            }
            List::NextHops => {
                let gone = self.hops.end_round(round);
                self.routes.mark(&gone);
            }
            List::RoutesV4 => self.routes.end_round(true, round, &mut self.hops),
            List::RoutesV6 => self.routes.end_round(false, round, &mut self.hops),
            List::Neighbors => {
                let old = self
                    .neighbors
                    .iter()
                    .filter(|(_, (_, seen))| *seen != round);
                let gone: Vec<_> = old.map(|(key, _)| *key).collect();
                gone.into_iter().for_each(|key| self.neighbor_gone(key));
            }
        }
    }

    /// The kernel tells something.
    pub fn hear(&mut self, event: Event) {
        match event {
            Event::Link(link) => self.link(link),
            Event::LinkGone(index) => self.link_gone(index),
            Event::Address(address) if address.is_valid => self.address(&address),
            Event::Address(address) | Event::AddressGone(address) => self.address_gone(&address),
            Event::Route(route, placement) if route.table == self.interest.table => {
                self.routes
                    .add(&route, placement, self.round, &mut self.hops);
            }
            Event::RouteGone(route) if route.table == self.interest.table => {
                self.routes.remove(&route, &mut self.hops);
            }
            Event::NextHop(object) => {
                let changed = self.hops.set_object(object, self.round);
                self.routes.mark(&changed);
            }
            Event::NextHopGone(id) => {
                let changed = self.hops.remove_object(id);
                // Routes by it are gone, of IPv4 without a word.
                self.is_doubtful |= !changed.is_empty();
                self.routes.mark(&changed);
            }
            Event::Neighbor(neighbor) => self.hear_of_neighbor(&neighbor),
            Event::NeighborGone(Neighbor {
                interface, address, ..
            }) => self.neighbor_gone((interface, address)),
            Event::Route(..) | Event::RouteGone(_) | Event::Done { .. } | Event::Refused { .. } => {
            }
        }
    }

    fn link(&mut self, link: Link) {
        let index = link.index;
        let matters = |link: &Link| (link.is_up, link.name.clone());
        let former = self.links.get(&index).map(|(former, _)| matters(former));
        let is_other = former != Some(matters(&link));
        self.links.insert(index, (link, self.round));
        if is_other {
            self.link_changed(index, former.is_some());
        }
    }

    fn link_gone(&mut self, index: u32) {
        if self.links.remove(&index).is_none() {
            return;
        }
        self.link_changed(index, true);
        let addresses = self.addresses.len();
        self.addresses
            .retain(|(interface, _), _| *interface != index);
        self.has_other_addresses |= self.addresses.len() != addresses;
        // Their port has gone with the link, so nobody is to hear of them.
        self.neighbors
            .retain(|(interface, _), _| *interface != index);
    }

    /// An interface goes up or down, or gets another name. What routes it had may be gone without a
    /// word, and be back.
    fn link_changed(&mut self, index: u32, was_there: bool) {
        let by_it = self.hops.by_interface(index);
        self.routes.mark(&by_it);
        self.is_doubtful |= was_there;
        self.has_other_addresses = true;
    }

    fn address(&mut self, address: &OwnAddress) {
        let key = (address.interface, address.address);
        let value = (address.prefix_bits, self.round);
        let former = self.addresses.insert(key, value);
        let is_same = former.is_some_and(|(bits, _)| bits == address.prefix_bits);
        self.has_other_addresses |= !is_same;
    }

    fn address_gone(&mut self, address: &OwnAddress) {
        let key = (address.interface, address.address);
        if self.addresses.remove(&key).is_some() {
            self.has_other_addresses = true;
            // Routes that prefer it as their source are gone, of IPv4 without a word.
            self.is_doubtful = true;
        }
    }

    fn hear_of_neighbor(&mut self, neighbor: &Neighbor) {
        let key = (neighbor.interface, neighbor.address);
        match neighbor.mac {
            Some(mac) => self.neighbor_is(key, mac),
            None if neighbor.has_failed => {
                // Also one that was never known: somebody may be waiting.
                self.neighbors.remove(&key);
                self.tell_neighbor(key, None);
            }
            // It is being looked for.
            None => {}
        }
    }

    fn neighbor_is(&mut self, key: (u32, Address), mac: MacAddress) {
        if self.port_of(key.0).is_none() {
            return;
        }
        if self.neighbors.len() >= MOST_NEIGHBORS && !self.neighbors.contains_key(&key) {
            self.ignored_neighbors += 1;
            return;
        }
        let former = self.neighbors.insert(key, (mac, self.round));
        // One that was in the list once more has not been confirmed.
        if former.is_none_or(|(known, seen)| known != mac || seen == self.round) {
            self.tell_neighbor(key, Some(mac));
        }
    }

    fn neighbor_gone(&mut self, key: (u32, Address)) {
        if self.neighbors.remove(&key).is_some() {
            self.tell_neighbor(key, None);
        }
    }

    fn tell_neighbor(&mut self, (interface, address): (u32, Address), mac: Option<MacAddress>) {
        if let Some(port) = self.port_of(interface) {
            self.neighbor_changes
                .push(NeighborChange { port, address, mac });
        }
    }

    /// The port that an interface is, whether it is up or not.
    fn port_of(&self, interface: u32) -> Option<u16> {
        let (link, _) = self.links.get(&interface)?;
        let mut ports = self.interest.ports.iter();
        let place = ports.position(|name| name.as_ref() == Some(&link.name));
        place.and_then(|place| u16::try_from(place).ok())
    }

    /// Whether packets could be sent there: an interface is up and its link is there, or none is needed.
    fn is_usable(&self, set: SetId) -> bool {
        self.hops.is_usable(set, &|interface| self.is_up(interface))
    }

    fn is_up(&self, interface: u32) -> bool {
        let link = self.links.get(&interface);
        link.is_some_and(|(link, _)| link.is_up)
    }
}

/// An address that no other host can reach: `127.0.0.0/8`, `::1`.
fn is_of_host(address: Address) -> bool {
    match address.is_v4() {
        true => address.octets4()[0] == 127,
        false => address.0 == 1,
    }
}

#[cfg(test)]
mod tests;
