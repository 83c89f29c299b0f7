//! What was asked for, and what of it is in force.

mod exchange;
mod places;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use super::configuration::Configuration;
use super::obstacle::{NOT_THERE, Obstacle, Why};
use super::shared_map::SharedMap;
use super::tables::AclTable;
use super::touched::{Touched, touched_enis};
use crate::objects::*;
use exchange::{Blocked, Exchange};
use places::{Place, Places};
use twinpath_core::wire::MacAddress;

/// How many of the things that keep an object from being in force are told in words.
const MOST_TOLD: usize = 8;

/// Where a change was written.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Origin {
    /// Which of the files that are read together; what numbers mean is for who reads them.
    pub file: u32,
    /// Line, from 1; zero if there are none.
    pub line: u32,
}

/// A configuration at one moment: what packets meet.
#[derive(Debug, Default)]
pub struct Snapshot {
    /// Counts the changes.
    pub epoch: u64,
    /// What is in force.
    pub configuration: Configuration,
}

/// An object that was asked for and is not in force, or not in this version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// The object.
    pub object: Object,
    /// Where it was asked for.
    pub origin: Origin,
    /// The first that kept it from being in force when it was tried last.
    obstacle: Obstacle,
    /// What else keeps it: an object that would have to change together with it, and may not yet.
    with: Option<Key>,
    /// What another has, if that keeps it.
    place: Option<Place>,
}

impl Waiting {
    /// The objects with which it is tried again, beside the one that keeps it: for a rule whose tag is not
    /// of its group's version the group, and what would have to change together with it.
    fn beside(&self) -> impl Iterator<Item = Key> + use<> {
        let group = match (&self.object, &self.obstacle.by) {
            (Object::AclRule(rule, _), Key::PrefixTag(_)) => {
                Some(Key::AclGroup(rule.group.clone()))
            }
            _ => None,
        };
        group.into_iter().chain(self.with.clone())
    }

    /// All objects with which it is tried again, except for one that has the place for which it waits.
    fn tried_with(&self) -> impl Iterator<Item = Key> + use<> {
        let by = self.place.is_none().then(|| self.obstacle.by.clone());
        by.into_iter().chain(self.beside())
    }
}

/// How much a [`Store`] keeps.
#[derive(Copy, Clone, Debug)]
pub struct Limits {
    /// Objects that wait; what would be one more is dropped, and counted.
    pub waiting: usize,
    /// ENIs in force; what would be one more is refused, and tried again when one goes.
    pub enis: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            waiting: 1 << 20,
            enis: MAX_ENIS,
        }
    }
}

/// What came of changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Applied {
    /// The epoch from now on.
    pub epoch: u64,
    /// ENIs some of whose packets may be treated otherwise from now on.
    pub touched: Touched,
    /// The objects that came into force, are others now, or are in force no more; one may be there
    /// more than once.
    pub changed: Vec<Key>,
    /// What was to be deleted, and was not there.
    pub absent: Vec<Key>,
    /// Objects that were dropped, because as many wait as may.
    pub dropped: usize,
}

/// What was asked for, and what of it is in force.
///
/// An object that refers to what is not there waits for it, and so does one that cannot be together
/// with another; [`Store::waiting`] tells which, and why. If another version of it is in force, that
/// one stays. An object that is to be deleted and that others refer to waits, too, and stays in
/// force until they are gone ([`Store::leaving`]); meanwhile nothing else may refer to it. A group of
/// access control rules takes its rules with it, as SONiC's documents want it; all other groups wait
/// for their entries. So what was asked for may come in any order.
///
/// Changes are made in batches: [`Store::snapshot`] has all of a batch or nothing.
#[derive(Clone, Debug, Default)]
pub struct Store {
    configuration: Configuration,
    published: Arc<Snapshot>,
    /// Since then.
    changed: Vec<Key>,
    /// How many objects in force refer to one.
    referrers: HashMap<Key, usize>,
    waiting: SharedMap<Key, Arc<Waiting>>,
    /// Which objects wait because of one, other than for a place.
    kept_by: SharedMap<Key, SharedMap<Key, ()>>,
    places: Places,
    leaving: SharedMap<Key, Origin>,
    /// Objects that wait for what another has: both may change together, which is tried when all of a
    /// batch is read.
    to_exchange: Vec<Key>,
    /// The same, so that each is there once.
    is_to_exchange: HashSet<Key>,
    /// ENIs that wait until another goes.
    without_room: SharedMap<Key, ()>,
    macs: HashMap<MacAddress, EniId>,
    limits: Limits,
    absent: Vec<Key>,
    dropped: usize,
}

