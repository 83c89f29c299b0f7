//! Where routes lead: the many routes of a table lead to few places, each of which is kept once.

use super::Round;
use crate::event::{Hop, Kind, NextHopObject, ObjectKind, Route};
use crate::messages::MOST_HOPS;
use std::collections::{BTreeMap, HashMap};
use twinpath_core::wire::Address;

/// The number of a place that routes lead to. It means the same as long as a route leads there.
pub type SetId = u32;

/// Where packets go by a route.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Target {
    /// By ports of the node: one way, or several that share the flows.
    Ports(Vec<Egress>),
    /// By interfaces that are no ports of the node, or as a tunnel's packets.
    Elsewhere,
    /// Nowhere, without a word.
    Discard,
    /// Nowhere: their senders hear that the host cannot be reached.
    Unreachable,
    /// Nowhere: their senders hear that it is prohibited.
    Prohibited,
    /// They have no route.
    NoRoute,
}

/// One way that packets may go.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Egress {
    /// The port that they leave by.
    pub port: u16,
    /// The neighbour there; `None` if it is the packet's destination.
    pub gateway: Option<Address>,
    /// Its share beside others, at least 1.
    pub weight: u16,
}

/// Whereto a route leads.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Set {
    kind: Kind,
    hops: Vec<Hop>,
    object: Option<u32>,
}

/// All places that routes lead to, and next hop objects.
#[derive(Default)]
pub(super) struct Hops {
    /// With the number of routes that lead there.
    sets: Vec<Option<(Set, u32)>>,
    numbers: HashMap<Set, SetId>,
    free: Vec<SetId>,
    objects: BTreeMap<u32, (ObjectKind, Round)>,
}

impl Hops {
    /// A route leads there: the place's number.
    pub fn take(&mut self, route: &Route) -> SetId {
        let set = Set::of(route);
        if let Some(&number) = self.numbers.get(&set) {
            if let Some(Some((_, uses))) = self.sets.get_mut(number as usize) {
                *uses += 1;
            }
            return number;
        }
        let number = self.free.pop().unwrap_or_else(|| {
            self.sets.push(None);
            self.sets.len() as SetId - 1
        });
        self.sets[number as usize] = Some((set.clone(), 1));
        self.numbers.insert(set, number);
        number
    }

    /// A route leads there no more.
    pub fn give(&mut self, number: SetId) {
        let Some(place) = self.sets.get_mut(number as usize) else {
            return;
        };
        match place {
            Some((_, uses)) if *uses > 1 => *uses -= 1,
            _ => {
                if let Some((set, _)) = place.take() {
                    self.numbers.remove(&set);
                    self.free.push(number);
                }
            }
        }
    }

    /// Whether a route is one that leads there.
    pub fn is_of(&self, number: SetId, route: &Route) -> bool {
        self.set(number).is_some_and(|set| *set == Set::of(route))
    }

    /// The next hops there as the route itself has them.
    pub fn of_route(&self, number: SetId) -> &[Hop] {
        self.set(number).map_or(&[], |set| &set.hops)
    }

    /// The places whose hops leave by an interface.
    pub fn by_interface(&self, interface: u32) -> Vec<SetId> {
        self.those(|set| {
            let (hops, _) = self.resolved(set);
            hops.iter().any(|hop| hop.interface == interface)
        })
    }

    pub fn set_object(&mut self, object: NextHopObject, round: Round) -> Vec<SetId> {
        let NextHopObject { id, is } = object;
        let former = self.objects.insert(id, (is, round));
        let (now, _) = &self.objects[&id];
        match former {
            Some((former, _)) if former == *now => Vec::new(),
            _ => self.by_object(id),
        }
    }

    pub fn remove_object(&mut self, id: u32) -> Vec<SetId> {
        let by_it = self.by_object(id);
        self.objects.remove(&id);
        by_it
    }

