//! When each session is to be looked at again: a wheel of lists, one for each tick.
//!
//! Packets do not move a session in the wheel, they only note when they came: so it is looked at
//! when it *may* have expired, and put back if it has not. What has expired is set aside, in one
//! more list, until it is removed.

use twinpath_core::Instant;
use twinpath_core::time::TICK_SHIFT;

/// Ticks that the wheel reaches ahead, nine minutes; what lies beyond is looked at once on the
/// way.
const REACH: u64 = 1 << 13;
/// The list of those that are set aside.
const ASIDE: u32 = REACH as u32;
/// In no list.
const NOWHERE: u32 = u32::MAX;

/// The tick of an instant; it does not wrap.
pub(super) const fn tick_of(at: Instant) -> u64 {
    at.0 >> TICK_SHIFT
}

/// A session's place: its list is a ring.
#[derive(Copy, Clone, Debug)]
struct Link {
    list: u32,
    next: u32,
    before: u32,
}

const UNLINKED: Link = Link {
    list: NOWHERE,
    next: 0,
    before: 0,
};

/// Sessions, by their numbers, in lists.
#[derive(Debug)]
pub(super) struct Wheel {
    links: Vec<Link>,
    /// The first of each list; 0 if it is empty. Numbers begin with 1.
    first: Box<[u32]>,
    /// The list of this tick is being emptied, those of earlier ones are.
    hand: u64,
}

impl Wheel {
    pub fn new() -> Self {
        Self {
            links: vec![UNLINKED],
            first: vec![0; REACH as usize + 1].into_boxed_slice(),
            hand: 0,
        }
    }

    /// What the places of so many sessions take.
    pub const fn bytes(sessions: usize) -> u64 {
        (sessions * size_of::<Link>()) as u64
    }

    /// Whether a deadline has not been reached.
    pub const fn is_ahead(&self, tick: u64) -> bool {
        tick > self.hand
    }

    /// A session is to be looked at no later than this tick, or than the next one if that has
    /// come.
    pub fn schedule(&mut self, number: u32, tick: u64) {
        let tick = tick.clamp(self.hand + 1, self.hand + REACH - 1);
        self.put(number, (tick % REACH) as u32);
    }

    /// A session has expired.
    pub fn set_aside(&mut self, number: u32) {
        self.put(number, ASIDE);
    }

    pub fn is_aside(&self, number: u32) -> bool {
        let link = self.links.get(number as usize);
        link.is_some_and(|link| link.list == ASIDE)
    }

    /// The next session to look at; it is in no list until it gets another place.
    pub fn due(&mut self, now: Instant) -> Option<u32> {
        let tick = tick_of(now);
        // One turn finds them all.
        self.hand = self.hand.max(tick.saturating_sub(REACH));
        loop {
            let first = self.first[(self.hand % REACH) as usize];
            if first != 0 {
                self.remove(first);
                return Some(first);
            }
            if self.hand >= tick {
                return None;
            }
            self.hand += 1;
        }
    }

    /// The first of those that are set aside; it becomes the last.
    pub fn next_aside(&mut self) -> Option<u32> {
        let first = self.first[ASIDE as usize];
        if first == 0 {
            return None;
        }
        self.first[ASIDE as usize] = self.links[first as usize].next;
        Some(first)
    }

    /// Takes a session out of its list.
    pub fn remove(&mut self, number: u32) {
        let Some(link) = self.links.get_mut(number as usize) else {
            return;
        };
        let Link { list, next, before } = std::mem::replace(link, UNLINKED);
        if list == NOWHERE {
            return;
        }
        if next == number {
            self.first[list as usize] = 0;
            return;
        }
        self.links[before as usize].next = next;
        self.links[next as usize].before = before;
        if self.first[list as usize] == number {
            self.first[list as usize] = next;
        }
    }

    /// Puts a session at the end of a list.
    fn put(&mut self, number: u32, list: u32) {
        if self.links.len() <= number as usize {
            self.links.resize(number as usize + 1, UNLINKED);
        }
        self.remove(number);
        let first = self.first[list as usize];
        let (next, before) = match first {
            0 => (number, number),
            first => (first, self.links[first as usize].before),
        };
        self.links[number as usize] = Link { list, next, before };
        self.links[before as usize].next = number;
        self.links[next as usize].before = number;
        if first == 0 {
            self.first[list as usize] = number;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    const fn at(tick: u64) -> Instant {
        Instant(tick << TICK_SHIFT)
    }

    #[derive(Clone, Debug)]
    enum Step {
        Schedule(u32, u64),
        Remove(u32),
        Advance(u64),
    }

    fn step() -> impl Strategy<Value = Step> {
        let far = prop_oneof![0u64..10, 0u64..3 * REACH];
        prop_oneof![
            4 => (1u32..20, far.clone()).prop_map(|(number, ahead)| Step::Schedule(number, ahead)),
            1 => (1u32..20).prop_map(Step::Remove),
            2 => far.prop_map(Step::Advance),
        ]
    }

    proptest! {
        /// Each is seen when its time has come, and not set aside before.
        #[test]
        fn nobody_is_missed(start in 0u64..1 << 37, steps in prop::collection::vec(step(), 1..200)) {
            let (mut wheel, mut now) = (Wheel::new(), start);
            let mut deadlines: BTreeMap<u32, u64> = BTreeMap::new();
            let mut aside: Vec<u32> = Vec::new();
            for step in steps {
                match step {
                    Step::Schedule(number, ahead) => {
                        wheel.schedule(number, now + ahead);
                        deadlines.insert(number, now + ahead);
                        aside.retain(|&other| other != number);
                    }
                    Step::Remove(number) => {
                        wheel.remove(number);
                        deadlines.remove(&number);
                        aside.retain(|&other| other != number);
                    }
                    Step::Advance(ticks) => now += ticks,
                }
                let mut looks = 0;
                while let Some(number) = wheel.due(at(now)) {
                    looks += 1;
                    prop_assert!(looks <= 2 * 20, "no more than two looks each");
                    if deadlines[&number] > now {
                        wheel.schedule(number, deadlines[&number]);
                    } else {
                        deadlines.remove(&number);
                        wheel.set_aside(number);
                        aside.push(number);
                    }
                }
                // What is put in with a deadline that has passed is seen with the next tick.
                let late = deadlines.values().filter(|deadline| **deadline < now).count();
                prop_assert_eq!(late, 0);
                let listed: Vec<u32> = (0..aside.len()).filter_map(|_| wheel.next_aside()).collect();
                prop_assert_eq!(&listed, &aside);
                prop_assert!((1..20).all(|number| wheel.is_aside(number) == aside.contains(&number)));
            }
        }
    }
}
