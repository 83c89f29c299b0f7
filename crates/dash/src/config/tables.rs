//! What belongs together: a group and its entries, as compact as what reads them allows.

use std::sync::Arc;

use twinpath_classify::Prefix;
use twinpath_core::wire::{Address, MacAddress};

use super::interned::Interned;
use super::shared_map::SharedMap;
use crate::objects::{
    AclBinding, AclGroup, AclRule, AclRuleId, AclStage, Eni, EniNat, IpVersion, MeterPolicy,
    MeterRule, PortMap, PortMapRange, PortRange, Route, RouteGroup, RouteGroupId, RouteRule, Vnet,
    VnetMapping, Vni,
};

/// Something for each of many prefixes: 8 bytes for one of IPv4 and 17 for one of IPv6, beside the
/// value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ByPrefix<V> {
    v4: SharedMap<(u32, u8), V>,
    v6: SharedMap<([u8; 16], u8), V>,
}

impl<V> Default for ByPrefix<V> {
    fn default() -> Self {
        Self {
            v4: SharedMap::default(),
            v6: SharedMap::default(),
        }
    }
}

/// What is told of each difference: prefix, the other table's value, this one's.
pub type Differing<'e, V> = &'e mut dyn FnMut(Prefix, Option<&V>, Option<&V>);

impl<V: Clone> ByPrefix<V> {
    /// How many of IPv4, and how many of IPv6.
    #[must_use]
    pub const fn len_by_version(&self) -> (usize, usize) {
        (self.v4.len(), self.v6.len())
    }

    /// How many.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.v4.len() + self.v6.len()
    }

    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What there is for exactly this prefix.
    #[must_use]
    pub fn get(&self, prefix: Prefix) -> Option<&V> {
        let length = prefix.length();
        match prefix.network().is_v4() {
            true => self.v4.get(&(v4_bits(prefix.network()), length)),
            false => self.v6.get(&(prefix.network().octets16(), length)),
        }
    }

    fn insert(&mut self, prefix: Prefix, value: V) -> Option<V> {
        let length = prefix.length();
        match prefix.network().is_v4() {
            true => self.v4.insert((v4_bits(prefix.network()), length), value),
            false => self.v6.insert((prefix.network().octets16(), length), value),
        }
    }

    fn remove(&mut self, prefix: Prefix) -> Option<V> {
        let length = prefix.length();
        match prefix.network().is_v4() {
            true => self.v4.remove(&(v4_bits(prefix.network()), length)),
            false => self.v6.remove(&(prefix.network().octets16(), length)),
        }
    }

    /// Calls `each` for every prefix that covers this one or lies in it. Costs what they are.
    pub fn about(&self, prefix: Prefix, each: &mut dyn FnMut(Prefix, &V)) {
        let shorter = (0..prefix.length()).map(|length| Prefix::covering(prefix.network(), length));
        for prefix in shorter {
            if let Some(value) = self.get(prefix) {
                each(prefix, value);
            }
        }
        let (first, length) = (prefix.network(), prefix.length());
        let mut told = |inside: Prefix, value: &V| {
            let goes_on = prefix.includes(inside.network());
            if goes_on && inside.length() >= length {
                each(inside, value);
            }
            goes_on
        };
        match first.is_v4() {
            true => {
                _ = self
                    .v4
                    .iter_from(&(v4_bits(first), length))
                    .all(|(&key, value)| told(v4_prefix(key), value))
            }
            false => {
                _ = self
                    .v6
                    .iter_from(&(first.octets16(), length))
                    .all(|(&key, value)| told(v6_prefix(key), value))
            }
        }
    }

    /// Whether one of a version's values is such.
    pub(super) fn any_of(&self, version: IpVersion, is: impl Fn(&V) -> bool) -> bool {
        match version {
            IpVersion::V4 => self.v4.iter().any(|(_, value)| is(value)),
            IpVersion::V6 => self.v6.iter().any(|(_, value)| is(value)),
        }
    }

    /// All prefixes: those of IPv4 first, by their addresses.
    pub fn iter(&self) -> impl Iterator<Item = (Prefix, &V)> {
        let v4 = self.v4.iter().map(|(&key, value)| (v4_prefix(key), value));
        let v6 = self.v6.iter().map(|(&key, value)| (v6_prefix(key), value));
        v4.chain(v6)
    }

    /// Calls `each` for every prefix whose value differs from that in another table: prefix, value
    /// there, value here.
    pub fn differences(&self, other: &Self, each: Differing<'_, V>)
    where
        V: PartialEq,
    {
        self.v4.differences(&other.v4, &mut |&key, old, new| {
            each(v4_prefix(key), old, new)
        });
        self.v6.differences(&other.v6, &mut |&key, old, new| {
            each(v6_prefix(key), old, new)
        });
    }

    fn memory_bytes(&self) -> usize {
        self.v4.memory_bytes() + self.v6.memory_bytes()
    }
}

