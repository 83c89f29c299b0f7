//! What is found out of a whole batch before its packets walk: headers, flows, rules. Reads of
//! memory overlap.

use super::lane::{LongLane, RuleLane, StateLane};
use super::{FETCHED_AHEAD, FastElement, FastPath, Io};
use crate::place::Place;
use twinpath_coherence::{Parsed, StateStage};
use twinpath_core::wire::layout::{Layout, Network, dissect_plain};
use twinpath_core::wire::{dissect, fields};
use twinpath_core::{Direction, Frame, Steering};
use twinpath_fastpath::state_table::NO_SLOT;
use twinpath_rulecache::{Found, MatchKey, RuleTable};

/// The first element that a packet meets, and what it will find there.
#[derive(Copy, Clone, Default)]
enum First {
    /// The frame does not enter the chain.
    #[default]
    Nothing,
    /// Flow state.
    State,
    /// The rules found at this place of the look-ups of its direction.
    Rules(u8),
    /// Only the cores.
    Cores,
}

/// What is known of a frame before it walks.
#[derive(Copy, Clone, Default)]
struct Prepared {
    parsed: Parsed,
    first: First,
    direction: Direction,
}

/// Keys of packets whose first element has rules, and the rules found.
#[derive(Default)]
pub(super) struct Lookups {
    keys: Vec<MatchKey>,
    found: Vec<Option<Found>>,
}

impl Lookups {
    pub fn clear(&mut self) {
        self.keys.clear();
    }

    /// Returns the number of the look-up.
    #[inline(always)]
    pub fn add(&mut self, key: MatchKey) -> u8 {
        self.keys.push(key);
        self.keys.len() as u8 - 1
    }

    /// Finds the rules of all keys.
    #[inline]
    pub fn find_in(&mut self, table: &mut RuleTable) {
        self.found.clear();
        self.found.resize(self.keys.len(), None);
        table.find_batch(&self.keys, &mut self.found);
    }

    /// A key, and the rule that was found for it.
    #[inline(always)]
    pub fn at(&self, number: u8) -> (&MatchKey, Option<Found>) {
        let number = usize::from(number);
        (&self.keys[number], self.found[number])
    }
}

/// What is known of a batch; kept so that nothing is moved about.
#[derive(Default)]
pub(super) struct Batch {
    prepared: Vec<Prepared>,
    /// By direction.
    pub(super) lookups: [Lookups; 2],
    pub(super) state_lane: StateLane,
    pub(super) rule_lane: RuleLane,
    pub(super) long_lane: LongLane,
}

impl Batch {
    /// Makes room for what will be known of so many frames.
    #[inline]
    pub(super) fn make_room(&mut self, frames: usize) {
        if self.prepared.len() < frames {
            self.prepared.resize(frames, Prepared::default());
        }
    }

    /// Looks at tags, and fetches the slot that probably holds a packet's flow.
    #[inline]
    pub(super) fn fetch_slot(&mut self, number: usize, stage: &StateStage) {
        if let Some(prepared) = self.prepared.get_mut(number)
            && matches!(prepared.first, First::State)
        {
            prepared.parsed.suspect = stage.finder().prefetch_slot(prepared.parsed.hash);
        }
    }
}

impl FastPath {
    /// Finds out about all frames.
    #[inline]
    pub(super) fn prepare(&mut self, frames: &[Frame], batch: &mut Batch) {
        batch.make_room(frames.len());
        self.counts.packets_in += frames.len() as u64;
        let is_flow_state = matches!(
            self.elements.as_slice(),
            [FastElement::State(_) | FastElement::OnCores]
        );
        self.counts.bytes_in += match is_flow_state && self.sides.is_one_way() {
            true => self.prepare_state(frames, batch),
            false => self.prepare_any(frames, batch),
        };
    }

    /// For chains that are all flow state. Returns the bytes of all frames.
    #[inline]
    fn prepare_state(&self, frames: &[Frame], batch: &mut Batch) -> u64 {
        let mut bytes_in = 0;
        for (number, frame) in frames.iter().enumerate() {
            prefetch_ahead(frames, number);
            bytes_in += frame.len() as u64;
            self.prepare_flow(frame, number, batch);
        }
        self.prefetch_slots(frames.len(), batch);
        bytes_in
    }

    /// Finds the flow of a frame, and fetches the tags that it has in flow state.
    #[inline(never)]
    pub(super) fn prepare_flow(&self, frame: &Frame, number: usize, batch: &mut Batch) {
        let Some(prepared) = batch.prepared.get_mut(number) else {
            return;
        };
        prepared.first = match parse(&self.steering, frame, &mut prepared.parsed) {
            true => First::State,
            false => First::Nothing,
        };
        if let (First::State, Some(stage)) = (prepared.first, self.stage()) {
            stage.finder().prefetch_tags(prepared.parsed.hash);
        }
    }

