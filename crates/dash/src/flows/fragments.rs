//! Whose a fragment is: the first one of its datagram has told.
//!
//! What comes before the first is dropped, as DASH has it; nothing is held or put together. Datagrams
//! are remembered for a short time, and of one ENI in its share of the places alone: who sends many
//! displaces its own.

use std::time::Duration;

use twinpath_core::Instant;
use twinpath_core::hash::HashKey;
use twinpath_core::wire::Address;

use crate::headers::Headers;

/// How long the rest of a datagram is waited for.
const LIFETIME: Duration = Duration::from_secs(5);
/// Places.
const PLACES: usize = 4096;
/// Places that an ENI's datagrams can have.
const SHARE: usize = 64;

#[derive(Copy, Clone, PartialEq, Eq)]
struct Name {
    serial: u32,
    source: Address,
    destination: Address,
    identification: u32,
    protocol: u8,
}

#[derive(Copy, Clone)]
struct Datagram {
    name: Name,
    ports: [u16; 2],
    since: Instant,
}

/// Datagrams whose first fragment has come.
pub(crate) struct Fragments {
    hash_key: HashKey,
    places: Box<[Option<Datagram>]>,
}

impl Fragments {
    pub fn new(seed: u64) -> Self {
        Self {
            hash_key: HashKey::new(seed),
            places: vec![None; PLACES].into(),
        }
    }

    /// The first fragment of a datagram came.
    pub fn learn(
        &mut self,
        serial: u32,
        headers: &Headers,
        identification: u32,
        ports: [u16; 2],
        now: Instant,
    ) {
        let name = name(serial, headers, identification);
        let share = self.share(serial);
        let age = |place: &Option<Datagram>| match place {
            Some(known) if known.name != name => Some(known.since),
            _ => None,
        };
        // A place of its own, a free one, or that of the oldest.
        if let Some(place) = share.iter_mut().min_by_key(|place| age(place)) {
            *place = Some(Datagram {
                name,
                ports,
                since: now,
            });
        }
    }

    /// The ports of a later fragment's datagram.
    pub fn ports(
        &mut self,
        serial: u32,
        headers: &Headers,
        identification: u32,
        now: Instant,
    ) -> Option<[u16; 2]> {
        let name = name(serial, headers, identification);
        let known = self.share(serial).iter().flatten();
        let mut fresh = known.filter(|known| now.since(known.since) <= LIFETIME);
        fresh
            .find(|known| known.name == name)
            .map(|known| known.ports)
    }

    fn share(&mut self, serial: u32) -> &mut [Option<Datagram>] {
        let share = self.hash_key.hash([u64::from(serial)]) as usize % (PLACES / SHARE);
        &mut self.places[share * SHARE..][..SHARE]
    }
}

const fn name(serial: u32, headers: &Headers, identification: u32) -> Name {
    Name {
        serial,
        source: headers.source,
        destination: headers.destination,
        identification,
        protocol: headers.protocol,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADERS: Headers = Headers {
        source: Address::from_v4([10, 0, 0, 1]),
        destination: Address::from_v4([10, 0, 0, 2]),
        ports: None,
        protocol: 17,
    };

    #[test]
    fn later_fragments_follow_the_first_for_a_while() {
        let mut fragments = Fragments::new(1);
        let now = Instant(1_000_000_000);
        assert_eq!(fragments.ports(1, &HEADERS, 7, now), None);
        fragments.learn(1, &HEADERS, 7, [5, 53], now);
        assert_eq!(fragments.ports(1, &HEADERS, 7, now), Some([5, 53]));
        assert_eq!(
            fragments.ports(1, &HEADERS, 8, now),
            None,
            "another datagram"
        );
        assert_eq!(fragments.ports(2, &HEADERS, 7, now), None, "another ENI's");
        let later = now + LIFETIME + Duration::from_nanos(1);
        assert_eq!(fragments.ports(1, &HEADERS, 7, later), None);
    }

    #[test]
    fn who_sends_many_displaces_its_own() {
        let mut fragments = Fragments::new(1);
        let now = Instant(1);
        let share_of = |fragments: &Fragments, serial: u32| {
            fragments.hash_key.hash([u64::from(serial)]) as usize % (PLACES / SHARE)
        };
        let first = share_of(&fragments, 1);
        let other = (2..)
            .find(|&serial| share_of(&fragments, serial) != first)
            .expect("some");
        fragments.learn(other, &HEADERS, 7, [5, 53], now);
        for identification in 0..10_000 {
            fragments.learn(1, &HEADERS, identification, [1, 2], now);
        }
        assert_eq!(fragments.ports(other, &HEADERS, 7, now), Some([5, 53]));
        let known = (0..10_000).filter(|&id| fragments.ports(1, &HEADERS, id, now).is_some());
        assert_eq!(known.count(), SHARE);
    }
}
