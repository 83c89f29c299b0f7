//! Packets that have passed elements with rules: whether they are what the functions alone would
//! have made of them, by bindings as they were when the packets passed.

use super::chain::reference::Way;
use super::functions::configuration::BINDING_IDLE;
use super::record::bindings::{Pair, Why};
use super::record::happened::Happened;
use super::record::step::Cause;
use super::rule::Rule;
use super::scenario::elements::Element;
use super::simulation::Simulation;
use super::walks::{Out, Sight, end_of};
use super::world::source::is_inside;
use std::any::Any;
use twinpath_core::wire::{Endpoint, dissect, protocol, rewrite};
use twinpath_core::{Direction, Instant};
use twinpath_nf::napt::Napt;
use twinpath_node::Worker;
use twinpath_rulecache::RuleFunction;

impl Simulation {
    /// Somebody on the way of a packet that was dropped must have wanted that.
    pub(super) fn justify_drop(&mut self, number: u32) {
        let Some(packet) = self.history.packet(number) else {
            return;
        };
        let is_parking_short = self.has_parking() && self.drops_for_parking() > 0;
        let may_be_lost = packet.is_parked || is_parking_short || self.refused() > 0;
        let is_dropped_there = packet.flow.is_none() || packet.kind.is_dropped() || may_be_lost;
        if !is_dropped_there && !self.may_be_denied(number) {
            let what =
                format!("packet {number} was dropped on the fast path, and nobody wanted that");
            self.step.fault(Rule::InForce, what);
        }
    }

    /// Whether functions with rules drop a packet, by one of the bindings that were in force.
    fn may_be_denied(&mut self, number: u32) -> bool {
        let Some(packet) = self.history.packet(number) else {
            return false;
        };
        let turns = packet.seen..=self.turn;
        let (bytes, direction) = (packet.made.clone(), packet.direction);
        let way = Way {
            direction,
            from: packet.passed,
            passed: usize::MAX,
            at: packet.at,
        };
        let end = self.translated_end(&bytes, direction);
        let is_known = |pair: &Pair| Some(before(*pair, direction)) == end;
        let pairs = self.bindings.in_force(turns.clone()).filter(is_known);
        let ends = pairs.map(|pair| after(pair, direction));
        let ends: Vec<Option<Endpoint>> = std::iter::once(None).chain(ends.map(Some)).collect();
        let is_denied = |end: Option<Endpoint>| {
            let translate = |bytes: &mut Vec<u8>| {
                end.into_iter()
                    .for_each(|end| rewrite_end(bytes, direction, end));
            };
            !self.reference.pass(&mut bytes.clone(), way, translate)
        };
        let bindings = &self.bindings;
        let is_unbound = |end| direction == Direction::Reply && !bindings.is_bound(end, &turns);
        end.is_some_and(is_unbound) || ends.into_iter().any(is_denied)
    }

    /// What comes out is what the functions that it has passed make of it alone, by a binding that
    /// was in force.
    pub(super) fn is_as_alone(&mut self, sight: &Sight, bytes: &[u8]) -> Result<(), String> {
        let Some(packet) = self.history.packet(sight.number) else {
            return Ok(());
        };
        let mut expected = packet.made.clone();
        let direction = packet.direction;
        let way = Way {
            direction,
            from: packet.passed,
            passed: sight.passed,
            at: packet.at,
        };
        let is_translated = self.translated_end(&expected, direction).is_some();
        let shown = end_of(bytes, direction);
        let translate = |bytes: &mut Vec<u8>| {
            if let Some(shown) = shown.filter(|_| is_translated) {
                rewrite_end(bytes, direction, shown);
            }
        };
        let passes = packet.flow.is_none() || self.reference.pass(&mut expected, way, translate);
        if !passes {
            return Err("though a function drops it".into());
        }
        if let Some(packet) = self.history.packet_mut(sight.number) {
            packet.made.clone_from(&expected);
        }
        let expected = &expected[..expected.len().saturating_sub(sight.parked)];
        match bytes == expected {
            true => Ok(()),
            false => Err(format!("as {bytes:02x?}, expected {expected:02x?}")),
        }
    }

    /// The binding by which a packet was translated, if it has just passed the translation, must
    /// have been in force then.
    pub(super) fn judge_translation(&mut self, sight: &Sight, bytes: &[u8]) {
        let Some(packet) = self.history.packet(sight.number) else {
            return;
        };
        let direction = packet.direction;
        let Some((position, is_last)) = self.place_of_translation(direction) else {
            return;
        };
        let has_passed = packet.flow.is_some() && (packet.passed..sight.passed).contains(&position);
        let ends = self
            .translated_end(&packet.bytes, direction)
            .zip(end_of(bytes, direction));
        let Some((known, shown)) = ends.filter(|_| has_passed) else {
            return;
        };
        let pair = match direction {
            Direction::Original => Pair {
                internal: known,
                external: shown,
            },
            Direction::Reply => Pair {
                internal: shown,
                external: known,
            },
        };
        let (at, seen) = (packet.at, packet.seen);
        let since = match self.was_just_passed(sight, (position, is_last), direction) {
            true => self.turn,
            false => seen,
        };
        // A binding for a packet that has waited for long may end in the same step.
        let is_momentary =
            sight.out == Out::FromWorker && self.packet_now().since(at) > BINDING_IDLE;
        if is_momentary && !self.bindings.is_in_force(pair, &(self.turn..=self.turn)) {
            return;
        }
        if !self.bindings.is_in_force(pair, &(since..=self.turn)) {
            let what = format!(
                "packet {} was translated by {pair:?}, which is not in force",
                sight.number
            );
            return self.step.fault(Rule::InForce, what);
        }
        self.judge_use(sight, pair, at);
    }

