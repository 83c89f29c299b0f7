//! The flows of datagrams whose first fragments have passed: for who has to know whose the others are,
//! and holds none of them.

use super::datagram::Name;
use super::{MAX_DATAGRAMS, is_old};
use crate::hash::HashKey;
use crate::key::Keyed;
use crate::steering::Steering;
use crate::time::Instant;
use crate::wire::fields;
use crate::wire::layout::{Fragment, Layout};

/// Places that a datagram can be remembered in.
const WAYS: usize = 4;

#[derive(Copy, Clone, Debug)]
struct Known {
    name: Name,
    since: Instant,
    ports: [u16; 2],
    protocol: u8,
}

/// Datagrams whose first fragments have passed, at most [`MAX_DATAGRAMS`], each for
/// [`LIFETIME`](super::LIFETIME).
#[derive(Debug)]
pub struct DatagramFlows {
    hash_key: HashKey,
    places: Vec<Option<Known>>,
}

impl DatagramFlows {
    /// One that has seen nothing. Memory is taken with the first fragment.
    #[must_use]
    pub const fn new(hash_key: HashKey) -> Self {
        Self {
            hash_key,
            places: Vec::new(),
        }
    }

    /// The flow of a fragment that passes now; `None` if it is not known: the first was lost, comes later
    /// or came long ago, or too many others have passed since.
    pub fn key(
        &mut self,
        frame: &[u8],
        layout: &Layout,
        steering: &Steering,
        now: Instant,
    ) -> Option<Keyed> {
        let (ports, protocol) = self.ports(frame, layout, now)?;
        Some(steering.key_of_fragment(frame, layout, ports, protocol))
    }

    /// The ports and the protocol of its datagram; `None` as for [`Self::key`].
    pub fn ports(&mut self, frame: &[u8], layout: &Layout, now: Instant) -> Option<([u16; 2], u8)> {
        let (name, _) = Name::of(frame, layout)?;
        self.places.resize(MAX_DATAGRAMS, None);
        let known = match layout.fragment {
            Fragment::First => self.learn(name, frame, layout, now),
            _ => self.find(&name, now)?,
        };
        Some((known.ports, known.protocol))
    }

    fn set_of(&mut self, name: &Name) -> &mut [Option<Known>] {
        let set = (self.hash_key.hash(name.words()) >> 32) as usize % (MAX_DATAGRAMS / WAYS);
        &mut self.places[set * WAYS..(set + 1) * WAYS]
    }

    fn learn(&mut self, name: Name, frame: &[u8], layout: &Layout, now: Instant) -> Known {
        let known = Known {
            name,
            since: now,
            ports: [
                fields::source_port(frame, layout),
                fields::destination_port(frame, layout),
            ],
            protocol: layout.protocol,
        };
        let set = self.set_of(&name);
        let is_it = |place: &Option<Known>| place.is_some_and(|other| other.name == name);
        let same = set.iter().position(is_it);
        let oldest = (0..WAYS).min_by_key(|&way| set[way].map(|other| other.since));
        set[same.or(oldest).unwrap_or_default()] = Some(known);
        known
    }

    fn find(&mut self, name: &Name, now: Instant) -> Option<Known> {
        let mut known = self.set_of(name).iter().flatten();
        let known = known.find(|known| known.name == *name)?;
        (!is_old(known.since, now)).then_some(*known)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fragments::LIFETIME;
    use crate::wire::{Endpoint, PacketBuilder, dissect};

    fn end(text: &str) -> Endpoint {
        text.parse().expect("an endpoint")
    }

    fn fragment(identification: u32, from_port: u16, offset: u32) -> Vec<u8> {
        let from = Endpoint {
            port: from_port,
            ..end("10.0.0.1:0")
        };
        let builder = PacketBuilder::udp(from, end("192.0.2.1:53"));
        let builder = builder
            .identification(identification)
            .fragment(offset, true);
        builder.payload(&[7; 16]).to_vec().expect("it fits")
    }

    fn key(flows: &mut DatagramFlows, packet: &[u8], now: Instant) -> Option<Keyed> {
        let layout = dissect(packet).expect("a packet");
        flows.key(packet, &layout, &Steering::new(1), now)
    }

    #[test]
    fn later_fragments_are_of_the_flow_of_the_first() {
        let mut flows = DatagramFlows::new(HashKey::new(1));
        let now = Instant(9);
        assert_eq!(key(&mut flows, &fragment(5, 1000, 24), now), None);
        let first = key(&mut flows, &fragment(5, 1000, 0), now).expect("it has ports");
        let other = key(&mut flows, &fragment(6, 1001, 0), now).expect("it has ports");
        assert_ne!(first.key, other.key);
        let whole = PacketBuilder::udp(end("10.0.0.1:1000"), end("192.0.2.1:53"));
        let whole = whole.payload(&[7; 16]).to_vec().expect("it fits");
        let layout = dissect(&whole).expect("a packet");
        let of_whole = Steering::new(1).key(&whole, &layout).expect("a flow");
        assert_eq!((first.key, first.side), (of_whole.key, of_whole.side));
        for (identification, expected) in [(5, first), (6, other)] {
            let later = key(&mut flows, &fragment(identification, 0, 24), now);
            assert_eq!(later, Some(expected));
        }
        let late = now + LIFETIME + std::time::Duration::from_nanos(1);
        assert_eq!(key(&mut flows, &fragment(5, 0, 24), late), None);
    }

    /// Whoever sends first fragments without end makes others be forgotten, and takes no more memory.
    #[test]
    fn a_flood_of_datagrams_is_bounded() {
        let mut flows = DatagramFlows::new(HashKey::new(1));
        for number in 0..3 * MAX_DATAGRAMS as u32 {
            let now = Instant(u64::from(number));
            let packet = fragment(number % 0x1_0000, 1000, 0);
            assert!(key(&mut flows, &packet, now).is_some());
            assert!(key(&mut flows, &fragment(number, 0, 24), now).is_some());
        }
        assert_eq!(flows.places.len(), MAX_DATAGRAMS);
        let forgotten = key(&mut flows, &fragment(1, 0, 24), Instant(20_000));
        assert_eq!(forgotten, None);
    }
}
