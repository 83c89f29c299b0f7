//! The walk of packets through the chain.
//!
//! | step | what happens |
//! |---|---|
//! | [`process`](FastPath::process) | the list of what follows, for each batch and direction |
//! | [`open`](FastPath::open) | packets in tunnels that are opened here are cut out |
//! | [`look_ahead`](FastPath::look_ahead) | headers, directions and flows of a whole batch are found, and what will be read of tables is fetched |
//! | [`pass_by`](FastPath::pass_by) | what may not enter the chain passes by it, or is dropped |
//! | [`enter`](FastPath::enter) | the packets of a direction stand in front of the first element |
//! | [`pass`](FastPath::pass) | they meet one element after the other, at each in order of arrival |
//! | [`leave_chain`](FastPath::leave_chain) | those that are left have passed the last |
//! | [`remember`](FastPath::remember) | where they were found is kept for the next of their flows |
//!
//! Of a single packet:
//!
//! | step | what happens |
//! |---|---|
//! | [`meet`](FastPath::meet) | one packet meets one element, alone |
//! | [`stop`](FastPath::stop) | a packet that does not go on leaves the others: it is answered, or comes to `drop`, `hold` or `punt` |
//! | [`go_on`](FastPath::go_on) | a packet that was held or with a worker goes on alone |
//!
//! So at each element packets of a flow and direction are in the order of arrival. Where a packet is
//! treated alone, whoever [follows](crate::watch) it is told.

mod effects;
mod waiting;

use super::hints::{of_slot, slot_of};
use super::lane::{Ahead, InFront, Lane, Passed, Shape, set_egress};
use super::rules::RULES_HASH;
use super::{FETCHED_AHEAD, FastElement, FastOutput, FastPath, Io};
use crate::position::Position;
use crate::watch::TraceStep;
use twinpath_coherence::{Clock, Parsed, StateStage};
use twinpath_core::adjacency::shard_of;
use twinpath_core::wire::dissect;
use twinpath_core::wire::layout::Layout;
use twinpath_core::{Decision, Direction, DropReason, Frame, Keyed, Pools, Steering};
use twinpath_link::{Header, Message};
use twinpath_rulecache::Held;

impl FastPath {
    /// The walk of all frames through the chain, [`BATCH`](super::BATCH) at a time. Meanwhile those of the next
    /// batch are fetched.
    #[inline]
    pub fn process(
        &mut self,
        frames: &mut Vec<Frame>,
        clock: Clock,
        pools: &mut Pools,
        out: &mut FastOutput,
    ) {
        let before = out.departures.len();
        self.open(frames, pools);
        let mut io = Io { clock, pools, out };
        let (mut arrivals, mut is_fetched) = (frames.drain(..), false);
        let mut batch = self.batch.take().unwrap_or_default();
        while !arrivals.as_slice().is_empty() {
            self.look_ahead(&mut arrivals, is_fetched, &mut batch);
            self.pass_by(&mut batch.aside, &mut io);
            let first = batch.first;
            for direction in Direction::BOTH {
                let mut next = arrivals.as_slice();
                let (lane, ahead) = batch.lane(direction);
                let mut place = self.enter(lane, direction, first);
                while let Some(position) = place.filter(|_| !lane.frames.is_empty()) {
                    self.pass(lane, ahead, (position, first, next), &mut io);
                    (place, next) = (self.order.next(position), &[]);
                }
                self.leave_chain(lane, &mut io);
            }
            self.remember(&batch.ahead);
            is_fetched = true;
        }
        self.batch = Some(batch);
        self.settle_departures(before, &mut io);
    }

    /// Tunnels are opened, and whoever follows packets learns which buffers they are in.
    #[inline(always)]
    fn open(&mut self, frames: &mut Vec<Frame>, pools: &mut Pools) {
        if self.admission.opens_tunnels() {
            self.cut_inside(frames, pools);
        }
        if let Some(watch) = &self.watch {
            watch.arrive(frames, self.under_way.arrived());
        }
    }

    /// What may not enter the chain passes by it, or is dropped.
    #[inline(always)]
    fn pass_by(&mut self, aside: &mut Vec<Frame>, io: &mut Io<'_>) {
        for frame in aside.drain(..) {
            self.pass_one_by(frame, io);
        }
    }

