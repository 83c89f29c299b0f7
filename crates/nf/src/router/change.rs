//! Other routes and next hops, while packets flow.

use super::config::{Config, NextHop};
use super::function::{Hop, Router};
use super::group::{Group, NextHopGroup};
use super::kernel::{Learned, MOST_CHANGES};
use super::numbers::{BROADCAST, DISCARD, DISCARD_NAME, NO_ROUTE, NOWHERE};
use super::route::LIMITED;
use super::routes::{self, Target};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use twinpath_classify::acl::Rule as Packets;
use twinpath_classify::lpm::RouteError;
use twinpath_classify::{Prefix, Versions};
use twinpath_rulecache::{Affected, Concern, Reconfigure};

/// A change of a route or of a next hop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RouteChange {
    /// The next hop of this name is this one; it may be new.
    SetNextHop(NextHop),
    /// There is no route to the prefix any more.
    RemoveRoute(Prefix),
    /// Packets to the prefix go to the next hop of this name, or nowhere.
    SetRoute(Prefix, Option<String>),
    /// Packets to this address go nowhere, for it is all hosts' of a network.
    SetBroadcast(Prefix),
    /// Packets to the prefix go where the kernel says.
    SetLearned(Prefix, Learned),
    /// The next hops that share the flows of routes via this name are these; it may be new.
    SetGroup(NextHopGroup),
    /// There is no group of this name any more, and no route by it.
    RemoveGroup(String),
    /// There is no next hop of this name any more, and no route by it.
    RemoveNextHop(String),
    /// Other packets are answered, or more or fewer.
    SetAnswers,
}

/// What becomes of the routes while packets flow.
pub enum NewRoutes {
    /// Another router takes this one's place; counts go on, those of next hops by name.
    Whole(Box<Router>),
    /// These changes are made in order, which lead to this configuration.
    Changes(Vec<RouteChange>, Box<Config>),
}

impl Config {
    /// The changes that make a router of the former configuration one of this; `None` if it is
    /// better built anew, because much has changed.
    pub fn changes_from(&self, former: &Self) -> Option<Vec<RouteChange>> {
        let is_read = |config: &Self| config.routes_file.is_some() == config.file_routes.is_some();
        let addresses = |config: &Self| config.own_addresses().collect::<Vec<_>>();
        let is_other = self.most_routes != former.most_routes
            || self.networks != former.networks
            || self.kernel_table() != former.kernel_table()
            || addresses(self) != addresses(former)
            || (self.address, self.address6) != (former.address, former.address6);
        if is_other || !is_read(self) || !is_read(former) {
            return None;
        }
        let mut changes = self.changed_next_hops(former);
        changes.extend(self.changed_groups(former));
        changes.extend(self.changed_routes(former)?);
        changes.extend(self.changed_learned_routes(former)?);
        changes.extend(self.removed_groups(former));
        changes.extend(self.removed_next_hops(former));
        let answers = |config: &Self| {
            let rates = (config.errors_per_second, config.errors_per_source);
            (config.no_route, rates)
        };
        if answers(self) != answers(former) {
            changes.push(RouteChange::SetAnswers);
        }
        (changes.len() <= MOST_CHANGES).then_some(changes)
    }

    fn changed_next_hops(&self, former: &Self) -> Vec<RouteChange> {
        let known: HashMap<_, _> = former
            .next_hops
            .iter()
            .map(|hop| (&hop.name, hop))
            .collect();
        let is_other = |hop: &&NextHop| known.get(&hop.name).is_none_or(|former| former != hop);
        let changed = self.next_hops.iter().filter(is_other).cloned();
        changed.map(RouteChange::SetNextHop).collect()
    }

    fn removed_next_hops(&self, former: &Self) -> Vec<RouteChange> {
        let names: HashSet<_> = self.next_hops.iter().map(|hop| &hop.name).collect();
        let gone = former
            .next_hops
            .iter()
            .filter(|hop| !names.contains(&hop.name));
        gone.map(|hop| RouteChange::RemoveNextHop(hop.name.clone()))
            .collect()
    }

