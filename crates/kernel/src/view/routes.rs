//! Routes, by prefix and metric.

use super::{Round, SetId, hops::Hops};
use crate::event::{Hop, Placement, Route};
use std::collections::{HashMap, HashSet};
use twinpath_classify::{Prefix, Versions};

/// One of the routes to a prefix.
#[derive(Copy, Clone, Debug)]
struct Entry {
    metric: u32,
    set: SetId,
    round: Round,
}

/// All routes.
pub(super) struct Routes {
    /// To each prefix in the order in which the kernel takes them.
    by_prefix: HashMap<Prefix, Vec<Entry>>,
    changed: HashSet<Prefix>,
    /// Routes of IPv4 and of IPv6.
    counts: [usize; 2],
    most: usize,
    /// Of each version, routes that there was no room for since its list began.
    ignored: [u64; 2],
}

impl Routes {
    pub fn new(most: usize) -> Self {
        Self {
            by_prefix: HashMap::new(),
            changed: HashSet::new(),
            counts: [0; 2],
            most,
            ignored: [0; 2],
        }
    }

    pub fn count(&self) -> usize {
        self.counts.iter().sum()
    }

    /// Routes that there is no room for, as far as is known.
    pub fn ignored(&self) -> u64 {
        self.ignored.iter().sum()
    }

    /// Whether there is room again for routes that there was none for.
    pub fn has_room_again(&self) -> bool {
        let mut versions = self.ignored.iter().zip(self.counts);
        versions.any(|(ignored, count)| *ignored > 0 && count < self.most)
    }

    /// All are about to be told again: what there is no room for then is found out anew.
    pub fn begin_round(&mut self) {
        self.ignored = [0; 2];
    }

