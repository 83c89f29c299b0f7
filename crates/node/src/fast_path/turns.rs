//! Packets of one connection that cross take [turns](crate::turns) in a chain of several elements.

use super::batch::Batch;
use super::{BATCH, FastPath, Io};
use crate::place::Place;
use crate::turns::{Counts, MOST_WAITING, Probe, Reached, Turns};
use twinpath_core::wire::dissect;
use twinpath_core::wire::layout::Layout;
use twinpath_core::{Direction, DropReason, FlowKey, Frame, Instant};
use twinpath_link::{Header, Message, attach};

impl FastPath {
    /// The same with turns for packets that cross, or without.
    #[must_use]
    pub fn with_turns(self, turns: Option<Turns>) -> Self {
        let turns = turns.map(Box::new);
        Self { turns, ..self }
    }

    /// What happened to packets that take turns; `None` if no chain so far had turns.
    pub fn turn_counts(&self) -> Option<Counts> {
        let now = self.turns.as_ref().map(|turns| *turns.counts());
        let mut counts = self.former_turns.or(now)?;
        if let (Some(_), Some(now)) = (self.former_turns, now) {
            counts.absorb(&now);
        }
        Some(counts)
    }

    /// A packet arrives in front of a chain in which some take turns.
    pub(super) fn enter_in_turn(
        &mut self,
        frame: Frame,
        batch: &Batch,
        number: usize,
        io: &mut Io<'_>,
    ) {
        let frame = match batch.entrant(number) {
            Some((layout, direction)) => self.arrive(frame, &layout, direction, io),
            None => Some(frame),
        };
        if let Some(frame) = frame {
            self.enter(frame, batch, number, io);
        }
        self.end_walk(io);
    }

    /// Returns the packet if it is its turn at the first element.
    #[inline]
    fn arrive(
        &mut self,
        frame: Frame,
        layout: &Layout,
        direction: Direction,
        io: &mut Io<'_>,
    ) -> Option<Frame> {
        let place = Place::first(direction, self.elements.len());
        if let Some(turns) = &mut self.turns {
            turns.arrives(&frame, layout, &self.steering);
        }
        self.in_turn(frame, layout, place, io)
    }

    /// Returns the packet of the walk if it is its turn at an element.
    #[inline]
    pub(super) fn in_turn(
        &mut self,
        frame: Frame,
        layout: &Layout,
        place: Place,
        io: &mut Io<'_>,
    ) -> Option<Frame> {
        let concerned = self
            .turns
            .as_mut()
            .filter(|turns| turns.concern(place.element));
        let Some(turns) = concerned else {
            return Some(frame);
        };
        let reached = turns.reaches(place, frame, layout, &self.steering);
        self.goes_on_at_once(reached, io)
    }

    /// Returns the packet of the walk if it may go to the cores for an element.
    #[inline]
    pub(super) fn may_leave(
        &mut self,
        frame: Frame,
        layout: &Layout,
        place: Place,
        io: &mut Io<'_>,
    ) -> Option<Frame> {
        let Some(turns) = &mut self.turns else {
            return Some(frame);
        };
        let reached = turns.leaves(place, frame, layout, &self.steering);
        self.goes_on_at_once(reached, io)
    }

    #[inline(always)]
    fn goes_on_at_once(&mut self, reached: Reached, io: &mut Io<'_>) -> Option<Frame> {
        match reached {
            Reached::Meets(frame) => return Some(frame),
            Reached::Waits => {}
            Reached::Refused(frame) => self.drop(frame, DropReason::RingFull, io),
        }
        None
    }

    /// The packet of the walk is about to go to a worker, and will be expected wherever it has yet
    /// to come. Returns whether there is room.
    pub(super) fn is_expected_from_cores(
        &mut self,
        frame: &mut Frame,
        worker: usize,
        place: Place,
        layout: &Layout,
    ) -> bool {
        let turns = self.turns.as_mut();
        turns.is_none_or(|turns| turns.to_cores(frame, worker, place, layout, &self.steering))
    }

    /// The packet of the walk is about to be kept by rules, and will be expected wherever it has
    /// yet to come. Returns whether there is room.
    pub(super) fn is_expected_from_rules(
        &mut self,
        frame: &mut Frame,
        place: Place,
        layout: &Layout,
    ) -> bool {
        let turns = self.turns.as_mut();
        turns.is_none_or(|turns| turns.keep(frame, place, layout, &self.steering))
    }

    /// A packet's walk has come to its end, and those go on whose turn has come.
    #[inline]
    pub(super) fn end_walk(&mut self, io: &mut Io<'_>) {
        self.walked();
        while let Some((frame, place)) = self.turns.as_mut().and_then(|turns| turns.take_next()) {
            self.meet_late(frame, place, io);
            self.walked();
        }
    }

    #[inline]
    pub(super) fn walked(&mut self) {
        if let Some(turns) = &mut self.turns {
            turns.walked();
        }
    }

    /// A packet that has waited for its turn meets the element.
    #[cold]
    fn meet_late(&mut self, frame: Frame, place: Place, io: &mut Io<'_>) {
        match dissect(frame.bytes()) {
            Ok(layout) => self.meet_now(frame, &layout, place, io),
            Err(malformed) => self.drop(frame, DropReason::Malformed(malformed), io),
        }
    }

    /// Sends the probes that are due; at the end wherever packets are on the cores.
    pub(super) fn send_probes(&mut self, is_at_end: bool, io: &mut Io<'_>) {
        while let Some(turns) = &mut self.turns
            && let Some(probe) = turns.probe(io.clock.link, is_at_end)
        {
            self.send_probe(probe, io);
        }
    }

    /// Without a buffer the probe is lost, and sent again in time.
    fn send_probe(&mut self, probe: Probe, io: &mut Io<'_>) {
        let Some(mut frame) = io.pools.take(0) else {
            self.counts.no_own_buffer += 1;
            return;
        };
        frame.set_turn(probe.turn);
        let mut header = Header::new(Message::Probe, FlowKey::default());
        (header.element, header.timestamp) = (probe.element, io.clock.packet);
        match attach(&mut frame, &header) {
            Ok(()) => io.out.punts.push((probe.worker, frame)),
            Err(_) => io.pools.give(frame),
        }
    }

    /// Whether nobody is inside or waits.
    pub(super) fn are_turns_over(&self) -> bool {
        self.turns.as_ref().is_none_or(|turns| turns.is_empty())
    }

    /// How many packets wait for their turn.
    pub fn turns_waiting(&self) -> usize {
        self.turns.as_ref().map_or(0, |turns| turns.waiting())
    }

    /// Whether so many packets wait that a batch more might be too many.
    pub fn is_crowded(&self) -> bool {
        self.turns_waiting() + BATCH > MOST_WAITING
    }

    /// When the oldest of the packets arrived that wait here, for their payload or their turn.
    pub fn oldest_waiting(&self) -> Option<Instant> {
        let in_turns = self.turns.as_ref().and_then(|turns| turns.oldest());
        self.oldest_parked().into_iter().chain(in_turns).min()
    }
}
