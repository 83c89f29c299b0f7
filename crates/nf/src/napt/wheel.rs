//! When each session is to be looked at again: a wheel of lists, one for each tick.
//!
//! Packets do not move a session in the wheel, they only note when they came: so it is looked at
//! when it *may* have expired, and put back if it has not. What has expired is set aside, in one
//! more list, until it is removed.

use super::lists::Lists;
use twinpath_core::Instant;
use twinpath_core::time::TICK_SHIFT;

/// Ticks that the wheel reaches ahead, nine minutes; what lies beyond is looked at once on the
/// way.
const REACH: u64 = 1 << 13;
/// The list of those that are set aside.
const ASIDE: usize = REACH as usize;
/// The tick of an instant; it does not wrap.
pub(super) const fn tick_of(at: Instant) -> u64 {
    at.0 >> TICK_SHIFT
}

/// Sessions, by their numbers, in lists.
#[derive(Debug)]
pub(super) struct Wheel {
    lists: Lists,
    /// The list of this tick is being emptied, those of earlier ones are.
    hand: u64,
}

impl Wheel {
    pub fn new() -> Self {
        Self {
            lists: Lists::new(ASIDE + 1),
            hand: 0,
        }
    }

    /// What the places of so many sessions take.
    pub const fn bytes(sessions: usize) -> u64 {
        Lists::bytes(sessions)
    }

    /// Whether a deadline has not been reached.
    pub const fn is_ahead(&self, tick: u64) -> bool {
        tick > self.hand
    }

    /// A session is to be looked at no later than this tick, or than the next one if that has
    /// come.
    pub fn schedule(&mut self, number: u32, tick: u64) {
        let tick = tick.clamp(self.hand + 1, self.hand + REACH - 1);
        self.lists.put(number, (tick % REACH) as usize);
    }

    /// A session has expired.
    pub fn set_aside(&mut self, number: u32) {
        self.lists.put(number, ASIDE);
    }

    pub fn is_aside(&self, number: u32) -> bool {
        self.lists.has(ASIDE, number)
    }

    /// The next session to look at; it is in no list until it gets another place.
    pub fn due(&mut self, now: Instant) -> Option<u32> {
        let tick = tick_of(now);
        // One turn finds them all.
        self.hand = self.hand.max(tick.saturating_sub(REACH));
        loop {
            if let Some(first) = self.lists.first((self.hand % REACH) as usize) {
                self.lists.remove(first);
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
        let first = self.lists.first(ASIDE);
        self.lists.rotate(ASIDE);
        first
    }

    /// Takes a session out of its list.
    pub fn remove(&mut self, number: u32) {
        self.lists.remove(number);
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
