//! Whose a fragment is: the first one of its datagram has told.
//!
//! What comes before the first is dropped, as DASH has it; nothing is held or put together. Datagrams
//! are remembered for a short time, and each ENI has places of its own for each direction: who sends
//! many displaces its own datagrams alone.

use std::time::Duration;

use twinpath_core::Instant;
use twinpath_core::wire::Address;

use crate::headers::{Direction, Headers};

/// How long the rest of a datagram is waited for.
const LIFETIME: Duration = Duration::from_secs(5);
/// Datagrams of an ENI that are remembered.
const PLACES: usize = 64;

/// Names a datagram of an ENI: fragments of it alone have the same.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct DatagramName {
    direction: Direction,
    ends: [Address; 2],
    identification: u32,
    protocol: u8,
}

impl DatagramName {
    /// That of a fragment with these headers. `protocol` is what the IPv4 header says; in IPv6 it names
    /// nothing (RFC 8200 §4.5), as headers behind that of fragments are in the first one alone.
    pub const fn new(
        direction: Direction,
        headers: &Headers,
        identification: u32,
        protocol: u8,
    ) -> Self {
        Self {
            direction,
            ends: [headers.source, headers.destination],
            identification,
            protocol,
        }
    }
}

/// What the first fragment of a datagram has told.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct FirstFragment {
    /// Of TCP or UDP, or an echo's identifier twice.
    pub ports: [u16; 2],
    /// What the datagram carries.
    pub protocol: u8,
}

#[derive(Copy, Clone, Debug)]
struct Datagram {
    name: DatagramName,
    first: FirstFragment,
    /// The identification that its fragments leave with, if another was drawn.
    drawn: Option<u16>,
    since: Instant,
}

/// An ENI's datagrams of a direction whose first fragment has come. Takes memory with the first one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fragments {
    datagrams: Vec<Datagram>,
}

impl Fragments {
    /// The first fragment of a datagram came.
    pub fn learn(&mut self, name: DatagramName, first: FirstFragment, now: Instant) {
        let new = Datagram {
            name,
            first,
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

    /// What the first fragment of a later one's datagram has told.
    pub fn first(&self, name: &DatagramName, now: Instant) -> Option<FirstFragment> {
        self.known(name, now).map(|known| known.first)
    }

    /// The fragments of a datagram, of which the first is known, leave with this identification.
    pub fn draw(&mut self, name: &DatagramName, drawn: u16) {
        let known = self.datagrams.iter_mut().find(|known| known.name == *name);
        if let Some(known) = known {
            known.drawn = Some(drawn);
        }
    }

    /// The identification that was drawn for a later fragment's datagram.
    pub fn drawn(&self, name: &DatagramName, now: Instant) -> Option<u16> {
        self.known(name, now)?.drawn
    }

    fn known(&self, name: &DatagramName, now: Instant) -> Option<&Datagram> {
        let known = self.datagrams.iter().find(|known| known.name == *name)?;
        (now.since(known.since) <= LIFETIME).then_some(known)
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

    const fn name(identification: u32) -> DatagramName {
        DatagramName::new(Direction::Outbound, &HEADERS, identification, 17)
    }

    const fn first(source: u16) -> FirstFragment {
        FirstFragment {
            ports: [source, 53],
            protocol: 17,
        }
    }

    #[test]
    fn later_fragments_follow_the_first_for_a_while() {
        let mut fragments = Fragments::default();
        let now = Instant(1_000_000_000);
        assert_eq!(fragments.first(&name(7), now), None);
        fragments.learn(name(7), first(5), now);
        assert_eq!(fragments.first(&name(7), now), Some(first(5)));
        assert_eq!(fragments.first(&name(8), now), None, "another datagram");
        let later = now + LIFETIME + Duration::from_nanos(1);
        assert_eq!(fragments.first(&name(7), later), None);
        fragments.learn(name(7), first(6), later);
        assert_eq!(fragments.first(&name(7), later), Some(first(6)));
    }

    #[test]
    fn what_was_drawn_is_that_datagrams_alone() {
        let mut fragments = Fragments::default();
        let now = Instant(1);
        fragments.learn(name(7), first(5), now);
        fragments.learn(name(8), first(5), now);
        assert_eq!(fragments.drawn(&name(7), now), None);
        fragments.draw(&name(7), 1234);
        assert_eq!(fragments.drawn(&name(7), now), Some(1234));
        assert_eq!(fragments.drawn(&name(8), now), None);
        // Another datagram that has its name.
        fragments.learn(name(7), first(6), now);
        assert_eq!(fragments.drawn(&name(7), now), None);
    }

    #[test]
    fn the_latest_datagrams_are_remembered() {
        let mut fragments = Fragments::default();
        for identification in 0..10_000 {
            let now = Instant(identification.into());
            fragments.learn(name(identification), first(1), now);
        }
        let now = Instant(10_000);
        let known = (0..10_000).filter(|&id| fragments.first(&name(id), now).is_some());
        assert!(known.eq(10_000 - PLACES as u32..10_000));
    }
}
