//! Whose turn it is: packets of a flow leave in the order in which they came.
//!
//! Flows are hashed to partitions, and each partition has two counters: the number of the next
//! packet to come and that of the next to leave (TurboSwitch §III-A). Packets that will never
//! leave are marked in a window of bits behind the second counter, so that it can pass them at
//! once. The window is what a register array would hold; a partition whose window is used up
//! takes no packet, which is counted.
//!
//! [`Turns`] are the same two counters for packets that are numbered when their headers are back:
//! these all leave, so nothing is skipped and there is no window. Each flow and direction has a pair
//! of its own as long as packets of it are numbered, so that no packet waits for another flow's.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

/// A packet's number among those that leave in turn.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct Position {
    /// A partition, or a flow.
    lane: u64,
    number: u64,
}

impl Position {
    /// Whether the packet here was numbered before another of the same lane.
    pub(crate) fn is_before(self, other: Self) -> bool {
        self.lane == other.lane && self.number < other.number
    }
}

/// The counters of all flows that have numbered packets, by 64 bits of a keyed hash: whoever does not
/// know the key finds no two flows of one name but by a chance of 2^-64.
#[derive(Debug, Default)]
pub(crate) struct Turns(HashMap<u64, Counters>);

#[derive(Copy, Clone, Debug, Default)]
struct Counters {
    next_in: u64,
    next_out: u64,
}

impl Turns {
    /// Whether any numbered packet has not left.
    pub(crate) fn is_any(&self) -> bool {
        !self.0.is_empty()
    }

    /// Whether a packet of this flow would overtake another.
    pub(crate) fn is_any_before(&self, flow: u64) -> bool {
        self.0.contains_key(&flow)
    }

    pub(crate) fn number(&mut self, flow: u64) -> Position {
        let counters = self.0.entry(flow).or_default();
        let number = counters.next_in;
        counters.next_in += 1;
        Position { lane: flow, number }
    }

    fn is_next(&self, place: Position) -> bool {
        let counters = self.0.get(&place.lane);
        counters.is_some_and(|counters| counters.next_out == place.number)
    }

    fn pass(&mut self, place: Position) {
        let Entry::Occupied(mut counters) = self.0.entry(place.lane) else {
            return;
        };
        counters.get_mut().next_out += 1;
        if counters.get().next_out == counters.get().next_in {
            counters.remove();
        }
    }
}

/// Who gives the numbers.
#[derive(Debug)]
pub(crate) enum Numbers {
    /// Nobody.
    None,
    /// They are given when a packet arrives.
    AtArrival(Partitions),
    /// They are given when a header is back.
    AtReturn(Turns),
}

impl Numbers {
    /// Whether the packet at this place may leave.
    pub(crate) fn is_next(&self, place: Position) -> bool {
        match self {
            Self::None => true,
            Self::AtArrival(partitions) => partitions.is_next(place),
            Self::AtReturn(turns) => turns.is_next(place),
        }
    }

    /// Nobody waits for the packet at this place any more.
    pub(crate) fn pass(&mut self, place: Position) {
        match self {
            Self::None => (),
            Self::AtArrival(partitions) => partitions.pass(place),
            Self::AtReturn(turns) => turns.pass(place),
        }
    }
}

/// The upper half decides: a product instead of a division.
fn partition(flow_hash: u64, count: usize) -> u32 {
    (((flow_hash >> 32) * count as u64) >> 32) as u32
}

/// The counters of all partitions.
#[derive(Debug)]
pub(crate) struct Partitions {
    partitions: Vec<Partition>,
    window: u64,
}

#[derive(Debug)]
struct Partition {
    next_in: u64,
    next_out: u64,
    /// One bit a number within the window: it will never leave.
    skipped: Box<[u64]>,
}

impl Partitions {
    /// `window` is rounded up to a multiple of 64.
    pub(crate) fn new(count: u32, window: u32) -> Self {
        let words = window.div_ceil(64).max(1);
        let partitions = (0..count.max(1)).map(|_| Partition {
            next_in: 0,
            next_out: 0,
            skipped: vec![0; words as usize].into(),
        });
        Self {
            partitions: partitions.collect(),
            window: u64::from(words) * 64,
        }
    }

