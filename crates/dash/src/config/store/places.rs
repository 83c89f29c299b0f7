//! What only one object can have, and the objects that wait for it.

use super::super::configuration::Configuration;
use super::super::obstacle::Why;
use super::super::shared_map::SharedMap;
use super::Waiting;
use crate::objects::*;
use twinpath_core::wire::{Address, MacAddress};

/// Something that only one object in force can have.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Place {
    /// An ENI's.
    Mac(MacAddress),
    /// A block of external ports.
    Block(EniNat),
    /// An external address and port, in a pool.
    External(Address, u16),
    /// A port, in a range of a port map.
    Port(PortMapId, u16),
}

/// Those that wait for a place.
#[derive(Clone, Debug)]
struct Queue {
    /// Who has the place, or had it until a moment ago.
    holder: Key,
    waiting: SharedMap<Key, ()>,
}

/// Who waits for which place. All who wait for the same one are kept by the same object, so when
/// another gets the place, none of them has to be tried.
#[derive(Clone, Debug, Default)]
pub(super) struct Places {
    queues: SharedMap<Place, Queue>,
    /// The places for which others wait, by who has them.
    held: SharedMap<Key, SharedMap<Place, ()>>,
}

impl Places {
    /// The place for which an object has to wait; `None` if it is something else that keeps it. Of several
    /// it is one that others wait for already, if there is such a one.
    pub fn wanted(&self, waiting: &Waiting, in_force: &Configuration) -> Option<Place> {
        let by = &waiting.obstacle.by;
        match (&waiting.object, waiting.obstacle.why, by) {
            (Object::Eni(_, eni), Why::MacAddress, _) => Some(Place::Mac(eni.mac_address)),
            (Object::EniNat(_, nat), Why::Block, _) => Some(Place::Block(nat.clone())),
            (Object::PortMapRange(key, _), Why::Ports, Key::PortMapRange(other)) => {
                let ports = common_ports(key.ports, other.ports)?;
                let port = |port| Place::Port(key.map.clone(), port);
                Some(
                    self.known(by, ports, &port)
                        .unwrap_or_else(|| port(middle(ports))),
                )
            }
            (Object::NatPool(_, pool), Why::Ports, Key::NatPool(other)) => {
                let other = in_force.nat_pools.get(other)?;
                let ports = common_ports(pool.ports, other.ports)?;
                let mut common = pool.common_addresses(other).peekable();
                let first = Place::External(*common.peek()?, middle(ports));
                let mut known = common.filter_map(|address| {
                    self.known(by, ports, &|port| Place::External(address, port))
                });
                Some(known.next().unwrap_or(first))
            }
            _ => None,
        }
    }

    /// A place of an object at one of some ports for which others wait.
    fn known(&self, by: &Key, ports: PortRange, at: &dyn Fn(u16) -> Place) -> Option<Place> {
        let held = self.held.get(by)?;
        let (place, ()) = held.iter_from(&at(ports.first())).next()?;
        (*place <= at(ports.last())).then(|| place.clone())
    }

    /// Has an object wait for a place that another has.
    pub fn wait(&mut self, place: &Place, key: Key, holder: &Key) {
        match self.queues.get_mut(place) {
            Some(queue) => _ = queue.waiting.insert(key, ()),
            None => {
                let queue = Queue {
                    holder: holder.clone(),
                    waiting: SharedMap::from_iter([(key, ())]),
                };
                self.queues.insert(place.clone(), queue);
                self.hold(place.clone(), holder);
            }
        }
        self.pass_on(place, holder);
    }

    /// An object waits no more; who had the place.
    pub fn stop(&mut self, place: &Place, key: &Key) -> Option<Key> {
        let queue = self.queues.get_mut(place)?;
        queue.waiting.remove(key);
        let holder = queue.holder.clone();
        if queue.waiting.is_empty() {
            self.queues.remove(place);
            self.let_go(place, &holder);
        }
        Some(holder)
    }

    /// Those who wait for a place are kept by another from now on.
    pub fn pass_on(&mut self, place: &Place, holder: &Key) {
        let Some(queue) = self.queues.get(place) else {
            return;
        };
        if queue.holder == *holder {
            return;
        }
        if let Some(queue) = self.queues.get_mut(place) {
            let old = std::mem::replace(&mut queue.holder, holder.clone());
            self.let_go(place, &old);
            self.hold(place.clone(), holder);
        }
    }

    fn hold(&mut self, place: Place, holder: &Key) {
        match self.held.get_mut(holder) {
            Some(held) => _ = held.insert(place, ()),
            None => {
                let held = SharedMap::from_iter([(place, ())]);
                self.held.insert(holder.clone(), held);
            }
        }
    }

    fn let_go(&mut self, place: &Place, holder: &Key) {
        if let Some(held) = self.held.get_mut(holder) {
            held.remove(place);
            if held.is_empty() {
                self.held.remove(holder);
            }
        }
    }

    /// Who has a place for which others wait.
    pub fn holder(&self, place: &Place) -> Option<&Key> {
        self.queues.get(place).map(|queue| &queue.holder)
    }

    /// The first that waits for a place.
    pub fn first(&self, place: &Place) -> Option<Key> {
        self.queues.get(place)?.waiting.keys().next().cloned()
    }

    /// The places of an object for which others wait.
    pub fn of(&self, holder: &Key) -> Vec<Place> {
        let held = self.held.get(holder).into_iter();
        held.flat_map(SharedMap::keys).cloned().collect()
    }
}

fn common_ports(one: PortRange, other: PortRange) -> Option<PortRange> {
    PortRange::new(one.first().max(other.first()), one.last().min(other.last()))
}

/// What many of the ranges that lie in a range include, too, whatever end they leave out.
const fn middle(ports: PortRange) -> u16 {
    ports.first().midpoint(ports.last())
}
