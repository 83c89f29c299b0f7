//! What whoever follows packets is told of their walk on the fast path.

use super::lane::{Ahead, Lane, Passed, Shape};
use super::{FastElement, FastPath, RuleStage};
use crate::position::Position;
use crate::watch::{
    Meeting, PacketLook, ProgramLook, SlotLook, StageLook, TableLookup, TraceStep, TracedRule,
    Watch,
};
use twinpath_coherence::fsm::Fsm;
use twinpath_coherence::{Parsed, StateStage};
use twinpath_core::program::Exit;
use twinpath_core::{Decision, Direction, Frame};
use twinpath_fastpath::StepTaken;
use twinpath_rulecache::{self as rulecache, MatchKey};

/// A packet in front of an element, as it was.
pub(super) struct PacketBefore {
    parsed: Parsed,
    bytes: Vec<u8>,
    /// What it shows to rules, if the element has some and it meets any.
    key: Option<MatchKey>,
    /// The slot of its flow, if the element has flow state and one for it.
    slot: Option<SlotBefore>,
    /// What a DPU's stages find.
    stages: Vec<StageLook>,
}

struct SlotBefore {
    fsm: Fsm,
    words: Vec<u32>,
    steps: Vec<StepTaken>,
}

impl FastPath {
    /// Somebody follows packets from now on.
    pub(crate) fn watch(&mut self, watch: Watch) {
        self.watch = Some(watch);
    }

    /// Whoever follows packets, if there is somebody.
    pub(crate) fn watched(&self) -> Option<&Watch> {
        self.watch.as_ref()
    }

    /// A packet takes a step, which is told if it is followed.
    #[inline]
    pub(super) fn tell(&self, frame: &Frame, step: impl FnOnce(&Watch) -> TraceStep) {
        if let Some(watch) = &self.watch {
            watch.tell(frame.buffer(), || step(watch));
        }
    }

    /// Packets of a direction are about to walk.
    #[cold]
    pub(super) fn tell_of_lane(&self, lane: &Lane, direction: Direction) {
        let direction = match direction {
            Direction::Original => "original",
            Direction::Reply => "reply",
        };
        for frame in &lane.frames {
            self.tell_arrival(frame, Some(direction));
        }
    }

    /// The packets from the one at `done` on meet an element in the loop that serves a lane, together or, if each is
    /// followed, the first alone.
    #[cold]
    pub(super) fn pass_watched(
        &mut self,
        (lane, ahead): (&mut Lane, &Ahead),
        done: usize,
        position: Position,
    ) -> Passed {
        let follows_each = self.watch.as_ref().is_some_and(Watch::follows_each);
        let before = match lane.at(done, ahead) {
            Some((frame, _, known, shape)) if follows_each => {
                let seen = self.see(frame, &shape, position);
                seen.map(|seen| (seen, known.hints.at(position.element)))
            }
            _ => None,
        };
        let count = if follows_each { 1 } else { lane.frames.len() };
        let met = self.pass_along(lane.from(done, ahead, &[]).take(count), position);
        match before {
            None if follows_each => {}
            None => self.tell_passed(&lane.frames[done..], met, position),
            Some(_) if met == (0, None) => {}
            Some((seen, hint)) => {
                let decision = met.1.unwrap_or(Decision::FORWARD);
                self.tell_met(seen, &lane.frames[done], position, (decision, hint));
            }
        }
        met
    }

    /// The first of these have met an element together, and the one behind them, if that is decided.
    fn tell_passed(
        &self,
        frames: &[Frame],
        (passed, decision): (usize, Option<Decision>),
        position: Position,
    ) {
        let is_met = |decision| !matches!(decision, Decision::Hold | Decision::Punt);
        let met = passed + usize::from(decision.is_some_and(is_met));
        let element = position.element;
        for frame in frames.iter().take(met) {
            self.tell(frame, |_| TraceStep::Pass { element });
        }
    }

    /// A packet's headers and direction were found.
    #[inline]
    pub(super) fn tell_arrival(&self, frame: &Frame, direction: Option<&'static str>) {
        self.tell(frame, |_| TraceStep::LookAhead {
            time_ns: frame.timestamp().0,
            port: frame.port(),
            direction,
            packet: PacketLook::of(frame.bytes()),
        });
    }

    /// What a packet that is followed is about to meet.
    #[inline]
    pub(super) fn see(
        &mut self,
        frame: &Frame,
        shape: &Shape<'_>,
        position: Position,
    ) -> Option<PacketBefore> {
        match &self.watch {
            None => None,
            Some(watch) if watch.follows(frame.buffer()).is_none() => None,
            Some(_) => Some(self.seen(frame, shape, position)),
        }
    }