    /// A group whose next hops are others is another, too.
    fn changed_groups(&self, former: &Self) -> Vec<RouteChange> {
        let known: HashMap<_, _> = former.groups.iter().map(|one| (&one.name, one)).collect();
        let is_other = |one: &&NextHopGroup| known.get(&one.name).is_none_or(|old| old != one);
        let changed = self.groups.iter().filter(is_other).cloned();
        changed.map(RouteChange::SetGroup).collect()
    }

    fn removed_groups(&self, former: &Self) -> Vec<RouteChange> {
        let names: HashSet<_> = self.groups.iter().map(|group| &group.name).collect();
        let gone = former.groups.iter();
        let gone = gone.filter(|group| !names.contains(&group.name));
        gone.map(|group| RouteChange::RemoveGroup(group.name.clone()))
            .collect()
    }

    /// Routes that are gone first, so that there is room for others; `None` if there would be
    /// too many.
    fn changed_routes(&self, former: &Self) -> Option<Vec<RouteChange>> {
        let same_file = match (&self.file_routes, &former.file_routes) {
            (Some(one), Some(other)) => {
                Arc::ptr_eq(one, other) && self.next_hops == former.next_hops
            }
            _ => false,
        };
        let (before, after) = (former.by_prefix(!same_file), self.by_prefix(!same_file));
        let gone = before.keys().filter(|prefix| !after.contains_key(prefix));
        let gone = gone.map(|&prefix| RouteChange::RemoveRoute(prefix));
        let is_other =
            |(prefix, target): &(&Prefix, &Target<'_>)| before.get(prefix) != Some(target);
        let other = after.iter().filter(is_other);
        let other = other.map(|(&prefix, &target)| target.change(prefix));
        let mut changes: Vec<RouteChange> = gone.chain(other).collect();
        if same_file {
            self.leave_out_those_in_file(&mut changes);
        }
        changes.sort_by_key(|change| match change {
            RouteChange::RemoveRoute(prefix) => (0, prefix.network().0, prefix.length()),
            RouteChange::SetRoute(prefix, _) | RouteChange::SetBroadcast(prefix) => {
                (1, prefix.network().0, prefix.length())
            }
            _ => (2, 0, 0),
        });
        (changes.is_empty() || self.has_room()).then_some(changes)
    }

    /// Routes in the file count more than others.
    fn leave_out_those_in_file(&self, changes: &mut Vec<RouteChange>) {
        let changed = changes
            .iter()
            .filter_map(RouteChange::prefix)
            .collect::<HashSet<_>>();
        let in_file = self.file_routes.iter().flat_map(|routes| routes.iter());
        let in_file = in_file.flat_map(|(prefix, _)| each_version(*prefix));
        let kept: HashSet<Prefix> = in_file.filter(|prefix| changed.contains(prefix)).collect();
        changes.retain(|change| change.prefix().is_none_or(|prefix| !kept.contains(&prefix)));
    }

    /// The next hops of prefixes, each of one IP version.
    fn by_prefix(&self, with_file: bool) -> HashMap<Prefix, Target<'_>> {
        let routes = self.all_routes(with_file);
        let routes =
            routes.flat_map(|(prefix, via)| each_version(prefix).map(move |one| (one, via)));
        routes.collect()
    }

    /// Whether packets to a prefix go where they go, whatever routes say: to the router itself, or
    /// nowhere.
    fn is_fixed(&self, prefix: Prefix) -> bool {
        let mut fixed = self.own_addresses().chain([LIMITED]);
        fixed.any(|address| prefix == address.into())
    }

