//! How many connections each host has opened that are still remembered, or whatever else is counted
//! for it, by all workers together.

use crate::memory::{TableMemory, map_bytes};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use twinpath_core::wire::Address;
use twinpath_slowpath::Common;

/// The limit, and what counts as one host.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct HostLimit {
    connections: NonZeroU32,
    /// Leading bits of an IPv6 address that tell one host from another.
    v6_prefix: PrefixLength,
}

/// The length of a prefix of IPv6, 1 to 128.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(try_from = "i64")]
#[schemars(with = "u8", title = "bits")]
pub struct PrefixLength(u8);

/// No prefix of IPv6 has this length.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a prefix of {0} bits: expected 1 to 128")]
pub struct PrefixLengthError(i64);

impl PrefixLength {
    /// That of one network.
    pub const NETWORK: Self = Self(64);

    /// What stands for the host that has an address: of IPv6 the prefix of this length.
    pub(crate) const fn host(self, address: Address) -> Address {
        match address.is_v4() {
            true => address,
            false => Address(address.0 & (u128::MAX << (128 - self.0 as u32))),
        }
    }
}

impl Default for PrefixLength {
    fn default() -> Self {
        Self::NETWORK
    }
}

impl TryFrom<i64> for PrefixLength {
    type Error = PrefixLengthError;

    fn try_from(number: i64) -> Result<Self, PrefixLengthError> {
        let length = u8::try_from(number).ok();
        let length = length.filter(|length| (1..=128).contains(length));
        length.map(Self).ok_or(PrefixLengthError(number))
    }
}

/// Connections of each host, those of all workers together.
#[derive(Debug, Default)]
pub(crate) struct HostCounts(Mutex<HashMap<Address, u32>>);

/// Hosts with connections of one worker. When the worker ends, or crashes, these count no more.
#[derive(Debug, Default)]
pub(crate) struct Hosts {
    /// Of all workers.
    all: Arc<HostCounts>,
    /// Places of hosts, by address.
    places: HashMap<Address, u32>,
    hosts: Vec<Host>,
    free: Vec<u32>,
}

#[derive(Copy, Clone, Debug)]
struct Host {
    address: Address,
    connections: u32,
}

impl HostLimit {
    /// So many connections of each host.
    pub const fn new(connections: NonZeroU32, v6_prefix: PrefixLength) -> Self {
        Self {
            connections,
            v6_prefix,
        }
    }

    const fn host(&self, address: Address) -> Address {
        self.v6_prefix.host(address)
    }
}

impl HostCounts {
    fn lock(&self) -> MutexGuard<'_, HashMap<Address, u32>> {
        // What is counted holds whatever a worker did when it crashed.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts one more, if that is no more than a limit.
    fn open(&self, host: Address, limit: NonZeroU32) -> bool {
        let mut counts = self.lock();
        let is_room = counts.get(&host).is_none_or(|count| *count < limit.get());
        if is_room {
            *counts.entry(host).or_default() += 1;
        }
        is_room
    }

    /// So many are gone.
    fn close(&self, host: Address, connections: u32) {
        let mut counts = self.lock();
        if let Some(count) = counts.get_mut(&host) {
            *count = count.saturating_sub(connections);
            if *count == 0 {
                counts.remove(&host);
            }
        }
    }
}

impl Hosts {
    /// Counts together with the function of this name of other workers.
    pub fn share(&mut self, name: &str, common: &Common) {
        let all = common.part::<HostCounts>(name);
        if Arc::ptr_eq(&all, &self.all) {
            return;
        }
        debug_assert!(self.places.is_empty(), "it has not begun");
        self.all = all;
    }

    /// What as many hosts take as there may be flows, under a limit.
    pub fn memory(flows: usize) -> TableMemory {
        TableMemory {
            count: flows as u64,
            of: "hosts",
            bytes: 2 * map_bytes::<Address, u32>(flows) + (flows * size_of::<Host>()) as u64,
            key: "per_host_connections",
        }
    }

