//! An element of a chain: functions whose decisions are cached together.

use crate::function::{Answers, RuleFunction, Verdict};
use crate::probe::{NoProbe, Probe};
use crate::recorded::{Dependents, Recorded};
use crate::recording::{EntryId, Obstacle, Recording};
use twinpath_core::adjacency::shard_of;
use twinpath_core::key::Role;
use twinpath_core::wire::dissect;
use twinpath_core::{Direction, Frame, Metadata, Named, Packet};

/// Functions in a row, which packets pass in order, or in reverse as replies. Some at the end may
/// decide last: replies pass them last, too.
pub struct RuleChain {
    functions: Vec<Named<dyn RuleFunction>>,
    /// How many decide last.
    last: usize,
}

/// Where in a chain a packet waits until an entry is free: call again with the same step.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Awaits {
    /// How many functions are behind it.
    pub step: usize,
    /// The entry.
    pub entry: EntryId,
}

impl RuleChain {
    /// An element of these functions, each named after its kind.
    pub fn new(functions: Vec<Box<dyn RuleFunction>>) -> Self {
        Self::named(functions.into_iter().map(Named::from).collect())
    }

    /// An element of these functions; at most 256, more are left out.
    pub fn named(mut functions: Vec<Named<dyn RuleFunction>>) -> Self {
        functions.truncate(256);
        Self { functions, last: 0 }
    }

    /// The same, of which so many functions at the end decide last.
    #[must_use]
    pub fn with_last(self, last: usize) -> Self {
        Self { last, ..self }
    }

    /// The same with other functions; those so far are returned, to go on elsewhere.
    pub fn exchange(
        &mut self,
        functions: Vec<Named<dyn RuleFunction>>,
    ) -> Vec<Named<dyn RuleFunction>> {
        let new = Self::named(functions).with_last(self.last);
        std::mem::replace(self, new).functions
    }

    /// How many functions there are.
    pub fn len(&self) -> usize {
        self.functions.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.functions.is_empty()
    }

    /// The function at a place.
    pub fn function(&mut self, place: u8) -> Option<&mut (dyn RuleFunction + 'static)> {
        self.functions
            .get_mut(usize::from(place))
            .map(|function| &mut *function.function)
    }

    /// The functions, in order.
    pub fn functions(&self) -> &[Named<dyn RuleFunction>] {
        &self.functions
    }

    /// The functions in order, with their places.
    pub fn functions_mut(&mut self) -> impl Iterator<Item = (u8, &mut Box<dyn RuleFunction>)> {
        (0..).zip(self.functions.iter_mut().map(|named| &mut named.function))
    }

    /// Takes a packet through the functions from a step on (0 at first).
    pub fn run(
        &mut self,
        packet: &mut Packet,
        recording: &mut Recording,
        from: usize,
        dependents: &dyn Dependents,
        answers: &mut Answers<'_>,
    ) -> Verdict<Awaits> {
        self.run_probed(packet, recording, from, dependents, answers, &mut NoProbe)
    }

    /// The same with a probe.
    pub fn run_probed<P: Probe + ?Sized>(
        &mut self,
        packet: &mut Packet,
        recording: &mut Recording,
        from: usize,
        dependents: &dyn Dependents,
        answers: &mut Answers<'_>,
        probe: &mut P,
    ) -> Verdict<Awaits> {
        let now = packet.timestamp();
        if shard_of(packet.frame.metadata().egress).is_some() {
            // It follows one that goes on elsewhere.
            return Verdict::Forward;
        }
        for step in from..self.functions.len() {
            let place = self.place_at(packet.direction, step);
            let mut recorded = Recorded::new(packet, recording, dependents, place as u8);
            let answered = answers.count();
            let function = &mut self.functions[place];
            let verdict = function.handle(&mut recorded, now, answers);
            probe.handled(place as u8, &function.name, packet, recording, verdict);
            answers.follow_from(step, packet, recording.rewrites().egress());
            if answers.count() > answered {
                self.turn_back(packet, step, answered, dependents, answers);
            }
            match verdict {
                Verdict::Forward if shard_of(recording.rewrites().egress()).is_some() => {
                    return Verdict::Forward;
                }
                Verdict::Forward => {}
                Verdict::Drop(reason) => return Verdict::Drop(reason),
                Verdict::Consumed => {
                    recording.obstruct(Obstacle::Answered);
                    return Verdict::Consumed;
                }
                Verdict::Wait(entry) => {
                    let function = place as u8;
                    let entry = EntryId { function, entry };
                    return Verdict::Wait(Awaits { step, entry });
                }
            }
        }
        Verdict::Forward
    }

    /// Takes what a function has made back through the functions before it: each side must see
    /// the addresses that it knows, in an ICMP error's quoted packet too.
    #[cold]
    fn turn_back(
        &mut self,
        packet: &Packet,
        step: usize,
        first: usize,
        dependents: &dyn Dependents,
        answers: &mut Answers<'_>,
    ) {
        for mut frame in answers.take_from(first) {
            frame.set_timestamp(packet.timestamp());
            frame.set_ordinal(packet.frame.ordinal());
            frame.set_port(packet.frame.port());
            frame.set_metadata(Metadata {
                direction: packet.direction.other(),
                is_answer: true,
                ..Metadata::default()
            });
            let (frame, leaves) =
                self.walk_back(frame, packet.direction, step, dependents, answers);
            answers.put_back(frame, leaves);
        }
    }

    /// Returns the frame, and whether it leaves. Whatever a function would have it wait for, or
    /// answers to it, is not worth the trouble: who sent the packet will send another.
    fn walk_back(
        &mut self,
        frame: Frame,
        direction: Direction,
        step: usize,
        dependents: &dyn Dependents,
        answers: &mut Answers<'_>,
    ) -> (Frame, bool) {
        let Ok(layout) = dissect(frame.bytes()) else {
            return (frame, true);
        };
        let mut packet = Packet {
            frame,
            layout,
            direction: direction.other(),
            role: Role::Member,
            alias_row: 0,
        };
        let (now, mut recording) = (packet.timestamp(), Recording::new(None));
        let mut further = Vec::new();
        let leaves = (0..step).rev().all(|step| {
            let place = self.place_at(direction, step);
            let recorded = Recorded::new(&mut packet, &mut recording, dependents, place as u8);
            let mut recorded = recorded.turning_back();
            let answers = &mut answers.again(&mut further);
            self.functions[place].handle(&mut recorded, now, answers) == Verdict::Forward
        });
        for frame in further {
            answers.put_back(frame, false);
        }
        (packet.frame, leaves)
    }

    fn place_at(&self, direction: Direction, step: usize) -> usize {
        match direction {
            Direction::Original => step,
            Direction::Reply => {
                let others = self.functions.len().saturating_sub(self.last);
                others.checked_sub(step + 1).unwrap_or(step)
            }
        }
    }
}
