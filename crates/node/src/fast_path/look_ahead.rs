//! What is found out about a whole batch before its packets walk, so that their reads of memory
//! overlap: headers, directions, and where the chain's elements will find their flows.
//!
//! A chain of one element is asked itself; for one of several an earlier packet of the flow has
//! left [hints](super::hints).

use super::hints::{Hints, of_slot, slot_of};
use super::lane::{Ahead, Batch, Known};
use super::{BATCH, FETCHED_AHEAD, FastElement, FastPath, RuleStage};
use std::vec::Drain;
use twinpath_coherence::Parsed;
use twinpath_core::key::one_way;
use twinpath_core::wire::dissect;
use twinpath_core::wire::layout::{Plain, dissect_other};
use twinpath_core::{Direction, Frame, Instant, Steering};
use twinpath_fastpath::state_table::{Finder, NO_SLOT};
use twinpath_rulecache::{Found, LineKey};

/// How a chain tells where its elements will find a packet's flow.
trait Searched {
    /// What tells it of a plain packet is on its way; what is known of the packet then includes
    /// what [`Self::find`] goes by, and its flow if elements will ask for it.
    fn fetch(&self, known: &mut Known, direction: Direction);
    /// The same of any other packet, of which `parsed` is known besides.
    fn fetch_other(&self, frame: &Frame, parsed: &Parsed, direction: Direction, known: &mut Known);
    /// It is there: packets get their hints, and what lies in those places is on its way.
    fn find(&self, known: &mut [Known]);
}

/// Flow state alone.
struct InState<'a>(Finder<'a>, &'a Steering);

impl Searched for InState<'_> {
    #[inline(always)]
    fn fetch(&self, known: &mut Known, _: Direction) {
        let Self(finder, steering) = self;
        known.flow = steering.key_of_ends(known.ends, known.plain.protocol());
        known.hash = known.flow.key.hash(steering.hash_key());
        finder.prefetch_tags(known.hash);
    }

    #[inline(always)]
    fn fetch_other(&self, _: &Frame, parsed: &Parsed, _: Direction, known: &mut Known) {
        known.hash = parsed.hash;
        self.0.prefetch_tags(known.hash);
    }

    #[inline(always)]
    fn find(&self, known: &mut [Known]) {
        for known in &mut *known {
            known.hints = Hints::of_first(of_slot(self.0.prefetch_slot(known.hash)));
        }
        if self.0.is_large() {
            let found = known.iter().map(|known| slot_of(known.hints.at(0)));
            found.for_each(|slot| self.0.bring(slot));
        }
    }
}

/// Rules alone, each of one flow.
struct InRules<'a>(&'a RuleStage);

impl Searched for InRules<'_> {
    #[inline(always)]
    fn fetch(&self, known: &mut Known, direction: Direction) {
        let protocol = known.plain.protocol();
        let flow = LineKey::of_ends(known.ends, protocol, direction);
        known.hints = Hints::of_first(self.0.table.fetch(flow).bits());
    }

    #[inline(always)]
    fn fetch_other(&self, frame: &Frame, parsed: &Parsed, direction: Direction, known: &mut Known) {
        let found = self.0.fetch_other(frame, &parsed.layout, direction);
        known.hints = Hints::of_first(found.map_or(0, Found::bits));
    }

    /// A flow tells where its line is without a look at anything.
    #[inline(always)]
    fn find(&self, _: &mut [Known]) {}
}

/// All other chains.
struct InHints<'a>(&'a FastPath);

impl InHints<'_> {
    #[inline(always)]
    fn find_one(&self, hash: u64) -> Hints {
        let Some(hints) = self.0.hints.get(hash) else {
            return Hints::default();
        };
        for (element, hint) in self.0.elements.iter().zip(hints.each()) {
            match (element, Found::from_bits(hint)) {
                (FastElement::Rules(stage), Some(found)) => stage.table.prefetch(found),
                (FastElement::State(stage), Some(_)) => stage.finder().prefetch(slot_of(hint)),
                _ => {}
            }
        }
        hints
    }
}

