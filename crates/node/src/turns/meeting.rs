//! What packets have in common that must not overtake each other.

use super::gates::Claim;
use std::collections::{HashMap, HashSet};
use twinpath_classify::lpm::RouteError;
use twinpath_core::key::{KeyKind, Role};
use twinpath_core::steering::Alias;
use twinpath_core::wire::layout::{Layout, PlainEnds};
use twinpath_core::wire::{Address, fields};
use twinpath_core::{Direction, FlowKey, Frame, Keyed, Steering};
use twinpath_nf::napt;
use twinpath_rulecache::Sides;

/// By what packets meet.
pub enum Meeting {
    /// Their flow; they are of one kind if they come from one end.
    Flow,
    /// Where addresses are translated, the host outside: all else of a connection looks different
    /// on either side, and only the translation knows what belongs together.
    HostOutside(Box<Translated>),
}

/// What is known of an address translation in advance.
pub struct Translated {
    inside: Sides,
    external: HashSet<Address>,
    /// Services and their backends: all of one service as one of them.
    services: HashMap<Address, Address>,
}

impl Meeting {
    /// In a chain with this address translation and these aliases.
    ///
    /// # Errors
    /// Too many networks inside.
    pub fn new(napt: Option<&napt::Config>, aliases: &[Alias]) -> Result<Self, RouteError> {
        let Some(napt) = napt else {
            return Ok(Self::Flow);
        };
        Ok(Self::HostOutside(Box::new(Translated {
            inside: Sides::new(napt.inside())?,
            external: napt.external().iter().copied().collect(),
            services: services(aliases),
        })))
    }

    /// What a packet claims that has just arrived, if later it could not be told from what it
    /// looks like.
    #[inline]
    pub fn claim_in_advance(
        &self,
        frame: &Frame,
        layout: &Layout,
        steering: &Steering,
    ) -> Option<Claim> {
        match self {
            Self::Flow => None,
            Self::HostOutside(translated) => Some(translated.claim(frame, layout, steering.seed())),
        }
    }

    /// The same of a plain packet with these ends.
    #[inline]
    pub fn claim_of_ends(&self, ends: PlainEnds, steering: &Steering) -> Option<Claim> {
        let address = |v4: u64| Address::from_v4((v4 as u32).to_be_bytes());
        let ends = (address(ends.addresses >> 32), address(ends.addresses));
        match self {
            Self::Flow => None,
            Self::HostOutside(translated) => {
                Some(translated.claim_between(ends, false, steering.seed()))
            }
        }
    }

    /// What a packet claims, as it looks now.
    #[inline]
    pub fn claim(&self, frame: &Frame, layout: &Layout, steering: &Steering) -> Claim {
        let seed = steering.seed();
        match self {
            Self::Flow => {
                let keyed = steering.key(frame.bytes(), layout).unwrap_or_default();
                Claim::new(keyed.key.hash(seed), kind(frame, layout, &keyed, seed))
            }
            Self::HostOutside(translated) => translated.claim(frame, layout, seed),
        }
    }
}

/// Packets of one flow may pass together if they come from one end and are equally whole. An entry
/// of a key-value store has as many ends as clients.
#[inline]
fn kind(frame: &Frame, layout: &Layout, keyed: &Keyed, seed: u64) -> u32 {
    match keyed.key.kind() {
        KeyKind::Entry => {
            let client = fields::source(frame.bytes(), layout);
            let (key, _) = FlowKey::connection(client, client, layout.protocol);
            key.hash(seed) as u32
        }
        KeyKind::Connection | KeyKind::Fragments => keyed.side as u32 | (keyed.role as u32) << 1,
    }
}

impl Translated {
    fn claim(&self, frame: &Frame, layout: &Layout, seed: u64) -> Claim {
        self.claim_between(ends(frame, layout), layout.inner.is_some(), seed)
    }

    fn claim_between(&self, (from, to): (Address, Address), is_error: bool, seed: u64) -> Claim {
        let claim = |(one, other), kind| {
            let (key, side) = FlowKey::fragments(one, other, 0);
            let kind = if one == other { kind } else { side as u32 };
            Claim::new(key.hash(seed), kind | u32::from(is_error) << 2)
        };
        match (self.services.get(&from), self.services.get(&to)) {
            (Some(&service), _) => return claim((service, service), 2),
            (None, Some(&service)) => return claim((service, service), 3),
            (None, None) => {}
        }
        match (self.is_inside(from), self.is_inside(to)) {
            (true, false) => claim((to, to), 0),
            // Also one that is not translated belongs to what hosts inside have sent out.
            (false, true) => claim((from, from), 1),
            (false, false) if self.external.contains(&to) => claim((from, from), 1),
            _ => claim((from, to), 0),
        }
    }

    fn is_inside(&self, address: Address) -> bool {
        self.inside.direction(address) == Direction::Original
    }
}

/// The ends of what a packet belongs to, the one first that it comes from. An ICMP error belongs
/// to what it quotes, and comes from whom that was for, or from the way there.
fn ends(frame: &Frame, layout: &Layout) -> (Address, Address) {
    let bytes = frame.bytes();
    let quoted = fields::inner_destination(bytes, layout).zip(fields::inner_source(bytes, layout));
    let whole = || {
        (
            fields::source(bytes, layout),
            fields::destination(bytes, layout),
        )
    };
    let (from, to) = quoted.unwrap_or_else(whole);
    (from.address, to.address)
}

/// One address for all that any aliases connect.
fn services(aliases: &[Alias]) -> HashMap<Address, Address> {
    let mut services: HashMap<Address, Address> = HashMap::new();
    for alias in aliases {
        let (backend, service) = (alias.from.address, alias.stands_for.address);
        let former = *services.entry(backend).or_insert(service);
        let one = *services.entry(service).or_insert(former);
        for known in services.values_mut().filter(|known| **known == former) {
            *known = one;
        }
    }
    services
}

/// Roles fit beside the side in a kind.
const _: () = assert!((Role::Error as u32) < 4, "two bits");

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use twinpath_core::wire::Endpoint;

    fn alias(from: u8, stands_for: u8) -> Alias {
        let host = |host| Endpoint::v4([10, 0, 0, host], 80);
        Alias {
            from: host(from),
            protocol: 6,
            stands_for: host(stands_for),
            row: 0,
        }
    }

    proptest! {
        /// Hosts are one if and only if aliases lead from one to the other.
        #[test]
        fn whatever_aliases_connect_is_one(pairs in prop::collection::vec((0..12u8, 0..12u8), 0..12)) {
            let aliases: Vec<_> = pairs.iter().map(|&(from, to)| alias(from, to)).collect();
            let found = services(&aliases);
            let address = |host: u8| Address::from_v4([10, 0, 0, host]);
            let mut reached = [[false; 12]; 12];
            (0..12).for_each(|host| reached[host][host] = true);
            for _ in 0..12 {
                for &(from, to) in &pairs {
                    let (from, to) = (usize::from(from), usize::from(to));
                    for host in &mut reached {
                        let either = host[from] || host[to];
                        (host[from], host[to]) = (either, either);
                    }
                }
            }
            for one in 0..12u8 {
                for other in (0..12u8).filter(|&other| other != one) {
                    let is_one = found.get(&address(one)).is_some_and(|name| found.get(&address(other)) == Some(name));
                    prop_assert_eq!(is_one, reached[usize::from(one)][usize::from(other)], "{} {}", one, other);
                }
            }
        }
    }
}
