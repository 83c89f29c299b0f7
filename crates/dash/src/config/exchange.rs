//! Objects that can only come into force together, as each has what another is to have.

use std::collections::{HashMap, HashSet};

use super::configuration::Configuration;
use super::obstacle::Obstacle;
use super::store::{Store, Waiting};
use crate::objects::*;
use twinpath_core::wire::MacAddress;

/// The objects that have to change together so that one of them may. They are judged by what would be
/// in force then.
pub(super) struct Exchange<'s> {
    store: &'s Store,
    then: Configuration,
    keys: Vec<Key>,
    known: HashSet<Key>,
    /// MAC addresses that ENIs among them are to have.
    macs: HashMap<MacAddress, EniId>,
}

impl<'s> Exchange<'s> {
    /// All that have to change together with an object. Else one of them that may not, with what would
    /// keep it, unless that is one of the others.
    pub fn of(store: &'s Store, first: &Key) -> Result<Vec<Key>, Option<Box<Waiting>>> {
        let mut exchange = Self {
            store,
            then: store.in_force().clone(),
            keys: Vec::new(),
            known: HashSet::new(),
            macs: HashMap::new(),
        };
        exchange.add(store.waiting_for(first).ok_or(None)?);
        let mut judged = 0;
        while let Some(key) = exchange.keys.get(judged) {
            let waiting = store.waiting_for(key).ok_or(None)?;
            exchange.judge(waiting)?;
            judged += 1;
        }
        Ok(exchange.keys)
    }

    /// Judges an object by what would be in force, and adds all that stand in its way and may give way.
    fn judge(&mut self, waiting: &Waiting) -> Result<(), Option<Box<Waiting>>> {
        let obstacles = self.obstacles(&waiting.object);
        if obstacles.iter().any(|it| self.known.contains(&it.by)) {
            return Err(None);
        }
        for obstacle in obstacles {
            match self.store.waiting_for(&obstacle.by) {
                Some(other) if obstacle.is_taken() && other.obstacle.is_taken() => self.add(other),
                _ => {
                    let waiting = waiting.clone();
                    return Err(Some(Box::new(Waiting {
                        obstacle,
                        ..waiting
                    })));
                }
            }
        }
        Ok(())
    }

    fn obstacles(&self, object: &Object) -> Vec<Obstacle> {
        let store = self.store;
        let mut obstacles = Vec::from_iter(store.unusable_reference(object));
        obstacles.extend(store.no_room(object, &self.then));
        obstacles.extend(self.then.conflicts(object, store.in_force()));
        obstacles.extend(self.same_mac(object));
        obstacles
    }

    fn add(&mut self, waiting: &Waiting) {
        let object = &waiting.object;
        let key = object.key();
        if !self.known.insert(key.clone()) {
            return;
        }
        if let Object::Eni(id, eni) = object {
            let macs = self.macs.entry(eni.mac_address);
            macs.or_insert_with(|| id.clone());
        }
        self.then.set(object.clone());
        self.keys.push(key);
    }

    fn same_mac(&self, object: &Object) -> Option<Obstacle> {
        let Object::Eni(id, eni) = object else {
            return None;
        };
        let wanted = self.macs.get(&eni.mac_address).filter(|by| *by != id);
        let keeps = |by: &&EniId| {
            let table = self.then.enis.get(by);
            table.is_some_and(|table| table.eni.mac_address == eni.mac_address)
        };
        let held = || self.store.mac_of_another(id, eni).filter(keeps);
        wanted.or_else(held).map(Obstacle::same_mac)
    }
}