impl Searched for InHints<'_> {
    #[inline(always)]
    fn fetch(&self, known: &mut Known, _: Direction) {
        let steering = &self.0.steering;
        known.flow = steering.key_of_ends(known.ends, known.plain.protocol());
        known.hash = one_way(known.flow.key.hash(steering.hash_key()), known.flow.side);
        self.0.hints.prefetch(known.hash);
    }

    #[inline(always)]
    fn fetch_other(&self, _: &Frame, parsed: &Parsed, _: Direction, known: &mut Known) {
        known.hash = one_way(parsed.hash, parsed.keyed.side);
        self.0.hints.prefetch(known.hash);
    }

    #[inline(always)]
    fn find(&self, known: &mut [Known]) {
        for known in known {
            known.hints = self.find_one(known.hash);
        }
    }
}

/// A DPU alone, which looks for flows inside of tunnels by itself.
struct Inside;

impl Searched for Inside {
    #[inline(always)]
    fn fetch(&self, known: &mut Known, _: Direction) {
        known.hints = Hints::default();
    }

    #[inline(always)]
    fn fetch_other(&self, _: &Frame, _: &Parsed, _: Direction, known: &mut Known) {
        known.hints = Hints::default();
    }

    #[inline(always)]
    fn find(&self, _: &mut [Known]) {}
}

/// What was seen of a batch as a whole.
struct BatchSummary {
    bytes_in: u64,
    /// The latest time that any has arrived.
    latest: Instant,
    /// Whether a packet says that it arrived before an earlier one.
    is_early: bool,
}

/// Time does not run backwards from packet to packet.
fn never_before(mut latest: Instant) -> impl FnMut(Frame) -> Frame {
    move |mut frame| {
        latest = latest.max(frame.timestamp());
        frame.set_timestamp(latest);
        frame
    }
}

/// A batch that has arrived.
#[derive(Copy, Clone)]
struct Coming<'a> {
    frames: &'a [Frame],
    /// Whether the walk of the batch before has fetched them.
    is_fetched: bool,
    /// What has arrived behind it.
    next: &'a [Frame],
}

impl FastPath {
    /// Whether hints are kept for the chain: one of one element tells itself where flows are.
    #[inline(always)]
    pub(super) fn has_hints(&self) -> bool {
        match self.elements.as_slice() {
            [FastElement::State(_) | FastElement::Dash(_)] => false,
            [FastElement::Rules(stage)] => stage.table.has_others(),
            _ => true,
        }
    }

    /// Finds out about the next [`BATCH`] frames, and sorts them: by direction, and what may not enter.
    #[inline(always)]
    pub(super) fn look_ahead(
        &mut self,
        arrivals: &mut Drain<'_, Frame>,
        is_fetched: bool,
        batch: &mut Batch,
    ) {
        let count = arrivals.len().min(BATCH);
        let (frames, next) = arrivals.as_slice().split_at(count);
        let coming = Coming {
            frames,
            is_fetched,
            next,
        };
        let seen = match self.elements.as_slice() {
            [FastElement::State(stage)] => {
                let in_state = InState(stage.finder(), &self.steering);
                self.look(&in_state, coming, &mut batch.ahead)
            }
            [FastElement::Rules(stage)] if !stage.table.has_others() => {
                self.look(&InRules(stage), coming, &mut batch.ahead)
            }
            [FastElement::Dash(_)] => self.look(&Inside, coming, &mut batch.ahead),
            _ => self.look(&InHints(self), coming, &mut batch.ahead),
        };
        let frames = arrivals.take(count);
        match seen.is_early {
            false => batch.sort(frames),
            true => batch.sort(frames.map(never_before(self.under_way.latest()))),
        }
        batch.first = self.under_way.arrived();
        self.under_way.arrive(count, seen.latest);
        self.counts.packets_in += count as u64;
        self.counts.bytes_in += seen.bytes_in;
    }

