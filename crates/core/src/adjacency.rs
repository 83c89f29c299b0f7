//! Whom packets leave for.
//!
//! A packet's [egress](crate::Metadata::egress) is the number of a port, [`BACK`], or that of an
//! adjacency: a neighbour at a port, whose MAC address is written when the packet leaves.

use crate::wire::Address;
use std::sync::{Arc, Mutex, PoisonError};

/// The port that the packet has come in by; numbers below are ports.
pub const BACK: u16 = 64;

/// The number of the first adjacency.
pub const FIRST_ADJACENCY: u16 = BACK + 1;

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
    fn there_is_an_end_to_numbers() {
        let adjacencies = Adjacencies::default();
        let adjacency = |number: u32| Adjacency {
            port: 0,
            gateway: Some(Address::from_v4(number.to_be_bytes())),
        };
        // The last ones alone, for each is looked for among all.
        let most = u32::from(u16::MAX - FIRST_ADJACENCY);
        *adjacencies.0.lock().expect("nobody else has it") = (0..most).map(adjacency).collect();
        assert_eq!(adjacencies.egress(adjacency(most)), Some(u16::MAX));
        assert_eq!(adjacencies.egress(adjacency(most + 1)), None);
        assert_eq!(adjacencies.egress(adjacency(0)), Some(FIRST_ADJACENCY));
    }
}
