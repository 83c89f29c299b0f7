//! Fragments in front of elements that need ports (see [`twinpath_core::fragments`]).
//!
//! Each leaves its lane and meets the element alone. What is held counts as kept by the element, as
//! what a function keeps: nobody waits for it.

use super::lane::Shape;
use super::{FastPath, Io};
use crate::position::Position;
use crate::watch::TraceStep;
use twinpath_coherence::Parsed;
use twinpath_core::fragments::FragmentOutcome;
use twinpath_core::wire::dissect;
use twinpath_core::wire::layout::{Fragment, Layout};
use twinpath_core::{DropReason, Fragments, Frame, Keyed};

impl FastPath {
    /// The same with virtual reassembly in front of these elements.
    #[must_use]
    pub fn with_fragments(mut self, needs_ports: &[bool]) -> Self {
        self.gather_fragments(needs_ports, &[]);
        self
    }

    /// Gathers in front of these elements from now on. Where `stays` says that an element is what it was,
    /// what is held in front of it stays; all else is given up.
    pub(super) fn gather_fragments(&mut self, needs_ports: &[bool], stays: &[bool]) {
        let hash_key = *self.steering.hash_key();
        let stages = (0..).zip(needs_ports).map(|(element, &needs)| {
            let former = self
                .fragments
                .get_mut(element)
                .filter(|_| stays.get(element) == Some(&true));
            let former = former.and_then(Option::take);
            needs.then(|| former.unwrap_or_else(|| Box::new(Fragments::new(hash_key))))
        });
        let stages = stages.collect();
        self.give_up_fragments();
        self.fragments = stages;
    }

    /// Fragments that are held in front of elements.
    pub fn held_fragments(&self) -> usize {
        let stages = self.fragments.iter().flatten();
        stages.map(|stage| stage.held()).sum()
    }

    /// Whether a packet is a fragment that has to find its flow in front of an element.
    #[inline(always)]
    pub(super) fn is_gathered(&self, layout: &Layout, element: u8) -> bool {
        layout.fragment != Fragment::Whole
            && matches!(self.fragments.get(usize::from(element)), Some(Some(_)))
    }

    /// The flow of the fragment that has just found it in front of an element.
    #[inline]
    pub(super) fn key_of_fragment(
        &self,
        frame: &Frame,
        layout: &Layout,
        element: u8,
    ) -> Option<Keyed> {
        if layout.fragment == Fragment::Whole {
            return None;
        }
        let stage = self.fragments.get(usize::from(element))?.as_ref()?;
        stage.key(frame.bytes(), layout, self.steering.at(element))
    }

    /// A fragment comes to an element that needs ports.
    #[cold]
    pub(super) fn gather(
        &mut self,
        frame: Frame,
        layout: &Layout,
        position: Position,
        io: &mut Io<'_>,
    ) {
        let (element, buffer) = (position.element, frame.buffer());
        let (ordinal, at) = (frame.ordinal(), frame.timestamp());
        let Some(Some(stage)) = self.fragments.get_mut(usize::from(element)) else {
            return self.meet_alone(frame, layout, position, io);
        };
        let met = stage.meet(frame, layout);
        // What is held must leave buffers for what comes, or its first fragment never would.
        stage.hold_at_most(io.pools.small().frames() / 4);
        self.count_given_up(element);
        match met {
            FragmentOutcome::Refused(frame, reason) => {
                self.tell(&frame, |_| TraceStep::Gather { element });
                return self.drop(frame, reason, io);
            }
            FragmentOutcome::Held => {
                if let Some(watch) = &self.watch {
                    watch.tell(buffer, || TraceStep::Hold { element });
                }
                return;
            }
            FragmentOutcome::Known(frame) => self.meet_alone(frame, layout, position, io),
        }
        while let Some(mut follower) = self.next_follower(element) {
            // It goes on as of now.
            follower.set_ordinal(ordinal);
            follower.set_timestamp(at);
            match dissect(follower.bytes()) {
                Ok(layout) => self.meet_alone(follower, &layout, position, io),
                Err(malformed) => self.drop(follower, DropReason::Malformed(malformed), io),
            }
        }
    }

    fn next_follower(&mut self, element: u8) -> Option<Frame> {
        let stage = self.fragments.get_mut(usize::from(element))?.as_mut()?;
        stage.next_follower()
    }

    /// A packet that is in no lane meets an element.
    fn meet_alone(
        &mut self,
        mut frame: Frame,
        layout: &Layout,
        position: Position,
        io: &mut Io<'_>,
    ) {
        let parsed = Parsed {
            layout: *layout,
            ..Parsed::default()
        };
        let (decision, _) = self.meet(&mut frame, &Shape::Other(&parsed), position, 0, io.clock);
        self.stop(decision, frame, layout, position, io);
    }

    /// Gives up all fragments that are held: nothing is under way that they could wait for.
    pub(crate) fn give_up_fragments(&mut self) {
        for stage in self.fragments.iter_mut().flatten() {
            stage.clear();
        }
        for element in 0..self.fragments.len() {
            self.count_given_up(element as u8);
        }
    }

    fn count_given_up(&mut self, element: u8) {
        let Some(Some(stage)) = self.fragments.get_mut(usize::from(element)) else {
            return;
        };
        for (frame, why) in stage.given_up() {
            if let Some(watch) = &self.watch {
                watch.tell(frame.buffer(), || TraceStep::Gather { element });
                watch.tell(frame.buffer(), || TraceStep::drop(why));
            }
            self.drops.count(why);
        }
    }
}
