//! Which endpoint of a tunnel a flow's packets go to.

use twinpath_core::HashKey;
use twinpath_core::wire::{Address, Endpoint};

use super::services::Spread;

/// So many endpoints are weighed one by one for each flow.
const MOST_WEIGHED: usize = 64;
/// How often a flow looks at the ring. An endpoint has so much of the ring as lies in front of it; the
/// nearest of this many looks evens that out, so that the busiest of many endpoints has some
/// twentieth more than its share.
const LOOKS: u64 = 21;

/// Outer destinations of a tunnel. Flows are spread over them, and when some come or go none move but
/// those that went to who is gone, or go to who is new.
///
/// Few are weighed one by one (rendezvous hashing), which spreads flows evenly. Of more than
/// [`MOST_WEIGHED`] each stands somewhere on a ring, and a flow goes to the one that is nearest
/// behind any of several points of its own (multi-probe consistent hashing; Appleton and O'Reilly,
/// 2015): the same promise, at a logarithm of their number. Between the two nearly all flows move.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoints {
    all: Box<[Address]>,
    /// Where each of many stands, in order, and its place among all.
    ring: Box<[(u64, u32)]>,
}

impl Endpoints {
    pub(super) fn new(all: &[Address], key: HashKey) -> Self {
        let is_ring = all.len() > MOST_WEIGHED;
        let on_ring = (0..).zip(all).filter(|_| is_ring);
        let stands = |Address(bits): Address| key.hash([(bits >> 64) as u64, bits as u64, 0]);
        let mut ring: Vec<_> = on_ring.map(|(place, &at)| (stands(at), place)).collect();
        ring.sort_unstable();
        Self {
            all: all.into(),
            ring: ring.into(),
        }
    }

    /// All of them.
    #[must_use]
    pub const fn all(&self) -> &[Address] {
        &self.all
    }

    /// That of a flow.
    #[must_use]
    pub fn of(&self, flow: &Spread) -> Option<Address> {
        if self.ring.is_empty() {
            let end = |address: &Address| Endpoint::new(*address, 0);
            return flow.choose(&self.all, end).copied();
        }
        let looks = (0..LOOKS).map(|look| self.behind(flow.number(look)));
        let (_, place) = looks.min()?;
        self.all.get(place as usize).copied()
    }

    /// The endpoint that is next behind a point of the ring, and how far that is.
    fn behind(&self, point: u64) -> (u64, u32) {
        let next = self.ring.partition_point(|(stands, _)| *stands < point);
        let next = self.ring.get(next).or(self.ring.first());
        next.map_or((u64::MAX, 0), |(stands, place)| {
            (stands.wrapping_sub(point), *place)
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;
    use crate::headers::Headers;

    fn flow(key: HashKey, number: u32) -> Spread {
        let headers = Headers {
            source: Address::from_v4(number.to_be_bytes()),
            destination: Address::from_v4([10, 0, 0, 2]),
            ports: Some([7, 80]),
            protocol: 6,
        };
        Spread::new(key, &headers, 0)
    }

    fn addresses(count: u32) -> Vec<Address> {
        let address = |number: u32| Address::from_v4((0x3c00_0000 + number).to_be_bytes());
        (0..count).map(address).collect()
    }

    /// The nearest of all endpoints behind any of a flow's points, each of which is looked at.
    fn nearest(all: &[Address], key: HashKey, flow: &Spread) -> Option<Address> {
        let stands = |Address(bits): Address| key.hash([(bits >> 64) as u64, bits as u64, 0]);
        let distance = |at: &&Address| {
            let looks = (0..LOOKS).map(|look| stands(**at).wrapping_sub(flow.number(look)));
            looks.min()
        };
        all.iter().min_by_key(distance).copied()
    }

    proptest! {
        /// The same as if a flow weighed each, or asked each how near it is.
        #[test]
        fn the_endpoint_is_that_of_a_look_at_all(
            seed in any::<u64>(),
            count in prop::sample::select(vec![1, 2, 63, 64, 65, 200]),
            flows in prop::collection::vec(any::<u32>(), 1..20),
        ) {
            let (key, all) = (HashKey::new(seed), addresses(count));
            let endpoints = Endpoints::new(&all, key);
            for number in flows {
                let flow = flow(key, number);
                let expected = match all.len() > MOST_WEIGHED {
                    true => nearest(&all, key, &flow),
                    false => flow.choose(&all, |at| Endpoint::new(*at, 0)).copied(),
                };
                prop_assert_eq!(endpoints.of(&flow), expected);
            }
        }

        /// In whatever order they are told, none moves but the flows of who is gone.
        #[test]
        fn flows_stay_when_another_endpoint_goes(
            seed in any::<u64>(),
            gone in 0u32..100,
            turned in 0usize..99,
        ) {
            let key = HashKey::new(seed);
            let all = addresses(100);
            let mut left = all.clone();
            left.remove(gone as usize);
            left.rotate_left(turned);
            let [before, after] = [&all, &left].map(|some| Endpoints::new(some, key));
            for number in 0..300 {
                let flow = flow(key, number);
                let (one, other) = (before.of(&flow), after.of(&flow));
                prop_assert!(one == other || one == Some(all[gone as usize]));
                prop_assert_ne!(other, Some(all[gone as usize]));
            }
        }
    }

    #[test]
    fn flows_are_spread_over_many() {
        let (key, all) = (HashKey::new(1), addresses(100));
        let endpoints = Endpoints::new(&all, key);
        let mut counts: HashMap<Address, u32> = HashMap::new();
        for number in 0..100_000 {
            let chosen = endpoints.of(&flow(key, number)).expect("one");
            *counts.entry(chosen).or_default() += 1;
        }
        assert_eq!(counts.len(), all.len());
        let most = counts.values().max();
        assert!(most < Some(&1300), "{most:?} of a share of 1000");
    }

    #[test]
    fn of_none_is_none() {
        let key = HashKey::new(1);
        assert_eq!(Endpoints::new(&[], key).of(&flow(key, 1)), None);
    }
}
