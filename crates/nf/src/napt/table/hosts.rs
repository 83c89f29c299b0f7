//! How many external ports each inside host has, and which of its bindings may be over.

use crate::bindings::Kind;
use crate::memory::map_bytes;
use crate::seeded::{Seed, SeededMap};
use twinpath_core::wire::Address;

/// The bindings of a host, of one kind.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Host {
    /// How many are known to be alive.
    pub live: u32,
    /// How many are not: their ports count only if somebody still uses them.
    pub idle: u32,
    /// The first of those.
    pub first_idle: u32,
    /// How many sessions are not known to have expired.
    pub sessions: u32,
}

/// All hosts with bindings.
#[derive(Debug)]
pub(crate) struct Hosts(SeededMap<(Kind, Address), Host>);

impl Hosts {
    pub fn new(seed: u64) -> Self {
        Self(SeededMap::with_hasher(Seed::new(seed)))
    }

    /// What so many hosts take.
    pub const fn bytes(hosts: usize) -> u64 {
        map_bytes::<(Kind, Address), Host>(hosts)
    }

    pub fn of(&self, kind: Kind, host: Address) -> Host {
        self.0.get(&(kind, host)).copied().unwrap_or_default()
    }

    pub fn change(&mut self, kind: Kind, host: Address, change: impl FnOnce(&mut Host)) {
        let known = self.0.entry((kind, host)).or_default();
        change(known);
        if *known == Host::default() {
            self.0.remove(&(kind, host));
        }
    }
}