const fn v4_bits(address: Address) -> u32 {
    u32::from_be_bytes(address.octets4())
}

fn v4_prefix((network, length): (u32, u8)) -> Prefix {
    Prefix::covering(Address::from_v4(network.to_be_bytes()), length)
}

fn v6_prefix((network, length): ([u8; 16], u8)) -> Prefix {
    Prefix::covering(Address::from_v6(network), length)
}

/// A route group and its routes. Equal routes of different prefixes are one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RouteTable {
    /// The group.
    pub group: RouteGroup,
    routes: ByPrefix<Arc<Route>>,
    distinct: Interned<Route>,
}

impl RouteTable {
    pub(super) fn new(group: RouteGroup) -> Self {
        Self {
            group,
            ..Self::default()
        }
    }

    /// The routes.
    #[must_use]
    pub const fn routes(&self) -> &ByPrefix<Arc<Route>> {
        &self.routes
    }

    /// All different routes, without their prefixes.
    pub fn distinct(&self) -> impl Iterator<Item = &Route> {
        self.distinct.values()
    }

    pub(super) fn insert(&mut self, prefix: Prefix, route: Route) {
        let route = self.distinct.take(route);
        if let Some(old) = self.routes.insert(prefix, route) {
            self.distinct.release(&old);
        }
    }

    pub(super) fn remove(&mut self, prefix: Prefix) -> Option<Route> {
        let route = self.routes.remove(prefix)?;
        self.distinct.release(&route);
        Some((*route).clone())
    }

    /// Bytes that the routes take.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.routes.memory_bytes() + self.distinct.memory_bytes()
    }
}

/// A virtual network and the mappings of its addresses. What mappings have in common, all but the
/// MAC address, is kept once: 24 bytes for one of IPv4, 40 for one of IPv6.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VnetTable {
    /// The network.
    pub vnet: Vnet,
    v4: SharedMap<u32, MappedHost>,
    v6: SharedMap<[u8; 16], MappedHost>,
    distinct: Interned<VnetMapping>,
}

/// Where an address is.
#[derive(Clone, Debug, PartialEq, Eq)]
struct MappedHost {
    /// Without a MAC address.
    mapping: Arc<VnetMapping>,
    mac_address: Option<MacAddress>,
}

impl MappedHost {
    fn mapping(&self) -> VnetMapping {
        VnetMapping {
            mac_address: self.mac_address,
            ..(*self.mapping).clone()
        }
    }
}

impl VnetTable {
    pub(super) fn new(vnet: Vnet) -> Self {
        Self {
            vnet,
            v4: SharedMap::default(),
            v6: SharedMap::default(),
            distinct: Interned::default(),
        }
    }

    /// How many mappings of IPv4, and how many of IPv6.
    #[must_use]
    pub const fn len_by_version(&self) -> (usize, usize) {
        (self.v4.len(), self.v6.len())
    }

    /// The mapping of an address.
    #[must_use]
    pub fn mapping(&self, address: Address) -> Option<VnetMapping> {
        let place = match address.is_v4() {
            true => self.v4.get(&v4_bits(address)),
            false => self.v6.get(&address.octets16()),
        };
        place.map(MappedHost::mapping)
    }

    /// All mappings: those of IPv4 first, by their addresses.
    pub fn mappings(&self) -> impl Iterator<Item = (Address, VnetMapping)> {
        self.places()
            .map(|(address, place)| (address, place.mapping()))
    }

    /// All mappings, in two parts: what an address shares with others, which has no MAC address,
    /// and its MAC address.
    pub fn parts(&self) -> impl Iterator<Item = (Address, &Arc<VnetMapping>, Option<MacAddress>)> {
        self.places()
            .map(|(address, place)| (address, &place.mapping, place.mac_address))
    }

    fn places(&self) -> impl Iterator<Item = (Address, &MappedHost)> {
        let v4 = self.v4.iter();
        let v4 = v4.map(|(bits, place)| (Address::from_v4(bits.to_be_bytes()), place));
        let v6 = self.v6.iter();
        let v6 = v6.map(|(octets, place)| (Address::from_v6(*octets), place));
        v4.chain(v6)
    }

    /// All different mappings, without addresses and MAC addresses.
    pub fn distinct(&self) -> impl Iterator<Item = &VnetMapping> {
        self.distinct.values()
    }

