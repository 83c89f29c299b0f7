//! The flow's state words, by name.

use super::limits::MAX_RULES;
use super::rules::RuleIndex;
use twinpath_core::Direction;
use twinpath_core::program::Word;

/// Bits for both directions.
pub(super) const FLAGS: usize = 0;
/// The sequence number after the last byte from the opener that was inspected, or that need not be;
/// the other end's is in the word after it. Of datagrams: bytes so far.
pub(super) const NEXT: usize = 1;
/// The sequence number of the first byte from the opener; the other end's is in the word after it.
pub(super) const START: usize = 3;
/// When the flow last mattered, in ticks.
pub(super) const LAST_SEEN: usize = 5;

pub(super) const WORDS: [Word; 6] = [
    Word {
        name: "flags",
        meaning: "1 banned, 2 something may be half seen; which directions are known, inspected, lack bytes, finished, picked up; whether both ends were heard; from bit 18 on which end has sent another SYN or, once banned, the rule that has banned it, counted from 1",
    },
    Word {
        name: "next_original",
        meaning: "number of the next byte from the opener",
    },
    Word {
        name: "next_reply",
        meaning: "number of the next byte towards the opener",
    },
    Word {
        name: "start_original",
        meaning: "number of the first byte from the opener, or of that after bytes that were passed over",
    },
    Word {
        name: "start_reply",
        meaning: "number of the first byte towards the opener, or of that after bytes that were passed over",
    },
    Word {
        name: "last_seen",
        meaning: "time of the last packet that mattered, in ticks",
    },
];

/// The flow is banned.
pub(super) const BANNED: u32 = 1;
/// Something may be half seen; the workers know what.
pub(super) const STREAMING: u32 = 2;
/// Both ends have finished, or one has reset the connection.
pub(super) const CLOSED: u32 = 4;
const TRACKED: u32 = 1 << 4;
const DONE: u32 = 1 << 6;
const MISSING: u32 = 1 << 8;
const GAP: u32 = 1 << 10;
const FINISHED: u32 = 1 << 12;
const PICKED_UP: u32 = 1 << 14;
/// Both ends were heard, and one has acknowledged what the other had sent.
pub(super) const CONFIRMED: u32 = 1 << 16;
/// The flow is one of datagrams.
pub(super) const DATAGRAMS: u32 = 1 << 17;

/// The rule that has banned a flow, counted from 1: the bits above all others.
const RULE_SHIFT: u32 = 18;
const _: () = assert!((MAX_RULES as u64) < 1 << (32 - RULE_SHIFT));

/// Whoever is banned needs no marks of handshakes: they are where the rule stands then.
const ASKED_ANEW: u32 = 1 << RULE_SHIFT;
/// Of one direction it is known where it begins from the answer to its SYN alone.
const ASSUMED: u32 = 1 << 3;

/// The direction's end has sent a SYN that its receiver may take, and begin anew, or not.
pub(super) const fn asked_anew(way: Direction) -> u32 {
    ASKED_ANEW << way.index()
}

/// A rule among the flags of a flow that it has banned.
pub(super) const fn banned_by(rule: RuleIndex) -> u32 {
    (rule as u32 + 1) << RULE_SHIFT
}

/// The rule that has banned a flow, if one has.
pub(super) fn banning_rule(flags: u32) -> Option<RuleIndex> {
    let number = (flags >> RULE_SHIFT).checked_sub(1)?;
    (flags & BANNED != 0).then_some(number as RuleIndex)
}

/// The direction's numbers are known.
pub(super) const fn tracked(way: Direction) -> u32 {
    TRACKED << way.index()
}

/// As much of the direction as is to be inspected has been.
pub(super) const fn done(way: Direction) -> u32 {
    DONE << way.index()
}

/// A segment of the direction was dropped, for bytes before it were missing.
pub(super) const fn missing(way: Direction) -> u32 {
    MISSING << way.index()
}

/// Bytes of the direction were passed over, which may still come.
pub(super) const fn gap(way: Direction) -> u32 {
    GAP << way.index()
}