    pub fn prefixes(&self) -> impl Iterator<Item = Prefix> + '_ {
        self.by_prefix.keys().copied()
    }

    pub fn best(&self, prefix: Prefix, is_usable: impl Fn(SetId) -> bool) -> Option<SetId> {
        let mut entries = self.by_prefix.get(&prefix)?.iter();
        entries
            .find(|entry| is_usable(entry.set))
            .map(|entry| entry.set)
    }

    pub fn changed_count(&self) -> usize {
        self.changed.len()
    }

    pub fn take_changed(&mut self, most: usize) -> Vec<Prefix> {
        if self.changed.len() <= most {
            return self.changed.drain().collect();
        }
        let some: Vec<Prefix> = self.changed.iter().take(most).copied().collect();
        for prefix in &some {
            self.changed.remove(prefix);
        }
        some
    }

    pub fn put_back(&mut self, prefixes: impl IntoIterator<Item = Prefix>) {
        self.changed.extend(prefixes);
    }

    /// Routes that lead to these places may be others now.
    pub fn mark(&mut self, sets: &[SetId]) {
        if sets.is_empty() {
            return;
        }
        let sets: HashSet<SetId> = sets.iter().copied().collect();
        for (prefix, entries) in &self.by_prefix {
            if entries.iter().any(|entry| sets.contains(&entry.set)) {
                self.changed.insert(*prefix);
            }
        }
    }

    pub fn add(&mut self, route: &Route, placement: Placement, round: Round, hops: &mut Hops) {
        let entries = self.by_prefix.entry(route.prefix).or_default();
        let same =
            |entry: &&mut Entry| entry.metric == route.metric && hops.is_of(entry.set, route);
        if let Some(entry) = entries.iter_mut().find(same) {
            entry.round = round;
            return;
        }
        let replaced = entries.iter().position(|entry| {
            entry.metric == route.metric
                && (placement == Placement::Replace || has_grown(hops.of_route(entry.set), route))
        });
        let version = version_of(route.prefix);
        let count = &mut self.counts[version];
        if replaced.is_none() && *count >= self.most {
            self.ignored[version] += 1;
            if entries.is_empty() {
                self.by_prefix.remove(&route.prefix);
            }
            return;
        }
        let new = Entry {
            metric: route.metric,
            set: hops.take(route),
            round,
        };
        match replaced {
            Some(place) => {
                let old = std::mem::replace(&mut entries[place], new);
                hops.give(old.set);
            }
            None => {
                entries.insert(place_of(entries, route.metric, placement), new);
                *count += 1;
            }
        }
        self.changed.insert(route.prefix);
    }

    pub fn remove(&mut self, route: &Route, hops: &mut Hops) {
        let Some(entries) = self.by_prefix.get_mut(&route.prefix) else {
            // It may be one that there was no room for.
            let ignored = &mut self.ignored[version_of(route.prefix)];
            *ignored = ignored.saturating_sub(1);
            return;
        };
        let is_same = |entry: &Entry| entry.metric == route.metric;
        let exact = entries
            .iter()
            .position(|entry| is_same(entry) && hops.is_of(entry.set, route));
        let others = || entries.iter().filter(|entry| is_same(entry)).count();
        let partial = || {
            let lost = |entry: &Entry| has_all(hops.of_route(entry.set), &route.hops);
            entries
                .iter()
                .position(|entry| is_same(entry) && lost(entry))
        };
        match exact {
            Some(place) => self.remove_at(route.prefix, place, hops),
            None => match partial() {
                Some(place) => self.remove_hops(place, route, hops),
                // Its hops may have been told otherwise; there is no other that can be meant.
                None if others() == 1 => {
                    let place = entries.iter().position(is_same).unwrap_or(0);
                    self.remove_at(route.prefix, place, hops);
                }
                None => {}
            },
        }
    }

    /// Of several next hops some are gone.
    fn remove_hops(&mut self, place: usize, gone: &Route, hops: &mut Hops) {
        let Some(entry) = self
            .by_prefix
            .get_mut(&gone.prefix)
            .and_then(|entries| entries.get_mut(place))
        else {
            return;
        };
        let is_left = |hop: &&Hop| !gone.hops.iter().any(|other| is_same_way(hop, other));
        let left = hops.of_route(entry.set).iter().filter(is_left).copied();
        let rest = Route {
            hops: left.collect(),
            ..gone.clone()
        };
        let former = std::mem::replace(&mut entry.set, hops.take(&rest));
        hops.give(former);
        self.changed.insert(gone.prefix);
    }

    fn remove_at(&mut self, prefix: Prefix, place: usize, hops: &mut Hops) {
        let Some(entries) = self.by_prefix.get_mut(&prefix) else {
            return;
        };
        let entry = entries.remove(place);
        if entries.is_empty() {
            self.by_prefix.remove(&prefix);
        }
        hops.give(entry.set);
        self.counts[version_of(prefix)] -= 1;
        self.changed.insert(prefix);
    }

    /// Routes of an IP version that were not in its list are gone.
    pub fn end_round(&mut self, is_v4: bool, round: Round, hops: &mut Hops) {
        let version = if is_v4 { Versions::V4 } else { Versions::V6 };
        let (changed, count) = (&mut self.changed, &mut self.counts[usize::from(!is_v4)]);
        self.by_prefix.retain(|prefix, entries| {
            if prefix.versions() != version {
                return true;
            }
            let before = entries.len();
            entries.retain(|entry| {
                if entry.round != round {
                    hops.give(entry.set);
                }
                entry.round == round
            });
            if entries.len() < before {
                changed.insert(*prefix);
                *count -= before - entries.len();
            }
            !entries.is_empty()
        });
    }
}

/// 0 for IPv4, 1 for IPv6.
fn version_of(prefix: Prefix) -> usize {
    usize::from(!prefix.network().is_v4())
}

/// Where among others a route with a metric stands.
fn place_of(entries: &[Entry], metric: u32, placement: Placement) -> usize {
    entries.partition_point(|entry| match placement {
        Placement::First | Placement::Replace => entry.metric < metric,
        Placement::Last => entry.metric <= metric,
    })
}

/// Whether a route of IPv6 is one that was there, with more next hops: the kernel tells of a route
/// that gets another next hop with all of them.
fn has_grown(known: &[Hop], route: &Route) -> bool {
    let is_v6 = !route.prefix.network().is_v4();
    let are_gateways = |hops: &[Hop]| hops.iter().all(|hop| hop.gateway.is_some());
    is_v6
        && !known.is_empty()
        && known.len() < route.hops.len()
        && are_gateways(&route.hops)
        && has_all(&route.hops, known)
}

/// Whether hops are among others, of which there are more.
fn has_all(hops: &[Hop], some: &[Hop]) -> bool {
    let is_there = |one: &Hop| hops.iter().any(|hop| is_same_way(hop, one));
    !some.is_empty() && some.len() < hops.len() && some.iter().all(is_there)
}

fn is_same_way(one: &Hop, other: &Hop) -> bool {
    (one.interface, one.gateway) == (other.interface, other.gateway)
}
