//! One rule in one cache line: what is the same over both IP versions.
//!
//! | word | bits from the top |
//! |---|---|
//! | 5 | last use, ns |
//! | 6 | packets 28, bytes 36 |
//! | 7 | of its version 32, TTL decrements 8, marks 8, guard: TCP flags looked at 8, and what they must be 8 |
//!
//! A choice, which each version keeps where it has room, is: egress port or reason to drop 16, place of
//! the MAC addresses 8, of the idle time-out 8.

use crate::action::{self, ActionWords, written_in};
use crate::field::Field;
use crate::headers::Macs;
use crate::key::KeyWords;
use crate::message::Uses;
use crate::progress::TcpProgress;
use twinpath_core::{Decision, DropReason, HashKey, Instant};

/// A line of the table.
pub(crate) type Line = [u64; 8];

const LAST: usize = 5;
const COUNTS: usize = 6;
const MARKS: usize = 7;

/// Of the counts of packets and bytes, which a hit adds to at once.
const PACKETS_SHIFT: u32 = 36;
const BYTES: u64 = (1 << PACKETS_SHIFT) - 1;
const MARKS_SHIFT: u32 = 16;
/// Packets are dropped.
const DROP: u64 = 1 << MARKS_SHIFT;
/// A function has chosen where they leave.
const EGRESS: u64 = 2 << MARKS_SHIFT;
/// It was hit since the last report.
const HIT: u64 = 4 << MARKS_SHIFT;
/// Packets that are not atomic get another identification.
const NUMBERS: u64 = 8 << MARKS_SHIFT;
/// The numbers of the last TCP segment are reported.
const TELLS: u64 = 16 << MARKS_SHIFT;
/// Packets stay as they are, and nobody asks for their numbers.
const COUNTS_ALONE: u64 = 32 << MARKS_SHIFT;

/// A TCP or UDP flow over one IP version as it goes one way through the chain: what rules of one flow
/// are found by, and how a line holds one.
pub(crate) trait FlowOfLine: Copy + Eq {
    /// The word that is zero if a line is free.
    const REST: usize;

    /// Lines for each rule that there may be: with few more searches go on to a second line, which nobody
    /// has fetched.
    const LINES_PER_RULE: usize;

    /// The flow of packets that show this; `None` for what is not TCP or UDP over this version.
    fn of(words: &KeyWords) -> Option<Self>;

    /// TCP flags of the packet.
    fn flags(self) -> u8;

    /// The flow whose rule a line holds.
    fn in_line(line: &Line) -> Self;

    /// Whether a line holds the flow's rule.
    fn is_in(self, line: &Line) -> bool;

    fn hash(self, under: &HashKey) -> u64;

    /// A line for this flow: what the version keeps in it. The words that are the same over both are
    /// written by [`line`].
    fn line(self, action: &ActionWords, choice: u32) -> Line;

    /// What [`Self::line`] was told.
    fn choice(line: &Line) -> u32;

    /// The MAC addresses that lie in the table; those of other actions lie with them.
    fn macs(action: &ActionWords) -> Macs;

    /// Whether a line can hold such an action.
    fn takes(action: &ActionWords) -> bool;

    /// The numbers of the last TCP segment since uses were last taken, of a rule that keeps them in its
    /// line.
    fn progress(line: &Line) -> Option<TcpProgress>;
}

/// A line for an action with a guard.
pub(super) fn line<K: FlowOfLine>(
    key: K,
    action: &ActionWords,
    (macs, idle): (u8, u8),
    guard: u8,
    last: Instant,
) -> Line {
    let verdict = action[5] & 0xff;
    let (mark, where_to) = match verdict {
        0 if written_in(action).has(Field::Egress) => (EGRESS, (action[4] >> 16) as u16),
        0 => (0, 0),
        reason => (DROP, (reason - 1) as u16),
    };
    let choice = u32::from(where_to) << 16 | u32::from(macs) << 8 | u32::from(idle);
    let guards = u64::from(guard) << 8 | u64::from(key.flags() & guard);
    let mut line = key.line(action, choice);
    line[LAST] = last.0;
    line[MARKS] |= mark | marks_of(action) | guards;
    line
}

