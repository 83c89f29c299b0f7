//! What names a payload in remote memory, and what lies in front of it there (Ribosome, Appendix E).
//!
//! ```text
//! Header Info, in front of the payload in remote memory, 4 bytes:
//! | sequence, upper 14 bits; pad, 2 bits | sequence, lower 16 bits |
//! ```
//! The paper's Header Info is a count of pad and an index of a slot. Here the bits that the count leaves
//! free hold the upper bits of a sequence number, of which the index is the lower ones, so that one use
//! of a place in the ring is told from another. The paper's Payload Info (18 bytes: a marker, address,
//! length, queue pair and server), which travels behind the header there, stays with the switch here, in
//! the header's slot: what comes back from a function can name no other payload.

use twinpath_core::wire::roce::pad_bytes;

/// Which payload it is.
pub const HEADER_INFO_BYTES: usize = 4;
/// What names a payload in the paper, Payload Info and Header Info: less is not worth leaving behind.
pub const LEAST_PAYLOAD_BYTES: usize = 18 + HEADER_INFO_BYTES;

/// Sequence numbers have as many bits.
pub const SEQUENCE_BITS: u32 = 30;
const SEQUENCE_MASK: u32 = (1 << SEQUENCE_BITS) - 1;

/// The number of a payload in its ring: 30 bits, after whose end it begins again.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Sequence(u32);

impl Sequence {
    /// The lowest 30 bits.
    #[must_use]
    pub const fn new(number: u32) -> Self {
        Self(number & SEQUENCE_MASK)
    }

    /// The number.
    #[must_use]
    pub const fn number(self) -> u32 {
        self.0
    }

    /// The next one.
    #[must_use]
    pub const fn next(self) -> Self {
        Self::new(self.0 + 1)
    }

    /// How many come from `earlier` to this one.
    #[must_use]
    pub const fn since(self, earlier: Self) -> u32 {
        self.0.wrapping_sub(earlier.0) & SEQUENCE_MASK
    }
}

/// Names a payload in remote memory.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub struct Handle {
    /// Where its Header Info begins.
    pub address: u64,
    /// The payload in bytes.
    pub bytes: u16,
    /// The queue pair that it is read by.
    pub queue_pair: u16,
    /// The memory server.
    pub server: u16,
    /// Which use of the place it is.
    pub sequence: Sequence,
}

/// What stands in front of a payload in remote memory.
#[must_use]
pub fn header_info(sequence: Sequence, payload_bytes: u16) -> [u8; HEADER_INFO_BYTES] {
    let pad = pad_bytes(payload_bytes.into()) as u32;
    let upper = sequence.number() >> 16;
    let lower = sequence.number() & 0xffff;
    (upper << 18 | pad << 16 | lower).to_be_bytes()
}

/// Header Info and pad in front of a payload of so many bytes.
#[must_use]
pub const fn front_bytes(payload_bytes: usize) -> usize {
    HEADER_INFO_BYTES + pad_bytes(payload_bytes)
}

/// What a payload of so many bytes takes in remote memory: a multiple of four.
#[must_use]
pub const fn stored_bytes(payload_bytes: usize) -> usize {
    front_bytes(payload_bytes) + payload_bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_stored_is_whole_words(bytes: u16) {
            prop_assert_eq!(stored_bytes(bytes.into()) % 4, 0);
        }
    }

    #[test]
    fn header_info_has_pad_and_slot_where_the_paper_has_them() {
        let info = |number| header_info(Sequence::new(number), 1397);
        assert_eq!(info(0x1234), [0, 3, 0x12, 0x34]);
        assert_eq!(info(0x2001_1234), [0x80, 7, 0x12, 0x34]);
    }
}
