//! What a TCP segment says of its connection.

/// How far a connection is, as one of its ends said last.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct TcpProgress {
    /// The sequence number of its last segment.
    pub sequence: u32,
    /// That segment's acknowledgement number, whether or not it had the flag.
    pub acknowledgement: u32,
}

impl TcpProgress {
    /// What eight bytes of a TCP header say, from the sequence number on.
    #[inline(always)]
    pub const fn from_word(word: u64) -> Self {
        Self {
            sequence: (word >> 32) as u32,
            acknowledgement: word as u32,
        }
    }

    pub(crate) const fn word(self) -> u64 {
        (self.sequence as u64) << 32 | self.acknowledgement as u64
    }
}