/// Decrements and marks of an action, but for its verdict.
fn marks_of(action: &ActionWords) -> u64 {
    let bit = |is: bool, mark: u64| if is { mark } else { 0 };
    let decrements = u64::from(action::decrements_in(action));
    let tells = action::tells_progress(action);
    let written = written_in(action);
    let is_written = written.iter().any(|field| field != Field::Egress);
    decrements << 24
        | bit(written.has(Field::Identification), NUMBERS)
        | bit(tells, TELLS)
        | bit(!is_written && decrements == 0 && !tells, COUNTS_ALONE)
}

/// Whether the line's rule looks at no TCP flags, or at such as a packet has.
#[inline(always)]
pub(super) const fn lets_in(line: &Line, flags: u8) -> bool {
    let (mask, value) = ((line[MARKS] >> 8) as u8, line[MARKS] as u8);
    (flags ^ value) & mask == 0
}

/// Whether the line's rule looks at TCP flags.
pub(super) const fn has_guard(line: &Line) -> bool {
    (line[MARKS] >> 8) as u8 != 0
}

/// When the line's rule was used last.
#[inline(always)]
pub(super) const fn last_use(line: &Line) -> u64 {
    line[LAST]
}

/// Counts a packet, and says what becomes of it: it goes on or is dropped.
#[inline(always)]
pub(super) fn count<K: FlowOfLine>(line: &mut Line, bytes: usize, now: Instant) -> Decision {
    line[LAST] = line[LAST].max(now.0);
    // Reports take the counts out, long before there are so many.
    line[COUNTS] = line[COUNTS].saturating_add(1 << PACKETS_SHIFT | bytes as u64);
    line[MARKS] |= HIT;
    let where_to = (K::choice(line) >> 16) as u16;
    match line[MARKS] & (DROP | EGRESS) {
        0 => Decision::FORWARD,
        EGRESS => Decision::Forward {
            egress: Some(where_to),
        },
        _ => drop_for(where_to),
    }
}

#[inline(never)]
fn drop_for(reason: u16) -> Decision {
    let reason = DropReason::all().nth(usize::from(reason));
    // A rule's reason was checked when it was read.
    reason.map_or(Decision::FORWARD, Decision::Drop)
}

/// How the rule was used since its uses were last taken.
pub(super) fn uses<K: FlowOfLine>(line: &Line) -> Uses {
    Uses {
        packets: line[COUNTS] >> PACKETS_SHIFT,
        bytes: line[COUNTS] & BYTES,
        last: Instant(line[LAST]),
        progress: K::progress(line),
    }
}

/// Whether the rule was used since its uses were last taken.
pub(super) const fn is_used(line: &Line) -> bool {
    line[COUNTS] != 0
}

/// Its uses are taken; returns whether it was hit.
pub(super) fn take(line: &mut Line) -> bool {
    let was_hit = line[MARKS] & HIT != 0;
    line[COUNTS] = 0;
    line[MARKS] &= !HIT;
    was_hit
}

/// How often a line's rule counts the time to live down.
#[inline(always)]
pub(crate) const fn decrements(line: &Line) -> u8 {
    (line[MARKS] >> 24) as u8
}

/// Whether a line's rule does nothing to packets but to count them, and drop them or not.
#[inline(always)]
pub(crate) const fn counts_alone(line: &Line) -> bool {
    line[MARKS] & COUNTS_ALONE != 0
}

/// Whether a line's rule has an identification drawn for packets that are not atomic.
#[inline(always)]
pub(crate) const fn numbers(line: &Line) -> bool {
    line[MARKS] & NUMBERS != 0
}

/// Whether a line's rule reports the numbers of the last TCP segment.
#[inline(always)]
pub(crate) const fn tells(line: &Line) -> bool {
    line[MARKS] & TELLS != 0
}
