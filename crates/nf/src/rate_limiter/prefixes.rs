//! Buckets of prefixes: all flows from a network, or to one, take from the same.
//!
//! The workers have them together, and so have shards. They lie in sets of a few places, found by a
//! keyed hash of the prefix. A bucket that is full again says no more than none, so its place is free;
//! a prefix that finds no free place takes from one bucket that all such have together.

use super::meter::Meter;
use std::sync::{Mutex, PoisonError};
use twinpath_core::wire::Address;
use twinpath_core::{HashKey, Packet};

/// Places of a set, two cache lines.
const WAYS: usize = 4;

/// Which address of a packet tells its bucket.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum End {
    Source,
    Destination,
}

/// What counts as one prefix, and how many have buckets of their own at a time.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct Prefixes {
    pub end: End,
    /// Leading bits of an IPv4 address, 0 to 32.
    pub v4_bits: u8,
    /// Leading bits of an IPv6 address, 0 to 128.
    pub v6_bits: u8,
    pub most: usize,
}

impl Prefixes {
    /// The prefix whose bucket a packet takes from.
    pub fn of(&self, packet: &Packet) -> Address {
        let address = match self.end {
            End::Source => packet.source().address,
            End::Destination => packet.destination().address,
        };
        self.network(address)
    }

    fn network(&self, address: Address) -> Address {
        const V4_AT: u32 = 96;
        let bits = match address.is_v4() {
            true => V4_AT + u32::from(self.v4_bits),
            false => u32::from(self.v6_bits),
        };
        let mask = u128::MAX.checked_shl(128 - bits).unwrap_or(0);
        Address(address.0 & mask)
    }

    const fn sets(&self) -> usize {
        self.most.div_ceil(WAYS).next_power_of_two()
    }

    /// Bytes of their buckets.
    pub const fn bytes(&self) -> usize {
        self.sets() * WAYS * size_of::<Bucket>()
    }
}

/// A prefix's bucket, or nobody's.
#[derive(Copy, Clone)]
struct Bucket {
    prefix: Address,
    /// When it will be full, in the meter's units; until then it is the prefix's.
    full_at: u64,
}

impl Bucket {
    const FREE: Self = Self {
        prefix: Address::UNSPECIFIED_V6,
        full_at: 0,
    };
}

/// What buckets are made for.
#[derive(Copy, Clone, PartialEq, Eq)]
pub(super) struct Kind {
    pub prefixes: Prefixes,
    pub meter: Meter,
    pub seed: u64,
}

/// Buckets of one kind.
pub(super) struct Buckets {
    kind: Kind,
    key: HashKey,
    sets: Vec<[Bucket; WAYS]>,
    /// That of prefixes that found no place.
    common: u64,
}

impl Buckets {
    fn new(kind: Kind) -> Self {
        Self {
            kind,
            key: HashKey::new(kind.seed),
            sets: vec![[Bucket::FREE; WAYS]; kind.prefixes.sets()],
            common: 0,
        }
    }

    /// When the bucket of a prefix will be full, in units, to be changed; and whether it is the
    /// prefix's own.
    pub fn of(&mut self, prefix: Address, now: u64) -> (&mut u64, bool) {
        let [high, low] = [(prefix.0 >> 64) as u64, prefix.0 as u64];
        let set = self.key.hash([high, low]) as usize & (self.sets.len() - 1);
        let set = &mut self.sets[set];
        let known = |bucket: &Bucket| bucket.full_at > now && bucket.prefix == prefix;
        let free = |bucket: &Bucket| bucket.full_at <= now;
        let place = set.iter().position(known);
        match place.or_else(|| set.iter().position(free)) {
            Some(place) => {
                set[place].prefix = prefix;
                (&mut set[place].full_at, true)
            }
            None => (&mut self.common, false),
        }
    }
}

/// Buckets that all workers have together.
#[derive(Default)]
pub(super) struct Shared(Mutex<Option<Buckets>>);

impl Shared {
    /// Works with the buckets while nobody else does. Where they were of another kind all are full.
    pub fn with<T>(&self, kind: &Kind, work: impl FnOnce(&mut Buckets) -> T) -> T {
        // What was taken is taken, whatever a worker did when it crashed.
        let mut buckets = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if buckets.as_ref().is_some_and(|known| known.kind != *kind) {
            *buckets = None;
        }
        work(buckets.get_or_insert_with(|| Buckets::new(*kind)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    fn address(text: &str) -> Address {
        text.parse().expect("an address")
    }

    fn prefixes(v4_bits: u8, v6_bits: u8, most: usize) -> Prefixes {
        Prefixes {
            end: End::Source,
            v4_bits,
            v6_bits,
            most,
        }
    }

    #[test]
    fn prefixes_of_both_versions() {
        let cases = [
            (24, 64, "10.1.2.3", "10.1.2.0"),
            (32, 64, "10.1.2.3", "10.1.2.3"),
            (0, 64, "10.1.2.3", "0.0.0.0"),
            (24, 48, "2001:db8:1:2:3::4", "2001:db8:1::"),
            (24, 128, "2001:db8::4", "2001:db8::4"),
            (24, 0, "2001:db8::4", "::"),
        ];
        for (v4_bits, v6_bits, one, network) in cases {
            let found = prefixes(v4_bits, v6_bits, 1).network(address(one));
            assert_eq!(found, address(network), "{one} {v4_bits} {v6_bits}");
        }
    }

    /// Against a map that keeps all, as long as there is room.
    #[test]
    fn each_prefix_has_its_own_while_there_is_room() {
        let kind = Kind {
            prefixes: prefixes(32, 64, 4096),
            meter: Meter::new(
                super::super::meter::Rate::Packets {
                    per_second: 10,
                    burst: 1,
                },
                std::time::Duration::ZERO,
            ),
            seed: 7,
        };
        let mut buckets = Buckets::new(kind);
        let (mut known, mut crowded) = (HashMap::new(), 0);
        for now in 1..20_000u64 {
            let prefix = Address::from_v4(((now * 2_654_435_761 % 700) as u32).to_be_bytes());
            let (full_at, is_own) = buckets.of(prefix, now);
            if !is_own {
                crowded += 1;
                continue;
            }
            let expected = known.get(&prefix).copied().filter(|&full_at| full_at > now);
            assert_eq!((*full_at).max(now), expected.unwrap_or(now));
            *full_at = now + 500;
            known.insert(prefix, *full_at);
        }
        assert!(crowded < 100, "{crowded}");
        // With as many at a time as there are places some have none, and the others keep theirs.
        let mut few = Buckets::new(Kind {
            prefixes: prefixes(32, 64, 16),
            ..kind
        });
        let own = (0..1000u32).filter(|number| {
            let (full_at, is_own) = few.of(Address::from_v4(number.to_be_bytes()), 1);
            *full_at = 2;
            is_own
        });
        assert_eq!(own.count(), 16);
    }
}
