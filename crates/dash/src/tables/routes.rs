//! A group of outbound routes, compiled once and shared by all ENIs that follow it.

use std::collections::HashMap;

use twinpath_classify::{Prefix, Versions};
use twinpath_core::wire::Address;

use super::numbers::{Numbers, Used};
use super::ranges::{Ranges, v4_range, v6_range};
use crate::objects::{MeterBits, Route, RouteAction, RouteGroupId, ServiceTunnel};
use crate::source::ObjectSource;

const NONE: u32 = u32::MAX;
/// Of more changed routes at once all are compiled.
const FEW: usize = 32;

/// What a route does, with numbers for names.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub struct RouteEntry {
    /// What is done.
    pub action: RouteKind,
    /// Outer source of Private Link packets, instead of the ENI's.
    pub underlay_sip: Option<Address>,
    /// A tunnel around what the action makes.
    pub tunnel: Option<u32>,
    /// What is done to the metering class.
    pub metering: MeterBits,
}

/// What is done with packets on a route.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub enum RouteKind {
    /// A mapping of this network says where: of `overlay_ip`, or else of the inner destination.
    Vnet {
        /// Whose mappings.
        vnet: u32,
        /// Whose mapping.
        overlay_ip: Option<Address>,
    },
    /// To the underlay as it is, unless there is a tunnel.
    Direct,
    /// From IPv4 to IPv6 inside.
    ServiceTunnel(ServiceTunnel),
    /// Dropped.
    Drop,
}

impl RouteEntry {
    fn new(route: &Route, numbers: &mut Numbers) -> Self {
        let action = match &route.action {
            RouteAction::Vnet(vnet) => RouteKind::Vnet {
                vnet: numbers.vnets.of(vnet),
                overlay_ip: None,
            },
            RouteAction::VnetDirect { vnet, overlay_ip } => RouteKind::Vnet {
                vnet: numbers.vnets.of(vnet),
                overlay_ip: *overlay_ip,
            },
            RouteAction::Direct => RouteKind::Direct,
            RouteAction::ServiceTunnel(addresses) => RouteKind::ServiceTunnel(**addresses),
            RouteAction::Drop => RouteKind::Drop,
        };
        Self {
            action,
            underlay_sip: route.underlay_sip,
            tunnel: route.tunnel.as_ref().map(|name| numbers.tunnels.of(name)),
            metering: route.metering,
        }
    }
}

/// Routes by prefix. The longest that covers an address is taken.
#[derive(Clone, Debug)]
pub struct RouteTable {
    group: RouteGroupId,
    v4: Ranges<u32>,
    v6: Ranges<u128>,
    /// What they do, each once: a hundred thousand routes have few different actions.
    routes: Box<[RouteEntry]>,
    count: usize,
    /// How many different actions there were when all were compiled.
    compiled: usize,
}

impl RouteTable {
    /// Compiles a group; `None` if it is not there.
    pub(crate) fn compile(
        group: &RouteGroupId,
        source: &dyn ObjectSource,
        numbers: &mut Numbers,
    ) -> Option<Self> {
        if !source.has_route_group(group) {
            return None;
        }
        let mut builder = Builder::default();
        source.routes(group, &mut |prefix, route| {
            builder.add(prefix, RouteEntry::new(route, numbers));
        });
        Some(builder.finish(group.clone()))
    }

    /// The same after a change of these prefixes' routes; `None` if too much is different to make it
    /// of what is here.
    pub(crate) fn changed(
        &self,
        group: &RouteGroupId,
        prefixes: &[Prefix],
        source: &dyn ObjectSource,
        numbers: &mut Numbers,
    ) -> Option<Self> {
        if !source.has_route_group(group) || prefixes.len() > FEW {
            return None;
        }
        let mut next = self.clone();
        let mut builder = Builder {
            numbers: self.routes.iter().copied().zip(0..).collect(),
            routes: self.routes.to_vec(),
            ..Builder::default()
        };
        for &prefix in prefixes {
            builder.v4.clear();
            builder.v6.clear();
            source.routes_about(group, prefix, &mut |prefix, route| {
                builder.add(prefix, RouteEntry::new(route, numbers));
            });
            next.replace(prefix, &builder)?;
        }
        next.routes = builder.routes.into();
        next.count = source.route_count(group);
        // Actions that no route has any more are forgotten when all are compiled.
        (next.routes.len() <= 2 * self.compiled + FEW).then_some(next)
    }

    /// What a prefix covers has the routes about it that were built.
    fn replace(&mut self, prefix: Prefix, about: &Builder) -> Option<()> {
        match prefix.versions() {
            Versions::V4 => {
                let (first, last) = v4_range(prefix);
                let about = Ranges::best(&about.v4, NONE);
                let parts = about.parts_between(first, last);
                self.v4 = self.v4.replaced(first, last, parts);
            }
            Versions::V6 => {
                let (first, last) = v6_range(prefix);
                let about = Ranges::best(&about.v6, NONE);
                let parts = about.parts_between(first, last);
                self.v6 = self.v6.replaced(first, last, parts);
            }
            Versions::Both => return None,
        }
        Some(())
    }

    /// The route of an inner destination.
    #[must_use]
    #[inline]
    pub fn lookup(&self, address: Address) -> Option<&RouteEntry> {
        let number = match address.is_v4() {
            true => self.v4.of(address.0 as u32),
            false => self.v6.of(address.0),
        };
        self.routes.get(number as usize)
    }

    /// The group.
    #[must_use]
    pub const fn group(&self) -> &RouteGroupId {
        &self.group
    }

