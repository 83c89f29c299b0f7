//! Which sequence and acknowledgement numbers a connection can have: window tracking.
//!
//! For each direction the firewall keeps three numbers, as Guido van Rooij's "Real Stateful TCP
//! Packet Filtering in IP Filter" (2001) has them:
//!
//! - `end`: the highest sequence number sent (end of segment),
//! - `limit`: the highest that may be sent, which is what the other end has acknowledged plus its
//!   window,
//! - `window`: the largest window offered.
//!
//! A segment from A to B is believable if
//!
//! 1. it ends at or before A's `limit` (B's window has room for it),
//! 2. it ends at most one of B's windows before A's `end` (B may still have use for it),
//! 3. it acknowledges nothing beyond B's `end` (nothing that B has not sent),
//! 4. it acknowledges at least B's `end` less A's largest window, or less 66,000 bytes if that is
//!    more (nothing from long ago).
//!
//! Everything is modulo 2^32; the largest window is 2^30, so that signed differences decide.

use twinpath_core::Direction;

use super::segment::{MAX_SCALE, Segment};
use super::tcp_state::{End, SegmentKind, TcpState};

/// The scale number of an end that did not offer one in its SYN.
pub const SCALE_NOT_OFFERED: u8 = MAX_SCALE + 1;
/// How far behind an acknowledgement may always be, in bytes.
pub const MIN_ACKNOWLEDGEMENT_REACH: u32 = 66_000;
/// No window is larger, in bytes.
pub const MAX_WINDOW: u32 = (u16::MAX as u32) << MAX_SCALE;

/// What is known of one direction.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Half {
    /// Highest sequence number sent: the number after the last byte.
    pub end: u32,
    /// Highest sequence number that may be sent. While only a SYN has been sent, the number after
    /// it: the least that can be acknowledged.
    pub limit: u32,
    /// Largest window offered, in bytes; at least 1 once a segment of this direction was seen,
    /// so 0 says that none was.
    pub window: u32,
}

/// The windows of a connection, indexed by [`Direction`].
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Windows {
    /// What is known of each direction.
    pub halves: [Half; 2],
    /// How far the windows that this direction's segments carry are to be shifted.
    pub scales: [u8; 2],
}

impl Windows {
    /// After the first SYN.
    pub fn open(segment: &Segment) -> Self {
        let mut windows = Self {
            scales: [SCALE_NOT_OFFERED; 2],
            ..Self::default()
        };
        let sender = segment.direction.index();
        windows.scales[sender] = segment.scale.unwrap_or(SCALE_NOT_OFFERED);
        windows.halves[sender] = Half {
            end: segment.end,
            limit: segment.sequence.wrapping_add(1),
            window: at_least_one(segment.window.into()),
        };
        windows
    }

    /// After the first segment seen of a connection that is met in mid-stream. What the ends
    /// agreed on is unknown unless this segment, or `before` it the sender's SYN, tells: else the
    /// largest scale is assumed.
    pub fn pick_up(segment: &Segment, before: Option<&Self>) -> Self {
        let offer = match (segment.kind, before) {
            (SegmentKind::SynAck, _) => segment.scale,
            (_, Some(before)) => Some(before.scales[segment.direction.index()])
                .filter(|&scale| scale != SCALE_NOT_OFFERED),
            _ => Some(MAX_SCALE),
        };
        let mut windows = Self {
            scales: offered_scales(segment.direction, offer, MAX_SCALE),
            ..Self::default()
        };
        windows.halves[segment.direction.index()].end = segment.end;
        windows.halves[segment.direction.other().index()].end =
            segment.acknowledgement.unwrap_or_default();
        windows.halves[segment.direction.other().index()].limit =
            segment.acknowledgement.unwrap_or_default();
        windows.hear_one_end(segment);
        windows
    }

    /// Judges a segment that comes in this state from this end, and takes note of it if its
    /// numbers are believable. Returns whether they are.
    pub fn admit(&mut self, state: TcpState, from: End, segment: &Segment) -> bool {
        match (state, from, segment.kind) {
            (TcpState::SynSent, End::Opener, SegmentKind::Syn) => {
                *self = Self::open(segment);
                true
            }
            (TcpState::SynSent, _, SegmentKind::Reset) => self.acknowledges_syn(segment),
            (TcpState::SynSent, _, _) => self.answer_syn(segment),
            (_, _, SegmentKind::Reset) => self.has_believable_sequence(segment),
            (TcpState::PickedUp, End::Opener, _) => {
                self.hear_one_end(segment);
                true
            }
            (TcpState::PickedUp, End::Responder, _) => self.hear_other_end(segment),
            _ => self.is_in_window(segment) && self.advance(segment),
        }
    }

    /// Whether a segment of this direction with this sequence number may be under way: it has been
    /// sent, and can be in a window that the other end has offered.
    pub fn is_under_way(&self, direction: Direction, sequence: u32) -> bool {
        let (mine, theirs) = (
            self.halves[direction.index()],
            self.halves[direction.other().index()],
        );
        let oldest = match theirs.window {
            0 => mine.limit.wrapping_sub(1),
            window => mine.limit.wrapping_sub(window),
        };
        is_at_most(oldest, sequence) && is_at_most(sequence, mine.end)
    }

    /// Whether a segment acknowledges the SYN that is all that was seen of the other direction.
    fn acknowledges_syn(&self, segment: &Segment) -> bool {
        let syn = &self.halves[segment.direction.other().index()];
        segment
            .acknowledgement
            .is_some_and(|number| is_at_most(syn.limit, number) && is_at_most(number, syn.end))
    }

