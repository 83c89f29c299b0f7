//! Which way a packet goes.

use crate::key::Side;

/// Which way a packet goes, as seen by its flow.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Direction {
    /// From the end that opened the flow.
    #[default]
    Original = 0,
    /// Back to it.
    Reply = 1,
}

impl Direction {
    /// Both, for tables indexed by direction.
    pub const BOTH: [Self; 2] = [Self::Original, Self::Reply];

    /// Which way a packet from `side` goes in a flow that `initiator` opened.
    #[inline(always)]
    pub const fn between(side: Side, initiator: Side) -> Self {
        if side as u8 == initiator as u8 {
            Self::Original
        } else {
            Self::Reply
        }
    }

    /// The opposite way.
    pub const fn other(self) -> Self {
        match self {
            Self::Original => Self::Reply,
            Self::Reply => Self::Original,
        }
    }

    /// 0 for original, 1 for reply.
    pub const fn index(self) -> usize {
        self as usize
    }
}
