//! The table of connections.

use super::super::connection::Connection;
use crate::seeded::{Seed, SeededMap};
use twinpath_core::Instant;
use twinpath_core::wire::Endpoint;
use twinpath_slowpath::Slab;

/// What a connection is called.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Name {
    pub client: Endpoint,
    pub vip: Endpoint,
    pub protocol: u8,
}

/// What is known of one.
#[derive(Copy, Clone, Debug)]
pub(super) struct Known {
    pub name: Name,
    /// The number of its backend.
    pub server: u32,
    /// Its kind and how far it is closed; the rest is not used.
    pub state: Connection,
    /// When the last packet came, as far as is known.
    pub last: Instant,
}

/// All connections, found by name and by number.
#[derive(Debug)]
pub(super) struct Connections {
    numbers: SeededMap<Name, u32>,
    known: Slab<Known>,
    /// Highest number ever, and where the search for idle ones goes on.
    highest: u32,
    hand: u32,
}

impl Connections {
    /// No connection; who adds some sees to it that they are not too many.
    pub fn new(seed: u64) -> Self {
        Self {
            numbers: SeededMap::with_hasher(Seed(seed)),
            known: Slab::new(super::super::config::MAX_CONNECTIONS),
            highest: 0,
            hand: 0,
        }
    }

    pub fn len(&self) -> usize {
        self.known.len()
    }

    pub fn find(&self, name: &Name) -> Option<u32> {
        self.numbers.get(name).copied()
    }

    pub fn at(&self, number: u32) -> Option<&Known> {
        self.known.at(number)
    }

    pub fn at_mut(&mut self, number: u32) -> Option<&mut Known> {
        self.known.at_mut(number)
    }

    /// Adds one that is not there; its number, if there is room.
    pub fn add(&mut self, known: Known) -> Option<u32> {
        let name = known.name;
        let number = self.known.insert(known).ok()?;
        self.numbers.insert(name, number);
        self.highest = self.highest.max(number);
        Some(number)
    }

    pub fn remove(&mut self, number: u32) -> Option<Known> {
        let known = self.known.remove(number)?;
        self.numbers.remove(&known.name);
        Some(known)
    }

    /// The next `steps` numbers that may be given.
    pub fn sweep(&mut self, steps: u32) -> impl Iterator<Item = u32> + use<> {
        let (first, highest) = (self.hand, self.highest);
        let steps = steps.min(highest);
        self.hand = (first + steps).checked_rem(highest).unwrap_or(0);
        (0..steps).map(move |step| (first + step) % highest + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sweep_comes_by_every_number() {
        let mut connections = Connections::new(1);
        assert_eq!(connections.sweep(4).count(), 0);
        connections.highest = 10;
        let mut seen: Vec<u32> = (0..5).flat_map(|_| connections.sweep(4)).collect();
        assert_eq!(seen.len(), 20);
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen, (1..=10).collect::<Vec<_>>());
    }
}
