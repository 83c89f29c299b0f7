//! Packets of a batch, by their way through the chain, and what is known of them before they walk.

use super::hints::Hints;
use super::{BATCH, Departure, Via};
use twinpath_coherence::Parsed;
use twinpath_core::steering::PlainKey;
use twinpath_core::wire::layout::{Layout, Plain, PlainEnds};
use twinpath_core::{Decision, Direction, Frame, Steering};
use twinpath_fastpath::state_table::NO_SLOT;

/// What is known of a packet before it walks.
#[derive(Copy, Clone, Default)]
pub(super) struct Known {
    /// Whether it is plain; if not, [the rest](Ahead::others) lies beside.
    pub is_plain: bool,
    /// The port that it came in by.
    pub port: u16,
    pub plain: Plain,
    /// Addresses and ports with which it arrived, if it is plain.
    pub ends: PlainEnds,
    /// Its flow as it arrived, if it is plain and elements ask for that.
    pub flow: PlainKey,
    /// What its hints are kept under, if they are.
    pub hash: u64,
    /// Where the elements will probably find its flow.
    pub hints: Hints,
}

/// What is known of a packet's headers.
#[derive(Copy, Clone)]
pub(super) enum Shape<'a> {
    Plain(Plain),
    /// Its flow may be that which it had before a rewrite.
    Other(&'a Parsed),
}

impl Shape<'_> {
    pub fn layout(&self) -> Layout {
        match self {
            Self::Plain(plain) => plain.layout(),
            Self::Other(parsed) => parsed.layout,
        }
    }

    /// The packet and its flow, as it is now.
    pub fn parsed(&self, steering: &Steering, frame: &Frame) -> Parsed {
        let layout = self.layout();
        // Only packets with an IP header are let into the chain, and those have a flow.
        let keyed = steering.key(frame.bytes(), &layout).unwrap_or_default();
        let hash = match self {
            Self::Other(before) if before.keyed.key == keyed.key => before.hash,
            _ => keyed.key.hash(steering.hash_key()),
        };
        Parsed {
            layout,
            keyed,
            hash,
            hint: NO_SLOT,
        }
    }
}

/// A batch before it walks.
pub(super) struct Ahead {
    /// By number in the order of arrival.
    pub known: [Known; BATCH],
    /// By the same number, what is known of those that are not plain.
    others: [Parsed; BATCH],
    /// A bit for each packet that goes the way of replies.
    pub replies: u32,
    /// A bit for each frame that may not enter the chain.
    pub aside: u32,
    /// A bit for each packet whose flow an element has found elsewhere than expected.
    news: u32,
}

const _: () = assert!(BATCH <= 32, "a bit for each");

impl Default for Ahead {
    fn default() -> Self {
        Self {
            known: [Known::default(); BATCH],
            others: [Parsed::default(); BATCH],
            replies: 0,
            aside: 0,
            news: 0,
        }
    }
}

impl Ahead {
    /// The next batch, of which these are replies and plain.
    #[inline(always)]
    pub fn begin(&mut self, replies: u32) {
        (self.replies, self.aside, self.news) = (replies, 0, 0);
    }

    /// What is known of the first so many packets.
    #[inline(always)]
    pub fn first(&mut self, count: usize) -> &mut [Known] {
        self.known.get_mut(..count).unwrap_or_default()
    }

    /// Where it is kept what is known of a packet that is not plain.
    #[inline(always)]
    pub fn other(&mut self, number: usize) -> (&mut Known, &mut Parsed) {
        let number = number % BATCH;
        (&mut self.known[number], &mut self.others[number])
    }

    /// An element has found a packet's flow here.
    pub fn found(&mut self, number: u8, element: u8, hint: u32) {
        let number = usize::from(number) % BATCH;
        self.known[number].hints.set(element, hint);
        self.news |= 1 << number;
    }

    /// Packets whose flow an element has found elsewhere than expected.
    pub fn news(&self) -> impl Iterator<Item = &Known> {
        let numbered = self.known.iter().enumerate();
        let is_new = |number: usize| self.news >> number & 1 != 0;
        numbered.filter_map(move |(number, known)| is_new(number).then_some(known))
    }

    /// Whether there are any.
    #[inline(always)]
    pub const fn has_news(&self) -> bool {
        self.news != 0
    }

    /// What is known of a packet.
    #[inline(always)]
    fn of(&self, number: u8) -> (&Known, Shape<'_>) {
        let (known, other) = self.parts(number);
        let shape = match known.is_plain {
            true => Shape::Plain(known.plain),
            false => Shape::Other(other),
        };
        (known, shape)
    }

    /// What is known of a packet, and the rest if it is not plain.
    #[inline(always)]
    fn parts(&self, number: u8) -> (&Known, &Parsed) {
        let number = usize::from(number) % BATCH;
        (&self.known[number], &self.others[number])
    }
}

