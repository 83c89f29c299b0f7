//! Which way a packet goes.

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
