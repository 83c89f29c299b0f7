//! The header slots of a switch (Ribosome §3.1): an array whose places are used in turn, one for each
//! packet that is split.
//!
//! The paper makes it so long that a packet is whole again before its place is used again, and merges
//! whatever lies there. Here each use has a number, so that a place that was taken by another packet is
//! known to be, and no payload meets another packet's header.

use twinpath_core::Ticket;

struct Slot<T> {
    generation: u32,
    entry: Option<T>,
}

/// The array. A [`Ticket`] names a use of a place.
pub struct HeaderSlots<T> {
    slots: Box<[Slot<T>]>,
    next: usize,
    used: usize,
}

/// How many places are looked at for one that may be used.
const LOOKED_AT: usize = 8;

impl<T> HeaderSlots<T> {
    /// Places for `slots` packets, at least one. The paper has 2000.
    #[must_use]
    pub fn new(slots: usize) -> Self {
        let empty = || Slot {
            generation: 0,
            entry: None,
        };
        Self {
            slots: std::iter::repeat_with(empty).take(slots.max(1)).collect(),
            next: 0,
            used: 0,
        }
    }

    /// How many places are in use.
    #[must_use]
    pub const fn used(&self) -> usize {
        self.used
    }

    /// Goes on to the next place that is free, or whose packet may lose it: whether there is one among
    /// the next few.
    pub fn seek(&mut self, may_lose: impl Fn(&T) -> bool) -> bool {
        for _ in 0..LOOKED_AT.min(self.slots.len()) {
            let slot = &self.slots[self.next];
            if slot.entry.as_ref().is_none_or(&may_lose) {
                return true;
            }
            self.next = self.behind(self.next);
        }
        false
    }

    const fn behind(&self, index: usize) -> usize {
        if index + 1 < self.slots.len() {
            index + 1
        } else {
            0
        }
    }

    /// Puts a packet into the next place; who was there has lost it, and is given back.
    pub fn put(&mut self, entry: T) -> (Ticket, Option<T>) {
        let index = self.next;
        self.next = self.behind(index);
        let slot = &mut self.slots[index];
        slot.generation = slot.generation.wrapping_add(1);
        let overtaken = slot.entry.replace(entry);
        self.used += usize::from(overtaken.is_none());
        let ticket = Ticket {
            slot: index as u32,
            generation: slot.generation,
        };
        (ticket, overtaken)
    }

    fn slot(&mut self, ticket: Ticket) -> Option<&mut Slot<T>> {
        let slot = self.slots.get_mut(ticket.slot as usize)?;
        (slot.generation == ticket.generation).then_some(slot)
    }

    /// The packet, unless its place was taken by another or it has left.
    pub fn find(&mut self, ticket: Ticket) -> Option<&mut T> {
        self.slot(ticket)?.entry.as_mut()
    }

    /// The same; it leaves its place.
    pub fn take(&mut self, ticket: Ticket) -> Option<T> {
        let taken = self.slot(ticket)?.entry.take();
        self.used -= usize::from(taken.is_some());
        taken
    }

    /// Takes all out of their places that `is_lost` says.
    pub fn take_all(&mut self, is_lost: impl Fn(&T) -> bool) -> impl Iterator<Item = T> {
        let used = &mut self.used;
        self.slots.iter_mut().filter_map(move |slot| {
            let taken = slot.entry.take_if(|entry| is_lost(entry));
            *used -= usize::from(taken.is_some());
            taken
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_was_overtaken_is_never_given_out() {
        let mut slots = HeaderSlots::new(2);
        let (a, none) = slots.put("a");
        assert_eq!(none, None);
        let (b, _) = slots.put("b");
        let (c, overtaken) = slots.put("c");
        assert_eq!((overtaken, slots.used()), (Some("a"), 2));
        assert_eq!(a.slot, c.slot);
        assert_eq!((slots.take(a), slots.take(c)), (None, Some("c")));
        assert_eq!((slots.take(b), slots.take(b)), (Some("b"), None));
        let beyond = Ticket {
            slot: 9,
            generation: 1,
        };
        assert_eq!((slots.take(beyond), slots.used()), (None, 0));
    }

    #[test]
    fn places_that_may_not_be_lost_are_passed_over() {
        let mut slots = HeaderSlots::new(3);
        let (first, _) = slots.put(7);
        slots.put(1);
        slots.put(2);
        assert!(slots.seek(|&entry| entry < 5));
        let (_, overtaken) = slots.put(8);
        assert_eq!(overtaken, Some(1), "the first place is passed over");
        assert!(!slots.seek(|_| false));
        assert_eq!(slots.take_all(|&entry| entry > 7).count(), 1);
        assert_eq!((slots.used(), slots.find(first)), (2, Some(&mut 7)));
        assert!(slots.seek(|_| false), "a place is free");
    }
}