    /// Calls `each` for every address whose mapping differs from that in another table: address,
    /// mapping there, mapping here.
    pub fn differences(
        &self,
        other: &Self,
        each: &mut dyn FnMut(Address, Option<VnetMapping>, Option<VnetMapping>),
    ) {
        let mut told = |address, old: Option<&MappedHost>, new: Option<&MappedHost>| {
            each(
                address,
                old.map(MappedHost::mapping),
                new.map(MappedHost::mapping),
            );
        };
        self.v4.differences(&other.v4, &mut |bits, old, new| {
            told(Address::from_v4(bits.to_be_bytes()), old, new);
        });
        self.v6.differences(&other.v6, &mut |octets, old, new| {
            told(Address::from_v6(*octets), old, new);
        });
    }

    pub(super) fn insert(&mut self, address: Address, mut mapping: VnetMapping) {
        let mac_address = mapping.mac_address.take();
        let mapping = self.distinct.take(mapping);
        let place = MappedHost {
            mapping,
            mac_address,
        };
        let old = match address.is_v4() {
            true => self.v4.insert(v4_bits(address), place),
            false => self.v6.insert(address.octets16(), place),
        };
        if let Some(old) = old {
            self.distinct.release(&old.mapping);
        }
    }

    pub(super) fn remove(&mut self, address: Address) -> Option<VnetMapping> {
        let place = match address.is_v4() {
            true => self.v4.remove(&v4_bits(address)),
            false => self.v6.remove(&address.octets16()),
        }?;
        self.distinct.release(&place.mapping);
        Some(place.mapping())
    }

    /// Bytes that the mappings take.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.v4.memory_bytes() + self.v6.memory_bytes() + self.distinct.memory_bytes()
    }
}

/// A group of access control rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AclTable {
    /// The group.
    pub group: AclGroup,
    pub(super) rules: SharedMap<AclRuleId, Arc<AclRule>>,
}

impl AclTable {
    /// The rules, by their names.
    #[must_use]
    pub const fn rules(&self) -> &SharedMap<AclRuleId, Arc<AclRule>> {
        &self.rules
    }

    /// The rules in the order in which they are asked: by priority, then those whose names are
    /// numbers by these, then by name.
    #[must_use]
    pub fn in_order(&self) -> Vec<(&AclRuleId, &Arc<AclRule>)> {
        let mut rules: Vec<_> = self.rules.iter().collect();
        rules.sort_by_key(|(id, rule)| {
            let number = id.as_str().parse().unwrap_or(u64::MAX);
            (rule.priority, number)
        });
        rules
    }

    /// Prefixes in all rules.
    #[must_use]
    pub fn prefixes(&self) -> usize {
        let rules = self.rules.values();
        rules
            .map(|rule| rule.src_addr.len() + rule.dst_addr.len())
            .sum()
    }

    /// Bytes that the rules take.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        let rules = self.rules.values().map(|rule| {
            size_of::<AclRule>()
                + rule.src_addr.memory_bytes()
                + rule.dst_addr.memory_bytes()
                + size_of_val(&*rule.protocols)
                + size_of_val(&*rule.src_port)
                + size_of_val(&*rule.dst_port)
                + size_of_val(&*rule.src_tag)
                + size_of_val(&*rule.dst_tag)
        });
        rules.sum::<usize>() + self.rules.memory_bytes()
    }
}

/// A meter policy and its rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MeterTable {
    /// The policy.
    pub policy: MeterPolicy,
    /// Its rules, by their numbers.
    pub rules: SharedMap<u32, MeterRule>,
}

/// A port map and its ranges.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortMapTable {
    /// The map.
    pub map: PortMap,
    /// Its ranges, none of which overlaps another.
    pub ranges: SharedMap<PortRange, PortMapRange>,
}

/// What an inbound rule of an ENI matches.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InboundMatch {
    /// The VNI.
    pub vni: Vni,
    /// Outer sources.
    pub source: Prefix,
    /// The rule's priority, if its key has one.
    pub priority: Option<u32>,
}

/// An ENI and all tables that it has for itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EniTable {
    /// The ENI.
    pub eni: Eni,
    /// The routes of its outbound packets; none, and they are dropped.
    pub route_group: Option<RouteGroupId>,
    /// Its NAT gateway.
    pub nat: Option<EniNat>,
    /// Rules for its inbound packets.
    pub route_rules: SharedMap<InboundMatch, RouteRule>,
    /// Groups that ask inbound packets, by stage.
    pub acl_in: Stages,
    /// Groups that ask outbound packets, by stage.
    pub acl_out: Stages,
}

/// What each stage asks; one without groups is skipped.
pub type Stages = [AclBinding; AclStage::COUNT];

impl EniTable {
    pub(super) fn new(eni: Eni) -> Self {
        Self {
            eni,
            route_group: None,
            nat: None,
            route_rules: SharedMap::default(),
            acl_in: Stages::default(),
            acl_out: Stages::default(),
        }
    }

    /// Both directions' stages.
    pub fn stages(&self) -> impl Iterator<Item = &AclBinding> {
        self.acl_in.iter().chain(&self.acl_out)
    }
}
