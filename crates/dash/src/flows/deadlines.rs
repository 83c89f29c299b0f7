//! When flows of an ENI will be over at the earliest.
//!
//! An ENI that may have so many flows has as many as are not over, whether or not those that are have
//! been found. So the earliest time at which each of them can be over is kept in order, and when there
//! is no room for another flow those are looked at whose time has come: each is over, or has a later
//! time. Packets of known flows change nothing here but where they bring the time forward.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use super::table::EntryNumber;

/// Entries of flows that are gone are cleared out when there are more of them than of flows that are
/// not, and so many.
const MOST_GONE: usize = 64;

/// A time, in ticks, and whose.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
struct Deadline {
    tick: u32,
    place: EntryNumber,
}

impl Ord for Deadline {
    /// The earlier the greater; ticks are not further apart than half of all.
    fn cmp(&self, other: &Self) -> Ordering {
        let ahead = other.tick.wrapping_sub(self.tick) as i32;
        ahead.cmp(&0).then(self.place.cmp(&other.place))
    }
}

impl PartialOrd for Deadline {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Places of flows, by the tick before which the flow there is not over. A place may be named more
/// than once, and when its flow is gone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Deadlines {
    heap: BinaryHeap<Deadline>,
}

impl Deadlines {
    /// The flow at a place will not be over before a tick.
    pub fn push(&mut self, tick: u32, place: EntryNumber) {
        self.heap.push(Deadline { tick, place });
    }

    /// A place whose flow may be over by now.
    pub fn pop(&mut self, now: u32) -> Option<EntryNumber> {
        let first = self.heap.peek()?;
        let is_due = now.wrapping_sub(first.tick) as i32 >= 0;
        is_due.then(|| self.heap.pop())?.map(|due| due.place)
    }

    /// Whether most are of flows that are gone, where there are so many flows.
    pub fn are_stale(&self, flows: u32) -> bool {
        self.heap.len() > 2 * flows as usize + MOST_GONE
    }

    /// All are cleared out of which `tick` does not say when the flow can be over.
    pub fn renew(&mut self, tick: impl Fn(EntryNumber) -> Option<u32>) {
        let mut all = std::mem::take(&mut self.heap).into_vec();
        all.sort_unstable_by_key(|deadline| deadline.place);
        all.dedup_by_key(|deadline| deadline.place);
        all.retain_mut(|deadline| match tick(deadline.place) {
            Some(tick) => {
                deadline.tick = tick;
                true
            }
            None => false,
        });
        self.heap = all.into();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_earliest_comes_first_and_not_before_its_time() {
        let mut deadlines = Deadlines::default();
        // Around where ticks begin anew.
        let base = u32::MAX - 5;
        for number in [7, 3, 9, 1] {
            deadlines.push(base.wrapping_add(number), EntryNumber::from_bits(number));
        }
        assert_eq!(deadlines.pop(base), None);
        let due = |deadlines: &mut Deadlines, after| deadlines.pop(base.wrapping_add(after));
        assert_eq!(due(&mut deadlines, 8), Some(EntryNumber::from_bits(1)));
        assert_eq!(due(&mut deadlines, 8), Some(EntryNumber::from_bits(3)));
        assert_eq!(due(&mut deadlines, 8), Some(EntryNumber::from_bits(7)));
        assert_eq!(due(&mut deadlines, 8), None);
        assert_eq!(due(&mut deadlines, 9), Some(EntryNumber::from_bits(9)));
    }

    #[test]
    fn what_is_gone_is_cleared_out() {
        let mut deadlines = Deadlines::default();
        for tick in 0..200 {
            deadlines.push(tick, EntryNumber::from_bits(tick % 4));
        }
        assert!(deadlines.are_stale(4) && !deadlines.are_stale(100));
        deadlines.renew(|place| (place != EntryNumber::from_bits(3)).then_some(500));
        assert!(!deadlines.are_stale(0));
        assert_eq!(deadlines.pop(499), None);
        let mut left: Vec<_> = std::iter::from_fn(|| deadlines.pop(500)).collect();
        left.sort_unstable();
        assert_eq!(left, [0, 1, 2].map(EntryNumber::from_bits));
    }
}
