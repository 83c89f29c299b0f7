//! Which packets are inside the machine, and the watermark of departures: every packet that arrived
//! before it has left, was dropped, or is kept by a function.

use std::collections::VecDeque;
use twinpath_core::Instant;

/// Packets inside, by their number in the order of arrival.
///
/// A packet that passes at once is never entered here. One that goes to a worker, is held for a rule
/// or parked is *opened* once for each place that it waits in, and closed when it has left that.
#[derive(Debug, Default)]
pub struct UnderWay {
    /// In order of arrival, each with a time that is no later than its own, and none later than that
    /// of the next. Those that nobody waits for any more are swept out from the front, and
    /// from between when they are most.
    waiting: VecDeque<Waiting>,
    /// Of them, those that are open.
    open: usize,
    /// Packets that have arrived.
    arrived: u64,
    latest: Instant,
}

#[derive(Copy, Clone, Debug)]
struct Waiting {
    ordinal: u64,
    at: Instant,
    places: u32,
}

impl UnderWay {
    /// So many packets have arrived, the last at this time. Their numbers follow those before.
    #[inline]
    pub fn arrive(&mut self, packets: usize, latest: Instant) {
        self.latest = latest;
        self.arrived += packets as u64;
    }

    /// Packets that have arrived so far: the number of the next one.
    pub fn arrived(&self) -> u64 {
        self.arrived
    }

    /// A packet begins to wait somewhere.
    pub fn open(&mut self, ordinal: u64, at: Instant) {
        let place = match self.waiting.back() {
            Some(last) if last.ordinal >= ordinal => self
                .waiting
                .partition_point(|other| other.ordinal < ordinal),
            _ => self.waiting.len(),
        };
        match self.waiting.get_mut(place) {
            Some(known) if known.ordinal == ordinal => {
                self.open += usize::from(known.places == 0);
                known.places += 1;
                known.at = known.at.min(at);
            }
            next => {
                // What a function let go of goes on later than it arrived.
                let at = next.map_or(at, |next| next.at.min(at));
                let places = 1;
                let new = Waiting {
                    ordinal,
                    at,
                    places,
                };
                self.waiting.insert(place, new);
                self.open += 1;
            }
        }
        for earlier in self.waiting.range_mut(..place).rev() {
            if earlier.at <= at {
                break;
            }
            earlier.at = at;
        }
    }

    /// It no longer waits there.
    pub fn close(&mut self, ordinal: u64) {
        let place = match self.waiting.front() {
            Some(first) if first.ordinal == ordinal => 0,
            _ => self
                .waiting
                .partition_point(|other| other.ordinal < ordinal),
        };
        if let Some(known) = self.waiting.get_mut(place)
            && known.ordinal == ordinal
            && known.places > 0
        {
            known.places -= 1;
            self.open -= usize::from(known.places == 0);
        }
    }

    /// Forgets packets that nobody waits for.
    pub fn settle(&mut self) {
        while self.waiting.front().is_some_and(|first| first.places == 0) {
            self.waiting.pop_front();
        }
        if self.waiting.len() > 2 * self.open + 64 {
            self.waiting.retain(|waiting| waiting.places > 0);
        }
    }

    /// When the last packet arrived.
    pub fn latest(&self) -> Instant {
        self.latest
    }

    /// How many packets wait.
    pub fn waiting(&self) -> usize {
        self.open
    }

    /// Every packet with a smaller number has left, was dropped or is kept by a function.
    #[inline]
    pub fn watermark(&self) -> u64 {
        self.waiting
            .front()
            .map_or(self.arrived, |oldest| oldest.ordinal)
    }

    /// The time of the oldest packet that waits, or an earlier one.
    #[inline]
    pub fn oldest_waiting(&self) -> Option<Instant> {
        self.waiting.front().map(|oldest| oldest.at)
    }

    /// What leaves from now on arrived at this time or later.
    #[inline]
    pub fn oldest(&self) -> Instant {
        self.waiting.front().map_or(self.latest, |oldest| oldest.at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    #[test]
    fn the_watermark_is_the_oldest_that_waits() {
        let mut under_way = UnderWay::default();
        for number in 0..4 {
            assert_eq!(under_way.arrived(), number);
            under_way.arrive(1, Instant(number * 10));
        }
        assert_eq!(
            (under_way.watermark(), under_way.oldest()),
            (4, Instant(30))
        );
        under_way.open(3, Instant(30));
        under_way.open(1, Instant(10));
        under_way.open(1, Instant(10));
        assert_eq!((under_way.watermark(), under_way.waiting()), (1, 2));
        under_way.close(1);
        under_way.settle();
        assert_eq!(under_way.watermark(), 1, "it still waits elsewhere");
        under_way.close(1);
        under_way.settle();
        assert_eq!(
            (under_way.watermark(), under_way.oldest()),
            (3, Instant(30))
        );
    }

    /// What goes on later than it arrived does not hide what is older.
    #[test]
    fn no_time_is_later_than_that_of_a_packet_that_waits() {
        let mut under_way = UnderWay::default();
        under_way.arrive(9, Instant(80));
        for (ordinal, at) in [(5, 90), (8, 80), (6, 70), (8, 60)] {
            under_way.open(ordinal, Instant(at));
            let times: Vec<_> = under_way.waiting.iter().map(|waiting| waiting.at).collect();
            assert!(times.is_sorted(), "{times:?}");
        }
        assert_eq!(under_way.oldest_waiting(), Some(Instant(60)));
    }

    proptest! {
        /// Against a map of what waits.
        #[test]
        fn as_a_map_says(steps in prop::collection::vec((0u64..40, any::<bool>()), 0..300)) {
            let mut under_way = UnderWay::default();
            let mut map: BTreeMap<u64, u32> = BTreeMap::new();
            under_way.arrive(40, Instant(39));
            for (ordinal, opens) in steps {
                if opens {
                    under_way.open(ordinal, Instant(ordinal));
                    *map.entry(ordinal).or_default() += 1;
                } else {
                    under_way.close(ordinal);
                    if let Some(places) = map.get_mut(&ordinal) {
                        *places -= 1;
                        if *places == 0 {
                            map.remove(&ordinal);
                        }
                    }
                }
                under_way.settle();
                let first = map.first_key_value().map_or(40, |(ordinal, _)| *ordinal);
                prop_assert_eq!(under_way.watermark(), first);
                prop_assert_eq!(under_way.waiting(), map.len());
                prop_assert!(under_way.waiting.len() <= 2 * map.len() + 64);
            }
        }
    }
}
