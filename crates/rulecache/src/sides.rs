//! Which way a packet goes through the chain.

use crate::recorded::{NoRules, Recorded};
use crate::recording::Recording;
use twinpath_classify::Prefix;
use twinpath_classify::lpm::{RouteError, RouteLimits, RouteTable};
use twinpath_core::{Direction, Packet};

/// The networks on the chain's inside: packets from there go through it in order, all others in
/// reverse, as replies. Without any, all go in order.
pub struct Sides {
    inside: Option<RouteTable>,
}

impl Sides {
    /// Every packet goes in order.
    pub const ONE_WAY: Self = Self { inside: None };

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
        Ok(Self {
            inside: Some(table),
        })
    }

    /// Sets the packet's direction; what it was told from is recorded.
    pub fn tell(&self, packet: &mut Packet, recording: &mut Recording) {
        let Some(table) = &self.inside else {
            packet.direction = Direction::Original;
            return;
        };
        let decision = table.lookup_examined(packet.source().address);
        Recorded::new(packet, recording, &NoRules, 0).examined_source(decision.examined_bits);
        packet.direction = match decision.next_hop {
            Some(_) => Direction::Original,
            None => Direction::Reply,
        };
    }
}