    /// Looks at the frames of a batch, in columns: what one loop does keeps its values in registers.
    #[inline(never)]
    fn look(
        &self,
        searched: &impl Searched,
        coming: Coming<'_>,
        ahead: &mut Ahead,
    ) -> BatchSummary {
        let Coming { frames, next, .. } = coming;
        let seen = self.parse_plain(coming, ahead);
        let (sides, mut replies, mut others) = (self.admission.sides().of_v4(), 0, 0);
        for (number, known) in ahead.first(frames.len()).iter_mut().enumerate() {
            if let Some(frame) = next.get(number) {
                frame.prefetch_bookkeeping();
            }
            if known.is_plain {
                let direction = sides.direction((known.ends.addresses >> 32) as u32, known.port);
                searched.fetch(known, direction);
                replies |= (direction.index() as u32) << number;
            } else {
                others |= 1 << number;
            }
        }
        ahead.begin(replies);
        if self.admission.looks_at_plain() {
            self.look_at_entrance(frames, ahead);
        }
        if others != 0 {
            self.look_at_others(searched, frames, others, ahead);
        }
        searched.find(ahead.first(frames.len()));
        seen
    }

    /// Finds the headers of plain packets.
    #[inline(always)]
    fn parse_plain(&self, coming: Coming<'_>, ahead: &mut Ahead) -> BatchSummary {
        let frames = coming.frames;
        let (mut bytes_in, mut latest, mut is_early) = (0, self.under_way.latest(), false);
        let has_connections = self.steering.are_connections();
        let mut to_come = [].iter();
        if !coming.is_fetched {
            frames.iter().take(FETCHED_AHEAD).for_each(Frame::prefetch);
            to_come = frames.get(FETCHED_AHEAD..).unwrap_or_default().iter();
        }
        for (frame, known) in frames.iter().zip(&mut ahead.known) {
            if let Some(frame) = to_come.next() {
                frame.prefetch();
            }
            let (bytes, now) = (frame.bytes(), frame.timestamp());
            known.port = frame.port();
            is_early |= now < latest;
            latest = latest.max(now);
            bytes_in += bytes.len() as u64;
            let plain = Plain::with_ends(bytes).filter(|_| has_connections);
            known.is_plain = plain.is_some();
            if let Some(plain) = plain {
                (known.plain, known.ends) = plain;
            }
        }
        BatchSummary {
            bytes_in,
            latest,
            is_early,
        }
    }

    /// Sets plain packets aside that may not enter.
    #[inline(never)]
    fn look_at_entrance(&self, frames: &[Frame], ahead: &mut Ahead) {
        for (number, frame) in frames.iter().enumerate() {
            let known = &ahead.known[number % BATCH];
            let direction = Direction::BOTH[(ahead.replies >> number & 1) as usize];
            let plain = (known.plain, known.ends);
            let may_enter =
                !known.is_plain || self.admission.admits_plain(frame.bytes(), plain, direction);
            ahead.aside |= u32::from(!may_enter) << number;
        }
    }

    /// Looks at those frames that are not plain.
    #[inline(never)]
    fn look_at_others(
        &self,
        searched: &impl Searched,
        frames: &[Frame],
        others: u32,
        ahead: &mut Ahead,
    ) {
        let numbered = frames.iter().enumerate();
        for (number, frame) in numbered.filter(|(number, _)| others >> number & 1 != 0) {
            let bit = |is: bool| u32::from(is) << number;
            let (known, parsed) = ahead.other(number);
            match self.parse(frame, parsed) {
                Some(direction) => {
                    searched.fetch_other(frame, parsed, direction, known);
                    ahead.replies |= bit(direction == Direction::Reply);
                }
                None => ahead.aside |= bit(true),
            }
        }
    }

    /// Finds out about a packet that is not plain, and which way it goes; `None` if it may not enter.
    // Written where it stays: to be moved as a whole it would have to wait until all of it is written.
    #[inline(always)]
    fn parse(&self, frame: &Frame, parsed: &mut Parsed) -> Option<Direction> {
        // Where all flows are connections plain packets have been told apart.
        let layout = match self.steering.are_connections() {
            true => dissect_other(frame.bytes()).ok()?,
            false => dissect(frame.bytes()).ok()?,
        };
        let direction = self.admission.admit(frame, &layout).ok()?;
        parsed.keyed = self.steering.key(frame.bytes(), &layout)?;
        parsed.layout = layout;
        parsed.hash = parsed.keyed.key.hash(self.steering.hash_key());
        parsed.hint = NO_SLOT;
        Some(direction)
    }
}