    /// The addresses around one with which the same is done, in words: a prefix where they are one. Around
    /// a route's own addresses are those of its neighbours that do the same.
    #[must_use]
    pub fn alike(&self, address: Address) -> String {
        let [first, last] = self.bounds(address);
        let bits = if first.is_v4() { 32 } else { 128 };
        let length = bits - (last.0 - first.0).trailing_ones() as u8;
        let prefix = Prefix::covering(first, length);
        match prefix.network() == first && prefix.last() == last {
            true => prefix.to_string(),
            false => format!("{first} to {last}"),
        }
    }

    fn bounds(&self, address: Address) -> [Address; 2] {
        match address.is_v4() {
            true => {
                let (first, behind) = self.v4.around(address.0 as u32);
                let last = behind.map_or(u32::MAX, |behind| behind - 1);
                [first, last].map(|bits| Address::from_v4(bits.to_be_bytes()))
            }
            false => {
                let (first, behind) = self.v6.around(address.0);
                [first, behind.map_or(u128::MAX, |behind| behind - 1)].map(Address)
            }
        }
    }

    /// Notes the numbers that routes hold.
    pub(crate) fn note_used(&self, used: &mut Used) {
        for route in &self.routes {
            used.tunnels.extend(route.tunnel);
            if let RouteKind::Vnet { vnet, .. } = route.action {
                used.vnets.insert(vnet);
            }
        }
    }

    /// How many routes there are.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.count
    }

    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Memory taken, in bytes.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.v4.memory_bytes() + self.v6.memory_bytes() + size_of_val(&*self.routes)
    }
}

#[derive(Default)]
struct Builder {
    numbers: HashMap<RouteEntry, u32>,
    routes: Vec<RouteEntry>,
    /// First and last address, and how short the prefix is: the shorter the worse.
    v4: Vec<(u32, u32, u8, u32)>,
    v6: Vec<(u128, u128, u8, u32)>,
    count: usize,
}

impl Builder {
    fn add(&mut self, prefix: Prefix, route: RouteEntry) {
        let next = self.routes.len() as u32;
        let number = *self.numbers.entry(route).or_insert(next);
        if number == next {
            self.routes.push(route);
        }
        self.count += 1;
        let worse = 128 - prefix.length();
        let versions = prefix.versions();
        if versions.includes(true) {
            let (first, last) = v4_range(prefix);
            self.v4.push((first, last, worse, number));
        }
        if versions.includes(false) {
            let (first, last) = v6_range(prefix);
            self.v6.push((first, last, worse, number));
        }
    }

    fn finish(self, group: RouteGroupId) -> RouteTable {
        RouteTable {
            group,
            v4: Ranges::best(&self.v4, NONE),
            v6: Ranges::best(&self.v6, NONE),
            compiled: self.routes.len(),
            routes: self.routes.into(),
            count: self.count,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn route(class: u32) -> RouteEntry {
        RouteEntry {
            action: RouteKind::Direct,
            underlay_sip: None,
            tunnel: None,
            metering: MeterBits {
                or: class,
                ..MeterBits::default()
            },
        }
    }

    fn address(is_v4: bool, bits: u32) -> Address {
        match is_v4 {
            true => Address::from_v4(bits.to_be_bytes()),
            false => Address(u128::from(bits) << 96 | u128::from(bits)),
        }
    }

    proptest! {
        #[test]
        fn the_longest_prefix_wins(
            is_v4 in any::<bool>(),
            prefixes in prop::collection::vec((any::<u32>(), 0u8..=32, 0u32..5), 0..60),
            addresses in prop::collection::vec(any::<u32>(), 0..40),
        ) {
            let mut routes: Vec<(Prefix, RouteEntry)> = Vec::new();
            for (bits, length, class) in prefixes {
                let prefix = Prefix::covering(address(is_v4, bits), length);
                if routes.iter().all(|(other, _)| *other != prefix) {
                    routes.push((prefix, route(class)));
                }
            }
            let mut builder = Builder::default();
            routes.iter().for_each(|(prefix, route)| builder.add(*prefix, *route));
            let table = builder.finish("g".into());
            let ends = routes.iter().flat_map(|(prefix, _)| [prefix.network(), prefix.last()]);
            let looked_at = addresses.iter().map(|&bits| address(is_v4, bits)).chain(ends);
            for address in looked_at {
                let covering = routes.iter().filter(|(prefix, _)| prefix.includes(address));
                let longest = covering.max_by_key(|(prefix, _)| prefix.length());
                prop_assert_eq!(table.lookup(address), longest.map(|(_, route)| route));
            }
        }
    }

    #[test]
    fn what_does_the_same_is_a_prefix_or_a_range() {
        let mut builder = Builder::default();
        for (network, length, class) in [([10, 0, 0, 0], 8, 1), ([10, 1, 0, 0], 16, 2)] {
            let prefix = Prefix::covering(Address::from_v4(network), length);
            builder.add(prefix, route(class));
        }
        let table = builder.finish("g".into());
        let alike = |address| table.alike(Address::from_v4(address));
        assert_eq!(alike([10, 1, 2, 3]), "10.1.0.0/16");
        assert_eq!(alike([10, 0, 2, 3]), "10.0.0.0/16");
        assert_eq!(alike([10, 2, 2, 3]), "10.2.0.0 to 10.255.255.255");
        assert_eq!(table.alike(Address(0xfd00 << 112)), "::/0");
    }

    #[test]
    fn a_hundred_thousand_routes_take_two_starts_each() {
        let mut builder = Builder::default();
        for at in 0..100_000u32 {
            let network = Address::from_v4((at << 12 | 0x80).to_be_bytes());
            builder.add(Prefix::covering(network, 25), route(at % 7));
        }
        let table = builder.finish("g".into());
        assert_eq!(table.len(), 100_000);
        let bytes = table.memory_bytes() as f64 / 100_000.0;
        assert!(bytes <= 19.0, "{bytes} bytes a route");
    }
}