    #[inline]
    fn prefetch_slots(&self, frames: usize, batch: &mut Batch) {
        let Some(stage) = self.stage() else { return };
        (0..frames).for_each(|number| batch.fetch_slot(number, stage));
    }

    /// For chains that begin or end with rules. Returns the bytes of all frames.
    fn prepare_any(&mut self, frames: &[Frame], batch: &mut Batch) -> u64 {
        batch.lookups.iter_mut().for_each(Lookups::clear);
        let mut bytes_in = 0;
        for (index, frame) in frames.iter().enumerate() {
            prefetch_ahead(frames, index);
            bytes_in += frame.len() as u64;
            self.prepare_met(frame, index, batch);
        }
        self.look_up(batch);
        self.prefetch_slots(frames.len(), batch);
        bytes_in
    }

    /// Finds out what a frame meets first in any chain.
    #[inline]
    pub(super) fn prepare_met(&self, frame: &Frame, number: usize, batch: &mut Batch) {
        let prepared = &mut batch.prepared[number];
        prepared.first = match layout_of(frame) {
            Some(layout) => {
                prepared.parsed.layout = layout;
                self.prepare_one(frame, prepared, &mut batch.lookups)
            }
            None => First::Nothing,
        };
    }

    #[inline]
    fn prepare_one(
        &self,
        frame: &Frame,
        prepared: &mut Prepared,
        lookups: &mut [Lookups; 2],
    ) -> First {
        let layout = prepared.parsed.layout;
        prepared.direction = self.direction(frame, &layout);
        let place = Place::first(prepared.direction, self.elements.len());
        match &self.elements[usize::from(place.element)] {
            FastElement::Rules(stage) => match stage.key(frame, &layout, place) {
                Some(key) => First::Rules(lookups[prepared.direction.index()].add(key)),
                None => First::Cores,
            },
            FastElement::State(stage) => {
                let parsed = &mut prepared.parsed;
                parsed.keyed = self.keyed(frame, &layout);
                parsed.hash = parsed.keyed.key.hash(self.steering.seed());
                parsed.suspect = NO_SLOT;
                stage.finder().prefetch_tags(parsed.hash);
                First::State
            }
            FastElement::OnCores => First::Cores,
        }
    }

    #[inline(always)]
    pub(super) fn direction(&self, frame: &Frame, layout: &Layout) -> Direction {
        match self.sides.is_one_way() {
            true => Direction::Original,
            false => {
                let source = fields::source(frame.bytes(), layout);
                self.sides.direction(source.address)
            }
        }
    }

    pub(super) fn look_up(&mut self, batch: &mut Batch) {
        let elements = self.elements.len();
        for (direction, lookups) in Direction::BOTH.into_iter().zip(&mut batch.lookups) {
            let place = Place::first(direction, elements);
            if let Some(stage) = self.rules(place.element) {
                lookups.find_in(&mut stage.table);
            }
        }
    }

    /// A packet enters the chain.
    #[inline]
    pub(super) fn enter(&mut self, mut frame: Frame, batch: &Batch, index: usize, io: &mut Io<'_>) {
        let prepared = &batch.prepared[index];
        let direction = prepared.direction;
        if direction == Direction::Reply {
            frame.set_direction(direction);
        }
        let place = Place::first(direction, self.elements.len());
        match prepared.first {
            First::State => self.at_state(frame, &prepared.parsed, place, io),
            First::Rules(number) => {
                let (key, found) = batch.lookups[direction.index()].at(number);
                let met = (*key, found);
                self.at_rules(frame, &prepared.parsed.layout, place, met, io);
            }
            First::Cores => self.hand_to_cores(frame, &prepared.parsed.layout, place, io),
            First::Nothing => self.without_flow(frame, io),
        }
    }
}

#[inline(always)]
pub(super) fn prefetch_ahead(frames: &[Frame], index: usize) {
    if let Some(ahead) = frames.get(index + FETCHED_AHEAD) {
        ahead.prefetch();
    }
}

/// Where the headers of an IP packet are.
#[inline]
fn layout_of(frame: &Frame) -> Option<Layout> {
    let bytes = frame.bytes();
    dissect_plain(bytes).or_else(|| {
        let layout = dissect(bytes).ok()?;
        (layout.network != Network::None).then_some(layout)
    })
}

/// Finds the flow of a frame; false if it has none.
#[inline]
fn parse(steering: &Steering, frame: &Frame, parsed: &mut Parsed) -> bool {
    let Ok(layout) = dissect(frame.bytes()) else {
        return false;
    };
    let Some(keyed) = steering.key(frame.bytes(), &layout) else {
        return false;
    };
    *parsed = Parsed {
        layout,
        keyed,
        hash: keyed.key.hash(steering.seed()),
        suspect: NO_SLOT,
    };
    true
}