/// Packets that go the same way, in order of arrival. Those that an element does not let go on are
/// taken out.
#[derive(Default)]
pub(super) struct Lane {
    pub frames: Vec<Frame>,
    /// By frame, which one of the batch it was.
    numbers: [u8; BATCH],
}

/// A packet in front of an element, and what is known of it; the last only if it is not plain.
pub(super) type InFront<'a> = (&'a mut Frame, &'a Known, &'a Parsed);

impl Lane {
    /// A whole batch joins.
    pub fn push_all(&mut self, frames: impl Iterator<Item = Frame>) {
        self.frames.extend(frames);
        self.numbers = std::array::from_fn(|number| number as u8);
    }

    /// A packet of the batch joins.
    pub fn push(&mut self, frame: Frame, number: usize) {
        self.numbers[self.frames.len() % BATCH] = number as u8;
        self.frames.push(frame);
    }

    /// Packets from the one at `first` on. Meanwhile packets of the next batch are fetched.
    #[inline(always)]
    pub fn from<'a>(
        &'a mut self,
        first: usize,
        ahead: &'a Ahead,
        next: &'a [Frame],
    ) -> impl Iterator<Item = InFront<'a>> {
        let frames = self.frames.get_mut(first..).unwrap_or_default();
        let numbers = self.numbers.get(first..).unwrap_or_default();
        frames.iter_mut().zip(numbers).map(|(frame, number)| {
            if let Some(frame) = next.get(usize::from(*number)) {
                frame.prefetch_packet();
            }
            let (known, other) = ahead.parts(*number);
            (frame, known, other)
        })
    }

    /// A packet, its number, and what is known of it.
    pub fn at<'a>(
        &'a mut self,
        place: usize,
        ahead: &'a Ahead,
    ) -> Option<(&'a mut Frame, u8, &'a Known, Shape<'a>)> {
        let number = *self.numbers.get(place)?;
        let (known, shape) = ahead.of(number);
        Some((self.frames.get_mut(place)?, number, known, shape))
    }

    /// Tells the frames their numbers in the order of arrival, those of the batch beginning with
    /// `first`.
    pub fn number(&mut self, first: u64) {
        for (frame, number) in self.frames.iter_mut().zip(self.numbers) {
            frame.set_ordinal(first + u64::from(number));
        }
    }

    /// Takes a packet out.
    pub fn take(&mut self, place: usize) -> Frame {
        self.numbers.copy_within(place + 1.., place);
        self.frames.remove(place)
    }

    /// Takes out all that are left: they have passed.
    #[inline(always)]
    pub fn leave(&mut self) -> impl ExactSizeIterator<Item = Departure> {
        let leaves = |frame| Departure::new(frame, Via::Fast, false);
        self.frames.drain(..).map(leaves)
    }
}

/// The packets of a batch.
#[derive(Default)]
pub(super) struct Batch {
    /// The number of the first of its packets, in the order of arrival.
    pub first: u64,
    pub ahead: Ahead,
    /// Frames that may not enter the chain.
    pub aside: Vec<Frame>,
    lanes: [Lane; 2],
}

impl Batch {
    /// The packets that go this way, and what is known of all.
    pub fn lane(&mut self, direction: Direction) -> (&mut Lane, &mut Ahead) {
        (&mut self.lanes[direction.index()], &mut self.ahead)
    }

    /// The next frames join the lanes, or are set aside.
    #[inline(always)]
    pub fn sort(&mut self, frames: impl ExactSizeIterator<Item = Frame>) {
        let Self {
            ahead,
            aside,
            lanes,
            ..
        } = self;
        let [forth, back] = lanes;
        let all = u32::MAX >> (BATCH - frames.len().clamp(1, BATCH));
        match (ahead.replies, ahead.aside) {
            (0, 0) => forth.push_all(frames),
            (replies, 0) if replies == all => back.push_all(frames),
            (replies, set_aside) => {
                for (number, frame) in frames.enumerate() {
                    match (set_aside >> number & 1, replies >> number & 1) {
                        (1, _) => aside.push(frame),
                        (_, 0) => forth.push(frame, number),
                        _ => back.push(frame, number),
                    }
                }
            }
        }
    }
}

/// How many packets have passed an element, and what was decided about the one behind them; nothing
/// if it is for [`FastPath::meet`](super::FastPath::meet).
pub(super) type Passed = (usize, Option<Decision>);

/// Where a packet leaves, if that was decided.
#[inline(always)]
pub(super) fn set_egress(frame: &mut Frame, egress: Option<u16>) {
    if egress.is_some() {
        frame.set_egress(egress);
    }
}
