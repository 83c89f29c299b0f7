//! How many external ports each inside host has, and which of its bindings may be over. A host of
//! IPv6 may take any address of its network, so that counts as one.

use crate::hosts::PrefixLength;
use crate::memory::map_bytes;
use crate::records::Kind;
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
pub(crate) struct Hosts {
    known: SeededMap<(Kind, Address), Host>,
    v6_prefix: PrefixLength,
}

impl Hosts {
    pub fn new(v6_prefix: PrefixLength, seed: u64) -> Self {
        Self {
            known: SeededMap::with_hasher(Seed::new(seed)),
            v6_prefix,
        }
    }

    /// What counts as one host.
    pub const fn v6_prefix(&self) -> PrefixLength {
        self.v6_prefix
    }

    /// Forgets all that is counted: something else counts as one host.
    pub fn begin_anew(&mut self, v6_prefix: PrefixLength) {
        self.known.clear();
        self.v6_prefix = v6_prefix;
    }

    /// What so many hosts take.
    pub const fn bytes(hosts: usize) -> u64 {
        map_bytes::<(Kind, Address), Host>(hosts)
    }

    pub fn of(&self, kind: Kind, host: Address) -> Host {
        let host = self.v6_prefix.host(host);
        self.known.get(&(kind, host)).copied().unwrap_or_default()
    }

    pub fn change(&mut self, kind: Kind, host: Address, change: impl FnOnce(&mut Host)) {
        let host = self.v6_prefix.host(host);
        let known = self.known.entry((kind, host)).or_default();
        change(known);
        if *known == Host::default() {
            self.known.remove(&(kind, host));
        }
    }
}
