//! Whose a fragment is: the first one of its datagram has told.
//!
//! What comes before the first is dropped, as DASH has it; nothing is held or put together. Datagrams
//! are remembered for a short time, and each ENI has places of its own: who sends many displaces its
//! own datagrams alone.

use std::time::Duration;

use twinpath_core::Instant;
use twinpath_core::wire::Address;

use crate::headers::Headers;

/// How long the rest of a datagram is waited for.
const LIFETIME: Duration = Duration::from_secs(5);
/// Datagrams of an ENI that are remembered.
const PLACES: usize = 64;

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
struct Name {
    source: Address,
    destination: Address,
    identification: u32,
    protocol: u8,
}

#[derive(Copy, Clone, Debug)]
struct Datagram {
    name: Name,
    ports: [u16; 2],
    /// The identification that its fragments leave with, if another was drawn.
    drawn: Option<u16>,
    since: Instant,
}

/// An ENI's datagrams whose first fragment has come. Takes memory with the first one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fragments {
    datagrams: Vec<Datagram>,
}

impl Fragments {
    /// The first fragment of a datagram came.
    pub fn learn(&mut self, headers: &Headers, identification: u32, ports: [u16; 2], now: Instant) {
        let new = Datagram {
            name: name(headers, identification),
            ports,
            drawn: None,
            since: now,
        };
        let same = |known: &&mut Datagram| known.name == new.name;
        if let Some(known) = self.datagrams.iter_mut().find(same) {
            *known = new;
        } else if self.datagrams.len() < PLACES {
            self.datagrams.reserve_exact(PLACES - self.datagrams.len());
            self.datagrams.push(new);
        } else if let Some(oldest) = self.datagrams.iter_mut().min_by_key(|known| known.since) {
            *oldest = new;
        }
    }

    /// The ports of a later fragment's datagram.
    pub fn ports(&self, headers: &Headers, identification: u32, now: Instant) -> Option<[u16; 2]> {
        self.known(headers, identification, now)
            .map(|known| known.ports)
    }

    /// The fragments of a datagram, of which the first is known, leave with this identification.
    pub fn draw(&mut self, headers: &Headers, identification: u32, drawn: u16) {
        let name = name(headers, identification);
        let known = self.datagrams.iter_mut().find(|known| known.name == name);
        if let Some(known) = known {
            known.drawn = Some(drawn);
        }
    }

    /// The identification that was drawn for a later fragment's datagram.
    pub fn drawn(&self, headers: &Headers, identification: u32, now: Instant) -> Option<u16> {
        self.known(headers, identification, now)?.drawn
    }

    fn known(&self, headers: &Headers, identification: u32, now: Instant) -> Option<&Datagram> {
        let name = name(headers, identification);
        let known = self.datagrams.iter().find(|known| known.name == name)?;
        (now.since(known.since) <= LIFETIME).then_some(known)
    }
}

const fn name(headers: &Headers, identification: u32) -> Name {
    Name {
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
        let mut fragments = Fragments::default();
        let now = Instant(1_000_000_000);
        assert_eq!(fragments.ports(&HEADERS, 7, now), None);
        fragments.learn(&HEADERS, 7, [5, 53], now);
        assert_eq!(fragments.ports(&HEADERS, 7, now), Some([5, 53]));
        assert_eq!(fragments.ports(&HEADERS, 8, now), None, "another datagram");
        let later = now + LIFETIME + Duration::from_nanos(1);
        assert_eq!(fragments.ports(&HEADERS, 7, later), None);
        fragments.learn(&HEADERS, 7, [6, 53], later);
        assert_eq!(fragments.ports(&HEADERS, 7, later), Some([6, 53]));
    }

    #[test]
    fn what_was_drawn_is_that_datagrams_alone() {
        let mut fragments = Fragments::default();
        let now = Instant(1);
        fragments.learn(&HEADERS, 7, [5, 53], now);
        fragments.learn(&HEADERS, 8, [5, 53], now);
        assert_eq!(fragments.drawn(&HEADERS, 7, now), None);
        fragments.draw(&HEADERS, 7, 1234);
        assert_eq!(fragments.drawn(&HEADERS, 7, now), Some(1234));
        assert_eq!(fragments.drawn(&HEADERS, 8, now), None);
        // Another datagram that has its name.
        fragments.learn(&HEADERS, 7, [6, 53], now);
        assert_eq!(fragments.drawn(&HEADERS, 7, now), None);
    }

    #[test]
    fn the_latest_datagrams_are_remembered() {
        let mut fragments = Fragments::default();
        for identification in 0..10_000 {
            fragments.learn(
                &HEADERS,
                identification,
                [1, 2],
                Instant(identification.into()),
            );
        }
        let now = Instant(10_000);
        let known = (0..10_000).filter(|&id| fragments.ports(&HEADERS, id, now).is_some());
        assert!(known.eq(10_000 - PLACES as u32..10_000));
    }
}
