//! Neighbours that have no MAC address yet: how many a cable has of each IP version, and which of them
//! gives way to another.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use twinpath_core::Instant;
use twinpath_core::wire::Address;

/// How long a neighbour has for its answer before it gives way: so whoever scans has so many questions
/// asked in that time as there are places, and a host that is there answers in less.
pub(super) const LEAST_TIME: Duration = Duration::from_millis(20);

/// Those without a MAC address, the oldest first, by port and whether they are of IPv4.
#[derive(Default)]
pub(super) struct Unresolved {
    queues: BTreeMap<(u16, bool), BTreeSet<(Instant, u32)>>,
}

impl Unresolved {
    /// A neighbour is asked for since then.
    pub fn add(&mut self, port: u16, address: Address, since: Instant, number: u32) {
        let queue = self.queues.entry((port, address.is_v4())).or_default();
        queue.insert((since, number));
    }

    /// A neighbour has an address, or is gone.
    pub fn remove(&mut self, port: u16, address: Address, since: Instant, number: u32) {
        if let Some(queue) = self.queues.get_mut(&(port, address.is_v4())) {
            queue.remove(&(since, number));
        }
    }

    /// How many there are beside an address: at its port, of its version.
    pub fn count_beside(&self, port: u16, address: Address) -> usize {
        let queue = self.queues.get(&(port, address.is_v4()));
        queue.map_or(0, BTreeSet::len)
    }

    /// The one beside an address that has waited longest, if it has had its time.
    pub fn first_to_go(&self, port: u16, address: Address, now: Instant) -> Option<u32> {
        let queue = self.queues.get(&(port, address.is_v4()))?;
        let (since, number) = *queue.first()?;
        (now >= since + LEAST_TIME).then_some(number)
    }

    /// All of them.
    #[cfg(test)]
    pub fn count(&self) -> usize {
        self.queues.values().map(BTreeSet::len).sum()
    }
}