    /// The next number for a packet of the flow with this hash; `None` if the window is used up.
    pub(crate) fn number(&mut self, flow_hash: u64) -> Option<Position> {
        let partition = partition(flow_hash, self.partitions.len());
        let counters = self.partitions.get_mut(partition as usize)?;
        let number = counters.next_in;
        if number - counters.next_out >= self.window {
            return None;
        }
        counters.next_in += 1;
        let lane = partition.into();
        Some(Position { lane, number })
    }

    /// Whether the packet at this place is the next of its partition to leave.
    pub(crate) fn is_next(&self, place: Position) -> bool {
        self.partitions
            .get(place.lane as usize)
            .is_some_and(|partition| partition.next_out == place.number)
    }

    /// The packet at this place leaves, or will never leave: nobody waits for it any more.
    pub(crate) fn pass(&mut self, place: Position) {
        let Some(partition) = self.partitions.get_mut(place.lane as usize) else {
            return;
        };
        if place.number >= partition.next_out {
            partition.flip(place.number);
            partition.advance();
        }
    }
}

impl Partition {
    fn flip(&mut self, number: u64) {
        let (word, bit) = self.position(number);
        self.skipped[word] ^= 1 << bit;
    }

    fn is_skipped(&self, number: u64) -> bool {
        let (word, bit) = self.position(number);
        self.skipped[word] >> bit & 1 == 1
    }

    fn position(&self, number: u64) -> (usize, u64) {
        let word = number / 64 % self.skipped.len() as u64;
        (word as usize, number % 64)
    }

    /// At most as many steps as the window is long.
    fn advance(&mut self) {
        while self.is_skipped(self.next_out) {
            self.flip(self.next_out);
            self.next_out += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    #[test]
    fn the_turn_passes_over_what_is_skipped() {
        let mut partitions = Partitions::new(1, 64);
        let places: Vec<Position> = (0..4).map(|_| partitions.number(0).unwrap()).collect();
        partitions.pass(places[1]);
        partitions.pass(places[2]);
        assert!(partitions.is_next(places[0]));
        partitions.pass(places[0]);
        assert!(partitions.is_next(places[3]));
    }

    #[test]
    fn a_full_window_takes_no_packet() {
        let mut partitions = Partitions::new(1, 64);
        let first = partitions.number(0).unwrap();
        assert_eq!((1..100).filter_map(|_| partitions.number(0)).count(), 63);
        partitions.pass(first);
        assert!(partitions.number(0).is_some() && partitions.number(0).is_none());
    }

    #[test]
    fn flows_spread_over_partitions_and_stay_in_theirs() {
        let mut partitions = Partitions::new(16, 64);
        let hash = |flow: u64| flow.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let used: BTreeSet<u64> = (0..200)
            .map(|flow| partitions.number(hash(flow)).unwrap().lane)
            .collect();
        assert_eq!(used.len(), 16);
        let again = [5, 5, 5].map(|flow| partitions.number(hash(flow)).unwrap().lane);
        assert!(again[0] == again[1] && again[1] == again[2]);
    }

    proptest! {
        /// Against a set of numbers that are gone.
        #[test]
        fn the_turn_is_the_first_that_is_not_gone(order in Just((0..150u64).collect::<Vec<_>>()).prop_shuffle()) {
            let mut partitions = Partitions::new(1, 192);
            let places: Vec<Position> = (0..150).map(|_| partitions.number(0).unwrap()).collect();
            let mut gone = BTreeSet::new();
            for index in order {
                partitions.pass(places[index as usize]);
                gone.insert(index);
                let next = (0..150).find(|number| !gone.contains(number));
                for place in &places {
                    prop_assert_eq!(partitions.is_next(*place), Some(place.number) == next);
                }
            }
        }
    }
}
