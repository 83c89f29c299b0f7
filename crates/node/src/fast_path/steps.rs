//! One element at a time, for traces: what is found there, and what is decided.

use super::{FastElement, FastPath, Io};
use crate::fast_path::FastOutput;
use crate::place::Place;
use twinpath_coherence::fast::header as punt_header;
use twinpath_coherence::fsm::{Fsm, Slot};
use twinpath_coherence::{Clock, Parsed};
use twinpath_core::wire::layout::Layout;
use twinpath_core::{Decision, DropReason, FlowKey, Frame, Keyed, Pools};
use twinpath_fastpath::StepTaken;
use twinpath_fastpath::state_table::NO_SLOT;
use twinpath_link::{Header, Message};
use twinpath_rulecache::{MatchKey, RuleName};

/// What an element on the fast path makes of a packet.
pub(crate) enum Step {
    Forward,
    Reply,
    Drop(DropReason),
    /// It waits for a rule to become active.
    Hold,
    /// To a worker, with this header.
    Punt(Box<Header>, usize),
}

/// What a packet meets at an element with rules.
pub(crate) struct AtRules {
    /// `None` if it never meets any.
    pub key: Option<MatchKey>,
    pub rule: Option<RuleName>,
}

/// What a packet meets at an element with flow state.
pub(crate) struct AtState {
    pub slot: Slot,
    pub words: Vec<u32>,
    /// What the programs do with it.
    pub steps: Vec<StepTaken>,
}

impl FastPath {
    /// Where a packet enters the chain. Its frame remembers the direction.
    pub(crate) fn entry(&self, frame: &mut Frame, layout: &Layout) -> Place {
        let mut trip = frame.trip();
        trip.direction = self.direction(frame, layout);
        frame.set_trip(trip);
        Place::first(trip.direction, self.elements.len())
    }

    /// Numbers a packet that arrives.
    pub(crate) fn admit(&mut self, frame: &mut Frame) {
        frame.set_ordinal(self.under_way.arrived());
        self.under_way.arrive(1, frame.timestamp());
    }

    /// The seed of flow hashes.
    pub(crate) fn seed(&self) -> u64 {
        self.steering.seed()
    }

    /// The flow of a packet at an element, and the hash of its key.
    pub(crate) fn flow(&self, frame: &Frame, layout: &Layout, element: u8) -> (Keyed, u64) {
        let keyed = self.keyed(frame, layout, element);
        (keyed, keyed.key.hash(self.steering.seed()))
    }

    /// What a packet is about to meet, if the element has rules.
    pub(crate) fn at_rules_of(
        &mut self,
        frame: &Frame,
        layout: &Layout,
        place: Place,
    ) -> Option<AtRules> {
        let stage = self.rules(place.element)?;
        let key = stage.key(frame, layout, place);
        let found = key.and_then(|key| stage.table.find(&key));
        let active = found.and_then(|found| stage.table.active_rule(stage.table.rule(found)));
        let rule = active.map(|(name, _)| name);
        Some(AtRules { key, rule })
    }

    /// The slot that holds a packet's flow at an element, if there is one.
    pub(crate) fn at_state_of(
        &mut self,
        frame: &Frame,
        layout: &Layout,
        element: u8,
    ) -> Option<AtState> {
        let packet = self.parsed(frame, layout, element);
        let stage = self.stage_at(element)?;
        let of_flow = |(key, slot, _): &(FlowKey, Slot, _)| {
            *key == packet.keyed.key && slot.fsm != Fsm::Initial
        };
        let found = stage.each_slot().find(of_flow);
        let (slot, words) = found.map(|(_, slot, words)| (slot, words.to_vec()))?;
        let steps = stage.steps_taken(frame, &packet, &slot, &words);
        Some(AtState { slot, words, steps })
    }

    fn parsed(&self, frame: &Frame, layout: &Layout, element: u8) -> Parsed {
        let (keyed, hash) = self.flow(frame, layout, element);
        Parsed {
            layout: *layout,
            keyed,
            hash,
            suspect: NO_SLOT,
        }
    }

    /// Lets a packet meet one element, as the walk of all packets does.
    pub(crate) fn step(
        &mut self,
        frame: &mut Frame,
        layout: &Layout,
        place: Place,
        clock: Clock,
    ) -> Step {
        let packet = self.parsed(frame, layout, place.element);
        let (keyed, hash) = (packet.keyed, packet.hash);
        match &mut self.elements[usize::from(place.element)] {
            FastElement::Rules(stage) => {
                let Some(key) = stage.key(frame, layout, place) else {
                    return self.punted(frame, &keyed, place, hash);
                };
                let (found, now) = (stage.table.find(&key), frame.timestamp());
                let bytes = frame.bytes_mut();
                let decision = stage.table.packet(&key, found, bytes, layout, now);
                self.rules_decided(frame, decision, place)
            }
            FastElement::State(stage) => {
                let mut packet = packet;
                let decision = stage.packet(frame, &mut packet, clock, &mut self.header);
                match decision {
                    Decision::Punt => self.to_worker(self.header.clone(), place, hash),
                    _ => self.rules_decided(frame, decision, place),
                }
            }
            FastElement::OnCores => self.punted(frame, &keyed, place, hash),
        }
    }

    fn rules_decided(&self, frame: &mut Frame, decision: Decision, place: Place) -> Step {
        match decision {
            Decision::Forward { egress } => {
                let mut trip = frame.trip();
                trip.egress = egress.or(trip.egress);
                frame.set_trip(trip);
                Step::Forward
            }
            Decision::Reply => Step::Reply,
            Decision::Drop(reason) => Step::Drop(reason),
            Decision::Hold => Step::Hold,
            Decision::Punt => self.punted(frame, &Keyed::default(), place, 0),
        }
    }

    fn punted(&self, frame: &Frame, keyed: &Keyed, place: Place, hash: u64) -> Step {
        self.to_worker(punt_header(Message::Plain, frame, keyed), place, hash)
    }

    fn to_worker(&self, mut header: Header, place: Place, hash: u64) -> Step {
        header.element = place.element;
        Step::Punt(Box::new(header), self.worker(hash))
    }

    /// What came back with a packet meets the state.
    pub(crate) fn take_answer(
        &mut self,
        header: &Header,
        clock: Clock,
        pools: &mut Pools,
        out: &mut FastOutput,
    ) {
        let mut io = Io { clock, pools, out };
        let stage = self.stage_at(header.element);
        if let Some(answer) = stage.and_then(|stage| stage.message(header, clock)) {
            self.send_own(answer, header.element, &mut io);
        }
    }
}
