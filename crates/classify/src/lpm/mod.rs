//! Routes: the longest prefix that covers an address wins.
//!
//! A table for each IP version: a flat one over the first bits, and below it nodes of five bits
//! each. A node keeps its prefixes as bits of a bitmap and its children as bits of another (the
//! tree bitmap of Eatherton, Varghese and Dittia, 2004), in half a cache line; results and children lie
//! packed elsewhere and are found by counting bits.
//!
//! # Why this structure
//! * DIR-24-8 finds an IPv4 route in one or two reads, but of tables of 64 MB that no cache
//!   holds, and a change of a short prefix writes millions of entries. A tree of a million routes
//!   takes about 29 MB, and its upper levels stay in the second-level cache. The flat part has 14
//!   bits for IPv4, so that a `/24`, three fifths of all routes, ends exactly two nodes below.
//! * Poptrie is as small and as fast, but pushes each prefix down to all leaves that it covers:
//!   a change must find them all, and needs a second tree to know what to put back. Here
//!   inserting or removing a route changes one node (and makes or drops the few on the way).
//! * The same nodes serve IPv6 (flat part of 18 bits, so that `/48` ends a node), and the two
//!   bitmaps of the last node tell without further reads how many bits decided the answer.
//!
//! # Cost of a change
//! One to a few nodes for prefixes longer than the flat part (about a quarter of a microsecond),
//! and no memory is moved as tables grow: they are reserved at the start, and the system provides
//! pages as they are first used. A prefix shorter than that writes every flat entry it covers, at
//! worst 2^14 or 2^18 (the default route; a tenth of a millisecond or two).

mod flat;
mod node;
mod runs;
#[cfg(test)]
mod tests;
mod trie;

use thiserror::Error;
use twinpath_core::wire::Address;

use crate::prefix::{MAPPED_BITS, Prefix, Versions};
use crate::word::Word;
use trie::Trie;

/// Most routes of one IP version.
pub const MAX_ROUTES: usize = 1 << 22;

/// Bytes that an IPv4 route takes in a large table: what is measured for routes as of the Internet, of
/// which there are 100,000 or more (a test holds it to that). In small tables it is up to 42.
pub const ROUTE_BYTES_V4: usize = 28;
/// The same of IPv6; in small tables up to 53.
pub const ROUTE_BYTES_V6: usize = 50;

/// First bits that the flat table of IPv4 routes is indexed by.
const FLAT_V4: u32 = 14;
/// The same of IPv6.
const FLAT_V6: u32 = 18;

/// Why a route was not inserted.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Error)]
pub enum RouteError {
    /// There are as many routes of this version as there may be.
    #[error("a table of {0} routes is full")]
    TooMany(usize),
    /// The routes are so scattered that the memory reserved for their number does not do.
    #[error("the memory reserved for routes is full")]
    Memory,
}

/// How many routes a table may hold.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct RouteLimits {
    /// IPv4 routes.
    pub v4: usize,
    /// IPv6 routes.
    pub v6: usize,
}

/// Next hops by prefix.
pub struct RouteTable {
    v4: Trie<u32>,
    v6: Trie<u128>,
}

/// What a look-up found: a next hop, and what decided that it is the one.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Lookup {
    /// The next hop of the longest prefix that covers the address, if one does.
    pub next_hop: Option<u32>,
    /// How many of the 128 leading bits of the [`Address`] decided this: every address that
    /// begins with the same ones has the same next hop. At least the bits that show the version.
    pub examined_bits: u8,
}

impl RouteTable {
    /// An empty table; each limit is at most [`MAX_ROUTES`].
    #[must_use]
    pub fn new(limits: RouteLimits) -> Self {
        Self {
            v4: Trie::new(FLAT_V4, limits.v4.min(MAX_ROUTES)),
            v6: Trie::new(FLAT_V6, limits.v6.min(MAX_ROUTES)),
        }
    }

    /// Sets the next hop of a prefix; returns the one it had. [`Prefix::ANY`] is the default
    /// route of both versions (and the one returned is that of IPv4).
    ///
    /// # Errors
    /// If the table is full; then nothing has changed.
    pub fn insert(&mut self, prefix: Prefix, next_hop: u32) -> Result<Option<u32>, RouteError> {
        let bits = u32::from(prefix.length());
        let network = prefix.network().0;
        match prefix.versions() {
            Versions::V4 => self.v4.insert(network as u32, bits, next_hop),
            Versions::V6 => self.v6.insert(network, bits, next_hop),
            Versions::Both => {
                self.v6.has_room_for(0, 0)?;
                let before = self.v4.insert(0, 0, next_hop)?;
                self.v6.insert(0, 0, next_hop)?;
                Ok(before)
            }
        }
    }

    /// Removes the route of exactly this prefix; returns its next hop.
    pub fn remove(&mut self, prefix: Prefix) -> Option<u32> {
        let bits = u32::from(prefix.length());
        let network = prefix.network().0;
        match prefix.versions() {
            Versions::V4 => self.v4.remove(network as u32, bits),
            Versions::V6 => self.v6.remove(network, bits),
            Versions::Both => {
                let before = self.v4.remove(0, 0);
                before.or(self.v6.remove(0, 0))
            }
        }
    }

    /// The next hop of the longest route that covers all of a prefix, which may be its own; of
    /// [`Prefix::ANY`] that of IPv4.
    #[must_use]
    pub fn covering(&self, prefix: Prefix) -> Option<u32> {
        let most = u32::from(prefix.length());
        let network = prefix.network().0;
        match prefix.versions() {
            Versions::V4 => self.v4.covering(network as u32, most),
            Versions::V6 => self.v6.covering(network, most),
            Versions::Both => self.v4.covering(0, 0),
        }
        .map(|(_, next_hop)| next_hop)
    }

    /// The longest route that covers an address, with its next hop. It is slower than
    /// [`Self::lookup`], for each length is tried.
    #[must_use]
    pub fn route(&self, address: Address) -> Option<(Prefix, u32)> {
        let (length, next_hop) = match address.is_v4() {
            true => self.v4.covering(address.0 as u32, u32::BITS),
            false => self.v6.covering(address.0, u128::BITS),
        }?;
        Some((Prefix::covering(address, length as u8), next_hop))
    }

    /// The next hop of the longest prefix that covers an address.
    #[must_use]
    #[inline]
    pub fn lookup(&self, address: Address) -> Option<u32> {
        if address.is_v4() {
            self.v4.lookup(address.0 as u32)
        } else {
            self.v6.lookup(address.0)
        }
    }

    /// The same, with how much of the address decided it.
    #[must_use]
    pub fn lookup_examined(&self, address: Address) -> Lookup {
        if address.is_v4() {
            let (next_hop, bits) = self.v4.lookup_examined(address.0 as u32);
            return Lookup {
                next_hop,
                examined_bits: MAPPED_BITS + bits as u8,
            };
        }
        let (next_hop, bits) = self.v6.lookup_examined(address.0);
        let version = address.0.common(Address::UNSPECIFIED_V4.0) + 1;
        Lookup {
            next_hop,
            examined_bits: bits.max(version) as u8,
        }
    }

    /// How many routes there are, a default route of both versions counted twice.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.v4.len() + self.v6.len()
    }

    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Memory in use, in bytes; what is reserved but was never touched is not counted.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.v4.memory_bytes() + self.v6.memory_bytes()
    }
}
