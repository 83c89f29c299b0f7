//! What is found out about a whole batch before its packets walk, so that their reads of memory
//! overlap: headers, directions, and where the chain's elements will find their flows.
//!
//! A chain of one element is asked itself; for one of several an earlier packet of the flow has
//! left [hints](super::hints).

use super::hints::Hints;
use super::lane::{Known, Lane};
use super::{BATCH, FETCHED_AHEAD, FastElement, FastPath, Io, RuleStage};
use twinpath_coherence::Parsed;
use twinpath_core::steering::PlainKey;
use twinpath_core::wire::layout::{Layout, Network, Plain};
use twinpath_core::wire::{dissect, fields};
use twinpath_core::{Direction, Frame, Instant, Side, Steering};
use twinpath_fastpath::state_table::{Finder, NO_SLOT, SlotId};
use twinpath_rulecache::Found;

/// How a chain tells where its elements will find a packet's flow.
trait Searched {
    /// What tells it of a plain packet is on its way. Returns what is to be given to
    /// [`Self::find`], and the flow if elements will ask for it.
    fn fetch(&self, bytes: &[u8], plain: Plain, direction: Direction) -> (u64, PlainKey);
    /// The same of any other packet.
    fn fetch_other(&self, parsed: &Parsed) -> u64;
    /// It is there; what lies in those places is on its way.
    fn find(&self, hash: u64) -> Hints;
}

/// Flow state alone.
struct InState<'a>(Finder<'a>, &'a Steering);

impl Searched for InState<'_> {
    #[inline(always)]
    fn fetch(&self, bytes: &[u8], plain: Plain, _: Direction) -> (u64, PlainKey) {
        let flow = self.1.plain_key(bytes, plain);
        let hash = flow.key.hash(self.1.seed());
        self.0.prefetch_tags(hash);
        (hash, flow)
    }

    #[inline(always)]
    fn fetch_other(&self, parsed: &Parsed) -> u64 {
        self.0.prefetch_tags(parsed.hash);
        parsed.hash
    }

    #[inline(always)]
    fn find(&self, hash: u64) -> Hints {
        Hints::of_first(of_slot(self.0.prefetch_slot(hash)))
    }
}

/// Rules alone, each of one flow over IPv4.
struct InRules<'a>(&'a RuleStage);

impl Searched for InRules<'_> {
    #[inline(always)]
    fn fetch(&self, bytes: &[u8], plain: Plain, direction: Direction) -> (u64, PlainKey) {
        let flow = self.0.flow_key(bytes, plain, direction);
        (self.0.table.fetch(flow).bits().into(), PlainKey::default())
    }

    #[inline(always)]
    fn fetch_other(&self, _: &Parsed) -> u64 {
        0
    }

    #[inline(always)]
    fn find(&self, hash: u64) -> Hints {
        Hints::of_first(hash as u32)
    }
}

/// All other chains.
struct InHints<'a>(&'a FastPath);

