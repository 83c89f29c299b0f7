//! The records of parked payloads, and the headers that have come back for them.

use crate::order::Position;
use std::collections::VecDeque;
use twinpath_core::{Instant, Ticket};

/// What is known of a parked payload's header.
#[derive(Debug)]
pub(crate) enum Awaited<H> {
    /// The workers have it, since then.
    Away(Instant),
    /// It is back, but not from its last visit to the slow path: it waits for others, or goes on.
    Between,
    /// It is back.
    Here(H),
    /// The workers dropped the packet.
    Declined,
}

#[derive(Debug)]
pub(crate) struct Record<H> {
    pub(crate) awaited: Awaited<H>,
    pub(crate) place: Option<Position>,
    /// Of the packet's flow, where it is known.
    pub(crate) flow_hash: u64,
}

#[derive(Debug)]
struct Slot<H> {
    generation: u32,
    record: Option<Record<H>>,
    parked_at: Instant,
    /// The last use whose payload was given up before its header was back, and when it was parked.
    missed: Option<(u32, Instant)>,
}

/// A bounded table of records. A slot that was freed is the last to be used again.
#[derive(Debug)]
pub(crate) struct Slots<H> {
    slots: Vec<Slot<H>>,
    free: VecDeque<u32>,
}

impl<H> Slots<H> {
    pub(crate) fn new(count: u32) -> Self {
        let slots = (0..count).map(|_| Slot {
            generation: 0,
            record: None,
            parked_at: Instant::ZERO,
            missed: None,
        });
        Self {
            slots: slots.collect(),
            free: (0..count).collect(),
        }
    }

    pub(crate) fn is_full(&self) -> bool {
        self.free.is_empty()
    }

    /// A ticket for a packet split now, or `None` if all slots are taken.
    pub(crate) fn take(&mut self, place: Option<Position>, parked_at: Instant) -> Option<Ticket> {
        let index = self.free.pop_front()?;
        let slot = self.slots.get_mut(index as usize)?;
        slot.record = Some(Record {
            awaited: Awaited::Away(parked_at),
            place,
            flow_hash: 0,
        });
        slot.parked_at = parked_at;
        Some(Ticket {
            slot: index,
            generation: slot.generation,
        })
    }

    /// The record that a ticket names, unless it is of the past or was never given out.
    pub(crate) fn find(&mut self, ticket: Ticket) -> Option<&mut Record<H>> {
        let slot = self.slots.get_mut(ticket.slot as usize)?;
        let is_this = slot.generation == ticket.generation;
        slot.record.as_mut().filter(|_| is_this)
    }

    /// Since when the workers have the header of a ticket that is good, if they do.
    pub(crate) fn away_since(&self, ticket: Ticket) -> Option<Instant> {
        match self
            .slots
            .get(ticket.slot as usize)?
            .record
            .as_ref()?
            .awaited
        {
            Awaited::Away(since) => Some(since),
            _ => None,
        }
    }

    /// Whether the header of a ticket that is good is back, but not from its last visit.
    pub(crate) fn is_between(&self, ticket: Ticket) -> bool {
        let slot = self.slots.get(ticket.slot as usize);
        let record = slot.and_then(|slot| slot.record.as_ref());
        record.is_some_and(|record| matches!(record.awaited, Awaited::Between))
    }

    /// When the payload of a ticket that is good was parked.
    pub(crate) fn parked_at(&self, ticket: Ticket) -> Instant {
        let slot = self.slots.get(ticket.slot as usize);
        slot.map_or(Instant::ZERO, |slot| slot.parked_at)
    }

    /// Ends a ticket: from now on nothing answers to it.
    pub(crate) fn release(&mut self, ticket: Ticket) -> Option<Record<H>> {
        let slot = self.slots.get_mut(ticket.slot as usize)?;
        if slot.generation != ticket.generation {
            return None;
        }
        let record = slot.record.take()?;
        slot.generation = slot.generation.wrapping_add(1);
        self.free.push_back(ticket.slot);
        Some(record)
    }

    /// Ends the ticket of a payload that did not wait for its header.
    pub(crate) fn release_missed(&mut self, ticket: Ticket) -> Option<Record<H>> {
        let record = self.release(ticket)?;
        let slot = self.slots.get_mut(ticket.slot as usize)?;
        slot.missed = Some((ticket.generation, slot.parked_at));
        Some(record)
    }

    /// If this is the first header for a payload that did not wait for it, when that was parked.
    pub(crate) fn take_missed(&mut self, ticket: Ticket) -> Option<Instant> {
        let missed = &mut self.slots.get_mut(ticket.slot as usize)?.missed;
        let (_, parked_at) = missed.take_if(|(use_, _)| *use_ == ticket.generation)?;
        Some(parked_at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ticket_ends_with_its_release() {
        let mut slots = Slots::<u8>::new(1);
        let first = slots.take(None, Instant(5)).unwrap();
        assert!(slots.is_full() && slots.take(None, Instant(6)).is_none());
        slots.find(first).unwrap().awaited = Awaited::Here(7);
        assert!(matches!(
            slots.release(first).unwrap().awaited,
            Awaited::Here(7)
        ));
        let second = slots.take(None, Instant(7)).unwrap();
        assert_eq!(second.slot, first.slot);
        assert!(slots.find(first).is_none() && slots.release(first).is_none());
        assert!(slots.find(second).is_some());
    }

    #[test]
    fn slots_rest_before_they_are_used_again() {
        let mut slots = Slots::<u8>::new(3);
        let first = slots.take(None, Instant::ZERO).unwrap();
        slots.release(first);
        let next: Vec<u32> = (0..3)
            .filter_map(|_| slots.take(None, Instant::ZERO))
            .map(|ticket| ticket.slot)
            .collect();
        assert_eq!(next, [1, 2, 0]);
    }

    #[test]
    fn a_missed_header_is_told_once() {
        let mut slots = Slots::<u8>::new(1);
        let first = slots.take(None, Instant(3)).unwrap();
        slots.release_missed(first);
        let second = slots.take(None, Instant::ZERO).unwrap();
        assert_eq!(slots.take_missed(second), None);
        assert_eq!(slots.take_missed(first), Some(Instant(3)));
        assert_eq!(slots.take_missed(first), None);
    }

    #[test]
    fn invented_tickets_find_nothing() {
        let mut slots = Slots::<u8>::new(2);
        for slot in [0, 1, 2, u32::MAX] {
            let ticket = Ticket {
                slot,
                generation: 0,
            };
            assert!(slots.find(ticket).is_none());
        }
    }
}