    #[cold]
    fn seen(&mut self, frame: &Frame, shape: &Shape<'_>, position: Position) -> PacketBefore {
        let parsed = shape.parsed(self.steering.at(position.element), frame);
        let (mut key, mut slot, mut stages) = (None, None, Vec::new());
        match self.elements.get_mut(usize::from(position.element)) {
            Some(FastElement::Rules(stage)) => {
                key = stage.key(frame, &parsed.layout, position.direction)
            }
            Some(FastElement::State(stage)) => slot = slot_before(stage, frame, &parsed),
            Some(FastElement::Dash(stage)) => {
                let notes = stage.dpu().story(frame.bytes(), frame.timestamp());
                stages = StageLook::of_notes(notes);
            }
            Some(FastElement::OnSlowPath) | None => {}
        }
        PacketBefore {
            parsed,
            bytes: frame.bytes().to_vec(),
            key,
            slot,
            stages,
        }
    }

    /// It has met that: so it was decided, and there its flow was found.
    #[cold]
    pub(super) fn tell_met(
        &self,
        seen: PacketBefore,
        frame: &Frame,
        position: Position,
        (decision, hint): (Decision, u32),
    ) {
        let is_changed = frame.bytes() != seen.bytes;
        self.tell(frame, |watch| {
            TraceStep::Meet(Box::new(Meeting {
                element: position.element,
                flow: seen.parsed.keyed.key.to_string(),
                found: match self.elements.get(usize::from(position.element)) {
                    Some(FastElement::Rules(stage)) => found_rule(stage, seen.key, hint),
                    Some(FastElement::State(stage)) => found_slot(stage, seen, position, watch),
                    Some(FastElement::Dash(_)) => TableLookup::Dash(seen.stages),
                    Some(FastElement::OnSlowPath) | None => TableLookup::Nothing,
                },
                decision: told(decision),
                packet: is_changed.then(|| PacketLook::of(frame.bytes())),
            }))
        });
    }
}

/// The rule that a packet with this key has met. Looking it up once more would count.
fn found_rule(stage: &RuleStage, key: Option<MatchKey>, hint: u32) -> TableLookup {
    let Some(key) = key else {
        return TableLookup::NotPlain;
    };
    let hinted = rulecache::Found::from_bits(hint).filter(|met| stage.table.meets(*met, &key));
    let met = hinted.or_else(|| stage.table.flow_rule(&key));
    let rule = met.and_then(|met| stage.table.active_rule(stage.table.rule(met)));
    rule.map_or(TableLookup::NoRule, |(name, _)| {
        TableLookup::Rule(Box::new(TracedRule::named(name)))
    })
}

/// The slot of a packet's flow, before and behind the packet.
fn found_slot(
    stage: &StateStage,
    seen: PacketBefore,
    position: Position,
    watch: &Watch,
) -> TableLookup {
    let Some(before) = seen.slot else {
        return TableLookup::NoSlot;
    };
    let after = stage.slot_of(&seen.parsed);
    let words = after.map(|(_, words)| words);
    TableLookup::Slot(SlotLook {
        state: before.fsm.name(),
        state_after: after.map_or(Fsm::Initial, |(slot, _)| slot.fsm).name(),
        words: watch.words(position.element, Some(&before.words), words),
        programs: before.steps.iter().map(program_look).collect(),
        rule: None,
    })
}

/// The slot of a packet's flow, and what the programs will do with the packet.
fn slot_before(stage: &mut StateStage, frame: &Frame, parsed: &Parsed) -> Option<SlotBefore> {
    let (slot, words) = stage.slot_of(parsed)?;
    let words = words.to_vec();
    Some(SlotBefore {
        fsm: slot.fsm,
        steps: stage.steps_taken(frame, parsed, &slot, &words),
        words,
    })
}

fn told(decision: Decision) -> String {
    match decision {
        Decision::Forward { .. } => "on to the next element".into(),
        Decision::Reply => "answered here".into(),
        Decision::Drop(reason) => format!("dropped ({})", reason.name()),
        Decision::Hold => "held".into(),
        Decision::Punt => "to the slow path".into(),
    }
}

fn program_look(taken: &StepTaken) -> ProgramLook {
    ProgramLook {
        function: taken.program.to_string(),
        step: taken.step,
        exit: match taken.exit {
            Exit::Continue => "goes on".into(),
            Exit::Drop(reason) => format!("is dropped: {}", reason.name()),
            Exit::Reply => "goes back to its sender".into(),
            Exit::Escalate => "goes to the slow path".into(),
        },
    }
}
