//! What will happen, in order.
//!
//! A binary heap. `--example events_per_second` measures it against a calendar queue: up to some
//! thousand events waiting, which is where testbeds of a few devices are, the heap is the faster one,
//! and a calendar must guess the length of its days.

use crate::time::Time;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Whatever changes when something happens.
pub trait World {
    /// What can happen.
    type Event;

    /// It happens, now.
    fn happen(&mut self, event: Self::Event, agenda: &mut Agenda<Self::Event>);
}

/// Lets events happen until there are none. Returns how many there were.
pub fn run<W: World>(world: &mut W, agenda: &mut Agenda<W::Event>) -> u64 {
    run_until(world, agenda, Time(u64::MAX))
}

/// Lets events happen up to and including `end`. Returns how many there were.
pub fn run_until<W: World>(world: &mut W, agenda: &mut Agenda<W::Event>, end: Time) -> u64 {
    let mut count = 0;
    while let Some(event) = agenda.pop_until(end) {
        world.happen(event, agenda);
        count += 1;
    }
    count
}

/// Events to come, the earliest first; those at the same time in the order in which they were put on.
#[derive(Debug)]
pub struct Agenda<E> {
    heap: BinaryHeap<Reverse<Entry<E>>>,
    now: Time,
    sequence: u64,
}

#[derive(Debug)]
struct Entry<E> {
    /// Time above, order of arrival below: one comparison decides.
    key: u128,
    event: E,
}

impl<E> PartialEq for Entry<E> {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key
    }
}

impl<E> Eq for Entry<E> {}

impl<E> PartialOrd for Entry<E> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> Ord for Entry<E> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key.cmp(&other.key)
    }
}

impl<E> Default for Agenda<E> {
    fn default() -> Self {
        Self {
            heap: BinaryHeap::new(),
            now: Time::ZERO,
            sequence: 0,
        }
    }
}

impl<E> Agenda<E> {
    /// The time of the event that happens now.
    pub fn now(&self) -> Time {
        self.now
    }

    /// Puts an event on for `time`, or for now if that has passed.
    pub fn at(&mut self, time: Time, event: E) {
        let time = time.max(self.now);
        let key = u128::from(time.0) << 64 | u128::from(self.sequence);
        self.sequence += 1;
        self.heap.push(Reverse(Entry { key, event }));
    }

    /// Puts an event on for `delay` from now.
    pub fn after(&mut self, delay: Time, event: E) {
        self.at(self.now + delay, event);
    }

    /// Takes the next event off, and moves the time on to it.
    pub fn pop(&mut self) -> Option<E> {
        self.pop_until(Time(u64::MAX))
    }

    /// Takes the next event off, unless it comes after `end`.
    pub fn pop_until(&mut self, end: Time) -> Option<E> {
        let Reverse(first) = self.heap.peek()?;
        let time = Time((first.key >> 64) as u64);
        if time > end {
            return None;
        }
        self.now = time;
        let Reverse(entry) = self.heap.pop()?;
        Some(entry.event)
    }

    /// Events to come.
    pub fn len(&self) -> usize {
        self.heap.len()
    }

    /// Whether nothing will happen any more.
    pub fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_due_in_the_past_happens_now() {
        let mut agenda = Agenda::default();
        agenda.at(Time(10), 'a');
        assert_eq!(agenda.pop(), Some('a'));
        agenda.at(Time(5), 'b');
        assert_eq!((agenda.pop(), agenda.now()), (Some('b'), Time(10)));
    }

    #[test]
    fn a_run_stops_at_its_end() {
        struct Ticks(u32);
        impl World for Ticks {
            type Event = ();
            fn happen(&mut self, (): (), agenda: &mut Agenda<()>) {
                self.0 += 1;
                agenda.after(Time(10), ());
            }
        }
        let (mut ticks, mut agenda) = (Ticks(0), Agenda::default());
        agenda.at(Time::ZERO, ());
        assert_eq!(run_until(&mut ticks, &mut agenda, Time(100)), 11);
        assert_eq!((ticks.0, agenda.len(), agenda.now()), (11, 1, Time(100)));
    }

    proptest! {
        /// Against a list that is sorted each time; a stable sort keeps the order of equals.
        #[test]
        fn events_come_as_from_a_sorted_list(steps in prop::collection::vec((any::<bool>(), 0u64..20), 1..200)) {
            let mut agenda = Agenda::default();
            let mut list: Vec<(u64, usize)> = Vec::new();
            let mut now = 0;
            for (number, (takes, delay)) in steps.into_iter().enumerate() {
                if takes {
                    list.sort_by_key(|(time, _)| *time);
                    let first = (!list.is_empty()).then(|| list.remove(0));
                    now = first.map_or(now, |(time, _)| time);
                    prop_assert_eq!(agenda.pop(), first.map(|(_, number)| number));
                    prop_assert_eq!(agenda.now(), Time(now));
                } else {
                    agenda.after(Time(delay), number);
                    list.push((now + delay, number));
                }
            }
        }
    }
}