    /// The packets of a direction enter the chain, the batch beginning with the number `first`.
    /// Returns where.
    #[inline(always)]
    fn enter(&mut self, lane: &mut Lane, direction: Direction, first: u64) -> Option<Position> {
        if self.keeps_payloads() {
            lane.number(first);
        }
        if self.watch.is_some() {
            self.tell_of_lane(lane, direction);
        }
        Some(self.order.first(direction))
    }

    /// All that are left of a direction have passed the chain.
    #[inline(always)]
    fn leave_chain(&mut self, lane: &mut Lane, io: &mut Io<'_>) {
        self.counts.fast_packets += lane.frames.len() as u64;
        let bytes = lane.frames.iter().map(|frame| frame.len() as u64);
        self.counts.fast_bytes += bytes.sum::<u64>();
        io.out.departures.extend(lane.leave());
    }

    /// Where a packet was found, others of its flow will be found too.
    #[inline(always)]
    fn remember(&mut self, ahead: &Ahead) {
        if ahead.has_news() && self.has_hints() {
            for known in ahead.news() {
                self.hints.put(known.hash, known.hints);
            }
        }
    }

    /// The packets of a lane meet an element.
    #[inline(always)]
    fn pass(
        &mut self,
        lane: &mut Lane,
        ahead: &mut Ahead,
        (position, first, next): (Position, u64, &[Frame]),
        io: &mut Io<'_>,
    ) {
        self.begin(lane, position);
        let mut done = 0;
        loop {
            let (passed, decision) = match self.watch {
                None => self.pass_along(lane.from(done, ahead, next), position),
                Some(_) => self.pass_watched((lane, ahead), done, position),
            };
            done += passed;
            if done == lane.frames.len() {
                return self.forget_ahead(position);
            }
            let goes_on = self.pass_one((lane, ahead), done, decision, position, first, io);
            done += usize::from(goes_on);
        }
    }

    /// Packets are about to meet an element.
    #[inline(always)]
    fn begin(&mut self, lane: &Lane, position: Position) {
        if self.mirror.wants_elements() {
            let frames = lane.frames.iter();
            frames.for_each(|frame| self.mirror.in_front(position.element, frame));
        }
        if let Some(FastElement::Dash(stage)) = self.elements.get_mut(usize::from(position.element))
        {
            stage.look_ahead(&lane.frames);
        }
    }

    /// All packets that were looked at have met an element.
    #[inline(always)]
    fn forget_ahead(&mut self, position: Position) {
        if let Some(FastElement::Dash(stage)) = self.elements.get_mut(usize::from(position.element))
        {
            stage.forget_ahead();
        }
    }