    /// The second SYN, with an acknowledgement of the first or without: now the scales are
    /// settled. Windows of SYNs are never scaled.
    fn answer_syn(&mut self, segment: &Segment) -> bool {
        if segment.acknowledgement.is_some() && !self.acknowledges_syn(segment) {
            return false;
        }
        let (sender, receiver) = (segment.direction.index(), segment.direction.other().index());
        let window = at_least_one(segment.window.into());
        let first = &mut self.halves[receiver];
        let acknowledged = segment.acknowledgement.unwrap_or(first.end);
        first.limit = later(first.end, acknowledged.wrapping_add(window));
        self.halves[sender] = Half {
            end: segment.end,
            limit: segment.end.wrapping_add(self.halves[receiver].window),
            window,
        };
        self.settle_scales(segment);
        true
    }

    /// Scaling counts if both ends offered it.
    fn settle_scales(&mut self, segment: &Segment) {
        let others = self.scales[segment.direction.other().index()];
        let offer = segment.scale.filter(|_| others != SCALE_NOT_OFFERED);
        self.scales = offered_scales(segment.direction, offer, others);
    }

    /// Takes note of a segment while only its sender has been heard: there is nothing to hold it
    /// against.
    fn hear_one_end(&mut self, segment: &Segment) {
        let window = self.window_of(segment);
        let (sender, receiver) = (segment.direction.index(), segment.direction.other().index());
        let mine = &mut self.halves[sender];
        mine.end = later(mine.end, segment.end);
        mine.limit = mine.end.wrapping_add(MAX_WINDOW);
        mine.window = mine.window.max(window);
        let theirs = &mut self.halves[receiver];
        if let Some(number) = segment.acknowledgement {
            theirs.end = later(theirs.end, number);
            theirs.limit = later(theirs.limit, number.wrapping_add(window));
        }
    }

    /// The first segment from the other end of a connection that was met in mid-stream. It may
    /// acknowledge more than was seen.
    fn hear_other_end(&mut self, segment: &Segment) -> bool {
        let (sender, receiver) = (segment.direction.index(), segment.direction.other().index());
        let Some(acknowledged) = segment.acknowledgement else {
            return false;
        };
        let distance = acknowledged
            .wrapping_sub(self.halves[receiver].end)
            .cast_signed()
            .unsigned_abs();
        if !self.has_believable_sequence(segment) || distance > MAX_WINDOW {
            return false;
        }
        if segment.kind == SegmentKind::SynAck {
            self.settle_scales(segment);
        }
        let window = self.window_of(segment);
        let mine = &mut self.halves[sender];
        mine.end = later(mine.end, segment.end);
        mine.window = window;
        let theirs = &mut self.halves[receiver];
        theirs.end = later(theirs.end, acknowledged);
        theirs.limit = later(theirs.end, acknowledged.wrapping_add(window));
        true
    }

    /// All four bounds; those on acknowledgements only where there is one.
    fn is_in_window(&self, segment: &Segment) -> bool {
        let mine = &self.halves[segment.direction.index()];
        let theirs = &self.halves[segment.direction.other().index()];
        let reach = mine.window.max(MIN_ACKNOWLEDGEMENT_REACH);
        let acknowledges = |number| {
            is_at_most(number, theirs.end) && is_behind_by_at_most(number, theirs.end, reach)
        };
        self.has_believable_sequence(segment) && segment.acknowledgement.is_none_or(acknowledges)
    }

    /// The two bounds on sequence numbers.
    fn has_believable_sequence(&self, segment: &Segment) -> bool {
        let mine = &self.halves[segment.direction.index()];
        let theirs = &self.halves[segment.direction.other().index()];
        let reach = if theirs.window == 0 {
            MAX_WINDOW
        } else {
            theirs.window
        };
        is_at_most(segment.end, mine.limit) && is_behind_by_at_most(segment.end, mine.end, reach)
    }

    /// Takes note of a believable segment; what the fast program does too. Always true.
    fn advance(&mut self, segment: &Segment) -> bool {
        let window = self.window_of(segment);
        let mine = &mut self.halves[segment.direction.index()];
        mine.end = later(mine.end, segment.end);
        let Some(number) = segment.acknowledgement else {
            return true;
        };
        mine.window = mine.window.max(window);
        let theirs = &mut self.halves[segment.direction.other().index()];
        theirs.limit = later(theirs.limit, number.wrapping_add(window));
        true
    }

    /// The window that a segment offers, in bytes. A closed window counts as one byte, because
    /// that is what a sender probes it with.
    fn window_of(&self, segment: &Segment) -> u32 {
        let is_syn = matches!(segment.kind, SegmentKind::Syn | SegmentKind::SynAck);
        let scale = if is_syn {
            0
        } else {
            self.scales[segment.direction.index()]
        };
        at_least_one(u32::from(segment.window).wrapping_shl(scale.into()))
    }
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

fn at_least_one(window: u32) -> u32 {
    window.max(1)
}

/// Of two sequence numbers the later one, as the fast program's operation of that name has it.
fn later(a: u32, b: u32) -> u32 {
    if a.wrapping_sub(b).cast_signed() < 0 {
        b
    } else {
        a
    }
}

fn is_at_most(a: u32, b: u32) -> bool {
    a.wrapping_sub(b).cast_signed() <= 0
}

/// Whether `a` lies before `b` by at most `reach`, or after it.
fn is_behind_by_at_most(a: u32, b: u32, reach: u32) -> bool {
    b.wrapping_sub(a).cast_signed() <= reach.cast_signed()
}
