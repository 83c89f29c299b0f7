//! What whoever follows packets is told of their walk on the fast path.

use super::lane::{Lane, Shape};
use super::walk::parsed;
use super::{FastElement, FastPath};
use crate::place::Place;
use crate::watch::{CachedRule, Found, Meeting, PacketLook, ProgramLook, SlotLook, Step, Watch};
use twinpath_coherence::{Parsed, StateStage};
use twinpath_core::program::Exit;
use twinpath_core::{Decision, Direction, Frame};
use twinpath_fastpath::StepTaken;

/// A packet in front of an element, as it was.
pub(super) struct Seen {
    parsed: Parsed,
    found: Found,
    bytes: Vec<u8>,
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
    pub(super) fn tell(&self, frame: &Frame, step: impl FnOnce(&Watch) -> Step) {
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
            self.tell(frame, |_| arrived(frame, Some(direction)));
        }
    }

    /// What a packet that is followed is about to meet.
    #[inline]
    pub(super) fn see(&mut self, frame: &Frame, shape: &Shape<'_>, place: Place) -> Option<Seen> {
        match &self.watch {
            None => None,
            Some(watch) if !watch.follows(frame.buffer()) => None,
            Some(_) => Some(self.seen(frame, shape, place)),
        }
    }

    #[cold]
    fn seen(&mut self, frame: &Frame, shape: &Shape<'_>, place: Place) -> Seen {
        let parsed = parsed(self.steering.at(place.element), frame, shape);
        let found = match self.elements.get_mut(usize::from(place.element)) {
            Some(FastElement::Rules(stage)) => match stage.key(frame, &shape.layout(), place) {
                None => Found::NotPlain,
                Some(key) => {
                    let found = stage.table.find(&key);
                    let rule = found.and_then(|found| {
                        let rule = stage.table.rule(found);
                        stage.table.active_rule(rule)
                    });
                    rule.map_or(Found::NoRule, |(name, _)| {
                        Found::Rule(Box::new(CachedRule::named(name)))
                    })
                }
            },
            Some(FastElement::State(stage)) => match &self.watch {
                Some(watch) => slot(stage, frame, &parsed, watch, place.element),
                None => Found::NoSlot,
            },
            Some(FastElement::OnCores) | None => Found::Nothing,
        };
        let bytes = frame.bytes().to_vec();
        Seen {
            parsed,
            found,
            bytes,
        }
    }

    /// It has met that, and this was decided.
    #[cold]
    pub(super) fn tell_met(&self, seen: Seen, frame: &Frame, place: Place, decision: Decision) {
        let Seen {
            parsed,
            mut found,
            bytes,
        } = seen;
        let element = self.elements.get(usize::from(place.element));
        if let (Some(FastElement::State(stage)), Found::Slot(look)) = (element, &mut found) {
            let after = stage.slot_of(&parsed);
            look.state_after = after.map_or("initial", |(slot, _)| slot.fsm.name());
            let words = after.map(|(_, words)| words);
            for (place, word) in look.words.iter_mut().enumerate() {
                word.after = words.and_then(|words| words.get(place).copied());
            }
        }
        self.tell(frame, |_| {
            Step::Meet(Box::new(Meeting {
                element: place.element,
                flow: parsed.keyed.key.to_string(),
                found,
                decision: told(decision),
                packet: (frame.bytes() != bytes).then(|| PacketLook::of(frame.bytes())),
            }))
        });
    }
}

/// A packet's headers and direction were found.
pub(super) fn arrived(frame: &Frame, direction: Option<&'static str>) -> Step {
    Step::LookAhead {
        time_ns: frame.timestamp().0,
        port: frame.port(),
        direction,
        packet: PacketLook::of(frame.bytes()),
    }
}

/// The slot of a packet's flow, before the packet.
fn slot(
    stage: &mut StateStage,
    frame: &Frame,
    parsed: &Parsed,
    watch: &Watch,
    element: u8,
) -> Found {
    let Some((slot, words)) = stage.slot_of(parsed) else {
        return Found::NoSlot;
    };
    let words = words.to_vec();
    let steps = stage.steps_taken(frame, parsed, &slot, &words);
    Found::Slot(SlotLook {
        state: slot.fsm.name(),
        state_after: "initial",
        words: watch.words(element, Some(&words), None),
        programs: steps.iter().map(program_look).collect(),
    })
}

fn told(decision: Decision) -> String {
    match decision {
        Decision::Forward { .. } => "on to the next element".into(),
        Decision::Reply => "answered here".into(),
        Decision::Drop(reason) => format!("dropped ({})", reason.name()),
        Decision::Hold => "held".into(),
        Decision::Punt => "to the cores".into(),
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
            Exit::Escalate => "goes to the cores".into(),
        },
    }
}