/// The direction was met in mid-stream, and its receiver has not said that it has what lies in front.
pub(super) const fn picked_up(way: Direction) -> u32 {
    PICKED_UP << way.index()
}

/// The direction's FIN has come by, and no data behind it.
pub(super) const fn finished(way: Direction) -> u32 {
    FINISHED << way.index()
}

/// The words of one flow.
pub(super) struct State<'a>(pub &'a mut [u32]);

impl State<'_> {
    pub fn has(&self, flag: u32) -> bool {
        self.0[FLAGS] & flag != 0
    }

    pub fn set(&mut self, flag: u32) {
        self.0[FLAGS] |= flag;
    }

    pub fn unset(&mut self, flag: u32) {
        self.0[FLAGS] &= !flag;
    }

    pub fn is_known(&self) -> bool {
        self.0[FLAGS] != 0
    }

    pub fn next(&self, way: Direction) -> u32 {
        self.0[NEXT + way.index()]
    }

    pub fn set_next(&mut self, way: Direction, next: u32) {
        self.0[NEXT + way.index()] = next;
    }

    /// The number of a direction's first byte.
    pub fn first(&self, way: Direction) -> u32 {
        self.0[START + way.index()]
    }

    /// The next byte is the one with so many before it.
    pub fn set_position(&mut self, way: Direction, position: u32) {
        let next = self.first(way).wrapping_add(position);
        self.set_next(way, next);
    }

    /// No more is to be inspected of a direction once so many bytes have been.
    pub fn end_at(&mut self, way: Direction, depth: u32) {
        if self.position(way) >= depth {
            self.set(done(way));
        }
    }

    /// How many bytes lie before the next one.
    pub fn position(&self, way: Direction) -> u32 {
        self.next(way).wrapping_sub(self.first(way))
    }

    /// What is forbidden was found, by a rule if one says what. Whether both ends were heard is
    /// remembered.
    pub fn ban(&mut self, rule: Option<RuleIndex>) {
        let rule = rule.map_or(0, banned_by);
        self.0[FLAGS] = BANNED | self.0[FLAGS] & CONFIRMED | rule;
    }

    /// Rules have other numbers now.
    pub fn forget_rule(&mut self) {
        self.0[FLAGS] &= (1 << RULE_SHIFT) - 1;
    }

    /// Both ends were heard. With the handshake's end it is known which SYNs were taken.
    pub fn confirm(&mut self) {
        if !self.has(CONFIRMED) {
            self.unset(ASKED_ANEW | ASKED_ANEW << 1);
            self.set(CONFIRMED);
        }
    }

    /// The answer to a SYN that was not seen has said where its direction begins.
    pub fn assume(&mut self) {
        self.set(ASSUMED);
    }

    /// Whether a SYN with ACK may begin a connection where one is known: as the answer to a SYN that
    /// came on it, or where its other end was never heard.
    pub fn may_be_answered_anew(&self, asked: Direction) -> bool {
        self.has(asked_anew(asked)) || self.has(ASSUMED) && !self.has(CONFIRMED)
    }

    /// A direction is met in mid-stream.
    pub fn pick_up(&mut self, way: Direction, first: u32) {
        self.start(way, first);
        self.set(picked_up(way));
    }

    /// A direction begins.
    pub fn start(&mut self, way: Direction, first: u32) {
        let old = done(way) | missing(way) | gap(way) | finished(way) | picked_up(way);
        self.0[FLAGS] = self.0[FLAGS] & !old | tracked(way);
        self.0[NEXT + way.index()] = first;
        self.0[START + way.index()] = first;
    }

    /// A direction ends.
    pub fn finish(&mut self, way: Direction) {
        self.set(finished(way));
        let both = finished(Direction::Original) | finished(Direction::Reply);
        if self.0[FLAGS] & both == both {
            self.set(CLOSED);
        }
    }

    pub fn set_last_seen(&mut self, ticks: u32) {
        self.0[LAST_SEEN] = ticks;
    }
}
