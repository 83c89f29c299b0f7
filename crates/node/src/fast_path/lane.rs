//! Packets of a batch that go the same way through the chain.

use super::hints::Hints;
use super::{BATCH, Departure, Via};
use twinpath_coherence::Parsed;
use twinpath_core::steering::PlainKey;
use twinpath_core::wire::layout::{Layout, Plain};
use twinpath_core::{Decision, Frame};

/// What is known of a packet before it walks.
#[derive(Copy, Clone, Default)]
pub(super) struct Known {
    /// Whether it is plain; if not, [the rest](Lane::others) lies beside.
    pub is_plain: bool,
    pub plain: Plain,
    /// Its flow as it arrived, if it is plain.
    pub flow: PlainKey,
    /// Where it lies among packets that are not plain, if it is none.
    pub other: u8,
    /// Its number in the batch.
    pub arrival: u8,
    /// Whether an element has found its flow elsewhere than expected.
    pub has_news: bool,
    /// What its hints are kept under, if they are.
    pub hash: u64,
    /// Where the elements will probably find its flow.
    pub hints: Hints,
}

/// What is known of a packet's headers.
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
}

/// The packets, in order of arrival. Those that an element does not let go on are taken out.
pub(super) struct Lane {
    pub frames: Vec<Frame>,
    /// By frame: where in `known` is what is known of it.
    numbers: [u8; BATCH],
    known: Box<[Known; BATCH]>,
    /// How many have joined.
    joined: usize,
    others: Vec<Parsed>,
}

/// A plain packet in front of an element.
pub(super) type InFront<'a> = (&'a mut Frame, Option<&'a Known>);

impl Default for Lane {
    fn default() -> Self {
        Self {
            frames: Vec::with_capacity(BATCH),
            numbers: [0; BATCH],
            known: Box::new([Known::default(); BATCH]),
            joined: 0,
            others: Vec::new(),
        }
    }
}

impl Lane {
    /// A packet joins; at most [`BATCH`] do.
    #[inline(always)]
    pub fn push(&mut self, frame: Frame, known: Known) {
        let (place, number) = (self.frames.len() % BATCH, self.joined % BATCH);
        self.numbers[place] = number as u8;
        self.known[number] = known;
        self.joined += 1;
        self.frames.push(frame);
    }

    /// One that is not plain.
    pub fn push_other(&mut self, frame: Frame, parsed: Parsed, mut known: Known) {
        known.other = self.others.len() as u8;
        self.others.push(parsed);
        self.push(frame, known);
    }

    /// What is known of all that have joined.
    #[inline(always)]
    pub fn known(&mut self) -> &mut [Known] {
        self.known.get_mut(..self.joined).unwrap_or_default()
    }

    /// The packet that joined so many before the last one.
    #[inline(always)]
    pub fn joined_before(&mut self, last: usize) -> Option<&mut Known> {
        let place = self.joined.checked_sub(last + 1)?;
        self.known.get_mut(place)
    }

    /// Packets from the one at `first` on; what is known only of those that are plain.
    #[inline(always)]
    pub fn from(&mut self, first: usize) -> impl Iterator<Item = InFront<'_>> {
        let frames = self.frames.get_mut(first..).unwrap_or_default();
        let numbers = self.numbers.get(first..).unwrap_or_default();
        let known = self.known.as_ref();
        frames.iter_mut().zip(numbers).map(|(frame, number)| {
            let known = &known[usize::from(*number) % BATCH];
            (frame, Some(known).filter(|known| known.is_plain))
        })
    }

    /// A packet and what is known of it.
    pub fn at(&mut self, place: usize) -> Option<(&mut Frame, &mut Known, Shape<'_>)> {
        let known = self.known.get_mut(usize::from(*self.numbers.get(place)?))?;
        let shape = match known.is_plain {
            true => Shape::Plain(known.plain),
            false => Shape::Other(self.others.get(usize::from(known.other))?),
        };
        Some((self.frames.get_mut(place)?, known, shape))
    }

    /// Tells the frames their numbers in the order of arrival, those of the batch beginning with
    /// `first`.
    pub fn number(&mut self, first: u64) {
        for (frame, known) in self.frames.iter_mut().zip(self.known.iter()) {
            frame.set_ordinal(first + u64::from(known.arrival));
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
        self.joined = 0;
        self.others.clear();
        self.frames.drain(..).map(|frame| Departure {
            frame,
            via: Via::Fast,
            is_reply: false,
        })
    }
}

/// How many packets have passed an element, and what was decided about the one behind them; nothing
/// if it is for [`FastPath::meet`](super::FastPath::meet).
pub(super) type Passed = (usize, Option<Decision>);