impl Store {
    /// An empty one.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            ..Self::default()
        }
    }

    /// What is in force.
    #[must_use]
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.published.clone()
    }

    /// What was asked for and is not in force, by key.
    pub fn waiting(&self) -> impl Iterator<Item = (&Key, &Waiting)> {
        self.waiting.iter().map(|(key, waiting)| (key, &**waiting))
    }

    /// What is to be deleted and still in force, by key, with where this was asked for.
    pub fn leaving(&self) -> impl Iterator<Item = (&Key, Origin)> {
        self.leaving.iter().map(|(key, origin)| (key, *origin))
    }

    /// How many objects wait, and how many are to be deleted and still in force.
    #[must_use]
    pub const fn unsettled(&self) -> [usize; 2] {
        [self.waiting.len(), self.leaving.len()]
    }

    /// How many pieces of what waits, and of why, are another store's, and how many there are.
    #[cfg(test)]
    pub(super) fn waiting_shared_with(&self, other: &Self, by: &Key) -> [(usize, usize); 2] {
        let kept = [self, other].map(|store| store.kept_by.get(by).cloned().unwrap_or_default());
        [
            self.waiting.shared_with(&other.waiting),
            kept[0].shared_with(&kept[1]),
        ]
    }

    /// Some of the objects that refer to each of these, at most so many. Looks at everything once.
    #[must_use]
    pub fn referring<'k>(
        &self,
        to: impl IntoIterator<Item = &'k Key>,
        most: usize,
    ) -> HashMap<Key, Vec<Key>> {
        let to = to.into_iter().map(|key| (key.clone(), Vec::new()));
        let mut found: HashMap<Key, Vec<Key>> = to.collect();
        if found.is_empty() {
            return found;
        }
        self.configuration.for_each(&mut |object| {
            object.references(&mut |_, to| {
                let Some(referring) = found.get_mut(&to) else {
                    return;
                };
                let key = object.key();
                if referring.len() < most && referring.last() != Some(&key) {
                    referring.push(key);
                }
            });
        });
        found
    }

    /// Makes changes, in order, and puts them in force together. Objects that are set in a row are
    /// taken in the order of their tables, so that few wait for what comes with them.
    pub fn apply(&mut self, changes: impl IntoIterator<Item = (Change, Origin)>) -> Applied {
        let mut row = Vec::new();
        for (change, origin) in changes {
            match change {
                Change::Set(object) => row.push((object, origin)),
                Change::Delete(key) => {
                    self.set_all(&mut row);
                    self.delete(key, origin);
                }
            }
        }
        self.set_all(&mut row);
        self.exchange_all();
        self.publish()
    }

    /// Makes these changes to nothing, and puts the outcome in force instead of all that was.
    /// Groups that are the same stay what they are.
    pub fn replace(&mut self, changes: impl IntoIterator<Item = (Change, Origin)>) -> Applied {
        let mut new = Self::new(self.limits);
        new.apply(changes);
        new.configuration.adopt(&self.configuration);
        new.published = self.published.clone();
        new.changed = new.configuration.changed_since(&self.configuration);
        *self = new;
        self.publish()
    }

    fn set_all(&mut self, row: &mut Vec<(Object, Origin)>) {
        row.sort_by_key(|(object, _)| object.table());
        for (object, origin) in row.drain(..) {
            self.set(object, origin);
        }
    }

    fn set(&mut self, object: Object, origin: Origin) {
        let key = object.key();
        self.stop_waiting(&key);
        let mut work = Vec::new();
        if self.leaving.remove(&key).is_some() {
            work.push(key);
        }
        self.admit(object, origin, &mut work);
        self.settle(work);
    }

    fn delete(&mut self, key: Key, origin: Origin) {
        let waited = self.stop_waiting(&key).is_some();
        if !self.configuration.contains(&key) {
            if !waited {
                self.absent.push(key);
            }
            return;
        }
        let mut work = Vec::new();
        self.leaving.insert(key.clone(), origin);
        self.leave(&key, &mut work);
        self.settle(work);
    }

    /// Tries again what waits because of objects that came, changed or went, until nothing follows.
    fn settle(&mut self, mut work: Vec<Key>) {
        while let Some(key) = work.pop() {
            for kept in self.kept_by.remove(&key).unwrap_or_default().keys() {
                if let Some(waiting) = self.stop_waiting(kept) {
                    let Waiting { object, origin, .. } = waiting;
                    self.admit(object, origin, &mut work);
                }
            }
            self.fill(self.places.of(&key), &mut work);
        }
    }

    /// Tries those who wait for places, by key, until somebody has each of these; the others wait on.
    fn fill(&mut self, places: Vec<Place>, work: &mut Vec<Key>) {
        let first = |places: &Places, place| Some((places.first(&place)?, place));
        let next = places.into_iter();
        let mut next: BTreeSet<_> = next.filter_map(|it| first(&self.places, it)).collect();
        while let Some((key, place)) = next.pop_first() {
            if let Some(holder) = self.holder(&place) {
                self.places.pass_on(&place, &holder);
            } else if let Some(waiting) = self.stop_waiting(&key) {
                self.admit(waiting.object, waiting.origin, work);
                next.extend(first(&self.places, place));
            }
        }
    }

    /// Who has a place.
    fn holder(&self, place: &Place) -> Option<Key> {
        let now = &self.configuration;
        match place {
            Place::Mac(mac) => self.macs.get(mac).cloned().map(Key::Eni),
            Place::Block(nat) => {
                let eni = now.enis_with_block(nat).next();
                eni.cloned().map(Key::EniNat)
            }
            Place::External(address, port) => {
                let pool = now.pool_with(*address, *port);
                pool.cloned().map(Key::NatPool)
            }
            Place::Port(map, port) => {
                let (ports, map) = (now.range_with(map, *port)?, map.clone());
                Some(Key::PortMapRange(PortMapRangeKey { map, ports }))
            }
        }
    }

    /// Puts an object in force, or has it wait.
    fn admit(&mut self, object: Object, origin: Origin, work: &mut Vec<Key>) {
        let Some(obstacle) = self.obstacle(&object) else {
            return self.put(object, work);
        };
        if obstacle.is_taken() && self.is_to_exchange.insert(object.key()) {
            self.to_exchange.push(object.key());
        }
        self.wait(Waiting {
            object,
            origin,
            obstacle,
            with: None,
            place: None,
        });
    }

    /// Puts objects in force that can only be together, until nothing follows.
    fn exchange_all(&mut self) {
        let mut dead_ends = HashSet::new();
        while let Some(key) = self.to_exchange.pop() {
            self.is_to_exchange.remove(&key);
            if self.may_exchange(&key, &mut dead_ends) {
                dead_ends.clear();
                let mut work = Vec::new();
                self.exchange(&key, &mut work);
                self.settle(work);
            }
        }
    }

    /// Whether an object waits for another to let go of something, that one for the next, and so on
    /// until one has been met before. As long as nothing changes, that never follows from a dead end.
    fn may_exchange(&self, first: &Key, dead_ends: &mut HashSet<Key>) -> bool {
        let (mut met, mut ahead) = (HashSet::new(), vec![first.clone()]);
        while let Some(key) = ahead.pop() {
            if dead_ends.contains(&key) {
                continue;
            }
            ahead.extend(self.next_to_exchange(&key));
            if !met.insert(key) {
                return true;
            }
        }
        dead_ends.extend(met);
        false
    }

    /// What an object waits for that may let go of something. Around a rule that stays as it is, its
    /// group and its tags change.
    fn next_to_exchange(&self, key: &Key) -> Vec<Key> {
        let Some(waiting) = self.exchangeable(key) else {
            return Vec::new();
        };
        let around = |by: Key| match (key, by) {
            (_, by) if self.exchangeable(&by).is_some() => vec![by],
            (Key::PrefixTag(_), Key::AclRule(rule)) => vec![Key::AclGroup(rule.group)],
            (Key::AclGroup(_), Key::AclRule(rule)) => self.configuration.tags_of_rule(&rule),
            _ => Vec::new(),
        };
        let by = self.keeper(waiting).clone();
        let keys = std::iter::once(by).chain(waiting.beside());
        keys.flat_map(around).collect()
    }

    /// An object that waits for what another has.
    pub(super) fn exchangeable(&self, key: &Key) -> Option<&Waiting> {
        self.waiting_for(key)
            .filter(|waiting| waiting.obstacle.is_taken())
    }

    /// Puts objects in force together that wait for what others of them have.
    fn exchange(&mut self, last: &Key, work: &mut Vec<Key>) {
        match Exchange::of(self, last) {
            Ok(keys) => {
                for key in keys {
                    if let Some(waiting) = self.stop_waiting(&key) {
                        self.put(waiting.object, work);
                    }
                }
            }
            Err(blocked) => {
                let Blocked { waiting, until } = *blocked;
                // Nothing but this keeps it, and those that wait for it.
                if let Some(waiting) = waiting {
                    self.stop_waiting(&waiting.object.key());
                    self.wait(waiting);
                }
                if let Some(until) = until {
                    self.wait_with(last, until);
                }
            }
        }
    }

    /// Has an object tried again when one comes, changes or goes that would have to change with it.
    fn wait_with(&mut self, key: &Key, with: Key) {
        if *key != with
            && let Some(mut waiting) = self.stop_waiting(key)
        {
            waiting.with = Some(with);
            self.wait(waiting);
        }
    }

    pub(super) const fn in_force(&self) -> &Configuration {
        &self.configuration
    }

    /// An object that was asked for and is not in force, or not in this version.
    #[must_use]
    pub fn waiting_for(&self, key: &Key) -> Option<&Waiting> {
        self.waiting.get(key).map(|waiting| &**waiting)
    }

    /// All that keeps an object from being in force that waits, each once: every reference to something
    /// that is missing or about to go, and what it cannot be together with. Of the latter the first, which is
    /// asked when nothing is missing.
    #[must_use]
    pub fn obstacles(&self, waiting: &Waiting) -> Vec<Obstacle> {
        let (mut all, mut known) = (Vec::new(), HashSet::new());
        let mut add = |obstacle: Obstacle| {
            if known.insert((obstacle.field, obstacle.by.clone())) {
                all.push(obstacle);
            }
        };
        if waiting.obstacle.refuses() {
            let by = self.keeper(waiting).clone();
            let obstacle = waiting.obstacle.clone();
            add(Obstacle { by, ..obstacle });
        }
        self.unusable_references(&waiting.object, &mut add);
        all
    }

    /// What an obstacle is, in words, and of what is missing what became of it, if it was asked for;
    /// otherwise what `absent` says of it.
    pub fn told(&self, obstacle: &Obstacle, absent: impl FnOnce() -> String) -> String {
        let Obstacle { field, by, why } = obstacle;
        if *why != Why::Missing {
            return obstacle.to_string();
        }
        let fate = match self.waiting_for(by) {
            None => absent(),
            Some(other) if self.obstacles(other).iter().any(Obstacle::refuses) => {
                "which is refused".into()
            }
            Some(_) => "which waits, too".into(),
        };
        format!("{field}: waits for {by}, {fate}")
    }

    /// What keeps an object from being in force that waits, in words; of many things the first few, and how
    /// many there are.
    #[must_use]
    pub fn why(&self, waiting: &Waiting) -> String {
        let all = self.obstacles(waiting);
        let told = all.iter().take(MOST_TOLD);
        let told = told.map(|obstacle| self.told(obstacle, || NOT_THERE.into()));
        let more = all.len().saturating_sub(MOST_TOLD);
        let more = (more > 0).then(|| format!("and {more} more"));
        told.chain(more).collect::<Vec<_>>().join("; ")
    }

    /// The object that keeps one that waits: of a place whoever has it by now.
    fn keeper<'a>(&'a self, waiting: &'a Waiting) -> &'a Key {
        let holder = waiting.place.as_ref();
        let holder = holder.and_then(|place| self.places.holder(place));
        holder.unwrap_or(&waiting.obstacle.by)
    }

    fn wait(&mut self, mut waiting: Waiting) {
        if self.waiting.len() >= self.limits.waiting {
            self.dropped += 1;
            return;
        }
        let key = waiting.object.key();
        if matches!(waiting.obstacle.why, Why::NoRoom { .. }) {
            self.without_room.insert(key.clone(), ());
        }
        let now = &self.configuration;
        waiting.place = self.places.wanted(&waiting, now);
        if let Some(place) = &waiting.place {
            self.places.wait(place, key.clone(), &waiting.obstacle.by);
        }
        for by in waiting.tried_with() {
            self.keep(key.clone(), by);
        }
        self.waiting.insert(key, Arc::new(waiting));
    }

    /// Has an object tried again when another comes, changes or goes.
    fn keep(&mut self, key: Key, by: Key) {
        match self.kept_by.get_mut(&by) {
            Some(kept) => _ = kept.insert(key, ()),
            None => _ = self.kept_by.insert(by, SharedMap::from_iter([(key, ())])),
        }
    }

    /// Forgets a version that waits; the one that did.
    fn stop_waiting(&mut self, key: &Key) -> Option<Waiting> {
        let mut waiting = Arc::unwrap_or_clone(self.waiting.remove(key)?);
        self.without_room.remove(key);
        for by in waiting.tried_with() {
            if let Some(kept) = self.kept_by.get_mut(&by) {
                kept.remove(key);
                if kept.is_empty() {
                    self.kept_by.remove(&by);
                }
            }
        }
        let place = waiting.place.take();
        if let Some(holder) = place.and_then(|place| self.places.stop(&place, key)) {
            waiting.obstacle.by = holder;
        }
        Some(waiting)
    }

    /// The first thing that keeps an object from being in force.
    fn obstacle(&self, object: &Object) -> Option<Obstacle> {
        let now = &self.configuration;
        self.unusable_reference(object)
            .or_else(|| self.no_room(object, now))
            .or_else(|| now.conflicts(object, now).next())
            .or_else(|| self.same_mac(object))
    }

    /// Whether an ENI would be one more than may be in force.
    pub(super) fn no_room(&self, object: &Object, then: &Configuration) -> Option<Obstacle> {
        let Object::Eni(id, _) = object else {
            return None;
        };
        let others = then.enis.len() - usize::from(then.enis.contains(id));
        let most = self.limits.enis;
        (others >= most).then(|| Obstacle::no_room(id, most))
    }

    /// The first reference that the object cannot have.
    pub(super) fn unusable_reference(&self, object: &Object) -> Option<Obstacle> {
        let mut first = None;
        self.unusable_references(object, &mut |obstacle| _ = first.get_or_insert(obstacle));
        first
    }

    /// Calls `each` for every reference that the object cannot have.
    fn unusable_references(&self, object: &Object, each: &mut dyn FnMut(Obstacle)) {
        object.references(&mut |field, by| {
            if let Some(why) = self.unusable(object, &by) {
                each(Obstacle { field, by, why });
            }
        });
    }

    /// Why an object cannot refer to another.
    fn unusable(&self, object: &Object, to: &Key) -> Option<Why> {
        if !self.configuration.contains(to) {
            return Some(Why::Missing);
        }
        (self.leaving.contains(to) && !self.refers_already(object, to)).then_some(Why::Leaving)
    }

    fn refers_already(&self, object: &Object, to: &Key) -> bool {
        let mut refers = false;
        if let Some(known) = self.configuration.get(&object.key()) {
            known.references(&mut |_, key| refers |= key == *to);
        }
        refers
    }

    fn same_mac(&self, object: &Object) -> Option<Obstacle> {
        let Object::Eni(id, eni) = object else {
            return None;
        };
        self.mac_of_another(id, eni).map(Obstacle::same_mac)
    }

    /// Another ENI in force that has the MAC address.
    pub(super) fn mac_of_another(&self, id: &EniId, eni: &Eni) -> Option<&EniId> {
        let other = self.macs.get(&eni.mac_address);
        other.filter(|other| *other != id)
    }

    fn put(&mut self, object: Object, work: &mut Vec<Key>) {
        let key = object.key();
        let known = self.configuration.get(&key);
        if known.as_ref() == Some(&object) {
            return;
        }
        self.changed.push(key.clone());
        object.references(&mut |_, to| *self.referrers.entry(to).or_default() += 1);
        if let (Some(old), Object::Eni(id, _)) = (&known, &object) {
            self.give_mac_back(id, old);
        }
        if let Object::Eni(id, eni) = &object {
            self.macs.insert(eni.mac_address, id.clone());
        }
        self.configuration.set(object);
        if let Some(known) = known {
            self.let_go(&known, work);
        }
        work.push(key);
    }

    /// An ENI's MAC address is free, if no other has it by now.
    fn give_mac_back(&mut self, id: &EniId, gone: &Object) {
        if let Object::Eni(_, eni) = gone
            && self.macs.get(&eni.mac_address) == Some(id)
        {
            self.macs.remove(&eni.mac_address);
        }
    }

    /// What an object refers to that is gone, or is another version now.
    fn let_go(&mut self, gone: &Object, work: &mut Vec<Key>) {
        let mut released = Vec::new();
        gone.references(&mut |_, to| released.push(to));
        for to in released {
            self.release(&to, work);
        }
    }

    /// An object is referred to once less.
    fn release(&mut self, to: &Key, work: &mut Vec<Key>) {
        if let Some(count) = self.referrers.get_mut(to) {
            *count -= 1;
            if *count == 0 {
                self.referrers.remove(to);
            }
        }
        self.leave(to, work);
    }

    /// Takes an object out of force that is to be deleted, if nothing refers to it any more.
    fn leave(&mut self, key: &Key, work: &mut Vec<Key>) {
        if !self.leaving.contains(key) {
            return;
        }
        let referrers = self.referrers.get(key).copied().unwrap_or(0);
        let group = self.acl_group(key);
        if referrers > group.map_or(0, |group| group.rules().len()) {
            return;
        }
        self.leaving.remove(key);
        for rule in self.rules_of(key) {
            self.take_out(&rule, work);
        }
        self.take_out(key, work);
    }

    fn acl_group(&self, key: &Key) -> Option<&AclTable> {
        match key {
            Key::AclGroup(group) => self
                .configuration
                .acl_groups
                .get(group)
                .map(|table| &**table),
            _ => None,
        }
    }

    /// The rules that go with a group.
    fn rules_of(&self, key: &Key) -> Vec<Key> {
        let (Key::AclGroup(group), Some(table)) = (key, self.acl_group(key)) else {
            return Vec::new();
        };
        let rules = table.rules().keys().map(|rule| AclRuleKey {
            group: group.clone(),
            rule: rule.clone(),
        });
        rules.map(Key::AclRule).collect()
    }

    fn take_out(&mut self, key: &Key, work: &mut Vec<Key>) {
        let Some(object) = self.configuration.get(key) else {
            return;
        };
        self.changed.push(key.clone());
        self.configuration.remove(key);
        if let Key::Eni(id) = key {
            self.give_mac_back(id, &object);
            work.extend(self.without_room.keys().next().cloned());
        }
        self.let_go(&object, work);
        work.push(key.clone());
    }

    fn publish(&mut self) -> Applied {
        let old = &self.published;
        let mut touched = Touched::default();
        let changed = std::mem::take(&mut self.changed);
        if !changed.is_empty() {
            touched = touched_enis(&old.configuration, &self.configuration);
            self.published = Arc::new(Snapshot {
                epoch: old.epoch + 1,
                configuration: self.configuration.clone(),
            });
        }
        Applied {
            epoch: self.published.epoch,
            touched,
            changed,
            absent: std::mem::take(&mut self.absent),
            dropped: std::mem::take(&mut self.dropped),
        }
    }
}