    /// Whether the table takes all routes.
    fn has_room(&self) -> bool {
        let in_file = self.file_routes.as_ref().map_or(0, |routes| routes.len());
        let broadcasts = self.directed_broadcasts().count();
        let learned = self.kernel_routes().map_or(0, |routes| routes.count());
        let most = NOWHERE.len() + broadcasts + self.routes.len() + in_file + learned;
        most <= self.most_routes || {
            let routes = self.by_prefix(true);
            let v4 = routes
                .keys()
                .filter(|prefix| prefix.versions() == Versions::V4)
                .count();
            v4.max(routes.len() - v4) <= self.most_routes
        }
    }
}

impl Target<'_> {
    /// What makes it that of a prefix.
    fn change(self, prefix: Prefix) -> RouteChange {
        match self {
            Self::Via(DISCARD_NAME) => RouteChange::SetRoute(prefix, None),
            Self::Via(name) => RouteChange::SetRoute(prefix, Some(name.to_owned())),
            Self::Broadcast => RouteChange::SetBroadcast(prefix),
            Self::Unreachable => RouteChange::SetLearned(prefix, Learned::Unreachable),
            Self::Prohibited => RouteChange::SetLearned(prefix, Learned::Prohibited),
            Self::NoRoute => RouteChange::SetLearned(prefix, Learned::NoRoute),
        }
    }
}

/// A default route of both IP versions is two routes.
fn each_version(prefix: Prefix) -> impl Iterator<Item = Prefix> {
    let v4 = Prefix::covering(twinpath_core::wire::Address::UNSPECIFIED_V4, 0);
    let v6 = Prefix::covering(twinpath_core::wire::Address::UNSPECIFIED_V6, 0);
    let both = match prefix.versions() {
        Versions::Both => [Some(v4), Some(v6)],
        _ => [Some(prefix), None],
    };
    both.into_iter().flatten()
}

impl RouteChange {
    fn prefix(&self) -> Option<Prefix> {
        match self {
            Self::RemoveRoute(prefix)
            | Self::SetRoute(prefix, _)
            | Self::SetBroadcast(prefix)
            | Self::SetLearned(prefix, _) => Some(*prefix),
            _ => None,
        }
    }
}

impl Router {
    /// The rules that a change concerns: of a route those whose packets go to its prefix, and
    /// came from the next hop that has covered it so far.
    fn concern(&self, change: &RouteChange) -> Vec<Concern> {
        let of_hop = |name: &str| {
            let number = self.next_hop(name);
            number
                .map(|number| Concern::entries(vec![number]))
                .into_iter()
                .collect()
        };
        match change {
            RouteChange::SetRoute(prefix, _)
            | RouteChange::SetBroadcast(prefix)
            | RouteChange::SetLearned(prefix, _)
            | RouteChange::RemoveRoute(prefix) => {
                let concern = |prefix| Concern {
                    entries: Some(vec![self.table.covering(prefix).unwrap_or(NO_ROUTE)]),
                    packets: Packets {
                        destination: prefix,
                        ..Packets::ANY
                    },
                };
                each_version(*prefix).map(concern).collect()
            }
            RouteChange::SetNextHop(hop) => of_hop(&hop.name),
            RouteChange::SetGroup(NextHopGroup { name, .. })
            | RouteChange::RemoveGroup(name)
            | RouteChange::RemoveNextHop(name) => of_hop(name),
            RouteChange::SetAnswers => vec![Concern::entries(vec![NO_ROUTE])],
        }
    }

