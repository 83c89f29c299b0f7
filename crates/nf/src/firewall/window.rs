//! Which sequence and acknowledgement numbers a connection can have: window tracking.
//!
//! For each direction the firewall keeps four numbers, the first three as Guido van Rooij's "Real
//! Stateful TCP Packet Filtering in IP Filter" (2001) has them:
//!
//! - `end`: the highest sequence number sent (end of segment),
//! - `limit`: the highest that may be sent, which is what the other end has acknowledged plus its
//!   window,
//! - `window`: the largest window offered,
//! - `acknowledged`: the highest that the other end has acknowledged, which is what it expects next.
//!
//! A segment from A to B is believable if
//!
//! 1. it ends at or before A's `limit` (B's window has room for it),
//! 2. it ends at most one of B's windows before A's `end` (B may still have use for it),
//! 3. it acknowledges nothing beyond B's `end` (nothing that B has not sent),
//! 4. it acknowledges at least what A had acknowledged before, less A's largest window, which
//!    counts as 66,000 bytes at least and 1 MiB at most (RFC 5961 §5: nothing from long ago).
//!
//! A reset counts only if its number is the one that its receiver expects (RFC 5961 §3): what B has
//! acknowledged, or A's `end`, for B may have got all of it by now; not where a segment before that
//! end was missed and B has not acknowledged all of it: whoever hits the window with data could say
//! himself where it ends. If it lies between what B has
//! acknowledged and A's `limit` it may be right all the same, where the firewall has not seen all
//! segments, or forged. Then it passes and changes nothing: B resets, or challenges it with an
//! acknowledgement, to which A, if it is really gone, answers with a reset that is exact.
//!
//! A FIN is no less than a reset: where its number is the next of its end it ends that half of the
//! connection. Elsewhere in the window it counts as data, until the other end has acknowledged all that
//! there is, the FIN with it; not if data has come since up to where the FIN was, or beyond it.
//!
//! Everything is modulo 2^32; the largest window is 2^30, so that signed differences decide.

use twinpath_core::Direction;

use super::segment::{MAX_SCALE, Segment};
use super::tcp_state::{End, SegmentKind, TcpState};

/// The scale number of an end that did not offer one in its SYN.
pub const SCALE_NOT_OFFERED: u8 = MAX_SCALE + 1;
/// How far behind the last one an acknowledgement may always be, in bytes.
pub const MIN_ACKNOWLEDGEMENT_REACH: u32 = 66_000;
/// How far behind it may be at most, in bytes, however large the window: who does not see the
/// connection has to guess one of 4,096 ranges.
pub const MAX_ACKNOWLEDGEMENT_REACH: u32 = 1 << 20;
/// How much an end of a connection that was met in mid-stream may have got before, in bytes: as much as
/// the largest buffers of hosts hold. The first segment seen may be one that is sent again, because
/// acknowledgements of what came behind it were lost.
const MAX_UNSEEN: i32 = 1 << 25;
/// No window is larger, in bytes.
pub const MAX_WINDOW: u32 = (u16::MAX as u32) << MAX_SCALE;

/// What is known of one direction.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Half {
    /// Highest sequence number sent: the number after the last byte.
    pub end: u32,
    /// Highest sequence number that may be sent.
    pub limit: u32,
    /// Largest window offered, in bytes; at least 1 once a segment of this direction was seen,
    /// so 0 says that none was.
    pub window: u32,
    /// Highest sequence number that the other end has acknowledged. Before it has acknowledged
    /// any, that of the first segment.
    pub acknowledged: u32,
    /// A segment began behind the end of all others, and the other end has not acknowledged all
    /// that there is since: it may not have got what is before it, or not have taken it.
    pub has_gap: bool,
    /// A FIN came that left a gap, or came behind one, and no data beyond it since.
    pub has_fin: bool,
}

/// The windows of a connection, indexed by [`Direction`].
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Windows {
    /// What is known of each direction.
    pub halves: [Half; 2],
    /// How far the windows that this direction's segments carry are to be shifted.
    pub scales: [u8; 2],
}

