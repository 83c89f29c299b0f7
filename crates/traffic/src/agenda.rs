//! Flows whose next packet cannot wait until they are chosen: those that make
//! way for a new one, those that are new, and those with a late segment due.

use std::collections::VecDeque;

/// The queue of flows that go first, and the one of late segments. Flows are
/// named by their slots. Both queues are bounded and allocated once.
#[derive(Debug, Clone)]
pub(crate) struct Agenda {
    urgent: VecDeque<u32>,
    held: VecDeque<Held>,
    held_most: usize,
}

#[derive(Debug, Clone, Copy)]
struct Held {
    slot: u32,
    due_packet: u64,
}

impl Agenda {
    /// More than this many flows do not go first at the same time.
    const URGENT_MOST: usize = 4096;

    /// An agenda with room for so many late segments.
    pub(crate) fn new(held_most: usize) -> Self {
        Self {
            urgent: VecDeque::with_capacity(Self::URGENT_MOST),
            held: VecDeque::with_capacity(held_most),
            held_most,
        }
    }

    /// Whether [`Agenda::urge`] takes another flow.
    pub(crate) fn has_room(&self) -> bool {
        self.urgent.len() < Self::URGENT_MOST
    }

    /// Puts a flow last among those that go first. Without room it is not taken.
    pub(crate) fn urge(&mut self, slot: u32) -> bool {
        let room = self.has_room();
        if room {
            self.urgent.push_back(slot);
        }
        room
    }

    /// The flow that goes first.
    pub(crate) fn next_urgent(&mut self) -> Option<u32> {
        self.urgent.pop_front()
    }

    /// Whether [`Agenda::hold`] takes another flow.
    pub(crate) fn can_hold(&self) -> bool {
        self.held.len() < self.held_most
    }

    /// Remembers that a flow's late segment must come before this packet of the run.
    pub(crate) fn hold(&mut self, slot: u32, due_packet: u64) {
        if self.can_hold() {
            self.held.push_back(Held { slot, due_packet });
        }
    }

    /// The next flow whose late segment must come before this packet of the
    /// run; it may have come by itself in the meantime.
    pub(crate) fn next_due(&mut self, packet: u64) -> Option<u32> {
        self.held.front().filter(|held| held.due_packet <= packet)?;
        self.next_held()
    }

    /// The next flow with a late segment, due or not.
    pub(crate) fn next_held(&mut self) -> Option<u32> {
        self.held.pop_front().map(|held| held.slot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flows_go_in_the_order_in_which_they_came() {
        let mut agenda = Agenda::new(1);
        assert!(agenda.urge(5) && agenda.urge(3));
        assert_eq!(agenda.next_urgent(), Some(5));
        assert_eq!(agenda.next_urgent(), Some(3));
        assert_eq!(agenda.next_urgent(), None);
    }

    #[test]
    fn late_segments_wait_until_they_are_due() {
        let mut agenda = Agenda::new(2);
        agenda.hold(5, 100);
        agenda.hold(6, 101);
        assert!(!agenda.can_hold());
        assert_eq!(agenda.next_due(99), None);
        assert_eq!(agenda.next_due(100), Some(5));
        assert_eq!(agenda.next_due(100), None);
        assert_eq!(agenda.next_held(), Some(6));
    }

    #[test]
    fn both_queues_are_bounded() {
        let mut agenda = Agenda::new(1);
        let taken = (0..10_000).filter(|&slot| agenda.urge(slot)).count();
        assert_eq!(taken, Agenda::URGENT_MOST);
        (0..10).for_each(|slot| agenda.hold(slot, 0));
        assert_eq!((agenda.next_held(), agenda.next_held()), (Some(0), None));
    }
}
