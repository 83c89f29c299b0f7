//! Windows while a SYN waits for its answer.
//!
//! Anybody who guesses the ports can send another SYN in the opener's name, and the opener itself
//! may try again with other numbers. Which of them reaches the responder first nobody in between
//! knows. So the first is kept, and beside it the latest that differs, in the half that is not
//! needed yet; an answer to either is believed, and settles which of the two it was.

use twinpath_core::Direction;

use super::segment::{MAX_SCALE, Segment};
use super::tcp_state::SegmentKind;
use super::window::{
    Half, MIN_ACKNOWLEDGEMENT_REACH, SCALE_NOT_OFFERED, Windows, at_least_one, is_at_most,
    is_behind_by_at_most, later,
};

impl Half {
    fn of_syn(segment: &Segment) -> Self {
        Self {
            end: segment.end,
            limit: segment.end,
            window: at_least_one(segment.window.into()),
            acknowledged: segment.sequence,
            has_gap: false,
            has_fin: false,
        }
    }

    /// Whether a number acknowledges the SYN that is all that was heard, and nothing more than
    /// came with it.
    const fn is_acknowledged_by(&self, number: u32) -> bool {
        is_at_most(self.acknowledged.wrapping_add(1), number) && is_at_most(number, self.end)
    }
}

impl Windows {
    /// After the first SYN.
    pub fn open(segment: &Segment) -> Self {
        let mut windows = Self {
            scales: [SCALE_NOT_OFFERED; 2],
            ..Self::default()
        };
        windows.keep_syn(segment.direction.index(), segment);
        windows
    }

    fn keep_syn(&mut self, place: usize, segment: &Segment) {
        self.halves[place] = Half::of_syn(segment);
        self.scales[place] = segment.scale.unwrap_or(SCALE_NOT_OFFERED);
    }

    /// Another SYN of the opener before any answer: the same again, or one that is kept beside it.
    pub(super) fn hear_another_syn(&mut self, segment: &Segment) {
        let (first, second) = places(segment.direction);
        let is_first = self.halves[first].acknowledged == segment.sequence;
        self.keep_syn(if is_first { first } else { second }, segment);
    }

    /// The SYNs of the opener, whose segments go in this direction: the first, and another if there
    /// was one.
    fn syns(&self, opener: Direction) -> impl Iterator<Item = (usize, &Half)> {
        let (first, second) = places(opener);
        let kept = [first, second].map(|place| (place, &self.halves[place]));
        kept.into_iter().filter(|(_, half)| half.window != 0)
    }

    /// Whether one of the opener's SYNs has this sequence number.
    pub(super) fn has_syn(&self, opener: Direction, sequence: u32) -> bool {
        self.syns(opener)
            .any(|(_, syn)| syn.acknowledged == sequence)
    }

    /// Whether a segment acknowledges one of the SYNs of the end that it goes to.
    pub(super) fn acknowledges_syn(&self, segment: &Segment) -> bool {
        self.syn_acknowledged_by(segment).is_some()
    }

    fn syn_acknowledged_by(&self, segment: &Segment) -> Option<usize> {
        let number = segment.acknowledgement?;
        let mut syns = self.syns(segment.direction.other());
        let (place, _) = syns.find(|(_, syn)| syn.is_acknowledged_by(number))?;
        Some(place)
    }

    /// Whether a segment acknowledges the first SYN: the only one that a reset can refuse, for a
    /// stranger can send a SYN and the reset that refuses it.
    pub(super) fn acknowledges_first_syn(&self, segment: &Segment) -> bool {
        let (first, _) = places(segment.direction.other());
        self.syn_acknowledged_by(segment) == Some(first)
    }

    /// The window scale that was offered with the SYN which a segment of the same end goes on from,
    /// where the answer was not seen: [`SCALE_NOT_OFFERED`] if it offered none. `None` if the
    /// segment goes on from no SYN.
    pub(super) fn scale_of_syn_before(&self, segment: &Segment) -> Option<u8> {
        let mut syns = self.syns(segment.direction);
        let goes_on = |syn: &Half| {
            let next = syn.acknowledged.wrapping_add(1);
            is_at_most(next, segment.sequence)
                && is_behind_by_at_most(next, segment.sequence, MIN_ACKNOWLEDGEMENT_REACH)
        };
        let (place, _) = syns.find(|(_, syn)| goes_on(syn))?;
        Some(self.scales[place])
    }

    /// A SYN with an acknowledgement of one of the opener's SYNs: now the scales are settled.
    /// Windows of SYNs are never scaled.
    pub(super) fn answer_syn(&mut self, segment: &Segment) -> bool {
        let (Some(place), Some(acknowledged)) =
            (self.syn_acknowledged_by(segment), segment.acknowledgement)
        else {
            return false;
        };
        let (sender, opener) = (segment.direction.index(), segment.direction.other().index());
        let window = at_least_one(segment.window.into());
        let syn = self.halves[place];
        self.scales[opener] = self.scales[place];
        self.halves[opener] = Half {
            limit: later(syn.end, acknowledged.wrapping_add(window)),
            acknowledged,
            ..syn
        };
        self.halves[sender] = Half {
            end: segment.end,
            limit: segment.end.wrapping_add(syn.window),
            window,
            acknowledged: segment.sequence,
            has_gap: false,
            has_fin: false,
        };
        self.settle_scales(segment);
        true
    }

    /// Scaling counts if both ends offered it.
    pub(super) fn settle_scales(&mut self, segment: &Segment) {
        let others = self.scales[segment.direction.other().index()];
        let offer = segment.scale.filter(|_| others != SCALE_NOT_OFFERED);
        self.scales = offered_scales(segment.direction, offer, others);
    }

    /// After the first segment seen of a connection that is met in mid-stream. What the ends
    /// agreed on is unknown unless this segment, or its sender's SYN (which offered `scale`),
    /// tells: else the largest scale is assumed.
    pub fn pick_up(segment: &Segment, scale: Option<u8>) -> Self {
        let offer = match (segment.kind, scale) {
            (SegmentKind::SynAck, _) => segment.scale,
            (_, Some(scale)) => Some(scale).filter(|&scale| scale != SCALE_NOT_OFFERED),
            _ => Some(MAX_SCALE),
        };
        let mut windows = Self {
            scales: offered_scales(segment.direction, offer, MAX_SCALE),
            ..Self::default()
        };
        let expected = segment.acknowledgement.unwrap_or_default();
        let (sender, receiver) = places(segment.direction);
        windows.halves[sender] = Half {
            end: segment.end,
            acknowledged: segment.sequence,
            ..Half::default()
        };
        windows.halves[receiver] = Half {
            end: expected,
            limit: expected,
            acknowledged: expected,
            ..Half::default()
        };
        windows.hear_one_end(segment);
        windows
    }
}

/// The halves of the sender and of the receiver.
const fn places(direction: Direction) -> (usize, usize) {
    (direction.index(), direction.other().index())
}

/// Scales where the sender offered its own and the other end `others`; none unless it did.
fn offered_scales(sender: Direction, offer: Option<u8>, others: u8) -> [u8; 2] {
    let mut scales = [0; 2];
    if let Some(scale) = offer {
        scales[sender.index()] = scale;
        scales[sender.other().index()] = others;
    }
    scales
}
