//! Whom packets leave for.
//!
//! A packet's [egress](crate::Metadata::egress) is the number of a port, [`BACK`], that of an
//! adjacency: a neighbour at a port, whose MAC address is written when the packet leaves, or that of
//! [another shard](in_shard), in which the packet goes on.

use crate::wire::Address;
use std::sync::{Arc, Mutex, PoisonError};

/// The port that the packet has come in by; numbers below are ports.
pub const BACK: u16 = 64;

/// The number of the first adjacency.
pub const FIRST_ADJACENCY: u16 = BACK + 1;

/// The number of the first shard: numbers from here on are shards.
const FIRST_SHARD: u16 = u16::MAX - 63;

/// The egress of a packet that goes on in the shard with this number, below 64: it leaves the chain at
/// once, and goes on there.
pub const fn in_shard(shard: u16) -> u16 {
    FIRST_SHARD | shard
}

/// The shard in which a packet with this egress goes on; `None` if it does not.
#[inline(always)]
pub const fn shard_of(egress: Option<u16>) -> Option<u16> {
    match egress {
        Some(egress @ FIRST_SHARD..) => Some(egress - FIRST_SHARD),
        _ => None,
    }
}

/// A neighbour at a port.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Adjacency {
    /// The port.
    pub port: u16,
    /// The neighbour's address; `None` if it is the one that the packet is for.
    pub gateway: Option<Address>,
}

/// All adjacencies of a process. Each keeps its number for as long as that lives, so that a packet
/// which is under way while routes change goes where it was sent.
#[derive(Clone, Debug, Default)]
pub struct Adjacencies(Arc<Mutex<Vec<Adjacency>>>);

impl Adjacencies {
    /// The egress that stands for an adjacency; `None` if there were too many.
    pub fn egress(&self, adjacency: Adjacency) -> Option<u16> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let place = known.iter().position(|other| *other == adjacency);
        let place = place.unwrap_or(known.len());
        let egress = u16::try_from(place).ok()?.checked_add(FIRST_ADJACENCY)?;
        if egress >= FIRST_SHARD {
            return None;
        }
        if place == known.len() {
            known.push(adjacency);
        }
        Some(egress)
    }

    /// All of them, in the order of their numbers.
    pub fn all(&self) -> Vec<Adjacency> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_means_the_same_for_ever() {
        let adjacencies = Adjacencies::default();
        let adjacency = |port, last: Option<u8>| Adjacency {
            port,
            gateway: last.map(|last| Address::from_v4([10, 0, 0, last])),
        };
        let all = [
            adjacency(0, None),
            adjacency(0, Some(1)),
            adjacency(1, Some(1)),
        ];
        for (number, one) in (FIRST_ADJACENCY..).zip(all) {
            assert_eq!(adjacencies.egress(one), Some(number));
        }
        assert_eq!(
            adjacencies.clone().egress(all[1]),
            Some(FIRST_ADJACENCY + 1)
        );
        assert_eq!(adjacencies.all(), all);
    }

    #[test]
    fn a_shard_is_no_port_and_no_neighbor() {
        for shard in [0, 1, 63] {
            assert_eq!(shard_of(Some(in_shard(shard))), Some(shard));
        }
        for egress in [
            None,
            Some(0),
            Some(BACK),
            Some(FIRST_ADJACENCY),
            Some(FIRST_SHARD - 1),
        ] {
            assert_eq!(shard_of(egress), None);
        }
    }

    #[test]
    fn there_is_an_end_to_numbers() {
        let adjacencies = Adjacencies::default();
        let adjacency = |number: u32| Adjacency {
            port: 0,
            gateway: Some(Address::from_v4(number.to_be_bytes())),
        };
        // The last ones alone, for each is looked for among all.
        let most = u32::from(FIRST_SHARD - 1 - FIRST_ADJACENCY);
        *adjacencies.0.lock().expect("nobody else has it") = (0..most).map(adjacency).collect();
        assert_eq!(adjacencies.egress(adjacency(most)), Some(FIRST_SHARD - 1));
        assert_eq!(adjacencies.egress(adjacency(most + 1)), None);
        assert_eq!(adjacencies.egress(adjacency(0)), Some(FIRST_ADJACENCY));
    }
}