    /// Packets meet an element, until one does not go on, or is not found where it should be.
    #[inline(always)]
    pub(super) fn pass_along<'a>(
        &mut self,
        mut packets: impl Iterator<Item = InFront<'a>>,
        position: Position,
    ) -> Passed {
        let is_first = position == self.order.first(position.direction);
        match self.elements.get_mut(usize::from(position.element)) {
            Some(FastElement::Rules(stage)) => stage.pass_along(packets, position, is_first),
            Some(FastElement::State(stage)) => {
                let steering = self.steering.at(position.element);
                let is_known = is_first && std::ptr::eq(steering, &self.steering);
                let steering = Some(steering).filter(|_| !is_known);
                pass_state(stage, steering, packets, position)
            }
            Some(FastElement::Dash(stage)) => {
                let mut passed = 0;
                for (frame, ..) in packets {
                    match stage.packet(frame) {
                        Decision::FORWARD => passed += 1,
                        decision => return (passed, Some(decision)),
                    }
                }
                (passed, None)
            }
            Some(FastElement::OnSlowPath) | None => {
                // Each gets a header; what is in front of later packets is fetched meanwhile.
                if let Some((later, ..)) = packets.nth(FETCHED_AHEAD) {
                    later.prefetch_headroom();
                }
                (0, Some(Decision::Punt))
            }
        }
    }

    /// What was decided about a packet is done, if it was. Returns whether it goes on.
    #[inline(never)]
    fn pass_one(
        &mut self,
        (lane, ahead): (&mut Lane, &mut Ahead),
        at: usize,
        decision: Option<Decision>,
        position: Position,
        first: u64,
        io: &mut Io<'_>,
    ) -> bool {
        let Some((frame, number, known, shape)) = lane.at(at, ahead) else {
            return true;
        };
        if self.is_gathered(&shape.layout(), position.element) {
            let layout = shape.layout();
            let mut frame = lane.take(at);
            frame.set_ordinal(first + u64::from(number));
            frame.set_direction(position.direction);
            self.gather(frame, &layout, position, io);
            return false;
        }
        let hint = known.hints.at(position.element);
        let (decision, found) = match decision {
            Some(decision) => (decision, hint),
            None => self.meet(frame, &shape, position, hint, io.clock),
        };
        let layout = shape.layout();
        let goes_on = match decision {
            Decision::Forward { egress } => {
                set_egress(frame, egress);
                shard_of(egress).is_none()
            }
            _ => false,
        };
        if found != hint {
            ahead.found(number, position.element, found);
        }
        if goes_on {
            return true;
        }
        let mut frame = lane.take(at);
        frame.set_ordinal(first + u64::from(number));
        self.stop(decision, frame, &layout, position, io);
        false
    }

    /// Any packet meets an element. Returns also where it was found there.
    pub(super) fn meet(
        &mut self,
        frame: &mut Frame,
        shape: &Shape<'_>,
        position: Position,
        hint: u32,
        clock: Clock,
    ) -> (Decision, u32) {
        let seen = self.see(frame, shape, position);
        let of_fragment = self.key_of_fragment(frame, &shape.layout(), position.element);
        let met = match self.elements.get_mut(usize::from(position.element)) {
            Some(FastElement::Rules(stage)) => stage.meet(frame, &shape.layout(), position, hint),
            Some(FastElement::State(stage)) => {
                let mut parsed = shape.parsed(self.steering.at(position.element), frame);
                parsed.hint = slot_of(hint);
                if let Some(keyed) = of_fragment {
                    (parsed.keyed, parsed.hash) = (keyed, keyed.key.hash(self.steering.hash_key()));
                }
                let decision = stage.packet(frame, &mut parsed, clock, &mut self.header);
                (decision, of_slot(parsed.hint))
            }
            Some(FastElement::Dash(stage)) => (stage.packet(frame), hint),
            Some(FastElement::OnSlowPath) | None => (Decision::Punt, hint),
        };
        if let Some(seen) = seen {
            self.tell_met(seen, frame, position, met);
        }
        met
    }

    /// A packet does not go on to the next element.
    pub(super) fn stop(
        &mut self,
        decision: Decision,
        mut frame: Frame,
        layout: &Layout,
        position: Position,
        io: &mut Io<'_>,
    ) {
        frame.set_direction(position.direction);
        match decision {
            Decision::Forward { egress } => {
                set_egress(&mut frame, egress);
                match shard_of(egress) {
                    None => self.go_on(frame, position, io),
                    Some(_) => self.leave_across(frame, io),
                }
            }
            Decision::Reply => self.depart(frame, true, io),
            Decision::Drop(reason) => self.drop_at(Some(position.element), frame, reason, io),
            Decision::Hold => self.hold(frame, layout, position, io),
            Decision::Punt => {
                let question = self.question(&frame, position.element, io);
                let (header, hash) = match question {
                    Some(question) => (question, RULES_HASH),
                    None => self.punt_header(&frame, layout, position),
                };
                self.punt(frame, header, position, hash, io);
            }
        }
    }

    /// A packet goes on behind the element at `position`.
    pub(super) fn go_on(&mut self, frame: Frame, position: Position, io: &mut Io<'_>) {
        let element = position.element;
        self.tell(&frame, |_| TraceStep::GoOn { element });
        let next = self.behind(position, frame.metadata().is_answer);
        self.walk_alone(frame, next, io);
    }

    /// A packet walks alone from an element on, or leaves if there is none.
    pub(super) fn walk_alone(
        &mut self,
        mut frame: Frame,
        mut next: Option<Position>,
        io: &mut Io<'_>,
    ) {
        let is_answer = frame.metadata().is_answer;
        while let Some(position) = next {
            let layout = match dissect(frame.bytes()) {
                Ok(layout) => layout,
                Err(malformed) => return self.drop(frame, DropReason::Malformed(malformed), io),
            };
            self.mirror.in_front(position.element, &frame);
            if self.is_gathered(&layout, position.element) {
                return self.gather(frame, &layout, position, io);
            }
            let parsed = Parsed {
                layout,
                ..Parsed::default()
            };
            let shape = Shape::Other(&parsed);
            match self.meet(&mut frame, &shape, position, 0, io.clock).0 {
                Decision::Forward { egress } if shard_of(egress).is_none() => {
                    set_egress(&mut frame, egress);
                }
                decision => return self.stop(decision, frame, &layout, position, io),
            }
            next = self.behind(position, is_answer);
        }
        self.depart(frame, is_answer, io);
    }

    /// Where a packet goes on, or an answer that a function has made.
    fn behind(&self, position: Position, is_answer: bool) -> Option<Position> {
        match is_answer {
            true => self.order.back(position),
            false => self.order.next(position),
        }
    }

    /// What goes to the slow path with a packet, and what chooses its worker.
    fn punt_header(&self, frame: &Frame, layout: &Layout, position: Position) -> (Header, u64) {
        let element = self.elements.get(usize::from(position.element));
        let header = match element {
            Some(FastElement::State(_)) => self.header.clone(),
            // Packets that have a key need no more than their element on the slow path.
            Some(FastElement::Rules(stage))
                if stage.key(frame, layout, position.direction).is_some() =>
            {
                let header = Header::of_packet(Message::Plain, frame, &Keyed::default());
                return (header, RULES_HASH);
            }
            _ => Header::of_packet(
                Message::Plain,
                frame,
                &self.keyed(frame, layout, position.element),
            ),
        };
        let hash = header.key.hash(self.steering.hash_key());
        (header, hash)
    }

    /// A packet waits for a rule, or for the state of its flow.
    fn hold(&mut self, frame: Frame, layout: &Layout, position: Position, io: &mut Io<'_>) {
        let (layout, element) = (*layout, position.element);
        self.tell(&frame, |_| TraceStep::Hold { element });
        if self.stage_at(element).is_some() {
            return self.wait_for_state(frame, element, io);
        }
        if self.dash_at(element).is_some() {
            return self.hold_for_answer(frame, element, io);
        }
        let stage = self.rules(element);
        match stage.and_then(|stage| stage.held_key(&frame, &layout, position.direction)) {
            // A rule becomes active by messages: what waits for it leaves a buffer to them.
            Some(_) if !self.is_lossless && !io.pools.small().has_more_than(0) => {
                self.drop_at(Some(element), frame, DropReason::NoBuffer, io);
            }
            Some(key) => self.hold_for_rule(Held { frame, layout, key }, element, io),
            None => self.drop(frame, DropReason::BadLinkFrame, io),
        }
    }

    #[cold]
    fn pass_one_by(&mut self, frame: Frame, io: &mut Io<'_>) {
        self.tell_arrival(&frame, None);
        self.counts.aside_packets += 1;
        self.counts.aside_bytes += frame.len() as u64;
        match self.admission.refusal(&frame) {
            None => self.depart(frame, false, io),
            Some(reason) => self.drop(frame, reason, io),
        }
    }
}

/// Packets meet the state of their flows, until one does not go on, or its state is not where it
/// should be. With `steering` their flows may be others than when they arrived.
#[inline(never)]
fn pass_state<'a>(
    stage: &mut StateStage,
    steering: Option<&Steering>,
    packets: impl Iterator<Item = InFront<'a>>,
    position: Position,
) -> Passed {
    let mut passed = 0;
    let Some(mut stage) = stage.plain() else {
        return (0, None);
    };
    for (frame, known, other) in packets {
        let slot = slot_of(known.hints.at(position.element));
        let plain = known.plain;
        let decision = match (known.is_plain, steering) {
            (true, None) => stage.packet(frame, plain, &known.flow, slot),
            (true, Some(steering)) => {
                let flow = steering.plain_key(frame.bytes(), plain);
                stage.packet(frame, plain, &flow, slot)
            }
            (false, None) => stage.other_packet(frame, other, slot),
            (false, Some(steering)) => {
                let parsed = Shape::Other(other).parsed(steering, frame);
                stage.other_packet(frame, &parsed, slot)
            }
        };
        match decision {
            Some(Decision::FORWARD) => passed += 1,
            decision => return (passed, decision),
        }
    }
    (passed, None)
}
