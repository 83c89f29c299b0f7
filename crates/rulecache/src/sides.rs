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
    Inside(Box<RouteTable>),
}

impl Sides {
    /// Every packet goes in order.
    pub const ONE_WAY: Self = Self(Kind::OneWay);

    /// Packets come with their direction. It counts as part of the segment: that of replies has
    /// the next number (see [`Self::segment`]).
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
        Ok(Self(Kind::Inside(Box::new(table))))
    }

    /// Whether no source makes a difference.
    #[inline(always)]
    pub const fn is_one_way(&self) -> bool {
        !matches!(self.0, Kind::Inside(_))
    }

    /// The direction of a packet from this source, as it arrives.
    #[inline]
    pub fn direction(&self, source: Address) -> Direction {
        match &self.0 {
            Kind::Inside(table) => direction(table.lookup(source).is_some()),
            Kind::OneWay | Kind::Known => Direction::Original,
        }
    }

    /// The number that a segment has in keys of packets with this direction.
    #[inline(always)]
    pub const fn segment(number: u8, direction: Direction) -> u8 {
        number.wrapping_add(direction as u8)
    }

    /// The number in the key of a packet that is about to enter the segment.
    pub fn segment_of(&self, number: u8, packet: &Packet) -> u8 {
        match self.0 {
            Kind::Known => Self::segment(number, packet.direction),
            Kind::OneWay | Kind::Inside(_) => number,
        }
    }

    /// Sets the packet's direction; what it was told from is recorded.
    pub fn tell(&self, packet: &mut Packet, recording: &mut Recording) {
        match &self.0 {
            Kind::Known => {}
            Kind::OneWay => packet.direction = Direction::Original,
            Kind::Inside(table) => {
                let found = table.lookup_examined(packet.source().address);
                Recorded::new(packet, recording, &NoRules, 0).examined_source(found.examined_bits);
                packet.direction = direction(found.next_hop.is_some());
            }
        }
    }
}

const fn direction(is_from_inside: bool) -> Direction {
    match is_from_inside {
        true => Direction::Original,
        false => Direction::Reply,
    }
}
