//! Objects that can only come into force together, as each has what another is to have.

use std::collections::{HashMap, HashSet};

use super::super::configuration::Configuration;
use super::super::obstacle::Obstacle;
use super::{Store, Waiting};
use crate::objects::*;
use twinpath_core::wire::MacAddress;

/// Why objects may not change together.
pub(super) struct Blocked {
    /// One of them, with what would keep it; none if that is another of them.
    pub waiting: Option<Waiting>,
    /// With which object it is to be tried again.
    pub until: Option<Key>,
}

impl Blocked {
    /// Nothing helps but other objects in place of these.
    const FOR_GOOD: Self = Self {
        waiting: None,
        until: None,
    };
}

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
    /// All that have to change together with an object.
    pub fn of(store: &'s Store, first: &Key) -> Result<Vec<Key>, Box<Blocked>> {
        let mut exchange = Self {
            store,
            then: store.in_force().clone(),
            keys: Vec::new(),
            known: HashSet::new(),
            macs: HashMap::new(),
        };
        exchange.add(store.waiting_for(first).ok_or(Blocked::FOR_GOOD)?);
        let mut judged = 0;
        while let Some(key) = exchange.keys.get(judged) {
            let waiting = store.waiting_for(key).ok_or(Blocked::FOR_GOOD)?;
            exchange.judge(waiting)?;
            judged += 1;
        }
        Ok(exchange.keys)
    }

    /// Judges an object by what would be in force, and adds all that stand in its way and may give way.
    fn judge(&mut self, waiting: &Waiting) -> Result<(), Box<Blocked>> {
        for obstacle in self.obstacles(&waiting.object) {
            if let Some(others) = self.giving_way(waiting, &obstacle) {
                others.into_iter().for_each(|other| self.add(other));
                continue;
            }
            return Err(Box::new(self.blocked(waiting, obstacle)));
        }
        Ok(())
    }

    fn blocked(&self, kept: &Waiting, obstacle: Obstacle) -> Blocked {
        if !self.known.contains(&obstacle.by) {
            let until = Some(kept.object.key());
            let kept = kept.clone();
            let waiting = Some(Waiting { obstacle, ..kept });
            return Blocked { waiting, until };
        }
        // A rule among them is to have a tag that stays as it is.
        let tags = match &obstacle.by {
            Key::AclRule(rule) => self.then.tags_in_the_way(rule).unwrap_or_default(),
            _ => Vec::new(),
        };
        let mut tags = tags.into_iter();
        Blocked {
            until: tags.find(|tag| self.not_yet(tag).is_none()),
            ..Blocked::FOR_GOOD
        }
    }

    /// What has to change, too, so that an obstacle is none; `None` if nothing helps. That is the object
    /// that the obstacle is about. Else a rule is between its group and its tags, and those change around
    /// it.
    fn giving_way(&self, kept: &Waiting, obstacle: &Obstacle) -> Option<Vec<&'s Waiting>> {
        if !obstacle.is_taken() {
            return None;
        }
        if let Some(other) = self.not_yet(&obstacle.by) {
            return Some(vec![other]);
        }
        match (&kept.object, &obstacle.by) {
            (Object::AclRule(rule, _), Key::PrefixTag(tag))
            | (Object::PrefixTag(tag, _), Key::AclRule(rule)) => {
                if self.then.tag_is_of_group(tag, &rule.group) {
                    return Some(Vec::new());
                }
                let group = self.not_yet(&Key::AclGroup(rule.group.clone()))?;
                Some(vec![group])
            }
            (Object::AclGroup(..), Key::AclRule(rule)) => {
                let tags = self.then.tags_in_the_way(rule)?;
                tags.iter().map(|tag| self.not_yet(tag)).collect()
            }
            _ => None,
        }
    }

    /// What may change and is not among those that do.
    fn not_yet(&self, key: &Key) -> Option<&'s Waiting> {
        let other = self.store.exchangeable(key);
        other.filter(|_| !self.known.contains(key))
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
