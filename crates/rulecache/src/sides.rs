//! Which way a packet goes through the chain.

use crate::recorded::{NoRules, Recorded};
use crate::recording::Recording;
use twinpath_classify::Prefix;
use twinpath_classify::lpm::{RouteError, RouteLimits, RouteTable};
use twinpath_core::wire::Address;
use twinpath_core::{Direction, Packet};

/// The networks on the chain's inside: packets from there go through it in order, all others in
/// reverse, as replies. Without any, all go in order.
pub struct Sides(Kind);

enum Kind {
    OneWay,
    Known,
    Inside(Box<Inside>),
    /// By the port of arrival: a bit for each, set if it is inside.
    Ports(u64),
}

struct Inside {
    table: RouteTable,
    /// The same, if it is no more than a few networks of IPv4: mask and value.
    few: Option<Vec<(u32, u32)>>,
}

/// As many networks are looked through before a table is quicker.
const FEW: usize = 6;

/// [`Sides`] of packets over IPv4.
#[derive(Copy, Clone)]
pub struct SidesV4<'a> {
    all: &'a Sides,
    few: Option<&'a [(u32, u32)]>,
}

impl SidesV4<'_> {
    /// [`Sides::direction`] of a packet from this source, which came in by this port.
    #[inline(always)]
    pub fn direction(self, source: u32, port: u16) -> Direction {
        match self.few {
            Some(few) => direction(few.iter().any(|(mask, value)| source & mask == *value)),
            None => self
                .all
                .direction(Address::from_v4(source.to_be_bytes()), port),
        }
    }
}

impl Sides {
    /// Every packet goes in order.
    pub const ONE_WAY: Self = Self(Kind::OneWay);

    /// Packets come with their direction, which is part of their [keys](crate::MatchKey).
    pub const KNOWN: Self = Self(Kind::Known);

    /// Packets from these networks go in order.
    ///
    /// # Errors
    /// More networks than a route table takes.
    pub fn new(inside: &[Prefix]) -> Result<Self, RouteError> {
        if inside.is_empty() {
            return Ok(Self::ONE_WAY);
        }
        let limits = RouteLimits {
            v4: inside.len(),
            v6: inside.len(),
        };
        let mut table = RouteTable::new(limits);
        for prefix in inside {
            table.insert(*prefix, 0)?;
        }
        let few = few_of(inside);
        Ok(Self(Kind::Inside(Box::new(Inside { table, few }))))
    }

    /// Packets that come in by these ports go in order; each is below 64.
    pub fn of_ports(inside: &[u16]) -> Self {
        let bit = |port: &u16| 1u64.checked_shl(u32::from(*port)).unwrap_or(0);
        Self(Kind::Ports(
            inside.iter().map(bit).fold(0, |all, bit| all | bit),
        ))
    }

    /// Whether neither source nor port makes a difference.
    #[inline(always)]
    pub const fn is_one_way(&self) -> bool {
        matches!(self.0, Kind::OneWay | Kind::Known)
    }

    /// The direction of a packet from this source, as it arrives by a port.
    #[inline]
    pub fn direction(&self, source: Address, port: u16) -> Direction {
        match &self.0 {
            Kind::Ports(inside) => of_port(*inside, port),
            Kind::Inside(inside) => direction(inside.table.lookup(source).is_some()),
            Kind::OneWay | Kind::Known => Direction::Original,
        }
    }

    /// What tells the direction of packets over IPv4, for many of them.
    #[inline(always)]
    pub fn of_v4(&self) -> SidesV4<'_> {
        let few: Option<&[_]> = match &self.0 {
            Kind::Inside(inside) => inside.few.as_deref(),
            Kind::Ports(_) => None,
            Kind::OneWay | Kind::Known => Some(&[(0, 0)]),
        };
        SidesV4 { all: self, few }
    }

    /// The direction in the key of a packet: where it is told from what keys hold anyway, they need
    /// no other.
    pub fn key_direction(&self, packet: &Packet) -> Direction {
        match self.0 {
            Kind::Known => packet.direction,
            Kind::OneWay | Kind::Inside(_) | Kind::Ports(_) => Direction::Original,
        }
    }

    /// Sets the packet's direction; what it was told from is recorded.
    pub fn tell(&self, packet: &mut Packet, recording: &mut Recording) {
        match &self.0 {
            Kind::Known => {}
            Kind::OneWay => packet.direction = Direction::Original,
            Kind::Ports(inside) => {
                let port = Recorded::new(packet, recording, &NoRules, 0).ingress();
                packet.direction = of_port(*inside, port);
            }
            Kind::Inside(inside) => {
                let found = inside.table.lookup_examined(packet.source().address);
                Recorded::new(packet, recording, &NoRules, 0).examined_source(found.examined_bits);
                packet.direction = direction(found.next_hop.is_some());
            }
        }
    }
}

/// The direction of what comes in by a port.
#[inline(always)]
fn of_port(inside: u64, port: u16) -> Direction {
    direction(inside.checked_shr(port.into()).unwrap_or(0) & 1 != 0)
}

fn few_of(inside: &[Prefix]) -> Option<Vec<(u32, u32)>> {
    let v4 = inside
        .iter()
        .filter(|prefix| prefix.versions().includes(true));
    let few: Vec<_> = v4.map(mask_and_value).take(FEW + 1).collect();
    (few.len() <= FEW).then_some(few)
}

fn mask_and_value(prefix: &Prefix) -> (u32, u32) {
    let host_bits = 32 - u32::from(prefix.length().min(32));
    let mask = u32::MAX.checked_shl(host_bits).unwrap_or(0);
    (mask, prefix.network().0 as u32 & mask)
}

const fn direction(is_from_inside: bool) -> Direction {
    match is_from_inside {
        true => Direction::Original,
        false => Direction::Reply,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn prefix() -> impl Strategy<Value = Prefix> {
        let v4 = (any::<u32>(), 0u8..=32, any::<bool>()).prop_map(|(address, length, is_near)| {
            let address = if is_near { address & 0xff } else { address };
            Prefix::covering(Address::from_v4(address.to_be_bytes()), length)
        });
        let v6 = (any::<u128>(), 0u8..=128)
            .prop_map(|(address, length)| Prefix::covering(Address(address), length));
        prop_oneof![8 => v4, 2 => v6, 1 => Just(Prefix::ANY)]
    }

    proptest! {
        /// A few networks are looked through, more are in a table: both say what each says.
        #[test]
        fn few_networks_say_the_same_as_a_table(
            inside in prop::collection::vec(prefix(), 1..10),
            sources in prop::collection::vec(any::<u32>(), 1..20),
        ) {
            let sides = Sides::new(&inside).expect("few enough");
            let near = inside.iter().map(|prefix| prefix.network().0 as u32);
            for source in sources.into_iter().chain(near).flat_map(|source| [source, source & 0xff]) {
                let address = Address::from_v4(source.to_be_bytes());
                let expected = direction(inside.iter().any(|prefix| prefix.includes(address)));
                prop_assert_eq!(sides.of_v4().direction(source, 0), expected);
                prop_assert_eq!(sides.direction(address, 0), expected);
            }
        }
    }
}