    fn make(&mut self, change: &RouteChange, after: &Config) -> Result<(), RouteError> {
        match change {
            RouteChange::SetNextHop(hop) => self.set_next_hop(hop),
            RouteChange::RemoveNextHop(name) => self.remove_next_hop(name),
            RouteChange::SetGroup(group) => self.set_group(group),
            RouteChange::RemoveGroup(name) => self.remove_group(name),
            RouteChange::RemoveRoute(prefix)
            | RouteChange::SetRoute(prefix, _)
            | RouteChange::SetBroadcast(prefix)
            | RouteChange::SetLearned(prefix, _)
                if after.is_fixed(*prefix) => {}
            RouteChange::RemoveRoute(prefix) => {
                self.table.remove(*prefix);
            }
            RouteChange::SetRoute(prefix, via) => {
                let number = via.as_ref().and_then(|name| self.next_hop(name));
                self.table.insert(*prefix, number.unwrap_or(DISCARD))?;
            }
            RouteChange::SetBroadcast(prefix) => {
                self.table.insert(*prefix, BROADCAST)?;
            }
            RouteChange::SetLearned(prefix, learned) => {
                let number = Target::from(learned).number(|name| self.next_hop(name));
                self.table.insert(*prefix, number)?;
            }
            RouteChange::SetAnswers => {
                self.no_route = after.no_route;
                self.icmp
                    .configure(after.errors_per_second, after.errors_per_source);
            }
        }
        Ok(())
    }

    fn set_next_hop(&mut self, next_hop: &NextHop) {
        if let Some(number) = self.next_hop(&next_hop.name)
            && let Some(Some(hop)) = self.hops.get_mut(number as usize)
        {
            hop.next_hop = next_hop.clone();
            return;
        }
        let new = Some(Hop::new(next_hop));
        match self.hops.iter_mut().find(|hop| hop.is_none()) {
            Some(place) => *place = new,
            None => self.hops.push(new),
        }
    }

    fn set_group(&mut self, group: &NextHopGroup) {
        let new = Some(Group::new(group, |name| self.next_hop(name)));
        let is_it = |one: &Option<Group>| one.as_ref().is_some_and(|one| one.name == group.name);
        let place = self.groups.iter().position(is_it);
        let place = place.or_else(|| self.groups.iter().position(Option::is_none));
        match place {
            Some(place) => self.groups[place] = new,
            None => self.groups.push(new),
        }
    }

    fn remove_group(&mut self, name: &str) {
        let is_it = |one: &&mut Option<Group>| one.as_ref().is_some_and(|one| one.name == name);
        if let Some(place) = self.groups.iter_mut().find(is_it) {
            *place = None;
        }
    }

    fn remove_next_hop(&mut self, name: &str) {
        let number = self.next_hop(name);
        let place = number.and_then(|number| self.hops.get_mut(number as usize));
        if let Some(hop) = place.and_then(Option::take) {
            self.counters.retire(&hop);
        }
    }

    fn make_all(&mut self, changes: &[RouteChange], after: &Config) {
        let made = changes.iter().map(|change| self.make(change, after));
        let is_full = made.filter(Result::is_err).count() > 0;
        // There are no more routes than there may be, but gaps in a table's memory may have grown.
        if is_full && let Ok(table) = routes::fill(after, |name| self.next_hop(name)) {
            self.table = table;
        }
    }

    /// The counts go on from those of the router before.
    fn continue_from(&mut self, before: &mut Self) {
        self.counters = std::mem::take(&mut before.counters);
        self.icmp.continue_from(&before.icmp);
        for old in before.hops.iter().flatten() {
            let number = self.next_hop(&old.next_hop.name);
            let hop = number.and_then(|number| self.hops.get_mut(number as usize));
            match hop.and_then(Option::as_mut) {
                Some(hop) => (hop.packets, hop.bytes) = (old.packets, old.bytes),
                None => self.counters.retire(old),
            }
        }
    }
}

impl Reconfigure for Router {
    type New = NewRoutes;

    fn affected_by(&self, new: &NewRoutes) -> Affected {
        let NewRoutes::Changes(changes, _) = new else {
            return Affected::Everything;
        };
        let concerns = changes.iter().flat_map(|change| self.concern(change));
        Affected::Rules(concerns.collect())
    }

    fn apply(&mut self, new: &mut NewRoutes) {
        match new {
            NewRoutes::Changes(changes, after) => self.make_all(changes, after),
            NewRoutes::Whole(router) => {
                std::mem::swap(self, router);
                self.continue_from(router);
            }
        }
    }
}