    /// Counts a connection that a host opens, if it may have one more. Returns what
    /// [`Self::close`] is to be told, never 0.
    pub fn open(&mut self, address: Address, limit: &HostLimit) -> Option<u32> {
        let address = limit.host(address);
        if !self.all.open(address, limit.connections) {
            return None;
        }
        let place = match self.places.get(&address) {
            Some(&place) => place,
            None => self.add(address),
        };
        self.hosts[place as usize].connections += 1;
        Some(place + 1)
    }

    fn add(&mut self, address: Address) -> u32 {
        let host = Host {
            address,
            connections: 0,
        };
        let place = match self.free.pop() {
            Some(place) => {
                self.hosts[place as usize] = host;
                place
            }
            None => {
                self.hosts.push(host);
                self.hosts.len() as u32 - 1
            }
        };
        self.places.insert(address, place);
        place
    }

    /// A connection is forgotten.
    pub fn close(&mut self, handle: u32) {
        let Some(place) = handle.checked_sub(1) else {
            return;
        };
        let Some(host) = self.hosts.get_mut(place as usize) else {
            return;
        };
        if host.connections == 0 {
            return;
        }
        host.connections -= 1;
        self.all.close(host.address, 1);
        if host.connections == 0 && self.places.remove(&host.address).is_some() {
            self.free.push(place);
        }
    }
}

impl Hosts {
    /// All connections are forgotten.
    pub fn clear(&mut self) {
        for place in self.places.values() {
            let host = self.hosts[*place as usize];
            self.all.close(host.address, host.connections);
        }
        self.places.clear();
        self.hosts.clear();
        self.free.clear();
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        self.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit(connections: u32, v6_prefix: u8) -> HostLimit {
        HostLimit {
            connections: NonZeroU32::new(connections).expect("not zero"),
            v6_prefix: PrefixLength(v6_prefix),
        }
    }

    #[test]
    fn a_host_has_so_many_connections_at_a_time() {
        let (mut hosts, limit) = (Hosts::default(), limit(2, 64));
        let [one, other] = [[10, 0, 0, 1], [10, 0, 0, 2]].map(Address::from_v4);
        let first = hosts.open(one, &limit).expect("room");
        assert_eq!(hosts.open(one, &limit), Some(first));
        assert_eq!(hosts.open(one, &limit), None);
        assert!(
            hosts
                .open(other, &limit)
                .is_some_and(|handle| handle != first)
        );
        hosts.close(first);
        assert_eq!(hosts.open(one, &limit), Some(first));
    }

    #[test]
    fn workers_count_together_and_one_that_ends_no_more() {
        let (common, limit) = (Common::default(), limit(3, 64));
        let mut workers = [Hosts::default(), Hosts::default()];
        for worker in &mut workers {
            worker.share("firewall", &common);
        }
        let host = Address::from_v4([10, 0, 0, 1]);
        let [first, second] = &mut workers;
        let handle = first.open(host, &limit).expect("room");
        assert!(first.open(host, &limit).is_some());
        assert!(second.open(host, &limit).is_some());
        assert_eq!(second.open(host, &limit), None);
        first.close(handle);
        assert!(second.open(host, &limit).is_some());
        assert_eq!(first.open(host, &limit), None);
        *second = Hosts::default();
        assert!(first.open(host, &limit).is_some(), "its own one is left");
        assert!(first.open(host, &limit).is_some());
        assert_eq!(first.open(host, &limit), None);
    }

    #[test]
    fn hosts_without_connections_are_forgotten() {
        let (mut hosts, limit) = (Hosts::default(), limit(1, 64));
        for number in 0..100 {
            let handle = hosts.open(Address(1 << 100 | number << 64), &limit);
            assert_eq!(handle, Some(1));
            hosts.close(1);
        }
        assert_eq!((hosts.hosts.len(), hosts.places.len()), (1, 0));
    }

    #[test]
    fn a_prefix_of_ipv6_counts_as_one_host() {
        let network = 0x2001_0db8_u128 << 96;
        let (one, other) = (Address(network | 1), Address(network | 2));
        for (prefix, is_same) in [(64, true), (128, false)] {
            let (mut hosts, limit) = (Hosts::default(), limit(1, prefix));
            assert!(hosts.open(one, &limit).is_some());
            assert_eq!(hosts.open(other, &limit).is_none(), is_same);
        }
    }
}