    /// Objects that were not in the list of this round are gone.
    pub fn end_round(&mut self, round: Round) -> Vec<SetId> {
        let old = self.objects.iter().filter(|(_, (_, seen))| *seen != round);
        let gone: Vec<u32> = old.map(|(id, _)| *id).collect();
        gone.into_iter()
            .flat_map(|id| self.remove_object(id))
            .collect()
    }

    /// Whether a place can be used, where interfaces are up of which `is_up` says so.
    pub fn is_usable(&self, number: SetId, is_up: &dyn Fn(u32) -> bool) -> bool {
        let Some(set) = self.set(number) else {
            return false;
        };
        let (hops, is_blackhole) = self.resolved(set);
        let is_alive = |hop: &Hop| !hop.is_dead && is_up(hop.interface);
        set.kind != Kind::Unicast || is_blackhole || hops.iter().any(is_alive)
    }

    /// Where packets go, if interfaces are ports as `port` says.
    pub fn target(&self, number: SetId, port: &dyn Fn(u32) -> Option<u16>) -> Target {
        let Some(set) = self.set(number) else {
            return Target::NoRoute;
        };
        match set.kind {
            Kind::Blackhole => return Target::Discard,
            Kind::Unreachable => return Target::Unreachable,
            Kind::Prohibit => return Target::Prohibited,
            Kind::Throw => return Target::NoRoute,
            Kind::Unicast => {}
        }
        let (hops, is_blackhole) = self.resolved(set);
        if is_blackhole {
            return Target::Discard;
        }
        let usable = hops
            .iter()
            .filter(|hop| !hop.is_dead && !hop.is_encapsulated);
        let way = |hop: &Hop| {
            Some(Egress {
                port: port(hop.interface)?,
                gateway: hop.gateway,
                weight: hop.weight.max(1),
            })
        };
        let ways: Vec<Egress> = usable.filter_map(way).collect();
        match ways.is_empty() {
            true => Target::Elsewhere,
            false => Target::Ports(ways),
        }
    }

    fn set(&self, number: SetId) -> Option<&Set> {
        let place = self.sets.get(number as usize)?;
        place.as_ref().map(|(set, _)| set)
    }

    /// The hops of a place, by what its object says, and whether that says that packets go nowhere.
    fn resolved(&self, set: &Set) -> (Vec<Hop>, bool) {
        let Some(id) = set.object else {
            return (set.hops.clone(), false);
        };
        match self.objects.get(&id).map(|(object, _)| object) {
            Some(ObjectKind::Hop(hop)) => (vec![*hop], false),
            Some(ObjectKind::Blackhole) => (Vec::new(), true),
            Some(ObjectKind::Group(members)) => (self.members(members), false),
            None => (Vec::new(), false),
        }
    }

    /// The hops of a group; the kernel has no groups in groups.
    fn members(&self, members: &[(u32, u16)]) -> Vec<Hop> {
        let hop = |&(id, weight): &(u32, u16)| match self.objects.get(&id) {
            Some((ObjectKind::Hop(hop), _)) => Some(Hop { weight, ..*hop }),
            _ => None,
        };
        members.iter().filter_map(hop).take(MOST_HOPS).collect()
    }

    /// The places that an object is of, also as member of a group.
    fn by_object(&self, id: u32) -> Vec<SetId> {
        let has_member = |object: u32| match self.objects.get(&object) {
            Some((ObjectKind::Group(members), _)) => members.iter().any(|(one, _)| *one == id),
            _ => false,
        };
        self.those(|set| {
            set.object
                .is_some_and(|object| object == id || has_member(object))
        })
    }

    fn those(&self, is_one: impl Fn(&Set) -> bool) -> Vec<SetId> {
        let sets = (0..).zip(&self.sets);
        let found = sets.filter(|(_, place)| place.as_ref().is_some_and(|(set, _)| is_one(set)));
        found.map(|(number, _)| number).collect()
    }
}

impl Set {
    fn of(route: &Route) -> Self {
        Self {
            kind: route.kind,
            // What an object says is kept with the object.
            hops: match route.object {
                Some(_) => Vec::new(),
                None => route.hops.clone(),
            },
            object: route.object,
        }
    }
}