    /// How many elements are in front of the translation, and whether no other function of its
    /// element comes behind it.
    fn place_of_translation(&self, direction: Direction) -> Option<(usize, bool)> {
        let mut elements = self.scenario.elements.passed(direction);
        elements
            .position(|element| element.translates())
            .map(|position| {
                let mut elements = self.scenario.elements.passed(direction).skip(position);
                let is_alone = |element| matches!(element, Element::Rules([_]));
                (position, elements.next().is_some_and(is_alone))
            })
    }

    /// Whether a packet passed the translation in this step: it cannot have been held behind it.
    fn was_just_passed(
        &self,
        sight: &Sight,
        (position, is_alone): (usize, bool),
        direction: Direction,
    ) -> bool {
        if sight.out == Out::FromWorker {
            return is_alone;
        }
        if sight.out == Out::Leaves && self.has_parking() {
            return false;
        }
        let end = sight.passed + usize::from(sight.out == Out::Punted);
        let elements = self.scenario.elements.passed(direction);
        let mut behind = elements.take(end).skip(position + 1);
        !behind.any(|element| element != Element::State)
    }

    fn judge_use(&mut self, sight: &Sight, pair: Pair, at: Instant) {
        let late = self.bindings.idle_since(pair, at);
        if let Some(last) = late.filter(|_| sight.out != Out::FromWorker)
            && !self.may_have_been_used(pair, at, sight.number)
        {
            let what = format!("packet {}: {pair:?} at {at:?} since {last:?}", sight.number);
            self.step.fault(Rule::AliveInUse, what);
        }
        if let Err(what) = self.bindings.uses(pair, at) {
            self.step.fault(Rule::AliveInUse, what);
        }
    }
}

impl Simulation {
    /// Whether another packet may have used the binding shortly before, unseen.
    fn may_have_been_used(&self, pair: Pair, at: Instant, number: u32) -> bool {
        let mut others = (1u32..).zip(self.history.packets());
        others.any(|(other, packet)| {
            let end = self.translated_end(&packet.bytes, packet.direction);
            other != number
                && end == Some(before(pair, packet.direction))
                && packet.at <= at
                && at.since(packet.at) <= BINDING_IDLE
        })
    }

    /// The end of a packet that is translated on its way, if one is: what servers know may be an
    /// address of a former configuration.
    fn translated_end(&self, bytes: &[u8], direction: Direction) -> Option<Endpoint> {
        let chain = self.service.chain.iter();
        let mut translations = chain.filter_map(|function| function.config.translation());
        let end = end_of(bytes, direction)?;
        let is_translated = match direction {
            Direction::Original => is_inside(end),
            Direction::Reply => translations.any(|one| one.external.contains(&end.address)),
        };
        is_translated.then_some(end)
    }

    /// A packet comes, perhaps of a client that was not known.
    pub(super) fn admit_client(&mut self, bytes: &[u8]) {
        if let Some(client) = self.translated_end(bytes, Direction::Original) {
            self.bindings.admit(client);
        }
    }

    /// Looks at the translation's bindings.
    pub(super) fn follow_bindings(&mut self) {
        let why = match self.step.cause {
            Cause::Crashed { .. } => Why::Crash,
            Cause::Changed => Why::Change,
            _ => Why::Idle {
                now: self.packet_now(),
            },
        };
        let napt = function::<Napt>(&self.workers);
        let bound = |internal| napt?.external_of(internal, protocol::TCP);
        let mut faults = Vec::new();
        let changed = self.bindings.follow(bound, (self.turn, why), &mut faults);
        for what in faults {
            self.step.fault(Rule::AliveInUse, what);
        }
        for (internal, external) in changed {
            self.coverage.bindings_changed += 1;
            self.note(Happened::Bound { internal, external });
        }
    }
}

/// The function of this kind, if a worker has one.
fn function<F: RuleFunction>(workers: &[Worker]) -> Option<&F> {
    let rules = workers.first()?.rules();
    let mut functions = rules.flat_map(|rules| rules.functions());
    functions.find_map(|named| (&*named.function as &dyn Any).downcast_ref())
}

/// Writes the client's end.
fn rewrite_end(bytes: &mut [u8], direction: Direction, end: Endpoint) {
    let Ok(layout) = dissect(bytes) else {
        return;
    };
    let is_written = match direction {
        Direction::Original => rewrite::set_source(bytes, &layout, end),
        Direction::Reply => rewrite::set_destination(bytes, &layout, end),
    };
    debug_assert!(is_written.is_ok(), "both are of one IP version");
}

/// What a packet of this direction has before it is translated.
const fn before(pair: Pair, direction: Direction) -> Endpoint {
    match direction {
        Direction::Original => pair.internal,
        Direction::Reply => pair.external,
    }
}

/// What it has afterwards.
const fn after(pair: Pair, direction: Direction) -> Endpoint {
    match direction {
        Direction::Original => pair.external,
        Direction::Reply => pair.internal,
    }
}