impl Searched for InHints<'_> {
    #[inline(always)]
    fn fetch(&self, bytes: &[u8], plain: Plain, _: Direction) -> (u64, PlainKey) {
        let steering = &self.0.steering;
        let flow = steering.plain_key(bytes, plain);
        let hash = one_way(flow.key.hash(steering.seed()), flow.side);
        self.0.hints.prefetch(hash);
        (hash, flow)
    }

    #[inline(always)]
    fn fetch_other(&self, parsed: &Parsed) -> u64 {
        let hash = one_way(parsed.hash, parsed.keyed.side);
        self.0.hints.prefetch(hash);
        hash
    }

    #[inline(always)]
    fn find(&self, hash: u64) -> Hints {
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

/// So many packets after its tags were asked for they are there.
const FOUND_BEHIND: usize = 8;

/// What was seen of a batch as a whole.
struct Seen {
    bytes_in: u64,
    /// When its last packet arrived. Time never runs backwards.
    latest: Instant,
}

/// A flow's hash, another for each way that its packets go.
#[inline(always)]
const fn one_way(hash: u64, side: Side) -> u64 {
    hash ^ (side as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// A slot as a hint.
#[inline(always)]
pub(super) const fn of_slot(slot: SlotId) -> u32 {
    slot.wrapping_add(1)
}

/// The slot of a hint.
#[inline(always)]
pub(super) const fn slot_of(hint: u32) -> SlotId {
    const { assert!(NO_SLOT == SlotId::MAX) };
    hint.wrapping_sub(1)
}

impl FastPath {
    /// Whether hints are kept for the chain: one of one element tells itself where flows are.
    #[inline(always)]
    pub(super) fn has_hints(&self) -> bool {
        match self.elements.as_slice() {
            [FastElement::State(_)] => false,
            [FastElement::Rules(stage)] => stage.table.has_others(),
            _ => true,
        }
    }

    /// Finds out about the next [`BATCH`] frames, and sorts them by direction. What is no IP leaves.
    #[inline(always)]
    pub(super) fn look_ahead(
        &mut self,
        frames: &mut Vec<Frame>,
        lanes: &mut [Lane; 2],
        io: &mut Io<'_>,
    ) {
        let packets = frames.len().min(BATCH);
        let mut strangers = std::mem::take(&mut self.strangers);
        let seen = match self.elements.as_slice() {
            [FastElement::State(stage)] => {
                self.look(&InState(stage.finder(), &self.steering), frames, lanes, &mut strangers)
            }
            [FastElement::Rules(stage)] if !stage.table.has_others() => {
                self.look(&InRules(stage), frames, lanes, &mut strangers)
            }
            _ => self.look(&InHints(self), frames, lanes, &mut strangers),
        };
        self.under_way.arrive(packets, seen.latest);
        self.counts.packets_in += packets as u64;
        self.counts.bytes_in += seen.bytes_in;
        for frame in strangers.drain(..) {
            self.without_flow(frame, io);
        }
        self.strangers = strangers;
    }

    /// Looks at the next frames, and sorts them by direction.
    #[inline(never)]
    fn look(
        &self,
        searched: &impl Searched,
        frames: &mut Vec<Frame>,
        lanes: &mut [Lane; 2],
        strangers: &mut Vec<Frame>,
    ) -> Seen {
        let (mut bytes_in, mut latest) = (0, self.under_way.latest());
        let sides = self.sides.of_v4();
        let has_connections = self.steering.are_connections();
        // Where the driver has not done so.
        frames.iter().take(FETCHED_AHEAD).for_each(Frame::prefetch);
        let mut arrivals = frames.drain(..frames.len().min(BATCH));
        let mut arrival = 0;
        while let Some(mut frame) = arrivals.next() {
            if let Some(ahead) = arrivals.as_slice().get(FETCHED_AHEAD - 1) {
                ahead.prefetch();
            }
            match frame.timestamp() {
                now if now < latest => frame.set_timestamp(latest),
                now => latest = now,
            }
            let bytes = frame.bytes();
            bytes_in += bytes.len() as u64;
            match Plain::of(bytes).filter(|_| has_connections) {
                Some(plain) => {
                    let source = (plain.addresses(bytes) >> 32) as u32;
                    let direction = sides.direction(source);
                    let (hash, flow) = searched.fetch(bytes, plain, direction);
                    let known = Known {
                        is_plain: true,
                        plain,
                        flow,
                        arrival,
                        hash,
                        ..Known::default()
                    };
                    let lane = &mut lanes[direction.index()];
                    lane.push(frame, known);
                    if let Some(known) = lane.joined_before(FOUND_BEHIND) {
                        known.hints = searched.find(known.hash);
                    }
                }
                None => match self.parse(&frame) {
                    Some((parsed, direction)) => {
                        let known = Known {
                            arrival,
                            hash: searched.fetch_other(&parsed),
                            ..Known::default()
                        };
                        lanes[direction.index()].push_other(frame, parsed, known);
                    }
                    None => strangers.push(frame),
                },
            }
            arrival += 1;
        }
        for lane in lanes {
            for known in lane.known().iter_mut().rev().take(FOUND_BEHIND) {
                known.hints = searched.find(known.hash);
            }
        }
        Seen { bytes_in, latest }
    }

    /// A packet that is not plain, its flow and which way it goes; `None` if it has no flow.
    #[inline(never)]
    fn parse(&self, frame: &Frame) -> Option<(Parsed, Direction)> {
        let layout = dissect(frame.bytes()).ok()?;
        if layout.network == Network::None {
            return None;
        }
        let keyed = self.keyed(frame, &layout);
        let parsed = Parsed {
            layout,
            keyed,
            hash: keyed.key.hash(self.steering.seed()),
            suspect: NO_SLOT,
        };
        Some((parsed, self.direction(frame, &layout)))
    }

    /// Which way a packet goes that arrives.
    pub(super) fn direction(&self, frame: &Frame, layout: &Layout) -> Direction {
        match self.sides.is_one_way() {
            true => Direction::Original,
            false => {
                let source = fields::source(frame.bytes(), layout);
                self.sides.direction(source.address)
            }
        }
    }
}