/// What a segment's numbers make of it.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum WindowVerdict {
    /// They are the connection's: it moves on.
    Believed,
    /// They may be. The segment passes and changes nothing: its receiver knows better, and
    /// answers one that is not right with an acknowledgement (a challenge, RFC 5961).
    Challenged,
    /// They are not.
    Refused,
}

impl WindowVerdict {
    const fn believed_if(is_believable: bool) -> Self {
        match is_believable {
            true => Self::Believed,
            false => Self::Refused,
        }
    }
}

impl Windows {
    /// Judges a segment that comes in this state from this end, and takes note of it if it is
    /// believed.
    pub fn judge(&mut self, state: TcpState, from: End, segment: &Segment) -> WindowVerdict {
        use WindowVerdict::{Believed, Challenged};
        match (state, from, segment.kind) {
            (TcpState::SynSent, End::Opener, SegmentKind::Syn) => {
                self.hear_another_syn(segment);
                Believed
            }
            // Both open at once: what the responder answers settles the windows.
            (TcpState::SynSent, End::Opener, _) => {
                WindowVerdict::believed_if(self.has_syn(segment.direction, segment.sequence))
            }
            (TcpState::SynSent, _, SegmentKind::Reset) => self.judge_refusal(segment),
            (TcpState::SynSent, _, _) => WindowVerdict::believed_if(self.answer_syn(segment)),
            (_, _, SegmentKind::Reset) => self.judge_reset(segment),
            (TcpState::PickedUp, End::Opener, _) if self.is_near(segment) => {
                self.hear_one_end(segment);
                Believed
            }
            (TcpState::PickedUp, End::Opener, _) => Challenged,
            (TcpState::PickedUp, End::Responder, _) => {
                WindowVerdict::believed_if(self.hear_other_end(segment))
            }
            (TcpState::SynReceived, End::Opener, _) if !self.acknowledges_syn(segment) => {
                WindowVerdict::Refused
            }
            _ => WindowVerdict::believed_if(self.is_in_window(segment) && self.advance(segment)),
        }
    }

    /// A reset in answer to a SYN has to acknowledge it.
    fn judge_refusal(&self, segment: &Segment) -> WindowVerdict {
        match self.acknowledges_syn(segment) {
            true if self.acknowledges_first_syn(segment) => WindowVerdict::Believed,
            true => WindowVerdict::Challenged,
            false => WindowVerdict::Refused,
        }
    }

    fn judge_reset(&self, segment: &Segment) -> WindowVerdict {
        let (mine, sequence) = (&self.halves[segment.direction.index()], segment.sequence);
        let is_in_window =
            is_at_most(mine.acknowledged, sequence) && is_at_most(sequence, mine.limit);
        match (self.is_next(segment), is_in_window) {
            (true, _) => WindowVerdict::Believed,
            (false, true) => WindowVerdict::Challenged,
            (false, false) => WindowVerdict::Refused,
        }
    }

    /// Whether a segment with this sequence number, from this end in this direction, may be under
    /// way: it was sent and has not been acknowledged.
    pub fn is_under_way(&self, state: TcpState, direction: Direction, sequence: u32) -> bool {
        let half = &self.halves[direction.index()];
        let was_sent = half.window != 0
            && is_at_most(half.acknowledged, sequence)
            && is_at_most(sequence, half.end);
        was_sent || (state == TcpState::SynSent && self.has_syn(direction, sequence))
    }

    /// Whether a segment begins where its receiver expects the next one, as far as is known.
    pub fn is_next(&self, segment: &Segment) -> bool {
        let (mine, sequence) = (&self.halves[segment.direction.index()], segment.sequence);
        sequence == mine.acknowledged || sequence == mine.end && !mine.has_gap
    }

    /// Whether a segment begins behind all that its sender has sent so far.
    pub fn leaves_gap(&self, segment: &Segment) -> bool {
        let end = self.halves[segment.direction.index()].end;
        !is_at_most(segment.sequence, end)
    }

    /// Whether a segment lies near what the same end has sent before. Nothing else is known of a
    /// connection that was met in mid-stream until the other end is heard.
    fn is_near(&self, segment: &Segment) -> bool {
        let mine = &self.halves[segment.direction.index()];
        let distance = segment.end.wrapping_sub(mine.end).cast_signed();
        distance.unsigned_abs() <= MAX_ACKNOWLEDGEMENT_REACH
    }

