//! Which bytes are part of a word, and where one begins or ends.

/// What lies between two bytes: a word is letters, digits and `_`, and there is none beyond the ends of
/// a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Edge {
    /// One of them is part of a word (`\b`).
    Boundary,
    /// Both are, or neither (`\B`).
    Within,
}

impl Edge {
    /// Whether it lies between two bytes, of which the second may be beyond the end.
    pub fn is_between(self, before: u8, behind: Option<u8>) -> bool {
        let differ = is_of_word(before) != behind.is_some_and(is_of_word);
        differ == (self == Self::Boundary)
    }
}

/// Whether a byte is part of a word.
pub(super) const fn is_of_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}