    /// Takes note of a segment while only its sender has been heard: there is nothing to hold it
    /// against.
    pub(super) fn hear_one_end(&mut self, segment: &Segment) {
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
            theirs.acknowledged = later(theirs.acknowledged, number);
        }
    }

    /// The first segment from the other end of a connection that was met in mid-stream. It may
    /// acknowledge more than was seen.
    fn hear_other_end(&mut self, segment: &Segment) -> bool {
        let (sender, receiver) = (segment.direction.index(), segment.direction.other().index());
        let Some(acknowledged) = segment.acknowledgement else {
            return false;
        };
        let distance = acknowledged.wrapping_sub(self.halves[receiver].end);
        let is_near = distance.cast_signed() <= MAX_UNSEEN
            && distance.cast_signed() >= -MAX_WINDOW.cast_signed();
        if !self.has_believable_sequence(segment) || !is_near {
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
        theirs.acknowledged = acknowledged;
        true
    }

    /// Whether a segment acknowledges about what the other end has sent last, which nobody knows
    /// who does not hear it.
    pub(super) fn hears_the_other_end(&self, segment: &Segment) -> bool {
        let theirs = &self.halves[segment.direction.other().index()];
        let reach = self.acknowledgement_reach(segment.direction);
        segment.acknowledgement.is_some_and(|number| {
            is_at_most(number, theirs.end) && is_behind_by_at_most(number, theirs.end, reach)
        })
    }

    /// How far behind acknowledgements in this direction may be.
    fn acknowledgement_reach(&self, direction: Direction) -> u32 {
        let window = self.halves[direction.index()].window;
        window.clamp(MIN_ACKNOWLEDGEMENT_REACH, MAX_ACKNOWLEDGEMENT_REACH)
    }

    /// All four bounds; those on acknowledgements only where there is one.
    fn is_in_window(&self, segment: &Segment) -> bool {
        let theirs = &self.halves[segment.direction.other().index()];
        let reach = self.acknowledgement_reach(segment.direction);
        let acknowledges = |number| {
            is_at_most(number, theirs.end)
                && is_behind_by_at_most(number, theirs.acknowledged, reach)
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
        let (window, leaves_gap) = (self.window_of(segment), self.leaves_gap(segment));
        let is_next = self.is_next(segment);
        let mine = &mut self.halves[segment.direction.index()];
        let goes_beyond = !is_at_most(segment.end, mine.end);
        let is_fin = segment.kind == SegmentKind::Fin;
        let has_fin_elsewhere = is_fin && !is_next && goes_beyond;
        let has_data_to_the_end =
            !is_fin && segment.end != segment.sequence && is_at_most(mine.end, segment.end);
        mine.has_fin = has_fin_elsewhere || mine.has_fin && !has_data_to_the_end;
        mine.has_gap |= leaves_gap || has_fin_elsewhere;
        mine.end = later(mine.end, segment.end);
        let Some(number) = segment.acknowledgement else {
            return true;
        };
        mine.window = mine.window.max(window);
        let theirs = &mut self.halves[segment.direction.other().index()];
        theirs.has_gap &= number != theirs.end;
        theirs.has_fin &= number != theirs.end;
        theirs.limit = later(theirs.limit, number.wrapping_add(window));
        theirs.acknowledged = later(theirs.acknowledged, number);
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

pub(super) fn at_least_one(window: u32) -> u32 {
    window.max(1)
}

/// Of two sequence numbers the later one, as the fast program's operation of that name has it.
pub(super) const fn later(a: u32, b: u32) -> u32 {
    if a.wrapping_sub(b).cast_signed() < 0 {
        b
    } else {
        a
    }
}

/// Half of all numbers are. The one that lies opposite is not, though it is before `b` as much as
/// after it: nobody can be both one window behind and not ahead.
pub(super) const fn is_at_most(a: u32, b: u32) -> bool {
    b.wrapping_sub(a).cast_signed() >= 0
}

/// Whether `a` lies before `b` by at most `reach`, or after it.
pub(super) const fn is_behind_by_at_most(a: u32, b: u32, reach: u32) -> bool {
    b.wrapping_sub(a).cast_signed() <= reach.cast_signed()
}
